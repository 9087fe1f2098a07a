//! Statements a second on our storage and on SQLite's own, in turns: one build, one machine, one
//! durability, SQLite in WAL mode with a cache as large as our memory number.
//!
//! ```text
//! cargo run --release -p silica-sql --example statements -- \
//!     [rows=100000] [bytes=64] [memory=16777216] [rounds=3] [scans=5] [batches=25] [dir=PATH] \
//!     [only=NAME] [storage=silica]
//! ```

use silica_sql::sql::{Sql, Value};
use std::path::{Path, PathBuf};
use std::time::Instant;

type Any = Box<dyn std::error::Error>;

struct Sizes {
    rows: u64,
    bytes: usize,
    memory: u64,
    rounds: usize,
    scans: u64,
    batches: u64,
    /// What is measured beside the inserts; all if it is empty.
    only: String,
    storage: String,
    dir: PathBuf,
}

impl Sizes {
    fn from_args() -> Result<Self, Any> {
        let dir = std::env::temp_dir().join(format!("silica-statements-{}", std::process::id()));
        let mut sizes = Sizes {
            rows: 100_000,
            bytes: 64,
            memory: 16 << 20,
            rounds: 3,
            scans: 5,
            batches: 0,
            dir,
            only: String::new(),
            storage: String::new(),
        };
        for argument in std::env::args().skip(1) {
            match argument.split_once('=').ok_or("arguments are NAME=VALUE")? {
                ("rows", value) => sizes.rows = value.parse()?,
                ("bytes", value) => sizes.bytes = value.parse()?,
                ("memory", value) => sizes.memory = value.parse()?,
                ("rounds", value) => sizes.rounds = value.parse()?,
                ("scans", value) => sizes.scans = value.parse()?,
                ("batches", value) => sizes.batches = value.parse()?,
                ("only", value) => sizes.only = value.into(),
                ("storage", value) => sizes.storage = value.into(),
                ("dir", value) => sizes.dir = value.into(),
                (name, _) => return Err(format!("unknown argument '{name}'").into()),
            }
        }
        Ok(sizes)
    }
}

/// A number below `rows`, each once as `n` goes from 0 to `rows`.
fn scattered(n: u64, rows: u64) -> u64 {
    // Odd, and no factor of a number of rows that people choose.
    n.wrapping_mul(2_654_435_761) % rows
}

fn key(n: u64) -> Value {
    Value::Text(format!("user{n:012}"))
}

fn open(sizes: &Sizes, storage: &str, synchronous: &str) -> Result<Sql, Any> {
    let path = sizes.dir.join(format!("{storage}.db"));
    let memory = sizes.memory;
    let uri = format!("file:{}?storage={storage}&memory_bytes={memory}", path.display());
    let mut sql = Sql::open(uri)?;
    sql.query("PRAGMA journal_mode = WAL", &[])?;
    sql.run(&format!("PRAGMA cache_size = -{}", sizes.memory >> 10))?;
    sql.run(&format!("PRAGMA synchronous = {synchronous}"))?;
    Ok(sql)
}

