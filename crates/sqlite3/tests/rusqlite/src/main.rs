//! Real work through rusqlite: migrations, transactions, blobs, hooks, functions, backup.

use rusqlite::backup::{Backup, StepResult};
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::hooks::Action;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OptionalExtension, Result, TransactionBehavior};
use rusqlite::{named_params, params};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The store of a database, which shows that it is a Silica database.
fn store_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-silica/store");
    name.into()
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).expect(sql)
}

const MIGRATIONS: [&str; 3] = [
    "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT NOT NULL, photo BLOB);
     CREATE TABLE payment (id INTEGER PRIMARY KEY, person INTEGER NOT NULL REFERENCES person,
         cents INTEGER NOT NULL CHECK (cents <> 0), at TEXT NOT NULL DEFAULT '2026-01-01');",
    "CREATE UNIQUE INDEX person_name ON person (name COLLATE NOCASE);
     CREATE INDEX payment_person ON payment (person, cents DESC) WHERE cents > 0;",
    "ALTER TABLE person ADD COLUMN balance INTEGER NOT NULL DEFAULT 0;
     CREATE TRIGGER paid AFTER INSERT ON payment BEGIN
         UPDATE person SET balance = balance + new.cents WHERE id = new.person; END;
     CREATE VIEW rich AS SELECT name, balance FROM person WHERE balance > 1000;",
];

fn migrate(db: &mut Connection) -> Result<()> {
    let at: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (version, sql) in (1..).zip(MIGRATIONS).skip(at as usize) {
        let transaction = db.transaction()?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", version as u32)?;
        transaction.commit()?;
    }
    Ok(())
}

fn transactions(db: &mut Connection) -> Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut person = transaction.prepare("INSERT INTO person (name) VALUES (?1)")?;
        let mut payment = transaction
            .prepare_cached("INSERT INTO payment (person, cents) VALUES (:person, :cents)")?;
        for n in 0..200 {
            let id = person.insert([format!("person {n}")])?;
            for cents in 1..=20 {
                payment
                    .execute(named_params! {":person": id, ":cents": cents * (n - 50)})
                    .or_else(|error| if n == 50 { Ok(0) } else { Err(error) })?;
            }
        }
    }
    transaction.commit()?;
    assert_eq!(number(db, "SELECT count(*) FROM payment"), 199 * 20);
    assert_eq!(
        number(db, "SELECT balance FROM person WHERE name = 'PERSON 51' COLLATE NOCASE"),
        210
    );
    let mut outer = db.transaction()?;
    outer.execute("DELETE FROM payment WHERE person > 100", [])?;
    let inner = outer.savepoint()?;
    inner.execute("DELETE FROM payment", [])?;
    inner.finish()?;
    assert_eq!(number(&outer, "SELECT count(*) FROM payment"), 99 * 20);
    drop(outer);
    assert_eq!(number(db, "SELECT count(*) FROM payment"), 199 * 20);
    let error = db.execute("INSERT INTO person (name) VALUES ('Person 7')", []).expect_err("twice");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ConstraintViolation));
    let error = db.execute("INSERT INTO payment (person, cents) VALUES (1, 0)", []);
    assert!(error.expect_err("zero").to_string().contains("CHECK constraint failed"));
    Ok(())
}

fn blobs(db: &Connection) -> Result<()> {
    db.execute("UPDATE person SET photo = zeroblob(300000) WHERE id = 3", [])?;
    let mut blob = db.blob_open(MAIN_DB, "person", "photo", 3, false)?;
    blob.seek(SeekFrom::Start(100_000)).expect("sought");
    blob.write_all(b"within").expect("written");
    let mut whole = Vec::new();
    blob.seek(SeekFrom::Start(0)).expect("sought");
    blob.read_to_end(&mut whole).expect("read");
    assert_eq!((whole.len(), &whole[100_000..100_006]), (300_000, &b"within"[..]));
    // A blob ends with its row's next write.
    db.execute("UPDATE person SET balance = 1 WHERE id = 3", [])?;
    let mut byte = [0];
    blob.seek(SeekFrom::Start(0)).expect("sought");
    blob.read_exact(&mut byte).expect_err("the row was written");
    blob.close()?;
    let photo: Vec<u8> = db.query_row("SELECT photo FROM person WHERE id = 3", [], |r| r.get(0))?;
    assert_eq!(photo, whole);
    Ok(())
}

fn hooks(db: &mut Connection) -> Result<()> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let commits = Arc::new(AtomicUsize::new(0));
    let rollbacks = Arc::new(AtomicUsize::new(0));
    let (to_seen, to_commits, to_rollbacks) = (seen.clone(), commits.clone(), rollbacks.clone());
    db.update_hook(Some(move |action, _: &str, table: &str, rowid| {
        to_seen.lock().expect("a lock").push((action, table.to_string(), rowid));
    }))?;
    db.commit_hook(Some(move || to_commits.fetch_add(1, Ordering::SeqCst) >= 1))?;
    db.rollback_hook(Some(move || {
        to_rollbacks.fetch_add(1, Ordering::SeqCst);
    }))?;
    db.execute("INSERT INTO person (id, name) VALUES (900, 'hooked')", [])?;
    // The second commit is refused by the hook.
    db.execute("DELETE FROM person WHERE id = 900", []).expect_err("refused");
    let was_seen = seen.lock().expect("a lock").clone();
    let expected = |action| (action, "person".to_string(), 900);
    assert_eq!(was_seen, [expected(Action::SQLITE_INSERT), expected(Action::SQLITE_DELETE)]);
    assert_eq!((commits.load(Ordering::SeqCst), rollbacks.load(Ordering::SeqCst)), (2, 1));
    db.update_hook(None::<fn(Action, &str, &str, i64)>)?;
    db.commit_hook(None::<fn() -> bool>)?;
    db.rollback_hook(None::<fn()>)?;
    assert_eq!(number(db, "SELECT count(*) FROM person WHERE id = 900"), 1);
    assert_eq!(db.execute("DELETE FROM person WHERE id = 900", [])?, 1);
    Ok(())
}

