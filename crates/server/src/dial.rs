//! Connections to other servers, for commands that talk to them.

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
        self.0.local_addr().ok().map(|address| address.ip())
    }

    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(timeout))?;
        self.0.set_write_timeout(Some(timeout))
    }
}

/// Connects to `host` and `port`: each of its addresses is tried, all within `timeout`, which then
/// is the timeout of each call.
pub(crate) fn dial(host: &str, port: u16, timeout: Duration) -> io::Result<Box<dyn Wire>> {
    let until = Instant::now() + timeout;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let mut wire = Plain(stream);
                wire.set_timeout(timeout)?;
                return Ok(Box::new(wire));
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
