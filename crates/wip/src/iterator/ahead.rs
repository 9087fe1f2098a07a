//! Running ahead: many steps in a row through the source that has the next entries.
//!
//! A step takes a version through several layers and compares keys with one another. A run compares
//! what keys begin with behind the bucket's prefix, as numbers: as long as these tell, and what a
//! source comes to is plainly an entry, it is copied, and nothing else is looked at. Whatever is
//! not plain ends the run: a key that two sources have, a tombstone, an expiry, a value that lies
//! apart, the end of the range. Then one step of [`Iter`] decides as always. Keys of two sources
//! that begin alike are compared whole, and the next run begins with a longer prefix.

use super::{At, Entered, Iter, Lead};
use crate::contents::Contents;
use crate::prefix::Prefix;
use crate::run_cursor::RunCursor;
use crate::sorted::{Listed, Positions, Sorted};
use silica_base::{Result, shared_len};
use silica_device::{Device, LogFile};
use silica_engine::EntryBurst;
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::Version as Row;
use std::cmp::Ordering;
use std::ops::Deref;

/// A source as a run takes it.
trait Ahead {
    /// To the next version, which is handed out; `None` at the end.
    fn advance(&mut self) -> Result<Option<Row<'_>>>;
    /// The version here.
    fn row(&self) -> Row<'_>;
}

impl<D: Device> Ahead for RunCursor<D> {
    #[inline]
    fn advance(&mut self) -> Result<Option<Row<'_>>> {
        Ok(if RunCursor::advance(self)? { Some(self.version()) } else { None })
    }

    #[inline]
    fn row(&self) -> Row<'_> {
        self.version()
    }
}

impl<L: LogFile> Ahead for Positions<L> {
    #[inline]
    fn advance(&mut self) -> Result<Option<Row<'_>>> {
        Ok(Positions::advance(self))
    }

    #[inline]
    fn row(&self) -> Row<'_> {
        self.version().expect("it is at a version")
    }
}

impl<D: Device> Ahead for Listed<D> {
    #[inline]
    fn advance(&mut self) -> Result<Option<Row<'_>>> {
        Ok(Listed::advance(self))
    }

    #[inline]
    fn row(&self) -> Row<'_> {
        self.version().expect("it is at a version")
    }
}

/// What bounds a run.
struct Limits<'l> {
    prefix: &'l Prefix,
    /// Versions from this position on are not seen.
    position: u64,
    /// The end of the range, and its head.
    upper: Option<(&'l [u8], u64)>,
}

impl Limits<'_> {
    /// True if the key with this head is behind the range.
    #[inline]
    fn ends_before(&self, key: &[u8], head: u64) -> bool {
        // Nearly always the head tells.
        self.upper.is_some_and(|(upper, of_upper)| head >= of_upper && *key >= *upper)
    }
}

/// The key that was passed last: its head, and where it is in the burst, if it is there.
struct Passed<'p> {
    before: &'p mut Vec<u8>,
    head: u64,
    at: Option<usize>,
    /// Keys had to be compared whole.
    is_tied: bool,
}

impl Passed<'_> {
    /// True if `key` is it, so that a version here is an older one.
    #[inline]
    fn is(&self, key: &[u8], head: u64, burst: &EntryBurst) -> bool {
        head == self.head && self.at.map_or(&**self.before, |at| burst.key(at)) == key
    }
}

/// Where a run through one source has ended.
enum End {
    /// The burst is full; the source is at its last entry, which has this head.
    Full(u64),
    /// The source is at a version with this head, which a step has to look at.
    Open(u64),
    /// As open: another source is at the same key.
    Same(u64),
    /// The source is at a version with this head, and another source has to go on.
    Behind(u64),
    /// The source has no further version.
    Over,
}

/// Runs through `source` as long as its keys are below `other`, head and key of where the next
/// source is. `is_passed` says that the version here was passed already.
fn run<A: Ahead>(
    source: &mut A,
    limits: &Limits<'_>,
    other: Option<(u64, &[u8])>,
    mut is_passed: bool,
    passed: &mut Passed<'_>,
    burst: &mut EntryBurst,
) -> Result<End> {
    loop {
        let row = match is_passed {
            true => source.advance()?,
            false => Some(source.row()),
        };
        let Some(row) = row else { return Ok(End::Over) };
        is_passed = true;
        let head = limits.prefix.head_behind(row.key);
        if let Some((other, key)) = other.filter(|(other, _)| head >= *other) {
            if head > other {
                return Ok(End::Behind(head));
            }
            passed.is_tied = true;
            match row.key.cmp(key) {
                Ordering::Less => {}
                // Which of them is the newest version its number tells.
                Ordering::Equal => return Ok(End::Same(head)),
                Ordering::Greater => return Ok(End::Behind(head)),
            }
        }
        if row.sequence >= limits.position || passed.is(row.key, head, burst) {
            continue;
        }
        let is_plain = row.flags & (TOMBSTONE | POINTER) == 0 && row.expires_unix_ms == 0;
        if !is_plain || limits.ends_before(row.key, head) {
            return Ok(End::Open(head));
        }
        (passed.head, passed.at) = (head, Some(burst.len()));
        burst.push(row.key, row.value);
        if burst.is_full() {
            return Ok(End::Full(head));
        }
    }
}