struct Longest;

impl Aggregate<String, Option<String>> for Longest {
    fn init(&self, _: &mut Context<'_>) -> Result<String> {
        Ok(String::new())
    }

    fn step(&self, context: &mut Context<'_>, longest: &mut String) -> Result<()> {
        let text: String = context.get(0)?;
        if text.len() > longest.len() {
            *longest = text;
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, longest: Option<String>) -> Result<Option<String>> {
        Ok(longest)
    }
}

/// A function that an index is by: whoever uses the index needs it.
fn backwards(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("backwards", 1, flags, |context| {
        Ok(context.get::<String>(0)?.chars().rev().collect::<String>())
    })
}

fn functions(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    backwards(db)?;
    db.create_aggregate_function("longest", 1, flags, Longest)?;
    db.create_collation("by_length", |a, b| a.len().cmp(&b.len()))?;
    db.execute("CREATE INDEX person_backwards ON person (backwards(name))", [])?;
    let plan: String = db.query_row(
        "EXPLAIN QUERY PLAN SELECT id FROM person WHERE backwards(name) = '91 nosrep'",
        [],
        |row| row.get(3),
    )?;
    assert!(plan.contains("person_backwards"), "{plan}");
    assert_eq!(number(db, "SELECT id FROM person WHERE backwards(name) = '91 nosrep'"), 20);
    let longest: String = db.query_row("SELECT longest(name) FROM person", [], |row| row.get(0))?;
    assert_eq!(longest, "person 100");
    let mut statement =
        db.prepare("SELECT name FROM person ORDER BY name COLLATE by_length, id")?;
    let names =
        statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>>>()?;
    assert!(names.is_sorted_by_key(String::len) && names.len() == 200);
    // An index by the program's own collation is refused in words.
    let error = db.execute("CREATE INDEX own ON person (name COLLATE by_length)", []);
    let words = error.expect_err("refused").to_string();
    assert!(words.contains("no index by the application's own collation"), "{words}");
    Ok(())
}

fn backup(db: &Connection, scratch: &Path) -> Result<()> {
    for (name, storage) in [("copy.db", "silica"), ("copy.sqlite", "sqlite")] {
        let path = scratch.join(name);
        let mut copy = Connection::open(format!("file:{}?storage={storage}", path.display()))?;
        let backup = Backup::new(db, &mut copy)?;
        let mut steps = 0;
        while backup.step(2)? != StepResult::Done {
            steps += 1;
        }
        assert!(steps > 5, "{steps} steps");
        drop(backup);
        assert_eq!(store_of(&path).is_dir(), storage == "silica");
        for sql in ["SELECT count(*) FROM payment", "SELECT sum(length(photo)) FROM person"] {
            assert_eq!(number(&copy, sql), number(db, sql));
        }
        backwards(&copy)?;
        let check: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        assert_eq!(check, "ok");
    }
    Ok(())
}

fn two_connections(path: &Path) -> Result<()> {
    let mut one = Connection::open(path)?;
    let other = Connection::open(path)?;
    other.busy_timeout(Duration::ZERO)?;
    let writing = one.transaction_with_behavior(TransactionBehavior::Immediate)?;
    writing.execute("DELETE FROM payment WHERE person = 1", [])?;
    let error = other.execute("DELETE FROM payment", []).expect_err("busy");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    assert_eq!(number(&other, "SELECT count(*) FROM payment WHERE person = 1"), 20);
    writing.commit()?;
    assert_eq!(number(&other, "SELECT count(*) FROM payment WHERE person = 1"), 0);
    Ok(())
}

fn main() -> Result<()> {
    assert_eq!(rusqlite::version(), "3.54.1", "another library was loaded");
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    let mut db = Connection::open(&path)?;
    db.pragma_update(None, "foreign_keys", true)?;
    migrate(&mut db)?;
    assert!(store_of(&path).is_dir(), "the database is not ours");
    transactions(&mut db)?;
    blobs(&db)?;
    hooks(&mut db)?;
    functions(&db)?;
    backup(&db, scratch.path())?;
    two_connections(&path)?;
    let none = db.query_row("SELECT 1 FROM person WHERE id = ?1", params![12345], |row| row.get(0));
    assert_eq!(none.optional()?, None::<Value>);
    db.close().map_err(|(_, error)| error)?;
    let mut db = Connection::open(&path)?;
    migrate(&mut db)?;
    let version: u32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    assert_eq!((version, number(&db, "SELECT count(*) FROM person")), (3, 200));
    println!("rusqlite: passed");
    Ok(())
}
