//! A client of RESP that writes trains of requests, which were made before the clock runs, and
//! counts the replies to them.

use crate::peers::connect;
use silica::{Error, ErrorKind, Result};
use std::io::{ErrorKind as Io, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Bytes that one call reads at most.
const INPUT_BYTES: usize = 256 << 10;

/// Requests that are written together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Train {
    pub(super) bytes: Vec<u8>,
    pub(super) requests: usize,
}

impl Train {
    /// Appends a request of these words.
    pub(super) fn push(&mut self, words: &[&[u8]]) {
        let out = &mut self.bytes;
        out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        self.requests += 1;
    }
}

/// A connection, and what came over it that was not consumed.
#[derive(Debug)]
struct Lane {
    end: TcpStream,
    came: Vec<u8>,
}

/// Connections of one thread.
#[derive(Debug)]
pub(super) struct Talk {
    name: &'static str,
    lanes: Vec<Lane>,
}

impl Talk {
    /// `count` connections to the server called `name`.
    pub(super) fn connect(name: &'static str, address: SocketAddr, count: usize) -> Result<Self> {
        let ends = connect(name, address, count)?;
        for end in &ends {
            let limited = end.set_read_timeout(Some(SILENCE_MAX));
            limited.map_err(|e| Error::io("setting up a connection", e))?;
        }
        let lanes = ends.into_iter().map(|end| Lane { end, came: Vec::new() }).collect();
        Ok(Talk { name, lanes })
    }

    /// Sends all trains, one on each connection at a time, and reads the replies; the seconds.
    ///
    /// # Errors
    /// Fails if a reply is an error.
    pub(super) fn run(&mut self, trains: &[Train]) -> Result<f64> {
        let name = self.name;
        let began = Instant::now();
        for together in trains.chunks(self.lanes.len()) {
            for (lane, train) in self.lanes.iter_mut().zip(together) {
                let sent = lane.end.write_all(&train.bytes);
                sent.map_err(|e| Error::io(format!("talking to {name}"), e))?;
            }
            for (lane, train) in self.lanes.iter_mut().zip(together) {
                lane.hear(name, train.requests)?;
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// The reply to one request, as it came.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>> {
        let mut train = Train::default();
        train.push(words);
        let (name, lane) = (self.name, &mut self.lanes[0]);
        let sent = lane.end.write_all(&train.bytes);
        sent.map_err(|e| Error::io(format!("talking to {name}"), e))?;
        let end = lane.reply(name, 0)?;
        Ok(lane.came.drain(..end).collect())
    }
}

impl Lane {
    fn hear(&mut self, name: &'static str, replies: usize) -> Result<()> {
        let mut at = 0;
        for _ in 0..replies {
            at = self.reply(name, at)?;
        }
        self.came.drain(..at);
        Ok(())
    }

    /// The end of the reply that begins at `at`, of which more is read if it is not all there.
    fn reply(&mut self, name: &'static str, at: usize) -> Result<usize> {
        loop {
            match end_of_reply(&self.came[at..]) {
                Ok(Some(bytes)) => return Ok(at + bytes),
                Ok(None) => self.fill(name)?,
                Err(said) => {
                    return Err(Error::new(ErrorKind::Io, format!("{name} answered {said}")));
                }
            }
        }
    }

    fn fill(&mut self, name: &'static str) -> Result<()> {
        let before = self.came.len();
        self.came.resize(before + INPUT_BYTES, 0);
        loop {
            match self.end.read(&mut self.came[before..]) {
                Ok(0) => {
                    let gone = Io::UnexpectedEof.into();
                    return Err(Error::io(format!("talking to {name}"), gone));
                }
                Ok(count) => {
                    self.came.truncate(before + count);
                    return Ok(());
                }
                Err(e) if e.kind() == Io::Interrupted => {}
                Err(e) => return Err(Error::io(format!("talking to {name}"), e)),
            }
        }
    }
}

/// The length of the reply that `bytes` begin with; nothing if it is not all there, and an error's
/// text if it is one.
fn end_of_reply(bytes: &[u8]) -> std::result::Result<Option<usize>, String> {
    let (mut at, mut left) = (0, 1_u64);
    while left > 0 {
        let rest = &bytes[at..];
        let Some(line) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let text = &rest[..line.saturating_sub(1)];
        at += line + 1;
        left -= 1;
        let number = || {
            let digits = std::str::from_utf8(&text[1..]).ok()?;
            digits.parse::<i64>().ok()
        };
        let shown = || String::from_utf8_lossy(text).into_owned();
        match text.first() {
            Some(b'+' | b':' | b'_' | b',' | b'#' | b'(') => {}
            Some(b'$') => {
                let bytes = number().ok_or_else(shown)?;
                at += if bytes < 0 { 0 } else { bytes as usize + 2 };
            }
            Some(b'*' | b'~' | b'>') => left += number().ok_or_else(shown)?.max(0) as u64,
            _ => return Err(shown()),
        }
        if at > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_ends_where_its_last_part_does() {
        for reply in [
            &b"+OK\r\n"[..],
            b":12\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"$5\r\nhe\r\nx\r\n",
            b"*3\r\n$1\r\na\r\n*1\r\n:7\r\n$0\r\n\r\n",
        ] {
            let two = [reply, b"+more\r\n"].concat();
            assert_eq!(end_of_reply(&two), Ok(Some(reply.len())), "{reply:?}");
            for cut in 0..reply.len() {
                assert_eq!(end_of_reply(&reply[..cut]), Ok(None), "{reply:?} cut at {cut}");
            }
        }
        assert_eq!(end_of_reply(b"-ERR no\r\n"), Err("-ERR no".to_string()));
    }

    #[test]
    fn a_train_counts_its_requests() {
        let mut train = Train::default();
        train.push(&[b"HGET", b"h", b"field"]);
        train.push(&[b"PING"]);
        assert_eq!(train.requests, 2);
        assert_eq!(
            train.bytes,
            b"*3\r\n$4\r\nHGET\r\n$1\r\nh\r\n$5\r\nfield\r\n*1\r\n$4\r\nPING\r\n"
        );
    }
}
