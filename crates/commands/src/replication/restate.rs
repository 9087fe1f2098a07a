//! Writes of a database that has no snapshots, while its keys are put into the stream.
//!
//! A replica that follows such a database has a part of its keys. A command that needs what is not
//! there yet would fail on it, or do something else: RENAME of such a key, SUNIONSTORE, LSET. So
//! the first write of each key is told as what the key is afterwards; later ones of that key are
//! told as always, because the replica has it from then on.
//!
//! The caller holds the stripes of all keys that it tells of, so what is read here is what they are
//! behind these writes.

use super::effects::Form;
use super::records::{Change, Changes};
use super::{Effects, Replication, walk};
use crate::budget::Claim;
use crate::burst::Args;
use crate::service::Service;
use crate::table::{Command, find};
use silica::engine::Result;
use silica_proto::{Limits, Parser, Span};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

/// Keys that are known at most; beyond that all are told anew.
const KNOWN_MAX: usize = 1 << 18;
/// Commands that say all of what their key is afterwards.
const ABSOLUTE: [&str; 5] = ["set", "del", "unlink", "mset", "restore"];

/// Commands whose keys are in two databases.
const ACROSS: [&str; 2] = ["copy", "move"];

type Name = (u8, Box<[u8]>);

/// The keys of a command of database `db`.
fn names_of(command: &Command, db: u8, args: &[&[u8]]) -> BTreeSet<Name> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    for arg in args {
        spans.push(Span { start: bytes.len() as u32, len: arg.len() as u32 });
        bytes.extend_from_slice(arg);
    }
    command.keys(Args::new(&bytes, &spans)).map(|key| (db, key.into())).collect()
}

/// The databases whose keys are put into the stream.
#[derive(Debug, Default)]
pub(super) struct Walks {
    /// How many synchronisations are under way that need it.
    count: usize,
    dbs: BTreeSet<u8>,
    /// Keys that all replicas have as they are.
    known: BTreeSet<Name>,
}

/// A synchronisation that needs it; it ends when this is dropped.
pub(super) struct Walking<'r>(&'r Replication);

impl Drop for Walking<'_> {
    fn drop(&mut self) {
        let mut walks = self.0.walks();
        walks.count -= 1;
        if walks.count == 0 {
            self.0.is_walked.store(false, Relaxed);
            *walks = Walks::default();
        }
    }
}

impl Replication {
    fn walks(&self) -> MutexGuard<'_, Walks> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another replica has nothing of databases `dbs`. The caller is alone with the databases.
    pub(super) fn begin_walk(&self, dbs: &[u8]) -> Walking<'_> {
        let mut walks = self.walks();
        walks.count += 1;
        walks.dbs.extend(dbs);
        walks.known.clear();
        self.is_walked.store(!walks.dbs.is_empty(), Relaxed);
        Walking(self)
    }
}

impl Service {
    /// Makes of `effects` what replicas can apply that have only a part of the keys.
    pub(super) fn restate(&self, effects: &mut Effects) -> Result<()> {
        let (mut told, mut stated) = (Effects::default(), BTreeSet::new());
        for (db, form, bytes) in effects.parts() {
            if let (Form::Entries(_), Some(db)) = (form, db) {
                let mut walks = self.databases.lock(&self.replication.walks);
                walks.take_entries(db, bytes, (&mut told, &stated));
                continue;
            }
            let mut bytes = bytes.to_vec();
            let (mut at, mut parser) = (0, Parser::new());
            while let Ok(Some(used)) = parser.parse(&mut bytes[at..], &Limits::OPEN) {
                let args: Vec<&[u8]> =
                    parser.args().iter().map(|span| span.of(&bytes[at..])).collect();
                let mut walks = self.databases.lock(&self.replication.walks);
                walks.take(db, &args, (&mut told, &mut stated));
                at += used;
            }
        }
        let claim = Claim::new(&self.budget);
        for (db, key) in &stated {
            let before = told.len();
            let engine = self.databases.engine(usize::from(*db))?;
            let whole = self.databases.whole(usize::from(*db));
            walk::push_key((engine, whole), (*db, key), &claim, self.unix_ms(), &mut told)?;
            if told.len() == before {
                told.push(Some(*db), &[b"DEL", key]);
            }
        }
        self.databases.lock(&self.replication.walks).learn(stated);
        *effects = told;
        Ok(())
    }
}

