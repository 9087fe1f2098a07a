//! Versions in a block: in order, keys without what they share with the one before.

use super::{Mark, Version};
use crate::frame::{EXPIRES, POINTER, TOMBSTONE, USER_BITS};
use silica_base::{prefetch, read_varint, shared_len, varint_len, write_varint};
use std::cmp::Ordering;
use std::ops::Range;

/// A sequence number follows.
const SEQUENCE: u8 = 16;
const FLAGS_KNOWN: u8 = TOMBSTONE | POINTER | EXPIRES | USER_BITS | SEQUENCE;
/// Versions from one whole key to the next.
const RESTART_INTERVAL: usize = 8;
/// Bytes of a restart, and of their number.
const RESTART_BYTES: usize = 2;
/// Bytes of a version besides key and value at most, and of its restart.
pub(super) const VERSION_OVERHEAD_MAX: usize = 1 + 5 * 10 + 4 + RESTART_BYTES;
/// Where a version of a block starts at most.
pub(super) const START_MAX: usize = u16::MAX as usize;

/// The bytes are no block, although their checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

/// The order of versions: keys ascending, of one key the newest first.
#[inline]
fn order(key: &[u8], sequence: u64, other_key: &[u8], other: u64) -> Ordering {
    key.cmp(other_key).then(other.cmp(&sequence))
}

/// Puts a block together.
pub(super) struct BlockBuilder {
    /// At most every sequence number but 0.
    base: u64,
    bytes: Vec<u8>,
    restarts: Vec<u16>,
    /// The last key.
    key: Vec<u8>,
    since_restart: usize,
}

impl BlockBuilder {
    pub(super) fn new(base: u64) -> Self {
        let (bytes, restarts, key) = (Vec::new(), Vec::new(), Vec::new());
        BlockBuilder { base, bytes, restarts, key, since_restart: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// True where another version may start here.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() <= START_MAX
    }

    /// Bytes of the block as it is.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + RESTART_BYTES * (self.restarts.len() + 1)
    }

    /// True where the next version has its whole key.
    fn restarts_next(&self) -> bool {
        self.bytes.is_empty() || self.since_restart == RESTART_INTERVAL
    }

    fn shared(&self, key: &[u8]) -> usize {
        if self.restarts_next() { 0 } else { shared_len(&self.key, key) }
    }

    fn sequence(&self, version: &Version<'_>) -> Option<u64> {
        (version.sequence != 0).then(|| {
            debug_assert!(version.sequence >= self.base, "the base is the least");
            version.sequence - self.base
        })
    }

    /// Bytes of the block with another version.
    pub(super) fn len_with(&self, version: &Version<'_>) -> usize {
        let shared = self.shared(version.key);
        let suffix = version.key.len() - shared;
        let varint = |value: Option<u64>| value.map_or(0, varint_len);
        let expires = (version.expires_unix_ms != 0).then_some(version.expires_unix_ms);
        let restart = if self.restarts_next() { RESTART_BYTES } else { 0 };
        1 + varint(Some(shared as u64))
            + varint(Some(suffix as u64))
            + varint(Some(version.value.len() as u64))
            + varint(self.sequence(version))
            + varint(expires)
            + if version.user_bits != 0 { 4 } else { 0 }
            + suffix
            + version.value.len()
            + restart
            + self.len()
    }

    /// Adds a version that comes after all that are there.
    pub(super) fn push(&mut self, version: &Version<'_>) {
        let shared = self.shared(version.key);
        if self.restarts_next() {
            self.restarts.push(self.bytes.len() as u16);
            self.since_restart = 0;
        }
        self.since_restart += 1;
        let sequence = self.sequence(version);
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        self.bytes.push(
            version.flags & (TOMBSTONE | POINTER)
                | flag(version.expires_unix_ms != 0, EXPIRES)
                | flag(version.user_bits != 0, USER_BITS)
                | flag(sequence.is_some(), SEQUENCE),
        );
        let suffix = &version.key[shared..];
        for len in [shared, suffix.len(), version.value.len()] {
            write_varint(&mut self.bytes, len as u64);
        }
        if let Some(sequence) = sequence {
            write_varint(&mut self.bytes, sequence);
        }
        if version.expires_unix_ms != 0 {
            write_varint(&mut self.bytes, version.expires_unix_ms);
        }
        if version.user_bits != 0 {
            self.bytes.extend_from_slice(&version.user_bits.to_le_bytes());
        }
        self.bytes.extend_from_slice(suffix);
        self.bytes.extend_from_slice(version.value);
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
    }

