//! What the commands of RESP and memcached's protocols mean: no sockets, no loops, no threads of
//! connections.
//!
//! For a server of whatever kind that receives bytes and sends replies. A program that only wants
//! a store uses `silica` itself.
//!
//! The way of a request:
//!
//! 1. [`ClientState::keep`] takes what a client has sent, and [`plan`] makes an [`Input`] of it:
//!    requests in their order, what the session alone answers being answered.
//! 2. Inputs of one or several clients are a [`Burst`], and [`Executor::run`] makes few calls of
//!    the engine of it.
//! 3. Each [`Output`] of the burst has the replies to one client.
//!
//! All of it works on one [`Service`]: databases, users, counters, and what is kept for clients.
//! What commands ask of the threads that serve connections is the trait [`Front`]; threads that
//! own partitions are [`Owners`].
//!
//! A client without a socket:
//!
//! ```
//! use silica_commands::*;
//! use std::sync::Arc;
//! # use silica::engine::Durability;
//! # use std::net::SocketAddr;
//!
//! /// Nobody else is served, so there is nothing to be told.
//! struct Alone;
//!
//! impl Front for Alone {
//!     fn loops(&self) -> usize {
//!         1
//!     }
//!     // (The others do nothing.)
//! #   fn publish(&self, _: usize, _: Arc<Published>, _: Vec<Delivery>) {}
//! #   fn close(&self, _: usize, _: Owner) {}
//! #   fn feed(&self, _: usize, _: Owner) {}
//! #   fn resume(&self) {}
//! #   fn wake(&self, _: usize, _: Owner, _: Waited) {}
//! #   fn stop(&self) {}
//! #   fn port(&self) -> u16 {
//! #       0
//! #   }
//! #   fn datagram_ports(&self) -> Vec<u16> {
//! #       Vec::new()
//! #   }
//! #   fn datagram_pass(&self, _: u64) -> [u8; 16] {
//! #       [0; 16]
//! #   }
//! }
//!
//! # let options = ServiceOptions {
//! #     durability: Durability::Buffered,
//! #     databases: 1,
//! #     loops: 1,
//! #     io_workers: 0,
//! #     memory_bytes: 0,
//! #     clients_bytes_max: 1 << 20,
//! #     listen: Vec::new(),
//! #     clients_max: 1,
//! #     request_ms_max: 0,
//! #     settings_file: None,
//! #     cluster: None,
//! #     agreement: None,
//! #     sql_ms_max: 0,
//! #     sql_workers: 1,
//! # };
//! # let directory = tempfile::tempdir().unwrap();
//! let databases = Arc::new(silica::open(directory.path())?);
//! let databases = DatabaseSet::new(databases, 1, None);
//! let (acl, budget) = (Acl::new(None, None)?, Budget::new(1 << 20));
//! let service = Arc::new(Service::new(options, databases, acl, budget, Arc::new(Alone)));
//! # let here = || Address::Ip(SocketAddr::from(([127, 0, 0, 1], 0)));
//! let mut state = service.add_client((0, 0), (here(), here()), None);
//!
//! state.keep(b"SET key value\r\nGET key\r\n");
//! let mut input = Input::default();
//! plan(&service, &mut state, &mut input);
//!
//! let mut burst = Burst::new(0, Lane::Write);
//! let output = Output::new(Vec::new(), 0, input.requests.len());
//! burst.push(Owner { slot: 0, client: state.client.id }, input, output);
//! Executor::new(service).run(&mut burst);
//! assert_eq!(burst.outputs[0].out, b"+OK\r\n$5\r\nvalue\r\n");
//! # Ok::<(), silica::engine::Error>(())
//! ```
//!
//! * `client_state`, `session`, `plan`: what a client has sent, and requests planned in their
//!   order;
//! * `memcached`: what requests of memcached's protocols do;
//! * `table`, `resp`: every command of RESP once, with its arity, flags, keys and function;
//! * `burst`, `exec`: bursts, and how they become engine calls;
//! * `acl`: users, and the one place that says whether a request is permitted;
//! * `resp::scripts`: programs of clients in Lua, each one step;
//! * `transaction`, `overlay`: what comes between MULTI and EXEC, as one atomic update;
//! * `watch`: whether anybody has written a key since a client began to watch it;
//! * `topics`, `tracking`: messages of channels, and which keys were written; `push` is what
//!   connections are told of both;
//! * `budget`: the memory of all clients;
//! * `calls`, `errors`, `rates`, `slowlog`, `stats`: what INFO and SLOWLOG show;
//! * `view`: what an observer sees who is no client;
//! * `following`, `marks`: what a replica does with the stream of its primary, and how far its data
//!   is;
//! * `replication`: what a server is among others, and the stream of what it writes;
//! * `database_set`, `jobs`, `migrations`, `recordings`: databases, and what is done to them as a
//!   whole.
//!
//! Invariant: nothing here knows a socket or waits for one. Whatever may wait for a device does so
//! in [`Executor::run`], on the thread that calls it.
#![forbid(unsafe_code)]

mod acl;
mod address;
mod agreement;
mod budget;
mod burst;
mod calls;
mod client_state;
mod clients;
mod cluster;
mod cursors;
mod database_set;
mod databases;
mod effect;
mod element_cursors;
mod engine_calls;
mod errors;
mod exec;
mod following;
mod front;
mod gate;
mod glob;
mod jobs;
mod known_counts;
mod lane;
mod marks;
mod memcached;
mod migrations;
mod nothing;
mod overlay;
mod owners;
mod password;
mod pause;
mod places;
mod plan;
mod process;
mod push;
mod rates;
mod recordings;
pub mod replication;
mod resp;
mod service;
mod session;
mod slowlog;
mod stage_sums;
mod stats;
mod table;
mod topics;
mod tracking;
mod transaction;
mod unsupported;
mod view;
mod waiters;
mod watch;

pub use acl::{Acl, User};
pub use address::Address;
pub use agreement::{Agreement, Need};
pub use budget::{Budget, Claim, SMALL_BYTES};
pub use burst::{Args, Burst, Input, Output, Parcel, Request};
pub use client_state::ClientState;
pub use clients::Client;
pub use cluster::{Cluster, ClusterOptions, LinkKind, is_tls};
pub use database_set::DatabaseSet;
pub use databases::{DATABASES_MAX, Databases, Generation, keyspace_name};
pub use effect::Effect;
pub use engine_calls::error_text;
pub use exec::{Change, Executor, OwnedUpdates, Uncommitted, commit};
pub use following::{Ending, Follower, Loaded, More, Summary, settle_history};
pub use front::{Front, Wire};
pub use gate::Turn;
pub use jobs::{BackupJob, Tell};
pub use lane::Lane;
pub use memcached::Outcome;
pub use owners::Owners;
pub use password::same;
pub use pause::Pause;
pub use plan::memcached::{NoRequest, Parsers, plan_memcached, stores_value};
pub use plan::plan;
pub use push::{Delivery, Owner, Published};
pub use resp::config::SettingsFile;
pub use service::{Service, ServiceOptions, program_bytes};
pub use session::Session;
pub use stats::{Counters, Stats};
pub use table::{Answer, BurstLimits, Judged, Modify, command_names};
pub use view::{BURST_POWERS, ClientView, ProcessView, SlowView};
pub use waiters::{Vain, Wait, Waited};
pub use watch::PlaceWatchers;
