//! The link of a replica to its primary: a thread that connects, agrees on where to begin, and
//! hands what comes to the commands.
//!
//! For whoever serves: [`Replica::start`] with the service of a server, for as long as it is
//! served. The role is the service's (`REPLICAOF`, the setting `replicaof`); the thread looks at
//! it. A server without this crate is a primary, or follows nobody.
//!
//! The protocol is that of Redis 7: PING, AUTH, REPLCONF, PSYNC; then an RDB file or the rest of
//! the stream. Before PSYNC the link asks who the other side is: a server that follows itself, or a
//! ring of servers, would never end.
//!
//! * `link`: the thread, when it connects and what it does when that fails;
//! * `handshake`: what is said before PSYNC, and its answer;
//! * `transfer`: an RDB file on its way;
//! * `syncer`: what of it is on the disk, for WAITAOF;
//! * `wire`: a connection with timeouts.
#![forbid(unsafe_code)]

mod handshake;
mod link;
#[cfg(test)]
mod scripted;
mod syncer;
mod transfer;
mod wire;

pub use link::Replica;
