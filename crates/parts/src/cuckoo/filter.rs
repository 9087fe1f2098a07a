//! The filter of a hash store: a table's tags, bit-packed, with a rank directory.
//!
//! The bytes in memory are the bytes on the device: groups of [`GROUP_BUCKETS`] buckets, each
//! group starting with the number of occupied slots before it (docs/formats/filter.md). So a
//! single bucket can be matched from one group without loading the rest.

use super::geometry::{BUCKET_SLOTS, Geometry};
use silica_base::{Checksum, Error, Format, KeyHash, Result, prefetch};
use std::ops::Range;

/// Buckets of a group.
const GROUP_BUCKETS: u32 = 64;
/// Bytes of the number of occupied slots before a group.
const RANK_BYTES: usize = 4;
/// Bytes in front of the groups of an encoded filter.
pub const FILTER_HEADER_BYTES: usize = 32;
/// Zeroes after the last group, so that every bucket can be read as eight bytes.
const PAD_BYTES: usize = 8;
const FORMAT: Format =
    Format { name: "filter", magic: b"SiCF", version_bytes: 2, version: 1, steps: &[] };

/// Sizes and masks that follow from the tag bits.
#[derive(Clone, Copy)]
struct Packing {
    tag_bits: u32,
    /// The lowest bit of each of the four tags.
    ones: u64,
    /// The four tags' bits without their highest.
    low: u64,
    group_bytes: usize,
}

impl Packing {
    #[inline]
    fn new(geometry: &Geometry) -> Self {
        let k = geometry.tag_bits;
        let ones = 1 | 1 << k | 1 << (2 * k) | 1 << (3 * k);
        let low = ones * ((1 << (k - 1)) - 1);
        let group_bytes = RANK_BYTES + (GROUP_BUCKETS * BUCKET_SLOTS * k / 8) as usize;
        Packing { tag_bits: k, ones, low, group_bytes }
    }

    /// The highest bits of the tags of `word` that are not zero.
    #[inline(always)]
    fn occupied(&self, word: u64) -> u64 {
        (((word & self.low) + self.low) | word) & (self.ones << (self.tag_bits - 1))
    }

    /// The four tags of the bucket `index` of `group`.
    #[inline(always)]
    fn bucket(&self, group: &[u8], index: u32) -> u64 {
        let bit = (BUCKET_SLOTS * self.tag_bits * index) as usize;
        let at = RANK_BYTES + bit / 8;
        let mut bytes = [0; 8];
        match group.get(at..at + 8) {
            Some(whole) => bytes.copy_from_slice(whole),
            None => {
                let rest = group.get(at..).unwrap_or(&[]);
                bytes[..rest.len()].copy_from_slice(rest);
            }
        }
        // The shift is 0 or 4 and 4 only where four tags take at most 60 bits.
        let word = u64::from_le_bytes(bytes) >> (bit % 8);
        word & (u64::MAX >> (64 - BUCKET_SLOTS * self.tag_bits))
    }

    /// Occupied slots before the bucket `index`, in the whole filter.
    fn rank(&self, group: &[u8], index: u32) -> u32 {
        let mut before = [0; RANK_BYTES];
        let directory = group.get(..RANK_BYTES).unwrap_or(&[]);
        before[..directory.len()].copy_from_slice(directory);
        let inside: u32 =
            (0..index).map(|b| self.occupied(self.bucket(group, b)).count_ones()).sum();
        // A damaged directory may hold any number; the sum must not panic on it.
        u32::from_le_bytes(before).wrapping_add(inside)
    }

    /// Slots of `word` that hold `tag`, as the highest bits of the tags.
    #[inline(always)]
    fn matches(&self, word: u64, tag: u16) -> u64 {
        let other = self.occupied(word ^ (u64::from(tag) * self.ones));
        (self.ones << (self.tag_bits - 1)) & !other
    }
}

/// The ranks of the slots of one bucket that hold a tag.
#[derive(Clone)]
pub struct Ranks<'a> {
    packing: Packing,
    group: &'a [u8],
    index: u32,
    matches: u64,
}

impl<'a> Ranks<'a> {
    #[inline]
    fn new(packing: Packing, group: &'a [u8], index: u32, tag: u16) -> Self {
        let matches = packing.matches(packing.bucket(group, index), tag);
        Ranks { packing, group, index, matches }
    }
}

impl Iterator for Ranks<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.matches == 0 {
            return None;
        }
        let slot_end = self.matches.trailing_zeros();
        self.matches &= self.matches - 1;
        let word = self.packing.bucket(self.group, self.index);
        let before = self.packing.occupied(word) & ((1 << slot_end) - 1);
        Some(self.packing.rank(self.group, self.index).wrapping_add(before.count_ones()))
    }
}

