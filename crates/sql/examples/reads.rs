//! Instructions that reads take, on our storage and on SQLite's own: `reads.sh` beside this runs it
//! under callgrind, which counts calls of [`measured`].
//!
//! ```text
//! reads fill DIR STORAGE ROWS STATE    # STATE is `log`, or `tables` after VACUUM
//! reads read DIR STORAGE ROWS [ONLY]   # each once before it is measured
//! reads names DIR STORAGE ROWS         # of all reads
//! ```

use silica_sql::sql::{Sql, Value, ValueRef};
use std::time::Instant;

type Any = Box<dyn std::error::Error>;

/// A read: its name, the statement, how often it runs in `rows` rows, and rows that each run reads.
struct Read {
    name: &'static str,
    text: &'static str,
    runs: i64,
    rows: i64,
    /// What its first argument goes up to.
    to: i64,
}

/// Rows of a range.
const RANGE: i64 = 100;

fn reads(rows: i64) -> Vec<Read> {
    let read = |name, text, runs, rows, to| Read { name, text, runs, rows, to };
    let ranges = rows / RANGE / 5;
    vec![
        read("scan", "SELECT sum(n) FROM t", 1, rows, 1),
        read("scan-last-column", "SELECT sum(length(name)) FROM t", 1, rows, 1),
        read("scan-back", "SELECT sum(n) FROM (SELECT n FROM t ORDER BY id DESC)", 1, rows, 1),
        read("count", "SELECT count(*) FROM t", 1, rows, 1),
        read(
            "rowid-range",
            "SELECT sum(n) FROM t WHERE id BETWEEN ?1 AND ?1 + 99",
            ranges,
            RANGE,
            rows - RANGE,
        ),
        read(
            "index-range",
            "SELECT sum(length(name)) FROM t WHERE n BETWEEN ?1 AND ?1 + 99",
            ranges,
            RANGE,
            rows - RANGE,
        ),
        read(
            "near-index-range",
            "SELECT sum(length(name)) FROM t WHERE near BETWEEN ?1 AND ?1 + 99",
            ranges,
            RANGE,
            rows - RANGE,
        ),
        read(
            "index-only",
            "SELECT sum(n) FROM t WHERE n BETWEEN ?1 AND ?1 + 99",
            ranges,
            RANGE,
            rows - RANGE,
        ),
        read(
            "join-by-rowid",
            "SELECT sum(length(t.name)) FROM u CROSS JOIN t ON t.id = u.t",
            1,
            rows / 4,
            1,
        ),
        read(
            "join-in-order",
            "SELECT sum(length(t.name)) FROM u CROSS JOIN t ON t.id = u.id",
            1,
            rows / 4,
            1,
        ),
        read("select-by-rowid", "SELECT name FROM t WHERE id = ?1", rows / 10, 1, rows),
        read("select-by-index", "SELECT name FROM t WHERE n = ?1", rows / 10, 1, rows),
    ]
}

/// A number below `rows`, each once as `n` goes from 0 to `rows`.
fn scattered(n: i64, rows: i64) -> i64 {
    ((n as u64).wrapping_mul(2_654_435_761) % rows as u64) as i64
}

fn open(dir: &str, storage: &str) -> Result<Sql, Any> {
    let uri =
        format!("file:{dir}/{storage}.db?storage={storage}&memory_bytes=16777216&results_bytes=0");
    let mut sql = Sql::open(uri)?;
    sql.query("PRAGMA journal_mode = WAL", &[])?;
    sql.run("PRAGMA cache_size = -16384; PRAGMA synchronous = NORMAL")?;
    Ok(sql)
}

fn fill(sql: &mut Sql, rows: i64) -> Result<(), Any> {
    sql.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, near INTEGER, name TEXT);
         CREATE TABLE u (id INTEGER PRIMARY KEY, t INTEGER);
         CREATE INDEX t_n ON t (n);
         CREATE INDEX t_near ON t (near)",
    )?;
    for from in (0..rows).step_by(1000) {
        sql.run("BEGIN")?;
        let mut insert = sql.prepare("INSERT INTO t VALUES (?, ?, ?, ?)")?;
        for id in from..rows.min(from + 1000) {
            // Near rows are near in the index, and not in order.
            let (n, near) = (scattered(id, rows), id ^ 7);
            let name = Value::Text(format!("a name of a row with the number {n:012}"));
            insert.bind(&[Value::Integer(id), Value::Integer(n), Value::Integer(near), name])?;
            insert.step()?;
        }
        drop(insert);
        let mut insert = sql.prepare("INSERT INTO u VALUES (?, ?)")?;
        for id in (from..rows.min(from + 1000)).filter(|id| id % 4 == 0) {
            insert.bind(&[Value::Integer(id), Value::Integer(scattered(id, rows))])?;
            insert.step()?;
        }
        drop(insert);
        sql.run("COMMIT")?;
    }
    Ok(())
}

/// What is counted: the second time of each read.
#[inline(never)]
fn measured(sql: &Sql, read: &Read) -> Result<i64, Any> {
    let (mut sum, mut statement) = (0, sql.prepare(read.text)?);
    for run in 0..read.runs {
        if read.to > 1 {
            statement.bind(&[Value::Integer(scattered(run, read.to))])?;
        }
        while statement.step()? {
            sum += match statement.value(0) {
                ValueRef::Integer(value) => value,
                ValueRef::Text(text) => text.len() as i64,
                _ => 0,
            };
        }
    }
    Ok(sum)
}

/// Another function than [`measured`], which does the same.
fn warm_up(sql: &mut Sql, read: &Read) -> Result<(), Any> {
    for run in 0..read.runs {
        let to = [Value::Integer(scattered(run, read.to.max(2)))];
        sql.query(read.text, if read.to > 1 { &to } else { &[] })?;
    }
    Ok(())
}

fn main() -> Result<(), Any> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, dir, storage, rows, rest @ ..] = &arguments[..] else {
        return Err("reads fill|read|names DIR STORAGE ROWS [STATE|ONLY]".into());
    };
    let (rows, rest) = (rows.parse()?, rest.first().map_or("", String::as_str));
    if what == "names" {
        reads(rows).iter().for_each(|read| println!("{}", read.name));
        return Ok(());
    }
    let mut sql = open(dir, storage)?;
    if what == "fill" {
        fill(&mut sql, rows)?;
        if rest == "tables" {
            sql.run("VACUUM")?;
        }
        return Ok(());
    }
    for read in reads(rows).iter().filter(|read| rest.is_empty() || rest == read.name) {
        warm_up(&mut sql, read)?;
        let start = Instant::now();
        let sum = measured(&sql, read)?;
        let ns = start.elapsed().as_nanos() as i64;
        println!("{} {} {} {sum}", read.name, read.runs * read.rows, ns / (read.runs * read.rows));
    }
    Ok(())
}
