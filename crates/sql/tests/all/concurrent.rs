//! Transactions that write beside each other.

use silica_base::{Prng, test_size};
use silica_sql::code;
use silica_sql::sql::{Sql, SqlError, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 4;

fn open(path: &Path) -> Sql {
    let mut sql = Sql::open(format!("file:{}?storage=silica", path.display())).expect("opens");
    let set = sql.query("PRAGMA silica_concurrent = ON", &[]).expect("a pragma");
    assert_eq!(set, [[Value::from("1")]]);
    sql.run("PRAGMA synchronous = OFF; PRAGMA busy_timeout = 10000").expect("a pragma");
    sql
}

fn number(sql: &mut Sql, text: &str, values: &[Value]) -> Result<i64, SqlError> {
    match sql.query(text, values)?[0][0] {
        Value::Integer(number) => Ok(number),
        ref other => panic!("{text}: {other:?}"),
    }
}

/// Runs a transaction until it commits; how often it met a conflict.
fn until_committed<T>(
    sql: &mut Sql,
    mut work: impl FnMut(&mut Sql) -> Result<T, SqlError>,
) -> (T, u64) {
    for conflicts in 0.. {
        let done = sql.run("BEGIN").and_then(|()| {
            let found = work(sql)?;
            sql.run("COMMIT")?;
            Ok(found)
        });
        match done {
            Ok(found) => return (found, conflicts),
            Err(error) => assert_eq!(error.code & 0xff, code::BUSY, "{error}"),
        }
        if sql.is_in_transaction() {
            sql.run("ROLLBACK").expect("taken back");
        }
    }
    unreachable!("it commits at last")
}

/// A transaction of a history that has committed.
#[derive(Debug, Default)]
struct Done {
    /// Keys, and the numbers of the transactions that wrote what was read.
    reads: BTreeMap<i64, i64>,
    writes: BTreeSet<i64>,
}

/// Every value is the number of the transaction that wrote it. Of each transaction it is known
/// whose values it has read and which it has overwritten, so who comes before whom: no one may come
/// before itself.
fn assert_serialisable(done: &BTreeMap<i64, Done>) {
    let mut before: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    let mut overwriter: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for (number, one) in done {
        for (key, writer) in &one.reads {
            before.entry(*number).or_default().insert(*writer);
            if one.writes.contains(key) {
                let other = overwriter.insert((*key, *writer), *number);
                assert_eq!(other, None, "{number} has lost the update of key {key}");
            }
        }
    }
    for (number, one) in done {
        for (key, writer) in &one.reads {
            let next = overwriter.get(&(*key, *writer)).filter(|next| *next != number);
            if let Some(next) = next {
                before.entry(*next).or_default().insert(*number);
            }
        }
    }
    let mut left: BTreeSet<i64> = done.keys().copied().collect();
    while !left.is_empty() {
        let is_first = |number: &i64| {
            before.get(number).is_none_or(|others| others.iter().all(|other| !left.contains(other)))
        };
        let first: Vec<i64> = left.iter().filter(|number| is_first(number)).copied().collect();
        assert!(!first.is_empty(), "these come before themselves: {left:?}");
        left.retain(|number| !first.contains(number));
    }
}

const KEYS: u64 = 6;

/// One transaction of a history: reads by key, by index and by range, and writes what it has read.
fn transact(sql: &mut Sql, prng: &mut Prng, number: i64) -> Result<Done, SqlError> {
    let mut done = Done::default();
    for _ in 0..2 {
        let key = prng.below(KEYS) as i64;
        match prng.below(3) {
            0 => {
                let text = "SELECT k, v FROM r WHERE k BETWEEN ? AND ? + 1";
                for row in sql.query(text, &[key.into(), key.into()])? {
                    let [Value::Integer(key), Value::Integer(value)] = row[..] else {
                        panic!("{row:?}")
                    };
                    done.reads.insert(key, value);
                }
            }
            1 => {
                let text = "SELECT v FROM r WHERE name = ?";
                let value = number_of(sql, text, &[Value::Text(format!("name {key}"))])?;
                done.reads.insert(key, value);
            }
            _ => {
                let value = number_of(sql, "SELECT v FROM r WHERE k = ?", &[key.into()])?;
                done.reads.insert(key, value);
            }
        }
        std::thread::yield_now();
    }
    let read: Vec<i64> = done.reads.keys().copied().collect();
    for key in [read[0], read[prng.below(read.len() as u64) as usize]] {
        let values = [Value::Integer(number), Value::Integer(key)];
        sql.query("UPDATE r SET v = ? WHERE k = ?", &values)?;
        done.writes.insert(key);
    }
    Ok(done)
}

use number as number_of;

#[test]
fn histories_of_writers_beside_each_other_are_serialisable() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("r.db");
    let mut sql = open(&path);
    sql.run("CREATE TABLE r (k INTEGER PRIMARY KEY, name TEXT UNIQUE, v INTEGER)").expect("made");
    for key in 0..KEYS {
        sql.run(&format!("INSERT INTO r VALUES ({key}, 'name {key}', 0)")).expect("inserted");
    }
    let count = test_size(60, 300, 5_000) as i64;
    let conflicts = AtomicU64::new(0);
    let all: Vec<BTreeMap<i64, Done>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS as i64)
            .map(|thread| {
                let (path, conflicts) = (&path, &conflicts);
                scope.spawn(move || {
                    let (mut sql, mut prng) = (open(path), Prng::new(thread as u64));
                    let one = |n: i64| {
                        let number = thread * 1_000_000 + n;
                        let work = |sql: &mut Sql| transact(sql, &mut prng, number);
                        let (done, met) = until_committed(&mut sql, work);
                        conflicts.fetch_add(met, Ordering::Relaxed);
                        (number, done)
                    };
                    (0..count).map(one).collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let done: BTreeMap<i64, Done> = all.into_iter().flatten().collect();
    assert_eq!(done.len() as i64, count * THREADS as i64);
    assert!(conflicts.into_inner() > 0, "they meet");
    assert_serialisable(&done);
    let check = sql.query("PRAGMA integrity_check", &[]).expect("checked");
    assert_eq!(check, [[Value::from("ok")]]);
}

#[test]
fn nobody_inserts_what_another_one_has_counted() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("rooms.db");
    let mut sql = open(&path);
    sql.run("CREATE TABLE s (room INTEGER, n INTEGER); CREATE INDEX i ON s (room)").expect("made");
    let count = test_size(30, 150, 2_000);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let path = &path;
            scope.spawn(move || {
                let (mut sql, mut prng) = (open(path), Prng::new(thread));
                for _ in 0..count {
                    let room = Value::Integer(prng.below(3) as i64);
                    until_committed(&mut sql, |sql| {
                        let counted = "SELECT count(*) FROM s WHERE room = ?";
                        let n = number(sql, counted, std::slice::from_ref(&room))?;
                        std::thread::yield_now();
                        sql.query("INSERT INTO s VALUES (?, ?)", &[room.clone(), n.into()])
                    });
                }
            });
        }
    });
    let text = "SELECT room, count(*), count(DISTINCT n), max(n) + 1 FROM s GROUP BY room";
    let mut all = 0;
    for row in sql.query(text, &[]).expect("read") {
        assert!(row[1] == row[2] && row[1] == row[3], "{row:?}");
        let Value::Integer(rows) = row[1] else { panic!("{row:?}") };
        all += rows as u64;
    }
    assert_eq!(all, THREADS * count);
}