/// Bytes `start..end` of an encoded filter that decide about `bucket` and its ranks.
pub fn encoded_bucket_range(geometry: &Geometry, bucket: u32) -> Range<u64> {
    let bytes = Packing::new(geometry).group_bytes as u64;
    let start = FILTER_HEADER_BYTES as u64 + u64::from(bucket / GROUP_BUCKETS) * bytes;
    start..start + bytes
}

/// The ranks of the slots of `bucket` that hold `tag`, from the bytes that
/// [`encoded_bucket_range`] names. Bytes cut short hold no tags.
pub fn match_encoded<'a>(geometry: &Geometry, bytes: &'a [u8], bucket: u32, tag: u16) -> Ranks<'a> {
    Ranks::new(Packing::new(geometry), bytes, bucket % GROUP_BUCKETS, tag)
}

/// The tags of an immutable table in slot order, `tag_bits` each, and ranks.
#[derive(Clone, PartialEq, Eq)]
pub struct TagFilter {
    geometry: Geometry,
    len: u32,
    /// Groups, then [`PAD_BYTES`] zeroes.
    groups: Vec<u8>,
}

impl TagFilter {
    /// Packs the tags of a table, four 16-bit tags per bucket.
    pub(super) fn build(geometry: Geometry, tags: impl Iterator<Item = u64>) -> Self {
        let packing = Packing::new(&geometry);
        let mut groups = vec![0; groups_bytes(&geometry)];
        let (mut len, mut tags) = (0u32, tags);
        for group in groups.chunks_exact_mut(packing.group_bytes) {
            group[..RANK_BYTES].copy_from_slice(&len.to_le_bytes());
            let tags = tags.by_ref().take(GROUP_BUCKETS as usize);
            len += pack(&packing, &mut group[RANK_BYTES..], tags);
        }
        TagFilter { geometry, len, groups }
    }

