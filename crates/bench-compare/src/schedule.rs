//! What a run will do, known and checked before it begins: groups of workloads that share filled
//! stores, the stores that take part, and the disk, memory and time that they need.

use crate::budget;
use crate::limits::{self, Limit};
use crate::machine;
use crate::peer::{Class, Peer};
use crate::peers;
use crate::results::Remark;
use crate::rounds::Windows;
use crate::suite::{self, Line, Size, Sizes, Suite};
use crate::work::Work;
use silica::{Error, ErrorKind, Result};
use silica_bench::Workload;
use std::path::Path;

/// Memory beside a store's own: the program, its driver and what the kernel keeps for them.
pub const ALLOWANCE_BYTES: u64 = 32 << 20;
/// The part of [`ALLOWANCE_BYTES`] that programs need for themselves, so that no store's number has
/// it: the program, its driver and the kernel take 3 MiB, and memory comes in huge pages, of which
/// two may be used in part.
pub(crate) const PROGRAM_BYTES: u64 = 8 << 20;
/// Bytes on the device per live byte that a store may take while it works, at most.
const SPACE_FACTOR: f64 = 2.5;
/// Bytes in memory per live byte of a store in memory, at most.
const MEMORY_FACTOR: u64 = 4;
/// Bytes for an entry beside its own that a store in memory takes, at most.
const MEMORY_BESIDE: u64 = 128;
/// What small stores in memory take whatever they hold.
const MEMORY_FLOOR: u64 = 64 << 20;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Name of a suite, or `all`.
    pub suite: String,
    /// How much.
    pub size: Size,
    /// Only these peers; all where it is empty.
    pub peers: Vec<String>,
    /// Only these workloads; all where it is empty.
    pub workloads: Vec<String>,
    /// Repetitions; the size's own where it is not given.
    pub repetitions: Option<usize>,
    /// Memory of a store on a device; the size's own where it is not given.
    pub memory_bytes: Option<u64>,
    /// Keys of every workload; the size's own where it is not given.
    pub keys: Option<u64>,
    /// Factor of the size's own data.
    pub scale: f64,
    /// Options of stores of ours, by name, beside their memory.
    pub set: Vec<(String, String)>,
    /// Stores of ours have what the page cache of others may take: the memory and the allowance,
    /// less what the program takes.
    pub resident: bool,
}

impl Request {
    /// A run of `suite` with everything else as it is by default.
    pub fn new(suite: &str, size: Size) -> Self {
        Request {
            suite: suite.to_string(),
            size,
            peers: Vec::new(),
            workloads: Vec::new(),
            repetitions: None,
            memory_bytes: None,
            keys: None,
            scale: 1.0,
            set: Vec::new(),
            resident: false,
        }
    }
}

/// A workload of a group.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) line: Line,
    pub(crate) work: Work,
}

impl Task {
    /// True where the measured part changes the store.
    pub(crate) fn writes(&self) -> bool {
        let workload = Workload::find(&self.work.workload).expect("it was found before");
        let shares = [workload.updates, workload.inserts, workload.modifies, workload.deletes];
        shares.iter().any(|share| *share > 0)
    }

    /// Its rounds, where each store has so many seconds.
    pub(crate) fn windows(&self, seconds: f64) -> Windows {
        Windows::of(seconds, self.writes())
    }

    /// Limits that go round with its stores.
    pub(crate) fn limits_beside(&self) -> usize {
        let goes_round = |(name, metric): &&(&str, &str)| {
            limits::find(name).is_ok_and(|limit| limit.has_probe(metric))
        };
        self.line.limits.iter().filter(goes_round).count()
    }
}

/// Workloads of one suite on stores that are filled alike.
pub(crate) struct Group {
    pub(crate) suite: &'static Suite,
    pub(crate) class: Class,
    pub(crate) tasks: Vec<Task>,
    pub(crate) stores: Vec<&'static dyn Peer>,
    pub(crate) limits: Vec<&'static dyn Limit>,
    pub(crate) sizes: Sizes,
    pub(crate) memory_bytes: u64,
    /// Time of the measured part of a store, with all its slices; 0 means until its operations are
    /// done.
    pub(crate) cell_seconds: f64,
}

