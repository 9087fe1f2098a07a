//! UDP by system calls that send or receive many messages.

use super::super::cores::with_server;
use super::datagrams::socket;
use super::{Exchange, Idle, MESSAGE_BYTES, failed, pump, serve};
use silica::Result;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Messages of one system call at most.
const BATCH: usize = 32;

/// Echoes per second.
pub(super) fn rate(depth: usize, idle: Idle, seconds: f64) -> Result<f64> {
    let opened = |e| failed("open a UDP socket", e);
    let (client, server) = (socket(idle).map_err(opened)?, socket(idle).map_err(opened)?);
    let to = server.local_addr().map_err(opened)?;
    with_server(
        |_| {
            let (into, out) = (Batch::new(None), Batch::new(Some(to)));
            let mut exchange = Batches { socket: client, into, out };
            pump(&mut exchange, depth, seconds).map_err(|e| failed("exchange datagrams", e))
        },
        |over| {
            let mut batch = Batch::new(None);
            serve(over, || {
                let count = batch.receive(&server)?;
                let mut sent = 0;
                while sent < count {
                    // To whom each came from.
                    sent += batch.send(&server, sent, count)?;
                }
                Ok(true)
            })
        },
    )
}

struct Batches {
    socket: UdpSocket,
    into: Batch,
    out: Batch,
}

impl Exchange for Batches {
    fn send(&mut self, most: usize) -> io::Result<usize> {
        self.out.send(&self.socket, 0, most.min(BATCH))
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.into.receive(&self.socket)
    }
}

/// Messages as the kernel wants them: headers that point to addresses and to parts, which point
/// to bytes. Invariant: what headers and parts point to belongs to the batch, and stays where it
/// is as long as it lives.
struct Batch {
    headers: Vec<libc::mmsghdr>,
    _parts: Box<[libc::iovec]>,
    _names: Box<[libc::sockaddr_in]>,
    _bytes: Box<[u8]>,
}

impl Batch {
    /// Messages to `to`, or to wherever what is received in their place comes from.
    fn new(to: Option<SocketAddr>) -> Self {
        let mut bytes = vec![7; BATCH * MESSAGE_BYTES].into_boxed_slice();
        let mut names = vec![name(to); BATCH].into_boxed_slice();
        let part = |chunk: &mut [u8]| libc::iovec {
            iov_base: chunk.as_mut_ptr().cast(),
            iov_len: chunk.len(),
        };
        let mut parts: Box<[_]> = bytes.chunks_mut(MESSAGE_BYTES).map(part).collect();
        let header = |(part, name): (&mut libc::iovec, &mut libc::sockaddr_in)| {
            // SAFETY: a header is plain numbers and pointers, for which all zero is a value.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = size_of_val(name) as libc::socklen_t;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let headers = parts.iter_mut().zip(&mut names).map(header).collect();
        Batch { headers, _parts: parts, _names: names, _bytes: bytes }
    }

    /// Sends the messages `from .. to`; how many of them were sent.
    fn send(&mut self, socket: &UdpSocket, from: usize, to: usize) -> io::Result<usize> {
        let headers = &mut self.headers[from..to];
        // SAFETY: as many headers as are named, and what they point to is there (invariant).
        let sent = unsafe {
            let count = headers.len() as libc::c_uint;
            libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Waits for a message and takes those that are there; how many they are.
    fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: as many headers as are named, and what they point to is there (invariant); no
        // reference to it exists. The timeout is absent.
        let received = unsafe {
            let count = self.headers.len() as libc::c_uint;
            let headers = self.headers.as_mut_ptr();
            let flags = libc::MSG_WAITFORONE;
            libc::recvmmsg(socket.as_raw_fd(), headers, count, flags, std::ptr::null_mut())
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }
}

fn name(address: Option<SocketAddr>) -> libc::sockaddr_in {
    // SAFETY: an address is plain numbers, for which all zero is a value.
    let mut name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    if let Some(SocketAddr::V4(address)) = address {
        name.sin_family = libc::AF_INET as libc::sa_family_t;
        name.sin_port = address.port().to_be();
        name.sin_addr.s_addr = u32::from(*address.ip()).to_be();
    }
    name
}
