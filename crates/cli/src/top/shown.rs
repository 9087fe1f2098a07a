//! The figures of a span, as text for people.

use super::sample::{Sample, Span};

/// Named values under titles; what a server does not tell is left out.
pub(super) struct Figures {
    pub(super) groups: Vec<(&'static str, Vec<(String, String)>)>,
}

/// Requests answered in a second.
pub(super) fn requests(span: &Span<'_>) -> Option<f64> {
    span.rate(|s| s.number("total_commands_processed"))
}

/// Keys put or deleted in a second; Redis does not tell.
pub(super) fn writes(span: &Span<'_>) -> Option<f64> {
    span.rate(|s| Some(s.total("puts")? + s.total("deletes").unwrap_or(0.0)))
}

/// Cores that were busy for the server.
pub(super) fn cores(span: &Span<'_>) -> Option<f64> {
    span.rate(|s| Some(s.number("used_cpu_sys")? + s.number("used_cpu_user")?))
}

/// Everything that the screen's boxes show, in their order.
pub(super) fn figures(span: &Span<'_>) -> Figures {
    let groups = vec![
        ("work", work(span)),
        ("latency of bursts (a step of the histogram)", latency(span)),
        ("memory", memory(span.after)),
        ("writes to the device", device(span)),
        ("databases", databases(span.after)),
    ];
    Figures { groups: groups.into_iter().filter(|(_, rows)| !rows.is_empty()).collect() }
}

/// What the server is among others, behind its name, and whether all is well with that: of a
/// primary its replicas and how far the last of them is behind, of a replica whom it follows.
pub(super) fn role(sample: &Sample) -> (String, bool) {
    if sample.text("role") == "slave" {
        let (host, port) = (sample.text("master_host"), sample.text("master_port"));
        let is_up = sample.text("master_link_status") == "up";
        let state = if is_up { "" } else { ", the link is down" };
        return (format!(", replica of {host}:{port}{state}"), is_up);
    }
    let count = sample.number("connected_slaves").unwrap_or(0.0);
    if count == 0.0 {
        return (String::new(), true);
    }
    let end = sample.number("master_repl_offset").unwrap_or(0.0);
    let offset = |n: usize| {
        let replica = sample.text(&format!("slave{n}"));
        replica.split(',').find_map(|pair| pair.strip_prefix("offset="))?.parse::<f64>().ok()
    };
    let behind = (0..count as usize).filter_map(offset).map(|at| end - at).fold(0.0, f64::max);
    (format!(", {count} replicas, {} behind", bytes(behind)), true)
}

type Row = (String, String);

fn rows<const N: usize>(all: [(&str, Option<String>); N]) -> Vec<Row> {
    let row = |(name, value): (&str, Option<String>)| Some((name.to_string(), value?));
    all.into_iter().filter_map(row).collect()
}

/// What was done in a second.
pub(super) fn work(span: &Span<'_>) -> Vec<Row> {
    let network = |name| span.rate(|s: &Sample| s.number(name)).map(bytes);
    rows([
        ("requests/s", requests(span).map(count)),
        ("reads/s", span.rate(|s| s.total("gets")).map(count)),
        ("writes/s", writes(span).map(count)),
        ("hit ratio", span.hit_ratio().map(percent)),
        ("received/s", network("total_net_input_bytes")),
        ("sent/s", network("total_net_output_bytes")),
        ("cores busy", cores(span).map(|cores| format!("{cores:.2}"))),
        ("clients", span.after.number("connected_clients").map(count)),
    ])
}

/// Percentiles of what took time.
pub(super) fn latency(span: &Span<'_>) -> Vec<Row> {
    let of = |part| span.percentile_us(part).map(|us| micros(us as f64));
    rows([("p50", of(0.5)), ("p90", of(0.9)), ("p99", of(0.99)), ("p99.9", of(0.999))])
}

fn memory(sample: &Sample) -> Vec<Row> {
    let of = |name| sample.number(name).map(bytes);
    rows([
        ("used", of("used_memory")),
        ("of at most", of("maxmemory")),
        ("resident", of("used_memory_rss")),
        ("clients", of("clients_bytes").or_else(|| of("mem_clients_normal"))),
        ("indexes", sample.total("index_bytes").map(bytes)),
        ("block caches", sample.total("block_cache_bytes").map(bytes)),
    ])
}

/// Bytes written in a second, by what writes them.
pub(super) fn device(span: &Span<'_>) -> Vec<Row> {
    let rate = |names: &[&str]| {
        span.rate(|s| names.iter().filter_map(|name| s.total(name)).reduce(|a, b| a + b))
    };
    let sample = span.after;
    rows([
        ("users/s", rate(&["user_bytes_written"]).map(bytes)),
        ("log/s", rate(&["log_bytes_written"]).map(bytes)),
        ("flush/s", rate(&["flush_bytes_written"]).map(bytes)),
        (
            "compaction/s",
            rate(&["compaction_bytes_written", "conversion_bytes_written"]).map(bytes),
        ),
        ("merge/s", rate(&["merge_bytes_written", "value_log_bytes_written"]).map(bytes)),
        ("live", sample.total("live_bytes").map(bytes)),
        ("dead", sample.total("dead_bytes").map(bytes)),
        ("files", sample.total("disk_bytes").map(bytes)),
    ])
}

fn databases(sample: &Sample) -> Vec<Row> {
    let row = |d: super::sample::Database| {
        let engine = if d.engine.is_empty() { String::new() } else { format!(" ({})", d.engine) };
        (format!("keys of database {}{engine}", d.number), format!("{:.0}", d.keys))
    };
    sample.databases().into_iter().map(row).collect()
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let (mut size, mut unit) = (value, 0);
    while size >= base * 0.9995 && unit + 1 < units.len() {
        (size, unit) = (size / base, unit + 1);
    }
    let digits = match size {
        _ if unit == 0 && size.fract() == 0.0 => 0,
        99.95.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{size:.digits$} {}", units[unit]).trim_end().to_string()
}

/// `12.3 k`.
pub(super) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"])
}

/// `1.50 MiB`.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// `85.0 us`.
pub(super) fn micros(value: f64) -> String {
    scaled(value, 1000.0, &["us", "ms", "s"])
}

pub(super) fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

/// `2 d 3 h`, `4 min 5 s`.
pub(super) fn seconds(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let Some(first) = units.iter().position(|(size, _)| seconds >= *size) else {
        return "0 s".into();
    };
    let (mut rest, mut shown) = (seconds, Vec::new());
    for (size, unit) in units.iter().skip(first).take(2) {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            shown.push(format!("{count} {unit}"));
        }
    }
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!([0.0, 7.0, 1234.0, 123_456.0].map(count), ["0", "7", "1.23 k", "123 k"]);
        assert_eq!([1.0, 1536.0, 1048575.0].map(bytes), ["1 B", "1.50 KiB", "1.00 MiB"]);
        assert_eq!([4.0, 2048.0].map(micros), ["4 us", "2.05 ms"]);
        assert_eq!([0, 61, 3600, 90_000].map(seconds), ["0 s", "1 min 1 s", "1 h", "1 d 1 h"]);
    }
}
