//! A client of the datagram protocol (docs/protocols/datagram.md).
//!
//! [`Client::connect`] asks for the directory; [`Client::log_in`] does so with a pass that a user
//! is given over a connection. [`Client::exchange`] sends any number of requests,
//! many in a datagram, each to the port that its key belongs to; it keeps a window of datagrams
//! under way, no more than its sockets have room for what answers them, sends again what is lost,
//! and returns when all are answered. [`Client::get`],
//! [`Client::put`] and [`Client::delete`] do the same for one.
//!
//! ```no_run
//! let mut client = silica_client::Client::connect("127.0.0.1:6380".parse().unwrap())?;
//! client.put(b"key", b"value", 0)?;
//! assert_eq!(client.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), silica_base::Error>(())
//! ```
//!
//! Invariant: this crate knows no engine and no server.
#![forbid(unsafe_code)]

mod client;
mod lane;
mod login;
mod options;
mod room;

pub use client::Client;
pub use options::Options;
pub use silica_proto::datagram::{Directory, Reply, Request};
