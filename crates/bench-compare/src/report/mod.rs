//! The page: one HTML file with everything a run found, its charts inside.
//!
//! It needs no network and no script, so that it can be kept beside the figures it shows.

mod charts;
mod html;

use crate::foreseen::PREDICTED;
use crate::limits::LIMIT_PREFIX;
use crate::results::{Ratio, Remark, Results, Row, StoreInfo, WorkloadInfo};
use charts::{Bar, Kind, Line, Lines};
use html::{Page, escape, figure, with_unit};
use silica::{Error, ErrorKind, Result};

/// Metrics of the table under each chart, as far as a workload has them.
const COLUMNS: &[(&str, &str)] = &[
    ("throughput_ops", "operations/s"),
    ("wall_seconds", "wall s"),
    ("p50_us", "p50 µs"),
    ("p99_us", "p99 µs"),
    ("p999_us", "p99.9 µs"),
    ("reads_per_get", "reads/get"),
    ("write_amplification", "write ampl."),
    ("space_amplification", "space ampl."),
    ("rss_bytes_max", "resident"),
    ("client_rss_bytes_max", "clients resident"),
    ("index_bytes_per_key", "index B/key"),
];

/// The metric of the bars.
const THROUGHPUT: &str = "throughput_ops";

/// The page of `results`.
pub fn page(results: &Results) -> Result<String> {
    let environment = &results.environment;
    let mut page = Page::new("Silica beside its peers and its limits");
    page.paragraph(&format!(
        "{} run of {}: {} repetitions in rounds of short slices, {:.0} seconds. Bars are the \
         operations of all rounds over their time, whiskers their 95 % intervals.",
        environment.size, environment.date, environment.repetitions, environment.seconds
    ));
    if results.interrupted {
        page.warning("The run was interrupted: this is what had been measured until then.");
    }
    page.contents();
    ratios(results, &mut page);
    let mut suite = "";
    for workload in &results.workloads {
        if workload.suite != suite {
            suite = &workload.suite;
            page.section(&format!("Suite {suite}"));
        }
        self::workload(results, workload, &mut page)?;
    }
    limits(results, &mut page);
    predictions(results, &mut page)?;
    remarks("Not measured: failures", &results.failures, &mut page);
    remarks("Stores that are not installed", &environment.missing, &mut page);
    remarks("Stores that take no part, and why", &environment.unable, &mut page);
    remarks("Said while measuring", &results.notes, &mut page);
    stores(&environment.stores, &mut page);
    machine(results, &mut page);
    Ok(page.finish())
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("drawing a chart of the report: {error}"))
}

fn is_limit(store: &str) -> bool {
    store.starts_with(LIMIT_PREFIX)
}

/// The place of a store among all, which gives its colour in every chart.
fn place(results: &Results, store: &str) -> usize {
    let stores = &results.environment.stores;
    stores.iter().position(|s| s.name == store).unwrap_or(stores.len())
}

fn is_ours(results: &Results, store: &str) -> bool {
    results.environment.stores.iter().any(|s| s.ours && s.name == store)
}

/// The first thing people look for: ours over each peer.
fn ratios(results: &Results, page: &mut Page) {
    let shown: Vec<_> = results.ratios.iter().filter(|r| !is_limit(&r.peer)).collect();
    if shown.is_empty() {
        return;
    }
    page.section("Ours over the peers");
    page.paragraph(
        "Each ratio is taken over the same rounds, and shown with its 95 % interval. Above 1, \
         ours is ahead; where the interval includes 1, no difference is shown.",
    );
    let mut tables: Vec<(&str, &str, Vec<&Ratio>)> = Vec::new();
    for ratio in shown {
        let (suite, store) = (ratio.suite.as_str(), ratio.store.as_str());
        match tables.iter_mut().find(|(of, ours, _)| (*of, *ours) == (suite, store)) {
            Some((_, _, ratios)) => ratios.push(ratio),
            None => tables.push((suite, store, vec![ratio])),
        }
    }
    for (suite, store, ratios) in tables {
        let mut metrics = distinct(ratios.iter().map(|r| r.metric.as_str()));
        metrics.iter_mut().for_each(|metric| *metric = metric.trim_end_matches("_ops"));
        page.heading(&format!("{suite}: {store} over others, {}", metrics.join(", ")));
        ratio_table(&ratios, page);
    }
}

