//! The client: its connections in one ring, so that all that is ready is sent and received by one
//! system call.

use super::Done;
use super::script::{Heard, Script, nonsense};
use silica::{Error, ErrorKind, Result};
use silica_net::{SocketEvent, SocketRing};
use std::io;
use std::mem::take;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// One connection.
struct Lane {
    end: TcpStream,
    script: Script,
    /// The train under way, or the next.
    train: usize,
    /// The bytes of a train, while they are not being sent, and how many were.
    output: Vec<u8>,
    sent: usize,
    sending: bool,
    /// Bytes that came in answer to the train.
    came: usize,
    /// All of them, where they are not what was expected.
    strange: Vec<u8>,
    misses: u64,
    is_busy: bool,
    /// All replies have come.
    is_answered: bool,
    /// When the train left, or should have left.
    due: Instant,
    /// The client is told what comes on it.
    receiving: bool,
}

/// When to begin no more trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// After this time.
    Time(Duration),
    /// When all scripts were said once.
    Once,
}

/// What an event of a lane asks for.
enum Step {
    /// The train is not over.
    Wait,
    /// Its last reply has come.
    Over,
    /// Not all of it was sent.
    Send,
}

/// Connections of one thread. The ring goes before the sockets.
pub(crate) struct Client {
    name: &'static str,
    ring: SocketRing,
    lanes: Vec<Lane>,
    /// Lanes whose train is under way.
    busy: usize,
    /// The time between two trains of a lane, where they do not leave as soon as they can.
    period: Option<Duration>,
    done: Done,
    /// The time at the last look.
    now: Instant,
}

impl Client {
    /// A client that says one of `scripts` over each of `ends`.
    pub(crate) fn new(
        name: &'static str,
        ends: Vec<TcpStream>,
        scripts: Vec<Script>,
    ) -> Result<Self> {
        let failed = |e| Error::io("setting up io_uring, which the load takes", e);
        let ring = SocketRing::new().map_err(failed)?;
        let now = Instant::now();
        let lane = |(end, script): (TcpStream, Script)| Lane {
            end,
            script,
            train: 0,
            output: Vec::new(),
            sent: 0,
            sending: false,
            came: 0,
            strange: Vec::new(),
            misses: 0,
            is_busy: false,
            is_answered: false,
            due: now,
            receiving: false,
        };
        let lanes = ends.into_iter().zip(scripts).map(lane).collect();
        let done = Done::default();
        Ok(Client { name, ring, lanes, busy: 0, period: None, done, now })
    }

    /// Lets trains leave at fixed times from now on, so that `rate` operations begin in a second.
    /// What a train takes counts from its time, whether it could leave then or not.
    pub(crate) fn pace(&mut self, rate: f64) {
        let operations: u64 = self.lanes.iter().map(|lane| lane.script.operations(0)).sum();
        self.period = Some(Duration::from_secs_f64(operations as f64 / rate.max(1.0)));
    }

    /// Says every script once; what that did.
    pub(crate) fn once(&mut self) -> Result<Done> {
        self.go_on(Until::Once)
    }

    /// Goes on for `time`, or longer until something is done, and waits for what is under way or
    /// was due then; the operations that were done within the time, and the latencies of all that
    /// began in it. Where there is a pace, times begin anew: nothing is due between two slices.
    pub(crate) fn slice(&mut self, time: Duration) -> Result<Done> {
        self.go_on(Until::Time(time))
    }

