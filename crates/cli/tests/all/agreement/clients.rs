//! Clients of a group, which follow the leader and tell what they know of each call.

use crate::support::{Client, Reply};
use silica_base::Prng;
use silica_testkit::histories::{self, Answer, Call};
use std::time::{Duration, Instant};

/// How long a call is tried again that was refused.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// How long an answer is waited for.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A client of the members at `ports`.
pub(crate) struct Follower {
    ports: Vec<u16>,
    at: usize,
    connection: Option<Client>,
    /// Gets go to this member, whoever leads: the planted fault.
    pub(crate) reads_at: Option<usize>,
    reads: Option<Client>,
    /// Writes wait until so many replicas have them: see `asynchronous`.
    pub(crate) waits_for: i64,
    /// A key is watched on the connection.
    is_watching: bool,
}

/// What became of a request.
enum Sent {
    Answered(Reply),
    /// An error that says that nothing was done.
    Refused,
    Unknown,
}

impl Follower {
    pub(crate) fn new(ports: &[u16], at: usize) -> Self {
        let (ports, connection) = (ports.to_vec(), None);
        let (reads_at, reads, waits_for, is_watching) = (None, None, 0, false);
        Follower { ports, at, connection, reads_at, reads, waits_for, is_watching }
    }

    fn connected(&mut self) -> Option<&mut Client> {
        if self.connection.is_none() {
            let port = self.ports[self.at % self.ports.len()];
            self.connection = Client::connect(port).ok();
            self.is_watching = false;
            if let Some(connection) = &self.connection {
                connection.limit(ANSWER_LIMIT);
            }
        }
        self.connection.as_mut()
    }