/// What `values` are, each once, in the order in which they first come.
fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// A row for each workload, a column for each peer.
fn ratio_table(ratios: &[&Ratio], page: &mut Page) {
    let peers = distinct(ratios.iter().map(|r| r.peer.as_str()));
    let rows = distinct(ratios.iter().map(|r| r.workload.as_str()));
    let body = rows.into_iter().map(|workload| {
        let of = |peer: &&str| {
            let mut here = ratios.iter().filter(|r| r.workload == workload && r.peer == *peer);
            here.next().map_or("–".to_string(), |ratio| ratio_cell(ratio))
        };
        std::iter::once(escape(workload)).chain(peers.iter().map(of)).collect()
    });
    let head: Vec<&str> = std::iter::once("workload").chain(peers.iter().copied()).collect();
    page.table(&head, body);
}

/// The ratio, its spread below.
fn ratio_cell(ratio: &Ratio) -> String {
    let class = match ratio.median {
        Some(median) if median > 1.0 => "ahead",
        Some(_) => "behind",
        None => "open",
    };
    let text = match ratio.text.split_once(" (") {
        Some((figure, spread)) => {
            let figure = figure.trim_end_matches(" shown");
            let spread = escape(spread.trim_end_matches(')'));
            format!("{}<br><small>{spread}</small>", escape(figure))
        }
        None => escape(&ratio.text),
    };
    format!("<span class=\"{class}\">{text}</span>")
}

fn workload(results: &Results, info: &WorkloadInfo, page: &mut Page) -> Result<()> {
    let of_this = |row: &&Row| row.suite == info.suite && row.workload == info.name;
    let rows: Vec<&Row> = results.rows.iter().filter(of_this).collect();
    if rows.is_empty() {
        return Ok(());
    }
    page.heading(&info.name);
    page.paragraph(&describe(info));
    let bars = bars(results, info, &rows);
    if !bars.is_empty() {
        page.svg(&charts::bars("Throughput", "operations a second", &bars).map_err(failed)?);
    }
    table(&rows, page);
    let latencies =
        lines(results, info, ("Latency by quantile", "microseconds"), |suite, workload| {
            let curves = results.curves.iter();
            let curves = curves.filter(|c| c.suite == suite && c.workload == workload);
            curves.map(|c| (c.store.clone(), c.points.clone())).collect()
        });
    if !latencies.lines.is_empty() {
        page.svg(&charts::latencies(&latencies).map_err(failed)?);
    }
    const MIB: f64 = 1048576.0;
    let memory = lines(results, info, ("Resident memory over time", "MiB"), |suite, workload| {
        let lines = results.timelines.iter();
        let lines = lines.filter(|t| t.suite == suite && t.workload == workload);
        let points = |s: &crate::results::MemorySample| (s.seconds, s.rss_bytes / MIB);
        lines.map(|t| (t.store.clone(), t.samples.iter().map(points).collect())).collect()
    });
    if !memory.lines.is_empty() {
        page.svg(&charts::over_time(&memory).map_err(failed)?);
    }
    Ok(())
}

fn describe(info: &WorkloadInfo) -> String {
    let mut text = format!(
        "{}. {} keys of {} bytes, values of {} bytes, {}, {} thread{}{}, {}, {} MiB of memory \
         for each store.",
        info.doc,
        info.keys,
        info.key_bytes,
        info.value_bytes,
        info.distribution,
        info.threads,
        if info.threads == 1 { "" } else { "s" },
        if info.batch == 1 { String::new() } else { format!(", bursts of {}", info.batch) },
        info.durability,
        info.memory_bytes >> 20
    );
    if info.rate > 0 {
        text += &format!(" {} operations a second are issued.", info.rate);
    }
    if info.cold {
        text += " Stores are reopened and the page cache is dropped before it.";
    }
    if !info.paper.is_empty() {
        text += &format!(" Source: {}.", info.paper);
    }
    text
}

