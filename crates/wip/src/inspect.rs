//! What there is, in words.

use crate::bucket::Stores;
use crate::contents::Contents;
use crate::policy::LEVEL_MAX;
use crate::run::Part;
use silica_base::Result;
use silica_device::{Device, LogFile};
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Lines of `name: value`: the log, the value log, then each bucket and its runs, the newest
/// first.
pub(crate) fn describe<D: Device>(contents: &Contents<D>) -> Result<String> {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(out, "{name}: {value}").expect("writing to a string");
    };
    line("buckets", contents.buckets().iter().count().to_string());
    line("log end", contents.log.end().to_string());
    for segment in contents.log.segments().iter() {
        let (len, capacity, start) = (segment.log.len(), segment.capacity, segment.start);
        let value = format!("{len} of {capacity} bytes from {start}");
        line(&format!("log segment {}", segment.number), value);
    }
    for segment in contents.values.segments() {
        let (bytes, dead) = (segment.record_bytes(), segment.dead_bytes());
        line(&segment.name(), format!("{bytes} bytes of values, {dead} of them garbage"));
    }
    let mut number = 0;
    contents.for_each_bucket(|lower, upper, stores| {
        let upper = upper.map_or("the end".into(), shown);
        let value = format!(
            "from {} to {upper}; memory {} entries, {} frozen; {} runs, {} bytes; floor {}",
            shown(lower),
            stores.active.len(),
            stores.frozen.len(),
            stores.version.runs.len(),
            stores.version.bytes(),
            stores.version.floor
        );
        line(&format!("bucket {number}"), value);
        let reads = contents.buckets().of(lower).reads.load(Ordering::Relaxed);
        for (property, value) in properties(lower, &upper, stores, reads) {
            line(&format!("bucket {number} {property}"), value);
        }
        for (at, run) in stores.version.runs.iter().enumerate() {
            let parts: Vec<_> = run.iter().map(describe_part).collect();
            line(&format!("bucket {number} run {at}"), parts.join(", "));
        }
        number += 1;
    });
    Ok(out)
}

/// What is known of a bucket without a read of the device: bounds, sizes, and for each level the
/// bytes of its runs, the newest first.
fn properties<D: Device>(
    lower: &[u8],
    upper: &str,
    stores: &Stores<D>,
    reads: u64,
) -> Vec<(String, String)> {
    let version = &stores.version;
    let parts = || version.runs.iter().flatten();
    let frozen = stores.frozen.iter().map(|frozen| frozen.memtable.len());
    let in_memory = stores.active.len() + frozen.sum::<usize>();
    let entries = in_memory as u64 + parts().map(Part::versions).sum::<u64>();
    let tombstones = parts().map(|part| {
        let footer = part.table.table.footer();
        footer.tombstones as f64 * part.versions() as f64 / footer.versions.max(1) as f64
    });
    let mut found = vec![
        ("lower".to_owned(), shown(lower)),
        ("upper".to_owned(), upper.to_owned()),
        ("bytes".to_owned(), version.bytes().to_string()),
        ("dead bytes".to_owned(), version.shape().dead_bytes().to_string()),
        ("entries".to_owned(), entries.to_string()),
        ("entries in memory".to_owned(), in_memory.to_string()),
        ("tombstones".to_owned(), (tombstones.sum::<f64>() as u64).to_string()),
        ("reads".to_owned(), reads.to_string()),
    ];
    for level in 0..=LEVEL_MAX {
        let runs = version.shape().runs.iter().filter(|run| run.level == level);
        let bytes: Vec<String> = runs.map(|run| run.bytes.to_string()).collect();
        if !bytes.is_empty() {
            found.push((format!("level {level}"), bytes.join(" ")));
        }
    }
    found
}

fn describe_part<D: Device>(part: &Part<D>) -> String {
    let (table, bytes) = (&part.table.table, part.bytes());
    let (name, versions) = (table.name(), part.versions());
    if part.blocks().len() == table.blocks() {
        return format!("{name} {versions} versions in {bytes} bytes");
    }
    format!("a part of {name}, about {versions} versions in {bytes} bytes")
}

/// A key for people.
fn shown(key: &[u8]) -> String {
    format!("'{}'", key.escape_ascii())
}
