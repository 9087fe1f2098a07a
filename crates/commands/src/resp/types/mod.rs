//! Commands on hashes, lists, sets, sorted sets and streams.
//!
//! A command opens the objects of its keys ([`Objects::open`]), works on them through
//! `silica_types`, and stores those that it has changed ([`Objects::store`]). All that a burst asks
//! of objects is one step: see [`crate::exec`].

pub(crate) mod generic;
pub(crate) mod geo;
pub(crate) mod hash;
pub(crate) mod hash_times;
pub(crate) mod hyperloglog;
pub(crate) mod list;
mod objects;
pub(crate) mod random;
pub(crate) mod reclaim;
pub(crate) mod room;
pub(crate) mod scan;
pub(crate) mod score;
pub(crate) mod set;
pub(crate) mod set_algebra;
pub(crate) mod sort;
pub(crate) mod stream;
pub(crate) mod zset;

pub(crate) use objects::{Failure, Objects, Opened};

use crate::burst::Args;
use silica_proto::Reply;

/// The error of a command on a key of another type.
pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

/// What a command on objects comes to; what it has written of its reply is dropped if it fails.
pub(crate) type Done<T = ()> = Result<T, Failure>;

/// A command on objects.
pub(crate) struct TypeCommand {
    pub(crate) run: fn(&mut Objects<'_>, Args<'_>, &mut Reply<'_>) -> Done,
    /// It may change something.
    pub(crate) writes: bool,
    /// The argument that is its first key; 0 if that depends on others.
    pub(crate) key_at: usize,
}

impl TypeCommand {
    /// One that changes nothing.
    pub(crate) const fn read(run: fn(&mut Objects<'_>, Args<'_>, &mut Reply<'_>) -> Done) -> Self {
        TypeCommand { run, writes: false, key_at: 1 }
    }

    /// One that may change something.
    pub(crate) const fn write(run: fn(&mut Objects<'_>, Args<'_>, &mut Reply<'_>) -> Done) -> Self {
        TypeCommand { run, writes: true, key_at: 1 }
    }
    /// Says which argument is the first key; 0 if that depends on others.
    pub(crate) const fn with_key_at(self, key_at: usize) -> Self {
        TypeCommand { key_at, ..self }
    }
}
