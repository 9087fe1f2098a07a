//! Many datagrams in one call of the system.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Bytes of a datagram that comes, at most; memcached's have 1400.
const DATAGRAM_BYTES: usize = 2048;
/// For replies that come at once; the system may grant less.
const RECEIVE_BYTES: libc::c_int = 1 << 20;
/// On the loopback device, what has not come by then is lost.
const PATIENCE: Duration = Duration::from_millis(20);

/// A socket, and room for the datagrams of one call.
pub(super) struct Datagrams {
    socket: UdpSocket,
    buffers: Vec<u8>,
    /// Filled anew for each call; kept for their allocations.
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    at_once: usize,
}

impl Datagrams {
    pub(super) fn connect(address: SocketAddr, at_once: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let bytes = RECEIVE_BYTES;
        for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
            // SAFETY: the option's value is an integer that lives during the call. Where the
            // system refuses, its default stays.
            unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw const bytes).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                );
            }
        }
        Ok(Datagrams {
            socket,
            buffers: vec![0; at_once * DATAGRAM_BYTES],
            vectors: Vec::with_capacity(at_once),
            headers: Vec::with_capacity(at_once),
            at_once,
        })
    }

    /// Makes one message of each vector.
    fn make_headers(&mut self) {
        self.headers.clear();
        for vector in &mut self.vectors {
            // SAFETY: a message header of zeros has no address, no vectors and no control data.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            self.headers.push(header);
        }
    }

    /// Sends the parts `datagrams` of `bytes`.
    pub(super) fn send(&mut self, bytes: &[u8], datagrams: &[Range<usize>]) -> io::Result<()> {
        self.vectors.clear();
        for datagram in datagrams {
            let part = &bytes[datagram.clone()];
            let base = part.as_ptr().cast_mut().cast();
            self.vectors.push(libc::iovec { iov_base: base, iov_len: part.len() });
        }
        self.make_headers();
        let mut sent = 0;
        while sent < self.headers.len() {
            let left = &mut self.headers[sent..];
            // SAFETY: each header has one vector, which is a part of `bytes`, only read.
            let count = unsafe {
                let (first, count) = (left.as_mut_ptr(), left.len() as libc::c_uint);
                libc::sendmmsg(self.socket.as_raw_fd(), first, count, 0)
            };
            sent += outcome(count)?;
        }
        Ok(())
    }

    /// Waits for datagrams and gives those that are there to `take`.
    pub(super) fn receive(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.vectors.clear();
        for buffer in self.buffers.chunks_exact_mut(DATAGRAM_BYTES) {
            let base = buffer.as_mut_ptr().cast();
            self.vectors.push(libc::iovec { iov_base: base, iov_len: DATAGRAM_BYTES });
        }
        self.make_headers();
        // SAFETY: each header has one vector, which is a buffer of that length.
        let count = unsafe {
            let (first, count) = (self.headers.as_mut_ptr(), self.at_once as libc::c_uint);
            let wait_for_one = libc::MSG_WAITFORONE;
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                first,
                count,
                wait_for_one,
                std::ptr::null_mut(),
            )
        };
        let buffers = self.buffers.chunks_exact(DATAGRAM_BYTES);
        for (header, buffer) in self.headers.iter().zip(buffers).take(outcome(count)?) {
            take(&buffer[..header.msg_len as usize]);
        }
        Ok(())
    }
}

/// What a call did; one that was interrupted did nothing.
fn outcome(count: libc::c_int) -> io::Result<usize> {
    if count >= 0 {
        return Ok(count as usize);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
}