/// Bytes of the heads that are the same in all keys when a prefix is chosen: keys that come later
/// begin otherwise.
const SPARE_BYTES: usize = 4;

impl<D: Device> Entered<D> {
    /// Chooses the prefix by the keys of the first two sources, after their heads were the same: in
    /// a bucket with several kinds of keys, what all begin with is short, and heads tell nothing.
    /// Keys that do not begin so have the least or the greatest head, and are compared whole.
    fn adapt(&mut self) {
        let Some(Lead { first, second: Some(second) }) = self.lead else { return };
        let key = |at: usize| self.sources[at].key();
        let (Some(least), Some(greatest)) = (key(first), key(second)) else { return };
        let len = shared_len(least, greatest).saturating_sub(SPARE_BYTES);
        if least == greatest || self.prefix.is(&least[..len]) {
            return;
        }
        self.prefix = Prefix::new(&least[..len]);
        for at in 0..self.sources.len() {
            self.heads[at] = self.sources[at].key().map(|key| self.prefix.head_behind(key));
        }
        self.find_first();
    }

    /// Where the source behind the first one is: its head, and its key in `key`.
    fn second(&self, key: &mut Vec<u8>) -> Option<u64> {
        let second = self.lead?.second?;
        let head = self.heads[second]?;
        key.clear();
        key.extend_from_slice(self.sources[second].key()?);
        Some(head)
    }

    fn run(
        &mut self,
        source: usize,
        limits: &Limits<'_>,
        passed: &mut Passed<'_>,
        burst: &mut EntryBurst,
    ) -> Result<(usize, End)> {
        let (mut source, mut is_passed) = (source, true);
        let mut key = std::mem::take(&mut self.second_key);
        let mut second = self.second(&mut key);
        loop {
            self.heads[source] = None;
            let other = second.map(|head| (head, &key[..]));
            let end = match &mut self.sources[source] {
                Sorted::Run(cursor) => run(&mut **cursor, limits, other, is_passed, passed, burst),
                Sorted::Memtable(sorted) => run(sorted, limits, other, is_passed, passed, burst),
                Sorted::List(listed) => run(listed, limits, other, is_passed, passed, burst),
            }?;
            match end {
                End::Full(head) | End::Open(head) | End::Same(head) | End::Behind(head) => {
                    self.heads[source] = Some(head);
                }
                End::Over => {}
            }
            let next = match end {
                End::Behind(_) | End::Over => self.find_first(),
                _ => None,
            };
            let Some(next) = next else {
                self.second_key = key;
                return Ok((source, end));
            };
            (source, is_passed) = (next, false);
            second = self.second(&mut key);
        }
    }
}

impl<D: Device, W: Deref<Target = Contents<D>>> Iter<D, W> {
    /// Appends what comes next to `burst`, and goes there; true if any step was made. False if
    /// nothing is known of the other sources yet, or ranges were deleted.
    pub(super) fn run_ahead(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        let (At::Source(source), Some(entered)) = (self.at, &mut self.entered) else {
            return Ok(false);
        };
        if entered.lead.is_none() && entered.sources.len() == 1 {
            entered.lead = Some(Lead { first: source, second: None });
        }
        let is_first = entered.lead.is_some_and(|lead| lead.first == source);
        if !is_first || !entered.view.deleted.is_empty() {
            return Ok(false);
        }
        self.at = At::Nowhere;
        let before = &mut self.copied.key;
        before.clear();
        before.extend_from_slice(entered.sources[source].key().expect("it is there"));
        // The run changes the sources, and only reads this.
        let prefix = std::mem::take(&mut entered.prefix);
        let upper = self.upper.as_deref().map(|upper| (upper, prefix.head_behind(upper)));
        let limits = Limits { prefix: &prefix, position: self.snapshot.position, upper };
        let head = prefix.head_behind(before);
        let mut passed = Passed { before, head, at: None, is_tied: false };
        let end = entered.run(source, &limits, &mut passed, burst);
        if let Some(at) = passed.at {
            passed.before.clear();
            passed.before.extend_from_slice(burst.key(at));
        }
        let Passed { head, is_tied, .. } = passed;
        entered.prefix = prefix;
        if let (source, End::Full(_)) = end? {
            if is_tied {
                entered.adapt();
            }
            self.apart = None;
            self.at = At::Source(source);
            return Ok(true);
        }
        if self.settle_forward(Some(head))? {
            if let Some(entered) = self.entered.as_mut().filter(|_| is_tied) {
                entered.adapt();
            }
            let entry = self.version();
            let value = self.apart.as_deref().unwrap_or(entry.value);
            burst.push(entry.key, value);
        }
        Ok(true)
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
