//! Connections to other servers, for commands that talk to them.

use crate::links::{Links, explained};
use rustls::{ClientConnection, StreamOwned};
use silica_commands::Wire;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A plain TCP connection.
struct Plain(TcpStream);

impl Read for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Wire for Plain {
    fn local_ip(&self) -> Option<IpAddr> {
        local_ip(&self.0)
    }

    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        set_timeout(&self.0, timeout)
    }

    fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(timeout))
    }

    fn is_quiet(&mut self) -> bool {
        is_quiet(&self.0)
    }
}

/// A connection with TLS, whose hands are shaken.
struct Encrypted {
    stream: StreamOwned<ClientConnection, TcpStream>,
    links: Links,
}

impl Read for Encrypted {
    /// A read that ends by its timeout keeps the part of a record that has come.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(bytes) {
            // A server that ends its process tells nobody.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read.map_err(|error| explained(error, &self.links)),
        }
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes).map_err(|error| explained(error, &self.links))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush().map_err(|error| explained(error, &self.links))
    }
}

impl Wire for Encrypted {
    fn local_ip(&self) -> Option<IpAddr> {
        local_ip(&self.stream.sock)
    }

    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        set_timeout(&self.stream.sock, timeout)
    }

    fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.sock.set_read_timeout(Some(timeout))
    }

    fn is_quiet(&mut self) -> bool {
        is_quiet(&self.stream.sock)
    }
}

fn local_ip(stream: &TcpStream) -> Option<IpAddr> {
    stream.local_addr().ok().map(|address| address.ip())
}

fn set_timeout(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

/// True if nothing waits to be read, and the other side has not closed.
fn is_quiet(stream: &TcpStream) -> bool {
    let would_wait = stream.set_nonblocking(true).is_ok()
        && stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false).is_ok() && would_wait
}

/// Connects to `host` and `port`, by TLS with `links`: each of its addresses is tried, all within
/// `timeout`, which then is the timeout of each call.
pub(crate) fn dial(
    host: &str,
    port: u16,
    timeout: Duration,
    links: Option<&Links>,
) -> io::Result<Box<dyn Wire>> {
    let until = Instant::now() + timeout;
    let left = || match until.saturating_duration_since(Instant::now()) {
        left if left.is_zero() => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left()?) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                set_timeout(&stream, left()?)?;
                let mut wire: Box<dyn Wire> = match links {
                    None => Box::new(Plain(stream)),
                    Some(links) => {
                        let stream = links.shake_hands(host, stream, until)?;
                        Box::new(Encrypted { stream, links: links.clone() })
                    }
                };
                wire.set_timeout(timeout)?;
                return Ok(wire);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
