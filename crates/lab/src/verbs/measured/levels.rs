//! What LevelDB and RocksDB wrote to each level, as their own `LOG` tells.

use super::design::Writer;
use serde_json::Value;
use silica::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in a store's `LOG`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Lines of LevelDB's, which has each line at once.
    lines: usize,
    /// Since 1970, as RocksDB's events have it.
    micros: u64,
}

impl Moment {
    pub(super) fn now(directory: &Path) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { lines: text(directory).lines().count(), micros: since.as_micros() as u64 }
    }
}

fn text(directory: &Path) -> String {
    std::fs::read(directory.join("LOG"))
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes of tables written to each level between two moments; the store is closed.
pub(super) fn written(
    writer: Writer,
    directory: &Path,
    from: Moment,
    to: Moment,
) -> BTreeMap<u32, f64> {
    match writer {
        Writer::RocksDb => of_events(&text(directory), from.micros, to.micros),
        _ => of_lines(text(directory).lines().take(to.lines).skip(from.lines)),
    }
}

/// LevelDB's lines, `Level-0 table #9: 812 bytes OK` and `Compacted 4@0 + 2@1 files => 812 bytes`.
fn of_lines<'l>(lines: impl Iterator<Item = &'l str>) -> BTreeMap<u32, f64> {
    let mut levels = BTreeMap::new();
    let number = |text: &str| text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    for line in lines {
        let (level, bytes) = if let Some((_, rest)) = line.split_once("Level-0 table #") {
            let bytes = rest.strip_suffix("bytes OK").and_then(|rest| rest.split_once(": "));
            (Some(0), bytes.and_then(|(_, bytes)| number(bytes)))
        } else if let Some((inputs, bytes)) = line.split_once(" files => ") {
            let level = inputs.rsplit('@').next().and_then(|n| n.parse::<u32>().ok());
            (level, number(bytes))
        } else {
            continue;
        };
        if let (Some(level), Some(bytes)) = (level, bytes) {
            *levels.entry(level).or_default() += bytes;
        }
    }
    levels
}

/// RocksDB's events: each table that was made, less those that compactions made, which tell their
/// level.
fn of_events(text: &str, from: u64, to: u64) -> BTreeMap<u32, f64> {
    let mut levels: BTreeMap<u32, f64> = BTreeMap::new();
    let events = text.lines().filter_map(|line| line.split_once("EVENT_LOG_v1 "));
    for event in events.filter_map(|(_, event)| serde_json::from_str::<Value>(event).ok()) {
        let micros = event["time_micros"].as_u64().unwrap_or(0);
        let bytes = |name: &str| event[name].as_f64().unwrap_or(0.0);
        if !(from..to).contains(&micros) {
            continue;
        }
        match event["event"].as_str() {
            Some("table_file_creation") => *levels.entry(0).or_default() += bytes("file_size"),
            Some("compaction_finished") => {
                let level = event["output_level"].as_u64().unwrap_or(0) as u32;
                *levels.entry(0).or_default() -= bytes("total_output_size");
                *levels.entry(level).or_default() += bytes("total_output_size");
            }
            _ => {}
        }
    }
    levels
}

/// Bytes of the tables in a directory, and of what is neither table nor log of writes: books and
/// messages.
pub(super) fn files(directory: &Path) -> Result<(f64, f64)> {
    let failed = |e| Error::io(format!("reading {}", directory.display()), e);
    let (mut tables, mut beside) = (0.0, 0.0);
    for file in std::fs::read_dir(directory).map_err(failed)? {
        let file = file.map_err(failed)?;
        // A file may go meanwhile.
        let Ok(meta) = file.metadata() else { continue };
        match file.path().extension().and_then(|extension| extension.to_str()) {
            Some("sst" | "ldb") => tables += meta.len() as f64,
            Some("log") => {}
            _ => beside += meta.len() as f64,
        }
    }
    Ok((tables, beside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_events_tell_what_each_level_got() {
        let lines = "t Level-0 table #9: started\nt Level-0 table #9: 100 bytes OK\n\
                     t Compacting 4@0 + 2@1 files\nt Compacted 4@0 + 2@1 files => 350 bytes\n\
                     t Compacted 1@1 + 3@2 files => 70 bytes\nt Moved #3 to level-2 9 bytes OK: x";
        let levels = of_lines(lines.lines());
        assert_eq!(levels, BTreeMap::from([(0, 100.0), (1, 350.0), (2, 70.0)]));
        let event = |micros: u64, rest: &str| {
            format!("2026 EVENT_LOG_v1 {{\"time_micros\": {micros}, {rest}}}\n")
        };
        let made = r#""event": "table_file_creation", "file_size": "#;
        let done = r#""event": "compaction_finished", "output_level": 5, "total_output_size": "#;
        let text = [
            event(1, &format!("{made}999")),
            event(5, &format!("{made}100")),
            event(6, &format!("{made}40")),
            event(7, &format!("{done}40")),
            event(9, &format!("{made}999")),
        ];
        let levels = of_events(&text.concat(), 5, 9);
        assert_eq!(levels, BTreeMap::from([(0, 100.0), (5, 40.0)]));
    }
}
