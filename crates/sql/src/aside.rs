//! What a transaction has put aside that does not fit into its memory: layers in the engine, or, if
//! the engine has no place for such, entries of the keyspace (`spill.rs`).
//!
//! Layers are the engine's own tables before the commit and after it, so each write is written
//! once.

use crate::spill::{Entries, Failed, Place};
use silica::engine::transaction::Transaction;
use silica::engine::{Ordered, Snapshot, Staging};
use silica::{EntryRef, Result};
use std::sync::Arc;

/// A savepoint that is older than the last spill.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    /// So many layers there were.
    Layers(usize),
    Entries(Place),
}

/// See the module's documentation.
pub(crate) enum Spilled {
    Layers(Layers),
    Entries(Entries),
}

/// Layers of an engine, and the moment that is below them.
pub(crate) struct Layers {
    ordered: Arc<dyn Ordered>,
    below: Arc<dyn Snapshot>,
    staging: Box<dyn Staging>,
}

impl Spilled {
    /// None yet, of a transaction that reads `below`; layers if it takes them and there are such.
    pub(crate) fn new(
        ordered: &Arc<dyn Ordered>,
        below: &Arc<dyn Snapshot>,
        (batch_bytes, takes_layers): (usize, bool),
    ) -> Result<Self> {
        let staging = if takes_layers { Arc::clone(ordered).staging() } else { None };
        match staging {
            Some(staging) => {
                let (ordered, below) = (Arc::clone(ordered), Arc::clone(below));
                Ok(Spilled::Layers(Layers { ordered, below, staging }))
            }
            None => Entries::new(ordered, below, batch_bytes).map(Spilled::Entries),
        }
    }

    /// Refuses what would write after a spill that failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            // Nothing has happened then.
            Spilled::Layers(_) => Ok(()),
            Spilled::Entries(entries) => entries.check(),
        }
    }

    /// True if a transaction above has to know what its writes replace as long as there are marks.
    pub(crate) fn needs_undos(&self) -> bool {
        matches!(self, Spilled::Entries(_))
    }

    /// A transaction with nothing in memory above what is put aside.
    pub(crate) fn transaction(&self) -> Transaction {
        match self {
            Spilled::Layers(Layers { ordered, below, staging }) => {
                let view = staging.over(Arc::clone(below));
                Transaction::begin_alone(Arc::clone(ordered), view)
            }
            Spilled::Entries(entries) => entries.transaction(),
        }
    }

    /// Moves what `transaction` has written here. Its savepoints, if it has any, become these
    /// marks, in their order.
    pub(crate) fn spill(
        &mut self,
        transaction: &Transaction,
        has_savepoints: bool,
    ) -> Result<Vec<Mark>> {
        match self {
            Spilled::Layers(Layers { staging, .. }) => {
                let places = transaction.stage(&mut **staging)?;
                Ok(places.into_iter().map(Mark::Layers).collect())
            }
            Spilled::Entries(entries) => {
                let places = entries.spill(transaction, has_savepoints)?;
                Ok(places.into_iter().map(Mark::Entries).collect())
            }
        }
    }

    /// Puts one entry over what is aside, without a copy of it; false, and nothing is done, if
    /// there are no layers.
    pub(crate) fn put_alone(&mut self, key: &[u8], record: &[u8]) -> Result<bool> {
        let Spilled::Layers(Layers { staging, .. }) = self else { return Ok(false) };
        let bytes = (key.len() + record.len()) as u64;
        let write = (key, Some(EntryRef::new(record)));
        staging.put(bytes, &mut std::iter::once(write))?;
        Ok(true)
    }

    /// Takes back what was put aside since `mark`.
    pub(crate) fn roll_back_to(&mut self, mark: &Mark) -> Result<()> {
        match (self, mark) {
            (Spilled::Layers(Layers { staging, .. }), Mark::Layers(layers)) => {
                staging.protect(*layers);
                staging.roll_back_to(*layers);
                Ok(())
            }
            (Spilled::Entries(entries), Mark::Entries(place)) => entries.roll_back_to(place),
            _ => unreachable!("a mark is of what it was made by"),
        }
    }

    /// The marks behind `last` are not needed any more, or none is.
    pub(crate) fn forget_behind(&mut self, last: Option<&Mark>) -> Result<()> {
        match (self, last) {
            (Spilled::Layers(Layers { staging, .. }), Some(Mark::Layers(layers))) => {
                staging.protect(*layers);
                Ok(())
            }
            (Spilled::Layers(Layers { staging, .. }), _) => {
                staging.protect(0);
                Ok(())
            }
            (Spilled::Entries(entries), None) => entries.forget_undos(),
            (Spilled::Entries(_), Some(_)) => Ok(()),
        }
    }

    /// Commits what is put aside in one step.
    pub(crate) fn commit(&mut self) -> Result<(), Failed> {
        match self {
            Spilled::Layers(Layers { staging, .. }) => staging.commit().map_err(Failed::Before),
            Spilled::Entries(entries) => entries.commit(),
        }
    }

    /// Drops what is put aside; the transaction is rolled back.
    pub(crate) fn end(self) {
        if let Spilled::Entries(entries) = &self {
            entries.end();
        }
    }
}
