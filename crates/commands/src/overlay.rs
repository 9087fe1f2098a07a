//! Some entries of an engine as an engine of their own, which a transaction changes.

use silica::engine::{
    Atomic, Budget, Descriptor, Durability, Engine, EntryRef, GetSink, MetricVisitor, Op, OpKind,
    Progress, Result, Update, WriteBatch,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An entry of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) value: Vec<u8>,
    pub(crate) expires_unix_ms: u64,
    pub(crate) user_bits: u32,
}

impl Owned {
    /// A copy of `entry`.
    pub(crate) fn of(entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Owned { value: value.to_vec(), expires_unix_ms, user_bits }
    }

    pub(crate) fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            value: &self.value,
            expires_unix_ms: self.expires_unix_ms,
            user_bits: self.user_bits,
        }
    }
}

/// What has become of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot<'a> {
    /// As it was.
    Old(Option<EntryRef<'a>>),
    New(Option<Owned>),
}

impl Slot<'_> {
    fn live(&self, now_ms: u64) -> Option<EntryRef<'_>> {
        let entry = match self {
            Slot::Old(entry) => *entry,
            Slot::New(entry) => entry.as_ref().map(Owned::entry),
        };
        entry.filter(|e| e.expires_unix_ms == 0 || e.expires_unix_ms > now_ms)
    }
}

/// The entries of `keys`: what is written stays here until [`Overlay::updates`] tells it.
pub(crate) struct Overlay<'a> {
    descriptor: Descriptor,
    /// In order, none twice.
    keys: &'a [&'a [u8]],
    slots: Mutex<Vec<Slot<'a>>>,
    now_ms: u64,
}

impl<'a> Overlay<'a> {
    /// The entries `current` of `keys`, which ascend, in an engine described by `descriptor`.
    pub(crate) fn new(
        descriptor: Descriptor,
        keys: &'a [&'a [u8]],
        current: &[Option<EntryRef<'a>>],
        now_ms: u64,
    ) -> Self {
        let slots = current.iter().map(|entry| Slot::Old(*entry)).collect();
        Overlay { descriptor, keys, slots: Mutex::new(slots), now_ms }
    }

    /// What was changed, key by key.
    pub(crate) fn updates(self) -> Vec<Update> {
        let slots = self.slots.into_inner().unwrap_or_else(PoisonError::into_inner);
        slots
            .into_iter()
            .map(|slot| match slot {
                Slot::Old(_) => Update::Keep,
                Slot::New(None) => Update::Delete,
                Slot::New(Some(Owned { value, expires_unix_ms, user_bits })) => {
                    Update::Put { value, expires_unix_ms, user_bits }
                }
            })
            .collect()
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot<'a>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, key: &[u8]) -> usize {
        self.keys.binary_search(&key).expect("a transaction names all its keys beforehand")
    }

    fn apply(&self, slots: &mut [Slot<'a>], key: &[u8], update: Update) {
        slots[self.place(key)] = match update {
            Update::Keep => return,
            Update::Delete => Slot::New(None),
            Update::Put { value, expires_unix_ms, user_bits } => {
                Slot::New(Some(Owned { value, expires_unix_ms, user_bits }))
            }
        };
    }
}

impl Engine for Overlay<'_> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let slots = self.slots();
        for (index, key) in keys.iter().enumerate() {
            if let Some(entry) = slots[self.place(key)].live(self.now_ms) {
                sink.found(index, entry);
            }
        }
        Ok(())
    }

    fn write(&self, batch: &WriteBatch<'_>, _: Durability) -> Result<()> {
        batch.refuse_ranges("overlay")?;
        let mut slots = self.slots();
        for Op { key, kind } in batch.ops() {
            let update = match kind {
                OpKind::Delete => Update::Delete,
                OpKind::DeleteRange(_) => unreachable!("batches with ranges are refused"),
                OpKind::Put(entry) => Update::Put {
                    value: entry.value.to_vec(),
                    expires_unix_ms: entry.expires_unix_ms,
                    user_bits: entry.user_bits,
                },
            };
            self.apply(&mut slots, key, update);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn maintain(&self, _: Budget) -> Result<Progress> {
        Ok(Progress::default())
    }

    fn metrics(&self, _: &mut dyn MetricVisitor) {}

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }
}

impl Atomic for Overlay<'_> {
    fn update(
        &self,
        key: &[u8],
        _: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        let mut slots = self.slots();
        let update = decide(slots[self.place(key)].live(self.now_ms));
        self.apply(&mut slots, key, update);
        Ok(())
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        _: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let mut slots = self.slots();
        let entries: Vec<_> =
            keys.iter().map(|key| slots[self.place(key)].live(self.now_ms)).collect();
        let updates = decide(&entries);
        for (key, update) in keys.iter().zip(updates) {
            self.apply(&mut slots, key, update);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica::engine::{Capabilities, EngineExt, Limits};

    const DESCRIPTOR: Descriptor = Descriptor {
        name: "test",
        capabilities: Capabilities {
            durable: false,
            synced: false,
            kept_at_close: false,
            may_wait: false,
            scan: false,
            ordered: false,
            atomic: true,
            admin: false,
            may_evict: false,
        },
        limits: Limits { key_bytes_max: 10, value_bytes_max: 10, batch_bytes_max: 100 },
    };

    #[test]
    fn it_tells_what_was_changed_and_nothing_else() {
        let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let over = EntryRef { expires_unix_ms: 5, ..EntryRef::new(b"over") };
        let current = [Some(EntryRef::new(b"1")), Some(EntryRef::new(b"2")), None, Some(over)];
        let overlay = Overlay::new(DESCRIPTOR, &keys, &current, 5);
        let now = Durability::Buffered;
        assert_eq!(overlay.get(b"d").unwrap(), None, "its time is over");
        overlay.put(b"c", b"3", now).unwrap();
        assert_eq!(overlay.get(b"c").unwrap().as_deref(), Some(&b"3"[..]));
        overlay.delete(b"a", now).unwrap();
        assert_eq!(overlay.get(b"a").unwrap(), None);
        let swap = &mut |entries: &[Option<EntryRef<'_>>]| {
            assert_eq!(entries, [None, Some(EntryRef::new(b"3"))]);
            vec![Update::put(b"3".to_vec()), Update::Delete]
        };
        overlay.update_all(&[b"a", b"c"], now, swap).unwrap();
        let want = [Update::put(b"3".to_vec()), Update::Keep, Update::Delete, Update::Keep];
        assert_eq!(overlay.updates(), want);
    }
}
