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

/// Operations that happen together: all of them or, after a crash, none. Later operations on the
/// same key win.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch<'a> {
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
        self.ops.push(Op { key, kind: OpKind::Put(entry) });
        self
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &'a [u8]) -> &mut Self {
        self.ops.push(Op { key, kind: OpKind::Delete });
        self
    }

    /// Adds an operation.
    pub fn push(&mut self, op: Op<'a>) -> &mut Self {
        self.ops.push(op);
        self
    }

    /// Forgets all operations and keeps the allocation.
    pub fn clear(&mut self) {
        self.ops.clear();
    }

    /// An empty batch of other borrows that keeps the allocation, for loops over batches.
    pub fn recycled<'b>(mut self) -> WriteBatch<'b> {
        self.ops.clear();
        // Collecting an empty iterator of items of the same layout keeps the allocation.
        let ops = self.ops.into_iter().map(|_| unreachable!("the batch is empty")).collect();
        WriteBatch { ops }
    }

    /// The operations in order.
    pub fn ops(&self) -> &[Op<'a>] {
        &self.ops
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True without operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}