    fn go_on(&mut self, until: Until) -> Result<Done> {
        let began = Instant::now();
        self.now = began;
        self.done = Done::default();
        self.begin();
        let mut over: Option<(Done, Instant)> = None;
        let mut heard = began;
        loop {
            self.send_due(over.as_ref().map_or(self.now, |(_, end)| *end));
            if self.busy == 0 && (over.is_some() || until == Until::Once) {
                break;
            }
            self.ring.look().map_err(|e| Error::io("entering io_uring", e))?;
            let before = self.now;
            self.now = Instant::now();
            let came = self.take_events(over.is_none(), until)?;
            if came == 0 {
                self.done.idle_seconds += (self.now - before).as_secs_f64();
                if self.busy > 0 && self.now - heard > SILENCE_MAX {
                    let message = format!("{} does not answer", self.name);
                    return Err(Error::new(ErrorKind::Io, message));
                }
                std::hint::spin_loop();
            } else {
                heard = self.now;
            }
            let something = self.done.operations > 0;
            if over.is_none() && something && until.is_over(self.now - began) {
                self.done.seconds = (self.now - began).as_secs_f64();
                over = Some((take(&mut self.done), self.now));
            }
        }
        self.done.seconds = began.elapsed().as_secs_f64();
        let last = take(&mut self.done);
        Ok(match over {
            None => last,
            Some((mut done, _)) => {
                // A server that did not answer at the end has let those wait, too.
                done.latencies.merge(&last.latencies);
                done
            }
        })
    }

    /// Begins every lane's first train, or sets the times of all.
    fn begin(&mut self) {
        let lanes = self.lanes.len() as u32;
        for index in 0..self.lanes.len() {
            self.receive(index);
            if let Some(period) = self.period {
                self.lanes[index].due = self.now + period * index as u32 / lanes;
            } else if self.lanes[index].script.trains() > 0 {
                self.lanes[index].due = self.now;
                self.send(index);
            }
        }
    }

    /// Begins the trains that were due at `time`.
    fn send_due(&mut self, time: Instant) {
        if self.period.is_none() {
            return;
        }
        for index in 0..self.lanes.len() {
            if !self.lanes[index].is_busy && self.lanes[index].due <= time {
                self.send(index);
            }
        }
    }

    /// Looks at what came, and begins the next trains where `more` may begin; how many events
    /// there were.
    fn take_events(&mut self, more: bool, until: Until) -> Result<usize> {
        let mut seen = 0;
        loop {
            let Some(event) = self.ring.next() else { return Ok(seen) };
            seen += 1;
            let (index, step) = take_event(self.name, &mut self.lanes, event)?;
            match step {
                Step::Wait => {}
                Step::Send => self.send_rest(index),
                Step::Over => {
                    self.end_train(index);
                    let is_last = self.lanes[index].train == 0 && until == Until::Once;
                    if more && !is_last && self.period.is_none() {
                        self.lanes[index].due = self.now;
                        self.send(index);
                    }
                }
            }
            self.receive(index);
        }
    }

    /// Counts a train that is over.
    fn end_train(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        self.done.misses += lane.misses;
        self.done.operations += lane.script.operations(lane.train);
        self.done.latencies.record((self.now - lane.due).as_nanos() as u64);
        lane.train = (lane.train + 1) % lane.script.trains();
        lane.is_busy = false;
        lane.due += self.period.unwrap_or_default();
        self.busy -= 1;
    }

    /// Begins the lane's train.
    fn send(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        (lane.sent, lane.came, lane.misses) = (0, 0, 0);
        (lane.is_busy, lane.is_answered) = (true, false);
        lane.strange.clear();
        lane.output.clear();
        lane.output.extend_from_slice(lane.script.requests(lane.train));
        self.busy += 1;
        self.send_rest(index);
    }

    fn send_rest(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        lane.sending = true;
        self.ring.send(lane.end.as_fd(), take(&mut lane.output), lane.sent, index as u64);
    }

    fn receive(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if !lane.receiving {
            lane.receiving = true;
            self.ring.receive(lane.end.as_fd(), index as u64);
        }
    }
}

