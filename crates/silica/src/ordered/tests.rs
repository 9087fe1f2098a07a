//! Ranges, snapshots and transactions on the reference engine, against a map.

use crate::{
    Bounds, EngineSpec, EntryRef, Environment, ErrorKind, FileDevice, KeyRange, Keyspace,
    OpenOptions, OptionValues, Registry, Result, Silica, Transaction,
};
use silica_base::{Clock, ManualClock, Prng};
use silica_engine::Engine;
use silica_testkit::Reference;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn build(_: FileDevice, _: &OptionValues, _: &Environment) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Reference::new()))
}

/// The clock of stores that [`store_by_clock`] opens.
static CLOCK: LazyLock<Arc<ManualClock>> = LazyLock::new(Arc::default);

fn build_by_clock(_: FileDevice, _: &OptionValues, _: &Environment) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Reference::new().with_clock(CLOCK.clone())))
}

fn store() -> (tempfile::TempDir, Silica) {
    store_of(EngineSpec::new("reference", "", &[], build))
}

fn store_of(reference: EngineSpec) -> (tempfile::TempDir, Silica) {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builtin().with(reference);
    let store = OpenOptions::new().engine("reference").registry(registry);
    let store = store.open(directory.path().join("store")).unwrap();
    (directory, store)
}

fn two_letters(prng: &mut Prng) -> Vec<u8> {
    (0..prng.below(3)).map(|_| b'a' + prng.below(4) as u8).collect()
}

/// What a transaction does, and a map does too.
fn write(transaction: &mut Transaction, model: &mut Model, prng: &mut Prng) {
    let key = two_letters(prng);
    if prng.one_in(3) {
        transaction.delete(&key);
        model.remove(&key);
    } else {
        let value = two_letters(prng);
        transaction.put(&key, &value);
        model.insert(key, value);
    }
}

