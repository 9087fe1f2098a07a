//! Serves engines over RESP2, RESP3 and memcached's protocols.
//!
//! One event loop per core reads, plans and answers; no connection has a thread. Requests that
//! are ready at the same time, on whatever connections, go to the engine as one burst: see
//! [`Config`] for the knobs and `docs/server.md` for commands and limits.
//!
//! * `event_loop`, `conn`, `listeners`, `loops`: sockets and buffers, and how loops are reached;
//! * `workers`, `pool`: threads that run bursts which may wait for a device;
//! * `direct`: loops that own partitions, and requests that are handed to them;
//! * `tls`: between a connection's socket and its buffers, through rustls;
//! * `dial`, `links`: connections to other servers, and TLS on them;
//! * `udp`, `passes`: datagrams, in batches, on threads of their own, and what lets senders in;
//! * `admin`: the dashboard, its history and metrics over HTTP, through tiny_http (small, without a
//!   runtime, used widely).
//!
//! What the commands mean is in `silica-commands`.
//!
//! Invariant: a loop never waits for a device. Engines that may wait are called by the workers
//! only, and what may take long runs apart from everything else.
#![forbid(unsafe_code)]

mod admin;
mod at_hand;
mod commits;
mod config;
mod conn;
mod dial;
mod direct;
mod event_loop;
mod links;
mod listeners;
mod loops;
mod own;
mod passed;
mod passes;
mod pool;
mod server;
mod shared;
mod socket;
mod tls;
mod udp;
mod workers;

pub use config::{Config, EventLoopKind, LinkFiles, Mode, TlsFiles};
pub use links::BothSides;
pub use passed::{Passed, PassedSocket};
pub use server::{Server, StopHandle};
pub use silica_commands::{
    Agreement, BackupJob, ClusterOptions, DATABASES_MAX, Databases, SettingsFile, Tell,
    command_names, keyspace_name, program_bytes,
};
