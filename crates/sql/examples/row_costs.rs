//! Instructions a row of statements that write many rows, on our storage and on SQLite's own, as
//! callgrind counts them: all threads, so the engine's work in the background is in them.
//!
//! ```text
//! CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
//!     cargo run --release -p silica-sql --example row_costs -- \
//!     [rows=20000] [memory=16777216] [only=NAME] [times=1]
//! ```
//!
//! Each kind of work runs twice, with what it needs alone and with the work, and the difference
//! counts. With `times=1` it is processor time instead of instructions, for machines without
//! valgrind. `cell=NAME storage=silica stop=work` is one run, for a profile.

use silica_sql::sql::{Sql, Value};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

type Any = Box<dyn std::error::Error>;

struct Sizes {
    rows: u64,
    memory: u64,
    only: String,
    times: bool,
    cell: String,
    storage: String,
    stops_early: bool,
}

impl Sizes {
    fn from_args() -> Result<Self, Any> {
        let mut sizes = Sizes {
            rows: 20_000,
            memory: 16 << 20,
            only: String::new(),
            times: false,
            cell: String::new(),
            storage: String::new(),
            stops_early: false,
        };
        for argument in std::env::args().skip(1) {
            match argument.split_once('=').ok_or("arguments are NAME=VALUE")? {
                ("rows", value) => sizes.rows = value.parse()?,
                ("memory", value) => sizes.memory = value.parse()?,
                ("only", value) => sizes.only = value.into(),
                ("times", value) => sizes.times = value == "1",
                ("cell", value) => sizes.cell = value.into(),
                ("storage", value) => sizes.storage = value.into(),
                ("stop", value) => sizes.stops_early = value == "setup",
                (name, _) => return Err(format!("unknown argument '{name}'").into()),
            }
        }
        Ok(sizes)
    }
}

/// A kind of work: its name, what it needs, and the work.
type Cell =
    (&'static str, fn(&mut Sql, u64) -> Result<(), Any>, fn(&mut Sql, u64) -> Result<(), Any>);

const CELLS: [Cell; 9] = [
    ("insert, ascending rowids", empty, ascending),
    ("insert, random keys", empty, random),
    ("insert, random keys of text", empty_text, random_text),
    ("update of a column without index", filled, update_plain),
    ("update with three indexes", indexed, update_indexed),
    ("delete of all rows, one by one", indexed, delete_indexed),
    ("create index", filled, create_index),
    ("insert from select, in order", filled, copy),
    ("vacuum", filled, vacuum),
];

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c TEXT, d TEXT)";
const INSERT: &str = "INSERT INTO t VALUES (?, ?, ?, ?, ?)";

/// A number below `rows`, each once as `n` goes from 0 to `rows`.
fn scattered(n: u64, rows: u64) -> u64 {
    // Odd, and no factor of a number of rows that people choose.
    n.wrapping_mul(2_654_435_761) % rows
}

fn empty(sql: &mut Sql, _: u64) -> Result<(), Any> {
    Ok(sql.run(TABLE)?)
}

fn empty_text(sql: &mut Sql, _: u64) -> Result<(), Any> {
    Ok(sql.run("CREATE TABLE k (k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")?)
}

fn fill(sql: &mut Sql, rows: u64, id: impl Fn(u64) -> u64) -> Result<(), Any> {
    sql.run("BEGIN")?;
    {
        let mut insert = sql.prepare(INSERT)?;
        for n in 0..rows {
            insert.bind(&[
                Value::Integer(id(n) as i64 + 1),
                Value::Integer(scattered(n, rows) as i64),
                Value::Integer((n % 1000) as i64),
                Value::Text(format!("name {:08}", scattered(n, rows))),
                Value::Text("twenty bytes of text".into()),
            ])?;
            while insert.step()? {}
        }
    }
    Ok(sql.run("COMMIT")?)
}

fn ascending(sql: &mut Sql, rows: u64) -> Result<(), Any> {
    fill(sql, rows, |n| n)
}

fn random(sql: &mut Sql, rows: u64) -> Result<(), Any> {
    fill(sql, rows, |n| scattered(n, rows))
}

fn random_text(sql: &mut Sql, rows: u64) -> Result<(), Any> {
    sql.run("BEGIN")?;
    {
        let mut insert = sql.prepare("INSERT INTO k VALUES (?, ?)")?;
        for n in 0..rows {
            let key = Value::Text(format!("user{:012}", scattered(n, rows)));
            insert.bind(&[key, Value::Text("thirty bytes of text, or so ..".into())])?;
            while insert.step()? {}
        }
    }
    Ok(sql.run("COMMIT")?)
}

fn filled(sql: &mut Sql, rows: u64) -> Result<(), Any> {
    empty(sql, rows)?;
    ascending(sql, rows)
}

