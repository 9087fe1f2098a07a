//! Keys, values and the random steps that the suite performs.

use silica_base::Prng;
use silica_engine::{Durability, EntryRef};

/// Sizes of a workload. The defaults suit an engine whose own limits are shrunk for tests.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Distinct keys of the differential test.
    pub keys: u32,
    /// Distinct keys of the crash, fault and corruption tests; all are read after every crash.
    pub crash_keys: u32,
    /// Longest key.
    pub key_bytes_max: usize,
    /// Longest common value.
    pub value_bytes_max: usize,
    /// Longest value; about one in 64 is up to this long.
    pub large_value_bytes_max: usize,
    /// True gives all keys and values (large ones apart) their maximal length.
    pub equal_sizes: bool,
    /// Largest budget of a maintenance call.
    pub maintain_bytes_max: u64,
    /// Longest key and value that the basic tests try below the engine's limits.
    pub tried_bytes_max: usize,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            keys: 1000,
            crash_keys: 100,
            key_bytes_max: 24,
            value_bytes_max: 64,
            large_value_bytes_max: 1000,
            equal_sizes: false,
            maintain_bytes_max: 16 << 10,
            tried_bytes_max: 1 << 20,
        }
    }
}

/// The keys of a workload, by number. Key 0 is the empty key.
#[derive(Debug)]
pub(super) struct Keys(Vec<Vec<u8>>);

impl Keys {
    pub(super) fn new(workload: &Workload, count: u32) -> Self {
        let max = workload.key_bytes_max.max(8);
        let make = |id: u32| {
            if id == 0 && !workload.equal_sizes {
                return Vec::new();
            }
            let spread = Prng::new(u64::from(id)).below(max as u64 - 3) as usize;
            let len = if workload.equal_sizes { max } else { 4 + spread };
            let mut key = id.to_le_bytes().to_vec();
            key.resize(len, b'.');
            key
        };
        Keys((0..count).map(make).collect())
    }

    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        &self.0[id as usize]
    }

    pub(super) fn all(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }

    /// The number of `key`, or `None` for a key that nobody wrote.
    pub(super) fn id(&self, key: &[u8]) -> Option<u32> {
        let id = match key.first_chunk() {
            Some(head) => u32::from_le_bytes(*head),
            None => 0,
        };
        (self.0.get(id as usize)? == key).then_some(id)
    }
}

const STAMP_BYTES: usize = 12;
/// Expiry times of test entries lie so far in the future that no clock reaches them.
const FAR_FUTURE_UNIX_MS: u64 = 1 << 43;

/// A value, described instead of stored: its bytes follow from its key and its stamp, which is
/// different for every put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) key: u32,
    pub(super) stamp: u64,
    pub(super) len: u32,
    pub(super) meta: bool,
}

impl Value {
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        let mut prng = Prng::new(self.stamp << 20 ^ u64::from(self.key));
        let start = out.len();
        out.extend_from_slice(&self.key.to_le_bytes());
        out.extend_from_slice(&self.stamp.to_le_bytes());
        let end = start + self.len as usize;
        while out.len() < end {
            out.extend_from_slice(&prng.next_u64().to_le_bytes());
        }
        out.truncate(end);
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len as usize + STAMP_BYTES);
        self.write_to(&mut out);
        out
    }

    pub(super) fn entry<'a>(&self, value: &'a [u8]) -> EntryRef<'a> {
        EntryRef { value, expires_unix_ms: self.expires_unix_ms(), user_bits: self.user_bits() }
    }

    fn expires_unix_ms(&self) -> u64 {
        if self.meta { FAR_FUTURE_UNIX_MS + self.stamp } else { 0 }
    }

    fn user_bits(&self) -> u32 {
        if self.meta { self.stamp as u32 } else { 0 }
    }

    /// True where `found` is this value with this meta, bit by bit.
    pub(super) fn is(&self, found: &EntryRef<'_>, scratch: &mut Vec<u8>) -> bool {
        if found.value.len() != self.len as usize {
            return false;
        }
        scratch.clear();
        self.write_to(scratch);
        *found == self.entry(scratch)
    }
}

/// What an entry that was not expected looks like.
pub(super) fn describe(entry: Option<&EntryRef<'_>>) -> String {
    let Some(entry) = entry else { return "nothing".into() };
    let EntryRef { value, expires_unix_ms, user_bits } = entry;
    let meta = format!("{} bytes, expires {expires_unix_ms}, user bits {user_bits}", value.len());
    match value.split_first_chunk::<4>() {
        Some((key, rest)) if rest.len() >= 8 => {
            let stamp = rest.first_chunk().map_or(0, |s| u64::from_le_bytes(*s));
            format!("a value of key {}, stamp {stamp} ({meta})", u32::from_le_bytes(*key))
        }
        _ => format!("{value:?} ({meta})"),
    }
}

/// One operation of a batch: the key, and its value or its removal.
pub(super) type Change = (u32, Option<Value>);

/// One call of the engine. Steps carry everything they need, so that any part of a sequence of
/// steps is a sequence of steps.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Write(Vec<Change>, Durability),
    Update(u32, Option<Change>, Durability),
    /// A burst of updates, one after the other; each changes its key or keeps it.
    UpdateMany(Vec<(u32, Option<Change>)>, Durability),
    /// Updates that happen together; all keys are shown, these are changed.
    UpdateAll(Vec<Change>, Durability),
    Get(Vec<u32>),
    /// A whole scan in calls of at most so many entries.
    Scan(usize),
    /// The next call of an iteration that goes on across other steps.
    ScanOn(usize),
    Maintain(u64),
    Sync,
    /// Closes the store and opens it.
    Reopen,
    /// The process dies and the store is opened again.
    Kill,
    Count,
    Clear,
    Verify,
}

