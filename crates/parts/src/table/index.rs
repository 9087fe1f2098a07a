//! Where in a table a key is: one separator and one place for each block, in memory.
//!
//! A block's **separator** is the shortest key that is after everything before the block and not
//! after anything in it. The first eight bytes behind what all separators begin with are kept as a
//! number; only where separators differ later, or end in a zero, are they kept whole, too.

use super::block::shared_len;
use crate::fields::Fields;
use silica_base::write_varint;
use std::cmp::Ordering;

/// Bytes of a separator that are kept as a number.
const HEAD_BYTES: usize = 8;

/// Heads that are searched one by one, of which the last is kept a second time, with others of its
/// kind: a binary search of all heads would wait for memory at nearly each of its steps, and this
/// one waits twice.
const GROUP: usize = 16;
/// Groups' last heads that are all looked at, since their memory comes in one go.
const LASTS_MAX: usize = 64;

/// Collects what [`Index`] is made of.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    separators: Vec<u8>,
    ends: Vec<usize>,
    units: Vec<u32>,
    continued: Vec<u32>,
}

impl IndexBuilder {
    /// The next block begins with the key `first`; `last` is the last key before it.
    pub(super) fn begin(&mut self, last: Option<&[u8]>, first: &[u8]) {
        if let Some(last) = last {
            let shared = shared_len(last, first);
            if shared == first.len() {
                self.continued.push(self.ends.len() as u32);
            }
            self.separators.extend_from_slice(&first[..first.len().min(shared + 1)]);
        }
        self.ends.push(self.separators.len());
    }

    /// Blocks that have ended.
    pub(super) fn ended(&self) -> usize {
        self.units.len()
    }

    /// It has so many units.
    pub(super) fn end(&mut self, units: u32) {
        self.units.push(units);
    }

    fn separator(&self, block: usize) -> &[u8] {
        let start = if block == 0 { 0 } else { self.ends[block - 1] };
        &self.separators[start..self.ends[block]]
    }

    /// The section, and the index that it is read as.
    pub(super) fn finish(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_varint(&mut out, self.units.len() as u64);
        write_varint(&mut out, self.continued.len() as u64);
        for (number, units) in self.units.iter().enumerate() {
            let before = if number == 0 { &[][..] } else { self.separator(number - 1) };
            let separator = self.separator(number);
            let shared = shared_len(before, separator);
            write_varint(&mut out, u64::from(*units));
            write_varint(&mut out, shared as u64);
            write_varint(&mut out, (separator.len() - shared) as u64);
            out.extend_from_slice(&separator[shared..]);
        }
        self.continued.iter().for_each(|number| write_varint(&mut out, u64::from(*number)));
        out
    }
}

/// The index of an open table.
#[derive(Debug)]
pub(super) struct Index {
    /// What all separators but the first, which is empty, begin with.
    common: Vec<u8>,
    heads: Heads,
    /// Separators as they are behind `common`, where their heads do not tell all.
    whole: Option<Whole>,
    starts: Starts,
    /// Blocks whose first key is the last one before them.
    continued: Vec<u32>,
}

/// The heads of all separators but the first, in order.
#[derive(Debug)]
struct Heads {
    all: Vec<u64>,
    /// The last one of each whole [`GROUP`].
    lasts: Vec<u64>,
}

impl Heads {
    fn new(all: Vec<u64>) -> Self {
        let lasts = all.as_chunks::<GROUP>().0.iter().map(|group| group[GROUP - 1]).collect();
        Heads { all, lasts }
    }

    /// Those that are at most `wanted`.
    #[inline]
    fn at_most(&self, wanted: u64) -> usize {
        // Each is looked at: so nothing waits for what the one before it said.
        let among = |heads: &[u64]| heads.iter().filter(|head| **head <= wanted).count();
        let groups = if self.lasts.len() <= LASTS_MAX {
            among(&self.lasts)
        } else {
            self.lasts.partition_point(|last| *last <= wanted)
        };
        let start = groups * GROUP;
        start + among(&self.all[start..self.all.len().min(start + GROUP)])
    }
}

