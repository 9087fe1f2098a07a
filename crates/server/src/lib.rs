//! Serves engines over RESP2, RESP3 and memcached's protocols.
//!
//! One event loop per core reads, plans and answers; no connection has a thread. Requests that
//! are ready at the same time, on whatever connections, go to the engine as one burst: see
//! [`Config`] for the knobs and `docs/server.md` for commands and limits.
//!
//! * `event_loop`, `conn`, `listeners`, `loops`: sockets and buffers, and how loops are reached;
//! * `client_state`, `plan`: what a connection has sent, and requests being planned in their order;
//! * `service`: what all commands share, and `front`, what they ask of the loops;
//! * `memcached`: the same for memcached's protocols;
//! * `table`, `commands`: every command once, with its arity, flags, keys and function;
//! * `burst`, `exec`, `workers`: bursts, how they become engine calls, and where they run;
//! * `owners`: threads that own partitions, as commands see them; `direct`: loops that do, and
//!   requests that are handed to them;
//! * `calls`: how often each command was called;
//! * `acl`: users, and the one place that says whether a request is permitted;
//! * `transaction`, `overlay`: what comes between MULTI and EXEC, as one atomic update;
//! * `tls`: between a connection's socket and its buffers, through rustls;
//! * `udp`: datagrams, in batches, on threads of their own;
//! * `admin`: metrics over HTTP, through tiny_http (small, without a runtime, used widely).
//!
//! Invariant: a loop never waits for a device. Engines that may wait are called by the workers
//! only, and what may take long runs apart from everything else.
#![forbid(unsafe_code)]

mod acl;
mod address;
mod admin;
mod budget;
mod burst;
mod calls;
mod client_state;
mod clients;
mod commands;
mod config;
mod conn;
mod cursors;
mod databases;
mod direct;
mod errors;
mod event_loop;
mod exec;
mod front;
mod glob;
mod jobs;
mod listeners;
mod loops;
mod memcached;
mod migrations;
mod overlay;
mod owners;
mod password;
mod pause;
mod plan;
mod process;
mod rates;
mod recordings;
mod server;
mod service;
mod session;
mod shared;
mod slowlog;
mod socket;
mod stats;
mod store;
mod table;
mod tls;
mod topics;
mod tracking;
mod transaction;
mod udp;
mod unsupported;
mod watch;
mod workers;

pub use config::{Config, EventLoopKind, Mode, TlsFiles};
pub use databases::{DATABASES_MAX, Databases, keyspace_name};
pub use jobs::{BackupJob, Tell};
pub use server::{Server, StopHandle};
pub use table::command_names;
