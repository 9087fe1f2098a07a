//! What a store answered: copied out during the call as any client would, checked after the clock
//! was read.

use crate::generator::{Shape, mix};
use crate::plan::Plan;
use crate::target::Sink;
use crate::trace;
use crate::window::{Window, answer_bytes, answers_max, operations_max};
use crate::worker::Tally;
use crate::workload::Kind;
use silica::Result;
use silica_base::checksum;
use std::ops::Range;

/// One value that was found, or one entry of a scan; its bytes follow those of the one before.
#[derive(Debug, Clone, Copy)]
struct Answer {
    operation: u32,
    /// 0 for a value that was asked for by its key.
    key_bytes: u32,
    value_bytes: u32,
}

/// Answers to one window of operations.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    bytes: Vec<u8>,
    answers: Vec<Answer>,
    /// The operation that index 0 of a call stands for.
    first: usize,
    /// Answers that were there before the call.
    before: usize,
    /// Which keys of a call were found.
    found: Vec<bool>,
}

impl Answers {
    /// Room for all answers to a window of `plan`, so that it never allocates later.
    pub(crate) fn of(plan: &Plan) -> Self {
        let operations = operations_max(plan, 0);
        Answers {
            bytes: Vec::with_capacity(operations * answer_bytes(plan)),
            answers: Vec::with_capacity(operations * answers_max(plan)),
            first: 0,
            before: 0,
            found: Vec::with_capacity(plan.batch),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.answers.clear();
    }

    pub(crate) fn count(&self) -> usize {
        self.answers.len()
    }

    /// What follows answers a call whose first key is that of operation `first`.
    #[inline]
    pub(crate) fn begin(&mut self, first: usize) {
        self.first = first;
        self.before = self.answers.len();
    }

    /// Calls `missing` with each run of operations that the call has left without an answer; the
    /// call had `count` keys.
    #[inline]
    pub(crate) fn each_missing(
        &mut self,
        count: usize,
        mut missing: impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let answers = &self.answers[self.before..];
        if answers.len() >= count {
            return Ok(());
        }
        self.found.clear();
        self.found.resize(count, false);
        for answer in answers {
            // An answer to what nobody asked is found out later.
            if let Some(found) = self.found.get_mut(answer.operation as usize - self.first) {
                *found = true;
            }
        }
        let mut at = 0;
        while at < count {
            let run = self.found[at..].iter().take_while(|found| !**found).count();
            if run > 0 {
                missing(self.first + at..self.first + at + run)?;
            }
            at += run + 1;
        }
        Ok(())
    }

    /// Takes one entry of the scan that operation `operation` is.
    #[inline]
    pub(crate) fn entry(&mut self, operation: usize, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.answers.push(Answer {
            operation: operation as u32,
            key_bytes: key.len() as u32,
            value_bytes: value.len() as u32,
        });
    }
}

impl Sink for Answers {
    #[inline]
    fn found(&mut self, index: usize, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.answers.push(Answer {
            operation: (self.first + index) as u32,
            key_bytes: 0,
            value_bytes: value.len() as u32,
        });
    }
}

/// What is known of the right answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Existing keys may be gone: the store is a cache, or the workload deletes.
    pub(crate) may_miss: bool,
    /// Which version a reader sees follows from the seed alone.
    pub(crate) versions: bool,
    /// Which entries a scan sees follows from the seed alone.
    pub(crate) scans: bool,
    /// Where keys and values come from.
    pub(crate) origin: Origin,
}

/// Where the keys and values of a store come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The plan.
    Plan,
    /// A trace, from the beginning on.
    Trace,
    /// A trace, and something before.
    Unknown,
}

/// Compares answers with what the generator wrote.
pub(crate) struct Checker<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) expected: Expected,
    pub(crate) scratch: Vec<u8>,
}

