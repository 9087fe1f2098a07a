//! An open engine next to the model of what it must contain.

use super::forgetting::Forgetting;
use super::harness::Harness;
use super::workload::{Change, Keys, Step, Value, describe};
use silica_engine::{
    Budget, Durability, Engine, EntryRef, Error, GetSink, MetricsMap, Scan, Update, WriteBatch,
};

/// The contents of a store: the value of every key, by key number.
pub(super) type Model = Vec<Option<Value>>;

/// Calls that one whole iteration may take.
const SCAN_CALLS_MAX: usize = 1_000_000;
const BURST_KEYS: usize = 64;

/// Why a step did not end well.
#[derive(Debug)]
pub(super) enum Stop {
    /// The engine reported an error.
    Failed(Error),
    /// The engine's answer is wrong.
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Failed(e) => write!(f, "unexpected error {:?}: {e}", e.kind()),
            Stop::Wrong(message) => f.write_str(message),
        }
    }
}

pub(super) type Outcome<T = ()> = Result<T, Stop>;

/// Fails with [`Stop::Wrong`] unless `right`.
pub(super) fn ensure(right: bool, message: impl FnOnce() -> String) -> Outcome {
    if right { Ok(()) } else { Err(Stop::Wrong(message())) }
}

/// What a step writes, if it writes.
pub(super) fn effect(step: &Step, keys: u32) -> Option<(Vec<Change>, Durability)> {
    match step {
        Step::Write(changes, durability) | Step::UpdateAll(changes, durability) => {
            Some((changes.clone(), *durability))
        }
        Step::Update(_, Some(change), durability) => Some((vec![*change], *durability)),
        Step::Clear => Some(((0..keys).map(|k| (k, None)).collect(), Durability::Synced)),
        _ => None,
    }
}

pub(super) fn apply(model: &mut Model, changes: &[Change]) {
    for (key, value) in changes {
        model[*key as usize] = *value;
    }
}

/// The update that makes `change`.
fn update_to(change: Option<Change>) -> Update {
    match change {
        None => Update::Keep,
        Some((_, None)) => Update::Delete,
        Some((_, Some(value))) => {
            let bytes = value.bytes();
            let EntryRef { expires_unix_ms, user_bits, .. } = value.entry(&bytes);
            Update::Put { value: bytes, expires_unix_ms, user_bits }
        }
    }
}

/// Compares reported entries with a model.
pub(super) struct Comparer<'a> {
    pub(super) keys: &'a Keys,
    pub(super) model: &'a Model,
    scratch: Vec<u8>,
    pub(super) wrong: Option<String>,
}

impl<'a> Comparer<'a> {
    pub(super) fn new(keys: &'a Keys, model: &'a Model) -> Self {
        Comparer { keys, model, scratch: Vec::new(), wrong: None }
    }

    fn compare(&mut self, id: u32, found: Option<&EntryRef<'_>>, how: &str) {
        let right = match (&self.model[id as usize], found) {
            (None, None) => true,
            (Some(value), Some(entry)) => value.is(entry, &mut self.scratch),
            _ => false,
        };
        if !right && self.wrong.is_none() {
            let (want, got) = (&self.model[id as usize], describe(found));
            self.wrong = Some(format!("{how} of key {id}: found {got}, expected {want:?}"));
        }
    }

    pub(super) fn visit(&mut self, key: &[u8], entry: &EntryRef<'_>) -> Option<u32> {
        let id = self.keys.id(key);
        match id {
            Some(id) => self.compare(id, Some(entry), "scan"),
            None => self.wrong = Some(format!("scan invented the key {key:?}")),
        }
        id
    }

    pub(super) fn done(self) -> Outcome {
        self.wrong.map_or(Ok(()), |message| Err(Stop::Wrong(message)))
    }
}

struct GetComparer<'a> {
    comparer: Comparer<'a>,
    ids: &'a [u32],
    seen: Vec<bool>,
}

impl GetSink for GetComparer<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        assert!(!self.seen[index], "index {index} of a burst was reported twice");
        self.seen[index] = true;
        self.comparer.compare(self.ids[index], Some(&entry), "get");
    }
}

