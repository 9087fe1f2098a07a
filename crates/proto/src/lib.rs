//! RESP2 and RESP3 without sockets: bytes in, requests out; replies in, bytes out.
//!
//! [`Parser`] turns a connection's bytes into requests (arrays of bulk strings and inline
//! commands) whose arguments are [`Span`]s of the caller's buffer. [`Reply`] writes replies of
//! either protocol version. [`decode`] reads replies back, for clients and tests. memcached's
//! protocols are in [`memcached`], the one of datagrams in [`datagram`], Redis's files in [`rdb`].
//!
//! Invariant: this crate opens no socket, reads no clock and allocates no more than a small
//! multiple of the bytes that were really received.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod datagram;
mod decode;
mod inline;
pub mod memcached;
mod number;
mod parser;
pub mod rdb;
mod reply;

pub use decode::{DecodeError, Value, decode};
pub use number::{append_i64, append_u64, parse_f64, parse_i64};
pub use parser::{Limits, Parser, ProtocolError, Rest, Span};
pub use reply::{Reply, Version};
