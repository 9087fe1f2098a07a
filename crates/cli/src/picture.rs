//! Buckets, levels and runs as a picture: on the terminal, or as SVG. It is drawn from what an
//! engine says of its structure, lines of `bucket N …: value`.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Columns of a picture on the terminal; where there are more buckets, several share one.
const COLUMNS_MAX: usize = 64;
/// Characters of a key on the terminal.
const KEY_CHARS_MAX: usize = 24;
/// From few bytes to many.
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];
/// Of an SVG: a row's height, the left margin and the width of all buckets.
const ROW: usize = 22;
const LEFT: usize = 90;
const WIDTH: usize = 900;
/// Colours of what is in memory and of the levels.
const COLOURS: [&str; 4] = ["#d9822b", "#2b83ba", "#3c9d6b", "#6a51a3"];

/// A bucket as its engine describes it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Bucket {
    lower: String,
    entries: String,
    /// Entries in memory.
    memory: u64,
    /// Bytes of the runs of each level, the newest first.
    levels: BTreeMap<usize, Vec<u64>>,
}

/// The buckets of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    buckets: Vec<Bucket>,
}

/// A row of a picture: entries in memory, or a run of a level by its number.
#[derive(Clone, Copy)]
enum Row {
    Memory,
    Run { level: usize, at: usize },
}

impl Row {
    fn label(self) -> String {
        match self {
            Row::Memory => "memory".into(),
            Row::Run { level, at: 0 } => format!("level {level}"),
            Row::Run { .. } => String::new(),
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Row::Memory => COLOURS[0],
            Row::Run { level, .. } => COLOURS[(1 + level).min(COLOURS.len() - 1)],
        }
    }

    fn of(self, bucket: &Bucket) -> u64 {
        match self {
            Row::Memory => bucket.memory,
            Row::Run { level, at } => {
                bucket.levels.get(&level).and_then(|runs| runs.get(at)).copied().unwrap_or(0)
            }
        }
    }
}

