//! The 22 queries of TPC-H on a small set of rows, on our storage and on SQLite's own: the answers
//! are the same.

#[path = "../../examples/tpch_set/mod.rs"]
mod tpch_set;

use silica_base::test_size;
use silica_sql::sql::{Sql, Value};
use std::time::Instant;
use tpch_set::{QUERIES, fill, open};

/// `SILICA_RUNS` is the number of orders; the times of each storage are told.
#[test]
fn the_queries_of_tpch_come_to_the_same() {
    let scratch = tempfile::tempdir().expect("a directory");
    let orders = test_size(600, 2_000, 15_000) as i64;
    let [mut ours, mut theirs] =
        ["silica", "sqlite"].map(|storage| open(scratch.path(), storage, ""));
    fill(&mut ours, orders);
    fill(&mut theirs, orders);
    let (mut logs, mut empty) = (0.0, Vec::new());
    for (number, query) in (1..).zip(QUERIES) {
        let timed = |sql: &mut Sql| {
            let begin = Instant::now();
            let rows = sql.query(query, &[]).unwrap_or_else(|e| panic!("query {number}: {e}"));
            (rows, begin.elapsed().as_secs_f64())
        };
        let ((one, ours_s), (other, theirs_s)) = (timed(&mut ours), timed(&mut theirs));
        assert!(one == other, "query {number}:\nours: {one:?}\nSQLite's: {other:?}");
        eprintln!("query {number}: {:.1} ms, SQLite {:.1} ms", ours_s * 1e3, theirs_s * 1e3);
        logs += (theirs_s / ours_s).ln();
        if one.iter().all(|row| row.iter().all(|value| *value == Value::Null)) {
            empty.push(number);
        }
    }
    eprintln!("SQLite's time to ours, geometric mean: {:.2}", (logs / 22.0).exp());
    assert!(empty.len() <= 3, "queries without an answer say nothing: {empty:?}");
}