impl Walks {
    /// Adds entries to `told`, which say all of what their keys are.
    fn take_entries(
        &mut self,
        db: u8,
        entries: &[u8],
        (told, stated): (&mut Effects, &BTreeSet<Name>),
    ) {
        for change in Changes(entries).flatten() {
            let (Change::Put(key, _) | Change::Deleted(key)) = change;
            let name = (db, key.into());
            // What is stated is read behind this write.
            if stated.contains(&name) {
                continue;
            }
            match change {
                Change::Put(key, entry) => told.put(db, key, entry),
                Change::Deleted(key) => told.delete(db, key),
            }
            if self.dbs.contains(&db) {
                self.learn(BTreeSet::from([name]));
            }
        }
    }

    /// Adds a command to `told`, or its keys to `stated`.
    fn take(
        &mut self,
        db: Option<u8>,
        args: &[&[u8]],
        (told, stated): (&mut Effects, &mut BTreeSet<Name>),
    ) {
        let command = args.first().and_then(|name| find(&name.to_ascii_lowercase()));
        let names: BTreeSet<Name> = match (command, db) {
            (Some(command), Some(db)) if self.dbs.contains(&db) => names_of(command, db, args),
            _ => BTreeSet::new(),
        };
        if names.is_empty() {
            // What concerns whole databases may move keys, or remove them.
            if command.is_some_and(|command| command.has("write")) {
                self.known.clear();
            }
            if command.is_some_and(|command| command.name == "swapdb") {
                self.swap(args, stated);
            }
            return told.push(db, args);
        }
        let is_absolute = command.is_some_and(|command| ABSOLUTE.contains(&command.name));
        let is_stated = names.iter().any(|name| stated.contains(name));
        if !is_stated && (is_absolute || names.iter().all(|name| self.known.contains(name))) {
            self.learn(names);
            return told.push(db, args);
        }
        if command.is_some_and(|command| ACROSS.contains(&command.name)) {
            // The other database stands among its options.
            for db in &self.dbs {
                stated.extend(names.iter().map(|(_, key)| (*db, key.clone())));
            }
        }
        stated.extend(names);
    }

    /// Keys that are put into the stream, and those that are `stated`, have the numbers of
    /// databases that SWAPDB has given them.
    fn swap(&mut self, args: &[&[u8]], stated: &mut BTreeSet<Name>) {
        let number = |at: usize| {
            let number = args.get(at).and_then(|arg| silica_proto::parse_i64(arg));
            number.and_then(|number| u8::try_from(number).ok())
        };
        let Some((one, other)) = number(1).zip(number(2)) else { return };
        let swapped = |db: u8| match db {
            db if db == one => other,
            db if db == other => one,
            db => db,
        };
        self.dbs = self.dbs.iter().map(|db| swapped(*db)).collect();
        let names = std::mem::take(stated).into_iter();
        *stated = names.map(|(db, key)| (swapped(db), key)).collect();
    }

    fn learn(&mut self, names: BTreeSet<Name>) {
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        self.known.extend(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_moves_what_is_walked_and_what_is_to_be_stated() {
        let mut walks = Walks { dbs: BTreeSet::from([0, 2]), ..Walks::default() };
        let (mut told, mut stated) = (Effects::default(), BTreeSet::new());
        walks.take(Some(0), &[b"RPUSH", b"k", b"v"], (&mut told, &mut stated));
        walks.take(Some(0), &[b"SWAPDB", b"0", b"1"], (&mut told, &mut stated));
        assert_eq!((walks.dbs.clone(), told.len()), (BTreeSet::from([1, 2]), 1));
        assert_eq!(stated, BTreeSet::from([(1, Box::from(&b"k"[..]))]));
        // What replicas have a part of is stated, under its new number.
        walks.take(Some(1), &[b"RPUSH", b"l", b"v"], (&mut told, &mut stated));
        walks.take(Some(0), &[b"RPUSH", b"l", b"v"], (&mut told, &mut stated));
        assert_eq!((stated.len(), told.len()), (2, 2));
    }
}