    /// The block's bytes.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        for restart in self.restarts.iter().copied().chain([self.restarts.len() as u16]) {
            bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.restarts.clear();
        bytes
    }

    /// Goes on in memory that [`BlockBuilder::finish`] gave.
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.bytes = bytes;
    }
}

/// A version as it stands in a block.
#[derive(Debug, Clone, Default)]
struct Stored {
    flags: u8,
    shared: usize,
    suffix: Range<usize>,
    value: Range<usize>,
    sequence: u64,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Stored {
    /// The version at `at`.
    #[inline(always)]
    fn decode(entries: &[u8], at: usize, base: u64) -> Option<Stored> {
        let bytes = entries.get(at..)?;
        // Nearly all versions have lengths of one byte each, and neither expire nor have bits.
        let [flags, shared, suffix, value, rest @ ..] = bytes else {
            return Self::decode_any(entries, at, base);
        };
        let is_usual = (shared | suffix | value) < 0x80 && flags & !SEQUENCE == 0;
        if !is_usual {
            return Self::decode_any(entries, at, base);
        }
        let (sequence, sequence_len) = match *flags {
            0 => (0, 0),
            _ => {
                let (above, len) = read_varint(rest)?;
                (base.checked_add(above)?, len)
            }
        };
        let key_at = at + 4 + sequence_len;
        let value_at = key_at + usize::from(*suffix);
        let end = value_at + usize::from(*value);
        (end <= entries.len()).then_some(Stored {
            flags: 0,
            shared: usize::from(*shared),
            suffix: key_at..value_at,
            value: value_at..end,
            sequence,
            expires_unix_ms: 0,
            user_bits: 0,
        })
    }

    /// As [`Stored::decode`], of any version.
    #[inline(never)]
    fn decode_any(entries: &[u8], at: usize, base: u64) -> Option<Stored> {
        let bytes = entries.get(at..)?;
        let flags = *bytes.first()?;
        if flags & !FLAGS_KNOWN != 0 {
            return None;
        }
        let mut rest = 1;
        let varint = |rest: &mut usize| {
            let (value, len) = read_varint(bytes.get(*rest..)?)?;
            *rest += len;
            Some(value)
        };
        let (shared, suffix, value) = (varint(&mut rest)?, varint(&mut rest)?, varint(&mut rest)?);
        let sequence = match flags & SEQUENCE != 0 {
            true => base.checked_add(varint(&mut rest)?)?,
            false => 0,
        };
        let expires_unix_ms = if flags & EXPIRES != 0 { varint(&mut rest)? } else { 0 };
        let mut user_bits = 0;
        if flags & USER_BITS != 0 {
            user_bits = u32::from_le_bytes(bytes.get(rest..rest + 4)?.try_into().ok()?);
            rest += 4;
        }
        let key_at = at + rest;
        let value_at = key_at.checked_add(usize::try_from(suffix).ok()?)?;
        let end = value_at.checked_add(usize::try_from(value).ok()?)?;
        (end <= entries.len()).then_some(Stored {
            flags: flags & (TOMBSTONE | POINTER),
            shared: usize::try_from(shared).ok()?,
            suffix: key_at..value_at,
            value: value_at..end,
            sequence,
            expires_unix_ms,
            user_bits,
        })
    }

    fn version<'a>(&self, key: &'a [u8], entries: &'a [u8]) -> Version<'a> {
        Version {
            key,
            sequence: self.sequence,
            flags: self.flags,
            expires_unix_ms: self.expires_unix_ms,
            user_bits: self.user_bits,
            value: &entries[self.value.clone()],
        }
    }
}

/// Asks for the memory where it stands how many restarts a block has, and most of them, too.
pub(super) fn prefetch_end(bytes: &[u8]) {
    prefetch(bytes, bytes.len().wrapping_sub(RESTART_BYTES));
}

/// Bytes that are asked for at once, at most: more would drive out what is waited for first.
const AHEAD_BYTES_MAX: usize = 1024;
/// Of a line of the processor's caches.
pub(super) const LINE_BYTES: usize = 64;
/// Restarts that are asked for at once, at most.
const AHEAD_RESTARTS_MAX: usize = 16;

/// A block to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    base: u64,
    entries: &'a [u8],
    restarts: &'a [[u8; RESTART_BYTES]],
}

