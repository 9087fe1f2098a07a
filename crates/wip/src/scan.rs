//! Iteration by numbers, in the order of the keys: a cursor is the first 63 bits of the key to go
//! on with, so it needs no memory and stays valid for ever. Keys that share them are visited in one
//! call: whoever has many of those goes through [`silica_engine::Ordered`] by the last key.

use crate::iterator::Iter;
use crate::memtable::head;
use crate::snapshot::Held;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{EntryIter, EntryRef, KeyRange, Scan};
use std::sync::Arc;

/// The cursor that goes on with `key`.
fn cursor_of(key: &[u8]) -> u64 {
    head(key) >> 1
}

impl<D: Device> Scan for Wip<D> {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let mut iter = Iter::new(Arc::new(Held::new(self.contents())), &KeyRange::ALL);
        // The shorter keys of those that a cursor stands for come before this one.
        let first = (cursor << 1).to_be_bytes();
        let zeroes = first.iter().rev().take_while(|byte| **byte == 0).count();
        let mut is_there = iter.seek(&first[..first.len() - zeroes])?;
        let (mut visited, mut last) = (0, None);
        while is_there {
            let at = cursor_of(iter.key());
            if visited >= limit.max(1) && last != Some(at) {
                return Ok(Some(at));
            }
            visit(iter.key(), iter.entry());
            (visited, last) = (visited + 1, Some(at));
            is_there = iter.next()?;
        }
        Ok(None)
    }
    fn cursor_of(&self, key: &[u8]) -> u64 {
        cursor_of(key)
    }
}
