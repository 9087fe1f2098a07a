//! Receiving.

use super::call::{Call, Control};
use super::peer::Peer;
use std::io;
use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// What one call of the system received.
pub struct Incoming {
    call: Call,
    peers: Vec<Peer>,
    senders: Vec<usize>,
    count: usize,
}

/// One datagram that came, or several that the kernel has joined.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Address of the socket that the datagram is from.
    pub peer: &'a Peer,
    /// Which of the messages in a row that came from there is the first.
    pub sender: usize,
    /// Bytes that are there.
    pub len: usize,
    /// Bytes of each datagram but the last, where several were joined; otherwise `len`.
    pub segment_bytes: usize,
    /// It was longer than its slot.
    pub truncated: bool,
}

impl Arrival<'_> {
    /// Where in the slot each datagram stands.
    pub fn datagrams(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (len, segment) = (self.len, self.segment_bytes.max(1));
        (0..len).step_by(segment).map(move |start| start..len.min(start + segment))
    }
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
            call: Call::new(most),
            peers: vec![Peer::NONE; most],
            senders: vec![0; most],
            count: 0,
        }
    }

    /// Datagrams of one call at most.
    pub fn most(&self) -> usize {
        self.call.headers.len()
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
        let Call { headers, parts, controls } = &mut self.call;
        let mut prepared = 0;
        for (n, slot) in slots.take(headers.len()).enumerate() {
            parts[n] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot_bytes };
            let header = &mut headers[n].msg_hdr;
            (header.msg_name, header.msg_namelen) = self.peers[n].room();
            header.msg_iov = &mut parts[n];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[n]).cast();
            header.msg_controllen = size_of::<Control>() as _;
            header.msg_flags = 0;
            prepared = n + 1;
        }
        // SAFETY: every header that is named has one part, which is a slot of `bytes` that nobody
        // else uses during the call, and a name and a control message of the sizes given, which
        // are elements of vectors of `self`. The timeout is absent.
        let received = unsafe {
            let (first, count) = (headers.as_mut_ptr(), prepared as libc::c_uint);
            let flags = libc::MSG_WAITFORONE;
            libc::recvmmsg(socket.as_raw_fd(), first, count, flags, std::ptr::null_mut())
        };
        self.count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let arrived = headers[..self.count].iter().zip(&mut self.peers);
        arrived.for_each(|(header, peer)| peer.received(header.msg_hdr.msg_namelen));
        for n in 1..self.count {
            let again = self.peers[n] == self.peers[n - 1];
            self.senders[n] = if again { self.senders[n - 1] } else { n };
        }
        Ok(self.count)
    }

    /// Datagram `n` of the last call.
    pub fn arrival(&self, n: usize) -> Arrival<'_> {
        assert!(n < self.count, "there are fewer datagrams");
        let header = &self.call.headers[n];
        let len = header.msg_len as usize;
        let segment = match header.msg_hdr.msg_controllen {
            0 => None,
            bytes => self.call.controls[n].segment_bytes(bytes),
        };
        Arrival {
            peer: &self.peers[n],
            sender: self.senders[n],
            len,
            segment_bytes: segment.filter(|bytes| (1..=len).contains(bytes)).unwrap_or(len),
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}
