//! Databases in a store that a program has open, and its keyspaces as tables.

use silica::{EntryRef, Silica, WriteBatch};
use silica_sql::sql::{Sql, Untrusted, Value};
use std::sync::Arc;

fn store() -> (tempfile::TempDir, Arc<Silica>) {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = Arc::new(silica::open(scratch.path().join("store")).expect("opened"));
    (scratch, store)
}

fn open(store: &Arc<Silica>) -> Sql {
    Sql::in_store(store, "app").expect("opened")
}

fn texts(sql: &mut Sql, query: &str) -> Vec<String> {
    let rows = sql.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
    let text = |row: &Vec<Value>| row.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    rows.iter().map(text).collect()
}

fn refused(sql: &mut Sql, statement: &str) -> String {
    sql.execute(statement, &[]).expect_err("it is refused").message
}

#[test]
fn databases_live_in_keyspaces_of_an_open_store() {
    let (scratch, store) = store();
    {
        let (mut one, mut two) = (open(&store), open(&store));
        one.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)", &[]).expect("made");
        one.execute("INSERT INTO t VALUES (1, 'x')", &[]).expect("written");
        assert_eq!(texts(&mut two, "SELECT * FROM t"), ["1|x"]);
        // One transaction writes at a time, as in a database at a path.
        one.execute("BEGIN IMMEDIATE", &[]).expect("begun");
        assert_eq!(two.execute("DELETE FROM t", &[]).expect_err("busy").code, 5);
        one.execute("COMMIT", &[]).expect("committed");
        // Another keyspace is another database.
        let mut other = Sql::in_store(&store, "other").expect("opened");
        assert!(refused(&mut other, "SELECT * FROM t").contains("no such table"));
    }
    assert_eq!(texts(&mut open(&store), "SELECT * FROM t"), ["1|x"]);
    store.shut().expect("closed");
    drop(store);
    let store = Arc::new(silica::open(scratch.path().join("store")).expect("opened again"));
    store.verify().expect("it is well");
    assert_eq!(texts(&mut open(&store), "SELECT * FROM t"), ["1|x"]);
}

#[test]
fn a_keyspace_of_something_else_is_no_database() {
    let (_scratch, store) = store();
    store.keyspace("keys").expect("made").put("user:1", "ann").expect("written");
    store.create_keyspace("cache", "mica", &[("memory_bytes", "8MiB")]).expect("made");
    let keys = Sql::in_store(&store, "keys").err().expect("refused");
    assert!(keys.message.contains("holds keys that are no SQL database"), "{keys}");
    let cache = Sql::in_store(&store, "cache").err().expect("refused");
    assert!(cache.message.contains("keeps no order"), "{cache}");
    // A ticket is for one opening.
    let guessed = Sql::open("file:app?silica_store=1").err().expect("refused");
    assert!(guessed.message.contains("Sql::in_store"), "{guessed}");
}

