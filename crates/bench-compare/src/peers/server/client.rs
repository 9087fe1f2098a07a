//! What one thread uses of a server that answers in order over one connection, whatever it speaks.

use super::pin::Pinned;
use super::wire::{Wire, gets_at_once, puts_at_once};
use super::{Counters, no_scan};
use ::silica::Result;
use silica_bench::{Session, Sink};

/// A protocol: each call sends one burst of requests and reads all replies to it.
pub(super) trait Dialect {
    /// Gets `keys`; the first has the index `base`.
    fn get(
        &mut self,
        wire: &mut Wire,
        keys: &[&[u8]],
        base: usize,
        sink: &mut dyn Sink,
    ) -> Result<()>;
    /// Puts all entries.
    fn put(&mut self, wire: &mut Wire, entries: &[(&[u8], &[u8])]) -> Result<()>;
    /// Removes all keys.
    fn delete(&mut self, wire: &mut Wire, keys: &[&[u8]]) -> Result<()>;
}

/// A connection of one thread.
pub(super) struct Client<'a, D> {
    wire: Wire,
    dialect: D,
    counters: &'a Counters,
    _pinned: Option<Pinned>,
}

impl<'a, D> Client<'a, D> {
    pub(super) fn new(
        wire: Wire,
        dialect: D,
        counters: &'a Counters,
        pinned: Option<Pinned>,
    ) -> Self {
        Client { wire, dialect, counters, _pinned: pinned }
    }
}

impl<D: Dialect> Session for Client<'_, D> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let mut done = 0;
        while done < keys.len() {
            let count = gets_at_once(&keys[done..]);
            self.dialect.get(&mut self.wire, &keys[done..done + count], done, sink)?;
            done += count;
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let mut left = entries;
        while !left.is_empty() {
            let (now, later) = left.split_at(puts_at_once(left));
            self.wire.out.clear();
            self.dialect.put(&mut self.wire, now)?;
            left = later;
        }
        self.counters.writes.count_puts(entries.len());
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut left = keys;
        while !left.is_empty() {
            let (now, later) = left.split_at(gets_at_once(left));
            self.wire.out.clear();
            self.dialect.delete(&mut self.wire, now)?;
            left = later;
        }
        self.counters.writes.count_deletes(keys.len());
        Ok(())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Err(no_scan(self.wire.name()))
    }
}