/// The stores' throughputs and the limits that stand beside the workload.
fn bars(results: &Results, info: &WorkloadInfo, rows: &[&Row]) -> Vec<Bar> {
    let bar = |row: &Row, name: String| Bar {
        name,
        place: place(results, &row.store),
        kind: if is_limit(&row.store) { Kind::Limit } else { Kind::Store },
        median: row.median,
        low: row.low,
        high: row.high,
    };
    let stores = rows.iter().filter(|row| row.metric == THROUGHPUT && !is_limit(&row.store));
    let mut bars: Vec<Bar> = stores.map(|row| bar(row, row.store.clone())).collect();
    bars.sort_by(|a, b| b.median.total_cmp(&a.median));
    for (limit, metric) in &info.limits {
        let same = |row: &&Row| row.store == *limit && row.metric == *metric;
        // Of these rounds, where it took part in them.
        let here = rows.iter().copied().find(same);
        let row = here.or_else(|| results.rows.iter().find(same));
        bars.extend(row.map(|row| bar(row, format!("{limit} {metric}"))));
    }
    bars
}

/// The lines of one chart, ours in front.
fn lines(
    results: &Results,
    info: &WorkloadInfo,
    (title, unit): (&str, &'static str),
    points: impl Fn(&str, &str) -> Vec<(String, Vec<(f64, f64)>)>,
) -> Lines {
    let all = points(&info.suite, &info.name).into_iter().filter(|(_, points)| points.len() > 1);
    let lines = all.map(|(name, points)| {
        let (place, ours) = (place(results, &name), is_ours(results, &name));
        Line { name, place, ours, points }
    });
    let mut lines: Vec<Line> = lines.collect();
    lines.sort_by_key(|line| line.ours);
    Lines { title: title.to_string(), unit, lines }
}

fn table(rows: &[&Row], page: &mut Page) {
    let mut stores: Vec<&str> = Vec::new();
    for row in rows {
        if !stores.contains(&row.store.as_str()) {
            stores.push(&row.store);
        }
    }
    let of = |store: &str, metric: &str| {
        rows.iter().find(|row| row.store == store && row.metric == metric).copied()
    };
    let rank = |store: &&str| of(store, THROUGHPUT).map_or(0.0, |row| -row.median);
    stores.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    let has = |metric: &str| rows.iter().any(|row| row.metric == metric);
    let columns: Vec<_> = COLUMNS.iter().filter(|(metric, _)| has(metric)).collect();
    if columns.is_empty() {
        return;
    }
    let mut head = vec!["store"];
    head.extend(columns.iter().map(|(_, title)| *title));
    let body = stores.iter().map(|store| {
        let cells = columns.iter().map(|(metric, _)| match of(store, metric) {
            Some(row) => format!(
                "<span title=\"{} to {} in {} runs\">{}</span>",
                figure(row.low, &row.unit),
                figure(row.high, &row.unit),
                row.runs,
                figure(row.median, &row.unit)
            ),
            None => "–".to_string(),
        });
        std::iter::once(escape(store)).chain(cells).collect()
    });
    page.table(&head, body);
}

fn limits(results: &Results, page: &mut Page) {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| is_limit(&row.store)).collect();
    if rows.is_empty() {
        return;
    }
    page.section("Limits of this machine");
    let body = rows.iter().map(|row| {
        vec![
            escape(&row.suite),
            escape(row.store.trim_start_matches(LIMIT_PREFIX)),
            escape(&row.metric.replace('_', " ")),
            with_unit(row.median, &row.unit),
            format!("{} – {}", figure(row.low, &row.unit), figure(row.high, &row.unit)),
        ]
    });
    page.table(&["suite", "limit", "figure", "median", "spread"], body);
}

