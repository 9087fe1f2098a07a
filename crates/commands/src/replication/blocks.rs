//! All data as blocks of entries, for replicas that are Silica too, and the ranges by which both
//! sides find what they have alike (docs/protocols/replication.md).

use super::records::{self, damaged, take_number};
use silica::engine::{EntryRef, Result};
use silica_base::{Checksum, HashSeed, checksum, write_varint};

/// Bytes of entries after which a range ends, and a block.
pub(crate) const RANGE_BYTES: usize = 1 << 20;
/// Bytes of a block's body, at most.
const BODY_BYTES_MAX: usize = 1 << 30;
/// Ranges that a summary names, at most: 17 MiB.
pub(crate) const RANGES_MAX: usize = 1 << 20;
/// A range ends with a key whose hash has these bits clear.
const END_MASK: u64 = 0xFF;
const LEN_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 4;
const HASH_BYTES: usize = 16;

const BEGIN: u8 = 1;
const FUNCTION: u8 = 2;
const ENTRIES: u8 = 3;
const SAME: u8 = 4;
const END: u8 = 5;

/// The hash of a range.
pub(crate) type RangeHash = [u8; HASH_BYTES];

/// What a block says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block<'b> {
    /// The database that the stream has selected.
    Begin(u8),
    /// The text of a library of functions.
    Function(&'b [u8]),
    /// Entries of a database: how many, and their bytes.
    Entries(u8, u64, &'b [u8]),
    /// A range of a database that the replica has: its hash, and how many entries.
    Same(u8, RangeHash, u64),
    /// How many entries all blocks have.
    End(u64),
}

/// Makes blocks.
#[derive(Default)]
pub(crate) struct BlockWriter {
    number: u64,
    entries: u64,
}

impl BlockWriter {
    pub(crate) fn begin(&mut self, selected: u8, out: &mut Vec<u8>) {
        self.push(BEGIN, out, |out| out.push(selected));
    }

    pub(crate) fn function(&mut self, text: &[u8], out: &mut Vec<u8>) {
        self.push(FUNCTION, out, |out| out.extend_from_slice(text));
    }

    pub(crate) fn entries(&mut self, db: u8, range: &Range, out: &mut Vec<u8>) {
        self.entries += range.entries;
        self.push(ENTRIES, out, |out| {
            out.push(db);
            write_varint(out, range.entries);
            out.extend_from_slice(&range.bytes);
        });
    }

    pub(crate) fn same(&mut self, db: u8, range: &Range, hash: &RangeHash, out: &mut Vec<u8>) {
        self.entries += range.entries;
        self.push(SAME, out, |out| {
            out.push(db);
            out.extend_from_slice(hash);
            write_varint(out, range.entries);
        });
    }

    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        let entries = self.entries;
        self.push(END, out, |out| write_varint(out, entries));
    }

    fn push(&mut self, kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[0; LEN_BYTES]);
        out.extend_from_slice(&[records::VERSION, kind]);
        body(out);
        let len = (out.len() - start - LEN_BYTES) as u32;
        out[start..start + LEN_BYTES].copy_from_slice(&len.to_le_bytes());
        let sum = sum_of(self.number, &out[start + LEN_BYTES..]);
        out.extend_from_slice(&sum.to_le_bytes());
        self.number += 1;
    }
}

fn sum_of(number: u64, body: &[u8]) -> u32 {
    Checksum::at(number, 0).update(body).finish()
}

/// Reads blocks in their order.
#[derive(Default)]
pub(crate) struct BlockReader {
    number: u64,
}