#[derive(Debug, Default)]
struct Whole {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Whole {
    fn get(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start as usize..self.ends[number] as usize]
    }
}

/// Where blocks start, in units.
#[derive(Debug)]
enum Starts {
    /// Each has so many.
    Equal(u32),
    /// Here, with the end of the last one.
    Each(Vec<u32>),
}

fn head(separator: &[u8]) -> u64 {
    let mut bytes = [0; HEAD_BYTES];
    let len = separator.len().min(HEAD_BYTES);
    bytes[..len].copy_from_slice(&separator[..len]);
    u64::from_be_bytes(bytes)
}

/// Separators behind the first one, and the units of all blocks, as they are read.
struct Read {
    separators: Vec<Vec<u8>>,
    units: Vec<u32>,
    continued: Vec<u32>,
}

fn read(bytes: &[u8]) -> Option<Read> {
    let mut fields = Fields(bytes);
    let (blocks, continued) = (fields.varint()?, fields.varint()?);
    // Each block takes three bytes at least.
    if blocks > bytes.len() as u64 || continued > blocks {
        return None;
    }
    let mut read = Read { separators: Vec::new(), units: Vec::new(), continued: Vec::new() };
    let mut separator = Vec::new();
    for number in 0..blocks {
        read.units.push(u32::try_from(fields.varint()?).ok().filter(|units| *units > 0)?);
        let shared = usize::try_from(fields.varint()?).ok()?;
        let suffix = fields.sized()?;
        if shared > separator.len() {
            return None;
        }
        separator.truncate(shared);
        separator.extend_from_slice(suffix);
        if number > 0 {
            let is_after = read.separators.last().is_none_or(|last| *last <= separator);
            read.separators.push(is_after.then(|| separator.clone())?);
        }
    }
    for _ in 0..continued {
        let number = u32::try_from(fields.varint()?).ok()?;
        let is_after = read.continued.last().is_none_or(|last| *last < number);
        read.continued
            .push((is_after && (1..blocks).contains(&u64::from(number))).then_some(number)?);
    }
    fields.0.is_empty().then_some(read)
}

impl Index {
    /// Reads a section.
    pub(super) fn decode(bytes: &[u8]) -> Option<Index> {
        let Read { separators, units, continued } = read(bytes)?;
        let common = match (separators.first(), separators.last()) {
            // They are in order.
            (Some(first), Some(last)) => first[..shared_len(first, last)].to_vec(),
            _ => Vec::new(),
        };
        let rest = |separator: &Vec<u8>| separator[common.len()..].to_vec();
        let rests: Vec<Vec<u8>> = separators.iter().map(rest).collect();
        let tells_all = |rest: &Vec<u8>| rest.len() <= HEAD_BYTES && rest.last() != Some(&0);
        let whole = if rests.iter().all(tells_all) { None } else { Some(whole(&rests)?) };
        let heads = Heads::new(rests.iter().map(|rest| head(rest)).collect());
        let first = *units.first()?;
        let starts = if units.iter().all(|n| *n == first) {
            first.checked_mul(u32::try_from(units.len()).ok()?)?;
            Starts::Equal(first)
        } else {
            Starts::Each(starts(&units)?)
        };
        Some(Index { common, heads, whole, starts, continued })
    }

    /// What all separators but the first begin with.
    pub(super) fn common(&self) -> &[u8] {
        &self.common
    }

    /// Blocks.
    pub(super) fn blocks(&self) -> usize {
        self.heads.all.len() + 1
    }

    /// Units of all blocks.
    pub(super) fn units(&self) -> u32 {
        self.place(self.blocks() - 1).end
    }

    /// The units of a block.
    pub(super) fn place(&self, block: usize) -> std::ops::Range<u32> {
        match &self.starts {
            Starts::Equal(units) => block as u32 * units..(block as u32 + 1) * units,
            Starts::Each(starts) => starts[block]..starts[block + 1],
        }
    }

