//! Transactions that are larger than their share of the memory.

use super::crash::engine;
use silica_base::{Prng, test_size};
use silica_device::sim::SimDevice;
use silica_sql::sql::{Sql, Value};
use silica_sql::{Connection, Cursor, Database, FIRST_ROOT, Found, Options, Session};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Rows = BTreeMap<i64, Vec<u8>>;

/// Bytes that a transaction has in memory here.
const TRANSACTION_BYTES: usize = 2_000;

fn rows(connection: &Connection) -> Rows {
    connection.begin(false).unwrap();
    let mut cursor = connection.cursor(FIRST_ROOT, None).unwrap();
    let (mut rows, mut is_there) = (Rows::new(), cursor.first().unwrap());
    while is_there {
        let rowid = cursor.rowid().unwrap();
        rows.insert(rowid, cursor.record().unwrap().to_vec());
        is_there = cursor.next().unwrap();
    }
    connection.roll_back(false).unwrap();
    rows
}

/// Writes so much that it spills several times, with savepoints and a tree that is emptied in
/// between; the rows that it comes to.
fn write(connection: &Connection, before: &Rows, rowids: i64) -> silica_sql::Result<Rows> {
    let mut rows = before.clone();
    connection.begin(true)?;
    let mut cursor = connection.cursor(FIRST_ROOT, None)?;
    let put = |cursor: &mut silica_sql::TreeCursor, rows: &mut Rows, rowid: i64, byte: u8| {
        let record = vec![byte; 100];
        cursor.put_row(rowid, &record, 0)?;
        rows.insert(rowid, record);
        Ok::<(), silica_sql::Failure>(())
    };
    for rowid in 0..rowids {
        put(&mut cursor, &mut rows, rowid, 1)?;
    }
    connection.open_savepoints(1)?;
    let kept = rows.clone();
    for rowid in 0..rowids / 2 {
        put(&mut cursor, &mut rows, 2 * rowid, 2)?;
        if cursor.seek_row(2 * rowid + 1)? == Found::Here {
            cursor.delete()?;
        }
    }
    connection.clear_tree(FIRST_ROOT, false)?;
    for rowid in 0..rowids {
        put(&mut cursor, &mut rows, rowid + 7, 3)?;
    }
    connection.roll_back_to(Some(0))?;
    rows = kept;
    for rowid in 0..rowids / 4 {
        put(&mut cursor, &mut rows, 4 * rowid, 4)?;
    }
    connection.release_savepoint(0)?;
    connection.commit(false, false)?;
    Ok(rows)
}

#[test]
fn after_a_power_cut_at_any_operation_layers_are_whole_or_not_there() {
    cut_at_any_operation(true);
}

/// As on engines that have no layers.
#[test]
fn after_a_power_cut_at_any_operation_a_spilled_transaction_is_whole_or_not_there() {
    cut_at_any_operation(false);
}

fn cut_at_any_operation(takes_layers: bool) {
    let rowids = test_size(40, 80, 200) as i64;
    let (mut before, mut after) = (0, 0);
    let first: Rows = (0..10).map(|rowid| (3 * rowid, vec![9; 50])).collect();
    for cut in 1.. {
        let device = SimDevice::new(cut, Default::default());
        let database = Database::with_batches_of(engine(&device).unwrap(), TRANSACTION_BYTES);
        let connection = Connection::to(Arc::clone(database.as_ref().unwrap()));
        if !takes_layers {
            database.as_ref().unwrap().spill_to_entries();
        }
        connection.begin(true).unwrap();
        for (rowid, record) in &first {
            connection.cursor(FIRST_ROOT, None).unwrap().put_row(*rowid, record, 0).unwrap();
        }
        connection.commit(true, false).unwrap();
        device.cut_at_op(device.op_count() + cut);
        let wanted = write(&connection, &first, rowids);
        let is_cut = device.is_cut();
        let spills = connection.spills();
        if !is_cut {
            assert_eq!(Ok(&rows(&connection)), wanted.as_ref());
        }
        drop((connection, database));
        device.power_cut();
        let device = device.reopen();
        let connection = Connection::to(Database::on(engine(&device).unwrap()).unwrap());
        let found = rows(&connection);
        drop(connection);
        if found == first {
            before += 1;
        } else {
            // What the rows are if nothing fails.
            let mut rows: Rows = first.clone();
            (0..rowids).for_each(|rowid| drop(rows.insert(rowid, vec![1; 100])));
            (0..rowids / 4).for_each(|rowid| drop(rows.insert(4 * rowid, vec![4; 100])));
            assert_eq!(found, rows, "cut {cut}");
            after += 1;
        }
        // Nothing is left of what was put aside.
        assert_eq!(left(&device), 0, "cut {cut}");
        if !is_cut {
            assert!(spills >= 8, "{spills} spills");
            break;
        }
    }
    assert!(before > 10 && after > 0, "{before} before, {after} after");
}

