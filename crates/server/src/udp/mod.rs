//! Datagrams: threads of their own, each with a socket, that receive and send them in batches.
//! Where partitions belong to event loops these serve the sockets, so that who gets a datagram
//! owns what it is about.
//!
//! * `socket`: sockets and the threads that serve them;
//! * `post`: datagrams on their way out;
//! * `writer`: replies as they become known;
//! * `memcached`: memcached's protocols in frames;
//! * `loop_socket`: a socket that an event loop serves;
//! * `directed`: the datagram protocol, whose clients choose the thread.
//!
//! Each batch is one burst for the engine. A thread waits in the kernel for the next one, and where
//! an engine waits for a device the thread waits with it: nobody else's requests are behind it.

mod directed;
mod loop_socket;
mod memcached;
mod post;
mod socket;
mod writer;

pub(crate) use directed::Directed;
pub(crate) use loop_socket::LoopSocket;
pub(crate) use memcached::Frames;
pub(crate) use socket::{Thread, addresses, bind_all, bind_each, spawn};
