//! What is to be done with the buckets' runs next: pure arithmetic over their shapes.
//!
//! A bucket is a tree of at most three levels (sections 2.3.1 and 2.3.5 of the paper): runs of a
//! level are merged into one run of the next, so an entry is written once for each level that it
//! gets to. When that happens is up to four rules, in this order:
//!
//! 1. **Room.** A level has no more than `runs_max` runs. Where rule 2 applies, too, a bucket of as
//!    large a dead part as the store has becomes one run at once: it would soon. While nobody
//!    reads, a bucket may have as many runs in one level as it may have in all of them together:
//!    the rewrite for space that comes then does the work of such merges, too. What is over
//!    `runs_max` in a level is merged in quiet times, or once there are reads.
//! 2. **Space.** The store's dead bytes stay below what `space_amplification_percent_max` allows of
//!    its live bytes: else all runs of the bucket where most of the bytes are dead become one. So
//!    the store as a whole keeps to the number, and each rewrite frees as much as there is to free.
//! 3. **Reads.** From `runs_min` runs on a level is merged as soon as what gets have paid for
//!    looking at so many runs comes to what a merge costs, and from two runs on as soon as what
//!    searches of ranges have paid does; of several such buckets the one of the highest priority
//!    first (section 2.3.7). Before that, all runs are merged where iterators have paid for it by
//!    going through long runs of entries that are gone. With a `read_weight` of 0 reads do not
//!    count.
//! 4. **Small neighbours** become one bucket.
//!
//! Before them, a bucket of more than [`RANGES_MAX`] deleted ranges becomes one run, which ends
//! those that nobody needs: every read looks at all of them.
//!
//! Rules 2 and 3, and what rule 1 has of rule 2, rest while the store's write amplification is over
//! its ceiling, and so do merges for room that nobody waits for.
//!
//! A bucket is split where its live bytes are too many, or its keys, each of which takes memory
//! while the bucket's filter is made. Overwriting does not change them, so it never leads to a
//! split.

/// The highest level of a run, and how many levels there are.
pub(crate) const LEVEL_MAX: u8 = 2;
const LEVELS: usize = LEVEL_MAX as usize + 1;
/// Runs of a store up to which those that nobody reads are let be: each is an open file.
const UNREAD_RUNS_MAX: usize = 4096;
/// The pressure of a full level where its bucket has no more runs than all levels may have:
/// background work sees to it, and writers need not help.
const ROOM_PRESSURE_MAX: f64 = 1.25;
/// Buckets whose live bytes are less than one part in so many of a full one's are small.
const SMALL_PART: u64 = 16;
/// Bytes of merging that one more run looked at by one get is worth, at a read weight of 10.
const PROBE_BYTES: u64 = 32;
pub(crate) const READ_WEIGHT_USUAL: u64 = 10;
/// Bytes of merging that one entry that is gone is worth to who goes through a long run of them, at
/// a read weight of 10: a quarter of a microsecond, in which a merge moves as much.
pub(crate) const SKIPPED_BYTES: u64 = 48;
/// The part of the value log, and the bytes, that have to have expired for a compaction.
const APART_OVER_PART: u64 = 5;
const APART_OVER_MIN: u64 = 1 << 20;
/// Runs from which on searches of ranges may have a bucket compacted: no filter spares them one.
const RANGE_RUNS_MIN: usize = 2;
/// Deleted ranges of a bucket that reads look through.
pub(crate) const RANGES_MAX: usize = 64;
/// A bucket is rewritten for space where at least one part in so many of its bytes is dead.
const DEAD_PART_MIN: u64 = 16;
/// The part of the dead bytes allowed at which rewriting begins, at least and at most: late, so
/// that each rewrite frees much, and yet early enough for it to be done in time. Where buckets are
/// small beside what is allowed, one is done soon.
const REWRITE_FROM_MIN: f64 = 0.58;
const REWRITE_FROM_MAX: f64 = 0.95;
/// What may die while the largest bucket is rewritten, as a part of its bytes: about twice what
/// does where for each byte that users write two are rewritten.
const DYING_PART: f64 = 1.0;
/// What the pressure comes to when dead bytes are all that is allowed, so that nobody writes on,
/// and the most that they come to: a store of few bytes is soon rewritten.
const REWRITE_PRESSURE_MAX: f64 = 4.0;

