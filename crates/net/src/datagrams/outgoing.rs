//! Sending.

use super::call::{Call, Control, empty_header};
use super::peer::Peer;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// One datagram to be sent, or several to one address.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// To whom; nobody where the socket is connected.
    pub to: Option<&'a Peer>,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Bytes of each datagram but the last, where the kernel is to cut it; otherwise 0.
    pub segment_bytes: usize,
}

/// Memory for calls that send.
pub struct Outgoing(Call);

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("most", &self.0.headers.len()).finish_non_exhaustive()
    }
}

impl Outgoing {
    /// Room for `most` messages in one call.
    pub fn new(most: usize) -> Self {
        Outgoing(Call::new(most))
    }

    /// Sends as many of `messages` as one call takes, from the first on; how many. An error is
    /// that of the first message, which the caller may leave out.
    pub fn send<'a>(
        &mut self,
        socket: &UdpSocket,
        messages: impl IntoIterator<Item = Message<'a>>,
    ) -> io::Result<usize> {
        let Call { headers, parts, controls } = &mut self.0;
        let mut count = 0;
        for (n, message) in messages.into_iter().take(headers.len()).enumerate() {
            count = n + 1;
            // The kernel does not write to what is sent.
            parts[n] = libc::iovec {
                iov_base: message.bytes.as_ptr().cast_mut().cast(),
                iov_len: message.bytes.len(),
            };
            let header = &mut headers[n].msg_hdr;
            *header = empty_header().msg_hdr;
            if let Some(to) = message.to {
                let (name, len) = to.name();
                (header.msg_name, header.msg_namelen) = (name.cast_mut(), len);
            }
            header.msg_iov = &mut parts[n];
            header.msg_iovlen = 1;
            if let Ok(bytes @ 1..) = u16::try_from(message.segment_bytes) {
                controls[n] = Control::segments_of(bytes);
                header.msg_control = (&raw mut controls[n]).cast();
                header.msg_controllen = size_of::<Control>() as _;
            }
        }
        // SAFETY: every header that is named has one part and a name, which the messages borrow,
        // and a control message that is an element of `self.0`. The kernel
        // reads them, and writes only the headers' lengths.
        let sent = unsafe {
            let (first, count) = (headers.as_mut_ptr(), count as libc::c_uint);
            libc::sendmmsg(socket.as_raw_fd(), first, count, 0)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
