//! Operations that are drawn ahead of the measured part of a run.

use crate::distribution::{Chooser, Moment};
use crate::generator::mix;
use crate::plan::Plan;
use crate::workload::Kind;
use silica_base::Prng;
use std::ops::Range;

/// Operations of a window, at most; fewer where calls take long, so that a run or its slice ends
/// when it should.
const OPERATIONS_MAX: usize = 256;
/// Operations of a window if calls take this many nanoseconds or more.
const OPERATIONS_MAX_SLOW: [(u64, usize); 2] = [(500_000, 4), (10_000, 32)];
/// Bytes of a window's keys and values, and of the answers to it, at most, unless it is one burst:
/// what is drawn ahead should leave the processor's caches to the store.
const WINDOW_BYTES: usize = 32 << 10;
const ANSWER_BYTES: usize = 256 << 10;
/// Bits of a version that count the puts of a thread.
const THREAD_SHIFT: u32 = 40;

/// One operation; its key and value are bytes of the window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    /// The key's number.
    pub(crate) index: u64,
    key_at: usize,
    value_at: usize,
    end: usize,
    /// Entries of a scan.
    pub(crate) entries: usize,
}

/// Operations of one kind that one call performs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    pub(crate) kind: Kind,
    first: usize,
    pub(crate) count: usize,
}

impl Burst {
    pub(crate) fn range(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// Drawn operations, in bursts.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) bursts: Vec<Burst>,
    pub(crate) operations: Vec<Operation>,
    bytes: Vec<u8>,
}

impl Window {
    /// A window with room for what `plan` draws, so that it never allocates later.
    pub(crate) fn of(plan: &Plan) -> Self {
        let operations = operations_max(plan, 0);
        Window {
            bursts: Vec::with_capacity(operations),
            operations: Vec::with_capacity(operations),
            bytes: Vec::with_capacity(operations * entry_bytes(plan)),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bursts.clear();
        self.operations.clear();
        self.bytes.clear();
    }

    /// Bytes of keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn key(&self, operation: &Operation) -> &[u8] {
        &self.bytes[operation.key_at..operation.value_at]
    }

    #[inline]
    pub(crate) fn value(&self, operation: &Operation) -> &[u8] {
        &self.bytes[operation.value_at..operation.end]
    }

    /// Adds an operation to the last burst, or to a new one where that is full or of another kind.
    #[inline]
    pub(crate) fn push(
        &mut self,
        (kind, index, entries): (Kind, u64, usize),
        burst_max: usize,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        let first = self.operations.len();
        match self.bursts.last_mut() {
            Some(last) if last.kind == kind && last.count < burst_max => last.count += 1,
            _ => self.bursts.push(Burst { kind, first, count: 1 }),
        }
        let key_at = self.bytes.len();
        key(&mut self.bytes);
        let value_at = self.bytes.len();
        if kind.has_value() {
            value(&mut self.bytes);
        }
        let end = self.bytes.len();
        self.operations.push(Operation { kind, index, key_at, value_at, end, entries });
    }
}

fn entry_bytes(plan: &Plan) -> usize {
    plan.shape.key_bytes + plan.shape.value_bytes
}

/// Operations of a window with calls that take `call_nanos`: whole bursts, at least one.
pub(crate) fn operations_max(plan: &Plan, call_nanos: u64) -> usize {
    let slow = OPERATIONS_MAX_SLOW.iter().find(|(from, _)| call_nanos >= *from);
    let most = slow.map_or(OPERATIONS_MAX, |(_, most)| *most);
    let drawn = WINDOW_BYTES / entry_bytes(plan);
    let answered = ANSWER_BYTES / answer_bytes(plan);
    most.min(drawn).min(answered).max(1).next_multiple_of(plan.batch)
}

/// The most that one operation is answered.
pub(crate) fn answer_bytes(plan: &Plan) -> usize {
    entry_bytes(plan) * answers_max(plan)
}

/// Answers to one operation, at most.
pub(crate) fn answers_max(plan: &Plan) -> usize {
    if plan.workload.scans == 0 { 1 } else { plan.workload.scan_entries.1.max(1) as usize }
}

/// Which of several threads draws, and what for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) thread: u64,
    /// Threads that insert and delete in turns.
    pub(crate) threads: u64,
    /// The one thread that writes while the others read chooses all keys alike.
    pub(crate) alike: bool,
    /// Versions of this run's values start here.
    pub(crate) version: u64,
}

