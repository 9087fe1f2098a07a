//! The dense index: key to rank.

use super::EctParams;
use silica_base::Result;

/// Builds a [`DenseIndex`] from ascending keys.
#[derive(Debug)]
pub struct DenseBuilder {
    keys: Vec<u64>,
}

impl DenseBuilder {
    /// A builder for about `keys_expected` keys.
    pub fn new(_params: EctParams, keys_expected: u64) -> Self {
        DenseBuilder { keys: Vec::with_capacity(keys_expected.min(1 << 20) as usize) }
    }

    /// Adds the next key, which MUST NOT be less than the one before.
    pub fn push(&mut self, key: u64) {
        debug_assert!(self.keys.last().is_none_or(|&last| last <= key));
        self.keys.push(key);
    }

    /// The index of everything pushed.
    pub fn finish(self) -> DenseIndex {
        DenseIndex { keys: self.keys }
    }
}

/// Rank of a key among the indexed keys.
#[derive(Debug)]
pub struct DenseIndex {
    keys: Vec<u64>,
}

impl DenseIndex {
    /// Rank of `key` if it was indexed (of the first of equal keys); else some rank below
    /// [`len`](Self::len).
    pub fn rank(&self, key: u64) -> u64 {
        let rank = self.keys.partition_point(|&k| k < key);
        rank.min(self.keys.len().saturating_sub(1)) as u64
    }

    /// Keys indexed.
    pub fn len(&self) -> u64 {
        self.keys.len() as u64
    }

    /// True where nothing was indexed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Memory that the index takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.keys.len() * 8
    }

    /// Appends the encoded index to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.keys.iter().for_each(|k| out.extend_from_slice(&k.to_le_bytes()));
    }

    /// Decodes what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(DenseIndex { keys: super::sparse::decode_sorted(bytes, "dense index")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_rank() -> Result<()> {
        let mut builder = DenseBuilder::new(EctParams::default(), 3);
        [5, 5, 9].iter().for_each(|&k| builder.push(k));
        let mut bytes = Vec::new();
        builder.finish().encode(&mut bytes);
        let index = DenseIndex::decode(&bytes)?;
        assert_eq!([index.rank(5), index.rank(9), index.len()], [0, 2, 3]);
        Ok(())
    }
}
