//! Asking a running server over RESP.

use silica::{DEFAULT_KEYSPACE, Error, ErrorKind, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than any reply that is asked for here.
const REPLY_BYTES_MAX: u64 = 256 << 20;

/// A connection to a server.
pub(crate) struct Resp {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Resp {
    /// Connects, and gives the password where there is one.
    pub(crate) fn connect(address: &str, password: Option<&str>) -> Result<Self> {
        let failed = |e| Error::io(format!("connecting to the server at {address}"), e);
        let known = address.to_socket_addrs().map_err(failed)?.next();
        let known = known.ok_or_else(|| {
            let message = format!("'{address}' is no address; use HOST:PORT");
            Error::new(ErrorKind::Config, message)
        })?;
        let stream = TcpStream::connect_timeout(&known, PATIENCE).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut resp = Resp { address: address.into(), stream: BufReader::new(stream) };
        if let Some(password) = password {
            resp.ask(&["AUTH", password])?;
        }
        Ok(resp)
    }

    /// The reply to a command: the text of a line, or the bytes of a string.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>> {
        let address = self.address.clone();
        let failed = |e| Error::io(format!("asking the server at {address}"), e);
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.get_mut().write_all(request.as_bytes()).map_err(failed)?;
        let mut line = String::new();
        let mut input = (&mut self.stream).take(REPLY_BYTES_MAX);
        input.read_line(&mut line).map_err(failed)?;
        let strange = || {
            let message = format!("{address} does not answer like a silica server");
            Error::new(ErrorKind::Config, message)
        };
        let text = line.trim_end();
        match text.as_bytes().first() {
            Some(b'+' | b':') => Ok(text.as_bytes()[1..].to_vec()),
            Some(b'-') => {
                let message = format!("the server at {address} says: {}", &text[1..]);
                Err(Error::new(ErrorKind::Config, message))
            }
            Some(b'$') => {
                let bytes = text[1..].parse::<usize>().map_err(|_| strange())?;
                let mut reply = Vec::new();
                let wanted = bytes as u64 + 2;
                let read = input.take(wanted).read_to_end(&mut reply).map_err(failed)?;
                if read as u64 != wanted {
                    return Err(strange());
                }
                reply.truncate(bytes);
                Ok(reply)
            }
            _ => Err(strange()),
        }
    }
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