/// How often each step comes; weights in no particular unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix {
    pub(super) write: u32,
    pub(super) batch: u32,
    pub(super) update: u32,
    pub(super) update_many: u32,
    pub(super) update_all: u32,
    pub(super) get: u32,
    pub(super) scan: u32,
    pub(super) scan_on: u32,
    pub(super) maintain: u32,
    pub(super) sync: u32,
    pub(super) reopen: u32,
    pub(super) count: u32,
    pub(super) clear: u32,
    pub(super) verify: u32,
    /// One write in so many is synced.
    pub(super) synced_one_in: u64,
}

impl Mix {
    pub(super) const DIFFERENTIAL: Mix = Mix {
        write: 50_000,
        batch: 3_000,
        update: 3_000,
        update_many: 1_000,
        update_all: 500,
        get: 36_000,
        scan: 4,
        scan_on: 400,
        maintain: 7_000,
        sync: 60,
        reopen: 6,
        count: 100,
        clear: 4,
        verify: 4,
        synced_one_in: 50,
    };

    pub(super) const CRASH: Mix = Mix {
        write: 500,
        batch: 150,
        update: 40,
        update_many: 0,
        update_all: 40,
        get: 50,
        scan: 0,
        scan_on: 0,
        maintain: 200,
        sync: 40,
        reopen: 4,
        count: 0,
        clear: 2,
        verify: 0,
        synced_one_in: 3,
    };
}

/// An endless sequence of steps from one seed.
#[derive(Debug)]
pub(super) struct Steps {
    prng: Prng,
    workload: Workload,
    keys: u32,
    mix: Mix,
    stamp: u64,
}

impl Steps {
    pub(super) fn new(seed: u64, workload: Workload, keys: u32, mix: Mix) -> Self {
        Steps { prng: Prng::new(seed), workload, keys, mix, stamp: 0 }
    }

    /// Small numbers come more often, so that overwrites and deletes are common.
    fn key(&mut self) -> u32 {
        let n = u64::from(self.keys);
        let (a, b) = (self.prng.below(n), self.prng.below(n));
        if self.prng.one_in(3) { a as u32 } else { a.min(b) as u32 }
    }

    pub(super) fn value(&mut self, key: u32) -> Value {
        self.stamp += 1;
        let Workload { value_bytes_max, large_value_bytes_max, equal_sizes, .. } = self.workload;
        let (small, large) = (value_bytes_max as u64, large_value_bytes_max as u64);
        let len = match self.prng.below(64) {
            0 if large > small => small + self.prng.below(large - small + 1),
            _ if equal_sizes => small,
            1..=3 => self.prng.below(small + 1),
            _ => {
                (STAMP_BYTES as u64).min(small)
                    + self.prng.below(small.saturating_sub(STAMP_BYTES as u64) + 1)
            }
        };
        let meta = !equal_sizes && self.prng.one_in(8);
        Value { key, stamp: self.stamp, len: len as u32, meta }
    }

    fn change(&mut self) -> Change {
        let key = self.key();
        let value = (!self.prng.one_in(5)).then(|| self.value(key));
        (key, value)
    }

    fn update(&mut self) -> (u32, Option<Change>) {
        let key = self.key();
        let value = (!self.prng.one_in(3)).then(|| self.value(key));
        (key, (!self.prng.one_in(4)).then_some((key, value)))
    }

    fn durability(&mut self) -> Durability {
        match self.prng.one_in(self.mix.synced_one_in) {
            true => Durability::Synced,
            false => Durability::Buffered,
        }
    }

    fn many(&mut self, max: u64) -> u64 {
        1 + self.prng.below(max)
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let m = self.mix;
        let weights = [
            m.write,
            m.batch,
            m.update,
            m.get,
            m.scan,
            m.scan_on,
            m.maintain,
            m.sync,
            m.reopen,
            m.count,
            m.clear,
            m.verify,
            m.update_many,
            m.update_all,
        ];
        let mut left = self.prng.below(weights.iter().map(|w| u64::from(*w)).sum());
        let mut kind = 0;
        while left >= u64::from(weights[kind]) {
            left -= u64::from(weights[kind]);
            kind += 1;
        }
        Some(match kind {
            0 => Step::Write(vec![self.change()], self.durability()),
            1 => {
                let len = self.many(12);
                let changes = (0..len).map(|_| self.change()).collect();
                Step::Write(changes, self.durability())
            }
            2 => {
                let (key, change) = self.update();
                Step::Update(key, change, self.durability())
            }
            3 => {
                let len = if self.prng.one_in(16) { self.many(32) } else { 1 };
                Step::Get((0..len).map(|_| self.key()).collect())
            }
            4 => Step::Scan(if self.prng.one_in(4) { usize::MAX } else { self.many(64) as usize }),
            5 => Step::ScanOn(self.many(64) as usize),
            6 => Step::Maintain(self.many(self.workload.maintain_bytes_max)),
            7 => Step::Sync,
            8 if self.prng.one_in(2) => Step::Kill,
            8 => Step::Reopen,
            9 => Step::Count,
            10 => Step::Clear,
            11 => Step::Verify,
            12 => {
                let len = self.many(24);
                Step::UpdateMany((0..len).map(|_| self.update()).collect(), self.durability())
            }
            _ => {
                let len = self.many(12);
                Step::UpdateAll((0..len).map(|_| self.change()).collect(), self.durability())
            }
        })
    }
}
