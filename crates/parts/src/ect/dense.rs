//! The dense index: key to rank.

use super::EctParams;
use super::bits::CodeBytes;
use super::directory::Directory;
use super::frame::{self, Kind};
use super::trie::Codes;
use silica_base::Result;

/// The virtual bucket of `key` among `buckets` even ranges of all keys, and the key's position
/// inside it, in 2^-64 of the bucket. Together they order keys as the keys themselves do.
#[inline]
pub(super) fn locate(key: u64, buckets: u64) -> (u64, u64) {
    let product = u128::from(key) * u128::from(buckets);
    ((product >> 64) as u64, product as u64)
}

/// Builds a [`DenseIndex`] from ascending keys.
#[derive(Debug)]
pub struct DenseBuilder {
    codes: Codes,
    hmax: u32,
    buckets: u64,
    /// Positions of the keys of the bucket being filled.
    positions: Vec<u64>,
    /// Rank and bit at which each bucket starts; the last one is being filled.
    starts: Vec<[u64; 2]>,
    trie: CodeBytes,
}

impl DenseBuilder {
    /// A builder for about `keys_expected` keys: the virtual buckets are as many as keep
    /// `params.group` of them in each. Far fewer keys cost memory per key, far more cost time.
    pub fn new(params: EctParams, keys_expected: u64) -> Self {
        DenseBuilder {
            codes: Codes::new(params.hmax),
            hmax: params.hmax.min(u32::from(u8::MAX)),
            buckets: keys_expected.div_ceil(u64::from(params.group.max(1))).max(1),
            positions: Vec::new(),
            starts: vec![[0, 0]],
            trie: CodeBytes::default(),
        }
    }

    /// Adds the next key, which MUST NOT be less than the one before.
    #[inline]
    pub fn push(&mut self, key: u64) {
        let (bucket, position) = locate(key, self.buckets);
        if bucket != self.starts.len() as u64 - 1 {
            self.close_buckets(bucket);
        }
        debug_assert!(self.positions.last().is_none_or(|&last| last <= position));
        self.positions.push(position);
    }

    /// Writes the bucket that was filled, and empty ones up to `bucket`.
    fn close_buckets(&mut self, bucket: u64) {
        debug_assert!(bucket >= self.starts.len() as u64, "keys ascend");
        self.codes.write(self.trie.writer(), &self.positions);
        self.trie.drain();
        let rank = self.starts[self.starts.len() - 1][0] + self.positions.len() as u64;
        self.positions.clear();
        self.starts.resize(bucket as usize + 1, [rank, self.trie.len_bits()]);
    }

    /// The index of everything pushed.
    pub fn finish(mut self) -> DenseIndex {
        if self.starts.len() == 1 && self.positions.is_empty() {
            self.buckets = 1;
        }
        self.close_buckets(self.buckets);
        DenseIndex {
            len: self.starts[self.starts.len() - 1][0],
            codes: self.codes,
            hmax: self.hmax,
            trie: self.trie.finish(),
            directory: Directory::new(&self.starts),
        }
    }
}

/// Rank of a key among the indexed keys.
#[derive(Debug)]
pub struct DenseIndex {
    len: u64,
    codes: Codes,
    hmax: u32,
    directory: Directory,
    trie: Vec<u8>,
}

impl DenseIndex {
    /// Rank of `key` if it was indexed (of the first of equal keys); else some rank below
    /// [`len`](Self::len), or 0 where nothing was indexed.
    pub fn rank(&self, key: u64) -> u64 {
        let (bucket, position) = locate(key, self.directory.shape().buckets);
        let spot = self.directory.spot(bucket);
        let size = spot.ranks[1].saturating_sub(spot.ranks[0]);
        let inside = self.codes.rank(&self.trie, spot.bits, size, position);
        spot.ranks[0].saturating_add(inside).min(self.len.saturating_sub(1))
    }

    /// Keys indexed.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True where nothing was indexed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory that the index takes, in bytes; the code tables are one static for all indexes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.directory.bytes().len() + self.trie.len()
    }

    /// Appends the encoded index to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let header =
            frame::Header { kind: Kind::Dense, items: self.len, code: [self.hmax as u8, 0, 0, 0] };
        frame::encode(out, &header, &self.directory, &self.trie);
    }

    /// Decodes what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (header, directory, trie) = frame::decode(bytes, Kind::Dense)?;
        let hmax = u32::from(header.code[0]);
        Ok(DenseIndex { len: header.items, codes: Codes::new(hmax), hmax, directory, trie })
    }
}
