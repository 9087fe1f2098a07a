//! memcached, where it is installed, and a client of raw bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running memcached, ended when it is dropped.
pub(crate) struct Memcached {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Memcached {
    /// Starts one; `None` (and a printed reason) where it is missing.
    pub(crate) fn start() -> Option<Self> {
        if Command::new("memcached").arg("-V").output().is_err() {
            println!("skipped: memcached is not installed (Debian: apt-get install memcached)");
            return None;
        }
        // The port is free again when memcached asks for it, unless somebody else was faster.
        for _ in 0..5 {
            let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
            let port = free.port().to_string();
            let mut child = Command::new("memcached")
                .args(["-u", "nobody", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-p", &port])
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            let deadline = Instant::now() + Duration::from_secs(20);
            while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if TcpStream::connect(free).is_ok() {
                    return Some(Memcached { child, address: free });
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("memcached does not listen");
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection on which whole exchanges are made.
pub(crate) struct Raw {
    pub(crate) socket: TcpStream,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Raw { socket }
    }

    /// Sends `bytes` and returns the replies up to `end`, or to the end of the connection.
    pub(crate) fn until(&mut self, bytes: &[u8], end: &[u8]) -> Vec<u8> {
        self.socket.write_all(bytes).unwrap();
        let (mut out, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        while !out.ends_with(end) {
            match self.socket.read(&mut piece) {
                Ok(0) => break,
                Ok(n) => out.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(e) => panic!("no reply after {}: {e}", String::from_utf8_lossy(&out)),
            }
        }
        out
    }

    /// Sends `bytes` and returns all replies to them: those before the answer to what nothing
    /// else asks for.
    pub(crate) fn exchange(&mut self, bytes: &[u8]) -> String {
        let end = b"STORED\r\nVALUE ~end 0 3\r\nend\r\nEND\r\n";
        let asks = b"set ~end 0 0 3\r\nend\r\nget ~end\r\n";
        let out = self.until(&[bytes, asks].concat(), end);
        match out.strip_suffix(end) {
            Some(out) => String::from_utf8_lossy(out).into_owned(),
            None => format!("{} (closed)", String::from_utf8_lossy(&out)),
        }
    }
}