fn indexed(sql: &mut Sql, rows: u64) -> Result<(), Any> {
    filled(sql, rows)?;
    sql.run("CREATE INDEX ta ON t (a)")?;
    sql.run("CREATE INDEX tb ON t (b)")?;
    Ok(sql.run("CREATE INDEX tc ON t (c)")?)
}

fn update_plain(sql: &mut Sql, _: u64) -> Result<(), Any> {
    Ok(sql.run("UPDATE t SET d = 'other bytes of a text'")?)
}

fn update_indexed(sql: &mut Sql, _: u64) -> Result<(), Any> {
    Ok(sql.run("UPDATE t SET a = a + 1, b = b + 1, c = c || 'x'")?)
}

fn delete_indexed(sql: &mut Sql, _: u64) -> Result<(), Any> {
    // With a condition: else the trees are cleared.
    Ok(sql.run("DELETE FROM t WHERE a >= 0")?)
}

fn create_index(sql: &mut Sql, _: u64) -> Result<(), Any> {
    Ok(sql.run("CREATE INDEX tc ON t (c)")?)
}

fn copy(sql: &mut Sql, _: u64) -> Result<(), Any> {
    sql.run("CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c TEXT, d TEXT)")?;
    Ok(sql.run("INSERT INTO u SELECT id, a, b, c, d || '' FROM t")?)
}

fn vacuum(sql: &mut Sql, _: u64) -> Result<(), Any> {
    Ok(sql.run("VACUUM")?)
}

/// One run in this process.
fn run(sizes: &Sizes, &(_, setup, work): &Cell) -> Result<(), Any> {
    let dir = std::env::temp_dir().join(format!("silica-row-costs-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let done = run_in(&dir, sizes, setup, work);
    std::fs::remove_dir_all(&dir)?;
    done
}

fn run_in(
    dir: &Path,
    sizes: &Sizes,
    setup: fn(&mut Sql, u64) -> Result<(), Any>,
    work: fn(&mut Sql, u64) -> Result<(), Any>,
) -> Result<(), Any> {
    let (path, memory) = (dir.join("rows.db"), sizes.memory);
    let storage = &sizes.storage;
    let uri = format!("file:{}?storage={storage}&memory_bytes={memory}", path.display());
    let mut sql = Sql::open(uri)?;
    sql.query("PRAGMA journal_mode = WAL", &[])?;
    sql.run(&format!("PRAGMA cache_size = -{}", memory >> 10))?;
    sql.run("PRAGMA synchronous = NORMAL")?;
    setup(&mut sql, sizes.rows)?;
    if !sizes.stops_early {
        let start = Instant::now();
        work(&mut sql, sizes.rows)?;
        eprintln!("{:.2} µs a row", start.elapsed().as_secs_f64() * 1e6 / sizes.rows as f64);
    }
    Ok(())
}

/// What a run in a process of its own takes: instructions, or with `times` nanoseconds.
fn cost(sizes: &Sizes, name: &str, storage: &str, stop: &str) -> Result<f64, Any> {
    let program = std::env::current_exe()?;
    let mut command = match sizes.times {
        true => Command::new(&program),
        false => {
            let mut command = Command::new("valgrind");
            command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&program);
            command
        }
    };
    command.arg(format!("cell={name}")).arg(format!("storage={storage}"));
    command.arg(format!("rows={}", sizes.rows)).arg(format!("memory={}", sizes.memory));
    let output = command.arg(format!("stop={stop}")).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{name}, {storage}: {words}").into());
    }
    if sizes.times {
        let line = words.lines().find_map(|line| line.strip_suffix(" µs a row"));
        return Ok(line.map_or(Ok(0.0), str::parse)? * 1000.0 * sizes.rows as f64);
    }
    let collected = words.lines().find_map(|line| line.split_once("Collected : "));
    Ok(collected.ok_or("callgrind said no count")?.1.trim().parse()?)
}

fn main() -> Result<(), Any> {
    let sizes = Sizes::from_args()?;
    if let Some(cell) = CELLS.iter().find(|(name, ..)| *name == sizes.cell) {
        return run(&sizes, cell);
    }
    let unit = if sizes.times { "nanoseconds" } else { "instructions" };
    println!("{unit} a row, {} rows, {} KiB of memory", sizes.rows, sizes.memory >> 10);
    println!("{:34} {:>10} {:>10} {:>7}", "", "silica", "sqlite", "ratio");
    for (name, ..) in CELLS.iter().filter(|(name, ..)| name.contains(&sizes.only)) {
        let mut a_row = [0.0; 2];
        for (at, storage) in ["silica", "sqlite"].into_iter().enumerate() {
            let setup = cost(&sizes, name, storage, "setup")?;
            a_row[at] = (cost(&sizes, name, storage, "work")? - setup) / sizes.rows as f64;
        }
        println!("{name:34} {:>10.0} {:>10.0} {:>7.2}", a_row[0], a_row[1], a_row[0] / a_row[1]);
    }
    Ok(())
}