/// The count of a table with AUTOINCREMENT is one row, which each insert reads and writes: of two
/// inserts beside each other one has to run again, and no number is given twice, nor that of a
/// deleted row.
#[test]
fn inserts_that_count_on_conflict_and_no_number_comes_twice() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("counted.db");
    let (mut one, mut other) = (open(&path), open(&path));
    one.run("CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b)").expect("made");
    let insert = "INSERT INTO t (b) VALUES (?) RETURNING a";
    one.run("BEGIN").expect("begun");
    let mut given = vec![number(&mut one, insert, &[Value::from("one")]).expect("given")];
    other.run("BEGIN").expect("begun");
    number(&mut other, insert, &[Value::from("other")]).expect("given");
    one.run("COMMIT").expect("the first");
    let refused = other.run("COMMIT").expect_err("refused");
    assert_eq!(refused.code, code::BUSY_SNAPSHOT, "{refused}");
    for turn in 0..3 {
        let sql = if turn == 1 { &mut one } else { &mut other };
        let (next, _) = until_committed(sql, |sql| number(sql, insert, &[Value::from("next")]));
        assert!(given.iter().all(|old| *old < next), "{next} behind {given:?}");
        given.push(next);
        sql.run("DELETE FROM t WHERE a = (SELECT max(a) FROM t)").expect("deleted");
    }
}

