//! Writes that happen together.

use crate::error::{call, quietly, silica_code, silica_error};
use crate::expiry::duration;
use crate::keyspace::silica_keyspace;
use crate::raw::{self, opaque};
use crate::store::durability_of;
use silica::{EntryRef, WriteBatch, expires_after};
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Operations, with their bytes behind one another.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    operations: Vec<Operation>,
}

enum Operation {
    Put { key: Range<usize>, value: Range<usize>, expires_unix_ms: u64 },
    Delete(Range<usize>),
    DeleteRange(Range<usize>, Option<Range<usize>>),
}

impl Batch {
    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires_unix_ms: u64) {
        let (key, value) = (self.keep(key), self.keep(value));
        self.operations.push(Operation::Put { key, value, expires_unix_ms });
    }

    fn borrowed(&self) -> WriteBatch<'_> {
        let mut batch = WriteBatch::new();
        let bytes = |range: &Range<usize>| &self.bytes[range.clone()];
        for operation in &self.operations {
            match operation {
                Operation::Put { key, value, expires_unix_ms } => {
                    let expires_unix_ms = *expires_unix_ms;
                    let entry = EntryRef { expires_unix_ms, ..EntryRef::new(bytes(value)) };
                    batch.put_entry(bytes(key), entry)
                }
                Operation::Delete(key) => batch.delete(bytes(key)),
                Operation::DeleteRange(lower, upper) => {
                    batch.delete_range(bytes(lower), upper.as_ref().map(bytes))
                }
            };
        }
        batch
    }
}

/// Writes that happen together. One thread at a time uses a handle.
pub struct silica_batch {
    _opaque: (),
}

opaque!(silica_batch, Batch, b"SIL-BATC", "batch");

/// Returns an empty batch, to be freed with silica_batch_free.
#[unsafe(no_mangle)]
pub extern "C" fn silica_batch_new() -> *mut silica_batch {
    quietly(std::ptr::null_mut(), || Ok(raw::boxed(Batch::default())))
}

/// Frees a batch; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_batch_free(batch: *mut silica_batch) {
    quietly((), || {
        raw::release(batch);
        Ok(())
    });
}

/// Adds a put. Key and value are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_batch_put(
    batch: *mut silica_batch,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let value = raw::slice("value", value, value_length)?;
        raw::body_mut(batch)?.put(key, value, 0);
        Ok(())
    })
}

/// Adds a put of an entry that expires `ttl_ms` milliseconds after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_batch_put_with_ttl(
    batch: *mut silica_batch,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    ttl_ms: i64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let value = raw::slice("value", value, value_length)?;
        raw::body_mut(batch)?.put(key, value, expires_after(duration(ttl_ms)?)?);
        Ok(())
    })
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_batch_delete(
    batch: *mut silica_batch,
    key: *const c_void,
    key_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let batch = raw::body_mut(batch)?;
        let key = batch.keep(key);
        batch.operations.push(Operation::Delete(key));
        Ok(())
    })
}

/// Adds a delete of all keys from `lower` on and before `upper`; a NULL bound stands for no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_batch_delete_range(
    batch: *mut silica_batch,
    lower: *const c_void,
    lower_length: usize,
    upper: *const c_void,
    upper_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let lower = raw::bound(lower, lower_length)?.unwrap_or_default();
        let upper = raw::bound(upper, upper_length)?;
        let batch = raw::body_mut(batch)?;
        let lower = batch.keep(lower);
        let upper = upper.map(|upper| batch.keep(upper));
        batch.operations.push(Operation::DeleteRange(lower, upper));
        Ok(())
    })
}

/// Forgets the operations and keeps the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_batch_clear(batch: *mut silica_batch) {
    quietly((), || {
        let batch = raw::body_mut(batch)?;
        batch.operations.clear();
        batch.bytes.clear();
        Ok(())
    });
}

/// Returns the number of operations; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_batch_count(batch: *const silica_batch) -> usize {
    quietly(0, || Ok(raw::body(batch)?.operations.len()))
}

/// Applies `batch` to a keyspace in one step: all of it or, after a crash, nothing. `durability`
/// is SILICA_USUAL, SILICA_BUFFERED or SILICA_SYNCED. The batch stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_write(
    keyspace: *const silica_keyspace,
    batch: *const silica_batch,
    durability: c_int,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let keyspace = raw::body(keyspace)?;
        let durability = durability_of(durability)?.unwrap_or_else(|| keyspace.durability());
        keyspace.write_with(&raw::body(batch)?.borrowed(), durability)
    })
}