#[test]
fn keyspaces_are_read_as_tables() {
    let (_scratch, store) = store();
    let users = store.keyspace("users").expect("made");
    for (key, value) in [("user:1", "ann"), ("user:2", "bob"), ("USER:3", "cid"), ("z", "last")] {
        users.put(key, value).expect("written");
    }
    let mut batch = WriteBatch::new();
    let expires_unix_ms = u64::MAX / 2;
    batch.put_entry(b"brief", EntryRef { value: b"\xff\0", expires_unix_ms, user_bits: 7 });
    users.write(&batch).expect("written");
    let mut sql = open(&store);
    let from = |rest: &str| format!("SELECT key FROM silica_keyspace('users') {rest}");
    let all = ["USER:3", "brief", "user:1", "user:2", "z"];
    assert_eq!(texts(&mut sql, &from("ORDER BY key")), all);
    assert_eq!(texts(&mut sql, &from("WHERE key = 'user:2'")), ["user:2"]);
    assert_eq!(texts(&mut sql, &from("WHERE key >= 'user:' AND key < 'user;'")).len(), 2);
    assert_eq!(texts(&mut sql, &from("WHERE key GLOB 'user:*'")).len(), 2);
    assert_eq!(texts(&mut sql, &from("WHERE key LIKE 'user:%'")).len(), 3);
    assert_eq!(texts(&mut sql, &from("WHERE key > x'00'")), [""; 0]);
    assert_eq!(texts(&mut sql, &from("WHERE key = 'USER:1' COLLATE NOCASE")), ["user:1"]);
    assert_eq!(texts(&mut sql, &from("WHERE key IN ('z', 'brief', 'q') ORDER BY 1")).len(), 2);
    let brief = "SELECT typeof(value), hex(value), ttl > 1000, bits FROM silica_keyspace('users') \
                 WHERE key = 'brief'";
    assert_eq!(texts(&mut sql, brief), ["blob|FF00|1|7"]);
    sql.execute("CREATE TABLE likes (name, color)", &[]).expect("made");
    sql.execute("INSERT INTO likes VALUES ('user:1', 'blue'), ('user:9', 'red')", &[]).unwrap();
    let join = "SELECT color, value FROM likes JOIN silica_keyspace('users') ON key = name";
    assert_eq!(texts(&mut sql, join), ["blue|ann"]);
    assert!(refused(&mut sql, "SELECT * FROM silica_keyspace('typo')").contains("there are app"));
    assert!(refused(&mut sql, "SELECT * FROM silica_keyspace").contains("wants the name"));
    let delete = "DELETE FROM silica_keyspace WHERE keyspace = 'users'";
    assert!(refused(&mut sql, delete).contains("CREATE VIRTUAL TABLE"));
}

#[test]
fn conditions_and_order_go_down_to_the_engine() {
    let (_scratch, store) = store();
    store.keyspace("users").expect("made");
    let mut sql = open(&store);
    sql.execute("CREATE VIRTUAL TABLE users USING silica_keyspace('users')", &[]).expect("made");
    let mut plan = |query: &str| texts(&mut sql, &format!("EXPLAIN QUERY PLAN {query}"));
    let by = |plan: &[String]| plan[0].split(':').next_back().unwrap_or_default().to_string();
    assert_eq!(by(&plan("SELECT * FROM users WHERE key = 'a'")), "=");
    assert_eq!(by(&plan("SELECT * FROM users WHERE key >= 'a' AND key < 'b'")), "G<");
    let ordered = plan("SELECT * FROM users WHERE key GLOB 'a*' ORDER BY key DESC");
    // No line sorts behind it. The bounds are SQLite's own.
    assert!(by(&ordered) == "G<g" && ordered.len() == 1, "{ordered:?}");
}

#[test]
fn keyspaces_are_written_as_tables() {
    let (_scratch, store) = store();
    let mut sql = open(&store);
    sql.execute("CREATE VIRTUAL TABLE users USING silica_keyspace(users)", &[]).expect("made");
    assert_eq!(texts(&mut sql, "SELECT * FROM users"), [""; 0]);
    assert!(store.existing("users").expect("asked").is_none(), "a reader makes no keyspace");
    sql.execute("INSERT INTO users (key, value) VALUES ('a', 'one'), ('b', 2)", &[]).unwrap();
    let users = store.existing("users").expect("asked").expect("it is there");
    assert_eq!(users.get("b").expect("read"), Some(b"2".to_vec()));
    assert!(
        refused(&mut sql, "INSERT INTO users (key, value) VALUES ('a', 'x')").contains("UNIQUE")
    );
    sql.execute("INSERT OR IGNORE INTO users (key, value) VALUES ('a', 'x')", &[]).unwrap();
    assert_eq!(users.get("a").expect("read"), Some(b"one".to_vec()));
    sql.execute("REPLACE INTO users (key, value, ttl, bits) VALUES ('a', 'uno', 50000, 9)", &[])
        .unwrap();
    let before = users.get_with("a", |e| e.map(|e| (e.expires_unix_ms, e.user_bits))).unwrap();
    // What an UPDATE does not name stays to the millisecond.
    sql.execute("UPDATE users SET value = value || '!' WHERE key = 'a'", &[]).unwrap();
    let after = users.get_with("a", |e| e.map(|e| (e.expires_unix_ms, e.user_bits))).unwrap();
    assert_eq!((after, before.map(|(_, bits)| bits)), (before, Some(9)));
    sql.execute("UPDATE users SET key = 'c', ttl = NULL WHERE key = 'a'", &[]).unwrap();
    assert_eq!(texts(&mut sql, "SELECT key, value, ttl IS NULL FROM users"), ["b|2|1", "c|uno!|1"]);
    assert!(refused(&mut sql, "UPDATE users SET ttl = -1").contains("above 0"));
    assert!(refused(&mut sql, "UPDATE users SET bits = -1").contains("4294967295"));
    assert!(refused(&mut sql, "UPDATE users SET value = NULL").contains("NOT NULL"));
    assert_eq!(sql.execute("DELETE FROM users", &[]).expect("deleted"), 2);
    assert_eq!(users.count(true).expect("counted").estimate, 0);
}

