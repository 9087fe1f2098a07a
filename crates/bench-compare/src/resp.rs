//! A client of RESP that asks one thing at a time, and takes errors for answers.

use silica::{Error, ErrorKind, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A line, a number, or a string.
    Text(Vec<u8>),
    /// An error, its code first.
    Failed(String),
    Nothing,
    Many(Vec<Answer>),
}

impl Answer {
    /// Its text; of an error, too.
    pub(crate) fn text(&self) -> &str {
        match self {
            Answer::Text(bytes) => std::str::from_utf8(bytes).unwrap_or("(bytes)"),
            Answer::Failed(text) => text,
            Answer::Nothing | Answer::Many(_) => "",
        }
    }
}

/// A connection.
pub(crate) struct Resp {
    stream: TcpStream,
    came: Vec<u8>,
    at: usize,
}

fn failed(error: std::io::Error) -> Error {
    Error::io("talking to a server", error)
}

fn nonsense(line: &[u8]) -> Error {
    let text = String::from_utf8_lossy(line);
    Error::new(ErrorKind::Io, format!("a server answers nonsense: {text}"))
}

impl Resp {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(failed)?;
        Ok(Resp { stream, came: Vec::new(), at: 0 })
    }

    /// Sends one request and returns its answer.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Answer> {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&out).map_err(failed)?;
        let answer = self.answer();
        self.came.drain(..self.at);
        self.at = 0;
        answer
    }

    fn answer(&mut self) -> Result<Answer> {
        let line = self.line()?;
        let Some((kind, rest)) = line.split_first() else { return Err(nonsense(&line)) };
        let number = || std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok());
        Ok(match (kind, number()) {
            (b'+' | b':', _) => Answer::Text(rest.to_vec()),
            (b'-', _) => Answer::Failed(String::from_utf8_lossy(rest).into_owned()),
            (b'$' | b'*', Some(-1)) => Answer::Nothing,
            (b'$', Some(len)) => {
                let len = usize::try_from(len).map_err(|_| nonsense(&line))?;
                while self.came.len() < self.at + len + 2 {
                    self.fill()?;
                }
                let text = self.came[self.at..self.at + len].to_vec();
                self.at += len + 2;
                Answer::Text(text)
            }
            (b'*', Some(count)) => {
                Answer::Many((0..count).map(|_| self.answer()).collect::<Result<_>>()?)
            }
            _ => return Err(nonsense(&line)),
        })
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        let mut from = self.at;
        loop {
            if let Some(at) = self.came[from..].iter().position(|byte| *byte == b'\n') {
                let end = from + at;
                let line = self.came[self.at..end.saturating_sub(1).max(self.at)].to_vec();
                self.at = end + 1;
                return Ok(line);
            }
            from = self.came.len();
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        let before = self.came.len();
        self.came.resize(before + (16 << 10), 0);
        let count = self.stream.read(&mut self.came[before..]).map_err(failed)?;
        self.came.truncate(before + count);
        match count {
            0 => Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(()),
        }
    }
}
