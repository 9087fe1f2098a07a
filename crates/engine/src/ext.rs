//! Single-key conveniences over the burst calls.

use crate::{Durability, Engine, EntryRef, GetSink, WriteBatch};
use silica_base::Result;

struct One(Option<Vec<u8>>);

impl GetSink for One {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 = Some(entry.value.to_vec());
    }
}

struct Many(Vec<Option<Vec<u8>>>);

impl GetSink for Many {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.value.to_vec());
    }
}

/// `get`, `put` and `delete` for every engine.
pub trait EngineExt: Engine {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut one = One(None);
        self.get_many(&[key], &mut one)?;
        Ok(one.0)
    }

    /// The values of all `keys`, in their order.
    fn get_all(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut many = Many(vec![None; keys.len()]);
        self.get_many(keys, &mut many)?;
        Ok(many.0)
    }

    /// Maps `key` to `value`.
    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(&batch, durability)
    }

    /// Removes `key`.
    fn delete(&self, key: &[u8], durability: Durability) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(&batch, durability)
    }
}

impl<E: Engine + ?Sized> EngineExt for E {}