impl<'a> Block<'a> {
    pub(super) fn new(bytes: &'a [u8], base: u64) -> Result<Self, Damaged> {
        let (rest, count) = bytes.split_last_chunk().ok_or(Damaged)?;
        let restarts = RESTART_BYTES * usize::from(u16::from_le_bytes(*count));
        let entries = rest.len().checked_sub(restarts).ok_or(Damaged)?;
        let (entries, restarts) = rest.split_at(entries);
        let block = Block { base, entries, restarts: restarts.as_chunks().0 };
        let starts_at_0 = block.restarts.first() == Some(&[0, 0]);
        if starts_at_0 { Ok(block) } else { Err(Damaged) }
    }

    /// A block of which only versions are read, one after the other.
    #[inline]
    pub(super) fn of_entries(entries: &'a [u8], base: u64) -> Self {
        Block { base, entries, restarts: &[] }
    }

    /// Bytes of its versions, which come first.
    pub(super) fn entries_len(&self) -> usize {
        self.entries.len()
    }

    fn restart(&self, number: usize) -> usize {
        usize::from(u16::from_le_bytes(self.restarts[number]))
    }

    /// Asks for the memory of the keys that a search compares first.
    #[inline]
    pub(super) fn prefetch(&self) {
        // The first one is compared with none.
        for restart in self.restarts.iter().skip(1).take(AHEAD_RESTARTS_MAX) {
            prefetch(self.entries, usize::from(u16::from_le_bytes(*restart)));
        }
    }

    #[inline(always)]
    fn stored(&self, at: usize) -> Result<Stored, Damaged> {
        Stored::decode(self.entries, at, self.base).ok_or(Damaged)
    }

    /// Where the last restart is whose version comes before (`key`, `sequence`), or the first.
    #[inline]
    fn restart_before(&self, key: &[u8], sequence: u64) -> Result<usize, Damaged> {
        let (mut low, mut high) = (0, self.restarts.len());
        self.prefetch();
        while high - low > 1 {
            let middle = low.midpoint(high);
            let stored = self.stored(self.restart(middle))?;
            let middle_key = &self.entries[stored.suffix];
            if order(middle_key, stored.sequence, key, sequence).is_lt() {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (at, end) = (self.restart(low), self.restarts.get(low + 1));
        let end = end.map_or(self.entries.len(), |end| usize::from(u16::from_le_bytes(*end)));
        // From here on one version after the other is looked at.

        for line in (at..end.min(at + AHEAD_BYTES_MAX)).step_by(LINE_BYTES) {
            prefetch(self.entries, line);
        }
        Ok(at)
    }

    /// The newest version of `key` that is not newer than `sequence`; an error of `Ok` says
    /// whether all of the block's keys are at most `key`.
    pub(super) fn find(
        self,
        key: &'a [u8],
        sequence: u64,
    ) -> Result<Result<Version<'a>, bool>, Damaged> {
        let mut at = self.restart_before(key, sequence)?;
        // Bytes that the key shares with the last one, which comes before it or is the same.
        let mut matched = 0;
        while at < self.entries.len() {
            let stored = self.stored(at)?;
            at = stored.value.end;
            // A key that shares more with the last one differs from this one where that does. At
            // a restart it may share more than it says.
            if stored.shared > matched {
                continue;
            }
            matched = stored.shared;
            let (suffix, wanted) = (&self.entries[stored.suffix.clone()], &key[matched..]);
            if let ([first, ..], [wanted, ..]) = (suffix, wanted)
                && first != wanted
            {
                // Mostly the first byte tells.
                if first > wanted {
                    return Ok(Err(false));
                }
                continue;
            }
            match suffix.cmp(wanted) {
                Ordering::Greater => return Ok(Err(false)),
                Ordering::Less => matched += shared_len(suffix, wanted),
                Ordering::Equal if stored.sequence <= sequence => {
                    return Ok(Ok(stored.version(key, self.entries)));
                }
                Ordering::Equal => matched = key.len(),
            }
        }
        Ok(Err(true))
    }
}

/// A place in a block.
#[derive(Debug, Default)]
pub(super) struct Spot {
    at: usize,
    next: usize,
    stored: Stored,
    key: Vec<u8>,
    /// Apart, since only those who go backwards have it.
    passed: Option<Box<Passed>>,
}

/// The versions between a restart and a spot that came there backwards: to step on costs a copy,
/// where it took decoding all of them again.
#[derive(Debug, Default)]
struct Passed {
    /// Where each is, and where its key is in `keys`.
    versions: Vec<(usize, usize, Stored)>,
    /// Whole keys, one after the other.
    keys: Vec<u8>,
}

impl Passed {
    fn clear(&mut self) {
        self.versions.clear();
        self.keys.clear();
    }
}

impl Spot {
    /// Before the first version.
    pub(super) fn reset(&mut self) {
        self.go_before(0);
    }