    /// Where hashes live.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Occupied slots.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True where no slot is occupied.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.groups.capacity()
    }

    /// Asks the processor for both buckets of `h`.
    #[inline]
    pub fn prefetch(&self, h: KeyHash) {
        let bucket = self.geometry.bucket(h);
        let other = self.geometry.alternative(bucket, self.geometry.tag(h));
        let packing = Packing::new(&self.geometry);
        for bucket in [bucket, other] {
            let inside = BUCKET_SLOTS * packing.tag_bits * (bucket % GROUP_BUCKETS) / 8;
            let group = (bucket / GROUP_BUCKETS) as usize * packing.group_bytes;
            prefetch(&self.groups, group + RANK_BYTES + inside as usize);
        }
    }

    /// The ranks, among all occupied slots, of those whose tag is that of `h`.
    #[inline]
    pub fn candidates(&self, h: KeyHash) -> impl Iterator<Item = u32> + '_ {
        let tag = self.geometry.tag(h);
        let bucket = self.geometry.bucket(h);
        let other = self.geometry.alternative(bucket, tag);
        self.ranks(bucket, tag).chain(self.ranks(other, tag))
    }

    /// True where some slot has the tag of `h`.
    #[inline]
    pub fn may_contain(&self, h: KeyHash) -> bool {
        let tag = self.geometry.tag(h);
        let bucket = self.geometry.bucket(h);
        let other = self.geometry.alternative(bucket, tag);
        (self.ranks(bucket, tag).matches | self.ranks(other, tag).matches) != 0
    }

    /// Occupied slots before `bucket`, which may be the number of buckets.
    pub fn rank_of_bucket(&self, bucket: u32) -> u32 {
        if bucket >= self.geometry.buckets() {
            return self.len;
        }
        let packing = Packing::new(&self.geometry);
        packing.rank(self.group(&packing, bucket), bucket % GROUP_BUCKETS)
    }

    /// The tags of the occupied slots of `buckets` in slot order: slot and tag.
    pub fn occupied_in(&self, buckets: Range<u32>) -> impl Iterator<Item = (u32, u16)> + '_ {
        let packing = Packing::new(&self.geometry);
        buckets.flat_map(move |bucket| {
            let word = packing.bucket(self.group(&packing, bucket), bucket % GROUP_BUCKETS);
            (0..BUCKET_SLOTS).filter_map(move |i| {
                let tag = (word >> (packing.tag_bits * i)) & ((1 << packing.tag_bits) - 1);
                (tag != 0).then_some((BUCKET_SLOTS * bucket + i, tag as u16))
            })
        })
    }

    #[inline]
    fn ranks(&self, bucket: u32, tag: u16) -> Ranks<'_> {
        let packing = Packing::new(&self.geometry);
        Ranks::new(packing, self.group(&packing, bucket), bucket % GROUP_BUCKETS, tag)
    }

    /// The group of `bucket` and the padding or the group after it.
    #[inline]
    fn group(&self, packing: &Packing, bucket: u32) -> &[u8] {
        let start = (bucket / GROUP_BUCKETS) as usize * packing.group_bytes;
        &self.groups[start..start + packing.group_bytes + PAD_BYTES]
    }

    /// Appends the encoded filter to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        FORMAT.begin(out);
        out.push(self.geometry.tag_bits as u8);
        out.push(self.geometry.block_buckets_log2 as u8);
        out.extend_from_slice(&self.geometry.skip_bits.to_le_bytes());
        out.extend_from_slice(&self.geometry.blocks.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        let groups = &self.groups[..self.groups.len() - PAD_BYTES];
        let sum = Checksum::at(0, 0).update(&out[start..]).update(groups).finish();
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(groups);
    }

    /// Bytes that [`TagFilter::encode`] appends for a table of `geometry`.
    pub fn encoded_len(geometry: &Geometry) -> usize {
        FILTER_HEADER_BYTES + groups_bytes(geometry) - PAD_BYTES
    }

    /// Decodes an encoded filter; `bytes` must be exactly it.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |at: u64, detail: &str| Error::corruption("filter", at, detail);
        let Some((header, groups)) = bytes.split_at_checked(FILTER_HEADER_BYTES) else {
            return Err(damaged(bytes.len() as u64, "the header is cut short"));
        };
        FORMAT.version_of("filter", 0, header)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let sum = Checksum::at(0, 0).update(&header[..28]).update(groups).finish();
        if sum != word(28) {
            return Err(damaged(28, "the checksum does not match"));
        }
        let geometry = Geometry::new(word(8), word(12), header[7].into(), header[6].into())
            .map_err(|e| damaged(6, &e.to_string()))?;
        if bytes.len() != Self::encoded_len(&geometry) {
            return Err(damaged(bytes.len() as u64, "the length does not fit the header"));
        }
        let mut padded = Vec::with_capacity(groups.len() + PAD_BYTES);
        padded.extend_from_slice(groups);
        padded.extend_from_slice(&[0; PAD_BYTES]);
        Ok(TagFilter { geometry, len: word(16), groups: padded })
    }

    /// Checks that every rank of the directory is the number of occupied slots before its group.
    pub fn verify(&self) -> Result<()> {
        let packing = Packing::new(&self.geometry);
        let mut rank = 0;
        for first in (0..self.geometry.buckets()).step_by(GROUP_BUCKETS as usize) {
            let group = self.group(&packing, first);
            if packing.rank(group, 0) != rank {
                let at = encoded_bucket_range(&self.geometry, first).start;
                return Err(Error::corruption("filter", at, "wrong number of occupied slots"));
            }
            let buckets = GROUP_BUCKETS.min(self.geometry.buckets() - first);
            rank = packing.rank(group, buckets);
        }
        if rank != self.len {
            return Err(Error::corruption("filter", 16, "wrong number of occupied slots"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for TagFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TagFilter({} occupied, {:?})", self.len, self.geometry)
    }
}

/// Bytes of all groups of a filter and the padding.
fn groups_bytes(geometry: &Geometry) -> usize {
    let groups = geometry.buckets().div_ceil(GROUP_BUCKETS) as usize;
    groups * Packing::new(geometry).group_bytes + PAD_BYTES
}

/// Packs the tags of one group; the number of occupied slots.
fn pack(packing: &Packing, out: &mut [u8], tags: impl Iterator<Item = u64>) -> u32 {
    let mut occupied = 0;
    for (index, bucket) in tags.enumerate() {
        let mut word = 0u64;
        for i in 0..BUCKET_SLOTS {
            let tag = (bucket >> (16 * i)) & 0xFFFF;
            occupied += u32::from(tag != 0);
            word |= tag << (packing.tag_bits * i);
        }
        let bit = (BUCKET_SLOTS * packing.tag_bits) as usize * index;
        let bytes = (word << (bit % 8)).to_le_bytes();
        let end = out.len().min(bit / 8 + 8);
        for (to, from) in out[bit / 8..end].iter_mut().zip(bytes) {
            *to |= from;
        }
    }
    occupied
}
