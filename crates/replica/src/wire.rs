//! A connection to a primary, with timeouts.

use silica_engine::{Error, ErrorKind, Result};
use silica_proto::{Value, decode};
use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
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
    stream: TcpStream,
    /// The other side, for messages.
    pub(crate) name: String,
    /// What came and was not taken.
    pub(crate) buffer: Vec<u8>,
    scratch: Vec<u8>,
    timeout: Duration,
    heard: Instant,
}

pub(crate) fn failed(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, what.to_string())
}

impl Wire {
    /// Connects to `host` and `port`; whoever says nothing for `timeout` is gone.
    pub(crate) fn connect(host: &str, port: u16, timeout: Duration) -> Result<Wire> {
        let name = format!("{host}:{port}");
        let found = (host, port).to_socket_addrs();
        let found = found.map_err(|e| Error::io(format!("looking for the primary {name}"), e))?;
        let mut last = failed(format!("the primary's name {host} has no address"));
        for address in found {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    let set = stream.set_nodelay(true);
                    let set = set.and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
                    let set = set.and_then(|()| stream.set_write_timeout(Some(timeout)));
                    set.map_err(|e| Error::io(format!("preparing the link to {name}"), e))?;
                    return Ok(Wire {
                        stream,
                        name,
                        buffer: Vec::new(),
                        scratch: vec![0; READ_BYTES],
                        timeout,
                        heard: Instant::now(),
                    });
                }
                Err(error) => last = Error::io(format!("connecting to the primary {name}"), error),
            }
        }
        Err(last)
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
        let sent = self.stream.write_all(bytes);
        sent.map_err(|e| Error::io(format!("sending to the primary {}", self.name), e))
    }

    /// Waits for bytes for a moment and appends them to `buffer`.
    ///
    /// # Errors
    /// Fails if the other side has closed, or has said nothing for the timeout.
    pub(crate) fn read(&mut self) -> Result<Got> {
        match self.stream.read(&mut self.scratch) {
            Ok(0) => Err(failed(format!("the primary {} has closed the link", self.name))),
            Ok(count) => {
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
            Err(e) => Err(Error::io(format!("reading from the primary {}", self.name), e)),
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