    fn go_before(&mut self, at: usize) {
        (self.at, self.next) = (at, at);
        self.key.clear();
        if let Some(passed) = &mut self.passed {
            passed.clear();
        }
    }

    /// To the next version; false at the end.
    #[inline]
    pub(super) fn advance(&mut self, block: &Block<'_>) -> Result<bool, Damaged> {
        if self.next >= block.entries.len() {
            return Ok(false);
        }
        let stored = block.stored(self.next)?;
        if stored.shared > self.key.len() {
            return Err(Damaged);
        }
        self.key.truncate(stored.shared);
        self.key.extend_from_slice(&block.entries[stored.suffix.clone()]);
        (self.at, self.next) = (self.next, stored.value.end);
        self.stored = stored;
        Ok(true)
    }

    /// To the first version that is at or after (`key`, `sequence`); false where there is none.
    pub(super) fn seek(
        &mut self,
        block: &Block<'_>,
        key: &[u8],
        sequence: u64,
    ) -> Result<bool, Damaged> {
        self.go_before(block.restart_before(key, sequence)?);
        while self.advance(block)? {
            if order(&self.key, self.stored.sequence, key, sequence).is_ge() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// To the version before; false where there is none.
    pub(super) fn retreat(&mut self, block: &Block<'_>) -> Result<bool, Damaged> {
        if self.pop_passed() { Ok(true) } else { self.go_last_before(block, self.at) }
    }

    /// To the last version.
    pub(super) fn go_last(&mut self, block: &Block<'_>) -> Result<bool, Damaged> {
        self.go_last_before(block, block.entries.len())
    }

    fn go_last_before(&mut self, block: &Block<'_>, end: usize) -> Result<bool, Damaged> {
        let is_before =
            |restart: &[u8; RESTART_BYTES]| usize::from(u16::from_le_bytes(*restart)) < end;
        let Some(number) = block.restarts.partition_point(is_before).checked_sub(1) else {
            return Ok(false);
        };
        self.go_before(block.restart(number));
        while self.next < end {
            if self.at < self.next {
                self.push_passed();
            }
            self.advance(block)?;
        }
        Ok(self.at < self.next)
    }

    /// Remembers the version here.
    fn push_passed(&mut self) {
        let passed = self.passed.get_or_insert_default();
        passed.versions.push((self.at, passed.keys.len(), self.stored.clone()));
        passed.keys.extend_from_slice(&self.key);
    }

    /// To the version that was passed last, where it is the one before.
    fn pop_passed(&mut self) -> bool {
        let Some(passed) = &mut self.passed else { return false };
        let is_before = |(.., stored): &mut (usize, usize, Stored)| stored.value.end == self.at;
        let Some((at, key_at, stored)) = passed.versions.pop_if(is_before) else { return false };
        self.key.clear();
        self.key.extend_from_slice(&passed.keys[key_at..]);
        passed.keys.truncate(key_at);
        (self.at, self.next, self.stored) = (at, stored.value.end, stored);
        true
    }

    /// The key of the version here.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// See [`super::Cursor::mark`].
    #[inline]
    pub(super) fn mark(&self) -> Mark {
        let Stored { sequence, flags, expires_unix_ms, .. } = self.stored;
        Mark { sequence, flags, expires_unix_ms }
    }

    /// The version here; `bytes` are those of its block.
    #[inline]
    pub(super) fn version<'a>(&'a self, bytes: &'a [u8]) -> Version<'a> {
        self.stored.version(&self.key, bytes)
    }
}
