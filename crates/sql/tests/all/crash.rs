//! Power cuts, and devices that fail.

use silica_base::{HashSeed, Prng};
use silica_device::sim::{FaultKind, SimDevice};
use silica_engine::{Budget, Engine, Environment, OptionValues, Result};
use silica_sql::{Connection, Cursor, Database, FIRST_ROOT, Session, code};
use silica_wip::{OPTIONS, Wip};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An engine on a simulated device, with so little memory that it flushes.
pub(crate) fn engine(device: &SimDevice) -> Result<Arc<dyn Engine>> {
    let options = OptionValues::parse(OPTIONS, [("memory_bytes", "256KiB")])?;
    let environment = Environment::new(HashSeed([1; 16]));
    Ok(Arc::new(Wip::open(device.clone(), &options, &environment)?))
}

type Rows = BTreeMap<i64, Vec<u8>>;

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

/// One transaction, and what the rows are after it.
fn transact(connection: &Connection, prng: &mut Prng, rows: &Rows, is_synced: bool) -> Attempt {
    let mut rows = rows.clone();
    let committed = (|| {
        connection.begin(true)?;
        let mut cursor = connection.cursor(FIRST_ROOT, None)?;
        for _ in 0..1 + prng.below(20) {
            let rowid = prng.below(50) as i64;
            if prng.one_in(3) {
                if cursor.seek_row(rowid)? == silica_sql::Found::Here {
                    cursor.delete()?;
                }
                rows.remove(&rowid);
            } else {
                let mut record = vec![0; prng.below(2_000) as usize];
                prng.fill(&mut record);
                cursor.put_row(rowid, &record, 0)?;
                rows.insert(rowid, record);
            }
        }
        if prng.one_in(20) {
            connection.clear_tree(FIRST_ROOT, false)?;
            rows.clear();
        }
        connection.set_meta(3, rows.len() as u32)?;
        connection.commit(is_synced, false)
    })();
    Attempt { rows, failed: committed.err().map(|failure| failure.code) }
}

struct Attempt {
    rows: Rows,
    failed: Option<i32>,
}

#[test]
fn after_a_power_cut_there_are_whole_transactions_and_all_that_were_synced() {
    let mut prng = Prng::new(5);
    let mut device = SimDevice::new(5, Default::default());
    let mut last = Rows::new();
    for _ in 0..silica_base::test_size(60, 600, 20_000) {
        device.cut_at_op(u64::MAX);
        // What may be there after the cut: the last synced state and every later one.
        let mut states = vec![last.clone()];
        let engine = engine(&device).unwrap();
        // Many commits are of several pieces, or none is.
        let batch_bytes_max = if prng.one_in(2) { 3_000 } else { 64 << 20 };
        let database = Database::with_batches_of(Arc::clone(&engine), batch_bytes_max).unwrap();
        if prng.one_in(2) {
            database.spill_to_entries();
        }
        let connection = Connection::to(database);
        assert_eq!(rows(&connection), last);
        device.cut_at_op(device.op_count() + prng.below(60));
        while !device.is_cut() {
            let is_synced = prng.one_in(4);
            let before = states.last().expect("one is there").clone();
            let attempt = transact(&connection, &mut prng, &before, is_synced);
            // What writes nothing syncs nothing.
            if attempt.failed.is_none() && is_synced && attempt.rows != before {
                states.clear();
            }
            states.push(attempt.rows);
            if attempt.failed.is_some() {
                break;
            }
            if prng.one_in(5) && engine.maintain(Budget::of(1 << 20)).is_err() {
                break;
            }
        }
        drop((connection, engine));
        device.power_cut();
        device = device.reopen();
        last = {
            while prng.one_in(3) {
                // While it recovers, too.
                device.cut_at_op(device.op_count() + prng.below(20));
                drop(self::engine(&device).map(Database::on));
                device.power_cut();
                device = device.reopen();
            }
            device.cut_at_op(u64::MAX);
            let database = Database::on(self::engine(&device).unwrap()).unwrap();
            let connection = Connection::to(database);
            let found = rows(&connection);
            connection.begin(false).unwrap();
            assert!(states.contains(&found), "neither before nor after a transaction");
            let count = connection.meta(3).unwrap() as usize;
            assert_eq!(count, found.len(), "the header is of the same transaction");
            found
        };
    }
}

