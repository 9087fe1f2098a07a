//! UDP by one system call for each message, or for several that the kernel cuts and joins.

use super::super::cores::with_server;
use super::{Exchange, Idle, MESSAGE_BYTES, NAP, absent, failed, pump, serve};
use silica::Result;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Messages that are joined at most; kernels join 64.
const SEGMENTS: usize = 32;
/// More than the kernel joins.
const RECEIVED_BYTES: usize = 64 << 10;

/// A socket on loopback whose receiver waits or spins.
pub(super) fn socket(idle: Idle) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    match idle {
        Idle::Wait => socket.set_read_timeout(Some(NAP))?,
        Idle::Spin => socket.set_nonblocking(true)?,
    }
    Ok(socket)
}

/// Echoes per second.
pub(super) fn rate(depth: usize, idle: Idle, seconds: f64, segmented: bool) -> Result<f64> {
    let open = || {
        let socket = socket(idle)?;
        if segmented {
            segment(&socket)?;
        }
        Ok(socket)
    };
    let opened = |e| failed("open a UDP socket", e);
    let (client, server) = (open().map_err(opened)?, open().map_err(opened)?);
    let to = server.local_addr().map_err(opened)?;
    let joined = if segmented { SEGMENTS } else { 1 };
    with_server(
        |_| {
            let mut exchange = Datagrams::new(client, to, joined);
            pump(&mut exchange, depth, seconds).map_err(|e| failed("exchange datagrams", e))
        },
        |over| {
            let mut buf = vec![0; RECEIVED_BYTES];
            serve(over, || {
                let (len, from) = server.recv_from(&mut buf)?;
                server.send_to(&buf[..len], from)?;
                Ok(true)
            })
        },
    )
}

/// Has the kernel cut what is sent, and join what is received.
fn segment(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::UDP_SEGMENT, MESSAGE_BYTES as libc::c_int)?;
    set(socket, libc::UDP_GRO, 1)
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes, which is the size of `value`.
    let set = unsafe {
        let value = std::ptr::from_ref(&value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_UDP, option, value, len)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Finds out whether this kernel segments datagrams.
pub(super) fn probe_segments() -> Result<()> {
    let socket = socket(Idle::Wait).map_err(|e| failed("open a UDP socket", e))?;
    segment(&socket).map_err(|e| {
        absent(format!(
            "the kernel refuses UDP_SEGMENT or UDP_GRO ({e}); Linux has both from 5.0 on"
        ))
    })
}

struct Datagrams {
    socket: UdpSocket,
    to: SocketAddr,
    joined: usize,
    out: Vec<u8>,
    into: Vec<u8>,
}

impl Datagrams {
    fn new(socket: UdpSocket, to: SocketAddr, joined: usize) -> Self {
        let out = vec![7; joined * MESSAGE_BYTES];
        Datagrams { socket, to, joined, out, into: vec![0; RECEIVED_BYTES] }
    }
}

impl Exchange for Datagrams {
    fn send(&mut self, most: usize) -> io::Result<usize> {
        let count = most.min(self.joined);
        self.socket.send_to(&self.out[..count * MESSAGE_BYTES], self.to)?;
        Ok(count)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let (len, _) = self.socket.recv_from(&mut self.into)?;
        Ok(len / MESSAGE_BYTES)
    }
}
