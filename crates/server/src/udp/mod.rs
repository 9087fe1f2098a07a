//! Datagrams: threads of their own, each with a socket, that receive and send them in batches.
//!
//! * `socket`: sockets and the threads that serve them;
//! * `memcached`: memcached's protocols in frames;
//! * `directed`: the datagram protocol, whose clients choose the thread.
//!
//! Each batch is one burst for the engine. A thread waits in the kernel for the next one, and where
//! an engine waits for a device the thread waits with it: nobody else's requests are behind it.

mod directed;
mod memcached;
mod socket;

pub(crate) use directed::{Directed, Known};
pub(crate) use memcached::Frames;
pub(crate) use socket::{Thread, addresses, bind_all, bind_each, spawn};
