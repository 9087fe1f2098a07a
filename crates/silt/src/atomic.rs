//! Atomic read-modify-write without holding a lock across I/O: read, decide, write if the key's
//! newest version is still the one that was read.

use crate::read::Answer;
use crate::silt::Silt;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{Atomic, Durability, EntryRef, Op, OpKind, Update};

impl<D: Device> Atomic for Silt<D> {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        let hash = self.hash(key);
        loop {
            // Taken before the read: whatever changes the key from here on changes it.
            let expected = self.expectation(hash, key);
            let mut current = Answer::default();
            self.read_burst(&[key], &mut current)?;
            let update = decide(current.entry());
            let kind = match &update {
                Update::Keep => return Ok(()),
                Update::Delete => OpKind::Delete,
                Update::Put { value, expires_unix_ms, user_bits } => OpKind::Put(EntryRef {
                    value,
                    expires_unix_ms: *expires_unix_ms,
                    user_bits: *user_bits,
                }),
            };
            let written = self.write_if(Op { key, kind }, hash, expected, durability);
            if self.spread_poison(written)? {
                return Ok(());
            }
        }
    }
}
