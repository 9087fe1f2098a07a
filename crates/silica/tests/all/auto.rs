//! Engines that the models choose.

use crate::killed::copy_of;
use silica::{AUTO, Durability, ErrorKind, OpenOptions, Silica, WriteBatch};
use std::path::Path;

const KEYS: u32 = 2000;

fn options() -> OpenOptions {
    OpenOptions::new().engine(AUTO).memory_bytes(64 << 20).durability(Durability::Buffered)
}

fn engine_of(store: &Silica) -> &'static str {
    store.keyspace("default").unwrap().engine().descriptor().name
}

/// Overwrites keys often enough for the models to be asked again.
fn overwrite(store: &Silica) {
    put(store, 12_000);
}

fn put(store: &Silica, puts: u32) {
    let keyspace = store.keyspace("default").unwrap();
    for i in 0..puts {
        keyspace.put((i % KEYS).to_be_bytes(), [7; 60]).unwrap();
    }
}

fn open(path: &Path) -> Silica {
    options().open(path).unwrap()
}

#[test]
fn words_choose_the_engine_and_no_words_keep_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let of = |name: &str, words: &str| {
        let store = options().workload(words).open(directory.path().join(name)).unwrap();
        engine_of(&store)
    };
    assert_eq!(engine_of(&open(&directory.path().join("none"))), "wip");
    assert_eq!(of("scans", "scans=1 gets=1"), "wip");
    assert_eq!(of("cache", "keys=1k gets=1 cache"), "mica");
    assert_eq!(of("puts", "keys=100M value=16 puts=1 uniform"), "silt");
    let wrong = options().workload("colour=red").open(directory.path().join("wrong"));
    assert_eq!(wrong.err().unwrap().kind(), ErrorKind::Config);
    assert!(!directory.path().join("wrong").exists());
    let unknown = options().set("no_such_option", "1").open(directory.path().join("wrong"));
    assert!(unknown.err().unwrap().to_string().contains("no_such_option"));
}

#[test]
fn a_wish_that_lasts_moves_the_keyspace_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    for expected in ["wip", "wip", "silt"] {
        let store = open(directory.path());
        assert_eq!(engine_of(&store), expected);
        overwrite(&store);
        store.verify().unwrap();
        store.close().unwrap();
    }
    let store = open(directory.path());
    assert_eq!(engine_of(&store), "silt");
    assert_eq!(store.keyspace("default").unwrap().count(true).unwrap().estimate, u64::from(KEYS));
}

/// Overwrites keys, each batch synced: then syncs are all that counts, whatever the engine.
fn overwrite_synced(store: &Silica) {
    const CALLS: u32 = 500;
    let keyspace = store.keyspace("default").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                for call in 0..CALLS {
                    let keys = (0..4).map(|i| (thread * CALLS + call * 4 + i) % KEYS);
                    let keys: Vec<_> = keys.map(u32::to_be_bytes).collect();
                    let mut batch = WriteBatch::new();
                    keys.iter().for_each(|key| _ = batch.put(key, &[7; 60]));
                    keyspace.write_with(&batch, Durability::Synced).unwrap();
                }
            });
        }
    });
}

#[test]
fn new_habits_that_only_the_sketch_sees_move_the_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    let synced = overwrite_synced as fn(&Silica);
    let habits = [(synced, "wip"), (synced, "wip"), (synced, "wip"), (overwrite, "wip")];
    for (round, (habit, expected)) in habits.into_iter().enumerate() {
        let store = open(directory.path());
        assert_eq!(engine_of(&store), expected, "round {round}");
        habit(&store);
        store.close().unwrap();
    }
    // One close with new habits is not enough.
    let store = open(directory.path());
    assert_eq!(engine_of(&store), "wip");
    overwrite(&store);
    store.close().unwrap();
    let store = open(directory.path());
    assert_eq!(engine_of(&store), "silt");
    assert_eq!(store.keyspace("default").unwrap().count(true).unwrap().estimate, u64::from(KEYS));
}

#[test]
fn an_order_that_was_used_stays() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let store = open(directory.path());
        assert_eq!(engine_of(&store), "wip", "round {round}");
        overwrite(&store);
        if round == 0 {
            let keyspace = store.keyspace("default").unwrap();
            assert_eq!(keyspace.range(..).unwrap().count(), KEYS as usize);
        }
        store.close().unwrap();
    }
}

#[test]
fn few_operations_say_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let store = open(directory.path());
        assert_eq!(engine_of(&store), "wip", "round {round}");
        put(&store, 9_900);
        store.close().unwrap();
    }
}

#[test]
fn a_store_that_died_keeps_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let (lived, died) = (directory.path().join("lived"), directory.path().join("died"));
    for round in 0..2 {
        let store = open(&lived);
        overwrite(&store);
        if round == 1 {
            copy_of(&lived, &died);
        }
        store.close().unwrap();
    }
    assert_eq!(engine_of(&open(&lived)), "silt");
    for round in 0..4 {
        let store = open(&died);
        assert_eq!(engine_of(&store), "wip", "round {round}");
        overwrite(&store);
        store.verify().unwrap();
        store.close().unwrap();
    }
}

#[test]
fn a_store_that_was_not_created_so_keeps_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let store = options().engine("wip").open(directory.path()).unwrap();
    overwrite(&store);
    store.close().unwrap();
    for _ in 0..3 {
        let store = open(directory.path());
        assert_eq!(engine_of(&store), "wip");
        overwrite(&store);
        store.close().unwrap();
    }
    // Other openings, and those that leave no word, do not mind the note.
    let store = options().engine("silt").open(directory.path()).unwrap();
    assert_eq!(engine_of(&store), "wip");
    assert!(store.keyspaces().unwrap()[0].options.iter().all(|(name, _)| name != "auto"));
    store.verify().unwrap();
}

#[test]
fn options_are_kept_for_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let store = options().engine("wip").open(directory.path()).unwrap();
    store.keyspace("default").unwrap();
    store.set_options("default", &[("filter_bits", "12")]).unwrap();
    let fixed = store.set_options("default", &[("first_buckets", "7")]).unwrap_err();
    assert!(fixed.to_string().contains("fixed"), "{fixed}");
    assert!(store.set_options("default", &[("colour", "1")]).is_err());
    assert_eq!(store.set_options("no", &[]).unwrap_err().kind(), ErrorKind::NotFound);
    store.close().unwrap();
    let store = options().engine("wip").open(directory.path()).unwrap();
    let kept = store.keyspaces().unwrap()[0].options.clone();
    assert!(kept.contains(&("filter_bits".into(), "12".into())), "{kept:?}");
    store.verify().unwrap();
}