/// Gets the keys `ids` as one burst and compares the answers with `model`.
pub(super) fn compare_burst(
    engine: &impl Engine,
    keys: &Keys,
    model: &Model,
    ids: &[u32],
) -> Outcome {
    let burst: Vec<&[u8]> = ids.iter().map(|id| keys.bytes(*id)).collect();
    let comparer = Comparer::new(keys, model);
    let mut sink = GetComparer { comparer, ids, seen: vec![false; ids.len()] };
    engine.get_many(&burst, &mut sink)?;
    for (id, seen) in ids.iter().zip(&sink.seen) {
        if !seen {
            sink.comparer.compare(*id, None, "get");
        }
    }
    sink.comparer.done()
}

/// Gets every key.
pub(super) fn compare_gets(engine: &impl Engine, keys: &Keys, model: &Model) -> Outcome {
    let ids: Vec<u32> = (0..keys.count()).collect();
    ids.chunks(BURST_KEYS).try_for_each(|burst| compare_burst(engine, keys, model, burst))
}

/// Scans everything in calls of at most `limit` entries.
pub(super) fn compare_scan(
    engine: &impl Engine,
    keys: &Keys,
    model: &Model,
    limit: usize,
) -> Outcome {
    let Some(scan) = engine.as_scan() else { return Ok(()) };
    let mut iteration = Iteration::start(model);
    for _ in 0..SCAN_CALLS_MAX {
        if iteration.step(scan, keys, model, limit)? {
            return ensure(iteration.repeated == 0 || limit < usize::MAX, || {
                format!("one scan call visited {} entries twice", iteration.repeated)
            });
        }
    }
    Err(Stop::Wrong(format!("a scan does not end after {SCAN_CALLS_MAX} calls")))
}

/// An iteration under way, and the keys that it still has to visit.
#[derive(Debug, Default)]
pub(super) struct Iteration {
    cursor: u64,
    due: Vec<bool>,
    seen: Vec<bool>,
    repeated: usize,
}

impl Iteration {
    pub(super) fn start(model: &Model) -> Self {
        let due = model.iter().map(Option::is_some).collect();
        Iteration { cursor: 0, due, seen: vec![false; model.len()], repeated: 0 }
    }

    /// Keys that were absent for a moment need not be visited.
    pub(super) fn wrote(&mut self, changes: &[Change]) {
        for (key, value) in changes {
            if let (None, Some(due)) = (value, self.due.get_mut(*key as usize)) {
                *due = false;
            }
        }
    }

    /// Makes one call; true at the end, where everything due must have been visited.
    pub(super) fn step(
        &mut self,
        scan: &dyn Scan,
        keys: &Keys,
        model: &Model,
        limit: usize,
    ) -> Outcome<bool> {
        let mut comparer = Comparer::new(keys, model);
        let next = scan.scan(self.cursor, limit, &mut |key, entry| {
            if let Some(id) = comparer.visit(key, &entry) {
                self.repeated += usize::from(self.seen[id as usize]);
                self.seen[id as usize] = true;
                self.due[id as usize] = false;
            }
        })?;
        comparer.done()?;
        if let Some(cursor) = next {
            self.cursor = cursor;
            return Ok(false);
        }
        match self.due.iter().position(|due| *due) {
            Some(key) => Err(Stop::Wrong(format!("scan with limit {limit} missed key {key}"))),
            None => Ok(true),
        }
    }
}

/// An open engine next to its model.
pub(super) struct Session<'h, H: Harness> {
    pub(super) harness: &'h mut H,
    engine: Option<H::Engine>,
    pub(super) keys: Keys,
    pub(super) model: Model,
    pub(super) forgetting: Forgetting,
    iteration: Option<Iteration>,
    bytes: Vec<u8>,
}

impl<'h, H: Harness> Session<'h, H> {
    /// Opens the store on the harness's device, which contains `model`.
    pub(super) fn open(harness: &'h mut H, keys: Keys, model: Model) -> Outcome<Self> {
        let engine = Some(harness.open()?);
        let forgetting = Forgetting::default();
        Ok(Session { harness, engine, keys, model, forgetting, iteration: None, bytes: Vec::new() })
    }

