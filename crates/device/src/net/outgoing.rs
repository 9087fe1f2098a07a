//! Sending.

use super::empty_header;
use super::peer::Peer;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// One datagram to be sent, or several to one address.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// To whom; nobody where the socket is connected.
    pub to: Option<&'a Peer>,
    /// Its bytes, in two parts of which either may be empty.
    pub parts: [&'a [u8]; 2],
    /// Bytes of each datagram but the last, where the kernel is to cut it; otherwise 0.
    pub segment_bytes: usize,
}

/// Memory for calls that send.
pub struct Outgoing {
    /// Filled anew for each call, so what they point to need not live longer than it.
    headers: Vec<libc::mmsghdr>,
    parts: Vec<[libc::iovec; 2]>,
    controls: Vec<Control>,
}

// SAFETY: the pointers in headers and parts are made anew by each call of `send`, and used by
// nobody after it.
unsafe impl Send for Outgoing {}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("most", &self.headers.len()).finish_non_exhaustive()
    }
}

impl Outgoing {
    /// Room for `most` messages in one call.
    pub fn new(most: usize) -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Outgoing {
            headers: (0..most).map(|_| empty_header()).collect(),
            parts: vec![[none; 2]; most],
            controls: vec![Control::default(); most],
        }
    }

    /// Sends as many of `messages` as one call takes, from the first on; how many. An error is
    /// that of the first message, which the caller may leave out.
    pub fn send(&mut self, socket: &UdpSocket, messages: &[Message<'_>]) -> io::Result<usize> {
        let count = messages.len().min(self.headers.len());
        for (n, message) in messages[..count].iter().enumerate() {
            // The kernel does not write to what is sent.
            self.parts[n] = message.parts.map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
            let header = &mut self.headers[n].msg_hdr;
            *header = empty_header().msg_hdr;
            if let Some(to) = message.to {
                let (name, len) = to.name();
                (header.msg_name, header.msg_namelen) = (name.cast_mut(), len);
            }
            header.msg_iov = self.parts[n].as_mut_ptr();
            header.msg_iovlen = if message.parts[1].is_empty() { 1 } else { 2 };
            if let Ok(bytes @ 1..) = u16::try_from(message.segment_bytes) {
                self.controls[n] = Control::segments_of(bytes);
                header.msg_control = (&raw mut self.controls[n]).cast();
                header.msg_controllen = size_of::<Control>() as _;
            }
        }
        // SAFETY: every header that is named has up to two parts, which the messages borrow, a
        // name that they borrow, and a control message that is an element of `self`. The kernel
        // reads them, and writes only the headers' lengths.
        let sent = unsafe {
            let (first, count) = (self.headers.as_mut_ptr(), count as libc::c_uint);
            libc::sendmmsg(socket.as_raw_fd(), first, count, 0)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// The control message that has the kernel cut, as it reads it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Control {
    len: usize,
    level: libc::c_int,
    kind: libc::c_int,
    segment_bytes: u16,
    padding: [u16; 3],
}

impl Control {
    fn segments_of(bytes: u16) -> Self {
        Control {
            len: std::mem::offset_of!(Control, padding),
            level: libc::IPPROTO_UDP,
            kind: libc::UDP_SEGMENT,
            segment_bytes: bytes,
            padding: [0; 3],
        }
    }
}

const _: () = assert!(
    size_of::<libc::cmsghdr>() == 16 && size_of::<usize>() == 8,
    "control messages have this form on 64-bit systems only"
);