impl Group {
    /// True where stores are filled once and shared by the workloads.
    pub(crate) fn shares(&self, size: Size) -> bool {
        let reads = self.tasks.iter().any(|task| !task.line.starts_empty());
        self.class.is_on_device() && size != Size::Toy && reads
    }

    /// Steps of one workload: every store begins and ends, and there are rounds.
    pub(crate) fn steps_of(&self, task: &Task) -> usize {
        2 * self.stores.len() + task.windows(self.cell_seconds).steps()
    }

    fn is_empty(&self) -> bool {
        self.limits.is_empty() && (self.tasks.is_empty() || self.stores.is_empty())
    }

    fn keys(&self) -> u64 {
        self.tasks.iter().map(|task| task.work.keys).max().unwrap_or(0)
    }

    fn live_bytes(&self) -> u64 {
        self.tasks.iter().map(|task| task.work.live_bytes()).max().unwrap_or(0)
    }

    /// Bytes on the device while the group is measured: all stores, and a copy of each.
    fn disk_bytes(&self) -> f64 {
        let beside = self.tasks.iter().map(|task| task.line.limits.len()).max().unwrap_or(0);
        let limits = (beside.max(usize::from(!self.limits.is_empty()))) as f64;
        let limits = limits * self.sizes.data_bytes as f64;
        if !self.class.is_on_device() {
            return limits;
        }
        limits + self.live_bytes() as f64 * SPACE_FACTOR * (2 * self.stores.len()) as f64
    }

    /// Bytes in memory while the group is measured: all stores are open at once.
    fn all_memory_bytes(&self) -> f64 {
        (self.memory_bytes + ALLOWANCE_BYTES) as f64 * self.stores.len().max(1) as f64
    }
}

/// All that a run will do.
pub(crate) struct Schedule {
    pub(crate) groups: Vec<Group>,
    pub(crate) missing: Vec<Remark>,
    pub(crate) repetitions: usize,
}

impl Schedule {
    /// Works out `request` and refuses what is unknown.
    pub(crate) fn new(request: &Request) -> Result<Schedule> {
        if request.scale.is_nan() || request.scale <= 0.0 || request.keys == Some(0) {
            return Err(config("--scale and --keys must be more than 0"));
        }
        let suites = suite::find(&request.suite)?;
        for name in &request.peers {
            peers::find(name)?;
        }
        check_workloads(request, &suites)?;
        let mut missing = Vec::new();
        let mut groups = Vec::new();
        let repetitions = request.repetitions.unwrap_or(request.size.repetitions()).max(1);
        for suite in suites {
            groups.append(&mut groups_of(request, suite, &mut missing)?);
        }
        if groups.iter().all(Group::is_empty) {
            return Err(nothing_left(request, &missing));
        }
        for part in parts(request.size, &mut groups) {
            let cell_seconds = budget::cell_seconds(request.size, part, repetitions);
            part.iter_mut().for_each(|group| group.cell_seconds = cell_seconds);
        }
        Ok(Schedule { groups, missing, repetitions })
    }

    /// Groups that share one time: a quick run as a whole, else each suite.
    pub(crate) fn share_time(size: Size, one: &Group, other: &Group) -> bool {
        size == Size::Quick || one.suite.name == other.suite.name
    }

    /// Refuses what does not fit; the error names the size that would.
    pub(crate) fn check_room(&self, request: &Request, directory: &Path) -> Result<()> {
        let disk = self.groups.iter().map(Group::disk_bytes).fold(0.0, f64::max);
        fits("disk", disk, machine::disk_available(directory)?, self, request)?;
        let memory = self.groups.iter().map(Group::all_memory_bytes).fold(0.0, f64::max);
        fits("memory", memory, machine::memory_available(), self, request)
    }

    /// Steps of all repetitions, and stores to fill.
    pub(crate) fn steps(&self, size: Size) -> usize {
        let of = |group: &Group| {
            let fills = if group.shares(size) { group.stores.len() } else { 0 };
            let tasks = group.tasks.iter().map(|task| group.steps_of(task)).sum::<usize>();
            let each = tasks + group.limits.len();
            each * self.repetitions + fills
        };
        self.groups.iter().map(of).sum()
    }
}