/// Tells the lane that it is about what happened.
fn take_event(
    name: &'static str,
    lanes: &mut [Lane],
    event: SocketEvent<'_>,
) -> Result<(usize, Step)> {
    let failed = |e: io::Error| Error::io(format!("talking to {name}"), e);
    let (SocketEvent::Received { token, .. }
    | SocketEvent::Sent { token, .. }
    | SocketEvent::Stopped { token, .. }
    | SocketEvent::Ready { token }) = event;
    let index = token as usize;
    let lane = &mut lanes[index];
    match event {
        SocketEvent::Received { bytes, more, .. } => {
            lane.receiving = more;
            lane.hear(name, bytes)?;
        }
        SocketEvent::Sent { bytes, result, .. } => {
            lane.sending = false;
            lane.sent += result.map_err(failed)?;
            lane.output = bytes;
            if lane.sent < lane.output.len() {
                return Ok((index, Step::Send));
            }
        }
        SocketEvent::Stopped { result, .. } => {
            lane.receiving = false;
            match result {
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(e) => return Err(failed(e)),
                Ok(()) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
            }
        }
        SocketEvent::Ready { .. } => {}
    }
    let is_over = lane.is_busy && lane.is_answered && !lane.sending;
    Ok((index, if is_over { Step::Over } else { Step::Wait }))
}

impl Lane {
    /// Takes in what came.
    fn hear(&mut self, name: &'static str, bytes: &[u8]) -> Result<()> {
        let wanted = self.script.replies(self.train);
        let before = self.came;
        self.came += bytes.len();
        if self.strange.is_empty() && wanted.get(before..self.came) == Some(bytes) {
            self.is_answered = self.came == wanted.len();
            return Ok(());
        }
        if self.strange.is_empty() {
            self.strange.extend_from_slice(&wanted[..before]);
        }
        self.strange.extend_from_slice(bytes);
        match self.script.hear(self.train, &self.strange) {
            Heard::Part => {}
            Heard::All(misses) => (self.misses, self.is_answered) = (misses, true),
            Heard::Nonsense(at) | Heard::More(_, at) => {
                return Err(nonsense(name, &self.strange[at..]));
            }
        }
        Ok(())
    }
}

impl Until {
    fn is_over(self, elapsed: Duration) -> bool {
        matches!(self, Until::Time(time) if elapsed >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::{sleep, spawn};

    const LANES: usize = 2;
    const MESSAGE_BYTES: usize = 8;
    /// Messages a second.
    const RATE: f64 = 1000.0;

    /// A paced client of a server that answers each message; the first connection's answer waits
    /// once for `stall`, after so many messages.
    fn paced(messages: usize, stall: Duration) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(move || {
            for (number, end) in listener.incoming().enumerate() {
                let mut end = end.unwrap();
                spawn(move || {
                    let mut message = [0; MESSAGE_BYTES];
                    for count in 0.. {
                        if end.read_exact(&mut message).is_err() {
                            return;
                        }
                        if count == messages && number == 0 {
                            sleep(stall);
                        }
                        if end.write_all(&message).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let ends = (0..LANES).map(|_| TcpStream::connect(address).unwrap()).collect();
        let scripts = Script::of_echo(LANES, 1, MESSAGE_BYTES);
        let mut client = Client::new("a test", ends, scripts).unwrap();
        client.pace(RATE);
        client
    }

    #[test]
    fn nothing_is_due_between_slices() {
        let mut client = paced(usize::MAX, Duration::ZERO);
        client.slice(Duration::from_millis(100)).unwrap();
        let pause = Duration::from_secs(2);
        sleep(pause);
        let done = client.slice(Duration::from_millis(100)).unwrap();
        let usual = Duration::from_nanos(done.latencies.quantile(0.5));
        assert!(usual < pause / 2, "{usual:?}");
        assert!(done.operations < RATE as u64, "{}", done.operations);
    }

    /// All that was due while a server did not answer has waited, to the end of its slice and
    /// beyond.
    #[test]
    fn what_was_due_counts_from_then_to_the_end_of_a_slice() {
        let stall = Duration::from_secs(1);
        let mut client = paced(100, stall);
        let done = client.slice(Duration::from_millis(400)).unwrap();
        // A quarter of all were answered before, half came to the other connection.
        let late = Duration::from_nanos(done.latencies.quantile(0.85));
        assert!(late > stall / 2, "{late:?}");
        let all = (0.4 * RATE) as u64;
        assert!(done.latencies.count() >= all - LANES as u64, "{}", done.latencies.count());
    }
}
