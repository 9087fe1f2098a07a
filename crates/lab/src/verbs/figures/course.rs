//! A run cut into slices, with what the store wrote until each: curves over time.

use crate::verbs::measured::write_calls;
use silica::Result;
use silica_bench::{Pace, Plan, Slice, Target, drive_slices};
use std::time::Duration;

/// Counters of the bytes that our ordered engine writes, the log first.
const WRITTEN: [&str; 4] = [
    "log_bytes_written",
    "flush_bytes_written",
    "compaction_bytes_written",
    "value_log_bytes_written",
];

/// A slice of a run, and what had been done at its end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Point {
    /// Entries put so far.
    pub(super) puts: f64,
    /// Seconds of all slices so far.
    pub(super) seconds: f64,
    /// Puts a second in this slice.
    pub(super) puts_rate: f64,
    /// Gets a second in this slice.
    pub(super) gets_rate: f64,
    /// Bytes written so far for each byte put, the log included.
    pub(super) written: f64,
    /// As `written`, of tables alone; of stores of ours.
    pub(super) written_tables: f64,
    /// Buckets of key ranges, of our ordered engine.
    pub(super) buckets: f64,
}

/// Runs `plan` in slices of this length.
pub(super) fn course(plan: &Plan, target: &dyn Target, slice: Duration) -> Result<Vec<Point>> {
    let mut course = Course {
        entry_bytes: (plan.shape.key_bytes + plan.shape.value_bytes) as f64,
        begun: Seen::now(target)?,
        before: 0.0,
        seconds: 0.0,
        points: Vec::new(),
        target,
        slice,
    };
    drive_slices(plan, target, &mut course)?;
    Ok(course.points)
}

/// The slice with which a run of `plan` at `rate` operations a second has about `count`.
pub(super) fn slice(plan: &Plan, rate: f64, count: f64) -> Duration {
    Duration::from_secs_f64((plan.operations as f64 / rate / count).clamp(0.01, 60.0))
}

/// What a store wrote so far.
#[derive(Debug, Clone, Copy)]
struct Seen {
    puts: f64,
    all: f64,
    tables: f64,
    buckets: f64,
}

impl Seen {
    fn now(target: &dyn Target) -> Result<Seen> {
        let metrics = target.metrics()?;
        let is_ours = metrics.0.contains_key(WRITTEN[0]);
        let tables: f64 = WRITTEN[1..].iter().map(|name| metrics.get(name)).sum();
        // Of others, what this process gave to write calls: they map no file to write.
        let all = match is_ours {
            true => tables + metrics.get(WRITTEN[0]),
            false => write_calls()?,
        };
        Ok(Seen { puts: metrics.get("puts"), all, tables, buckets: metrics.get("buckets") })
    }
}

struct Course<'a> {
    entry_bytes: f64,
    begun: Seen,
    /// Entries put before this slice.
    before: f64,
    seconds: f64,
    points: Vec<Point>,
    target: &'a dyn Target,
    slice: Duration,
}

impl Pace for Course<'_> {
    fn next(&mut self) -> Result<Option<Duration>> {
        Ok(Some(self.slice))
    }

    fn done(&mut self, slice: &Slice) -> Result<()> {
        let now = Seen::now(self.target)?;
        let puts = now.puts - self.begun.puts;
        let seconds = slice.wall_seconds.max(1e-9);
        self.seconds += slice.wall_seconds;
        let put = puts * self.entry_bytes;
        if put > 0.0 {
            self.points.push(Point {
                puts,
                seconds: self.seconds,
                puts_rate: (puts - self.before) / seconds,
                gets_rate: (slice.operations as f64 - (puts - self.before)).max(0.0) / seconds,
                written: (now.all - self.begun.all) / put,
                written_tables: (now.tables - self.begun.tables) / put,
                buckets: now.buckets,
            });
        }
        self.before = puts;
        Ok(())
    }

    fn sample(&mut self, _: f64) {}
}

/// At most `count` of `points`, evenly, the last among them.
pub(super) fn thinned(points: &[Point], count: usize) -> Vec<Point> {
    let step = points.len().div_ceil(count).max(1);
    points.iter().rev().step_by(step).rev().copied().collect()
}
