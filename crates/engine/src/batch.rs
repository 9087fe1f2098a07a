//! Entries and batches of writes.

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
    /// The value, if it has more than `bytes` bytes.
    #[inline]
    pub fn value_over(&self, bytes: usize) -> Option<&'a [u8]> {
        match self.kind {
            OpKind::Put(entry) => Some(entry.value).filter(|value| value.len() > bytes),
            OpKind::Delete => None,
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

    /// Adds an operation.
    #[inline]
    pub fn push(&mut self, op: Op<'a>) -> &mut Self {
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
    }

    /// An empty batch of other borrows that keeps the allocation, for loops over batches.
    pub fn recycled<'b>(mut self) -> WriteBatch<'b> {
        self.clear();
        // Collecting an empty iterator of items of the same layout keeps the allocation.
        let ops = self.ops.into_iter().map(|_| unreachable!("the batch is empty")).collect();
        WriteBatch { only: None, ops }
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
        let one = batch.put(b"k", b"v").clone();
        assert_eq!(one.ops(), WriteBatch::new().put(b"k", b"v").ops());
    }
}