impl Picture {
    /// Of what `Keyspace::inspect` says; `None` where that has no buckets.
    pub(crate) fn of(structure: &str) -> Option<Self> {
        let mut buckets: BTreeMap<usize, Bucket> = BTreeMap::new();
        for line in structure.lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let Some((number, property)) =
                name.trim().strip_prefix("bucket ").and_then(|name| name.split_once(' '))
            else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            let bucket = buckets.entry(number).or_default();
            match property {
                "lower" => bucket.lower = value.to_owned(),
                "entries" => bucket.entries = value.to_owned(),
                "entries in memory" => bucket.memory = value.parse().unwrap_or(0),
                _ => {
                    let Some(level) = property.strip_prefix("level ") else { continue };
                    let Ok(level) = level.parse() else { continue };
                    let runs = value.split(' ').filter_map(|bytes| bytes.parse().ok());
                    bucket.levels.insert(level, runs.collect());
                }
            }
        }
        (!buckets.is_empty()).then(|| Picture { buckets: buckets.into_values().collect() })
    }

    fn rows(&self) -> Vec<Row> {
        let levels = self.buckets.iter().filter_map(|b| b.levels.keys().next_back()).max();
        let mut rows = vec![Row::Memory];
        for level in 0..=levels.copied().unwrap_or(0) {
            let count = self.buckets.iter().filter_map(|b| b.levels.get(&level).map(Vec::len));
            let count = count.max().unwrap_or(0);
            rows.extend((0..count).map(|at| Row::Run { level, at }));
        }
        rows
    }

    /// Lines for a terminal: a column for each bucket, a row for each run.
    pub(crate) fn lines(&self) -> Vec<String> {
        let each = self.buckets.len().div_ceil(COLUMNS_MAX);
        let mut lines = Vec::new();
        for row in self.rows() {
            let sums = self.buckets.chunks(each).map(|some| some.iter().map(|b| row.of(b)).sum());
            let sums: Vec<u64> = sums.collect();
            let most = sums.iter().copied().max().unwrap_or(0);
            let cells: String = sums.iter().map(|sum| shade(*sum, most)).collect();
            lines.push(format!("{:<8} {cells}", row.label()).trim_end().to_owned());
        }
        let buckets = self.buckets.len();
        let last: String = self.buckets[buckets - 1].lower.chars().take(KEY_CHARS_MAX).collect();
        let shared = match each {
            1 => "a column for each".to_owned(),
            _ => format!("{each} to a column"),
        };
        lines.push(format!("{:<8} {buckets} buckets, {shared}; the last from {last} on", ""));
        lines
    }

    /// The picture as SVG, where each part says what it is.
    pub(crate) fn svg(&self, title: &str) -> String {
        let rows = self.rows();
        let height = (rows.len() + 2) * ROW;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"15\">{}: {} buckets</text>\n",
            LEFT + WIDTH + 10,
            escaped(title),
            self.buckets.len()
        );
        let width = WIDTH as f64 / self.buckets.len() as f64;
        for (at, row) in rows.into_iter().enumerate() {
            let top = (at + 1) * ROW;
            let label = row.label();
            writeln!(out, "<text x=\"5\" y=\"{}\">{label}</text>", top + 15)
                .expect("writing to a string");
            let most = self.buckets.iter().map(|bucket| row.of(bucket)).max().unwrap_or(0);
            for (place, bucket) in self.buckets.iter().enumerate() {
                let amount = row.of(bucket);
                if amount == 0 {
                    continue;
                }
                let unit = if matches!(row, Row::Memory) { "entries" } else { "bytes" };
                writeln!(
                    out,
                    "<rect x=\"{:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\" \
                     fill-opacity=\"{:.2}\"><title>bucket {place} from {}, about {} entries: {} \
                     {amount} {unit}</title></rect>",
                    LEFT as f64 + place as f64 * width,
                    (width * 0.94).max(0.2),
                    ROW - 3,
                    row.colour(),
                    0.25 + 0.75 * amount as f64 / most as f64,
                    escaped(&bucket.lower),
                    bucket.entries,
                    escaped(&label)
                )
                .expect("writing to a string");
            }
        }
        out + "</svg>\n"
    }
}

fn shade(amount: u64, most: u64) -> char {
    if amount == 0 {
        return ' ';
    }
    let steps = SHADES.len() as u64;
    SHADES[((amount * steps).div_ceil(most) - 1).min(steps - 1) as usize]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRUCTURE: &str = "buckets: 2\nbucket 0: from '' on\nbucket 0 lower: ''\n\
        bucket 0 entries: 30\nbucket 0 entries in memory: 8\nbucket 0 level 0: 100 400\n\
        bucket 0 level 2: 8000\nbucket 1 lower: '<m>: '\nbucket 1 entries in memory: 0\n\
        bucket 1 level 0: 400\n";

    #[test]
    fn a_column_is_a_bucket_and_a_row_is_a_run() {
        let picture = Picture::of(STRUCTURE).expect("buckets");
        let lines = picture.lines();
        let rows = ["memory   █", "level 0  ░█", "         █", "level 2  █"];
        assert_eq!(lines[..4], rows);
        assert!(lines[4].contains("2 buckets") && lines[4].contains("from '<m>: ' on"));
        assert!(Picture::of("segments: 3\nlog end: 5\n").is_none());
    }

    #[test]
    fn an_svg_says_of_each_run_what_it_is() {
        let svg = Picture::of(STRUCTURE).expect("buckets").svg("a & b");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("a &amp; b"));
        assert_eq!(svg.matches("<rect x=").count(), 5);
        assert!(svg.contains("bucket 1 from '&lt;m&gt;: ', about"), "{svg}");
    }

    #[test]
    fn many_buckets_share_columns() {
        let line = |n: usize| format!("bucket {n} lower: 'k'\nbucket {n} level 0: {}\n", n + 1);
        let picture = Picture::of(&(0..1000).map(line).collect::<String>()).expect("buckets");
        let lines = picture.lines();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        assert_eq!(lines[1].chars().filter(|c| SHADES.contains(c)).count(), 63);
    }
}
