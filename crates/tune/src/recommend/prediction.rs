//! What a setting comes to on a machine: throughput as the least that any resource allows, life,
//! and money.

use crate::{Machine, Survival, Workload};

use super::engines::Cost;
use super::goal::Prices;
use super::processor::in_burst;
use super::work::Work;

/// Reads of one call that are in flight together, at most.
const READS_MAX: f64 = 128.0;
/// Bytes that background work reads and writes at once.
const BACKGROUND_BYTES: f64 = 1048576.0;
/// Threads that do background work, as a store is opened.
const BACKGROUND_THREADS: f64 = 1.0;
const GIB: f64 = 1073741824.0;
const MONTH_SECONDS: f64 = 2_629_746.0;
const YEAR_SECONDS: f64 = 12.0 * MONTH_SECONDS;
/// More years than anybody asks for: a device that is not written lives as long.
pub(super) const YEARS_MAX: f64 = 1000.0;

/// Something that there is only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// All cores.
    Processor,
    /// Threads that call, each of which waits for its own reads and syncs.
    Callers,
    /// The threads of background work.
    Background,
    /// Random reads of the device.
    DeviceReads,
    /// Bytes that the device writes, and reads for merging.
    DeviceWrites,
    /// Syncs of the log.
    Syncs,
}

impl Resource {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Processor => "processor",
            Resource::Callers => "waiting of callers",
            Resource::Background => "background work",
            Resource::DeviceReads => "device reads",
            Resource::DeviceWrites => "device writes",
            Resource::Syncs => "syncs",
        }
    }
}