#[test]
fn who_reads_what_another_one_writes_is_told_and_who_does_not_commits() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("two.db");
    let mut one = open(&path);
    let mut other = open(&path);
    one.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 1), (2, 2)")
        .expect("made");
    // Appended rows are apart, and so are rows by their key.
    one.run("BEGIN; INSERT INTO t (b) VALUES ('one'); UPDATE t SET b = 7 WHERE a = 1")
        .expect("one");
    other
        .run("BEGIN; INSERT INTO t (b) VALUES ('other'); UPDATE t SET b = 8 WHERE a = 2")
        .expect("");
    one.run("COMMIT").expect("the first");
    other.run("COMMIT").expect("the second");
    assert_eq!(number(&mut one, "SELECT count(*) FROM t", &[]), Ok(4));
    assert_eq!(number(&mut one, "SELECT sum(b) FROM t WHERE a < 3", &[]), Ok(15));
    // Each reads what the other one writes.
    one.run("BEGIN; UPDATE t SET b = (SELECT b FROM t WHERE a = 2) WHERE a = 1").expect("one");
    other.run("BEGIN; UPDATE t SET b = (SELECT b FROM t WHERE a = 1) WHERE a = 2").expect("other");
    one.run("COMMIT").expect("the first");
    let refused = other.run("COMMIT").expect_err("refused");
    assert_eq!(refused.code, code::BUSY_SNAPSHOT, "{refused}");
    assert!(!other.is_in_transaction());
    assert_eq!(number(&mut other, "SELECT sum(b) FROM t WHERE a < 3", &[]), Ok(16));
    // What only reads before it writes is looked at, too.
    other.run("BEGIN").expect("begun");
    assert_eq!(number(&mut other, "SELECT max(b) FROM t WHERE a < 3", &[]), Ok(8));
    one.run("UPDATE t SET b = 9 WHERE a = 2").expect("one");
    let late = other.run("INSERT INTO t (b) VALUES (8); COMMIT").expect_err("refused");
    assert_eq!(late.code, code::BUSY_SNAPSHOT, "{late}");
    if other.is_in_transaction() {
        other.run("ROLLBACK").expect("taken back");
    }
    // An exclusive one waits for nobody, and the others for it.
    one.run("BEGIN EXCLUSIVE; UPDATE t SET b = 1 WHERE a = 1").expect("one");
    other.run("PRAGMA busy_timeout = 0; BEGIN; UPDATE t SET b = 2 WHERE a = 2").expect("other");
    assert_eq!(other.run("COMMIT").expect_err("it waits").code & 0xff, code::BUSY);
    assert!(other.is_in_transaction());
    one.run("COMMIT").expect("the exclusive one");
    other.run("COMMIT").expect("it has waited");
    assert_eq!(other.query("PRAGMA silica_concurrent", &[]).expect("asked"), [[Value::from("1")]]);
    other.query("PRAGMA silica_concurrent = OFF", &[]).expect("set");
    assert_eq!(other.query("PRAGMA silica_concurrent", &[]).expect("asked"), [[Value::from("0")]]);
}