impl BlockReader {
    /// The block that `bytes` begin with, and its length; `None` if the rest of it has not come.
    ///
    /// # Errors
    /// `Corruption` if it is damaged, `Unsupported` if it is of a newer version.
    pub(crate) fn next<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(Block<'b>, usize)>> {
        let Some((len, rest)) = bytes.split_first_chunk::<LEN_BYTES>() else { return Ok(None) };
        let len = u32::from_le_bytes(*len) as usize;
        if !(2..=BODY_BYTES_MAX).contains(&len) {
            return Err(damaged("a block has an impossible length"));
        }
        let Some((body, behind)) = rest.split_at_checked(len) else { return Ok(None) };
        let Some(sum) = behind.first_chunk::<CHECKSUM_BYTES>() else { return Ok(None) };
        if u32::from_le_bytes(*sum) != sum_of(self.number, body) {
            return Err(damaged("the checksum of a block is wrong"));
        }
        if body[0] != records::VERSION {
            return Err(records::newer("a block", body[0]));
        }
        self.number += 1;
        Ok(Some((block_of(body[1], &body[2..])?, LEN_BYTES + len + CHECKSUM_BYTES)))
    }
}

fn block_of(kind: u8, mut rest: &[u8]) -> Result<Block<'_>> {
    let cut = || damaged("a block is too short");
    if kind == FUNCTION {
        return Ok(Block::Function(rest));
    }
    let db = match kind {
        END => 0,
        _ => *rest.split_off_first().ok_or_else(cut)?,
    };
    let block = match kind {
        BEGIN => Block::Begin(db),
        ENTRIES => {
            let count = take_number(&mut rest)?;
            return Ok(Block::Entries(db, count, rest));
        }
        SAME => {
            let hash = rest.split_off(..HASH_BYTES).ok_or_else(cut)?;
            let hash = hash.try_into().map_err(|_| cut())?;
            Block::Same(db, hash, take_number(&mut rest)?)
        }
        END => Block::End(take_number(&mut rest)?),
        _ => return Err(damaged("a block of an unknown kind")),
    };
    match rest {
        [] => Ok(block),
        _ => Err(damaged("a block is too long")),
    }
}

/// A range of entries that is being collected. Both sides cut their keys alike, wherever their
/// entries are the same.
pub(crate) struct Range {
    seed: HashSeed,
    pub(crate) first: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: u64,
}

impl Range {
    pub(crate) fn new(seed: HashSeed) -> Self {
        Range { seed, first: Vec::new(), bytes: Vec::new(), entries: 0 }
    }

    /// Adds an entry; true if the range ends with it, when it `ends` by keys, or if it is large.
    pub(crate) fn add(&mut self, key: &[u8], entry: EntryRef<'_>, by_keys: bool) -> bool {
        if self.entries == 0 {
            self.first.clear();
            self.first.extend_from_slice(key);
        }
        records::push_put(&mut self.bytes, key, entry);
        self.entries += 1;
        self.bytes.len() >= RANGE_BYTES || (by_keys && self.seed.low(key) & END_MASK == 0)
    }

    pub(crate) fn hash(&self) -> RangeHash {
        self.seed.hash(&self.bytes).0.to_le_bytes()
    }

    /// Begins the next range.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * RANGE_BYTES);
        self.entries = 0;
    }
}

/// What a replica has, as its primary knows it.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Vec<(u8, RangeHash)>);

