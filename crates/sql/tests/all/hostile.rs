//! What is no database, what is damaged, and statements that are too much.

use silica_sql::sql::{Sql, SqlError, Value};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const NOTADB: i32 = 26;
const CORRUPT: i32 = 11;
const CANTOPEN: i32 = 14;

fn refused(path: &Path) -> SqlError {
    let opened = Sql::open(path).and_then(|mut sql| sql.query("SELECT * FROM sqlite_schema", &[]));
    opened.expect_err("it is refused")
}

fn store_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-silica/store");
    name.into()
}

fn series(sql: &mut Sql, rows: u32) {
    sql.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB); CREATE INDEX i ON t (b)")
        .expect("made");
    let fill = format!(
        "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT {rows}) \
         INSERT INTO t SELECT n, 'b' || (n * 7919 % 1000003), randomblob(900) FROM s"
    );
    sql.run(&fill).expect("filled");
}

#[test]
fn what_is_neither_a_database_nor_a_marker_is_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    for text in ["hello, this is no database", "Silica", "SQLite format 2\0"] {
        let mut bytes = text.as_bytes().to_vec();
        for size in [bytes.len(), 4096] {
            bytes.resize(size, b'.');
            fs::write(&path, &bytes).expect("written");
            let error = refused(&path);
            assert_eq!(error.code, NOTADB, "{text}: {error}");
            assert!(!store_of(&path).exists() && fs::read(&path).expect("there") == bytes);
        }
    }
    // A marker whose number no release writes.
    for text in ["Silica database \n", "Silica database 2\nand more\n", "Silica database x"] {
        fs::write(&path, text).expect("written");
        let error = refused(&path);
        assert_eq!(error.code, CANTOPEN, "{text}: {error}");
        assert!(error.message.contains("newer release"), "{error}");
    }
    let error = refused(scratch.path());
    assert_eq!(error.code, CANTOPEN, "{error}");
}

#[test]
fn a_newer_store_is_refused_by_name_and_not_changed() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    series(&mut Sql::open(&path).expect("opens"), 10);
    let header = |bytes: Option<&[u8]>| {
        let store = silica::open(store_of(&path)).expect("opens");
        let keyspace = store.keyspace(silica_sql::KEYSPACE).expect("there");
        if let Some(bytes) = bytes {
            keyspace.put([1], bytes).expect("written");
        }
        keyspace.get([1]).expect("read").expect("there")
    };
    let ours = header(None);
    let mut newer = ours.clone();
    newer[6] = 2;
    header(Some(&newer));
    let error = refused(&path);
    assert_eq!(error.code, CANTOPEN, "{error}");
    assert!(error.message.contains("newer release"), "{error}");
    assert_eq!(header(Some(&ours)), ours);
    let count = Sql::open(&path).expect("opens").query("SELECT count(*) FROM t", &[]);
    assert_eq!(count.expect("read"), [[Value::from(10)]]);
}

#[test]
fn a_damaged_file_of_sqlites_is_an_error_as_there() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("old.db");
    let uri = format!("file:{}?storage=sqlite", path.display());
    let mut sql = Sql::open(&uri).expect("opens");
    series(&mut sql, 200);
    drop(sql);
    let whole = fs::read(&path).expect("there");
    for (at, expected) in [(0, NOTADB), (100, CORRUPT), (4096, CORRUPT)] {
        let mut bytes = whole.clone();
        bytes[at..at + 16].fill(0xa5);
        fs::write(&path, &bytes).expect("written");
        let asked =
            Sql::open(&path).and_then(|mut sql| sql.query("SELECT sum(length(c)) FROM t", &[]));
        assert_eq!(asked.expect_err("damaged").code & 0xff, expected, "at {at}");
    }
}

/// Files with tables of the store below `path`.
fn tables(path: &Path) -> Vec<PathBuf> {
    let keyspace = store_of(path).join("keyspace-0");
    let files = fs::read_dir(keyspace).expect("a store").map(|file| file.expect("listed").path());
    let is_table = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("TABLE-"))
    };
    files.filter(is_table).collect()
}

