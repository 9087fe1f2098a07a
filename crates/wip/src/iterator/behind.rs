//! Running behind: many steps back in a row through the source that has the last keys.
//!
//! It is to steps back what [`super::ahead`] is to steps forwards. A source shows the versions of
//! one key from the oldest on, so the newest one that is seen is known when the source has come to
//! another key. Whatever is not plain ends the run, and one step of [`Iter`] decides.

use super::{At, Copied, Entered, Iter};
use crate::contents::Contents;
use crate::prefix::Prefix;
use crate::sorted::{Is, Sorted};
use silica_base::Result;
use silica_device::Device;
use silica_engine::EntryBurst;
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::Version as Row;
use std::ops::Deref;

/// What bounds a run.
struct Limits<'l> {
    prefix: &'l Prefix,
    /// Versions from this position on are not seen.
    position: u64,
    /// Where the range begins, and its head.
    lower: (&'l [u8], u64),
    /// Where the source with the last key but one is, and its head.
    other: Option<(&'l [u8], u64)>,
}

impl Limits<'_> {
    /// True if the key with this head is before the range, or not behind the other source.
    #[inline]
    fn has(&self, key: &[u8], head: u64) -> bool {
        // Nearly always the heads tell.
        let (lower, of_lower) = self.lower;
        let is_inside = head > of_lower || *key >= *lower;
        is_inside && self.other.is_none_or(|(other, of_other)| head > of_other || *key > *other)
    }
}

/// The entry that was appended last: its head, and of its version what a copy has besides.
#[derive(Clone, Copy)]
struct Last {
    head: u64,
    sequence: u64,
    user_bits: u32,
}

/// Where a run has ended.
enum End {
    /// The source is at a version with this head, or nowhere, and all that it has of the last
    /// entry's key is passed.
    Before(Option<u64>),
    /// The source is at a version of the last entry's key which is newer, seen, and not plain.
    Amid,
}

#[inline]
fn is_plain(row: &Row<'_>) -> bool {
    row.flags & (TOMBSTONE | POINTER) == 0 && row.expires_unix_ms == 0
}

/// Appends what `source` has, from where it is backwards.
fn run<D: Device>(
    source: &mut Sorted<D>,
    contents: &Contents<D>,
    limits: &Limits<'_>,
    last: &mut Option<Last>,
    burst: &mut EntryBurst,
) -> Result<End> {
    loop {
        let Some(row) = source.version() else { return Ok(End::Before(None)) };
        let head = limits.prefix.head_behind(row.key);
        let is_same =
            last.is_some_and(|last| last.head == head && *burst.key(burst.len() - 1) == *row.key);
        if !is_same && (burst.is_full() || !limits.has(row.key, head)) {
            return Ok(End::Before(Some(head)));
        }
        if row.sequence < limits.position {
            match (is_same, is_plain(&row)) {
                (false, true) => burst.push(row.key, row.value),
                (true, true) => burst.set_last_value(row.value),
                (true, false) => return Ok(End::Amid),
                (false, false) => return Ok(End::Before(Some(head))),
            }
            *last = Some(Last { head, sequence: row.sequence, user_bits: row.user_bits });
        }
        let Is::There = source.retreat(contents)? else {
            unreachable!("a list is not run through");
        };
    }
}

impl<D: Device> Entered<D> {
    /// The source with the last key of all, and the one behind which it has to stay.
    fn last_two(&self) -> Option<(usize, Option<usize>)> {
        let last = self.last()?;
        let mut second: Option<(usize, u64)> = None;
        for (at, head) in self.heads.iter().enumerate().filter(|(at, _)| *at != last) {
            let Some(head) = *head else { continue };
            let is_behind = second.is_none_or(|(second, of_second)| {
                let key = |source: usize| self.sources[source].key();
                head > of_second || head == of_second && key(at) > key(second)
            });
            if is_behind {
                second = Some((at, head));
            }
        }
        Some((last, second.map(|(at, _)| at)))
    }
}

impl<D: Device, W: Deref<Target = Contents<D>>> Iter<D, W> {
    /// Appends what comes before to `burst`, and goes there; true if any entry was appended. False
    /// if that takes a step of [`Iter`], or ranges were deleted.
    pub(super) fn run_behind(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        let (At::Copied, Some(entered)) = (self.at, &mut self.entered) else { return Ok(false) };
        let Some((source, second)) = entered.last_two() else { return Ok(false) };
        // A search in a list may find it replaced. A burst of keys has no value to go to.
        let is_list = matches!(entered.sources[source], Sorted::List(_));
        if is_list || burst.is_of_keys() || !entered.view.deleted.is_empty() {
            return Ok(false);
        }
        self.at = At::Nowhere;
        entered.lead = None;
        entered.heads[source] = None;
        let (prefix, mut key) =
            (std::mem::take(&mut entered.prefix), std::mem::take(&mut entered.second_key));
        key.clear();
        let other = second.and_then(|second| {
            key.extend_from_slice(entered.sources[second].key()?);
            entered.heads[second]
        });
        let limits = Limits {
            prefix: &prefix,
            position: self.snapshot.position,
            lower: (&self.lower, prefix.head_behind(&self.lower)),
            other: other.map(|head| (&key[..], head)),
        };
        let mut last = None;
        let contents = &self.snapshot.contents;
        let end = run(&mut entered.sources[source], contents, &limits, &mut last, burst);
        (entered.prefix, entered.second_key) = (prefix, key);
        if end.is_err() && last.is_some() {
            // A newer version of it may be behind the error.
            burst.truncate(burst.len() - 1);
        }
        match end? {
            End::Before(head) => {
                entered.heads[source] = head;
                self.at = At::Copied;
                let Some(last) = last else { return Ok(false) };
                self.apart = None;
                let at = burst.len() - 1;
                self.copied.set(burst.key(at), burst.value(at), last);
                Ok(true)
            }
            End::Amid => self.run_amid(source, burst),
        }
    }

    /// Decides by the newest version of the last key of `burst` what it is.
    fn run_amid(&mut self, source: usize, burst: &mut EntryBurst) -> Result<bool> {
        let at = burst.len() - 1;
        self.copied.key.clear();
        self.copied.key.extend_from_slice(burst.key(at));
        burst.truncate(at);
        let entered = self.entered.as_mut().expect("a bucket was entered");
        entered.heads[source] = Some(entered.head_of(&self.copied.key));
        let is_seen = self.copy_newest()?;
        let is_there = match is_seen {
            Some(true) if self.settled_at_copied(source)? => true,
            Some(_) => self.settle_backward()?,
            None => unreachable!("a list is not run through"),
        };
        if is_there {
            burst.push(&self.copied.key, self.apart.as_deref().unwrap_or(&self.copied.value));
        }
        Ok(true)
    }
}

impl Copied {
    /// As an entry that was appended to a burst.
    fn set(&mut self, key: &[u8], value: &[u8], of: Last) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        (self.sequence, self.flags, self.expires_unix_ms) = (of.sequence, 0, 0);
        self.user_bits = of.user_bits;
    }
}
