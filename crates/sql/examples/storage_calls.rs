//! What the calls below SQL cost, in nanoseconds, on a store in a directory: those that SQLite
//! makes for an insert that commits by itself, for a read of one row, for steps of a scan.
//!
//! ```text
//! cargo run --release -p silica-sql --example storage_calls [ROWS] [DIRECTORY] [OPTIONS]
//! ```

use silica_sql::encoding::{Column, Field};
use silica_sql::{Connection, Cursor, FIRST_ROOT, Found, Options, Result, Session};
use std::path::PathBuf;
use std::time::Instant;

const RECORD: &[u8] = &[7; 100];

fn timed(what: &str, count: u64, mut call: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let start = Instant::now();
    (0..count).try_for_each(&mut call)?;
    let each = start.elapsed().as_nanos() as f64 / count as f64;
    println!("{what:<44} {each:>8.0} ns");
    Ok(())
}

fn scattered(n: u64, rows: u64) -> i64 {
    (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % rows) as i64
}

fn transact(connection: &Connection, work: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
    connection.begin(false)?;
    connection.begin(true)?;
    work(connection)?;
    connection.commit(false, false)
}

fn writes(connection: &Connection, rows: u64) -> Result<()> {
    timed("insert that commits", rows, |n| {
        transact(connection, |connection| {
            let mut cursor = connection.cursor(FIRST_ROOT, None)?;
            assert_eq!(cursor.seek_row(n as i64)?, Found::Before);
            cursor.put_row(n as i64, RECORD, 0)
        })
    })?;
    timed("insert behind the last row that commits", rows / 10, |n| {
        transact(connection, |connection| {
            let mut cursor = connection.cursor(FIRST_ROOT, None)?;
            assert!(cursor.last()? && cursor.rowid()? == (rows + n) as i64 - 1);
            cursor.put_row((rows + n) as i64, RECORD, 0)
        })
    })?;
    timed("update that commits", rows / 10, |n| {
        transact(connection, |connection| {
            let mut cursor = connection.cursor(FIRST_ROOT, None)?;
            let rowid = scattered(n, rows);
            assert_eq!(cursor.seek_row(rowid)?, Found::Here);
            cursor.put_row(rowid, RECORD, 0)
        })
    })?;
    connection.begin(true)?;
    let root = connection.create_tree(true)?;
    let index = connection.create_tree(false)?;
    let mut cursor = connection.cursor(root, None)?;
    let columns = [Column::default(); 2];
    let mut keys = connection.cursor(index, Some(&columns))?;
    let count = rows / 4;
    timed("insert of many in a transaction", count, |n| {
        assert_eq!(cursor.seek_row(n as i64)?, Found::Before);
        cursor.put_row(n as i64, RECORD, 0)
    })?;
    timed("  and of an index entry", count, |n| {
        let text = format!("name {}", scattered(n, rows));
        keys.put_key(&[Field::Text(text.as_bytes()), Field::Integer(n as i64)], &RECORD[..20])
    })?;
    drop((cursor, keys));
    timed("  and their commit", 1, |_| connection.commit(false, false))
}

fn reads(connection: &Connection, rows: u64) -> Result<()> {
    timed("read of a row, beginning and end", rows, |n| {
        connection.begin(false)?;
        let mut cursor = connection.cursor(FIRST_ROOT, None)?;
        assert_eq!(cursor.seek_row(scattered(n, rows))?, Found::Here);
        assert_eq!(cursor.record()?.len(), RECORD.len());
        drop(cursor);
        connection.commit(false, false)
    })?;
    connection.begin(false)?;
    let mut cursor = connection.cursor(FIRST_ROOT, None)?;
    timed("read of a row", rows, |n| {
        assert_eq!(cursor.seek_row(scattered(n, rows))?, Found::Here);
        cursor.record().map(drop)
    })?;
    timed("first entry of an open cursor", rows / 10, |_| cursor.first().map(drop))?;
    cursor.first()?;
    timed("step on", rows - 1, |_| {
        cursor.record()?;
        assert!(cursor.next()?);
        Ok(())
    })?;
    cursor.last()?;
    timed("step back", rows - 1, |_| {
        cursor.record()?;
        assert!(cursor.previous()?);
        Ok(())
    })?;
    timed("count, of each row", 1, |_| cursor.count().map(|count| assert!(count >= rows)))?;
    connection.commit(false, false)?;
    timed("seek, 10 steps, beginning and end", rows / 10, |n| {
        connection.begin(false)?;
        let mut cursor = connection.cursor(FIRST_ROOT, None)?;
        cursor.seek_row(scattered(n, rows) / 2)?;
        for _ in 0..10 {
            cursor.next()?;
            cursor.record()?;
        }
        drop(cursor);
        connection.commit(false, false)
    })?;
    let columns = [Column::default(); 2];
    timed("seek by an index, beginning and end", rows / 10, |n| {
        connection.begin(false)?;
        let mut cursor = connection.cursor(3, Some(&columns))?;
        let text = format!("name {}", scattered(n, rows));
        cursor.seek_key(&[Field::Text(text.as_bytes())], silica_sql::Equal::Behind)?;
        if cursor.next()? {
            cursor.record()?;
        }
        drop(cursor);
        connection.commit(false, false)
    })
}

/// Reads of a range and writes by turns: each read is of another commit.
fn by_turns(connection: &Connection, rows: u64) -> Result<()> {
    timed("update, then a read of 10 rows, each of its own", rows / 10, |n| {
        transact(connection, |connection| {
            let mut cursor = connection.cursor(FIRST_ROOT, None)?;
            cursor.put_row(scattered(n, rows), RECORD, 0)
        })?;
        connection.begin(false)?;
        let mut cursor = connection.cursor(FIRST_ROOT, None)?;
        cursor.seek_row(scattered(n + 1, rows) / 2)?;
        for _ in 0..10 {
            cursor.next()?;
            cursor.record()?;
        }
        drop(cursor);
        connection.commit(false, false)
    })
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().map_or(200_000, |text| text.parse().expect("a number of rows"));
    let given = arguments.next().map(PathBuf::from);
    let directory = given.unwrap_or_else(|| std::env::temp_dir().join("silica-sql-calls"));
    let _ = std::fs::remove_dir_all(&directory);
    let mut options = Options::default();
    arguments.next().map_or(Ok(()), |text| options.read(&text))?;
    let connection = Connection::open(&directory, options)?;
    writes(&connection, rows)?;
    reads(&connection, rows)?;
    by_turns(&connection, rows)?;
    drop(connection);
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}
