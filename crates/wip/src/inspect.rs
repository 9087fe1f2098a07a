//! What there is, in words.

use crate::run::Part;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::{Device, LogFile};
use std::fmt::Write;

impl<D: Device> Wip<D> {
    /// Lines of `name: value`: the log, the value log, then each bucket and its runs, the newest
    /// first.
    pub(crate) fn describe(&self) -> Result<String> {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            writeln!(out, "{name}: {value}").expect("writing to a string");
        };
        line("buckets", self.buckets().iter().count().to_string());
        line("log end", self.log.end().to_string());
        for segment in self.log.segments().iter() {
            let (len, capacity, start) = (segment.log.len(), segment.capacity, segment.start);
            let value = format!("{len} of {capacity} bytes from {start}");
            line(&format!("log segment {}", segment.number), value);
        }
        for segment in self.values.segments() {
            let (bytes, dead) = (segment.record_bytes(), segment.dead_bytes());
            line(&segment.name(), format!("{bytes} bytes of values, {dead} of them garbage"));
        }
        let mut number = 0;
        self.for_each_bucket(|lower, upper, stores| {
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
            for (at, run) in stores.version.runs.iter().enumerate() {
                let parts: Vec<_> = run.iter().map(describe_part).collect();
                line(&format!("bucket {number} run {at}"), parts.join(", "));
            }
            number += 1;
        });
        Ok(out)
    }
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
