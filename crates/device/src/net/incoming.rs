//! Receiving.

use super::empty_header;
use super::peer::Peer;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// What one call of the system received.
pub struct Incoming {
    /// Filled anew for each call, so what they point to need not live longer than it.
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    controls: Vec<Control>,
    peers: Vec<Peer>,
    count: usize,
}

/// One datagram that came, or several that the kernel has joined.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Who sent it.
    pub peer: &'a Peer,
    /// Bytes that are there.
    pub len: usize,
    /// Bytes of each datagram but the last, where several were joined; otherwise `len`.
    pub segment_bytes: usize,
    /// It was longer than its slot.
    pub truncated: bool,
}

// SAFETY: the pointers in headers and parts are made anew by each call of `receive`, and used by
// nobody after it.
unsafe impl Send for Incoming {}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Incoming {
    /// Room for `most` datagrams in one call.
    pub fn new(most: usize) -> Self {
        Incoming {
            headers: (0..most).map(|_| empty_header()).collect(),
            parts: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; most],
            controls: vec![Control::default(); most],
            peers: vec![Peer::NONE; most],
            count: 0,
        }
    }

    /// Datagrams of one call at most.
    pub fn most(&self) -> usize {
        self.headers.len()
    }

    /// Waits for a datagram, as long as the socket waits, and takes those that are there: number
    /// `n` into the slot of `slot_bytes` bytes that starts at `n * stride` in `bytes`. Returns
    /// how many came.
    pub fn receive(
        &mut self,
        socket: &UdpSocket,
        bytes: &mut [u8],
        slot_bytes: usize,
        stride: usize,
    ) -> io::Result<usize> {
        self.count = 0;
        assert!(slot_bytes <= stride, "slots do not overlap");
        let slots = bytes.chunks_mut(stride).filter(|chunk| chunk.len() >= slot_bytes);
        let mut prepared = 0;
        for (n, slot) in slots.take(self.headers.len()).enumerate() {
            self.parts[n] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot_bytes };
            let header = &mut self.headers[n].msg_hdr;
            (header.msg_name, header.msg_namelen) = self.peers[n].room();
            header.msg_iov = &mut self.parts[n];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.controls[n]).cast();
            header.msg_controllen = size_of::<Control>() as _;
            header.msg_flags = 0;
            prepared = n + 1;
        }
        // SAFETY: every header that is named has one part, which is a slot of `bytes` that nobody
        // else uses during the call, and a name and a control message of the sizes given, which
        // are elements of vectors of `self`. The timeout is absent.
        let received = unsafe {
            let (first, count) = (self.headers.as_mut_ptr(), prepared as libc::c_uint);
            let flags = libc::MSG_WAITFORONE;
            libc::recvmmsg(socket.as_raw_fd(), first, count, flags, std::ptr::null_mut())
        };
        self.count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let arrived = self.headers[..self.count].iter().zip(&mut self.peers);
        arrived.for_each(|(header, peer)| peer.received(header.msg_hdr.msg_namelen));
        Ok(self.count)
    }

    /// Datagram `n` of the last call.
    pub fn arrival(&self, n: usize) -> Arrival<'_> {
        assert!(n < self.count, "there are fewer datagrams");
        let header = &self.headers[n];
        let len = header.msg_len as usize;
        let segment = match header.msg_hdr.msg_controllen {
            0 => None,
            bytes => self.controls[n].segment_bytes(bytes),
        };
        Arrival {
            peer: &self.peers[n],
            len,
            segment_bytes: segment.filter(|bytes| (1..=len).contains(bytes)).unwrap_or(len),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}

/// A control message that tells the segments' size, as the kernel writes it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Control {
    len: usize,
    level: libc::c_int,
    kind: libc::c_int,
    segment_bytes: libc::c_int,
    padding: libc::c_int,
}

impl Control {
    /// The segments' size, where `bytes` bytes of this were written and tell one.
    fn segment_bytes(&self, bytes: usize) -> Option<usize> {
        let end = std::mem::offset_of!(Control, padding);
        let is_size = (self.level, self.kind) == (libc::IPPROTO_UDP, libc::UDP_GRO);
        let is_whole = bytes >= end && self.len >= end;
        if is_size && is_whole { usize::try_from(self.segment_bytes).ok() } else { None }
    }
}
