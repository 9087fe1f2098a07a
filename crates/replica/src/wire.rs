//! A connection to a primary, with timeouts.

use silica_commands::{LinkKind, Service, Wire as Stream, is_tls};
use silica_engine::{Error, ErrorKind, Result};
use silica_proto::{Value, decode};
use std::io::ErrorKind as IoKind;
use std::time::{Duration, Instant};

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;
/// How long one read waits, so that the thread sees that its role has changed.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);
/// A line before the stream is no longer.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What a read has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    Bytes(usize),
    /// Nothing has come for a moment.
    Nothing,
}

/// A connection.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    /// The other side, for messages.
    pub(crate) name: String,
    /// What came and was not taken.
    pub(crate) buffer: Vec<u8>,
    scratch: Vec<u8>,
    timeout: Duration,
    heard: Instant,
    /// What is said of a side that closes before it has said anything.
    hint: String,
    has_heard: bool,
}

pub(crate) fn failed(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, what.to_string())
}

impl Wire {
    /// Connects to `host` and `port`, by TLS if the setting says so; whoever says nothing for
    /// `timeout` is gone.
    pub(crate) fn connect(
        service: &Service,
        host: &str,
        port: u16,
        timeout: Duration,
    ) -> Result<Wire> {
        let name = format!("{host}:{port}");
        let stream = service.dial(LinkKind::Replication, host, port, timeout);
        let mut stream =
            stream.map_err(|e| Error::io(format!("connecting to the primary {name}"), e))?;
        let set = stream.set_read_timeout(PATIENCE);
        set.map_err(|e| Error::io(format!("preparing the link to {name}"), e))?;
        Ok(Wire {
            stream,
            name,
            buffer: Vec::new(),
            scratch: vec![0; READ_BYTES],
            timeout,
            heard: Instant::now(),
            hint: service.encryption_hint(LinkKind::Replication),
            has_heard: false,
        })
    }

    /// Whoever says nothing for `timeout` is gone.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, args: &[&[u8]]) -> Result<()> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
        self.send_bytes(&bytes)
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|e| Error::io(format!("sending to the primary {}", self.name), e))
    }

    /// Waits for bytes for a moment and appends them to `buffer`.
    ///
    /// # Errors
    /// Fails if the other side has closed, or has said nothing for the timeout.
    pub(crate) fn read(&mut self) -> Result<Got> {
        match self.stream.read(&mut self.scratch) {
            Ok(0) => {
                let hint = if self.has_heard { "" } else { &self.hint };
                Err(failed(format!("the primary {} has closed the link{hint}", self.name)))
            }
            Ok(count) if !self.has_heard && is_tls(&self.scratch[..count]) => {
                Err(failed(format!("the primary {} answers by TLS{}", self.name, self.hint)))
            }
            Ok(count) => {
                self.has_heard = true;
                self.buffer.extend_from_slice(&self.scratch[..count]);
                self.heard = Instant::now();
                Ok(Got::Bytes(count))
            }
            Err(e) if matches!(e.kind(), IoKind::WouldBlock | IoKind::TimedOut) => {
                if self.heard.elapsed() < self.timeout {
                    return Ok(Got::Nothing);
                }
                let seconds = self.timeout.as_secs();
                let text = format!("the primary {} says nothing for {seconds} s", self.name);
                Err(failed(text))
            }
            Err(e) if e.kind() == IoKind::Interrupted => Ok(Got::Nothing),
            Err(e) => {
                let hint = if self.has_heard { "" } else { &self.hint };
                Err(Error::io(format!("reading from the primary {}{hint}", self.name), e))
            }
        }
    }

    /// Waits for a line; `goes_on` is asked meanwhile. Empty lines, which only say that somebody is
    /// there, are passed over.
    pub(crate) fn line(&mut self, goes_on: &mut dyn FnMut() -> Result<()>) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                while line.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
                    line.pop();
                }
                if !line.is_empty() {
                    return Ok(line);
                }
                continue;
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(failed(format!("{} does not speak Redis's protocol", self.name)));
            }
            goes_on()?;
            self.read()?;
        }
    }

    /// Asks and waits for the reply.
    pub(crate) fn ask(
        &mut self,
        args: &[&[u8]],
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Value> {
        self.send(args)?;
        loop {
            let reply = decode(&self.buffer);
            let reply = reply
                .map_err(|_| failed(format!("{} does not speak Redis's protocol", self.name)))?;
            if let Some((value, used)) = reply {
                self.buffer.drain(..used);
                return Ok(value);
            }
            goes_on()?;
            self.read()?;
        }
    }
}

#[cfg(test)]
impl Wire {
    /// A connection over `stream`, as it is after it was made.
    pub(crate) fn over(stream: Box<dyn Stream>, timeout: Duration) -> Wire {
        Wire {
            stream,
            name: "primary:1".into(),
            buffer: Vec::new(),
            scratch: vec![0; READ_BYTES],
            timeout,
            heard: Instant::now(),
            hint: "; a hint".into(),
            has_heard: false,
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
