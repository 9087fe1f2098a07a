//! Connections to other servers, which speak RESP: requests as arrays, replies as they come.
//!
//! Sockets are the front's ([`Front::dial`](crate::Front::dial)); here are only bytes.

use super::encryption::is_tls;
use crate::front::Wire;
use std::io::{self, Read, Write};

/// Bytes of a reply at most: a map of a thousand nodes, or an error.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A simple string, a number or a bulk string.
    Text(Vec<u8>),
    /// An error, its code first.
    Error(String),
    Null,
}

/// A connection with what came and was not looked at.
pub(crate) struct Peer {
    wire: Box<dyn Wire>,
    received: Vec<u8>,
    at: usize,
    out: Vec<u8>,
    /// Something has come.
    has_heard: bool,
}

impl Peer {
    pub(crate) fn new(wire: Box<dyn Wire>) -> Self {
        Peer { wire, received: Vec::new(), at: 0, out: Vec::new(), has_heard: false }
    }

    pub(crate) fn wire(&mut self) -> &mut dyn Wire {
        &mut *self.wire
    }

    /// Adds a request to those that [`Peer::flush`] sends.
    pub(crate) fn push(&mut self, args: &[&[u8]]) {
        self.out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            self.out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            self.out.extend_from_slice(arg);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let result = self.wire.write_all(&self.out).and_then(|()| self.wire.flush());
        self.out.clear();
        result
    }

    /// Sends one request and returns its reply.
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> io::Result<Answer> {
        self.push(args);
        self.flush()?;
        self.answer()
    }

    /// The next reply.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let (first, rest) = line.split_first().ok_or_else(|| wrong("an empty line"))?;
        match first {
            b'+' | b':' => Ok(Answer::Text(rest.to_vec())),
            b'-' => Ok(Answer::Error(String::from_utf8_lossy(rest).into_owned())),
            b'_' => Ok(Answer::Null),
            b'$' if rest == b"-1" => Ok(Answer::Null),
            b'$' => {
                let len = std::str::from_utf8(rest).ok().and_then(|text| text.parse().ok());
                let len = len.filter(|len| *len <= REPLY_BYTES_MAX);
                let len = len.ok_or_else(|| wrong("a string of a wrong length"))?;
                let mut bytes = self.take(len + 2)?;
                bytes.truncate(len);
                Ok(Answer::Text(bytes))
            }
            _ => Err(wrong("a reply of another kind")),
        }
    }

    /// Bytes up to the next end of a line, without that.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = self.at;
        loop {
            let found = self.received[searched..].windows(2).position(|two| two == b"\r\n");
            if let Some(at) = found {
                let end = searched + at;
                let line = self.received[self.at..end].to_vec();
                self.at = end + 2;
                return Ok(line);
            }
            searched = self.received.len().saturating_sub(1).max(self.at);
            if self.received.len() - self.at > REPLY_BYTES_MAX {
                return Err(wrong("a line without an end"));
            }
            let before = self.at;
            self.fill()?;
            searched -= before - self.at;
        }
    }

    fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.received.len() - self.at < len {
            self.fill()?;
        }
        let bytes = self.received[self.at..self.at + len].to_vec();
        self.at += len;
        Ok(bytes)
    }

    /// Receives some bytes.
    fn fill(&mut self) -> io::Result<()> {
        self.received.drain(..self.at);
        self.at = 0;
        let mut some = [0; 16 << 10];
        let n = match self.wire.read(&mut some) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            read => read?,
        };
        if n == 0 {
            let text = match self.has_heard {
                true => "the connection was closed",
                false => {
                    "the connection was closed at once (does that port speak TLS? then set \
                          tls-cluster to yes)"
                }
            };
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        if !self.has_heard && is_tls(&some[..n]) {
            return Err(wrong("a message of TLS: set tls-cluster to yes"));
        }
        self.has_heard = true;
        self.received.extend_from_slice(&some[..n]);
        Ok(())
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the other server sent {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::time::Duration;

    /// Gives bytes in pieces of `step`.
    struct Pieces(Vec<u8>, usize);

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Wire for Pieces {
        fn local_ip(&self) -> Option<IpAddr> {
            None
        }

        fn set_timeout(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }

        fn set_read_timeout(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }

        fn is_quiet(&mut self) -> bool {
            self.0.is_empty()
        }
    }

    #[test]
    fn replies_come_in_any_pieces_and_cut_ones_are_errors() {
        let bytes = b"+OK\r\n$5\r\na\r\nbc\r\n:7\r\n-ERR no\r\n$-1\r\n".to_vec();
        for step in 1..12 {
            let mut peer = Peer::new(Box::new(Pieces(bytes.clone(), step)));
            let mut next = || peer.answer();
            assert_eq!(next().unwrap(), Answer::Text(b"OK".to_vec()));
            assert_eq!(next().unwrap(), Answer::Text(b"a\r\nbc".to_vec()));
            assert_eq!(next().unwrap(), Answer::Text(b"7".to_vec()));
            assert_eq!(next().unwrap(), Answer::Error("ERR no".into()));
            assert_eq!(next().unwrap(), Answer::Null);
            assert!(next().is_err());
        }
        let alert = b"\x15\x03\x03\x00\x02\x02\x46".to_vec();
        let error = Peer::new(Box::new(Pieces(alert, 7))).answer().unwrap_err();
        assert!(error.to_string().contains("set tls-cluster to yes"), "{error}");
        let error = Peer::new(Box::new(Pieces(Vec::new(), 7))).answer().unwrap_err();
        assert!(error.to_string().contains("tls-cluster"), "{error}");
        for wrong in [&b"$x\r\n"[..], b"$99999999999\r\n", b"*1\r\n", b"\r\n", b"$4\r\nab"] {
            assert!(Peer::new(Box::new(Pieces(wrong.to_vec(), 3))).answer().is_err());
        }
    }
}