/// Statements that reach rows and index entries in all ways, each with little of the data.
const READS: [&str; 12] = [
    "SELECT a, b, hex(c) FROM t ORDER BY a DESC LIMIT 1",
    "SELECT a, b, hex(c) FROM t WHERE a = 1234",
    "SELECT a, b, hex(c) FROM t WHERE a < 1500 ORDER BY a DESC LIMIT 2",
    "SELECT a, b, hex(c) FROM t WHERE a <= 1505 ORDER BY a DESC LIMIT 2",
    "SELECT a, b, hex(c) FROM t WHERE a > 777 LIMIT 2",
    "SELECT a, length(c) FROM t WHERE b = 'b7919'",
    "SELECT max(b), count(*) FROM t WHERE b < 'b5'",
    "SELECT a FROM t WHERE b > 'b77' ORDER BY b LIMIT 3",
    "SELECT a FROM t WHERE b <= 'b77' ORDER BY b DESC LIMIT 3",
    "SELECT max(a), min(a), max(b), min(b) FROM t",
    "SELECT sum(length(c)), sum(a) FROM t",
    "SELECT count(*) FROM t AS x JOIN t AS y ON y.b = x.b WHERE x.a BETWEEN 100 AND 200",
];

/// Asks everything of the database: the right answers, or errors, whose number it returns.
fn wrong_or_refused(sql: &mut Sql, right: &[Vec<Vec<Value>>]) -> usize {
    let mut refused = 0;
    for (statement, right) in READS.iter().zip(right) {
        match sql.query(statement, &[]) {
            Ok(rows) => assert!(rows == *right, "{statement}: {rows:?}"),
            Err(error) => {
                assert!([CORRUPT, 10].contains(&(error.code & 0xff)), "{statement}: {error}");
                refused += 1;
            }
        }
    }
    refused
}

#[test]
fn damage_is_an_error_and_never_a_wrong_answer() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    let uri = format!("file:{}?memory_bytes=1MiB", path.display());
    let mut sql = Sql::open(&uri).expect("opens");
    series(&mut sql, 4000);
    sql.run("DELETE FROM t WHERE a BETWEEN 1500 AND 1510; VACUUM").expect("compacted");
    let right: Vec<_> = READS.map(|read| sql.query(read, &[]).expect("read")).into();
    drop(sql);
    let files: Vec<_> =
        tables(&path).into_iter().map(|file| (fs::read(&file).expect("read"), file)).collect();
    assert!(files.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() > 3 << 20, "in tables");
    let mut refused = 0;
    for (stride, phase) in [(512, 100), (4096, 3000), (65536, 7000), (65536, 50_000)] {
        // Damage that comes while the database is open, and was not met before.
        let mut sql = Sql::open(&uri).expect("opens");
        // The last row is known then, and is read when somebody asks for a column of it.
        sql.run("BEGIN IMMEDIATE; SELECT max(a) FROM t").expect("begun");
        for (bytes, file) in &files {
            let file = fs::OpenOptions::new().write(true).open(file).expect("there");
            let damaged = bytes.len() / 100 * 95;
            for at in (phase..damaged).step_by(stride) {
                file.write_all_at(&[bytes[at] ^ 0x55], at as u64).expect("written");
            }
        }
        refused += wrong_or_refused(&mut sql, &right);
        drop(sql);
        for (bytes, file) in &files {
            fs::write(file, bytes).expect("written");
        }
    }
    assert!(refused > 12, "{refused} refused: the damage was not met");
    let mut sql = Sql::open(&uri).expect("opens");
    assert_eq!(wrong_or_refused(&mut sql, &right), 0);
}