impl Ranges {
    /// Bytes of a summary of so many ranges.
    const RANGE_BYTES: usize = 1 + HASH_BYTES;

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, db: u8, hash: &RangeHash) -> bool {
        self.0.binary_search(&(db, *hash)).is_ok()
    }

    /// The summary of `ranges`.
    pub(crate) fn encode(ranges: &[(u8, RangeHash)]) -> Vec<u8> {
        let mut out = vec![records::VERSION];
        out.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
        for (db, hash) in ranges {
            out.push(*db);
            out.extend_from_slice(hash);
        }
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The ranges of a summary; `None` if it is damaged, too long, or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Ranges> {
        let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        let (&[version, count @ ..], rest) = body.split_first_chunk::<5>()?;
        let count = u32::from_le_bytes(count) as usize;
        let is_whole = checksum(body) == u32::from_le_bytes(*sum)
            && version == records::VERSION
            && count <= RANGES_MAX
            && rest.len() == count * Self::RANGE_BYTES;
        let one = |bytes: &[u8]| Some((bytes[0], bytes[1..].try_into().ok()?));
        let ranges: Option<Vec<_>> = rest.chunks(Self::RANGE_BYTES).map(one).collect();
        let mut ranges = ranges.filter(|_| is_whole)?;
        ranges.sort_unstable();
        Some(Ranges(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(entries: std::ops::Range<u32>) -> Range {
        let mut range = Range::new(HashSeed([7; 16]));
        for n in entries {
            range.add(format!("key {n:06}").as_bytes(), EntryRef::new(&[1; 50]), false);
        }
        range
    }

    fn blocks() -> Vec<u8> {
        let (mut writer, mut out) = (BlockWriter::default(), Vec::new());
        writer.begin(3, &mut out);
        writer.function(b"#!lua", &mut out);
        writer.entries(0, &range(0..20), &mut out);
        let same = range(20..50);
        writer.same(5, &same, &same.hash(), &mut out);
        writer.end(&mut out);
        out
    }

    fn read(mut bytes: &[u8]) -> Result<Vec<String>> {
        let (mut reader, mut all) = (BlockReader::default(), Vec::new());
        while let Some((block, len)) = reader.next(bytes)? {
            all.push(format!("{block:?}"));
            bytes = &bytes[len..];
        }
        Ok(all)
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let all = read(&blocks()).expect("they are whole");
        assert_eq!(all.len(), 5);
        assert_eq!((&all[0][..], &all[4][..]), ("Begin(3)", "End(50)"));
        assert_eq!(all[3], format!("{:?}", Block::Same(5, range(20..50).hash(), 30)));
    }

    #[test]
    fn damage_anywhere_is_found_or_leaves_the_end_out() {
        let bytes = blocks();
        for at in 0..bytes.len() {
            let cut = read(&bytes[..at]).expect("a cut is no damage");
            assert!(cut.len() < 5, "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            let read = read(&damaged);
            assert!(read.is_err() || read.is_ok_and(|all| all.len() < 5), "byte {at}");
        }
        // A block that is left out, or comes twice.
        let first = BlockReader::default().next(&bytes).unwrap().unwrap().1;
        assert!(read(&bytes[first..]).is_err());
        assert!(read(&[&bytes[..first], &bytes].concat()).is_err());
    }

    #[test]
    fn ranges_end_alike_wherever_their_keys_are_alike() {
        let cut = |skip: u32| {
            let (mut one, mut hashes) = (Range::new(HashSeed([9; 16])), Vec::new());
            for n in (0..20_000_u32).filter(|n| *n != skip) {
                if one.add(&n.to_be_bytes(), EntryRef::new(b"v"), true) {
                    hashes.push(one.hash());
                    one.clear();
                }
            }
            hashes
        };
        let (all, less) = (cut(u32::MAX), cut(10_000));
        assert!((40..160).contains(&all.len()), "{}", all.len());
        let known =
            Ranges::decode(&Ranges::encode(&all.iter().map(|hash| (0, *hash)).collect::<Vec<_>>()));
        let known = known.expect("it is whole");
        let new = less.iter().filter(|hash| !known.has(0, hash)).count();
        assert_eq!(new, 1, "of {}", less.len());
        assert!(!known.has(1, &all[0]));
    }

    #[test]
    fn summaries_that_are_damaged_are_none() {
        let bytes = Ranges::encode(&[(0, [1; 16]), (9, [2; 16])]);
        assert!(Ranges::decode(&bytes).is_some_and(|ranges| ranges.has(9, &[2; 16])));
        assert!(Ranges::decode(&Ranges::encode(&[])).is_some_and(|ranges| ranges.is_empty()));
        for at in 0..bytes.len() {
            assert!(Ranges::decode(&bytes[..at]).is_none(), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Ranges::decode(&damaged).is_none(), "byte {at}");
        }
    }
}
