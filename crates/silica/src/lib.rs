//! Silica: a key-value store in a directory.
//!
//! ```
//! # let directory = std::env::temp_dir().join(format!("silica-doc-lib-{}", std::process::id()));
//! let store = silica::open(&directory)?;
//! let users = store.keyspace("users")?;
//! users.put("ann", "blue")?;
//! assert_eq!(users.get("ann")?.as_deref(), Some(&b"blue"[..]));
//!
//! // Several writes that happen together, or not at all.
//! let mut batch = silica::WriteBatch::new();
//! batch.put(b"bob", b"green").put(b"cid", b"red").delete(b"ann");
//! users.write(&batch)?;
//! assert_eq!(users.get_many(&["ann", "bob"])?, [None, Some(b"green".to_vec())]);
//!
//! // All of them, in the order of the keys.
//! for entry in &users {
//!     let (key, value) = entry?;
//!     println!("{} likes {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! # drop(users);
//! store.close()?;
//! # std::fs::remove_dir_all(&directory).ok();
//! # Ok::<(), silica::Error>(())
//! ```
//!
//! A store holds named **keyspaces**; each belongs to one engine, chosen when it is created. The
//! store owns what engines must not: paths, threads, the clock and the split of memory. Calls may
//! come from any number of threads; a store's directory belongs to one process at a time.
//!
//! # Ranges, transactions, expiry
//!
//! On an engine that keeps an order, as the default one does:
//!
//! ```
//! # let name = format!("silica-doc-lib-more-{}", std::process::id());
//! # let directory = std::env::temp_dir().join(name);
//! use silica::{ErrorKind, KeyRange};
//! use std::time::Duration;
//!
//! let store = silica::open(&directory)?;
//! let orders = store.keyspace("orders")?;
//! for (key, value) in [("ann/1", "tea"), ("ann/2", "milk"), ("bob/1", "coffee")] {
//!     orders.put(key, value)?;
//! }
//! // Those of one prefix, the last one first; bounds such as "a".."b" do as well.
//! let mut of_ann = orders.range(KeyRange::prefix(b"ann/"))?.rev();
//! assert_eq!(of_ann.next().transpose()?, Some((b"ann/2".to_vec(), b"milk".to_vec())));
//! drop(of_ann);
//!
//! // What is read for an update is what it was when the writes happen, or none of them does.
//! let mut transaction = orders.transaction()?;
//! let old = transaction.get_for_update("bob/1")?;
//! transaction.put("bob/1", "water");
//! transaction.put("bob/2", old.unwrap_or_default());
//! match transaction.commit() {
//!     Ok(()) => {}
//!     Err(error) if error.kind() == ErrorKind::Conflict => println!("somebody was faster"),
//!     Err(error) => return Err(error),
//! }
//! assert_eq!(orders.get("bob/2")?.as_deref(), Some(&b"coffee"[..]));
//!
//! orders.put_with_ttl("voucher", "a tea", Duration::from_secs(3600))?;
//! assert!(orders.ttl("voucher")?.is_some());
//! # drop(orders);
//! store.close()?;
//! # std::fs::remove_dir_all(&directory).ok();
//! # Ok::<(), silica::Error>(())
//! ```
//!
//! # Where to look
//!
//! - [`OpenOptions`] says how a store is opened: memory, engine, durability, read-only.
//! - [`Keyspace`] has the calls on entries; [`Snapshot`], [`Transaction`], [`Range`] come from it.
//! - [`Silica`] has what concerns all keyspaces: [backups](Silica::backup),
//!   [migrations](Silica::migrate) to another engine, [checks](Silica::verify).
//! - [`Cache`] is a cache in memory, without a directory.
//! - `silica::aio` (feature `async`) has the calls as futures.
//! - The directory `examples` of the repository has short programs, one for each of these.
//!
//! A call that writes returns when the write is as durable as the store was opened for: by
//! default, on the device. Errors have a [kind](ErrorKind) for programs and words for people.
//!
//! Invariant: this crate knows engines only through its [`Registry`]; no call outside
//! `registry.rs` names one, but for caches without keyspaces ([`OpenOptions::open_cache`],
//! [`OpenOptions::open_flash_cache`]).
#![forbid(unsafe_code)]

#[cfg(feature = "async")]
pub mod aio;
mod around;
mod auto;
mod backup;
mod cache;
mod cache_databases;
mod catalog;
mod directories;
mod expiry;
mod explain;
mod generation;
mod held_clock;
#[cfg(test)]
mod hostile_tests;
mod ingest;
mod kept;
mod keyspace;
mod migrate;
mod opening;
mod options;
mod ordered;
mod probe;
#[cfg(doctest)]
mod readme;
mod record;
mod recorder;
mod registry;
mod repair;
mod replication_file;
mod scheduler;
mod sealed;
mod settings;
mod sketch;
mod store;
mod tiers;
mod transaction;

pub use around::refuse_within_store;
pub use auto::AUTO;
pub use backup::{BackupKind, BackupReport, restore};
pub use cache::Cache;
pub use cache_databases::CacheDatabases;
pub use expiry::{TimeToLive, expires_after};
pub use generation::Generation;
pub use held_clock::HeldClock;
pub use ingest::TableFiles;
pub use keyspace::{Iter, Keyspace};
pub use migrate::{FORGET_AT_EXIT, MigrateProgress, MigrateReport};
pub use options::{
    CACHE_ENGINE, DEFAULT_ENGINE, DEFAULT_MEMORY_BYTES, MEMORY_BYTES_MAX, MEMORY_BYTES_MIN,
    OpenOptions, check_memory_bytes,
};
pub use ordered::{Bounds, Range, RangeIterator, Snapshot};
pub use probe::{Names, ProbeOptions, SCRATCH_BLOCK_BYTES, Scratch, keep_probe, kept_probe, probe};
pub use record::{RecordBuffer, Recording};
pub use recorder::{RecordOptions, RecordReport};
pub use registry::{EngineSpec, Registry, metrics};
pub use repair::{KeyspaceRepair, StoreRepair, repair};
pub use silica_device::is_writable_directory as is_writable;
pub use silica_device::{self as device, DeviceOptions, FileDevice, IoChoice};
pub use silica_engine as engine;
pub use silica_engine::{
    Budget, Count, Durability, Engine, EngineExt, EntryRef, Environment, Error, ErrorKind, GetSink,
    KeyRange, Metric, MetricKind, MetricsMap, OptionKind, OptionSpec, OptionValues, RangeSize,
    Result, Stage, StageTime, StageTimes, Update, WriteBatch, parse_size,
};
pub use silica_engine::{Ingested, Loss, Repaired};
pub use silica_tune as tune;
pub use store::{DEFAULT_KEYSPACE, KeyspaceInfo, Silica, open};
pub use tiers::{FlashCacheOptions, FlashDatabases};
pub use transaction::Transaction;
