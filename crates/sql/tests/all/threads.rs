//! Connections of several threads: writers that take turns, readers that never wait for them.

use silica_sql::{Connection, Cursor, Database, FIRST_ROOT, Found, Session, code};
use silica_testkit::Reference;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROWS: i64 = 8;
const SUM: u64 = 8000;
/// The row that counts payments, as number 2 of the header does.
const PAID: i64 = ROWS;

fn read(cursor: &mut impl Cursor) -> u64 {
    u64::from_le_bytes(cursor.record().unwrap().try_into().unwrap())
}

/// Moves 1 from a row to another; false if somebody else was faster.
fn pay(connection: &Connection, from: i64, to: i64, reads_first: bool) -> bool {
    if reads_first {
        connection.begin(false).unwrap();
    }
    if let Err(failure) = connection.begin(true) {
        assert!([code::BUSY, code::BUSY_SNAPSHOT].contains(&failure.code), "{failure}");
        assert!(reads_first || failure.code == code::BUSY);
        connection.roll_back(false).unwrap();
        return false;
    }
    let mut cursor = connection.cursor(FIRST_ROOT, None).unwrap();
    let mut change = |rowid: i64, by: u64| {
        assert_eq!(cursor.seek_row(rowid), Ok(Found::Here));
        let value = read(&mut cursor).wrapping_add(by);
        cursor.put_row(rowid, &value.to_le_bytes(), 0).unwrap();
    };
    change(from, u64::MAX);
    change(to, 1);
    change(PAID, 1);
    connection.set_meta(2, connection.meta(2).unwrap() + 1).unwrap();
    connection.commit(from == 3, false).unwrap();
    true
}

fn fill(connection: &Connection) {
    connection.begin(true).unwrap();
    let mut cursor = connection.cursor(FIRST_ROOT, None).unwrap();
    for rowid in 0..ROWS {
        cursor.put_row(rowid, &(SUM / ROWS as u64).to_le_bytes(), 0).unwrap();
    }
    cursor.put_row(PAID, &[0; 8], 0).unwrap();
    connection.commit(true, false).unwrap();
}

/// What all rows have together, by steps or by seeks.
fn sum(connection: &Connection, steps: bool) -> u64 {
    connection.begin(false).unwrap();
    let mut cursor = connection.cursor(FIRST_ROOT, None).unwrap();
    let mut sum = 0;
    if steps {
        let mut is_there = cursor.first().unwrap();
        while is_there {
            sum += if cursor.rowid() == Ok(PAID) { 0 } else { read(&mut cursor) };
            is_there = cursor.next().unwrap();
        }
    } else {
        for rowid in 0..ROWS {
            assert_eq!(cursor.seek_row(rowid), Ok(Found::Here));
            sum += read(&mut cursor);
        }
    }
    assert_eq!(cursor.seek_row(PAID), Ok(Found::Here));
    let paid = u64::from(connection.meta(2).unwrap());
    assert_eq!(read(&mut cursor), paid, "header and rows are of one moment");
    drop(cursor);
    connection.commit(false, false).unwrap();
    sum
}

fn run(database: &Arc<Database>) {
    let connect = || Connection::to(Arc::clone(database));
    fill(&connect());
    let (is_over, paid) = (AtomicBool::new(false), AtomicU64::new(0));
    let wanted = silica_base::test_size(2_000, 20_000, 1_000_000);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (is_over, paid) = (&is_over, &paid);
            scope.spawn(move || {
                let connection = connect();
                let mut number = writer;
                while paid.load(Ordering::Relaxed) < wanted {
                    number += 1;
                    let is_paid = pay(&connection, number % ROWS, (number + 3) % ROWS, writer == 1);
                    paid.fetch_add(u64::from(is_paid), Ordering::Relaxed);
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
        for reader in 0..2 {
            let is_over = &is_over;
            scope.spawn(move || {
                let connection = connect();
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(sum(&connection, reader == 0), SUM);
                }
            });
        }
    });
    assert_eq!(sum(&connect(), true), SUM);
}

#[test]
fn readers_see_whole_transactions_while_writers_take_turns() {
    run(&Database::on(Arc::new(Reference::new())).unwrap());
}

#[test]
fn readers_see_whole_transactions_while_writers_take_turns_on_a_store() {
    let device = silica_device::sim::SimDevice::new(1, Default::default());
    run(&Database::on(super::crash::engine(&device).unwrap()).unwrap());
}

#[test]
fn a_reader_does_not_wait_for_a_transaction_that_writes() {
    let database = Database::on(Arc::new(Reference::new())).unwrap();
    let connect = || Connection::to(Arc::clone(&database));
    let writer = connect();
    fill(&writer);
    writer.begin(true).unwrap();
    writer.cursor(FIRST_ROOT, None).unwrap().put_row(0, &[0; 8], 0).unwrap();
    assert_eq!(sum(&connect(), true), SUM);
    assert_eq!(connect().begin(true).unwrap_err().code, code::BUSY);
    drop(writer);
    connect().begin(true).unwrap();
    assert_eq!(sum(&connect(), true), SUM);
}