#[test]
fn a_large_commit_that_fails_is_whole_when_the_database_is_opened_again() {
    let (mut before, mut amid) = (0, 0);
    for fault in 1..60 {
        let device = SimDevice::new(fault, Default::default());
        let engine = engine(&device).unwrap();
        let database = Database::with_batches_of(Arc::clone(&engine), 3_000).unwrap();
        database.spill_to_entries();
        let connection = Connection::to(Arc::clone(&database));
        let mut prng = Prng::new(fault);
        let first = transact(&connection, &mut prng, &Rows::new(), true).rows;
        device.fail_at(FaultKind::Eio, fault);
        let attempt = transact(&connection, &mut prng, &first, false);
        device.clear_faults();
        let other = Connection::to(database);
        let Some(failed) = attempt.failed else {
            assert_eq!(rows(&other), attempt.rows);
            continue;
        };
        assert_eq!(rows(&other), first, "readers see nothing of it");
        connection.roll_back(false).unwrap();
        let is_stuck = match other.begin(true) {
            Ok(()) => false,
            Err(failure) => failure.words.contains("open the database again"),
        };
        drop((other, connection, engine));
        let connection = Connection::to(Database::on(self::engine(&device).unwrap()).unwrap());
        let found = rows(&connection);
        assert_eq!(&found, if is_stuck { &attempt.rows } else { &first }, "{fault}");
        assert_eq!(failed, code::IOERR);
        before += usize::from(!is_stuck);
        amid += usize::from(is_stuck);
    }
    assert!(before > 0 && amid > 0, "{before} {amid}");
}

#[test]
fn a_large_commit_of_layers_that_fails_is_there_or_not_and_nobody_has_to_finish_it() {
    let (mut before, mut after) = (0, 0);
    for fault in 1..60 {
        let device = SimDevice::new(fault, Default::default());
        let engine = engine(&device).unwrap();
        let database = Database::with_batches_of(Arc::clone(&engine), 3_000).unwrap();
        let connection = Connection::to(Arc::clone(&database));
        let mut prng = Prng::new(fault);
        let first = transact(&connection, &mut prng, &Rows::new(), true).rows;
        device.fail_at(FaultKind::Eio, fault);
        let attempt = transact(&connection, &mut prng, &first, false);
        device.clear_faults();
        let other = Connection::to(database);
        let is_there = attempt.failed.is_none();
        assert_eq!(&rows(&other), if is_there { &attempt.rows } else { &first });
        drop((other, connection, engine));
        let connection = Connection::to(Database::on(self::engine(&device).unwrap()).unwrap());
        let found = rows(&connection);
        assert!(found == first && !is_there || found == attempt.rows, "{fault}");
        before += usize::from(!is_there);
        after += usize::from(is_there);
    }
    assert!(before > 0 && after > 0, "{before} {after}");
}

#[test]
fn a_failed_sync_is_said_and_nothing_is_accepted_after_it() {
    let device = SimDevice::new(1, Default::default());
    let connection = Connection::to(Database::on(engine(&device).unwrap()).unwrap());
    let mut prng = Prng::new(1);
    let synced = transact(&connection, &mut prng, &Rows::new(), true);
    assert_eq!(synced.failed, None);
    device.fail_from(FaultKind::FailedSync, 1);
    let failed = transact(&connection, &mut prng, &synced.rows, true);
    assert_eq!(failed.failed, Some(code::IOERR_FSYNC));
    device.clear_faults();
    connection.roll_back(false).unwrap();
    let later = transact(&connection, &mut prng, &synced.rows, false);
    assert_eq!(later.failed, Some(code::IOERR_FSYNC), "poisoned");
    // Nobody has the turn for ever.
    connection.roll_back(false).unwrap();
    connection.begin(true).unwrap();
}

#[test]
fn a_full_device_refuses_the_commit_and_keeps_the_transaction() {
    let device = SimDevice::new(1, Default::default());
    let connection = Connection::to(Database::on(engine(&device).unwrap()).unwrap());
    device.set_capacity(1 << 20);
    let record = vec![7; 1 << 20];
    let put = |rowid: i64| -> silica_sql::Result<()> {
        connection.begin(true)?;
        connection.cursor(FIRST_ROOT, None)?.put_row(rowid, &record, 0)?;
        connection.commit(false, false)
    };
    let mut rowid = 0;
    let failure = loop {
        rowid += 1;
        assert!(rowid < 1000, "the device is full at last");
        if let Err(failure) = put(rowid) {
            break failure;
        }
    };
    assert_eq!(failure.code, code::FULL, "{failure}");
    let mut cursor = connection.cursor(FIRST_ROOT, None).unwrap();
    assert_eq!(cursor.seek_row(rowid), Ok(silica_sql::Found::Here), "it goes on");
    connection.roll_back(true).unwrap();
    assert_eq!(cursor.restore(), Ok(false));
}
