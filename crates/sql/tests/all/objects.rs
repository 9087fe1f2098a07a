//! Objects of keyspaces as tables.

use silica::{EntryRef, Keyspace, Silica, WriteBatch};
use silica_sql::sql::{Sql, Value};
use silica_types::{
    Hash, Kind, List, MemoryPages, Object, PageId, Set, Stream, StreamId, Zset, entry_for,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn store(engine: &str) -> (tempfile::TempDir, Arc<Silica>) {
    let scratch = tempfile::tempdir().expect("a directory");
    let options = silica::OpenOptions::new().memory_bytes(64 << 20);
    let options = match engine {
        "wip" => options,
        other => options.declare("cache", other, &[("memory_bytes", "16MiB")]),
    };
    let store = Arc::new(options.open(scratch.path().join("store")).expect("opened"));
    (scratch, store)
}

/// An object, and its pages.
struct Made {
    object: Object,
    pages: MemoryPages,
}

impl Made {
    fn new(kind: Kind) -> Self {
        Made { object: Object::new(kind), pages: MemoryPages::default() }
    }

    /// Writes it as a server does: the entry of the key, and the pages under a name of their own.
    fn write(&mut self, keyspace: &Keyspace, key: &[u8]) {
        let id = 1 + key.iter().fold(7, |id: u64, byte| id * 31 + u64::from(*byte));
        let mut batch = WriteBatch::new();
        let has_pages = self.object.id().is_some();
        if has_pages {
            self.object.rename_pages(id);
        }
        let first = PageId { object: id, number: 0 }.key();
        if has_pages {
            batch.put(&first, key);
        }
        let pages = self.pages.pages.iter();
        let pages: Vec<_> =
            pages.map(|(page, bytes)| (PageId { object: id, ..*page }.key(), bytes)).collect();
        for (page, bytes) in &pages {
            batch.put(page, bytes);
        }
        let elements = self.pages.elements.iter();
        let elements: Vec<_> = elements.map(|(key, value)| (entry_for(key, id), value)).collect();
        for (key, value) in &elements {
            batch.put(key, value);
        }
        let value = self.object.encode();
        let user_bits = self.object.user_bits();
        batch.put_entry(key, EntryRef { value: &value, expires_unix_ms: 0, user_bits });
        keyspace.write(&batch).expect("written");
        if has_pages {
            // The object goes on with the names that its pages have in memory.
            self.object.rename_pages(1);
        }
    }
}

fn hash(fields: u64) -> Made {
    let mut made = Made::new(Kind::Hash);
    for n in 0..fields {
        let mut hash = Hash::of(&mut made.object, &mut made.pages);
        hash.put(format!("field:{n:06}").as_bytes(), n.to_string().as_bytes()).expect("put");
    }
    made
}

fn texts(sql: &mut Sql, query: &str) -> Vec<String> {
    let rows = sql.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
    let text = |row: &Vec<Value>| row.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    rows.iter().map(text).collect()
}

fn refused(sql: &mut Sql, statement: &str) -> String {
    sql.query(statement, &[]).expect_err("it is refused").message
}

#[test]
fn every_type_is_a_table() {
    let (_scratch, store) = store("wip");
    let keyspace = store.keyspace("default").expect("made");
    let mut made = Made::new(Kind::Hash);
    let later = 4_000_000_000_000;
    Hash::of(&mut made.object, &mut made.pages).put(b"name", b"ann").expect("put");
    Hash::of(&mut made.object, &mut made.pages)
        .put_expiring(b"code", b"\xff\0", later)
        .expect("put");
    Hash::of(&mut made.object, &mut made.pages).put_expiring(b"gone", b"x", 1).expect("put");
    made.write(&keyspace, b"h");
    let mut made = Made::new(Kind::List);
    for value in ["one", "two", "three"] {
        List::of(&mut made.object, &mut made.pages).push(false, value.as_bytes()).expect("pushed");
    }
    made.write(&keyspace, b"l");
    let mut made = Made::new(Kind::Set);
    for member in ["b", "a", "c"] {
        Set::of(&mut made.object, &mut made.pages).add(member.as_bytes()).expect("added");
    }
    made.write(&keyspace, b"s");
    let mut made = Made::new(Kind::Zset);
    for (member, score) in [("b", 1.5), ("a", 2.0), ("c", -3.0)] {
        Zset::of(&mut made.object, &mut made.pages).put(member.as_bytes(), score).expect("put");
    }
    made.write(&keyspace, b"z");
    let mut made = Made::new(Kind::Stream);
    for ms in [5, 6] {
        let mut stream = Stream::of(&mut made.object, &mut made.pages).expect("a stream");
        let fields = [&b"kind"[..], b"x", b"n", b"1"];
        stream.add(StreamId { ms, seq: 1 }, fields.into_iter()).expect("added");
    }
    made.write(&keyspace, b"x");

    let mut sql = Sql::in_store(&store, "app").expect("opened");
    let sql = &mut sql;
    assert_eq!(texts(sql, "SELECT field FROM silica_hash('h')"), ["code", "name"]);
    assert_eq!(texts(sql, "SELECT value, ttl FROM silica_hash('h') WHERE ttl IS NULL"), ["ann|"]);
    let kinds = "SELECT typeof(value), hex(value), ttl > 1e9 FROM silica_hash('h', 0) \
                 WHERE field = 'code'";
    assert_eq!(texts(sql, kinds), ["blob|FF00|1"]);
    assert_eq!(texts(sql, "SELECT * FROM silica_list('l')"), ["0|one", "1|two", "2|three"]);
    assert_eq!(texts(sql, "SELECT value FROM silica_list('l') WHERE position = 1"), ["two"]);
    assert_eq!(
        texts(sql, "SELECT value FROM silica_list('l') WHERE position IN (2, 9)"),
        ["three"]
    );
    assert_eq!(texts(sql, "SELECT * FROM silica_set('s') ORDER BY member DESC"), ["c", "b", "a"]);
    assert_eq!(texts(sql, "SELECT member FROM silica_set('s') WHERE member = 'q'"), [""; 0]);
    let board = "SELECT member, score FROM silica_zset('z') ORDER BY score";
    assert_eq!(texts(sql, board), ["c|-3.0", "b|1.5", "a|2.0"]);
    assert_eq!(texts(sql, "SELECT score FROM silica_zset('z') WHERE member = 'a'"), ["2.0"]);
    let entries = ["5-1|kind|x", "5-1|n|1", "6-1|kind|x", "6-1|n|1"];
    assert_eq!(texts(sql, "SELECT * FROM silica_stream('x')"), entries);
    assert_eq!(texts(sql, "SELECT count(*) FROM silica_stream('x') WHERE id = '6-1'"), ["2"]);
}

#[test]
fn elements_that_are_entries_are_read_in_order_and_one_by_one() {
    let (_scratch, store) = store("wip");
    let keyspace = store.keyspace("default").expect("made");
    let mut made = Made::new(Kind::Zset);
    (made.pages.entries_above, made.pages.entry_key_bytes_max) = (Some(100), 1 << 16);
    let mut zset = Zset::of(&mut made.object, &mut made.pages);
    for n in 0..5000u64 {
        let member = format!("member:{n:04}");
        zset.put(member.as_bytes(), (n * 7919 % 5000) as f64).expect("put");
    }
    zset.settle().expect("settled");
    assert!(made.object.is_of_entries());
    made.write(&keyspace, b"z");
    // A sorted set beside it, under a name that is near.
    made.write(&keyspace, b"y");
    let mut sql = Sql::in_store(&store, "app").expect("opened");
    let sql = &mut sql;
    let whole = "SELECT count(*), sum(score), min(member), max(member) FROM silica_zset('z')";
    assert_eq!(texts(sql, whole), ["5000|12497500.0|member:0000|member:4999"]);
    let first = "SELECT member, score FROM silica_zset('z') LIMIT 3";
    assert_eq!(texts(sql, first), ["member:0000|0.0", "member:2679|1.0", "member:0358|2.0"]);
    let one = "SELECT score FROM silica_zset('z') WHERE member = 'member:0001'";
    assert_eq!(texts(sql, one), ["2919.0"]);
    let none = "SELECT score FROM silica_zset('z') WHERE member = 'other'";
    assert_eq!(texts(sql, none), [""; 0]);
}

#[test]
fn what_is_no_such_object_has_no_rows_or_says_so() {
    let (_scratch, store) = store("wip");
    let keyspace = store.keyspace("default").expect("made");
    keyspace.put("text", "t").expect("written");
    hash(3).write(&keyspace, b"h");
    hash(2).write(&store.keyspace("db2").expect("made"), b"h");
    hash(1).write(&store.keyspace("own").expect("made"), b"h");
    let mut sql = Sql::in_store(&store, "app").expect("opened");
    let sql = &mut sql;
    for (query, count) in [
        ("silica_hash('none')", "0"),
        ("silica_hash(NULL)", "0"),
        ("silica_hash('h')", "3"),
        ("silica_hash('h', 2)", "2"),
        ("silica_hash('h', 5)", "0"),
        ("silica_hash('h', 'own')", "1"),
        ("silica_hash('h') WHERE key = 'h' AND field > 'field:000001'", "1"),
    ] {
        assert_eq!(texts(sql, &format!("SELECT count(*) FROM {query}")), [count], "{query}");
    }
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(refused(sql, "SELECT * FROM silica_list('h')"), wrong);
    assert_eq!(refused(sql, "SELECT * FROM silica_zset('text')"), wrong);
    assert!(refused(sql, "SELECT * FROM silica_set('h', 16)").contains("0 to 15"));
    assert!(refused(sql, "SELECT * FROM silica_set('h', 'none')").contains("no keyspace 'none'"));
    assert!(refused(sql, "SELECT * FROM silica_hash").contains("wants the key"));
    assert!(refused(sql, "DELETE FROM silica_hash").contains("silica_hash"));
    // What was kept of a statement is not kept when the object changes.
    let count = "SELECT count(*) FROM silica_hash('h')";
    for fields in [4, 5] {
        hash(fields).write(&keyspace, b"h");
        assert_eq!(texts(sql, count), [fields.to_string()]);
    }
}

#[test]
fn large_objects_are_read_while_others_change_them_and_joined() {
    for (engine, place) in [("wip", "'default'"), ("mica", "'cache'")] {
        let (_scratch, store) = store(engine);
        let keyspace = store.keyspace(place.trim_matches('\'')).expect("made");
        let mut made = hash(10_000);
        assert!(made.object.id().is_some(), "it has pages");
        made.write(&keyspace, b"h");
        let mut sql = Sql::in_store(&store, "app").expect("opened");
        sql.execute("CREATE TABLE wanted (field TEXT, note)", &[]).expect("made");
        sql.execute(
            "WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 7 FROM n WHERE i < 9990) \
             INSERT INTO wanted SELECT printf('field:%06d', i), i FROM n",
            &[],
        )
        .expect("filled");
        let from = format!("silica_hash('h', {place})");
        let all = format!("SELECT count(*), sum(value), min(field), max(field) FROM {from}");
        let whole = "10000|49995000|field:000000|field:009999";
        assert_eq!(texts(&mut sql, &all), [whole], "{engine}");
        let joined = format!(
            "SELECT count(*), sum(note = CAST(value AS INTEGER)) FROM wanted \
             JOIN {from} h ON h.field = wanted.field"
        );
        assert_eq!(texts(&mut sql, &joined), ["1429|1429"], "{engine}");
        // A writer swaps the values of two fields again and again: their sum stays.
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut round = 0;
                while !is_over.load(Relaxed) {
                    let pair = if round % 2 == 0 { [9_999, 0] } else { [0, 9_999] };
                    for (field, value) in ["field:000000", "field:009999"].into_iter().zip(pair) {
                        let mut hash = Hash::of(&mut made.object, &mut made.pages);
                        hash.put(field.as_bytes(), value.to_string().as_bytes()).expect("put");
                    }
                    made.object.touch(1);
                    made.write(&keyspace, b"h");
                    round += 1;
                    std::thread::sleep(std::time::Duration::from_millis(3));
                }
                assert!(round > 1, "it has changed something");
            });
            for _ in 0..4 {
                let found = texts(&mut sql, &all);
                match engine {
                    "wip" => assert_eq!(found, [whole], "of one moment"),
                    // Some elements at a time are of one moment.
                    _ => assert!(found[0].starts_with("10000|"), "{found:?}"),
                }
            }
            is_over.store(true, Relaxed);
        });
    }
}
