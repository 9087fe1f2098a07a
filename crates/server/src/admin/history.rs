//! What happened since the start, up to a day: rings of rows, each of its own step.
//!
//! A row covers the time since the row before it in the same ring, so rates and percentiles of
//! coarse rows are those of their whole span. The rings have all of their memory from the start,
//! and it counts as clients' memory.

use super::series::{SERIES, Snapshot};
use silica_commands::Budget;
use std::sync::Arc;

/// Seconds of a step and steps, of each ring: 5 minutes, an hour, 6 hours and a day.
const RINGS: [(u64, usize); 4] = [(1, 300), (10, 360), (60, 360), (240, 360)];

/// Rows of one step, oldest first from `begin` on.
struct Ring {
    step_s: u64,
    /// When each row ended, in Unix milliseconds.
    ends: Box<[u64]>,
    values: Box<[f32]>,
    begin: usize,
    len: usize,
    /// Where the next row begins.
    last: Option<Snapshot>,
}

impl Ring {
    fn new(step_s: u64, rows: usize) -> Self {
        let values = vec![f32::NAN; rows * SERIES.len()].into_boxed_slice();
        let ends = vec![0; rows].into_boxed_slice();
        Ring { step_s, ends, values, begin: 0, len: 0, last: None }
    }

    fn held_bytes(&self) -> usize {
        size_of_val(&*self.ends) + size_of_val(&*self.values)
    }

    /// Adds a row that ends `now`, if the step is over.
    fn add(&mut self, now: &Snapshot) {
        let Some(last) = &self.last else {
            self.last = Some(now.clone());
            return;
        };
        // A sample may come a little early; half a sample is as near as it gets.
        if now.at_ms.saturating_sub(last.at_ms) + SAMPLE_MS / 2 < self.step_s * 1000 {
            return;
        }
        let rows = self.ends.len();
        let row = (self.begin + self.len) % rows;
        match self.len == rows {
            true => self.begin = (self.begin + 1) % rows,
            false => self.len += 1,
        }
        self.ends[row] = now.unix_ms;
        let values = &mut self.values[row * SERIES.len()..][..SERIES.len()];
        for (value, series) in values.iter_mut().zip(&SERIES) {
            *value = series.value(last, now);
        }
        self.last = Some(now.clone());
    }

    /// Places of the rows that end after `after_ms`, oldest first.
    fn rows(&self, after_ms: u64) -> impl Iterator<Item = usize> {
        let place = |n| (self.begin + n) % self.ends.len();
        (0..self.len).map(place).filter(move |row| self.ends[*row] > after_ms)
    }
}

/// Milliseconds between samples.
pub(super) const SAMPLE_MS: u64 = 1000;

/// The history of a server.
pub(super) struct History {
    rings: Vec<Ring>,
    budget: Arc<Budget>,
    held_bytes: usize,
    sampled_ms: Option<u64>,
}

