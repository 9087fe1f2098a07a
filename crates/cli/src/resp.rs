//! Asking a running server over RESP.

use crate::address;
use silica::{DEFAULT_KEYSPACE, Error, ErrorKind, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than any reply that is asked for here.
const REPLY_BYTES_MAX: u64 = 256 << 20;

/// Arrays within arrays that replies have at most: a slow log's entries have arguments, histograms
/// of latency one level more.
const DEPTH_MAX: u8 = 4;

/// What a connection is.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A reply.
pub(crate) enum Reply {
    /// Of a line, a number or a string.
    Text(Vec<u8>),
    Array(Vec<Reply>),
}

/// A connection to a server.
pub(crate) struct Resp {
    address: String,
    stream: BufReader<Box<dyn Stream>>,
}

impl Resp {
    /// Connects, and gives the password where there is one.
    pub(crate) fn connect(address: &str, password: Option<&str>) -> Result<Self> {
        Self::connect_as(address, None, password)
    }

    /// Connects to HOST:PORT, a port of loopback, or a unix socket if the address has a slash, and
    /// logs in if there is a password.
    pub(crate) fn connect_as(
        address: &str,
        user: Option<&str>,
        password: Option<&str>,
    ) -> Result<Self> {
        let stream = connect(address)
            .map_err(|e| Error::io(format!("connecting to the server at {address}"), e))?;
        let stream = stream.ok_or_else(|| {
            let message = format!("'{address}' is no address; use HOST:PORT");
            Error::new(ErrorKind::Config, message)
        })?;
        let mut resp = Resp { address: address.into(), stream: BufReader::new(stream) };
        match (user, password) {
            (Some(user), Some(password)) => drop(resp.ask(&["AUTH", user, password])?),
            (None, Some(password)) => drop(resp.ask(&["AUTH", password])?),
            _ => {}
        }
        Ok(resp)
    }

    /// The reply to a command: the text of a line, or the bytes of a string.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>> {
        match self.reply(words)? {
            Reply::Text(text) => Ok(text),
            Reply::Array(_) => Err(self.strange()),
        }
    }

    /// As [`Connection::ask`], with arguments of any bytes.
    pub(crate) fn ask_bytes(&mut self, args: &[&[u8]]) -> Result<Vec<u8>> {
        match self.reply_to(args)? {
            Reply::Text(text) => Ok(text),
            Reply::Array(_) => Err(self.strange()),
        }
    }

    /// Sends `requests` at once and reads their replies, none of which is of interest.
    ///
    /// # Errors
    /// The first that the server answers; those behind it have been done nevertheless.
    pub(crate) fn tell_all(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<()> {
        let mut bytes = Vec::new();
        for args in requests {
            let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
            write_request(&mut bytes, &args);
        }
        let sent = self.stream.get_mut().write_all(&bytes);
        sent.map_err(|e| self.failed(e))?;
        let mut told = Ok(());
        for args in requests {
            let reply = self.read(DEPTH_MAX);
            if told.is_ok() {
                told = reply.map(|_| ()).map_err(|error| {
                    let key = args.get(1).map(|key| String::from_utf8_lossy(key));
                    error.within(format_args!("'{}'", key.unwrap_or_default()))
                });
            }
        }
        told
    }

    /// The reply to a command.
    pub(crate) fn reply(&mut self, words: &[&str]) -> Result<Reply> {
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.reply_to(&args)
    }

    fn reply_to(&mut self, args: &[&[u8]]) -> Result<Reply> {
        let mut request = Vec::new();
        write_request(&mut request, args);
        let sent = self.stream.get_mut().write_all(&request);
        sent.map_err(|e| self.failed(e))?;
        self.read(DEPTH_MAX)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io(format!("asking the server at {}", self.address), error)
    }

    fn strange(&self) -> Error {
        let message = format!("{} does not answer like a silica server", self.address);
        Error::new(ErrorKind::Config, message)
    }

    fn read(&mut self, depth: u8) -> Result<Reply> {
        let mut line = String::new();
        let mut input = (&mut self.stream).take(REPLY_BYTES_MAX);
        let read = input.read_line(&mut line);
        read.map_err(|e| self.failed(e))?;
        let text = line.trim_end();
        let number = || text[1..].parse::<usize>().map_err(|_| self.strange());
        match text.as_bytes().first() {
            Some(b'+' | b':') => Ok(Reply::Text(text.as_bytes()[1..].to_vec())),
            Some(b'-') => {
                let message = format!("the server at {} says: {}", self.address, &text[1..]);
                Err(Error::new(ErrorKind::Config, message))
            }
            Some(b'$') => {
                let bytes = number()?;
                let mut reply = Vec::new();
                let wanted = bytes as u64 + 2;
                let read = (&mut self.stream).take(wanted).read_to_end(&mut reply);
                if read.map_err(|e| self.failed(e))? as u64 != wanted {
                    return Err(self.strange());
                }
                reply.truncate(bytes);
                Ok(Reply::Text(reply))
            }
            Some(b'*') if depth > 0 => {
                let parts = number()?;
                (0..parts).map(|_| self.read(depth - 1)).collect::<Result<_>>().map(Reply::Array)
            }
            _ => Err(self.strange()),
        }
    }
}

fn write_request(out: &mut Vec<u8>, args: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// A stream to `address`; `None` where it is none.
fn connect(address: &str) -> std::io::Result<Option<Box<dyn Stream>>> {
    if address.contains('/') {
        let stream = UnixStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        return Ok(Some(Box::new(stream)));
    }
    let Some(known) = address::resolved(address)?.first().copied() else { return Ok(None) };
    let stream = TcpStream::connect_timeout(&known, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(Some(Box::new(stream)))
}

/// The number of the database that is the keyspace `name`.
pub(crate) fn database_of(name: &str) -> Result<String> {
    let number = match name {
        DEFAULT_KEYSPACE => Some(0),
        other => other.strip_prefix("db").and_then(|number| number.parse::<u32>().ok()),
    };
    number.map(|number| number.to_string()).ok_or_else(|| {
        let message = format!(
            "keyspace '{name}' is no database of a server: they are '{DEFAULT_KEYSPACE}', and dbN"
        );
        Error::new(ErrorKind::Config, message)
    })
}

/// The password in the first line of a file.
pub(crate) fn password(file: Option<&std::path::Path>) -> Result<Option<String>> {
    let Some(file) = file else { return Ok(None) };
    let failed = |e| Error::io(format!("reading the password from {}", file.display()), e);
    let text = std::fs::read_to_string(file).map_err(failed)?;
    Ok(Some(text.lines().next().unwrap_or_default().to_string()))
}