    /// Opens an empty store on an empty device.
    pub(super) fn fresh(harness: &'h mut H, keys: u32) -> Outcome<Self> {
        harness.wipe();
        let keys = Keys::new(&harness.workload(), keys);
        let model = vec![None; keys.count() as usize];
        Self::open(harness, keys, model)
    }

    pub(super) fn engine(&self) -> &H::Engine {
        self.engine.as_ref().expect("a session's engine is open between its calls")
    }

    /// Closes the engine; the harness may then work on its device.
    pub(super) fn close(&mut self) {
        self.engine = None;
    }

    /// Opens the engine after [`Session::close`].
    pub(super) fn reopen(&mut self) -> Result<(), Error> {
        self.engine = None;
        self.engine = Some(self.harness.open()?);
        self.forgetting = Forgetting::default();
        Ok(())
    }

    /// True where the engine can be closed and opened again with its contents.
    pub(super) fn is_durable(&self) -> bool {
        self.engine().descriptor().capabilities.durable
    }

    /// True where the engine is open and may forget entries.
    pub(super) fn may_evict(&self) -> bool {
        self.engine.as_ref().is_some_and(|e| e.descriptor().capabilities.may_evict)
    }

    /// True while an iteration goes on across steps.
    pub(super) fn is_iterating(&self) -> bool {
        self.iteration.is_some()
    }

