//! Clients of a cluster that follow redirections at once, and time each request to its answer.

use super::{name_of, value};
use crate::resp::{Answer, Resp};
use silica::{Error, ErrorKind, Result};
use silica_base::{Histogram, Prng};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Redirections of one request; more are a ring.
const HOPS_MAX: usize = 100_000;

/// What was timed, in nanoseconds.
pub(super) struct Times {
    pub(super) all: Histogram,
    pub(super) longest: Duration,
    /// What the longest was answered with on its way, and when.
    pub(super) longest_way: String,
    /// Answers that told to try again.
    pub(super) again: u64,
}

impl Times {
    fn new() -> Self {
        let (longest, longest_way) = (Duration::ZERO, String::new());
        Times { all: Histogram::default(), longest, longest_way, again: 0 }
    }
}

/// What clients share.
struct Shared {
    stop: AtomicBool,
    times: Mutex<Times>,
    failed: Mutex<Option<Error>>,
}

/// Running clients.
pub(super) struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts `count` clients of the nodes at `addresses`, of which `home` has the keys. Each reads
    /// and writes keys of its own.
    pub(super) fn start(
        addresses: [SocketAddr; 2],
        home: usize,
        (keys, count): (u64, usize),
    ) -> Result<Self> {
        let times = Mutex::new(Times::new());
        let shared = Shared { stop: AtomicBool::new(false), times, failed: Mutex::default() };
        let shared = Arc::new(shared);
        let mut threads = Vec::new();
        for nth in 0..count as u64 {
            let nodes = [Resp::connect(addresses[0])?, Resp::connect(addresses[1])?];
            let mut client = Client { nodes, addresses, home, way: Vec::new(), again: 0 };
            let shared = Arc::clone(&shared);
            let share = (nth, count as u64, keys);
            threads.push(std::thread::spawn(move || {
                if let Err(error) = client.work(share, &shared) {
                    *lock(&shared.failed) = Some(error);
                }
            }));
        }
        Ok(Clients { shared, threads })
    }

    /// What was timed since the last call.
    ///
    /// # Errors
    /// If a client has failed.
    pub(super) fn take(&self) -> Result<Times> {
        let times = std::mem::replace(&mut *lock(&self.shared.times), Times::new());
        lock(&self.shared.failed).take().map_or(Ok(times), Err)
    }

    pub(super) fn stop(mut self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let broken = |_| Error::new(ErrorKind::Io, "a client panicked");
            thread.join().map_err(broken)?;
        }
        lock(&self.shared.failed).take().map_or(Ok(()), Err)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Client {
    nodes: [Resp; 2],
    addresses: [SocketAddr; 2],
    home: usize,
    /// What the request was answered with so far, and when, from its beginning.
    way: Vec<(String, Duration)>,
    again: u64,
}

impl Client {
    fn work(&mut self, (nth, of, keys): (u64, u64, u64), shared: &Shared) -> Result<()> {
        let mut prng = Prng::new(nth + 1);
        let mine = (keys / of).max(1);
        // What each of its keys was written with; nothing is known of what others have left there.
        let mut written: Vec<Option<u64>> = vec![None; mine as usize];
        let mut number = 1;
        while !shared.stop.load(Ordering::Relaxed) {
            let pick = prng.below(mine);
            let name = name_of(pick * of + nth);
            let known = &mut written[pick as usize];
            self.way.clear();
            let begun = Instant::now();
            let answer = if prng.below(2) == 0 {
                self.call(&[b"GET", &name], begun)?
            } else {
                number += 1;
                *known = Some(number);
                self.call(&[b"SET", &name, &value(number)], begun)?
            };
            let took = begun.elapsed();
            let is_right = match (&answer, *known) {
                (Answer::Text(text), _) if text == b"OK" => true,
                (Answer::Text(text), None) => text.len() == value(0).len(),
                (Answer::Text(text), Some(number)) => *text == value(number),
                _ => false,
            };
            if !is_right {
                let text = format!("a key was read that nobody wrote: {:.60}", answer.text());
                return Err(Error::new(ErrorKind::Corruption, text));
            }
            let mut times = lock(&shared.times);
            times.all.record(took.as_nanos() as u64);
            times.again += std::mem::take(&mut self.again);
            if took > times.longest {
                times.longest = took;
                let step = |(what, at): &(String, Duration)| {
                    format!("{what} at {:.2} ms", at.as_secs_f64() * 1e3)
                };
                let steps: Vec<String> = self.way.iter().take(8).map(step).collect();
                times.longest_way = steps.join(", ");
            }
        }
        Ok(())
    }

    /// The final answer to a request.
    fn call(&mut self, words: &[&[u8]], begun: Instant) -> Result<Answer> {
        let (mut node, mut asks) = (self.home, false);
        for _ in 0..HOPS_MAX {
            if asks {
                self.nodes[node].ask(&[b"ASKING"])?;
                self.way.push(("ASKING".into(), begun.elapsed()));
            }
            let answer = self.nodes[node].ask(words)?;
            let word = match &answer {
                Answer::Failed(text) => text.split(' ').next().unwrap_or_default().to_string(),
                _ => "answer".to_string(),
            };
            self.way.push((format!("{word} of node {node}"), begun.elapsed()));
            let Answer::Failed(text) = &answer else { return Ok(answer) };
            let place = text.rsplit(' ').next().and_then(|place| place.parse::<SocketAddr>().ok());
            let place = place.and_then(|place| self.addresses.iter().position(|at| *at == place));
            (node, asks) = match (&*word, place) {
                ("ASK", Some(place)) => (place, true),
                ("MOVED", Some(place)) => {
                    self.home = place;
                    (place, false)
                }
                ("TRYAGAIN", _) => {
                    self.again += 1;
                    (self.home, false)
                }
                _ => return Ok(answer),
            };
        }
        Err(Error::new(ErrorKind::Busy, "a request is sent from node to node for ever"))
    }
}
