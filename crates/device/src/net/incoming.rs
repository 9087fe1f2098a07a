//! Receiving.

use super::peer::Peer;
use super::{Control, empty_header};
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
            controls: vec![[0; 3]; most],
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
            header.msg_control = self.controls[n].as_mut_ptr().cast();
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
            bytes => segment(&self.controls[n], bytes),
        };
        Arrival {
            peer: &self.peers[n],
            len,
            segment_bytes: segment.filter(|bytes| (1..=len).contains(bytes)).unwrap_or(len),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}

/// The segments' size in a control message of `bytes` bytes, where it tells one.
fn segment(control: &Control, bytes: usize) -> Option<usize> {
    // A header: its length, with the number behind it, then level and kind.
    let [len, level_and_kind, number] = *control;
    let mut halves = [0; 2];
    let both = level_and_kind.to_ne_bytes();
    for (half, bytes) in halves.iter_mut().zip(both.chunks_exact(4)) {
        *half = libc::c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let number = number.to_ne_bytes();
    let number = i32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
    let is_size = halves == [libc::IPPROTO_UDP, libc::UDP_GRO];
    let is_whole = len as usize <= bytes && len as usize >= 20;
    if is_size && is_whole { usize::try_from(number).ok() } else { None }
}