#[test]
fn a_transaction_has_tables_and_keyspaces() {
    let (_scratch, store) = store();
    let users = store.keyspace("users").expect("made");
    users.put("a", "1").expect("written");
    let mut sql = open(&store);
    sql.run("CREATE VIRTUAL TABLE users USING silica_keyspace('users'); CREATE TABLE t (x)")
        .expect("made");
    let write = "BEGIN; UPDATE users SET value = value + 1; INSERT INTO t VALUES (1)";
    sql.run(write).expect("written");
    // It reads its own writes; others do not.
    assert_eq!(texts(&mut sql, "SELECT value FROM users"), ["2"]);
    assert_eq!(users.get("a").expect("read"), Some(b"1".to_vec()));
    sql.run("ROLLBACK").expect("taken back");
    assert_eq!(users.get("a").expect("read"), Some(b"1".to_vec()));
    sql.run(write).expect("written");
    sql.run("SAVEPOINT s; DELETE FROM users; INSERT INTO users(key, value) VALUES ('b', 'x')")
        .expect("written");
    sql.run("ROLLBACK TO s; COMMIT").expect("committed");
    assert_eq!(texts(&mut sql, "SELECT key, value, x FROM users, t"), ["a|2|1"]);
    // Who wrote the key meanwhile wins, and the whole transaction begins anew.
    sql.run(write).expect("written");
    users.put("a", "other").expect("written");
    let error = sql.execute("COMMIT", &[]).expect_err("it is refused");
    assert!(error.code == 517 && error.message.contains("begin it anew"), "{error}");
    assert!(!sql.is_in_transaction());
    assert_eq!(texts(&mut sql, "SELECT count(*) FROM t"), ["1"]);
    assert_eq!(users.get("a").expect("read"), Some(b"other".to_vec()));
}

#[test]
fn a_failed_statement_leaves_nothing_in_the_keyspace() {
    let (_scratch, store) = store();
    let users = store.keyspace("users").expect("made");
    users.put("k", "there").expect("written");
    let mut sql = open(&store);
    sql.run("CREATE VIRTUAL TABLE users USING silica_keyspace('users'); BEGIN").expect("made");
    let twice = "INSERT INTO users (key, value) VALUES ('new', 'x'), ('k', 'y')";
    assert!(refused(&mut sql, twice).contains("UNIQUE"));
    sql.run("COMMIT").expect("committed");
    assert_eq!(users.get("new").expect("read"), None);
}

#[test]
fn engines_without_an_order_are_read_and_not_written() {
    let (_scratch, store) = store();
    let cache = store.create_keyspace("cache", "mica", &[("memory_bytes", "8MiB")]).expect("made");
    for n in 0..1000 {
        cache.put(format!("k{n:03}"), format!("{n}")).expect("written");
    }
    let mut sql = open(&store);
    sql.run("CREATE VIRTUAL TABLE cache USING silica_keyspace('cache')").expect("made");
    assert_eq!(texts(&mut sql, "SELECT value FROM cache WHERE key = 'k007'"), ["7"]);
    let few = "SELECT key FROM cache WHERE key >= 'k998' ORDER BY key DESC";
    assert_eq!(texts(&mut sql, few), ["k999", "k998"]);
    assert_eq!(texts(&mut sql, "SELECT count(DISTINCT key) FROM cache"), ["1000"]);
    assert!(refused(&mut sql, "DELETE FROM cache").contains("does not write it"));
}