/// Statements a second.
fn rate(count: u64, work: impl FnOnce() -> Result<(), Any>) -> Result<f64, Any> {
    let start = Instant::now();
    work()?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

const SELECT: &str = "SELECT v FROM t WHERE k = ?";

fn each(sql: &Sql, text: &str, count: u64, row: impl Fn(u64) -> Vec<Value>) -> Result<(), Any> {
    let mut statement = sql.prepare(text)?;
    for n in 0..count {
        statement.bind(&row(n))?;
        while statement.step()? {}
    }
    Ok(())
}

fn anew(sql: &Sql, rows: u64) -> Result<(), Any> {
    for n in 0..rows {
        let text = format!("SELECT v FROM t WHERE k = 'user{:012}'", scattered(n, rows));
        let mut statement = sql.prepare(&text)?;
        assert!(statement.step()?, "{text}");
    }
    Ok(())
}

fn scan(sql: &mut Sql, sizes: &Sizes) -> Result<(), Any> {
    for _ in 0..sizes.scans {
        let sum = sql.query("SELECT count(*), total(length(v)) FROM t", &[])?;
        assert_eq!(sum[0][0], Value::Integer(sizes.rows as i64));
    }
    Ok(())
}

/// The rows of one storage: name and statements a second.
fn measure(sizes: &Sizes, storage: &str) -> Result<Vec<(&'static str, f64)>, Any> {
    let rows = sizes.rows;
    let value = Value::Blob(vec![7; sizes.bytes]);
    let insert = "INSERT INTO t VALUES (?, ?)";
    let made = "CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID";
    let mut found = Vec::new();
    let fresh = || -> Result<Sql, Any> {
        std::fs::remove_dir_all(&sizes.dir).ok();
        std::fs::create_dir_all(&sizes.dir)?;
        let sql = open(sizes, storage, "NORMAL")?;
        sql.prepare(made)?.step()?;
        Ok(sql)
    };
    let sql = fresh()?;
    let row = |n| vec![key(n), value.clone()];
    found.push(("insert, ascending keys", rate(rows, || each(&sql, insert, rows, row))?));
    drop(sql);
    let mut sql = fresh()?;
    let row = |n| vec![key(scattered(n, rows)), value.clone()];
    found.push(("insert, random keys", rate(rows, || each(&sql, insert, rows, row))?));
    let wants = |name: &str| sizes.only.is_empty() || name.contains(&sizes.only);
    let row = |n| vec![key(scattered(n, rows))];
    if wants("select by key, prepared") {
        found.push(("select by key, prepared", rate(rows, || each(&sql, SELECT, rows, row))?));
    }
    if wants("select by key, prepared anew") {
        found.push(("select by key, prepared anew", rate(rows, || anew(&sql, rows))?));
    }
    if wants("update by key") {
        let update = "UPDATE t SET v = ? WHERE k = ?";
        // Another value: SQLite writes nothing where a row stays as it is.
        let other = Value::Blob(vec![8; sizes.bytes]);
        let row = |n| vec![other.clone(), key(scattered(n, rows))];
        found.push(("update by key", rate(rows, || each(&sql, update, rows, row))?));
    }
    if wants("rows of a scan") {
        found.push(("rows of a scan", rate(sizes.scans * rows, || scan(&mut sql, sizes))?));
    }
    if wants("delete by key") {
        let delete = "DELETE FROM t WHERE k = ?";
        found.push(("delete by key", rate(rows, || each(&sql, delete, rows, row))?));
    }
    sql.run("PRAGMA synchronous = FULL")?;
    let synced = (rows / 100).clamp(20, 500);
    if wants("insert, synced") {
        let row = |n| vec![key(2_000_000 + n), value.clone()];
        found.push(("insert, synced", rate(synced, || each(&sql, insert, synced, row))?));
    }
    if wants("rows of synced batches of 999") {
        let batches = if sizes.batches == 0 { synced / 20 } else { sizes.batches };
        let row = |n| vec![key(1_000_000 + n), value.clone()];
        found.push((
            "rows of synced batches of 999",
            rate(batches * 999, || {
                for batch in 0..batches {
                    sql.transaction(|sql| {
                        let row = |n| row(batch * 999 + n);
                        each(sql, insert, 999, row).map_err(|e| *e.downcast().expect("SQL's error"))
                    })?;
                }
                Ok(())
            })?,
        ));
    }
    Ok(found)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn peak(path: &Path) -> u64 {
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Any> {
    let sizes = Sizes::from_args()?;
    println!(
        "{} rows, values of {} bytes, {} KiB of memory, median of {} rounds; statements a second",
        sizes.rows,
        sizes.bytes,
        sizes.memory >> 10,
        sizes.rounds
    );
    let mut rounds = Vec::new();
    for _ in 0..sizes.rounds {
        if !sizes.storage.is_empty() {
            // For a profile.
            println!("{:?}", measure(&sizes, &sizes.storage)?);
            return Ok(());
        }
        rounds.push((measure(&sizes, "silica")?, measure(&sizes, "sqlite")?));
    }
    println!("{:32} {:>12} {:>12} {:>7}", "", "silica", "sqlite", "ratio");
    for at in 0..rounds[0].0.len() {
        let name = rounds[0].0[at].0;
        let ours = median(rounds.iter().map(|round| round.0[at].1).collect());
        let theirs = median(rounds.iter().map(|round| round.1[at].1).collect());
        let ratios = rounds.iter().map(|round| round.0[at].1 / round.1[at].1).collect();
        println!("{name:32} {ours:>12.0} {theirs:>12.0} {:>7.2}", median(ratios));
    }
    println!("{} MiB resident at most", peak(Path::new("/proc/self/status")) >> 10);
    std::fs::remove_dir_all(&sizes.dir).ok();
    Ok(())
}