    /// Performs `step` and compares the answers with the model.
    pub(super) fn perform(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Write(changes, durability) => self.write(changes, *durability)?,
            Step::Update(key, change, durability) => self.update(*key, *change, *durability)?,
            Step::UpdateMany(updates, durability) => self.update_many(updates, *durability)?,
            Step::UpdateAll(changes, durability) => self.update_all(changes, *durability)?,
            Step::Get(ids) => compare_burst(self.engine(), &self.keys, &self.model, ids)?,
            Step::Scan(limit) => compare_scan(self.engine(), &self.keys, &self.model, *limit)?,
            Step::ScanOn(limit) => self.scan_on(*limit)?,
            Step::Maintain(bytes) => {
                self.engine().maintain(Budget::of(*bytes))?;
            }
            Step::Sync => self.engine().sync()?,
            Step::Reopen | Step::Kill if !self.is_durable() => {}
            Step::Reopen => self.reopen()?,
            Step::Kill => {
                self.harness.kill();
                self.reopen()?;
            }
            Step::Count => self.count()?,
            Step::Clear => self.clear()?,
            Step::Verify => self.engine().verify()?,
        }
        Ok(())
    }

    /// Reads everything in every way there is.
    pub(super) fn check_all(&mut self) -> Outcome {
        let ids: Vec<u32> = (0..self.keys.count()).collect();
        ids.chunks(BURST_KEYS).try_for_each(|burst| self.step(&Step::Get(burst.to_vec())))?;
        compare_scan(self.engine(), &self.keys, &self.model, usize::MAX)?;
        compare_scan(self.engine(), &self.keys, &self.model, 7)?;
        self.count()?;
        self.engine().metrics(&mut MetricsMap::default());
        Ok(self.engine().verify()?)
    }

    pub(super) fn write(&mut self, changes: &[Change], durability: Durability) -> Outcome {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        for value in changes.iter().filter_map(|c| c.1) {
            value.write_to(&mut bytes);
        }
        let mut batch = WriteBatch::new();
        let mut rest = bytes.as_slice();
        for (key, value) in changes {
            let key = self.keys.bytes(*key);
            if let Some(value) = value {
                let (head, tail) = rest.split_at(value.len as usize);
                rest = tail;
                batch.put_entry(key, value.entry(head));
            } else {
                batch.delete(key);
            }
        }
        let result = self.engine().write(&batch, durability);
        self.bytes = bytes;
        result?;
        self.wrote(changes);
        Ok(())
    }

    pub(super) fn wrote(&mut self, changes: &[Change]) {
        apply(&mut self.model, changes);
        if let Some(iteration) = &mut self.iteration {
            iteration.wrote(changes);
        }
    }

    fn update(&mut self, key: u32, change: Option<Change>, durability: Durability) -> Outcome {
        let Some(atomic) = self.engine().as_atomic() else {
            return change.map_or(Ok(()), |c| self.write(&[c], durability));
        };
        let mut wrong = None;
        atomic.update(self.keys.bytes(key), durability, &mut |current| {
            let mut comparer = Comparer::new(&self.keys, &self.model);
            comparer.compare(key, current.as_ref(), "update");
            wrong = comparer.wrong;
            update_to(change)
        })?;
        if let Some(change) = change {
            self.wrote(&[change]);
        }
        wrong.map_or(Ok(()), |message| Err(Stop::Wrong(message)))
    }

    fn update_many(
        &mut self,
        updates: &[(u32, Option<Change>)],
        durability: Durability,
    ) -> Outcome {
        let mut done = 0;
        while done < updates.len() {
            let left = &updates[done..];
            let Some(atomic) = self.engine().as_atomic() else {
                let changes: Vec<Change> = left.iter().filter_map(|update| update.1).collect();
                return self.write(&changes, durability);
            };
            let keys: Vec<&[u8]> = left.iter().map(|(key, _)| self.keys.bytes(*key)).collect();
            let mut wrong = vec![None; left.len()];
            let mut model = self.model.clone();
            let many = atomic.update_many(&keys, durability, &mut |index, current| {
                let (key, change) = left[index];
                let mut comparer = Comparer::new(&self.keys, &model);
                comparer.compare(key, current.as_ref(), "burst of updates");
                wrong[index] = comparer.wrong;
                apply(&mut model, change.as_slice());
                update_to(change)
            })?;
            ensure((1..=left.len()).contains(&many), || {
                format!("burst of updates: {many} of {} are done", left.len())
            })?;
            if let Some(message) = wrong.drain(..many).flatten().next() {
                return Err(Stop::Wrong(message));
            }
            let changes: Vec<Change> = left[..many].iter().filter_map(|u| u.1).collect();
            self.wrote(&changes);
            self.forget()?;
            done += many;
        }
        Ok(())
    }

    fn update_all(&mut self, changes: &[Change], durability: Durability) -> Outcome {
        let Some(atomic) = self.engine().as_atomic() else {
            return self.write(changes, durability);
        };
        let keys: Vec<&[u8]> = changes.iter().map(|(key, _)| self.keys.bytes(*key)).collect();
        let mut wrong = None;
        atomic.update_all(&keys, durability, &mut |entries| {
            let mut comparer = Comparer::new(&self.keys, &self.model);
            for ((key, _), entry) in changes.iter().zip(entries) {
                comparer.compare(*key, entry.as_ref(), "update of several keys");
            }
            wrong = comparer.wrong;
            changes.iter().map(|change| update_to(Some(*change))).collect()
        })?;
        self.wrote(changes);
        wrong.map_or(Ok(()), |message| Err(Stop::Wrong(message)))
    }

    fn scan_on(&mut self, limit: usize) -> Outcome {
        let mut iteration = self.iteration.take().unwrap_or_else(|| Iteration::start(&self.model));
        let Some(scan) = self.engine().as_scan() else { return Ok(()) };
        if !iteration.step(scan, &self.keys, &self.model, limit)? {
            self.iteration = Some(iteration);
        }
        Ok(())
    }

    fn count(&self) -> Outcome {
        let Some(admin) = self.engine().as_admin() else { return Ok(()) };
        let entries = self.model.iter().flatten().count() as u64;
        let exact = admin.count(true)?;
        ensure(exact.low == entries && exact.estimate == entries && exact.high == entries, || {
            format!("exact count says {exact:?}, there are {entries} entries")
        })?;
        let rough = admin.count(false)?;
        ensure(rough.low <= entries && entries <= rough.high, || {
            format!("count says {rough:?}, there are {entries} entries")
        })
    }

    fn clear(&mut self) -> Outcome {
        let all: Vec<Change> = (0..self.keys.count()).map(|k| (k, None)).collect();
        match self.engine().as_admin() {
            Some(admin) => admin.clear()?,
            None => return self.write(&all, Durability::Synced),
        }
        self.wrote(&all);
        Ok(())
    }
}
