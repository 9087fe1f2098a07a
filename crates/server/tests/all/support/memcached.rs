//! memcached, where it is installed, and clients of raw bytes.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running memcached, ended when it is dropped.
pub(crate) struct Memcached {
    child: Child,
    /// Where it takes connections, and datagrams.
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
            if UdpSocket::bind(free).is_err() {
                continue;
            }
            let mut child = Command::new("memcached")
                .args(["-u", "nobody", "-l", "127.0.0.1", "-t", "1", "-p", &port, "-U", &port])
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
            match super::read_some(&mut self.socket, &mut piece) {
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

/// A socket for datagrams in frames.
pub(crate) struct Datagrams {
    pub(crate) socket: UdpSocket,
    next_id: u16,
}

impl Datagrams {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Datagrams { socket, next_id: 0 }
    }

    /// Sends `payload` in a datagram; its number.
    pub(crate) fn send(&mut self, payload: &[u8]) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        let [high, low] = self.next_id.to_be_bytes();
        let frame = [high, low, 0, 0, 0, 1, 0, 0];
        self.socket.send(&[&frame, payload].concat()).unwrap();
        self.next_id
    }

    /// The next datagram: its number, its place, the count, and what it carries.
    pub(crate) fn receive(&mut self) -> ([u16; 3], Vec<u8>) {
        let mut bytes = vec![0; 64 << 10];
        let len = self.socket.recv(&mut bytes).expect("a datagram");
        assert!(len >= 8 && bytes[6..8] == [0, 0], "{:?}", &bytes[..len]);
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        ([number(0), number(2), number(4)], bytes[8..len].to_vec())
    }

    /// Sends `payload` and returns `count` datagrams that answer it, and makes sure that there are
    /// no more (or all that come, where no count is given: where datagrams are answered in order).
    pub(crate) fn exchange(
        &mut self,
        payload: &[u8],
        count: Option<usize>,
    ) -> Vec<(u16, u16, Vec<u8>)> {
        let id = self.send(payload);
        let mut all = Vec::new();
        let mut take = |got: ([u16; 3], Vec<u8>)| {
            let ([of, number, parts], bytes) = got;
            assert_eq!(of, id, "a reply to another datagram than {:?}", payload.escape_ascii());
            all.push((number, parts, bytes));
        };
        (0..count.unwrap_or(0)).for_each(|_| take(self.receive()));
        let end = self.send(b"mn\r\n");
        loop {
            let got = self.receive();
            if got.0[0] == end {
                return all;
            }
            take(got);
        }
    }

    /// The text of the one message that answers `payload`.
    pub(crate) fn ask(&mut self, payload: &[u8]) -> String {
        let id = self.send(payload);
        let mut out = Vec::new();
        for place in 0.. {
            let ([of, number, count], bytes) = self.receive();
            assert_eq!((of, number), (id, place));
            out.extend(bytes);
            if number + 1 == count {
                break;
            }
        }
        String::from_utf8(out).unwrap()
    }
}
