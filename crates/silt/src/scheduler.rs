//! Background work: conversions, merges, upkeep. Each `maintain` call does the more pressing one
//! in bounded steps; writers that outrun it do a share themselves.

use crate::conversion::Conversions;
use crate::counters::add;
use crate::ground::Ground;
use crate::intake::{ASSIST_EVERY_BYTES, Intake};
use crate::journal::Journal;
use crate::memory::Memory;
use crate::merge_job::Merges;
use crate::partitions::Partitions;
use crate::reclaim::Reclaims;
use crate::space::Space;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{Budget, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A writer's share of maintenance per byte written, for each unit of pressure above where
/// slowing begins, and at the most: several times the write amplification, so that a backlog
/// shrinks, and little enough that no write stands still.
const ASSIST_BYTES_PER_BYTE: f64 = 16.0;
const ASSIST_BYTES_PER_BYTE_MAX: f64 = 24.0;
/// Pressure at which writers begin to help.
const ASSIST_PRESSURE: f64 = 1.25;
/// Pressure at which a writer waits for a job that another thread has in hand: the end of a large
/// merge takes a while.
const WAIT_PRESSURE: f64 = 2.0;
/// Pressure at which writers are refused while maintenance fails.
const REFUSE_PRESSURE: f64 = 3.0;

/// How far the two kinds of work are behind; 1 is where each should be going on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pressure {
    pub(crate) conversion: f64,
    pub(crate) merge: f64,
    /// The partition to merge next.
    pub(crate) merge_partition: usize,
}

impl Pressure {
    fn most(&self) -> f64 {
        self.conversion.max(self.merge)
    }

    /// Puts the merge that frees what has expired first where that is further behind.
    fn for_expired(self, (merge, merge_partition): (f64, usize)) -> Self {
        if merge > self.merge { Pressure { merge, merge_partition, ..self } } else { self }
    }

    /// Puts the merge that frees space first, if there is one: conversions would take the room
    /// that it needs.
    fn for_space(self, partition: Option<usize>) -> Self {
        match partition {
            Some(merge_partition) => {
                let merge = self.merge.max(1.0 + self.conversion);
                Pressure { merge, merge_partition, ..self }
            }
            None => self,
        }
    }
}

/// Decides what is done next. Locks are taken in the order conversion, merge, reclaimed segment,
/// writer, install, book.
pub(crate) struct Scheduler<D: Device> {
    ground: Arc<Ground<D>>,
    journal: Arc<Journal<D>>,
    partitions: Arc<Partitions<D>>,
    memory: Memory<D>,
    space: Arc<Space<D>>,
    intake: Arc<Intake<D>>,
    pub(crate) conversions: Conversions<D>,
    pub(crate) merges: Merges<D>,
    pub(crate) reclaims: Reclaims<D>,
    /// The last background work failed.
    stuck: AtomicBool,
}

impl<D: Device> Scheduler<D> {
    pub(crate) fn new(
        partitions: &Arc<Partitions<D>>,
        space: &Arc<Space<D>>,
        intake: &Arc<Intake<D>>,
    ) -> Self {
        Scheduler {
            ground: Arc::clone(&partitions.ground),
            journal: Arc::clone(&partitions.journal),
            partitions: Arc::clone(partitions),
            memory: Memory::new(partitions),
            space: Arc::clone(space),
            intake: Arc::clone(intake),
            conversions: Conversions::new(partitions, space),
            merges: Merges::new(partitions, space),
            reclaims: Reclaims::new(partitions, space, intake),
            stuck: AtomicBool::new(false),
        }
    }

    /// Does work worth about `budget.bytes`; where another thread has a job in hand, waits for it
    /// or, without `wait`, does another.
    pub(crate) fn run_jobs(&self, budget: Budget, wait: bool) -> Result<Progress> {
        let mut bytes = 0;
        if self.ground.is_short_of_space() {
            self.space.look_at_space(0);
        }
        loop {
            self.intake.freeze_for_space()?;
            self.intake.freeze_for_merges(&self.space, self.ground.room.is_wanted());
            self.intake.freeze_expired(budget.is_idle)?;
            let pressure = self.pressure();
            let left = budget.bytes.saturating_sub(bytes).max(1);
            let Some(done) = self.step_most_pressing(left, &pressure, wait)? else {
                if wait {
                    self.space.stop_wanting();
                }
                return Ok(Progress { bytes, more: false });
            };
            bytes += done.max(1);
            if bytes >= budget.bytes {
                return Ok(Progress { bytes, more: true });
            }
        }
    }

    /// One step of the more pressing job, of the other where that has nothing to do, or of upkeep.
    fn step_most_pressing(
        &self,
        left: u64,
        pressure: &Pressure,
        wait: bool,
    ) -> Result<Option<u64>> {
        if let Some(done) = self.partitions.step_discard()? {
            return Ok(Some(done));
        }
        let merge_first = pressure.merge > pressure.conversion;
        let due = (pressure.merge >= 1.0).then_some(pressure.merge_partition);
        if merge_first && let Some(done) = self.merges.step(left, due, wait)? {
            return Ok(Some(done));
        }
        if let Some(done) = self.conversions.step(left, wait)? {
            return Ok(Some(done));
        }
        if !merge_first && let Some(done) = self.merges.step(left, due, wait)? {
            return Ok(Some(done));
        }
        self.step_upkeep()
    }

