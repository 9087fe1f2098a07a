//! A database that is not there, for those who only read it: asking for it makes none.

use silica::engine::{
    Admin, Atomic, Budget, Capabilities, Checkpoint, Count, Descriptor, Durability, Engine,
    EntryRef, Error, ErrorKind, GetSink, Limits, MetricVisitor, Progress, Result, Scan, Update,
    WriteBatch,
};

/// An engine without entries, which takes none.
pub(crate) struct Nothing;

const DESCRIPTOR: Descriptor = Descriptor {
    name: "none",
    capabilities: Capabilities {
        durable: false,
        synced: false,
        kept_at_close: false,
        may_wait: false,
        scan: true,
        ordered: false,
        atomic: true,
        admin: true,
        may_evict: false,
    },
    limits: Limits {
        key_bytes_max: usize::MAX,
        value_bytes_max: usize::MAX,
        batch_bytes_max: usize::MAX,
    },
};

/// The error of a write, which should have made the database first.
fn refusal<T>() -> Result<T> {
    Err(Error::new(ErrorKind::ReadOnly, "a database that is not there was written"))
}

impl Engine for Nothing {
    fn descriptor(&self) -> &Descriptor {
        &DESCRIPTOR
    }

    fn get_many(&self, _: &[&[u8]], _: &mut dyn GetSink) -> Result<()> {
        Ok(())
    }

    fn write(&self, batch: &WriteBatch<'_>, _: Durability) -> Result<()> {
        if batch.is_empty() { Ok(()) } else { refusal() }
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

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Scan for Nothing {
    fn scan(
        &self,
        _: u64,
        _: usize,
        _: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        Ok(None)
    }

    fn cursor_of(&self, _: &[u8]) -> u64 {
        0
    }
}

impl Atomic for Nothing {
    fn update(
        &self,
        _: &[u8],
        _: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        if matches!(decide(None), Update::Keep) { Ok(()) } else { refusal() }
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        _: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let is_kept = |at: usize| matches!(decide(at, None), Update::Keep);
        if (0..keys.len()).all(is_kept) { Ok(keys.len()) } else { refusal() }
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        _: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let updates = decide(&vec![None; keys.len()]);
        let is_kept = updates.iter().all(|update| matches!(update, Update::Keep));
        if is_kept { Ok(()) } else { refusal() }
    }
}

impl Admin for Nothing {
    fn count(&self, _: bool) -> Result<Count> {
        Ok(Count::default())
    }

    fn clear(&self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self, _: &mut dyn Checkpoint) -> Result<()> {
        Ok(())
    }

    fn inspect(&self) -> Result<String> {
        Ok(String::new())
    }
}