/// Entries of transactions that have spilled.
fn left(device: &SimDevice) -> u64 {
    let ordered = engine(device).unwrap().as_ordered().unwrap();
    let range = silica_engine::KeyRange::new([0x20], [0x24]);
    let snapshot = Arc::clone(&ordered).snapshot().unwrap();
    snapshot.count(&range).unwrap()
}

fn open(path: &Path, options: &str) -> Sql {
    Sql::open(format!("file:{}?storage=silica{options}", path.display())).expect("opens")
}

fn one(sql: &mut Sql, text: &str) -> Value {
    sql.query(text, &[]).expect("a row")[0][0].clone()
}

#[test]
fn an_import_indexes_and_savepoints_go_beyond_the_memory() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("large.db");
    let rows = test_size(5_000, 20_000, 400_000);
    let mut sql = open(&path, "&memory_bytes=2MiB&transaction_bytes=64KiB");
    sql.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB)").expect("made");
    let counter = {
        let store = scratch.path().join("large.db-silica/store");
        Connection::open(&store, Options::default()).expect("shared")
    };
    assert!(counter.takes_layers(), "a database at a path has what its engine has");
    let mut last = 0;
    let mut spilled = |what: &str| {
        let spills = counter.spills();
        assert!(spills > last + 2, "{what} has spilled {} times", spills - last);
        last = spills;
    };
    sql.run("BEGIN").expect("begun");
    let mut prng = Prng::new(1);
    for n in 0..rows {
        let text = Value::Text(format!("text {}", prng.below(1 << 40)));
        let row = [Value::Integer(n as i64), text, Value::Blob(vec![n as u8; 60])];
        sql.query("INSERT INTO t VALUES (?, ?, ?)", &row).expect("inserted");
    }
    assert_eq!(one(&mut sql, "SELECT count(*) FROM t"), Value::Integer(rows as i64));
    assert_eq!(one(&mut sql, "SELECT b IS NULL FROM t WHERE a = 7"), Value::Integer(0));
    sql.run("COMMIT").expect("committed");
    spilled("the import");
    sql.run("CREATE UNIQUE INDEX i ON t (b, a)").expect("an index");
    spilled("the index");
    sql.run(
        "BEGIN; UPDATE t SET c = x'00' WHERE a % 2; SAVEPOINT s; DELETE FROM t WHERE a % 3 = 0;
         INSERT INTO t SELECT a + 1000000, b, c FROM t; DROP INDEX i; ROLLBACK TO s",
    )
    .expect("taken back");
    spilled("what was taken back");
    let odd = (rows / 2) as i64;
    let count = "SELECT count(*) FROM t INDEXED BY i WHERE length(c) = 1 AND b > ''";
    assert_eq!(one(&mut sql, count), Value::Integer(odd));
    sql.run("RELEASE s; COMMIT; VACUUM").expect("committed");
    let check = || Value::from("ok");
    assert_eq!(one(&mut sql, "PRAGMA integrity_check"), check());
    sql.run("BEGIN; DELETE FROM t; INSERT INTO t SELECT 1, 2, 3; ROLLBACK").expect("rolled back");
    drop((sql, counter));
    let mut sql = open(&path, "");
    assert_eq!(one(&mut sql, "PRAGMA integrity_check"), check());
    assert_eq!(one(&mut sql, count), Value::Integer(odd));
    assert_eq!(one(&mut sql, "SELECT count(*) FROM t"), Value::Integer(rows as i64));
}
