//! Datagrams in batches: one call of the system receives or sends many.
//!
//! [`Incoming`] receives into memory of the caller's, [`Outgoing`] sends parts of it, so no byte is
//! copied on the way. [`join_segments`] and [`Message::segment_bytes`] let the kernel carry several
//! datagrams to or from one address as one (UDP GRO and GSO), which costs about as much as one;
//! [`Trains`] finds out which these are.

mod call;
mod incoming;
mod outgoing;
mod peer;
mod train;

pub use incoming::{Arrival, Incoming};
pub use outgoing::{Message, Outgoing};
pub use peer::Peer;
pub use train::{Train, Trains};

/// Bytes of a slot for what arrives at once: the kernel may have joined many datagrams.
pub const SLOT_BYTES: usize = 64 << 10;
/// Bytes from one slot to the next. Not a power of two, since the first lines of all slots would
/// then share a few places of the processor's caches.
pub const STRIDE: usize = SLOT_BYTES + 192;
/// Room for datagrams that wait to be received, where many come at once; the system may allow
/// less.
pub const RECEIVE_BYTES: usize = 4 << 20;
/// What a waiting datagram of 1,400 bytes takes of what the system grants: 2,304 bytes by Linux's
/// count on the loopback device, a page and its management where a driver receives into pages; and
/// a quarter of what was granted is free only after the next call.
pub const WAITING_BYTES: usize = 4352;

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Has the kernel join datagrams that came from one address ([`Arrival::segment_bytes`]). An error
/// where it cannot; Linux can from 5.0 on.
pub fn join_segments(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)
}

/// Asks for room for `bytes` of datagrams that wait to be received; the system may grant less.
/// Returns what it has granted, its own management of datagrams included.
pub fn set_receive_bytes(socket: &UdpSocket, bytes: usize) -> usize {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // Where it is refused the default stays, which only loses more under load.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes);
    // Beyond the system's maximum, where the process has the right.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes);
    get(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)
}

/// Asks for room for `bytes` of datagrams that wait to be sent; the system may grant less.
pub fn set_send_bytes(socket: &UdpSocket, bytes: usize) {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes);
}

/// The value of an option; 0 where it has none.
fn get(socket: &UdpSocket, level: libc::c_int, option: libc::c_int) -> usize {
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `value`, and `len`.
    let got = unsafe {
        let value = std::ptr::from_mut(&mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, value, &mut len)
    };
    if got == 0 { usize::try_from(value).unwrap_or(0) } else { 0 }
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

#[cfg(test)]
mod tests;
