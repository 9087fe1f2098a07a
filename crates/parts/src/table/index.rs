//! Where in a table a key is: one separator and one place for each block, in memory.
//!
//! A block's **separator** is the shortest key that is after everything before the block and not
//! after anything in it. The first four bytes behind what all separators begin with are kept as a
//! number, its head; the rest of those that are longer, or end in a zero, apart, each with its
//! block's number. Where many are longer the head has eight bytes: what takes less memory is taken.

use super::block::LINE_BYTES;
use crate::fields::Fields;
use silica_base::{prefetch, shared_len, write_varint};

/// Heads that are searched one by one, of which the last is kept a second time, with others of its
/// kind: a binary search of all heads would wait for memory at nearly each of its steps, and this
/// one waits twice.
const GROUP: usize = 16;
/// Groups' last heads that are all looked at, since their memory comes in one go.
const LASTS_MAX: usize = 64;
/// Wide heads tell more if there are more than so many for each short one: then a search compares
/// half as many separators byte by byte, or fewer.
const TOLD_FACTOR: usize = 2;
/// Wide heads that tell more may take one part in so many more memory.
const WIDE_PART: usize = 3;

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
    heads: AnyHeads,
    longer: Longer,
    starts: Starts,
    /// Blocks whose first key is the last one before them.
    continued: Vec<u32>,
}

/// The first bytes of a separator as a number.
trait Head: Copy + Ord {
    /// How many there are.
    const BYTES: usize;

    /// What `rest` begins with, filled up with zeroes.
    fn of(rest: &[u8]) -> Self;

    /// The bytes, without the zeroes that they end in.
    fn append_to(self, out: &mut Vec<u8>);
}

macro_rules! head {
    ($number:ty) => {
        impl Head for $number {
            const BYTES: usize = size_of::<$number>();

            #[inline]
            fn of(rest: &[u8]) -> Self {
                if let Some(bytes) = rest.first_chunk() {
                    return Self::from_be_bytes(*bytes);
                }
                let mut bytes = [0; Self::BYTES];
                bytes[..rest.len()].copy_from_slice(rest);
                Self::from_be_bytes(bytes)
            }

            fn append_to(self, out: &mut Vec<u8>) {
                let len = Self::BYTES - self.trailing_zeros() as usize / 8;
                out.extend_from_slice(&self.to_be_bytes()[..len]);
            }
        }
    };
}

head!(u32);
head!(u64);

/// The heads of all separators but the first, in order.
#[derive(Debug)]
struct Heads<H> {
    all: Vec<H>,
    /// The last one of each whole [`GROUP`].
    lasts: Vec<H>,
}

/// Heads of the width that takes less memory.
#[derive(Debug)]
enum AnyHeads {
    Short(Heads<u32>),
    Wide(Heads<u64>),
}

