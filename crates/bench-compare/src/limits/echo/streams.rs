//! One TCP connection, or one unix socket, by read and write.

use super::super::cores::with_server;
use super::{Exchange, Idle, MESSAGE_BYTES, failed, pump, serve};
use silica::Result;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

/// More than is ever under way.
const RECEIVED_BYTES: usize = 16 << 10;

/// Both ends of a connection that sends at once what it is given.
pub(super) fn connect() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

/// Echoes per second over TCP.
pub(super) fn rate_tcp(depth: usize, idle: Idle, seconds: f64) -> Result<f64> {
    let spins = idle == Idle::Spin;
    let ends = connect().and_then(|(client, server)| {
        client.set_nonblocking(spins)?;
        server.set_nonblocking(spins)?;
        Ok((client, server))
    });
    rate(ends.map_err(|e| failed("connect over TCP", e))?, depth, seconds)
}

/// Echoes per second over a unix socket.
pub(super) fn rate_unix(depth: usize, idle: Idle, seconds: f64) -> Result<f64> {
    let spins = idle == Idle::Spin;
    let ends = UnixStream::pair().and_then(|(client, server)| {
        client.set_nonblocking(spins)?;
        server.set_nonblocking(spins)?;
        Ok((client, server))
    });
    rate(ends.map_err(|e| failed("open a pair of unix sockets", e))?, depth, seconds)
}

fn rate<S: Read + Write + Send>(ends: (S, S), depth: usize, seconds: f64) -> Result<f64> {
    let (client, mut server) = ends;
    with_server(
        |_| {
            let mut exchange = Stream::new(client, depth);
            pump(&mut exchange, depth, seconds).map_err(|e| failed("exchange messages", e))
            // Here the client's end is closed, by which a server that waits sees that it is over.
        },
        |over| {
            let mut buf = vec![0; RECEIVED_BYTES];
            serve(over, || {
                // A client that does not wait for what is under way closes its end on it.
                let len = match server.read(&mut buf) {
                    Err(e) if e.kind() == io::ErrorKind::ConnectionReset => 0,
                    read => read?,
                };
                Ok(len > 0 && server.write_all(&buf[..len]).is_ok())
            })
        },
    )
}

struct Stream<S> {
    stream: S,
    out: Vec<u8>,
    into: Vec<u8>,
    /// Bytes of a message of which the rest is to come.
    part: usize,
}

impl<S> Stream<S> {
    fn new(stream: S, depth: usize) -> Self {
        let out = vec![7; depth * MESSAGE_BYTES];
        Stream { stream, out, into: vec![0; RECEIVED_BYTES], part: 0 }
    }
}

impl<S: Read + Write> Exchange for Stream<S> {
    fn send(&mut self, most: usize) -> io::Result<usize> {
        // The few bytes that are under way always find room in the socket.
        self.stream.write_all(&self.out[..most * MESSAGE_BYTES])?;
        Ok(most)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let len = self.stream.read(&mut self.into)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = self.part + len;
        self.part = bytes % MESSAGE_BYTES;
        Ok(bytes / MESSAGE_BYTES)
    }
}
