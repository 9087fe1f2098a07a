//! The queries of TPC-H on our storage and on SQLite's own (`tpch_set`): how long they take, or
//! what each takes for a profile.
//!
//! ```text
//! tpch fill DIR ORDERS [vacuum]             # both storages
//! tpch times DIR [ROUNDS] [QUERY...]        # the best of so many rounds in turns; and the ratio
//! tpch query DIR STORAGE QUERY              # once before [`measured`], which callgrind may count
//! ```
//!
//! Results of statements are not kept, and both have 16 MiB of memory.

mod tpch_set;

use silica_sql::sql::{Sql, Value};
use std::path::Path;
use std::time::Instant;
use tpch_set::{QUERIES, fill};

type Any = Box<dyn std::error::Error>;

fn open(dir: &str, storage: &str) -> Result<Sql, Any> {
    let mut sql = tpch_set::open(Path::new(dir), storage, "&memory_bytes=16777216&results_bytes=0");
    sql.query("PRAGMA journal_mode = WAL", &[])?;
    sql.run("PRAGMA cache_size = -16384")?;
    Ok(sql)
}

/// What is counted.
#[inline(never)]
fn measured(sql: &mut Sql, query: &str) -> Result<Vec<Vec<Value>>, Any> {
    Ok(sql.query(query, &[])?)
}

/// Another function than [`measured`], which does the same.
#[inline(never)]
fn warm_up(sql: &mut Sql, query: &str) -> Result<usize, Any> {
    Ok(sql.query(query, &[])?.len())
}

fn times(dir: &str, rounds: usize, only: &[usize]) -> Result<(), Any> {
    let (mut ours, mut theirs) = (open(dir, "silica")?, open(dir, "sqlite")?);
    let (mut logs, mut count) = (0.0, 0.0);
    println!("| query | Silica, ms | SQLite, ms | SQLite's time to ours |\n|---|---|---|---|");
    for (number, query) in (1..).zip(QUERIES) {
        if !only.is_empty() && !only.contains(&number) {
            continue;
        }
        let mut best = [f64::MAX; 2];
        for _ in 0..=rounds {
            let mut answers = Vec::new();
            for (sql, best) in [&mut ours, &mut theirs].into_iter().zip(&mut best) {
                let start = Instant::now();
                answers.push(measured(sql, query)?);
                *best = best.min(start.elapsed().as_secs_f64() * 1e3);
            }
            if answers[0] != answers[1] {
                return Err(format!("query {number} has two answers").into());
            }
        }
        let ratio = best[1] / best[0];
        println!("| {number} | {:.1} | {:.1} | {ratio:.2} |", best[0], best[1]);
        logs += f64::ln(ratio);
        count += 1.0;
    }
    println!("| geometric mean | | | {:.2} |", f64::exp(logs / count));
    Ok(())
}

fn main() -> Result<(), Any> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["fill", dir, orders, ref rest @ ..] => {
            for storage in ["silica", "sqlite"] {
                let mut sql = open(dir, storage)?;
                fill(&mut sql, orders.parse()?);
                if rest.contains(&"vacuum") {
                    sql.run("VACUUM")?;
                }
            }
        }
        ["times", dir, ref rest @ ..] => {
            let numbers = rest.iter().map(|number| number.parse());
            let numbers: Vec<usize> = numbers.collect::<Result<_, _>>()?;
            let (rounds, only) = numbers.split_first().unwrap_or((&3, &[]));
            times(dir, *rounds, only)?;
        }
        ["query", dir, storage, number] => {
            let number: usize = number.parse()?;
            let query = QUERIES.get(number.wrapping_sub(1)).ok_or("queries are 1 to 22")?;
            let mut sql = open(dir, storage)?;
            warm_up(&mut sql, query)?;
            println!("{} rows", measured(&mut sql, query)?.len());
        }
        _ => return Err("tpch fill|times|query DIR …".into()),
    }
    Ok(())
}
