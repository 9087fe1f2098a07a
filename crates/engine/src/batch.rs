//! Entries and batches of writes.

use silica_base::{Error, ErrorKind, Result};

/// An entry's value and meta, borrowed for the duration of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryRef<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Expiry in milliseconds since the Unix epoch; 0 means never.
    pub expires_unix_ms: u64,
    /// 32 bits that belong to the user (memcached's flags).
    pub user_bits: u32,
}

impl<'a> EntryRef<'a> {
    /// An entry without meta.
    pub fn new(value: &'a [u8]) -> Self {
        EntryRef { value, ..EntryRef::default() }
    }
}

/// What one operation of a batch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind<'a> {
    /// Maps the key to this entry.
    Put(EntryRef<'a>),
    /// Removes the key; removing a missing key is not an error.
    Delete,
    /// Removes all keys from the operation's key on and before this one, or to the end of all
    /// keys: those that are there when the batch happens, and those that earlier operations of it
    /// put. Engines that keep no order refuse the batch with [`silica_base::ErrorKind`]
    /// `Unsupported`.
    DeleteRange(Option<&'a [u8]>),
}

impl OpKind<'_> {
    /// True if it puts nothing: so it may be let through where there is no room for more.
    #[inline]
    pub fn is_delete(&self) -> bool {
        !matches!(self, OpKind::Put(_))
    }
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What happens to it.
    pub kind: OpKind<'a>,
}

impl<'a> Op<'a> {
    /// Refuses deletes of ranges among `ops`, for an engine that keeps no order.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there is one.
    pub fn refuse_ranges(ops: &[Op<'_>], engine: &str) -> Result<()> {
        if !ops.iter().any(|op| matches!(op.kind, OpKind::DeleteRange(_))) {
            return Ok(());
        }
        let message = format!(
            "engine '{engine}' keeps no order and cannot delete a range of keys; delete them one \
             by one, or use engine 'wip'"
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The value, if it has more than `bytes` bytes.
    #[inline]
    pub fn value_over(&self, bytes: usize) -> Option<&'a [u8]> {
        match self.kind {
            OpKind::Put(entry) => Some(entry.value).filter(|value| value.len() > bytes),
            OpKind::Delete | OpKind::DeleteRange(_) => None,
        }
    }
}

/// Operations that happen together: all of them or, after a crash, none. Later operations on the
/// same key win.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch<'a> {
    /// The only operation: a batch of one, the most common kind, needs no allocation.
    only: Option<Op<'a>>,
    /// All operations, from the second one on.
    ops: Vec<Op<'a>>,
    /// Some operation deletes a range.
    has_ranges: bool,
}

impl<'a> WriteBatch<'a> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put without meta.
    pub fn put(&mut self, key: &'a [u8], value: &'a [u8]) -> &mut Self {
        self.put_entry(key, EntryRef::new(value))
    }

    /// Adds a put of an entry with meta.
    pub fn put_entry(&mut self, key: &'a [u8], entry: EntryRef<'a>) -> &mut Self {
        self.push(Op { key, kind: OpKind::Put(entry) })
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &'a [u8]) -> &mut Self {
        self.push(Op { key, kind: OpKind::Delete })
    }

    /// Adds a delete of all keys from `lower` on and before `upper`.
    pub fn delete_range(&mut self, lower: &'a [u8], upper: Option<&'a [u8]>) -> &mut Self {
        self.push(Op { key: lower, kind: OpKind::DeleteRange(upper) })
    }

    /// The operations with each delete of a range as deletes of keys: those of `doomed`, one list
    /// for each such operation. For what cannot delete ranges.
    #[must_use]
    pub fn without_ranges(&self, doomed: &'a [Vec<Vec<u8>>]) -> WriteBatch<'a> {
        let (mut plain, mut doomed) = (WriteBatch::new(), doomed.iter());
        for op in self.ops() {
            if let OpKind::DeleteRange(_) = op.kind {
                for key in doomed.next().expect("as many as ranges") {
                    plain.delete(key);
                }
            } else {
                plain.push(*op);
            }
        }
        plain
    }

    /// As [`Op::refuse_ranges`].
    #[inline]
    pub fn refuse_ranges(&self, engine: &str) -> Result<()> {
        if self.has_ranges { Op::refuse_ranges(self.ops(), engine) } else { Ok(()) }
    }

    /// True if some operation deletes a range.
    #[inline]
    pub fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// Adds an operation.
    #[inline]
    pub fn push(&mut self, op: Op<'a>) -> &mut Self {
        self.has_ranges |= matches!(op.kind, OpKind::DeleteRange(_));
        if self.is_empty() && self.ops.capacity() == 0 {
            self.only = Some(op);
        } else {
            self.ops.extend(self.only.take());
            self.ops.push(op);
        }
        self
    }

    /// Forgets all operations and keeps the allocation.
    pub fn clear(&mut self) {
        self.only = None;
        self.ops.clear();
        self.has_ranges = false;
    }

    /// An empty batch of other borrows that keeps the allocation, for loops over batches.
    pub fn recycled<'b>(mut self) -> WriteBatch<'b> {
        self.clear();
        // Collecting an empty iterator of items of the same layout keeps the allocation.
        let ops = self.ops.into_iter().map(|_| unreachable!("the batch is empty")).collect();
        WriteBatch { only: None, ops, has_ranges: false }
    }

    /// The operations in order.
    #[inline]
    pub fn ops(&self) -> &[Op<'a>] {
        if self.only.is_some() { self.only.as_slice() } else { &self.ops }
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.ops().len()
    }

    /// True without operations.
    pub fn is_empty(&self) -> bool {
        self.ops().is_empty()
    }
}

impl<'a> FromIterator<Op<'a>> for WriteBatch<'a> {
    fn from_iter<I: IntoIterator<Item = Op<'a>>>(ops: I) -> Self {
        let mut batch = WriteBatch::new();
        for op in ops {
            batch.push(op);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_in_order_whatever_their_number() {
        let keys: Vec<Vec<u8>> = (0..5u8).map(|i| vec![i]).collect();
        let mut batch = WriteBatch::new();
        for round in 0..3 {
            for (i, key) in keys.iter().enumerate().skip(round) {
                assert_eq!((batch.len(), batch.is_empty()), (i - round, i == round));
                if i % 2 == 0 {
                    batch.put(key, b"v")
                } else {
                    batch.delete(key)
                };
            }
            let found: Vec<&[u8]> = batch.ops().iter().map(|op| op.key).collect();
            assert_eq!(found, keys[round..]);
            assert!(
                batch.ops().iter().all(|op| (op.kind == OpKind::Delete) == (op.key[0] % 2 == 1))
            );
            batch.clear();
            assert!(batch.is_empty());
        }
        assert!(batch.delete_range(b"a", None).put(b"k", b"v").has_ranges());
        batch.clear();
        assert!(!batch.has_ranges() && !batch.clone().recycled().has_ranges());
        let one = batch.put(b"k", b"v").clone();
        assert_eq!(one.ops(), WriteBatch::new().put(b"k", b"v").ops());
    }
}
