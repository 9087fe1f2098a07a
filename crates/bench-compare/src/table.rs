//! The results as a table for people.

use crate::results::{Results, Row, WorkloadInfo};
use crate::stats::number;
use crate::summary::{LIMITS, SPEED};

/// Every workload with its stores, the fastest first, and what was not measured.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    limits(results, &mut out);
    for info in &results.workloads {
        workload(results, info, &mut out);
    }
    remarks(results, &mut out);
    out
}

fn limits(results: &Results, out: &mut String) {
    let rows: Vec<_> = results.rows.iter().filter(|row| row.workload == LIMITS).collect();
    if rows.is_empty() {
        return;
    }
    *out += "limits of this machine\n";
    for row in rows {
        let name = format!("{} {}", row.store, row.metric);
        *out += &format!("  {name:<52} {:>24} {}\n", spread(row), row.unit);
    }
    out.push('\n');
}

fn workload(results: &Results, info: &WorkloadInfo, out: &mut String) {
    let mut rows: Vec<_> = results
        .rows
        .iter()
        .filter(|r| r.suite == info.suite && r.workload == info.name && r.metric == SPEED)
        .collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|a, b| b.median.total_cmp(&a.median));
    *out += &format!(
        "{} {}: {} keys of {} + {} B, {} thread{}, {} MiB of memory{}\n",
        info.suite,
        info.name,
        info.keys,
        info.key_bytes,
        info.value_bytes,
        info.threads,
        if info.threads == 1 { "" } else { "s" },
        info.memory_bytes >> 20,
        if info.cold { ", cold" } else { "" },
    );
    *out += &format!(
        "  {:<18} {:>24} {:>9} {:>7} {:>7} {:>9} {:>9}  {}\n",
        "store", "ops/s", "p99 us", "writes", "space", "RSS MiB", "of limit", "ours over it"
    );
    for row in rows {
        *out += &line(results, info, row);
    }
    for (name, metric) in &info.limits {
        // Those of these rounds; others stand above.
        if let Some(row) = results.row(&info.suite, &info.name, name, metric) {
            *out += &format!("  {:<18} {:>24} {metric}, {}\n", name, spread(row), row.unit);
        }
    }
    out.push('\n');
}

fn line(results: &Results, info: &WorkloadInfo, row: &Row) -> String {
    let figure = |metric: &str, unit: f64| {
        let found = results.row(&info.suite, &info.name, &row.store, metric);
        found.map_or("-".to_string(), |r| number(r.median / unit))
    };
    let ratios: Vec<_> = results
        .ratios
        .iter()
        .filter(|r| r.suite == info.suite && r.workload == info.name && r.peer == row.store)
        .map(|r| r.text.as_str())
        .collect();
    let line = format!(
        "  {:<18} {:>24} {:>9} {:>7} {:>7} {:>9} {:>9}  {}",
        row.store,
        spread(row),
        figure("p99_us", 1.0),
        figure("write_amplification", 1.0),
        figure("space_amplification", 1.0),
        figure("rss_bytes_max", f64::from(1 << 20)),
        share(results, info, row),
        ratios.join(", ")
    );
    line.trim_end().to_string() + "\n"
}

/// The store's part of each limit beside its workload.
fn share(results: &Results, info: &WorkloadInfo, row: &Row) -> String {
    let of = |(limit, _): &(String, String)| {
        let found = results.ratios.iter().find(|ratio| {
            let here = ratio.suite == info.suite && ratio.workload == info.name;
            here && ratio.store == row.store && ratio.peer == *limit
        });
        // Where the spread includes 1 the store is at its limit, and which part is not known.
        found.map_or("-".to_string(), |ratio| match ratio.median {
            Some(median) => format!("{} %", number(100.0 * median)),
            None if ratio.runs < 2 => format!("{} %", number(100.0 * ratio.low)),
            None => format!("{}–{} %", number(100.0 * ratio.low), number(100.0 * ratio.high)),
        })
    };
    match info.limits.is_empty() {
        true => "-".to_string(),
        false => info.limits.iter().map(of).collect::<Vec<_>>().join(" "),
    }
}

fn spread(row: &Row) -> String {
    format!("{} ({}–{})", number(row.median), number(row.low), number(row.high))
}

fn remarks(results: &Results, out: &mut String) {
    let environment = &results.environment;
    for remark in &environment.missing {
        *out += &format!("missing: {}: {}\n", remark.store, remark.text);
    }
    for remark in &environment.unable {
        *out +=
            &format!("{} takes no part in {}: {}\n", remark.store, remark.workload, remark.text);
    }
    for remark in &results.failures {
        *out += &format!(
            "FAILED: {} {} {}: {}\n",
            remark.suite, remark.workload, remark.store, remark.text
        );
    }
    for remark in results.notes.iter().filter(|remark| remark.store.is_empty()) {
        let about = if remark.suite.is_empty() { "note" } else { &remark.suite };
        *out += &format!("{about}: {}\n", remark.text);
    }
    if results.interrupted {
        *out += "interrupted: this is what was measured until then\n";
    }
}