/// A run as the policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RunShape {
    pub(crate) level: u8,
    pub(crate) bytes: u64,
    /// Bytes that are dead because of it, here or in older runs; estimated.
    pub(crate) dead_bytes: u64,
    /// Bytes of it that have expired, as of when this was asked for; estimated.
    pub(crate) expired_bytes: u64,
    pub(crate) versions: u64,
}

/// A bucket's runs, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) runs: Vec<RunShape>,
}

impl Shape {
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Bytes that a compaction of everything would free; estimated. What is hidden expires as
    /// often as what is not.
    pub(crate) fn dead_bytes(&self) -> u64 {
        let all = self.bytes();
        let hidden = self.runs.iter().map(|run| run.dead_bytes).sum::<u64>().min(all);
        let expired = self.runs.iter().map(|run| run.expired_bytes).sum::<u64>().min(all);
        let both = u128::from(hidden) * u128::from(expired) / u128::from(all.max(1));
        hidden + expired - both as u64
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.bytes() - self.dead_bytes()
    }

    pub(crate) fn versions(&self) -> u64 {
        self.runs.iter().map(|run| run.versions).sum()
    }

    /// Keys that are there; estimated.
    pub(crate) fn live_keys(&self) -> u64 {
        let live = self.live_bytes() as f64 / self.bytes().max(1) as f64;
        (self.versions() as f64 * live) as u64
    }

    /// Runs of the levels up to `level`: the newest.
    fn up_to(&self, level: u8) -> usize {
        self.runs.iter().take_while(|run| run.level <= level).count()
    }

    fn at(&self, level: u8) -> usize {
        self.runs.iter().filter(|run| run.level == level).count()
    }
}

/// A bucket as the policy sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'s> {
    pub(crate) shape: &'s Shape,
    /// Gets that asked its runs since the last compaction, about.
    pub(crate) reads: u64,
    /// The part of them that searches of ranges count for.
    pub(crate) range_reads: u64,
    /// Deleted ranges that end where all its runs are merged.
    pub(crate) ranges: usize,
    /// A job is at work on its runs.
    pub(crate) is_busy: bool,
    /// Below so many live bytes it is known to have too few keys for a split.
    pub(crate) split_from_bytes: u64,
    /// It has few entries outside of tables, and may be joined with a neighbour.
    pub(crate) is_idle: bool,
    /// Bytes of shared tables that no bucket sees and that stay because of this one.
    pub(crate) unneeded_bytes: u64,
    /// Bytes of values that lie apart whose entries have expired.
    pub(crate) apart_bytes_over: u64,
    /// Entries that are gone, in long runs that iterators went through since the last compaction.
    pub(crate) skipped: u64,
}

impl View<'_> {
    /// Bytes that a compaction of everything would free; estimated.
    fn dead_bytes(&self) -> u64 {
        self.shape.dead_bytes() + self.unneeded_bytes
    }

    /// Bytes of its runs, and of what stays because of them.
    fn bytes(&self) -> u64 {
        self.shape.bytes() + self.unneeded_bytes
    }

    /// The dead bytes as a part of all.
    fn dead_part(&self) -> f64 {
        self.dead_bytes() as f64 / self.bytes().max(1) as f64
    }
}

/// The knobs.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) runs_min: usize,
    pub(crate) runs_max: usize,
    pub(crate) read_weight: u64,
    pub(crate) space_amplification_percent_max: u64,
    pub(crate) bucket_bytes_max: u64,
    pub(crate) bucket_keys_max: u64,
}