/// What one setting of an engine comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Operations a second: as many as the scarcest resource allows.
    pub throughput: f64,
    /// Seconds of each resource that an operation takes, and all that there is of it counts as
    /// one: the throughput is the reciprocal of the largest.
    pub resources: [(Resource, f64); 6],
    /// Seconds that a caller spends on an operation: computing, waiting for reads, for syncs.
    pub caller: [(&'static str, f64); 3],
    /// The engine's cost.
    pub cost: Cost,
    /// Device reads of a get, hits and misses as the workload has them.
    pub reads_per_get: f64,
    /// Bytes of memory.
    pub memory_bytes: f64,
    /// Bytes on the device.
    pub device_bytes: f64,
    /// Years until the device is worn, at the workload's rate or else at full throughput (equation
    /// 2.8 of Lim's dissertation); 1000 where more.
    pub life_years: f64,
    /// Money a month.
    pub money_per_month: f64,
}

impl Prediction {
    /// Bytes written to the device for each byte put.
    pub fn written(&self) -> f64 {
        self.cost.write_amplification()
    }

    /// The resource that is scarcest.
    pub fn bottleneck(&self) -> Resource {
        let mut worst = self.resources[0];
        for resource in self.resources {
            if resource.1 > worst.1 {
                worst = resource;
            }
        }
        worst.0
    }

    /// Computes it.
    pub(super) fn new(
        work: &Work<'_>,
        cost: Cost,
        memory_bytes: f64,
        machine: &Machine,
        prices: &Prices,
    ) -> Self {
        let demand = Demand::new(work, &cost, machine);
        let resources = demand.resources(work.workload, machine);
        let most = resources.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        let throughput = 1.0 / most.max(1e-12);
        let rate = work.workload.rate.map_or(throughput, |rate| rate.min(throughput));
        let bytes_per_second = rate * demand.bytes_written;
        let device = &machine.device;
        let endurance =
            device.endurance_bytes.unwrap_or(device.capacity_bytes as f64 * prices.erase_cycles);
        let life_years = (endurance / bytes_per_second.max(1e-9) / YEAR_SECONDS).min(YEARS_MAX);
        let worn_a_month = bytes_per_second * MONTH_SECONDS / endurance;
        let wear = worn_a_month * device.capacity_bytes as f64 / GIB * prices.device_per_gib;
        let kept = cost.device_bytes / GIB * prices.device_per_gib / prices.months;
        let dram = memory_bytes / GIB * prices.memory_per_gib / prices.months;
        Prediction {
            throughput,
            resources,
            caller: demand.caller(work.workload),
            reads_per_get: demand.reads_per_get,
            memory_bytes,
            device_bytes: cost.device_bytes,
            life_years,
            money_per_month: dram + kept.max(wear),
            cost,
        }
    }
}

/// What one operation of the mix asks for, on average.
struct Demand {
    /// Seconds of the caller's processor time, that of device reads left out.
    foreground: f64,
    /// That of device reads.
    reading: f64,
    /// Seconds of processor time in the background.
    background: f64,
    reads: f64,
    reads_per_get: f64,
    bytes_written: f64,
    /// Bytes that merging reads and writes.
    bytes_moved: f64,
    /// Seconds that jobs wait for the device, besides for those bytes.
    job_waits: f64,
    synced: f64,
    /// Seconds for a read, seen by whoever waits for it.
    read_seconds: f64,
    sync_seconds: f64,
}

/// Bytes that the medium of mapped bytes writes for an operation, if it is one that wears and has
/// a rate: persistent memory. Of ordinary memory they are no device's.
fn of_media(mix: &crate::Mix, cost: &Cost, machine: &Machine) -> f64 {
    match machine.survival {
        Survival::Power => mix.writes() * cost.media.written_by(mix).unwrap_or(0.0),
        Survival::Process | Survival::Disk => 0.0,
    }
}

impl Demand {
    fn new(work: &Work<'_>, cost: &Cost, machine: &Machine) -> Self {
        let (workload, mix) = (work.workload, &work.mix);
        let threads = f64::from(workload.threads);
        // What is lost is asked for in vain.
        let hits = (mix.get_hits + mix.modifies) * (1.0 - cost.lost);
        let misses = mix.get_misses + (mix.get_hits + mix.modifies) * cost.lost;
        let get_reads = hits * cost.reads_per_hit + misses * cost.reads_per_miss;
        let gets = mix.reads();
        let reads = get_reads + mix.scans * cost.reads_per_scan;
        let at_once = if gets > 0.0 { (workload.burst * get_reads / gets).max(1.0) } else { 1.0 };
        let at_once = at_once.min(READS_MAX);
        let depth = threads * at_once;
        let p = &cost.processor;
        let per = |alone, burst| in_burst(alone, burst, workload.burst) * 1e-9;
        let scans = mix.scans * (p.seek + p.next * workload.scan_entries.mean()) * 1e-9;
        let read_ns = in_burst(p.read, p.read_in_burst, at_once) * 1e-9;
        let writes = mix.writes();
        let entry = workload.entry_bytes();
        let foreground = hits * per(p.hit, p.hit_in_burst)
            + misses * per(p.miss, p.miss_in_burst)
            + writes * p.put_of(entry, workload.burst) * 1e-9
            + scans;
        let again: f64 =
            cost.written.iter().filter(|w| w.0 != "log").map(|(_, amount)| amount).sum();
        Demand {
            foreground,
            reading: reads * read_ns,
            background: writes * again * p.rewrite_of(entry) * 1e-9,
            reads,
            reads_per_get: if gets > 0.0 { get_reads / gets } else { 0.0 },
            bytes_written: writes * entry * cost.write_amplification()
                + of_media(mix, cost, machine),
            bytes_moved: writes * entry * again,
            job_waits: writes * cost.jobs * p.job_wait * 1e-9,
            synced: if cost.written.is_empty() { 0.0 } else { writes * workload.synced },
            read_seconds: threads / machine.device.read_iops(depth).max(1e-9),
            sync_seconds: threads / machine.device.sync_rate(threads).max(1e-9),
        }
    }

    /// Seconds of a caller. What the processor does for a read is in the time of the read, as the
    /// probe measured it so.
    fn caller(&self, _: &Workload) -> [(&'static str, f64); 3] {
        [
            ("computing", self.foreground),
            ("device reads", self.reads * self.read_seconds),
            ("syncs", self.synced * self.sync_seconds),
        ]
    }

    fn resources(&self, workload: &Workload, machine: &Machine) -> [(Resource, f64); 6] {
        let (device, threads) = (&machine.device, f64::from(workload.threads));
        let write = 1.0 / device.write_bytes_per_second(BACKGROUND_BYTES).max(1.0);
        let read = 1.0 / device.read_bytes_per_second(BACKGROUND_BYTES).max(1.0);
        let moving = self.bytes_moved * (read + write);
        let caller: f64 = self.caller(workload).iter().map(|(_, seconds)| seconds).sum();
        // Callers help a background that is behind, and wait for it; neither is counted, as they
        // come to about the same (docs/tune.md, "Puts").
        let background = self.background + moving + self.job_waits;
        let cores = f64::from(machine.cores);
        let sync_rate = device.sync_rate(threads * 16.0).max(1e-9);
        [
            (Resource::Processor, (self.foreground + self.reading + self.background) / cores),
            (Resource::Callers, caller / threads),
            (Resource::Background, background / BACKGROUND_THREADS),
            (Resource::DeviceReads, self.reads / device.read_iops_max().max(1e-9)),
            (Resource::DeviceWrites, self.bytes_written * write + self.bytes_moved * read),
            (Resource::Syncs, self.synced / sync_rate),
        ]
    }
}
