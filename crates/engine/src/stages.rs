//! Where gets spend their time, for those who ask.

use silica_base::Clock;

/// What a get is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looking at what was written last and is in memory: memtables, log stores, tables of a cache.
    Memory,
    /// Asking filters whether a file may have the key.
    Filter,
    /// Finding the place in a file by its index.
    Index,
    /// Asking the block cache, and putting into it what was read.
    Cache,
    /// Waiting to be run by a thread, and handing reads to the device.
    Queue,
    /// Waiting for the device.
    Device,
    /// Checking, decompressing and searching what was read or found in the cache.
    Search,
    /// Everything else: passing values on, and engines that do not tell their stages apart.
    Other,
}

impl Stage {
    /// All stages, in the order in which they are shown.
    pub const ALL: [Stage; 8] = [
        Stage::Queue,
        Stage::Memory,
        Stage::Filter,
        Stage::Index,
        Stage::Cache,
        Stage::Device,
        Stage::Search,
        Stage::Other,
    ];

    /// The stage's name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Memory => "memory",
            Stage::Filter => "filter",
            Stage::Index => "index",
            Stage::Cache => "cache",
            Stage::Queue => "queue",
            Stage::Device => "device",
            Stage::Search => "search",
            Stage::Other => "other",
        }
    }
}

/// Told by an engine which stage its reads enter. A read path is compiled once for nobody, where
/// that costs nothing, and once for [`Stages`].
pub trait StageWatch {
    /// From now on time belongs to `stage`.
    fn enter(&mut self, stage: Stage);
}

/// Nobody: the calls vanish.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl StageWatch for Unwatched {
    #[inline(always)]
    fn enter(&mut self, _: Stage) {}
}

impl<W: StageWatch + ?Sized> StageWatch for &mut W {
    #[inline(always)]
    fn enter(&mut self, stage: Stage) {
        (**self).enter(stage);
    }
}

/// What one stage took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTime {
    /// Nanoseconds, those of looking at the clock (some 30 for each entry) included.
    pub nanoseconds: u64,
    /// How often it was entered.
    pub times: u64,
}

/// Adds up what stages take, from its making on. Every moment belongs to one stage.
pub struct Stages<'c> {
    clock: &'c dyn Clock,
    now: Stage,
    since_ns: u64,
    spent: [StageTime; Stage::ALL.len()],
}

impl<'c> Stages<'c> {
    /// Begins in `stage`.
    pub fn start(clock: &'c dyn Clock, stage: Stage) -> Self {
        let mut spent = [StageTime::default(); Stage::ALL.len()];
        spent[stage as usize].times = 1;
        Stages { clock, now: stage, since_ns: clock.monotonic_ns(), spent }
    }

    /// What each stage took until now.
    pub fn stop(mut self) -> StageTimes {
        self.enter(Stage::Other);
        StageTimes(self.spent)
    }
}

impl StageWatch for Stages<'_> {
    fn enter(&mut self, stage: Stage) {
        let now_ns = self.clock.monotonic_ns();
        self.spent[self.now as usize].nanoseconds += now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        if stage != self.now {
            self.spent[stage as usize].times += 1;
            self.now = stage;
        }
    }
}

/// What the stages of some reads took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTimes([StageTime; Stage::ALL.len()]);

impl StageTimes {
    /// What one of them took.
    pub fn of(&self, stage: Stage) -> StageTime {
        self.0[stage as usize]
    }

    /// Those that took any time, in the order of [`Stage::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Stage, StageTime)> {
        let times = *self;
        let all = Stage::ALL.into_iter().map(move |stage| (stage, times.of(stage)));
        all.filter(|(_, time)| time.nanoseconds > 0)
    }

    /// Nanoseconds of all.
    pub fn nanoseconds(&self) -> u64 {
        self.0.iter().map(|time| time.nanoseconds).sum()
    }

    /// Adds those of other reads.
    pub fn add(&mut self, other: &StageTimes) {
        for (mine, its) in self.0.iter_mut().zip(&other.0) {
            mine.nanoseconds += its.nanoseconds;
            mine.times += its.times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::ManualClock;

    #[test]
    fn every_moment_belongs_to_one_stage() {
        let clock = ManualClock::default();
        let mut stages = Stages::start(&clock, Stage::Queue);
        clock.advance_ns(5);
        stages.enter(Stage::Memory);
        clock.advance_ns(7);
        stages.enter(Stage::Device);
        clock.advance_ns(100);
        stages.enter(Stage::Device);
        clock.advance_ns(1);
        stages.enter(Stage::Memory);
        clock.advance_ns(2);
        let mut times = stages.stop();
        let shown: Vec<_> = times.iter().map(|(s, t)| (s.name(), t.nanoseconds, t.times)).collect();
        assert_eq!(shown, [("queue", 5, 1), ("memory", 9, 2), ("device", 101, 1)]);
        assert_eq!(times.nanoseconds(), 115);
        times.add(&times.clone());
        assert_eq!(times.of(Stage::Memory), StageTime { nanoseconds: 18, times: 4 });
        for (place, stage) in Stage::ALL.into_iter().enumerate() {
            assert!(!Stage::ALL[..place].contains(&stage) && (stage as usize) < Stage::ALL.len());
        }
    }
}
