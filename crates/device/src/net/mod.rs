//! Datagrams in batches: one call of the system receives or sends many.
//!
//! [`Incoming`] receives into memory of the caller's, [`Outgoing`] sends parts of it, so no byte is
//! copied on the way. [`join_segments`] and [`Message::segment_bytes`] let the kernel carry several
//! datagrams to or from one address as one (UDP GRO and GSO), which costs about as much as one.

mod incoming;
mod outgoing;
mod peer;

pub use incoming::{Arrival, Incoming};
pub use outgoing::{Message, Outgoing};
pub use peer::Peer;

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Has the kernel join datagrams that came from one address ([`Arrival::segment_bytes`]). An error
/// where it cannot; Linux can from 5.0 on.
pub fn join_segments(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)
}

/// Asks for room for `bytes` of datagrams that wait to be received; the system may grant less.
pub fn set_receive_bytes(socket: &UdpSocket, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // Where it is refused the default stays, which only loses more under load.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes);
    // Beyond the system's maximum, where the process has the right.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes);
}

fn set(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes, which is the size of `value`.
    let set = unsafe {
        let value = std::ptr::from_ref(&value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, len)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A header of zeros: no address, no parts, no control message.
fn empty_header() -> libc::mmsghdr {
    // SAFETY: a header is plain numbers and pointers, for which all zero is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests;
