//! A database that several members agree about: Raft, by openraft, over our own log.
//!
//! For a server whose acknowledged writes must survive the loss of a machine. Who can lose the last
//! second of writes, and wants more throughput, uses asynchronous replication instead.
//!
//! The way of a write:
//!
//! 1. Commands call an engine, which is `layer`'s: it holds the locks of their keys, reads what
//!    they hold, and computes what they will hold: *effects*, which are absolute.
//! 2. `propose` makes one entry of the effects that wait, and hands it to openraft.
//! 3. `log_store` syncs it here and on a majority (`peer`, `accept`, `wire`).
//! 4. `state` applies it, on each member in the order of the log, and the writer is answered.
//!
//! Reads go to the leader's database while the leader's `lease` holds. `members` come and go;
//! a member without data gets a snapshot, which becomes a new generation of the `database`.
//!
//! What is promised, and how to run it: docs/agreement.md. Why effects and not commands:
//! docs/decisions/038-agreement.md.
#![forbid(unsafe_code)]

mod accept;
mod core;
mod database;
mod effects;
mod group;
mod layer;
mod lease;
mod locks;
mod log_store;
mod members;
mod peer;
mod propose;
mod slot;
mod state;
mod stream;
mod types;
mod wire;

#[cfg(test)]
mod tests;

pub use group::{Group, Options};
pub use stream::{Certificates, Tls};
pub use tokio_rustls::rustls::{ClientConfig, ServerConfig};