    /// True where `block` begins with the key that the block before it ends with.
    pub(super) fn is_continued(&self, block: usize) -> bool {
        self.continued.binary_search(&(block as u32)).is_ok()
    }

    /// What comes behind the bytes that all separators begin with, if `key` does, too. None are not
    /// compared: looking for no bytes at an address that is none takes some processors long.
    #[inline]
    fn behind_common<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if self.common.is_empty() { Some(key) } else { key.strip_prefix(&self.common[..]) }
    }

    /// The first block where versions of `key` may be.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let mut block = match self.behind_common(key) {
            Some(rest) => self.at_most(rest),
            None if key < &self.common[..] => 0,
            None => self.heads.all.len(),
        };
        // A key with versions in several blocks is the separator of all but the first of them.
        while self.is_continued(block) && self.is_separator(block, key) {
            block -= 1;
        }
        block
    }

    /// Separators, and so blocks behind the first one, that are at most `rest`.
    fn at_most(&self, rest: &[u8]) -> usize {
        let wanted = head(rest);
        let Some(whole) = &self.whole else {
            return self.heads.at_most(wanted);
        };
        let (mut low, mut high) = (0, self.heads.all.len());
        while low < high {
            let middle = low.midpoint(high);
            let order = self.heads.all[middle].cmp(&wanted);
            if order.then_with(|| whole.get(middle).cmp(rest)) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    fn is_separator(&self, block: usize, key: &[u8]) -> bool {
        let Some(rest) = self.behind_common(key) else { return false };
        match &self.whole {
            Some(whole) => whole.get(block - 1) == rest,
            None => rest.len() <= HEAD_BYTES && self.heads.all[block - 1] == head(rest),
        }
    }

    /// The separator of a block but the first.
    pub(super) fn separator(&self, block: usize) -> Vec<u8> {
        let mut separator = self.common.clone();
        match &self.whole {
            Some(whole) => separator.extend_from_slice(whole.get(block - 1)),
            None => {
                let head = self.heads.all[block - 1];
                // Without the zeroes that fill the number; separators do not end in one.
                let len = HEAD_BYTES - head.trailing_zeros() as usize / 8;
                separator.extend_from_slice(&head.to_be_bytes()[..len]);
            }
        }
        separator
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let starts = if let Starts::Each(starts) = &self.starts { starts.len() } else { 0 };
        let whole = self.whole.as_ref().map_or(0, |w| w.bytes.len() + 4 * w.ends.len());
        let heads = self.heads.all.len() + self.heads.lasts.len();
        self.common.len() + 8 * heads + 4 * (starts + self.continued.len()) + whole
    }
}

fn whole(separators: &[Vec<u8>]) -> Option<Whole> {
    let mut whole = Whole::default();
    for separator in separators {
        whole.bytes.extend_from_slice(separator);
        whole.ends.push(u32::try_from(whole.bytes.len()).ok()?);
    }
    whole.bytes.shrink_to_fit();
    Some(whole)
}

fn starts(units: &[u32]) -> Option<Vec<u32>> {
    let mut starts = vec![0u32];
    for units in units {
        starts.push(starts.last()?.checked_add(*units)?);
    }
    Some(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_counted_as_a_binary_search_would() {
        let most = GROUP * LASTS_MAX;
        for len in (0..70).chain([most - 1, most, most + GROUP - 1, most + GROUP, 5 * most + 3]) {
            // Every third one comes twice, and zero and the greatest are among them.
            let mut all: Vec<u64> = (0..len as u64).map(|n| (n - n % 3 / 2) * 10).collect();
            if let Some(last) = all.last_mut() {
                *last = u64::MAX;
            }
            let heads = Heads::new(all.clone());
            let wanted = all.iter().flat_map(|head| [head.saturating_sub(1), *head, head | 1]);
            for wanted in wanted.chain([0, u64::MAX]) {
                let right = all.partition_point(|head| *head <= wanted);
                assert_eq!(heads.at_most(wanted), right, "{wanted} among {len}");
            }
        }
    }
}