impl Checker<'_> {
    /// Counts the operations of `window` and checks `answers`.
    pub(crate) fn check(&mut self, window: &Window, answers: &Answers, tally: &mut Tally) {
        let mut existing = 0;
        for burst in &window.bursts {
            let count = burst.count as u64;
            tally.operations += count;
            match burst.kind {
                Kind::Read | Kind::Fetch | Kind::Modify | Kind::Miss => tally.reads += count,
                Kind::Delete => tally.deletes += count,
                Kind::Scan => tally.scans += count,
                Kind::Update | Kind::Insert => {}
            }
            tally.puts += if burst.kind.is_put() { count } else { 0 };
            existing += if burst.kind.asks_existing() { count } else { 0 };
            // Less those that are found.
            tally.puts += if burst.kind == Kind::Fetch { count } else { 0 };
        }
        let hits_before = tally.hits;
        self.check_values(window, answers, tally);
        let hits = tally.hits - hits_before;
        if !self.expected.may_miss {
            tally.wrong += existing.abs_diff(hits);
        }
        if tally.scans > 0 {
            self.check_scans(window, answers, tally);
        }
    }

    /// Values that were asked for by their keys.
    fn check_values(&mut self, window: &Window, answers: &Answers, tally: &mut Tally) {
        let mut at = 0;
        for answer in &answers.answers {
            let value_at = at + answer.key_bytes as usize;
            at = value_at + answer.value_bytes as usize;
            let value = &answers.bytes[value_at..at];
            match window.operations.get(answer.operation as usize) {
                Some(operation) if operation.kind.asks_existing() => {
                    tally.hits += 1;
                    tally.puts -= u64::from(operation.kind == Kind::Fetch);
                    self.check_value(operation.index, value, self.expected.versions, tally);
                }
                Some(operation) if operation.kind == Kind::Scan => {}
                // What is missing was found, or what nobody asked for was answered.
                _ => tally.wrong += 1,
            }
        }
    }

    fn is_right(&mut self, index: u64, value: &[u8]) -> bool {
        match self.expected.origin {
            Origin::Plan => self.plan.is_value_of(index, value),
            Origin::Trace => {
                let shape = Shape { key_bytes: 0, value_bytes: value.len() };
                shape.is_value_of(index, value)
            }
            Origin::Unknown => true,
        }
    }

    fn index_of(&mut self, key: &[u8]) -> Option<u64> {
        match self.expected.origin {
            Origin::Plan => self.plan.index_of(key, &mut self.scratch),
            Origin::Trace | Origin::Unknown => Some(trace::index_of(key)),
        }
    }

    fn check_value(&mut self, index: u64, value: &[u8], hash_value: bool, tally: &mut Tally) {
        tally.wrong += u64::from(!self.is_right(index, value));
        let value = if hash_value { u64::from(checksum(value)) } else { 0 };
        tally.hash = tally.hash.wrapping_add(mix(index ^ (value << 32)));
    }

    /// Entries of scans: keys that ascend from the one that was asked for, which is there.
    fn check_scans(&mut self, window: &Window, answers: &Answers, tally: &mut Tally) {
        let mut at = 0;
        let mut before: Option<(u32, &[u8])> = None;
        let mut begun = 0;
        let mut entries = 0;
        for answer in &answers.answers {
            let value_at = at + answer.key_bytes as usize;
            let (key, value) = (
                &answers.bytes[at..value_at],
                &answers.bytes[value_at..value_at + answer.value_bytes as usize],
            );
            at = value_at + answer.value_bytes as usize;
            let Some(operation) = window.operations.get(answer.operation as usize) else {
                continue;
            };
            if operation.kind != Kind::Scan {
                continue;
            }
            tally.scanned += 1;
            let in_order = match before {
                Some((same, before)) if same == answer.operation => before < key,
                _ => {
                    (begun, entries) = (begun + 1, 0);
                    let from = window.key(operation);
                    if self.expected.may_miss { from <= key } else { from == key }
                }
            };
            entries += 1;
            before = Some((answer.operation, key));
            match self.index_of(key) {
                Some(index) if in_order && entries <= operation.entries => {
                    if self.expected.scans {
                        self.check_value(index, value, self.expected.versions, tally);
                    } else {
                        tally.wrong += u64::from(!self.is_right(index, value));
                    }
                }
                _ => tally.wrong += 1,
            }
        }
        let scans = window.operations.iter().filter(|o| o.kind == Kind::Scan).count();
        if !self.expected.may_miss {
            tally.wrong += (scans - begun) as u64;
        }
    }
}
