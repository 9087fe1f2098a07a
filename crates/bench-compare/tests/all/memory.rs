//! The tables in memory keep what they are given; the one that forgets stays within its memory.

use silica::Durability::{Buffered, Synced};
use silica_bench::{Plan, Session, Sink, Target};
use silica_bench_compare::{Class, Peer, Setup, all, find};
use std::path::PathBuf;

fn setup(memory_bytes: u64) -> Setup {
    let plan = Plan { keys: 1000, operations: 1000, ..Plan::new("mixed").unwrap() };
    Setup {
        directory: PathBuf::new(),
        memory_bytes,
        level_bytes: Vec::new(),
        compaction_priority: None,
        server_threads: None,
        set: Vec::new(),
        plan,
    }
}

/// Tables of other people.
fn tables() -> impl Iterator<Item = &'static dyn Peer> {
    all().into_iter().filter(|peer| peer.class() == Class::Memory && !peer.is_ours())
}

/// Runs `test` with each table.
fn each(test: impl Fn(&dyn Peer, &dyn Target)) {
    assert_eq!(tables().count(), 5);
    for peer in tables() {
        eprintln!("{} {}", peer.name(), peer.version().unwrap());
        test(peer, &*peer.open(&setup(16 << 20)).unwrap());
    }
}

struct Found(Vec<Option<Vec<u8>>>);

impl Sink for Found {
    fn found(&mut self, index: usize, value: &[u8]) {
        assert!(self.0[index].replace(value.to_vec()).is_none(), "told twice");
    }
}

fn get(session: &mut dyn Session, keys: &[&str]) -> String {
    let mut found = Found(vec![None; keys.len()]);
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    session.get_many(&keys, &mut found).unwrap();
    let text = |value: Option<Vec<u8>>| value.map_or("-".into(), |v| String::from_utf8(v).unwrap());
    found.0.into_iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn gets_find_what_was_put_last_and_not_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Setup { directory: directory.path().to_path_buf(), ..setup(64 << 20) };
    let ours = find("silica:mica").unwrap().open(&ours).unwrap();
    assert!(ours.abilities().lossy);
    keeps_what_it_is_given(&*ours);
    each(|_, table| keeps_what_it_is_given(table));
}

fn keeps_what_it_is_given(table: &dyn Target) {
    assert!(table.abilities().delete && !table.abilities().scan);
    let mut session = table.session(Buffered).unwrap();
    let session = &mut *session;
    assert_eq!(get(session, &["a"]), "-");
    session.put_many(&[(b"a", b"1"), (b"b", b"2"), (b"empty", b"")]).unwrap();
    assert_eq!(get(session, &["b", "none", "a", "empty"]), "2 - 1 ");
    // Of the same length and of another one.
    session.put_many(&[(b"a", b"3"), (b"b", b"longer")]).unwrap();
    assert_eq!(get(session, &["a", "b", "a"]), "3 longer 3");
    session.delete_many(&[b"a", b"never"]).unwrap();
    assert_eq!(get(session, &["a", "b"]), "- longer");
    assert!(session.scan(b"a", 1, &mut |_, _| {}).is_err());
}

#[test]
fn a_table_without_a_bound_is_refused_where_its_keys_do_not_fit() {
    for peer in tables() {
        let many = |keys, memory_bytes| {
            let mut setup = setup(memory_bytes);
            setup.plan.keys = keys;
            setup
        };
        let large = many(1_000_000, 16 << 20);
        let refused = peer.check_room(&large);
        if peer.name() == "quick_cache" {
            refused.unwrap();
            continue;
        }
        let error = refused.unwrap_err().to_string();
        assert_eq!(peer.open(&large).err().unwrap().to_string(), error);
        // What the error says fits does, and one key more does not.
        let number = |before: &str| -> u64 {
            let text = error.split_once(before).unwrap().1;
            text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        let keys = number("--keys ");
        assert!(keys > 50_000, "{error}");
        peer.check_room(&many(keys, 16 << 20)).unwrap();
        assert!(peer.check_room(&many(keys + 1, 16 << 20)).is_err());
        peer.check_room(&many(1_000_000, number("--memory ") << 20)).unwrap();
    }
}

#[test]
fn counters_are_whole_when_sessions_are_closed() {
    each(|_, table| {
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                scope.spawn(move || {
                    let mut session = table.session(Buffered).unwrap();
                    for i in 0..1500u16 {
                        let key = [thread, i as u8, (i >> 8) as u8];
                        session.put_many(&[(&key, b"value")]).unwrap();
                    }
                    session.delete_many(&[&[thread, 0, 0], &[thread, 1, 0]]).unwrap();
                });
            }
        });
        let metrics = table.metrics().unwrap();
        let counts = ["puts", "deletes", "entries_estimate"].map(|name| metrics.get(name));
        assert_eq!(counts, [4500.0, 6.0, 4494.0]);
    });
}

#[test]
fn nothing_is_promised_beyond_the_process() {
    each(|_, table| {
        let refused = table.session(Synced).err().unwrap().to_string();
        assert!(refused.contains("buffered"), "{refused}");
        table.sync().unwrap();
        table.settle().unwrap();
    });
}

#[test]
fn settings_have_names_values_and_reasons() {
    each(|peer, _| {
        let settings = peer.settings(&setup(1 << 20));
        assert!(settings.len() > 3);
        for setting in settings {
            assert!(!setting.value.is_empty() && !setting.why.is_empty(), "{}", setting.name);
        }
    });
}

#[test]
fn the_cache_stays_within_its_memory() {
    let cache = find("quick_cache").unwrap().open(&setup(1 << 20)).unwrap();
    assert!(cache.abilities().lossy);
    let mut session = cache.session(Buffered).unwrap();
    for i in 0..10_000u32 {
        session.put_many(&[(&i.to_le_bytes(), &[7; 1000])]).unwrap();
    }
    // Entries of 1100 bytes with what the table takes for them.
    let entries = cache.metrics().unwrap().get("entries_estimate");
    assert!((500.0..=953.0).contains(&entries), "{entries} entries");
}
