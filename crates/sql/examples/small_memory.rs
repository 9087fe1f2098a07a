//! What a database takes of memory that is many times larger than its memory number:
//! `cargo run --release -p silica-sql --example small_memory -- DIR mib=1000 memory=2MiB`.
//! Rows of 1 KB with an index by random text; VmRSS and its peak of each phase, and its speed. A
//! database that is there is not filled again. `storage=sqlite` is SQLite's own, `batch=200000`
//! puts so many rows into one transaction.

use silica_sql::sql::{Result, Sql, Value};
use std::path::PathBuf;
use std::time::Instant;

/// A number of `/proc/self/status`, in KiB.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

fn phase(name: &str, count: i64, run: impl FnOnce() -> Result<()>) -> Result<()> {
    // The peak begins anew.
    std::fs::write("/proc/self/clear_refs", "5").ok();
    let start = Instant::now();
    run()?;
    let a_second = count as f64 / start.elapsed().as_secs_f64();
    let [peak, rss, own] = ["VmHWM", "VmRSS", "RssAnon"].map(|name| status(name) as f64 / 1024.0);
    println!(
        "{name:24} {a_second:10.0}/s  peak {peak:6.1}  RSS {rss:6.1}  anonymous {own:6.1} MiB"
    );
    Ok(())
}

/// Text that has nothing to do with the order of the rows.
fn text_of(row: i64) -> String {
    format!("k{:016x}", (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Inserts rows behind `from`, up to `rows`, `batch` in a transaction.
fn fill(sql: &mut Sql, from: i64, rows: i64, batch: i64) -> Result<()> {
    for first in (from + 1..=rows).step_by(batch as usize) {
        sql.run("BEGIN")?;
        {
            let mut insert = sql.prepare("INSERT INTO t VALUES (?, ?, randomblob(1000))")?;
            for row in first..=(first + batch - 1).min(rows) {
                insert.bind(&[row.into(), text_of(row).into()])?;
                while insert.step()? {}
                insert.reset();
            }
        }
        sql.run("COMMIT")?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("DIR comes first"));
    let (mut mib, mut memory, mut storage) = (100, "2MiB".to_string(), "silica".to_string());
    let mut batch = 1000;
    for argument in arguments {
        match argument.split_once('=').expect("NAME=VALUE") {
            ("mib", value) => mib = value.parse().expect("a number"),
            ("memory", value) => memory = value.into(),
            ("storage", value) => storage = value.into(),
            ("batch", value) => batch = value.parse().expect("a number"),
            (name, _) => panic!("no argument {name}; there are mib, memory, storage and batch"),
        }
    }
    let rows = mib * 1000;
    let path = directory.join(format!("{storage}.db"));
    let uri = format!("file:{}?storage={storage}&memory_bytes={memory}", path.display());
    phase("before", 0, || Ok(()))?;
    let mut sql = Sql::open(uri)?;
    sql.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")?;
    sql.run("CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, k TEXT, v BLOB)")?;
    sql.run("CREATE INDEX IF NOT EXISTS i ON t (k)")?;
    phase("opened", 0, || Ok(()))?;
    let Value::Integer(there) = sql.query("SELECT coalesce(max(a), 0) FROM t", &[])?[0][0] else {
        panic!("a number")
    };
    phase("inserts", rows - there, || fill(&mut sql, there, rows, batch))?;
    let mut next = 7_u64;
    let mut random = || {
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (next >> 33) as i64 % rows + 1
    };
    let one = |sql: &mut Sql, text: &str, value: Value| {
        sql.query(text, &[value]).map(|found| assert_eq!(found.len(), 1))
    };
    phase("gets by rowid", 20_000, || {
        (0..20_000).try_for_each(|_| one(&mut sql, "SELECT v FROM t WHERE a = ?", random().into()))
    })?;
    phase("gets by index", 20_000, || {
        (0..20_000).try_for_each(|_| {
            one(&mut sql, "SELECT v FROM t WHERE k = ?", text_of(random()).into())
        })
    })?;
    phase("rows of a scan", rows, || {
        let sum = sql.query("SELECT sum(length(v)) FROM t", &[])?;
        assert_eq!(sum, [[Value::from(1000 * rows)]]);
        Ok(())
    })?;
    phase("updates", 5_000, || {
        (0..5_000).try_for_each(|_| {
            let update = "UPDATE t SET v = randomblob(1000) WHERE a = ?";
            sql.execute(update, &[random().into()]).map(drop)
        })
    })?;
    phase("rows of a new index", rows, || sql.run("CREATE INDEX j ON t (k, a); DROP INDEX j"))?;
    phase("rows of an update", rows, || sql.run("UPDATE t SET v = zeroblob(900)"))?;
    phase("rows of a vacuum", rows, || sql.run("VACUUM"))?;
    phase("closed", 0, || {
        drop(sql);
        Ok(())
    })
}