impl History {
    /// An empty history whose memory counts in `budget`.
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        let rings: Vec<Ring> = RINGS.iter().map(|(step, rows)| Ring::new(*step, *rows)).collect();
        let held_bytes = rings.iter().map(Ring::held_bytes).sum();
        budget.add(held_bytes);
        History { rings, budget: Arc::clone(budget), held_bytes, sampled_ms: None }
    }

    /// Milliseconds until the next sample is due.
    pub(super) fn due_ms(&self, now_ms: u64) -> u64 {
        let next = self.sampled_ms.map_or(now_ms, |last| last + SAMPLE_MS);
        next.saturating_sub(now_ms)
    }

    /// Adds a sample to every ring whose step is over.
    pub(super) fn add(&mut self, now: &Snapshot) {
        // The next sample is due a second after this one was, so that samples do not drift.
        let was_due = self.sampled_ms.map_or(now.at_ms, |last| last + SAMPLE_MS);
        let is_late = now.at_ms.saturating_sub(was_due) >= SAMPLE_MS;
        self.sampled_ms = Some(if is_late { now.at_ms } else { was_due });
        self.rings.iter_mut().for_each(|ring| ring.add(now));
    }

    /// The rows that end after `after_ms` of the finest ring that covers `span_s` seconds, as
    /// JSON: `{"step_s":…,"steps":…,"end_ms":[…],"series":{NAME:[…]}}`, with `null` where nothing
    /// was counted.
    pub(super) fn json(&self, span_s: u64, after_ms: u64) -> String {
        let covers = |ring: &&Ring| ring.step_s * ring.ends.len() as u64 >= span_s;
        let ring = self.rings.iter().find(covers).or(self.rings.last()).expect("there are rings");
        let rows: Vec<usize> = ring.rows(after_ms).collect();
        let steps = ring.ends.len();
        let mut out = format!("{{\"step_s\":{},\"steps\":{steps},\"end_ms\":[", ring.step_s);
        join(&mut out, rows.iter().map(|row| ring.ends[*row].to_string()));
        out.push_str("],\"series\":{");
        for (index, series) in SERIES.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            out.push_str(&format!("{comma}\"{}\":[", series.name));
            let value = |row: &usize| short(ring.values[row * SERIES.len() + index]);
            join(&mut out, rows.iter().map(value));
            out.push(']');
        }
        out.push_str("}}");
        out
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.budget.give_back(self.held_bytes);
    }
}

fn join(out: &mut String, parts: impl Iterator<Item = String>) {
    for (index, part) in parts.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&part);
    }
}

/// A number with four digits that count, as JSON.
fn short(value: f32) -> String {
    let value = f64::from(value);
    match value.abs() {
        _ if !value.is_finite() => "null".into(),
        0.0 => "0".into(),
        1000.0.. => format!("{value:.0}"),
        size => {
            let decimals = (3.0 - size.log10().floor()).clamp(0.0, 9.0) as usize;
            let text = format!("{value:.decimals$}");
            let text = if decimals > 0 { text.trim_end_matches('0') } else { &text };
            text.trim_end_matches('.').into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64) -> Snapshot {
        let mut sample = Snapshot::default();
        (sample.at_ms, sample.unix_ms) = (second * 1000, 1_000_000 + second * 1000);
        sample
    }

    #[test]
    fn rings_keep_the_last_steps_and_no_more_memory() {
        let budget = Budget::new(1 << 20);
        let mut history = History::new(&budget);
        let held = budget.used();
        assert!((200 << 10..400 << 10).contains(&held), "{held}");
        (0..100_000).for_each(|second| history.add(&sample(second)));
        assert_eq!(budget.used(), held);
        let rows = |span_s, after_ms| -> Vec<u64> {
            let json: serde_json::Value =
                serde_json::from_str(&history.json(span_s, after_ms)).expect("it is JSON");
            let ends = json["end_ms"].as_array().expect("an array").iter();
            let ends: Vec<u64> = ends.map(|end| end.as_u64().expect("a number")).collect();
            for series in &SERIES {
                let values = json["series"][series.name].as_array().expect(series.name);
                assert_eq!(values.len(), ends.len(), "{}", series.name);
            }
            ends
        };
        for (span_s, step_s, steps) in
            [(300, 1, 300), (301, 10, 360), (3600, 10, 360), (21_600, 60, 360), (86_400, 240, 360)]
        {
            let ends = rows(span_s, 0);
            assert_eq!(ends.len(), steps, "{span_s}");
            assert!(ends.windows(2).all(|pair| pair[1] - pair[0] == step_s * 1000), "{span_s}");
            assert!(ends[steps - 1] > 1_000_000 + (99_999 - step_s) * 1000, "{span_s}");
        }
        assert_eq!(rows(300, 1_000_000 + 99_996_000), [100_997_000, 100_998_000, 100_999_000]);
        drop(history);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn numbers_are_short_and_right() {
        let shown = [0.0, 1.0, 0.123_456, 12.5, 999.96, 1_234_567.0, 1e-12, f32::NAN].map(short);
        assert_eq!(shown, ["0", "1", "0.1235", "12.5", "1000", "1234567", "0", "null"]);
    }
}
