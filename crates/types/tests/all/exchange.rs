//! Objects from and to values of RDB.

use silica_proto::rdb::{self, Restored, dump_object, restore_any};
use silica_types::{Kind, MemoryPages, Object, entries_of_rdb, of_rdb, to_rdb};

fn bytes(n: u64) -> Vec<u8> {
    format!("{:width$}", n, width = (n % 40) as usize).into_bytes()
}

fn values(len: u64) -> Vec<rdb::Object> {
    let strings = || (0..len).map(bytes).collect::<Vec<_>>();
    let mut sorted = strings();
    sorted.sort();
    let fields = sorted.iter().map(|field| (field.clone(), field.clone(), 0));
    let members = (0..len).map(|n| (bytes(n), n as f64 / 2.0));
    let stream = rdb::Stream {
        entries: (1..=len).map(|n| ((n, 0), vec![bytes(n), bytes(n + 1)])).collect(),
        last: (len + 3, 7),
        removed_max: (2, 2),
        added: len + 9,
        groups: vec![rdb::StreamGroup {
            name: b"group".to_vec(),
            last: (1, 0),
            read: Some(1),
            pending: vec![((1, 0), 500, 3)],
            consumers: vec![
                rdb::StreamConsumer { name: b"none".to_vec(), seen_ms: 1, ..Default::default() },
                rdb::StreamConsumer {
                    name: b"one".to_vec(),
                    seen_ms: 8,
                    active_ms: 8,
                    pending: vec![(1, 0)],
                },
            ],
        }],
    };
    vec![
        rdb::Object::List(strings()),
        rdb::Object::Set(sorted.clone()),
        rdb::Object::Hash(fields.collect()),
        rdb::Object::Zset(members.collect()),
        rdb::Object::Stream(stream),
    ]
}

#[test]
fn values_become_objects_and_come_back() {
    for len in [1, 10, 5000] {
        for value in values(len) {
            let mut pages = MemoryPages::default();
            let mut object = of_rdb(value.clone(), &mut pages).unwrap();
            assert_eq!(object.id().is_some(), len == 5000);
            let back = to_rdb(&mut object, &mut pages, 0).unwrap();
            assert_eq!(back, value);
            let Restored::Object(read) = restore_any(&dump_object(&back), 1 << 20).unwrap() else {
                panic!("it is a string");
            };
            // When a consumer got something last is not in the form that every Redis 7 reads.
            if object.kind() != Kind::Stream {
                assert_eq!(read, value);
            }
            let entries = entries_of_rdb(value, b"key", 77).unwrap();
            assert_eq!(entries[0].0, b"key");
            let again = Object::decode(object.kind(), &entries[0].1).unwrap();
            assert_eq!(again.id(), object.id().map(|_| 77));
            assert_eq!(entries.len() > 1, len == 5000);
        }
    }
}

#[test]
fn values_that_cannot_be_are_refused() {
    let text = |text: &str| text.as_bytes().to_vec();
    let stream = rdb::Stream {
        entries: vec![((2, 0), vec![]), ((1, 0), vec![])],
        last: (9, 9),
        ..Default::default()
    };
    for value in [
        rdb::Object::List(vec![]),
        rdb::Object::Set(vec![text("a"), text("a")]),
        rdb::Object::Hash(vec![(text("a"), text("b"), 0), (text("a"), text("c"), 0)]),
        rdb::Object::Zset(vec![(text("a"), 1.0), (text("a"), 2.0)]),
        rdb::Object::Stream(stream),
    ] {
        assert!(of_rdb(value.clone(), &mut MemoryPages::default()).is_err(), "{value:?}");
    }
}