#[test]
fn keyspaces_of_a_database_at_a_path_are_those_of_its_store() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    let mut sql = Sql::open(&path).expect("opened");
    sql.run("CREATE VIRTUAL TABLE notes USING silica_keyspace('notes')").expect("made");
    sql.run("INSERT INTO notes (key, value) VALUES ('k', 'v')").expect("written");
    assert_eq!(texts(&mut sql, "SELECT value FROM silica_keyspace('notes')"), ["v"]);
    // Its own keyspace is the statements' alone.
    sql.run("CREATE VIRTUAL TABLE own USING silica_keyspace('sql')").expect("made");
    assert!(refused(&mut sql, "DELETE FROM own").contains("is a SQL database"));
    drop(sql);
    let store = silica::open(scratch.path().join("app.db-silica/store")).expect("opened");
    let notes = store.existing("notes").expect("asked").expect("it is there");
    assert_eq!(notes.get("k").expect("read"), Some(b"v".to_vec()));
    // A database of SQLite's has none.
    let mut memory = Sql::open(":memory:").expect("opened");
    assert!(refused(&mut memory, "SELECT * FROM silica_keyspace('x')").contains("needs a Silica"));
}

#[test]
fn statements_of_strangers_reach_no_file_and_no_setting_of_the_process() {
    let (scratch, store) = store();
    let mut sql = open(&store);
    sql.distrust(Untrusted { value_bytes_max: 1 << 20 });
    let target = scratch.path().join("stolen");
    for statement in [
        format!("ATTACH '{}' AS x", target.display()),
        format!("VACUUM INTO '{}'", target.display()),
        "PRAGMA soft_heap_limit = 1".to_string(),
        "PRAGMA writable_schema = 1".to_string(),
        "SELECT load_extension('x')".to_string(),
    ] {
        let words = refused(&mut sql, &statement);
        assert!(words.contains("authoriz"), "{statement}: {words}");
    }
    assert!(!target.exists());
    assert!(refused(&mut sql, "SELECT zeroblob(2000000)").contains("too big"));
    let vtab = "SELECT count(*) FROM pragma_table_info('sqlite_schema')";
    assert_eq!(texts(&mut sql, vtab), ["5"]);
    assert_eq!(texts(&mut sql, "PRAGMA foreign_keys"), ["0"]);
}

#[test]
fn a_rehearsal_counts_and_keeps_nothing() {
    let (_scratch, store) = store();
    let mut sql = open(&store);
    sql.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON t (b)").unwrap();
    for n in 0..100 {
        let value = Value::from(format!("text {n}"));
        sql.execute("INSERT INTO t VALUES (?, ?)", &[n.into(), value]).expect("written");
    }
    let keyspace = store.existing("app").expect("asked").expect("it is there");
    let keyspaces = Arc::clone(&store) as Arc<dyn silica_sql::Keyspaces>;
    let mut rehearsal = silica_sql::Rehearsal::on(&keyspace, keyspaces).expect("opened");
    let mut asked = |statement: &str| {
        // The schema is read once.
        rehearsal.sql.query("SELECT count(*) FROM sqlite_schema", &[]).expect("read");
        let before = rehearsal.asked();
        rehearsal.sql.query(statement, &[]).unwrap_or_else(|e| panic!("{statement}: {e}"));
        rehearsal.asked().since(&before)
    };
    let one = asked("SELECT b FROM t WHERE a = 7");
    assert_eq!((one.gets, one.hits, one.seeks, one.puts), (1, 1, 0, 0), "{one:?}");
    let by_index = asked("SELECT a FROM t WHERE b = 'text 7'");
    assert!(by_index.seeks == 1 && by_index.entries <= 2, "{by_index:?}");
    let all = asked("SELECT sum(length(b)) FROM t");
    assert!(all.entries >= 100 && all.entries <= 102 && all.bytes_read > 800, "{all:?}");
    let write = asked("UPDATE t SET b = 'new' WHERE a = 7");
    assert_eq!((write.puts, write.deletes, write.commits), (2, 1, 1), "{write:?}");
    assert!(write.bytes_written > 20, "{write:?}");
    assert_eq!(texts(&mut sql, "SELECT b FROM t WHERE a = 7"), ["text 7"]);
    assert_eq!(texts(&mut sql, "PRAGMA integrity_check"), ["ok"]);
}