/// The groups in parts that share one time.
fn parts(size: Size, groups: &mut [Group]) -> impl Iterator<Item = &mut [Group]> {
    groups.chunk_by_mut(move |one, other| Schedule::share_time(size, one, other))
}

fn config(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message.into())
}

fn fits(
    what: &str,
    needed: f64,
    available: u64,
    schedule: &Schedule,
    request: &Request,
) -> Result<()> {
    if needed <= available as f64 {
        return Ok(());
    }
    // A little less than what would fit to the byte, in steps that people write.
    let fitting = (available as f64 / needed * request.scale * 0.9 * 1000.0).floor() / 1000.0;
    let keys = schedule.groups.iter().flat_map(|g| &g.tasks).map(|t| t.work.keys).max();
    let keys = (keys.unwrap_or(0) as f64 * fitting / request.scale) as u64;
    let gib = |bytes: f64| format!("{:.1} GiB", bytes / f64::from(1 << 30));
    let fix = match (what, request.keys) {
        ("memory", _) if request.memory_bytes.is_some() => {
            let stores = schedule.groups.iter().map(|group| group.stores.len()).max();
            let each = (available as f64 * 0.9) as u64 / stores.unwrap_or(1).max(1) as u64;
            format!("use --memory {}MiB", each.saturating_sub(ALLOWANCE_BYTES) >> 20)
        }
        (_, Some(_)) => format!("--keys {keys} would fit"),
        _ => format!("--scale {fitting} would fit (at most {keys} keys)"),
    };
    let (needed, available) = (gib(needed), gib(available as f64));
    Err(Error::new(
        ErrorKind::Full,
        format!("this run needs {needed} of {what} and {available} is free; {fix}"),
    ))
}

fn check_workloads(request: &Request, suites: &[&Suite]) -> Result<()> {
    let known: Vec<_> = suites.iter().flat_map(|s| s.lines).map(|line| line.name).collect();
    match request.workloads.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(config(format!(
            "no workload '{name}' in suite {}; known are {}",
            request.suite,
            known.join(", ")
        ))),
    }
}

fn nothing_left(request: &Request, missing: &[Remark]) -> Error {
    let mut message = format!("nothing of suite {} is left to run", request.suite);
    for remark in missing {
        message += &format!("; {} is missing: {}", remark.store, remark.text);
    }
    if !request.peers.is_empty() {
        let names: Vec<_> = peers::all().iter().map(|peer| peer.name()).collect();
        message += &format!("; stores that can be compared are {}", names.join(", "));
    }
    config(message)
}

/// Stores of the suite's kind that were asked for; those that are not installed go to `missing`.
fn stores_of(request: &Request, class: Class, missing: &mut Vec<Remark>) -> Vec<&'static dyn Peer> {
    let asked = |peer: &&'static dyn Peer| {
        let named = request.peers.iter().any(|name| name == peer.name());
        peer.class() == class && (named || request.peers.is_empty())
    };
    let mut stores = Vec::new();
    for peer in peers::all().into_iter().filter(asked) {
        // Their time makes the windows of the others longer.
        let is_left_out =
            request.size == Size::Quick && request.peers.is_empty() && peer.about().is_variant;
        let present = match is_left_out {
            true => Err(config("a quick run leaves it out, unless --peers names it")),
            false => peer.version(),
        };
        match present {
            Ok(_) => stores.push(peer),
            Err(_) if missing.iter().any(|remark| remark.store == peer.name()) => {}
            Err(reason) => missing.push(Remark {
                suite: String::new(),
                workload: String::new(),
                store: peer.name().to_string(),
                text: reason.to_string(),
            }),
        }
    }
    stores
}

