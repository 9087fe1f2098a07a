//! The least that an order of keys costs: the standard library's hash table and its ordered tree,
//! each behind one lock, with nothing else of a store around them.

use hashbrown::HashMap;
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Bytes = Box<[u8]>;

/// A map of keys to values.
pub(super) trait Map: Send {
    /// Entries come in the order of their keys.
    const ORDERED: bool;
    fn value(&self, key: &[u8]) -> Option<&[u8]>;
    fn put(&mut self, key: &[u8], value: &[u8]);
    fn remove(&mut self, key: &[u8]);
    /// Up to `count` entries at or behind `from`.
    fn from(&self, from: &[u8], count: usize, entry: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
}

impl Map for HashMap<Bytes, Bytes, foldhash::fast::FixedState> {
    const ORDERED: bool = false;

    fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.get(key).map(|value| &value[..])
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.get_mut(key) {
            Some(old) => replace(old, value),
            None => drop(self.insert(key.into(), value.into())),
        }
    }

    fn remove(&mut self, key: &[u8]) {
        HashMap::remove(self, key);
    }

    fn from(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "a hash table has no order"))
    }
}

impl Map for BTreeMap<Bytes, Bytes> {
    const ORDERED: bool = true;

    fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.get(key).map(|value| &value[..])
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.get_mut(key) {
            Some(old) => replace(old, value),
            None => drop(self.insert(key.into(), value.into())),
        }
    }

    fn remove(&mut self, key: &[u8]) {
        BTreeMap::remove(self, key);
    }

    fn from(&self, from: &[u8], count: usize, entry: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let range = self.range::<[u8], _>((Included(from), Unbounded));
        range.take(count).for_each(|(key, value)| entry(key, value));
        Ok(())
    }
}

fn replace(old: &mut Bytes, value: &[u8]) {
    match old.len() == value.len() {
        true => old.copy_from_slice(value),
        false => *old = value.into(),
    }
}

/// A map behind a lock, which is taken once a call.
#[derive(Default)]
pub(super) struct Floor<M>(Mutex<M>);

impl<M> Floor<M> {
    fn lock(&self) -> MutexGuard<'_, M> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Map> Target for Floor<M> {
    fn abilities(&self) -> Abilities {
        Abilities { scan: M::ORDERED, delete: true, lossy: false }
    }

    fn session(&self, _: Durability) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Use(self)))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Ok(MetricsMap::default())
    }
}

struct Use<'a, M>(&'a Floor<M>);

impl<M: Map> Session for Use<'_, M> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let map = self.0.lock();
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = map.value(key) {
                sink.found(index, value);
            }
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let mut map = self.0.lock();
        entries.iter().for_each(|(key, value)| map.put(key, value));
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let mut map = self.0.lock();
        keys.iter().for_each(|key| map.remove(key));
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.0.lock().from(from, count, entry)
    }
}
