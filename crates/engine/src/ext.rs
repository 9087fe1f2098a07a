//! Single-key conveniences over the burst calls.

use crate::{Durability, Engine, EntryRef, GetSink, Snapshot, WriteBatch};
use silica_base::Result;

struct One(Option<Vec<u8>>);

impl GetSink for One {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 = Some(entry.value.to_vec());
    }
}

/// Passes the one entry on that is found.
pub(crate) struct With<F>(Option<F>);

impl<F: FnOnce(EntryRef<'_>)> With<F> {
    pub(crate) fn new(found: F) -> Self {
        With(Some(found))
    }
}

impl<F: FnOnce(EntryRef<'_>)> GetSink for With<F> {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        if let Some(found) = self.0.take() {
            found(entry);
        }
    }
}

/// Calls `read` with what `get` reports to its sink, or with `None`.
fn read_one<T>(
    read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    get: impl FnOnce(&mut dyn GetSink) -> Result<()>,
) -> Result<T> {
    let (mut read, mut answer) = (Some(read), None);
    let found = |entry: EntryRef<'_>| answer = read.take().map(|read| read(Some(entry)));
    get(&mut With::new(found))?;
    Ok(answer.unwrap_or_else(|| read.expect("nothing was found")(None)))
}

/// A get of one key for every snapshot.
pub trait SnapshotExt: Snapshot {
    /// Calls `read` with the entry of `key` at that moment, borrowed: nothing is copied.
    fn get_with<T>(&self, key: &[u8], read: impl FnOnce(Option<EntryRef<'_>>) -> T) -> Result<T> {
        read_one(read, |sink| self.get_many(&[key], sink))
    }
}

impl<S: Snapshot + ?Sized> SnapshotExt for S {}

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

    /// Makes every write that returned before the call survive as much as the engine can give: a
    /// power cut, if its medium survives one.
    fn sync_as_far_as_it_goes(&self) -> Result<()> {
        match self.descriptor().capabilities.usual_durability() {
            Durability::Synced => self.sync(),
            Durability::Buffered => Ok(()),
        }
    }

    /// Calls `read` with the entry of `key`, borrowed: nothing is copied. The engine may hold a
    /// lock of the key's part meanwhile, so `read` is to be short and to call no engine.
    fn get_with<T>(&self, key: &[u8], read: impl FnOnce(Option<EntryRef<'_>>) -> T) -> Result<T> {
        read_one(read, |sink| self.get_many(&[key], sink))
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