    fn go_on(&mut self, error: &str) {
        let mut words = error.split_ascii_whitespace();
        if words.next() == Some("MOVED")
            && let Some(port) = words.nth(1).and_then(|a| a.rsplit_once(':')?.1.parse::<u16>().ok())
            && let Some(at) = self.ports.iter().position(|known| *known == port)
        {
            self.at = at;
        } else {
            self.at += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        self.connection = None;
    }

    /// One request, at whoever leads.
    fn ask(&mut self, words: &[&[u8]], is_retried: bool) -> Sent {
        let start = Instant::now();
        loop {
            let answer = self.connected().map(|connection| connection.ask(words));
            match answer {
                None => self.go_on(""),
                Some(Ok(Reply::Error(error))) if is_not_done(&error) => {
                    self.go_on(&error);
                    if !is_retried {
                        return Sent::Refused;
                    }
                }
                Some(Ok(Reply::Error(error))) if error.contains("UNCERTAIN") => {
                    self.go_on("");
                    return Sent::Unknown;
                }
                Some(Ok(reply)) => return Sent::Answered(reply),
                Some(Err(_)) => {
                    self.go_on("");
                    return Sent::Unknown;
                }
            }
            if start.elapsed() > CALL_LIMIT {
                return Sent::Refused;
            }
        }
    }

    fn watch(&mut self, key: &[u8]) -> Answer {
        match self.ask(&[b"WATCH", key], true) {
            Sent::Answered(_) => self.is_watching = true,
            _ => return Answer::Refused,
        }
        match self.ask(&[b"GET", key], false) {
            Sent::Answered(Reply::Bytes(found)) if self.is_watching => Answer::Was(found),
            _ => {
                self.connection = None;
                Answer::Refused
            }
        }
    }

    fn commit(&mut self, key: &[u8], new: Option<&[u8]>) -> Answer {
        let write: Vec<&[u8]> = match new {
            Some(value) => vec![b"SET", key, value],
            None => vec![b"DEL", key],
        };
        for words in [&[&b"MULTI"[..]][..], &write] {
            if !self.is_watching || self.connection.is_none() {
                return Answer::Refused;
            }
            let Sent::Answered(Reply::Status(_)) = self.ask(words, false) else {
                self.connection = None;
                return Answer::Refused;
            };
        }
        self.is_watching = false;
        match self.ask(&[b"EXEC"], false) {
            // The null of an array is read as an empty one.
            Sent::Answered(Reply::Many(all)) => Answer::Did(!all.is_empty()),
            Sent::Answered(Reply::Error(error)) if error.starts_with("EXECABORT") => {
                Answer::Refused
            }
            Sent::Refused => Answer::Refused,
            _ => Answer::Unknown,
        }
    }

    /// True if replicas have what was written, as far as that is asked for.
    fn is_replicated(&mut self) -> bool {
        if self.waits_for == 0 {
            return true;
        }
        let wanted = self.waits_for.to_string();
        match self.ask(&[b"WAIT", wanted.as_bytes(), b"100"], false) {
            Sent::Answered(Reply::Number(there)) => there >= self.waits_for,
            _ => false,
        }
    }

    fn read_apart(&mut self, at: usize, key: &[u8]) -> Answer {
        if self.reads.is_none() {
            self.reads = Client::connect(self.ports[at]).ok();
        }
        match self.reads.as_mut().map(|reads| reads.ask(&[b"GET", key])) {
            Some(Ok(Reply::Bytes(found))) => Answer::Was(found),
            _ => Answer::Refused,
        }
    }
}

/// True if an error says that nothing was done.
fn is_not_done(error: &str) -> bool {
    ["MOVED", "CLUSTERDOWN", "TRYAGAIN", "READONLY"].iter().any(|word| error.starts_with(word))
        || error.contains("nothing was written")
}

impl histories::Client for Follower {
    fn call(&mut self, key: &[u8], call: &Call) -> Answer {
        let (number, expected);
        let words: Vec<&[u8]> = match call {
            Call::Get => match self.reads_at {
                Some(at) => return self.read_apart(at, key),
                None => vec![b"GET", key],
            },
            Call::Put(value) => vec![b"SET", key, value],
            Call::Delete => vec![b"DEL", key],
            Call::Replace(Some(new)) => vec![b"SET", key, new, b"GET"],
            Call::Replace(None) => vec![b"GETDEL", key],
            Call::Swap { expected: None, new: Some(new) } => vec![b"SET", key, new, b"NX"],
            Call::Swap { expected: Some(old), new: Some(new) } => {
                expected = old.clone();
                let script = b"if redis.call('get',KEYS[1])==ARGV[1] then \
                    redis.call('set',KEYS[1],ARGV[2]) return 1 else return 0 end";
                vec![b"EVAL", script, b"1", key, &expected, new]
            }
            Call::Swap { new: None, .. } => return Answer::Refused,
            Call::Watch => return self.watch(key),
            Call::Commit(new) => return self.commit(key, new.as_deref()),
            Call::Add(by) => {
                number = by.to_string();
                vec![b"INCRBY", key, number.as_bytes()]
            }
        };
        let sent = self.ask(&words, true);
        let is_write = !matches!(call, Call::Get);
        if is_write && matches!(sent, Sent::Answered(_)) && !self.is_replicated() {
            return Answer::Unknown;
        }
        match (call, sent) {
            (_, Sent::Unknown) => Answer::Unknown,
            (_, Sent::Refused) => Answer::Refused,
            (Call::Get | Call::Replace(_), Sent::Answered(Reply::Bytes(was))) => Answer::Was(was),
            (Call::Put(_), Sent::Answered(Reply::Status(_))) => Answer::Done,
            (Call::Delete, Sent::Answered(Reply::Number(count))) => Answer::Did(count == 1),
            (Call::Swap { expected: None, .. }, Sent::Answered(reply)) => {
                Answer::Did(reply != Reply::Bytes(None))
            }
            (Call::Swap { .. }, Sent::Answered(Reply::Number(did))) => Answer::Did(did == 1),
            (Call::Add(_), Sent::Answered(Reply::Number(sum))) => Answer::Sum(sum),
            (call, Sent::Answered(reply)) => panic!("{call:?}: {reply:?}"),
        }
    }

    fn rest(&mut self, prng: &mut Prng) {
        std::thread::sleep(Duration::from_millis(prng.below(40)));
    }
}