#[test]
fn the_integrity_check_finds_what_is_missing_on_either_side() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    let mut sql = Sql::open(&path).expect("opens");
    series(&mut sql, 50);
    let root = |name: &str| {
        let found = sql.query("SELECT rootpage FROM sqlite_schema WHERE name = ?", &[name.into()]);
        let Value::Integer(root) = found.expect("read")[0][0] else { panic!("a number") };
        [&[0x10][..], &(root as u32).to_be_bytes()].concat()
    };
    let [mut table, mut index] = ["t", "i"].map(root);
    drop(sql);
    table.extend_from_slice(&(7_i64 ^ i64::MIN).to_be_bytes());
    // The text 'b55433', the row's number, and the end of the prefix.
    index.extend_from_slice(b"\x30b55433");
    let check = || -> Vec<String> {
        let mut sql = Sql::open(&path).expect("opens");
        let rows = sql.query("PRAGMA integrity_check", &[]).expect("checked");
        rows.iter().map(|row| format!("{:?}", row[0])).collect()
    };
    assert!(check()[0].contains("ok"));
    for (prefix, words) in [(&index, "missing from index"), (&table, "wrong # of entries in index")]
    {
        let store = silica::open(store_of(&path)).expect("opens");
        let keyspace = store.keyspace(silica_sql::KEYSPACE).expect("there");
        let mut from = keyspace.range(prefix.as_slice()..).expect("it has an order");
        let (key, value) = from.next().expect("the entry").expect("read");
        assert!(key.starts_with(prefix));
        keyspace.delete(&key).expect("deleted");
        drop(from);
        drop((keyspace, store));
        let found = check();
        assert!(found.iter().any(|row| row.contains(words)), "{found:?}");
        let store = silica::open(store_of(&path)).expect("opens");
        store.keyspace(silica_sql::KEYSPACE).expect("there").put(&key, &value).expect("back");
        drop(store);
        assert!(check()[0].contains("ok"));
    }
}

#[test]
fn large_statements_and_deep_expressions_have_limits() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = Sql::open(scratch.path().join("app.db")).expect("opens");
    series(&mut sql, 20);
    let text = "x".repeat(1 << 20);
    sql.run(&format!("INSERT INTO t VALUES (1000, '{}', NULL)", &text[..60_000])).expect("1 MB");
    let found = sql.query(&format!("SELECT length('{text}'), count(*) FROM t"), &[]);
    assert_eq!(found.expect("1 MB"), [[Value::from(1 << 20), Value::from(21)]]);
    // Keys of indexes may be long.
    let long = format!("INSERT INTO t VALUES (1001, 'short', NULL), (1002, '{text}', NULL)");
    sql.run(&long).expect("a key of 1 MB");
    let found = sql.query("SELECT count(*) FROM t WHERE b = ?", &[Value::from(&*text)]);
    assert_eq!(found.expect("found"), [[Value::from(1)]]);
    sql.run("DELETE FROM t WHERE a > 1000").expect("deleted");
    // A row is too long, and nothing of the statement stays.
    let long = "INSERT INTO t VALUES (1001, 'short', NULL), (1002, zeroblob(2000000000), NULL)";
    let error = sql.run(long).expect_err("too long a row");
    assert_eq!(error.code, 18, "{error}");
    let numbers: Vec<String> = (0..120_000).map(|n| n.to_string()).collect();
    let list = format!("SELECT count(*) FROM t WHERE a IN ({})", numbers.join(","));
    assert_eq!(sql.query(&list, &[]).expect("a list"), [[Value::from(21)]]);
    let rows: Vec<String> = (2000..22_000).map(|n| format!("({n},'b{n}',NULL)")).collect();
    sql.run(&format!("INSERT INTO t VALUES {}", rows.join(","))).expect("20,000 rows");
    let deep = |depth: usize| format!("SELECT a{} FROM t WHERE a = 1", "+1".repeat(depth - 1));
    assert_eq!(sql.query(&deep(1000), &[]).expect("deep"), [[Value::from(1000)]]);
    let error = sql.query(&deep(1001), &[]).expect_err("too deep");
    assert!(error.message.contains("maximum depth 1000"), "{error}");
    let error = sql.query(&format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000)), &[]);
    let error = error.expect_err("too deep");
    assert!(error.message.contains("Recursion limit"), "{error}");
    let check = sql.query("PRAGMA integrity_check", &[]).expect("checked");
    assert_eq!(check, [[Value::from("ok")]]);
}