/// Separators that their heads do not tell: the rests of them, whole.
#[derive(Debug, Default)]
struct Longer {
    /// Which they are, in order.
    numbers: Vec<u32>,
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Longer {
    /// True where a head tells all of `rest`.
    fn is_told<H: Head>(rest: &[u8]) -> bool {
        rest.len() <= H::BYTES && rest.last() != Some(&0)
    }

    fn new<H: Head>(rests: &[&[u8]]) -> Option<Longer> {
        let mut longer = Longer::default();
        for (number, rest) in rests.iter().enumerate().filter(|(_, rest)| !Self::is_told::<H>(rest))
        {
            longer.numbers.push(u32::try_from(number).ok()?);
            longer.bytes.extend_from_slice(rest);
            longer.ends.push(u32::try_from(longer.bytes.len()).ok()?);
        }
        longer.numbers.shrink_to_fit();
        longer.bytes.shrink_to_fit();
        longer.ends.shrink_to_fit();
        Some(longer)
    }

    /// Separator `number`, where it is one of them.
    fn of(&self, number: usize) -> Option<&[u8]> {
        Some(self.rest(self.numbers.binary_search(&(number as u32)).ok()?))
    }

    /// How many of them come before separator `number`.
    #[inline]
    fn before(&self, number: usize) -> usize {
        self.numbers.partition_point(|at| (*at as usize) < number)
    }

    /// The rest at place `at` among them.
    #[inline]
    fn rest(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    fn memory_bytes(&self) -> usize {
        4 * (self.numbers.len() + self.ends.len()) + self.bytes.len()
    }
}

impl<H: Head> Heads<H> {
    fn new(all: Vec<H>) -> Self {
        let lasts = all.as_chunks::<GROUP>().0.iter().map(|group| group[GROUP - 1]).collect();
        Heads { all, lasts }
    }

    fn of(rests: &[&[u8]]) -> Self {
        Heads::new(rests.iter().map(|rest| H::of(rest)).collect())
    }

    /// How many differ from the one before them.
    fn distinct(&self) -> usize {
        self.all.chunk_by(|one, other| one == other).count()
    }

    /// Those that are at most `wanted`.
    #[inline]
    fn at_most(&self, wanted: H) -> usize {
        // Each is looked at: so nothing waits for what the one before it said.
        let among = |heads: &[H]| heads.iter().filter(|head| **head <= wanted).count();
        let groups = if self.lasts.len() <= LASTS_MAX {
            among(&self.lasts)
        } else {
            self.lasts.partition_point(|last| *last <= wanted)
        };
        let start = groups * GROUP;
        start + among(&self.all[start..self.all.len().min(start + GROUP)])
    }

    /// The separators that are at most `rest`.
    #[inline]
    fn separators_at_most(&self, rest: &[u8], longer: &Longer) -> usize {
        let wanted = H::of(rest);
        let found = self.at_most(wanted);
        if found == 0 || self.all[found - 1] != wanted {
            return found;
        }
        let start = self.all[..found].partition_point(|head| *head < wanted);
        // Of one head those that it tells come first, and are at most `rest`, which has it, too.
        // Behind them are only longer ones, next to one another.
        let (first, mut end) = (longer.before(start), longer.before(found));
        let told = found - start - (end - first);
        let mut low = first;
        while low < end {
            let middle = low.midpoint(end);
            if longer.rest(middle) <= rest {
                low = middle + 1;
            } else {
                end = middle;
            }
        }
        start + told + low - first
    }

    /// Asks for the memory that [`Heads::at_most`] looks at first.
    #[inline]
    fn prefetch(&self) {
        let lasts = if self.lasts.len() <= LASTS_MAX { &self.lasts[..] } else { &[] };
        for at in (0..lasts.len()).step_by(LINE_BYTES / H::BYTES) {
            prefetch(lasts, at);
        }
        if lasts.is_empty() {
            prefetch(&self.all, 0);
        }
    }

    /// True where separator `number` is `rest`.
    fn is(&self, number: usize, rest: &[u8], longer: &Longer) -> bool {
        match longer.of(number) {
            Some(separator) => separator == rest,
            None => Longer::is_told::<H>(rest) && self.all[number] == H::of(rest),
        }
    }

    /// Appends separator `number`.
    fn append_to(&self, number: usize, longer: &Longer, out: &mut Vec<u8>) {
        match longer.of(number) {
            Some(rest) => out.extend_from_slice(rest),
            // They do not end in zeroes.
            None => self.all[number].append_to(out),
        }
    }

    fn bytes(&self) -> usize {
        H::BYTES * (self.all.len() + self.lasts.len())
    }
}

impl AnyHeads {
    /// How many there are.
    fn len(&self) -> usize {
        match self {
            AnyHeads::Short(heads) => heads.all.len(),
            AnyHeads::Wide(heads) => heads.all.len(),
        }
    }

    /// See [`Heads::separators_at_most`].
    #[inline]
    fn separators_at_most(&self, rest: &[u8], longer: &Longer) -> usize {
        match self {
            AnyHeads::Short(heads) => heads.separators_at_most(rest, longer),
            AnyHeads::Wide(heads) => heads.separators_at_most(rest, longer),
        }
    }

    /// See [`Heads::prefetch`].
    #[inline]
    fn prefetch(&self) {
        match self {
            AnyHeads::Short(heads) => heads.prefetch(),
            AnyHeads::Wide(heads) => heads.prefetch(),
        }
    }

    /// See [`Heads::is`].
    fn is(&self, number: usize, rest: &[u8], longer: &Longer) -> bool {
        match self {
            AnyHeads::Short(heads) => heads.is(number, rest, longer),
            AnyHeads::Wide(heads) => heads.is(number, rest, longer),
        }
    }

    /// See [`Heads::append_to`].
    fn append_to(&self, number: usize, longer: &Longer, out: &mut Vec<u8>) {
        match self {
            AnyHeads::Short(heads) => heads.append_to(number, longer, out),
            AnyHeads::Wide(heads) => heads.append_to(number, longer, out),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            AnyHeads::Short(heads) => heads.bytes(),
            AnyHeads::Wide(heads) => heads.bytes(),
        }
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
        let rests: Vec<&[u8]> = separators.iter().map(|whole| &whole[common.len()..]).collect();
        let (heads, longer) = choose_heads(&rests)?;
        let first = *units.first()?;
        let starts = if units.iter().all(|n| *n == first) {
            first.checked_mul(u32::try_from(units.len()).ok()?)?;
            Starts::Equal(first)
        } else {
            Starts::Each(starts(&units)?)
        };
        Some(Index { common, heads, longer, starts, continued })
    }

    /// What all separators but the first begin with.
    pub(super) fn common(&self) -> &[u8] {
        &self.common
    }

    /// Blocks.
    pub(super) fn blocks(&self) -> usize {
        self.heads.len() + 1
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

    /// Asks for the memory that [`Index::find`] looks at first.
    #[inline]
    pub(super) fn prefetch_separators(&self) {
        self.heads.prefetch();
        prefetch(&self.common, 0);
    }

    /// The first block where versions of `key` may be.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let mut block = match self.behind_common(key) {
            Some(rest) => self.heads.separators_at_most(rest, &self.longer),
            None if key < &self.common[..] => 0,
            None => self.heads.len(),
        };
        // A key with versions in several blocks is the separator of all but the first of them.
        while self.is_continued(block) && self.is_separator(block, key) {
            block -= 1;
        }
        block
    }

    fn is_separator(&self, block: usize, key: &[u8]) -> bool {
        let Some(rest) = self.behind_common(key) else { return false };
        self.heads.is(block - 1, rest, &self.longer)
    }

    /// The separator of a block but the first.
    pub(super) fn separator(&self, block: usize) -> Vec<u8> {
        let mut separator = self.common.clone();
        self.heads.append_to(block - 1, &self.longer, &mut separator);
        separator
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let starts = if let Starts::Each(starts) = &self.starts { starts.len() } else { 0 };
        let heads = self.heads.bytes() + self.longer.memory_bytes();
        self.common.len() + heads + 4 * (starts + self.continued.len())
    }
}

/// Heads of the width that takes less memory, unless the wide ones take little more and tell
/// separators apart that short ones do not: keys of several trees in one table begin with the
/// tree and zeroes, and a search would compare most of them byte by byte.
fn choose_heads(rests: &[&[u8]]) -> Option<(AnyHeads, Longer)> {
    let (short, wide) = (Longer::new::<u32>(rests)?, Longer::new::<u64>(rests)?);
    let (heads, wide_heads) = (Heads::<u32>::of(rests), Heads::<u64>::of(rests));
    let takes = |heads: usize, longer: &Longer| heads + longer.memory_bytes();
    let (bytes, wide_bytes) = (takes(heads.bytes(), &short), takes(wide_heads.bytes(), &wide));
    let is_told = wide_heads.distinct() <= TOLD_FACTOR * heads.distinct();
    if bytes <= wide_bytes && (is_told || wide_bytes > bytes + bytes / WIDE_PART) {
        return Some((AnyHeads::Short(heads), short));
    }
    Some((AnyHeads::Wide(wide_heads), wide))
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

    /// Looks for keys around each separator of blocks that begin with `firsts`.
    fn check(firsts: &[Vec<u8>], is_short: bool) {
        let mut builder = IndexBuilder::default();
        let mut last: Option<&[u8]> = None;
        for first in firsts {
            builder.begin(last, first);
            builder.end(1);
            last = Some(first);
        }
        let index = Index::decode(&builder.finish()).expect("it was just made");
        assert_eq!(matches!(index.heads, AnyHeads::Short(_)), is_short);
        let made: Vec<Vec<u8>> = (1..index.blocks()).map(|block| index.separator(block)).collect();
        let mut keys: Vec<Vec<u8>> = vec![Vec::new(), vec![255; 20]];
        for separator in &made {
            let cut = separator.split_last().map_or(&[][..], |(_, rest)| rest);
            keys.extend([separator.clone(), cut.to_vec()]);
            keys.extend([0, 1, 255].map(|byte| [&separator[..], &[byte]].concat()));
            keys.extend([0, 255].map(|byte| [cut, &[byte]].concat()));
        }
        for key in keys {
            let right = made.partition_point(|separator| *separator <= key);
            assert_eq!(index.find(&key), right, "{key:?}");
            for (number, separator) in made.iter().enumerate() {
                assert_eq!(index.is_separator(number + 1, &key), *separator == key, "{key:?}");
            }
        }
    }

    #[test]
    fn keys_are_found_behind_short_wide_and_longer_heads() {
        let numbers = |n: u64| (n * 1000).to_be_bytes().to_vec();
        check(&(1..300).map(numbers).collect::<Vec<_>>(), true);
        // Nearly all differ from the fifth byte to the eighth.
        let wide = |n: u32| [&b"x"[..], &[(n % 2) as u8 + 1], b"mid", &n.to_be_bytes()].concat();
        let mut firsts: Vec<_> = (1..300).map(wide).collect();
        firsts.sort();
        check(&firsts, false);
        // A few are longer, some of them end in zeroes, and share their heads with short ones.
        let mut firsts: Vec<_> =
            (1..300).map(|n| (n * 0x10_0000_u32).to_be_bytes().to_vec()).collect();
        for n in [7_u32, 8, 250] {
            let head = (n * 0x10_0000 + 1).to_be_bytes();
            firsts.push(head.to_vec());
            for end in [&b"\0"[..], b"\0\0", b"\0\x01", b"a", b"a\0", b"ab", b"b"] {
                firsts.push([&head[..], end].concat());
            }
        }
        firsts.sort();
        check(&firsts, true);
    }

    #[test]
    fn keys_of_several_trees_are_told_apart_by_their_heads() {
        // As SQL has them: a tree, and a number of a row, whose first bytes are the same in all.
        let row = |tree: u8, row: u64| {
            [&[0x10, 0, 0, 0, tree][..], &(row | 1 << 63).to_be_bytes()].concat()
        };
        let rows = (0..400).map(|block| block * 50);
        let firsts: Vec<_> =
            [2, 3, 7].iter().flat_map(|tree| rows.clone().map(|n| row(*tree, n))).collect();
        check(&firsts, false);
        let alone: Vec<_> = rows.map(|n| row(2, n)).collect();
        check(&alone, true);
    }
}
