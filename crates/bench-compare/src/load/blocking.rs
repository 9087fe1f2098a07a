//! A client that sleeps while it waits: a thread with several connections, which sends a train on
//! each and then reads the replies to each. It leaves its core to the server when the server is
//! late, so many of them can load a server with many threads on the same machine.

use super::Done;
use super::script::{Heard, Script, nonsense};
use silica::{Error, Result};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// One connection.
struct Lane {
    end: TcpStream,
    script: Script,
    train: usize,
}

/// Connections of one thread.
pub(crate) struct Blocking {
    name: &'static str,
    lanes: Vec<Lane>,
    came: Vec<u8>,
}

impl Blocking {
    /// A client that says one of `scripts` over each of `ends`.
    pub(crate) fn new(
        name: &'static str,
        ends: Vec<TcpStream>,
        scripts: Vec<Script>,
    ) -> Result<Self> {
        for end in &ends {
            let limited = end.set_read_timeout(Some(SILENCE_MAX));
            limited.map_err(|e| Error::io("setting up a connection", e))?;
        }
        let lane = |(end, script)| Lane { end, script, train: 0 };
        let lanes = ends.into_iter().zip(scripts).map(lane).collect();
        Ok(Blocking { name, lanes, came: Vec::new() })
    }

    /// Says every script once.
    pub(crate) fn once(&mut self) -> Result<Done> {
        let most = self.lanes.iter().map(|lane| lane.script.trains()).max().unwrap_or(0);
        let mut done = Done::default();
        for train in 0..most {
            self.round(&mut done, |lane| train < lane.script.trains())?;
        }
        Ok(done)
    }

    /// Goes on for `time`, and until the replies to all that was sent have come.
    pub(crate) fn slice(&mut self, time: Duration) -> Result<Done> {
        let began = Instant::now();
        let mut done = Done::default();
        while began.elapsed() < time || done.operations == 0 {
            self.round(&mut done, |_| true)?;
        }
        done.seconds = began.elapsed().as_secs_f64();
        Ok(done)
    }

    /// Sends a train on each lane that `takes_part`, and reads the replies.
    fn round(&mut self, done: &mut Done, takes_part: impl Fn(&Lane) -> bool) -> Result<()> {
        let failed = |e: io::Error| Error::io(format!("talking to {}", self.name), e);
        let sent = Instant::now();
        for lane in self.lanes.iter_mut().filter(|lane| takes_part(lane)) {
            lane.end.write_all(lane.script.requests(lane.train)).map_err(failed)?;
        }
        for lane in self.lanes.iter_mut().filter(|lane| takes_part(lane)) {
            done.misses += lane.hear(self.name, &mut self.came)?;
            done.operations += lane.script.operations(lane.train);
            done.latencies.record(sent.elapsed().as_nanos() as u64);
            lane.train = (lane.train + 1) % lane.script.trains();
        }
        Ok(())
    }
}

impl Lane {
    /// Reads the replies to the train; how many of them are misses.
    fn hear(&mut self, name: &'static str, came: &mut Vec<u8>) -> Result<u64> {
        let wanted = self.script.replies(self.train);
        came.resize(wanted.len(), 0);
        let mut end = 0;
        loop {
            match self.end.read(&mut came[end..]) {
                Ok(0) => {
                    let gone = io::ErrorKind::UnexpectedEof.into();
                    return Err(Error::io(format!("talking to {name}"), gone));
                }
                Ok(count) => end += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Error::io(format!("talking to {name}"), e)),
            }
            if came[..end] == *wanted {
                return Ok(0);
            }
            if wanted.starts_with(&came[..end]) {
                continue;
            }
            match self.script.hear(self.train, &came[..end]) {
                Heard::Part if end < came.len() => {}
                Heard::All(misses) => return Ok(misses),
                // A miss has fewer bytes than the value: replies never have more than is wanted.
                _ => return Err(nonsense(name, &came[..end])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Load, Pace, Sets, Speech};
    use super::*;
    use std::net::TcpListener;
    use std::thread::spawn;

    /// Answers every get of RESP with what `answer` makes of its number, in small pieces.
    fn client(answers: &'static [u8]) -> Blocking {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(move || {
            let (mut end, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            while end.read(&mut asked).is_ok_and(|count| count > 0) {
                for part in answers.chunks(7) {
                    end.write_all(part).unwrap();
                }
            }
        });
        let load = Load {
            speech: Speech::Resp,
            connections: 1,
            depth: 2,
            pace: Pace::Peak,
            sets: Sets::All,
        };
        let ends = vec![TcpStream::connect(address).unwrap()];
        Blocking::new("a test", ends, Script::of_load(&load, 10, (16, 8))).unwrap()
    }

    #[test]
    fn operations_are_counted_when_their_replies_came() {
        let done = client(b"+OK\r\n+OK\r\n").slice(Duration::from_millis(20)).unwrap();
        assert!(done.operations >= 2 && done.operations.is_multiple_of(2), "{}", done.operations);
        assert_eq!((done.misses, done.latencies.count() * 2), (0, done.operations));
    }

    #[test]
    fn a_wrong_reply_ends_it() {
        let told = client(b"+OK\r\n-ERR no\r\n").slice(Duration::from_millis(20)).unwrap_err();
        // It may have come in pieces.
        assert!(told.to_string().contains('-'), "{told}");
    }
}
