//! Transactions over the reference engine.

use crate::Reference;
use silica_engine::transaction::{Replaced, Transaction, TransactionOptions, Wait};
use silica_engine::{
    Durability, Engine, EngineExt, EntryIter, EntryRef, Error, ErrorKind, KeyRange, Limits,
    Ordered, Result,
};
use std::sync::Arc;
use std::time::Duration;

const NOW: Durability = Durability::Buffered;

fn engine() -> (Arc<Reference>, Arc<dyn Ordered>) {
    let engine = Arc::new(Reference::new());
    for key in [b"b", b"d", b"f"] {
        engine.put(key, key, NOW).unwrap();
    }
    let ordered = Arc::clone(&engine).as_ordered().expect("it keeps an order");
    (engine, ordered)
}

fn begin(ordered: &Arc<dyn Ordered>, is_exclusive: bool, wait: Wait) -> Result<Transaction> {
    Transaction::begin(Arc::clone(ordered), TransactionOptions { is_exclusive, wait })
}

fn keys(transaction: &Transaction) -> Vec<u8> {
    let mut cursor = transaction.cursor(&KeyRange::ALL).unwrap();
    let (mut keys, mut is_there) = (Vec::new(), cursor.seek_to_first().unwrap());
    while is_there {
        keys.push(cursor.key()[0]);
        is_there = cursor.next().unwrap();
    }
    keys
}

#[test]
fn savepoints_nest_and_count_what_they_keep() {
    let (_engine, ordered) = engine();
    let mut transaction = begin(&ordered, false, Wait::No).unwrap();
    let empty = transaction.savepoint();
    transaction.put(b"a", EntryRef::new(b"1234"));
    let outer = transaction.savepoint();
    transaction.put(b"a", EntryRef::new(b"12345678"));
    transaction.delete(b"f");
    let inner = transaction.savepoint();
    transaction.delete_range(&KeyRange::ALL);
    assert_eq!(keys(&transaction), b"");
    transaction.roll_back_to(inner).unwrap();
    assert_eq!(keys(&transaction), b"abd");
    transaction.roll_back_to(outer).unwrap();
    assert_eq!(keys(&transaction), b"abdf");
    assert_eq!(transaction.roll_back_to(inner).unwrap_err().kind(), ErrorKind::NotFound);
    transaction.put(b"c", EntryRef::new(b""));
    transaction.release(outer).unwrap();
    assert_eq!(keys(&transaction), b"abcdf", "a released savepoint keeps the writes");
    transaction.roll_back_to(empty).unwrap();
    assert_eq!((keys(&transaction), transaction.bytes()), (b"bdf".to_vec(), 0));
    transaction.put(b"a", EntryRef::new(b"1234"));
    transaction.release(empty).unwrap();
    assert_eq!(transaction.bytes(), 5, "of what is kept for no savepoint");
}

#[test]
fn a_cursor_sees_what_a_roll_back_shows_again() {
    let (_engine, ordered) = engine();
    let mut transaction = begin(&ordered, false, Wait::No).unwrap();
    transaction.put(b"c", EntryRef::new(b"own"));
    let before = transaction.savepoint();
    transaction.delete_range(&KeyRange::new(b"d".to_vec(), b"z".to_vec()));
    let mut cursor = transaction.cursor(&KeyRange::ALL).unwrap();
    assert!(cursor.seek(b"c").unwrap() && !cursor.next().unwrap());
    assert!(cursor.seek(b"c").unwrap());
    transaction.roll_back_to(before).unwrap();
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), b"d");
}