    /// One piece of upkeep; the bytes it cost, or `None` where nothing is to be done.
    fn step_upkeep(&self) -> Result<Option<u64>> {
        if let Some(bytes) = self.memory.step_indexes()? {
            return Ok(Some(bytes));
        }
        self.reclaims.step()
    }

    /// How far maintenance is behind.
    pub(crate) fn pressure(&self) -> Pressure {
        let mut frozen = 0;
        let mut floor = u64::MAX;
        let (mut hash_entries, mut sorted_entries) = (0, 0);
        let mut best = (0.0, 0);
        let mut hash_stores = 0;
        let mut crowded = 0.0f64;
        for (index, partition) in self.partitions.iter().enumerate() {
            let version = partition.version();
            frozen += version.frozen.len();
            floor = floor.min(version.floor);
            let (h, s) = (version.hash_store_entries(), version.sorted_store_entries());
            hash_entries += h;
            sorted_entries += s;
            let stores = version.hash_stores.len();
            hash_stores += stores;
            crowded = crowded.max(self.memory.crowding(&version));
            let enough = if s == 0 { self.ground.config.hash_stores_min } else { 1 };
            let share = h as f64 / s.max(1) as f64;
            if stores >= enough && share > best.0 {
                best = (share, index);
            }
        }
        let window = self.journal.log.end().saturating_sub(floor) as f64;
        let backlog = frozen as f64 / (self.partitions.len() as f64 / 4.0 + 1.0);
        let waiting = if frozen == 0 { 0.0 } else { 0.01 };
        // Partitions are merged one after the other, the fullest first. Just before a merge they
        // have gathered 1/P, 2/P, … P/P of what one gathers, (P + 1) / 2P on average: that is
        // what the sum over all is compared with, at least with the hash stores of a first merge.
        let partitions = self.partitions.len();
        let first = partitions * self.ground.config.hash_stores_min * hash_entries as usize
            / (2 * hash_stores).max(1);
        let mean_share = (partitions + 1) as f64 / (2 * partitions) as f64;
        let ratio = self.ground.config.merge_ratio_percent as f64 / 100.0 * mean_share;
        let gathered = (sorted_entries as f64 * ratio).max(first as f64);
        let merge = hash_entries as f64 / gathered.max(1.0);
        Pressure {
            conversion: (window / self.ground.log_bytes_max() as f64).max(backlog).max(waiting),
            merge: if best.0 == 0.0 {
                0.0
            } else {
                merge.max(crowded).max(self.memory.filter_pressure(best.0))
            },
            merge_partition: best.1,
        }
        .for_expired(self.partitions.expired_pressure())
        .for_space(self.space.merge_for_space())
    }

    /// Before a write: where background work failed (a full disk, a damaged file) and is far
    /// behind, tries again and passes its error on. Deletes are let through: they make space.
    #[inline]
    pub(crate) fn refuse_if_stuck(&self) -> Result<()> {
        if !self.stuck.load(Ordering::Relaxed) {
            return Ok(());
        }
        let result = self.run_jobs(Budget::amid_work(ASSIST_EVERY_BYTES), true);
        if result.is_ok() {
            self.stuck.store(false, Ordering::Relaxed);
        }
        if self.pressure().most() < REFUSE_PRESSURE {
            return Ok(());
        }
        result.map(|_| ()).map_err(|e| e.within("background work cannot go on"))
    }

    /// After every [`ASSIST_EVERY_BYTES`] of writes, `debt` in all: where maintenance is behind,
    /// does a share of it that grows with the backlog, so that writers slow down smoothly instead
    /// of stopping. The write itself is done, so an error here is for later ones: see
    /// [`Scheduler::refuse_if_stuck`].
    pub(crate) fn assist(&self, debt: u64) {
        if let Err(error) = self.journal.log.sync_before_end(&|| self.journal.sync_log()) {
            ::log::warn!("a sync of a SILT store's log: {error}");
        }
        let pressure = self.pressure().most();
        if pressure < ASSIST_PRESSURE {
            return;
        }
        add(&self.ground.metrics.writes_slowed, 1);
        let share = (pressure - ASSIST_PRESSURE + 0.25) * ASSIST_BYTES_PER_BYTE;
        let share = share.min(ASSIST_BYTES_PER_BYTE_MAX);
        let budget = Budget::amid_work((debt as f64 * share) as u64);
        if let Err(error) = self.run_jobs(budget, pressure > WAIT_PRESSURE) {
            ::log::warn!("background work of a SILT store: {error}");
            self.stuck.store(true, Ordering::Relaxed);
        }
    }
}