/// Limits that stand beside the suite's workloads, or all.
fn limits_of(suite: &Suite, lines: &[Line], missing: &mut Vec<Remark>) -> Vec<&'static dyn Limit> {
    let beside = |name: &str| {
        suite.class.is_none() || lines.iter().flat_map(|l| l.limits).any(|(n, _)| *n == name)
    };
    let mut found = Vec::new();
    for limit in limits::all().into_iter().filter(|limit| beside(limit.name())) {
        let store = format!("{}{}", limits::LIMIT_PREFIX, limit.name());
        match limit.version() {
            Ok(_) => found.push(limit),
            Err(_) if missing.iter().any(|remark| remark.store == store) => {}
            Err(reason) => missing.push(Remark {
                suite: String::new(),
                workload: String::new(),
                store,
                text: reason.to_string(),
            }),
        }
    }
    found
}

fn groups_of(
    request: &Request,
    suite: &'static Suite,
    missing: &mut Vec<Remark>,
) -> Result<Vec<Group>> {
    let is_all = request.suite == "all";
    let wanted = |line: &&Line| match request.workloads.is_empty() {
        true if request.size != Size::Quick => true,
        true => line.quick && (line.brief || !is_all),
        false => request.workloads.iter().any(|name| name == line.name),
    };
    let lines: Vec<Line> = suite.lines.iter().filter(wanted).copied().collect();
    let class = suite.class.unwrap_or(Class::Embedded);
    let sizes = scaled(request, class);
    let stores = stores_of(request, class, missing);
    let mut limits = limits_of(suite, &lines, missing);
    if is_all && suite.class.is_some() {
        // The suite of limits has them.
        limits.clear();
    }
    let mut groups: Vec<Group> = Vec::new();
    for line in lines {
        let task = Task { line, work: line.work(&sizes, request.keys)? };
        match groups.last_mut() {
            Some(group) if group.tasks[0].line.filled_like(&line) => group.tasks.push(task),
            _ => groups.push(Group {
                suite,
                class,
                tasks: vec![task],
                stores: stores.clone(),
                limits: std::mem::take(&mut limits),
                sizes,
                memory_bytes: 0,
                cell_seconds: 0.0,
            }),
        }
    }
    if groups.is_empty() && !limits.is_empty() {
        let (tasks, stores) = (Vec::new(), Vec::new());
        groups.push(Group {
            suite,
            class,
            tasks,
            stores,
            limits,
            sizes,
            memory_bytes: 0,
            cell_seconds: 0.0,
        });
    }
    for group in &mut groups {
        group.memory_bytes = match class {
            Class::Embedded | Class::Sql => sizes.memory_bytes,
            Class::Memory if request.memory_bytes.is_some() => sizes.memory_bytes,
            _ => {
                let beside = group.keys() * MEMORY_BESIDE;
                group.live_bytes() * MEMORY_FACTOR + beside + MEMORY_FLOOR
            }
        };
    }
    Ok(groups)
}

fn scaled(request: &Request, class: Class) -> Sizes {
    let sizes = request.size.sizes(class);
    let times = |n: u64| ((n as f64 * request.scale) as u64).max(1);
    Sizes {
        data_bytes: times(sizes.data_bytes),
        keys_max: times(sizes.keys_max).max(100),
        memory_bytes: request.memory_bytes.unwrap_or(sizes.memory_bytes),
        ..sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_runs_leave_variants_out_and_say_so() {
        let of = |request: &Request| {
            let mut missing = Vec::new();
            let stores = stores_of(request, Class::Embedded, &mut missing);
            let names: Vec<_> = stores.iter().map(|store| store.name()).collect();
            (names, missing.into_iter().map(|remark| remark.store).collect::<Vec<_>>())
        };
        let (stores, missing) = of(&Request::new("flash", Size::Quick));
        assert!(stores.contains(&"fjall") && !stores.contains(&"fjall:lz4"), "{stores:?}");
        assert!(missing.contains(&"fjall:lz4".to_string()), "{missing:?}");
        assert!(of(&Request::new("flash", Size::Full)).0.contains(&"fjall:lz4"));
        let asked =
            Request { peers: vec!["fjall:lz4".into()], ..Request::new("flash", Size::Quick) };
        assert_eq!(of(&asked).0, ["fjall:lz4"]);
    }
}