/// What is asked of the store, and what it may do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demand {
    /// It wrote so much that it is not to write more than needed.
    pub(crate) is_over_ceiling: bool,
    /// There are threads for what can wait.
    pub(crate) is_attended: bool,
    /// There are, and lately nobody read.
    pub(crate) only_writes: bool,
    /// Bytes of the value log.
    pub(crate) value_log_bytes: u64,
}

/// Something to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The bucket at `.0` and the next become one.
    Join(usize),
    /// The `count` runs in front of the `older` oldest ones become one.
    Compact { place: usize, count: usize, older: usize },
}

impl Policy {
    /// A bucket that is to be split.
    pub(crate) fn split(&self, views: &[View<'_>]) -> Option<usize> {
        views.iter().position(|view| {
            let bytes = view.shape.live_bytes();
            let is_full =
                bytes > self.bucket_bytes_max || view.shape.live_keys() > self.bucket_keys_max;
            !view.is_busy && is_full && bytes > view.split_from_bytes
        })
    }

    /// What is most urgent besides splits.
    pub(crate) fn next(&self, views: &[View<'_>], demand: Demand) -> Option<Work> {
        let may_write = !demand.is_over_ceiling;
        Self::for_ranges(views)
            .or_else(|| self.for_room(views, demand))
            .or_else(|| if may_write { self.for_space(views) } else { None })
            .or_else(|| if may_write { Self::for_values(views, demand) } else { None })
            .or_else(|| if may_write { self.for_skips(views) } else { None })
            .or_else(|| if may_write { self.for_reads(views) } else { None })
            .or_else(|| self.small_neighbours(views))
    }

    /// What is worth doing in quiet times.
    pub(crate) fn when_idle(&self, views: &[View<'_>], demand: Demand) -> Option<Work> {
        let waits = demand.only_writes && !demand.is_over_ceiling;
        if waits { self.for_room(views, Demand::default()) } else { None }
    }

    /// True where buckets may have as many runs in one level as in all of them: lately nobody
    /// read, and there are not too many files.
    fn lets_runs_be(views: &[View<'_>], demand: Demand) -> bool {
        let runs = || views.iter().map(|view| view.shape.runs.len()).sum::<usize>();
        demand.only_writes && runs() < UNREAD_RUNS_MAX
    }

    /// How full the fullest level is, or how near the dead bytes are to where rewriting begins,
    /// whichever is more; 1 is where something has to be done.
    pub(crate) fn pressure(&self, views: &[View<'_>], demand: Demand) -> f64 {
        let runs_max = self.runs_max as f64;
        let fullest = |view: &View<'_>| (0..=LEVEL_MAX).map(|l| view.shape.at(l)).max();
        let of_a_level = views.iter().filter_map(fullest).max().unwrap_or(0) as f64;
        let of_a_bucket = views.iter().map(|view| view.shape.runs.len()).max().unwrap_or(0) as f64;
        // One where all levels together are full, two where one more is.
        let over = of_a_bucket / runs_max - (LEVELS as f64 - 1.0);
        let level = match demand {
            Demand { only_writes: true, .. } => 0.0,
            Demand { is_attended: true, .. } => (of_a_level / runs_max).min(ROOM_PRESSURE_MAX),
            _ => of_a_level / runs_max,
        };
        let full = over.max(level);
        if demand.is_over_ceiling {
            return full;
        }
        let dead: u64 = views.iter().map(View::dead_bytes).sum();
        let allowed = self.dead_bytes_max(views);
        let (part, from) = (dead as f64 / allowed as f64, rewrite_from(views, allowed));
        let over = (part - from) / (1.0 - from);
        let space =
            if over > 0.0 { 1.0 + over * (REWRITE_PRESSURE_MAX - 1.0) } else { part / from };
        full.max(space.min(REWRITE_PRESSURE_MAX))
    }

    /// Where too many ranges were deleted: everything.
    fn for_ranges(views: &[View<'_>]) -> Option<Work> {
        let has_many = |view: &View<'_>| !view.is_busy && view.ranges > RANGES_MAX;
        let place = views.iter().position(has_many)?;
        Some(Work::Compact { place, count: views[place].shape.runs.len(), older: 0 })
    }

    /// Where a level is full: it and all that is newer, or everything.
    fn for_room(&self, views: &[View<'_>], demand: Demand) -> Option<Work> {
        let mut best: Option<(f64, Work)> = None;
        let averages = Averages::of(views, self.runs_min);
        // Of the whole store, where rewriting for space is due.
        let is_due = !demand.is_over_ceiling && self.is_space_due(views);
        let lets_be = Self::lets_runs_be(views, demand);
        let dead_part = is_due.then(|| {
            let dead: u64 = views.iter().map(View::dead_bytes).sum();
            dead as f64 / views.iter().map(View::bytes).sum::<u64>().max(1) as f64
        });
        for (place, view) in views.iter().enumerate().filter(|(_, view)| !view.is_busy) {
            // The highest full level: what is newer goes along.
            let full = (0..=LEVEL_MAX).rev().find(|l| view.shape.at(*l) >= self.runs_max);
            let Some(level) = full else { continue };
            if lets_be && view.shape.runs.len() < LEVELS * self.runs_max {
                continue;
            }
            let is_soon = dead_part.is_some_and(|part| view.dead_part() >= part);
            let all = view.shape.runs.len();
            let count = if is_soon { all } else { view.shape.up_to(level) };
            let older = view.shape.runs.len() - count;
            let priority = self.priority(view, &averages);
            if best.as_ref().is_none_or(|(most, _)| *most < priority) {
                best = Some((priority, Work::Compact { place, count, older }));
            }
        }
        best.map(|(_, work)| work)
    }

    /// Dead bytes that are allowed; a few in any case.
    fn dead_bytes_max(&self, views: &[View<'_>]) -> u64 {
        let live: u64 = views.iter().map(|view| view.shape.live_bytes()).sum();
        let allowed = live / 100 * self.space_amplification_percent_max.saturating_sub(100);
        allowed.max(self.bucket_bytes_max / 60).max(1)
    }

    /// True where so many bytes are dead that buckets are to be rewritten. What is in hand will be
    /// free.
    fn is_space_due(&self, views: &[View<'_>]) -> bool {
        let idle = views.iter().filter(|view| !view.is_busy);
        let dead: u64 = idle.map(View::dead_bytes).sum();
        let allowed = self.dead_bytes_max(views);
        dead as f64 > allowed as f64 * rewrite_from(views, allowed)
    }

    fn for_space(&self, views: &[View<'_>]) -> Option<Work> {
        if !self.is_space_due(views) {
            return None;
        }
        let idle = views.iter().enumerate().filter(|(_, view)| !view.is_busy);
        let part = |view: &View<'_>| view.dead_part();
        let (place, view) = idle.max_by(|(_, a), (_, b)| part(a).total_cmp(&part(b)))?;
        let is_worth_it = view.dead_bytes() > view.bytes() / DEAD_PART_MIN;
        let count = view.shape.runs.len();
        is_worth_it.then_some(Work::Compact { place, count, older: 0 })
    }

    /// Where values that lie apart have expired, and their bytes come to a part of the value log:
    /// they are garbage once the entries that point at them are gone.
    fn for_values(views: &[View<'_>], demand: Demand) -> Option<Work> {
        let all: u64 = views.iter().map(|view| view.apart_bytes_over).sum();
        if all < (demand.value_log_bytes / APART_OVER_PART).max(APART_OVER_MIN) {
            return None;
        }
        let idle = views.iter().enumerate().filter(|(_, view)| !view.is_busy);
        let (place, view) = idle.max_by_key(|(_, view)| view.apart_bytes_over)?;
        let is_worth_it = view.apart_bytes_over > view.bytes() / DEAD_PART_MIN;
        is_worth_it.then_some(Work::Compact { place, count: view.shape.runs.len(), older: 0 })
    }

    /// Where iterators have paid for a compaction by going through what is gone.
    fn for_skips(&self, views: &[View<'_>]) -> Option<Work> {
        let has_paid = |view: &View<'_>| {
            let worth = view.skipped * SKIPPED_BYTES * self.read_weight / READ_WEIGHT_USUAL;
            !view.is_busy && worth > 0 && worth >= view.shape.bytes()
        };
        let place = views.iter().position(has_paid)?;
        let count = views[place].shape.runs.len();
        (count > 0).then_some(Work::Compact { place, count, older: 0 })
    }

    /// The paper's p, of the runs that a get looks at.
    fn priority(&self, view: &View<'_>, averages: &Averages) -> f64 {
        let reads = view.reads as f64 / averages.reads.max(1.0);
        let runs = view.shape.runs.len() as f64 / averages.runs.max(1.0);
        self.read_weight as f64 * reads + runs
    }

    /// Where gets have paid for a compaction, and as far as they have.
    fn for_reads(&self, views: &[View<'_>]) -> Option<Work> {
        let averages = Averages::of(views, self.runs_min);
        let mut best: Option<(f64, Work)> = None;
        for (place, view) in views.iter().enumerate() {
            if view.is_busy || self.read_weight == 0 {
                continue;
            }
            let by_all = self.paid_for(view.shape, view.reads, self.runs_min);
            let by_ranges = self.paid_for(view.shape, view.range_reads, RANGE_RUNS_MIN);
            let Some(count) = by_all.max(by_ranges) else { continue };
            let priority = self.priority(view, &averages);
            if best.as_ref().is_none_or(|(most, _)| *most < priority) {
                let older = view.shape.runs.len() - count;
                best = Some((priority, Work::Compact { place, count, older }));
            }
        }
        best.map(|(_, work)| work)
    }

    /// The most runs, of whole levels and at least `runs_min`, that `reads` have paid for merging.
    fn paid_for(&self, shape: &Shape, reads: u64, runs_min: usize) -> Option<usize> {
        let counts = (0..=LEVEL_MAX).rev().map(|level| shape.up_to(level));
        let mut counts = counts.filter(|count| *count >= runs_min);
        counts.find(|count| {
            let cost: u64 = shape.runs[..*count].iter().map(|run| run.bytes).sum();
            let worth = reads * (*count as u64 - 1) * PROBE_BYTES;
            worth * self.read_weight / READ_WEIGHT_USUAL >= cost
        })
    }

    fn small_neighbours(&self, views: &[View<'_>]) -> Option<Work> {
        let (bytes, keys) = (self.bucket_bytes_max / SMALL_PART, self.bucket_keys_max / SMALL_PART);
        let is_small = |view: &View<'_>| {
            let shape = view.shape;
            !view.is_busy && view.is_idle && shape.bytes() <= bytes && shape.versions() <= keys
        };
        let place = views.windows(2).position(|pair| is_small(&pair[0]) && is_small(&pair[1]))?;
        Some(Work::Join(place))
    }
}

/// The part of the `allowed` dead bytes at which rewriting begins.
fn rewrite_from(views: &[View<'_>], allowed: u64) -> f64 {
    let largest = views.iter().map(|view| view.shape.bytes()).max().unwrap_or(0);
    let dying = DYING_PART * largest as f64 / allowed as f64;
    (1.0 - dying).clamp(REWRITE_FROM_MIN, REWRITE_FROM_MAX)
}

/// Averages over the buckets that may be compacted.
struct Averages {
    reads: f64,
    runs: f64,
}

impl Averages {
    fn of(views: &[View<'_>], runs_min: usize) -> Self {
        let eligible = || views.iter().filter(|view| view.shape.runs.len() >= runs_min);
        let count = eligible().count().max(1) as f64;
        let reads: u64 = eligible().map(|view| view.reads).sum();
        let runs: usize = eligible().map(|view| view.shape.runs.len()).sum();
        Averages { reads: reads as f64 / count, runs: runs as f64 / count }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