fn fill(keyspace: &Keyspace, prng: &mut Prng) -> Model {
    let mut model = Model::new();
    keyspace.clear().unwrap();
    for _ in 0..prng.below(12) {
        let (key, value) = (two_letters(prng), two_letters(prng));
        keyspace.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    model
}

#[test]
fn iterators_of_transactions_go_where_a_map_says() {
    let (_directory, store) = store();
    let keyspace = store.keyspace("k").unwrap();
    let mut prng = Prng::new(1);
    for _ in 0..silica_base::test_size(300, 3_000, 100_000) {
        let mut model = fill(&keyspace, &mut prng);
        let mut transaction = keyspace.transaction().unwrap();
        for _ in 0..prng.below(8) {
            write(&mut transaction, &mut model, &mut prng);
        }
        let range = KeyRange::new(two_letters(&mut prng), b"cz".to_vec());
        model.retain(|key, _| range.contains(key));
        walk(&transaction, &range, &model, &mut prng);
        both_ends(&transaction, &range, &model, &mut prng);
    }
}

fn walk(transaction: &Transaction, range: &KeyRange, model: &Model, prng: &mut Prng) {
    let mut iterator = transaction.iterator(range).unwrap();
    let mut at: Option<Vec<u8>> = None;
    for _ in 0..30 {
        let key = two_letters(prng);
        let after = |at: &Vec<u8>| model.range(at.clone()..).find(|(k, _)| *k > at);
        let found = match prng.below(6) {
            0 => (iterator.seek_to_first(), model.iter().next()),
            1 => (iterator.seek_to_last(), model.iter().next_back()),
            2 => (iterator.seek(&key), model.range(key..).next()),
            3 => (iterator.seek_for_prev(&key), model.range(..=key).next_back()),
            4 => (iterator.next(), at.as_ref().and_then(after)),
            _ => {
                (iterator.prev(), at.as_ref().and_then(|at| model.range(..at.clone()).next_back()))
            }
        };
        assert_eq!(found.0.unwrap(), found.1.is_some());
        assert_eq!(iterator.valid(), found.1.is_some());
        let here = iterator.key().map(<[u8]>::to_vec).zip(iterator.value().map(<[u8]>::to_vec));
        assert_eq!(here, found.1.map(|(key, value)| (key.clone(), value.clone())));
        at = here.map(|(key, _)| key);
    }
}

fn both_ends(transaction: &Transaction, range: &KeyRange, model: &Model, prng: &mut Prng) {
    let mut found = transaction.range(range).unwrap();
    let mut wanted = model.iter().map(|(key, value)| (key.clone(), value.clone()));
    for _ in 0..=model.len() {
        let is_front = prng.one_in(2);
        let (found, wanted) = match is_front {
            true => (found.next(), wanted.next()),
            false => (found.next_back(), wanted.next_back()),
        };
        assert_eq!(found.transpose().unwrap(), wanted);
    }
    assert!(found.next().is_none() && found.next_back().is_none());
}

#[test]
fn snapshots_and_transactions_have_the_time_of_their_moment() {
    let build = build_by_clock;
    let (_directory, store) = store_of(EngineSpec::new("reference", "", &[], build));
    let keyspace = store.keyspace("k").unwrap();
    let expires_unix_ms = CLOCK.unix_ms() + 300;
    let mortal = |value| EntryRef { value, expires_unix_ms, user_bits: 0 };
    for n in 0..10 {
        let mut batch = silica_engine::WriteBatch::new();
        let key = [n];
        batch.put_entry(&key, mortal(b"v"));
        keyspace.write(&batch).unwrap();
    }
    let snapshot = keyspace.snapshot().unwrap();
    let begin = || keyspace.transaction().unwrap();
    let (mut reader, mut writer, early) = (begin(), begin(), begin());
    assert_eq!(reader.get_for_update([0]).unwrap().as_deref(), Some(&b"v"[..]));
    reader.put("by reader", "1");
    writer.put([0], "in its place");
    CLOCK.advance_ns(400 * 1_000_000);
    assert_eq!(snapshot.range(..).unwrap().count(), 10);
    assert_eq!(snapshot.get([3]).unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(early.range(..).unwrap().count(), 10);
    assert_eq!(keyspace.range(..).unwrap().count(), 0);
    let error = reader.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "what it read has expired");
    writer.commit().expect("it read nothing that has expired");
    // What a transaction puts has its moment's time, too.
    let mut late = begin();
    late.put_entry("gone", mortal(b"v"));
    assert_eq!(late.get("gone").unwrap(), None);
    assert_eq!(late.get_for_update("gone").unwrap(), None);
    assert_eq!(late.range(..).unwrap().count(), 1);
}

#[test]
fn of_two_transactions_on_a_key_one_wins() {
    let (_directory, store) = store();
    let keyspace = store.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    let begin = || keyspace.transaction().unwrap();
    let (mut reader, mut writer, mut apart) = (begin(), begin(), begin());
    assert_eq!(reader.get_for_update("a").unwrap().unwrap(), b"1");
    reader.put("b", "from reader");
    writer.put("a", "2");
    apart.put("c", "3");
    assert_eq!(apart.get("a").unwrap().unwrap(), b"1");
    writer.commit().unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
    apart.commit().unwrap();
    let (mut first, mut second) = (begin(), begin());
    first.delete("a");
    second.delete("a");
    second.commit().unwrap();
    assert_eq!(first.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let mut dropped = begin();
    dropped.put("d", "4");
    dropped.rollback();
    let left: Vec<_> = keyspace.range(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(left, [(b"c".to_vec(), b"3".to_vec())]);
}

#[test]
fn a_closed_store_refuses_what_is_still_held() {
    let (_directory, store) = store();
    let keyspace = store.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    let (snapshot, transaction) = (keyspace.snapshot().unwrap(), keyspace.transaction().unwrap());
    let mut iterator = snapshot.iterator(..).unwrap();
    assert!(iterator.seek_to_first().unwrap());
    store.close().unwrap();
    for refused in [
        iterator.next().map(drop),
        snapshot.get("a").map(drop),
        snapshot.range(..).map(drop),
        transaction.commit(),
        keyspace.delete_range(..),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    }
    assert!(!iterator.valid() && iterator.key().is_none());
}

#[test]
fn an_engine_without_order_says_what_to_do() {
    let (_directory, store) = store();
    let hashed = store.create_keyspace("hashed", "silt", &[]).unwrap();
    let refused = hashed.range(..).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let words = "engine 'silt' of keyspace 'hashed' keeps no order; create the keyspace with \
                 engine 'wip'";
    assert_eq!(refused.to_string(), words);
    assert!(hashed.transaction().is_err() && hashed.delete_range("a".."b").is_err());
    assert_eq!(hashed.get_property("no such thing").unwrap(), None);
    assert_eq!(hashed.get_property("puts").unwrap().as_deref(), Some("0"));
}

#[test]
fn rusts_ranges_are_ranges_of_keys() {
    let is = |range: &dyn Bounds, within: &[&str], without: &[&str]| {
        let range = range.key_range();
        assert!(within.iter().all(|key| range.contains(key.as_bytes())), "{range:?}");
        assert!(!without.iter().any(|key| range.contains(key.as_bytes())), "{range:?}");
    };
    is(&.., &["", "z"], &[]);
    is(&("b".."d"), &["b", "c", "czz"], &["a", "d"]);
    is(&("b"..="d"), &["b", "d"], &["a", "d0"]);
    is(&(b"b".to_vec()..), &["b", "z"], &["a"]);
    is(&(..String::from("b")), &["", "a"], &["b"]);
    is(&(..="b"), &["a", "b"], &["b0"]);
}

#[test]
fn meta_of_both_sides_is_reported() {
    let (_directory, store) = store();
    let keyspace = store.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    let entry = EntryRef { value: b"2", expires_unix_ms: 0, user_bits: 7 };
    let mut transaction = keyspace.transaction().unwrap();
    transaction.put_entry("b", entry);
    let mut iterator = transaction.iterator(..).unwrap();
    assert!(iterator.seek_to_first().unwrap());
    assert_eq!(iterator.entry(), Some(EntryRef::new(b"1")));
    assert!(iterator.next().unwrap() && iterator.entry() == Some(entry));
}
