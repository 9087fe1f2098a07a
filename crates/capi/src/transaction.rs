//! Transactions: reads of one moment, and writes that happen together or not at all.

use crate::error::{call, quietly, silica_code, silica_error};
use crate::expiry::duration;
use crate::iterator::silica_iterator;
use crate::keyspace::silica_keyspace;
use crate::raw::{self, opaque};
use crate::store::durability_of;
use crate::values::{copied, hand_out};
use silica::engine::transaction::{Savepoint, TransactionOptions, Wait};
use silica::{Durability, EntryRef, Error, ErrorKind, Result, Transaction, expires_after};
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// An open transaction, its keyspace's usual durability, and its savepoints by number.
pub struct Open {
    transaction: Transaction,
    usual: Durability,
    savepoints: Vec<Savepoint>,
}

impl Open {
    fn mark(&self, number: u64) -> Result<Savepoint> {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        self.savepoints.get(place).copied().ok_or_else(|| {
            let message = format!("no savepoint {number} in this transaction");
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

/// A transaction. One thread at a time uses a handle.
pub struct silica_transaction {
    _opaque: (),
}

opaque!(silica_transaction, Open, b"SIL-TRAN", "transaction");

/// Begins a transaction: it reads the keyspace as it is now, and nobody sees its writes before
/// they are committed. If `exclusive` is not 0, no other one commits while it is open; for another
/// exclusive one it waits `wait_ms` milliseconds, for ever if negative (SILICA_BUSY then).
/// SILICA_UNSUPPORTED if the engine keeps no order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_begin(
    keyspace: *const silica_keyspace,
    exclusive: c_int,
    wait_ms: i64,
    transaction: *mut *mut silica_transaction,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let wait = match u64::try_from(wait_ms) {
            Ok(0) => Wait::No,
            Ok(ms) => Wait::AtMost(Duration::from_millis(ms)),
            Err(_) => Wait::Forever,
        };
        let keyspace = raw::body(keyspace)?;
        let options = TransactionOptions { is_exclusive: exclusive != 0, wait };
        let begun = keyspace.transaction_with(options)?;
        let usual = keyspace.durability();
        raw::hand_out(Open { transaction: begun, usual, savepoints: Vec::new() }, transaction)
    })
}

/// Writes everything in one step and frees the handle, whatever the answer. `durability` is
/// SILICA_USUAL, SILICA_BUFFERED or SILICA_SYNCED. SILICA_CONFLICT, and nothing has happened, if
/// somebody else wrote what was written or read for an update here: begin it anew.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_commit(
    transaction: *mut silica_transaction,
    durability: c_int,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let open = raw::take(transaction)?;
        open.transaction.commit_with(durability_of(durability)?.unwrap_or(open.usual))
    })
}

/// Forgets everything and frees the handle; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_rollback(transaction: *mut silica_transaction) {
    quietly((), || {
        raw::release(transaction);
        Ok(())
    });
}

/// As silica_get, with the writes made here. Others may change the key before the commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_get(
    transaction: *const silica_transaction,
    key: *const c_void,
    key_length: usize,
    value: *mut *mut c_void,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let open = raw::body(transaction)?;
        hand_out(value, value_length, || open.transaction.get_with(key, copied))
    })
}

/// As silica_transaction_get. The commit fails if somebody else writes the key before it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_get_for_update(
    transaction: *mut silica_transaction,
    key: *const c_void,
    key_length: usize,
    value: *mut *mut c_void,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let found = raw::body_mut(transaction)?.transaction.get_for_update(key)?;
        hand_out(value, value_length, || Ok(copied(found.as_deref().map(EntryRef::new))))
    })
}

/// Maps `key` to `value`, for `ttl_ms` milliseconds from now on, or without a limit if that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_put(
    transaction: *mut silica_transaction,
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
        let expires_unix_ms = match ttl_ms {
            0 => 0,
            ttl_ms => expires_after(duration(ttl_ms)?)?,
        };
        let entry = EntryRef { expires_unix_ms, ..EntryRef::new(value) };
        raw::body_mut(transaction)?.transaction.put_entry(key, entry);
        Ok(())
    })
}

/// Removes `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_delete(
    transaction: *mut silica_transaction,
    key: *const c_void,
    key_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        raw::body_mut(transaction)?.transaction.delete(key);
        Ok(())
    })
}

/// Removes all keys from `lower` on and before `upper`; a NULL bound stands for no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_delete_range(
    transaction: *mut silica_transaction,
    lower: *const c_void,
    lower_length: usize,
    upper: *const c_void,
    upper_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let range = raw::range(lower, lower_length, upper, upper_length)?;
        raw::body_mut(transaction)?.transaction.delete_range(range);
        Ok(())
    })
}

/// Opens an iterator as silica_iterate does, which sees the writes made here, later ones too. It
/// may outlive the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_iterate(
    transaction: *const silica_transaction,
    lower: *const c_void,
    lower_length: usize,
    upper: *const c_void,
    upper_length: usize,
    iterator: *mut *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let range = raw::range(lower, lower_length, upper, upper_length)?;
        raw::hand_out(raw::body(transaction)?.transaction.iterator(range)?, iterator)
    })
}

/// Marks the state of the writes and writes the mark's number to `*savepoint`. Savepoints nest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_savepoint(
    transaction: *mut silica_transaction,
    savepoint: *mut u64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let open = raw::body_mut(transaction)?;
        raw::put(savepoint, open.savepoints.len() as u64)?;
        let mark = open.transaction.savepoint();
        open.savepoints.push(mark);
        Ok(())
    })
}

/// Takes back the writes since `savepoint`, which stays; later savepoints go.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_roll_back_to(
    transaction: *mut silica_transaction,
    savepoint: u64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let open = raw::body_mut(transaction)?;
        let mark = open.mark(savepoint)?;
        open.transaction.roll_back_to(mark)
    })
}

/// Forgets `savepoint` and later ones, and keeps the writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_transaction_release(
    transaction: *mut silica_transaction,
    savepoint: u64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let open = raw::body_mut(transaction)?;
        let mark = open.mark(savepoint)?;
        open.transaction.release(mark)
    })
}
