//! Sockets in batches: many connections or datagrams move their bytes by one system call.
//!
//! For servers and clients whose system calls cost more than the work between them. Whoever has a
//! few connections or sends a datagram now and then, is served as well by the standard library.
//!
//! - [`SocketRing`]: the connections of one thread through io_uring. The kernel fills buffers as
//!   bytes arrive, and everything that is to be sent leaves together. It needs Linux 6.1.
//! - [`datagrams`]: up to 64 datagrams a system call, and several to or from one address as one.
//!   It needs Linux 5.0 for the latter.
//!
//! ```
//! use silica_net::datagrams::{Incoming, SLOT_BYTES, STRIDE};
//! use std::net::UdpSocket;
//!
//! let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! here.send_to(b"one", there.local_addr()?)?;
//! here.send_to(b"two", there.local_addr()?)?;
//!
//! let mut incoming = Incoming::new(8);
//! let mut memory = vec![0; 8 * STRIDE];
//! assert!(incoming.receive(&there, &mut memory, SLOT_BYTES, STRIDE)? > 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Invariant: this crate knows no protocol, and nothing of what it carries.

pub mod datagrams;
mod ring;

pub use ring::{SocketEvent, SocketRing};