/// What stores say of themselves beside what was measured, as far as a store tells.
fn predictions(results: &Results, page: &mut Page) -> Result<()> {
    let mut charts: Vec<(String, String, Vec<Bar>)> = Vec::new();
    for predicted in &results.rows {
        let Some(metric) = predicted.metric.strip_suffix(PREDICTED) else { continue };
        let measured = results.row(&predicted.suite, &predicted.workload, &predicted.store, metric);
        let Some(measured) = measured.filter(|row| row.median > 0.0) else { continue };
        let title = metric.replace('_', " ");
        let index = charts.iter().position(|(of, ..)| *of == title).unwrap_or_else(|| {
            charts.push((title.clone(), predicted.unit.clone(), Vec::new()));
            charts.len() - 1
        });
        let bars = &mut charts[index].2;
        for (row, what) in [(measured, "measured"), (predicted, "predicted")] {
            bars.push(Bar {
                name: format!("{} {what}", row.workload),
                place: place(results, &row.store),
                kind: if what == "measured" { Kind::Measured } else { Kind::Predicted },
                median: row.median,
                low: row.low,
                high: row.high,
            });
        }
    }
    if !charts.is_empty() {
        page.section("Predicted and measured");
        page.paragraph(
            "What a store's own model says of steady work, beside what was measured in this run.",
        );
    }
    for (title, unit, bars) in &charts {
        page.svg(&charts::bars(title, unit, bars).map_err(failed)?);
    }
    Ok(())
}

fn remarks(title: &str, remarks: &[Remark], page: &mut Page) {
    if remarks.is_empty() {
        return;
    }
    page.section(title);
    // What was said of many is said once.
    let mut rows: Vec<(&Remark, Vec<&str>)> = Vec::new();
    for remark in remarks {
        let same = |(of, _): &&mut (&Remark, Vec<&str>)| {
            (&of.suite, &of.workload, &of.text) == (&remark.suite, &remark.workload, &remark.text)
        };
        match rows.iter_mut().find(same) {
            Some((_, stores)) => stores.push(&remark.store),
            None => rows.push((remark, vec![&remark.store])),
        }
    }
    let body = rows.iter().map(|(remark, stores)| {
        let stores = stores.join(", ");
        [&remark.suite, &remark.workload, &stores, &remark.text].map(|t| escape(t)).to_vec()
    });
    page.table(&["suite", "workload", "stores", "what"], body);
}

fn stores(stores: &[StoreInfo], page: &mut Page) {
    page.section("Stores, versions, settings");
    let (limits, stores): (Vec<_>, Vec<_>) = stores.iter().partition(|s| is_limit(&s.name));
    let body = stores.iter().map(|store| {
        let settings = store.settings.iter().map(|s| {
            format!("<b>{}</b> = {}: {}", escape(&s.name), escape(&s.value), escape(&s.why))
        });
        vec![
            escape(&store.name),
            escape(&store.version),
            escape(&store.doc),
            settings.collect::<Vec<_>>().join("<br>"),
        ]
    });
    page.table(&["store", "version", "what it is", "settings and why"], body);
    if !limits.is_empty() {
        let row = |limit: &&StoreInfo| [&limit.name, &limit.version, &limit.doc].map(|t| escape(t));
        let body = limits.iter().map(|limit| row(limit).to_vec());
        page.table(&["limit", "measured by", "what it is"], body);
    }
}

fn machine(results: &Results, page: &mut Page) {
    let environment = &results.environment;
    let machine = &environment.machine;
    page.section("Machine");
    let rows = [
        ("processor", format!("{} ({} cores)", machine.cpu, machine.cores)),
        ("memory", format!("{} MiB", machine.memory_bytes >> 20)),
        ("kernel", machine.kernel.clone()),
        ("file system", machine.file_system.clone()),
        ("device", machine.device.clone()),
        ("memory limit", machine.memory_limit.clone()),
        ("Silica", environment.version.clone()),
        ("command", environment.command.clone()),
    ];
    page.table(&["", ""], rows.iter().map(|(name, value)| vec![escape(name), escape(value)]));
}

#[cfg(test)]
mod tests;