impl Turn {
    /// The version of the thread's put number `put`, which no other has.
    #[inline]
    pub(crate) fn version(&self, put: u64) -> u64 {
        self.version + (self.thread << THREAD_SHIFT) + put
    }
}

/// Draws a thread's operations.
pub(crate) struct Drawer<'a> {
    plan: &'a Plan,
    chooser: &'a Chooser,
    turn: Turn,
    kinds: Vec<Kind>,
    prng: Prng,
    /// Keys that this thread inserted, keys it deleted, entries it put, operations it drew.
    inserted: u64,
    deleted: u64,
    versions: u64,
    drawn: u64,
    /// Operations that it will draw, as far as is known.
    operations: u64,
    /// The key that it begins at where keys are drawn one after the other.
    first: u64,
}

impl<'a> Drawer<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        chooser: &'a Chooser,
        turn: Turn,
        mut kinds: Vec<Kind>,
        operations: u64,
    ) -> Self {
        // Where there is only one kind, no draw decides.
        if kinds.iter().all(|kind| *kind == kinds[0]) {
            kinds.truncate(1);
        }
        let prng = Prng::new(mix(plan.seed) ^ mix(turn.thread + 1));
        let before = u128::from(turn.thread) * u128::from(plan.keys);
        Drawer {
            plan,
            chooser,
            turn,
            kinds,
            prng,
            inserted: 0,
            deleted: 0,
            versions: 0,
            drawn: 0,
            operations,
            first: (before / plan.threads as u128) as u64,
        }
    }

    /// Adds `count` operations, at least one, to `window`, in bursts.
    pub(crate) fn draw(&mut self, window: &mut Window, count: usize) {
        let mut left = count;
        while left > 0 {
            let burst = left.min(self.plan.batch);
            left -= burst;
            let kind = match self.kinds.len() {
                1 => self.kinds[0],
                kinds => self.kinds[self.prng.below(kinds as u64) as usize],
            };
            for _ in 0..burst {
                self.draw_one(window, kind);
            }
        }
    }

    #[inline]
    fn draw_one(&mut self, window: &mut Window, kind: Kind) {
        let plan = self.plan;
        let index = match kind {
            Kind::Insert => self.new_index(),
            Kind::Delete => self.next_to_delete(),
            _ => self.existing_index(),
        };
        let (least, most) = plan.workload.scan_entries;
        let entries = match kind {
            Kind::Scan if most > least => {
                least as usize + self.prng.below(u64::from(most - least + 1)) as usize
            }
            Kind::Scan => most as usize,
            _ => 0,
        };
        self.drawn += 1;
        self.versions += u64::from(kind.has_value());
        let version = self.turn.version(self.versions);
        window.push(
            (kind, index, entries),
            plan.batch,
            |out| match kind {
                Kind::Miss => plan.append_missing_key(index, out),
                _ => plan.append_key(index, out),
            },
            |out| plan.append_value(index, version, out),
        );
    }

    /// Keys behind the first `keys` belong to the threads in turn, so that each thread knows
    /// which of its own exist. A store that starts empty has no keys before it.
    fn new_index(&mut self) -> u64 {
        let first = if self.plan.workload.from_empty { 0 } else { self.plan.keys };
        self.inserted += 1;
        first + self.turn.thread % self.turn.threads + (self.inserted - 1) * self.turn.threads
    }

    /// Keys from the first to the last, and around again, in turns.
    fn next_to_delete(&mut self) -> u64 {
        self.deleted += 1;
        let next = self.turn.thread % self.turn.threads + (self.deleted - 1) * self.turn.threads;
        next % self.plan.keys
    }

    #[inline]
    fn existing_index(&mut self) -> u64 {
        let keys = self.plan.keys;
        if self.turn.alike {
            return self.prng.below(keys);
        }
        let (issued, operations) = (self.drawn, self.operations);
        let (younger, first) = (self.inserted, self.first);
        let moment = Moment { younger, issued, operations, first };
        let drawn = self.chooser.draw(&mut self.prng, moment);
        if drawn < keys {
            return drawn;
        }
        keys + self.turn.thread + (drawn - keys) * self.turn.threads
    }
}