#[test]
fn exclusive_transactions_take_turns() {
    let (engine, ordered) = engine();
    let mut early = begin(&ordered, false, Wait::No).unwrap();
    early.put(b"a", EntryRef::new(b"early"));
    let mut alone = begin(&ordered, true, Wait::No).unwrap();
    let busy = |begun: Result<Transaction>| begun.err().map(|error| error.kind());
    let soon = Wait::AtMost(Duration::from_millis(1));
    assert_eq!(busy(begin(&ordered, true, Wait::No)), Some(ErrorKind::Busy));
    assert_eq!(busy(begin(&ordered, true, soon)), Some(ErrorKind::Busy));
    assert_eq!(early.commit(NOW).unwrap_err().kind(), ErrorKind::Busy);
    alone.put(b"a", EntryRef::new(b"alone"));
    alone.commit(Durability::Synced).unwrap();
    assert_eq!(engine.get(b"a").unwrap().as_deref(), Some(&b"alone"[..]));
    assert_eq!(early.commit(NOW).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(early.commit(NOW).unwrap_err().kind(), ErrorKind::Closed);
    // One that is dropped has had its turn, too.
    drop(begin(&ordered, true, Wait::No).unwrap());
    assert!(begin(&ordered, true, Wait::Forever).is_ok());
}

#[test]
fn a_commit_waits_for_an_exclusive_transaction() {
    let (_engine, ordered) = engine();
    let alone = begin(&ordered, true, Wait::No).unwrap();
    let mut other = begin(&ordered, false, Wait::Forever).unwrap();
    other.put(b"z", EntryRef::new(b"z"));
    let waiting = std::thread::spawn(move || other.commit(NOW));
    assert!(!waiting.is_finished());
    drop(alone);
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_commit_that_is_too_large_names_the_limit_and_leaves_all_as_it_was() {
    let limits = Limits { key_bytes_max: 9, value_bytes_max: 99, batch_bytes_max: 100 };
    let engine = Arc::new(Reference::with_limits(limits));
    let ordered = Arc::clone(&engine).as_ordered().expect("it keeps an order");
    let mut transaction = begin(&ordered, false, Wait::No).unwrap();
    let start = transaction.savepoint();
    transaction.put(b"a", EntryRef::new(&[0; 60]));
    transaction.put(b"b", EntryRef::new(&[0; 60]));
    let error = transaction.commit(NOW).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("limit of 100"), "{error}");
    assert_eq!((engine.get(b"a").unwrap(), keys(&transaction)), (None, b"ab".to_vec()));
    transaction.roll_back_to(start).unwrap();
    transaction.put(b"a", EntryRef::new(b"less"));
    transaction.commit(NOW).unwrap();
    assert!(engine.get(b"a").unwrap().is_some());
}

#[test]
fn a_transaction_alone_takes_no_turn_and_meets_no_conflict() {
    let (engine, ordered) = engine();
    let snapshot = Arc::clone(&ordered).snapshot().unwrap();
    let mut alone = Transaction::begin_alone(Arc::clone(&ordered), snapshot);
    let exclusive = begin(&ordered, true, Wait::No).unwrap();
    engine.put(b"b", b"meanwhile", NOW).unwrap();
    alone.put(b"b", EntryRef::new(b"alone"));
    alone.delete_range(&KeyRange::new(*b"c", *b"e"));
    let savepoint = alone.savepoint();
    alone.delete(b"f");
    alone.roll_back_to(savepoint).unwrap();
    assert_eq!(keys(&alone), b"bf");
    alone.commit(NOW).unwrap();
    assert_eq!(alone.commit(NOW).unwrap_err().kind(), ErrorKind::Closed);
    let all = engine.get_all(&[b"b", b"d", b"f"]).unwrap();
    assert_eq!(all, [Some(b"alone".to_vec()), None, Some(b"f".to_vec())]);
    drop(exclusive);
}

#[test]
fn what_writes_replaced_comes_in_their_order_between_the_savepoints() {
    let (_, ordered) = engine();
    let mut transaction = begin(&ordered, false, Wait::No).unwrap();
    transaction.put(b"a", EntryRef::new(b"1"));
    transaction.delete_range(&KeyRange::new(*b"x", *b"y"));
    transaction.savepoint();
    transaction.put(b"a", EntryRef::new(b"2"));
    transaction.delete(b"b");
    let second = transaction.savepoint();
    transaction.delete_range(&KeyRange::new(*b"a", *b"c"));
    transaction.savepoint();
    let told = |transaction: &Transaction| {
        let mut told = Vec::new();
        let written = transaction.replaced(&mut |replaced| {
            told.push(match replaced {
                Replaced::Savepoint(place) => format!("savepoint {place}"),
                Replaced::Key(key, before) => {
                    let before = before.map(|write| write.map(|entry| entry.value[0] as char));
                    format!("{} was {before:?}", key[0] as char)
                }
                Replaced::Range(lower, upper) => {
                    format!("{} to {:?}", lower[0] as char, upper.map(|upper| upper[0] as char))
                }
            });
            Ok(())
        });
        written.unwrap();
        told
    };
    let first = ["savepoint 0", "a was Some(Some('1'))", "b was None", "savepoint 1"];
    let later = ["a was Some(Some('2'))", "b was Some(None)", "a to Some('c')", "savepoint 2"];
    assert_eq!(told(&transaction), [first, later].concat());
    let ranges = |transaction: &Transaction, is_at_first| {
        let mut count = 0;
        transaction.deleted_ranges(is_at_first, |_, _| count += 1);
        count
    };
    assert_eq!([true, false].map(|first| ranges(&transaction, first)), [1, 2]);
    transaction.roll_back_to(second).unwrap();
    assert_eq!(told(&transaction), first);
    let mut keys = Vec::new();
    let written = transaction.written(|key, entry| {
        keys.push((key.to_vec(), entry.map(|entry| entry.value.to_vec())));
        Ok(())
    });
    written.unwrap();
    assert_eq!(keys, [(b"a".to_vec(), Some(b"2".to_vec())), (b"b".to_vec(), None)]);
    let stop = transaction.written(|_, _| Err(Error::new(ErrorKind::Full, "on purpose")));
    assert_eq!(stop.unwrap_err().kind(), ErrorKind::Full);
}
