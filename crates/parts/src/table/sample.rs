//! A sample of a table's keys: those whose hashes begin with so many zeroes, fewer for a table of
//! few keys. So a key that is in the sample of one table is in those of all others that have it and
//! ask for no more zeroes, and samples tell how much of one table is in others, without filters or
//! reads.

/// Zeroes that are asked for at most, and keys of a sample of fewer.
const ZEROES_MAX: u32 = 6;
const KEYS_MAX: usize = 128;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct KeySample {
    zeroes: u32,
    /// Lower halves of hashes, ascending.
    hashes: Vec<u32>,
}

impl KeySample {
    /// Zeroes that hashes of its keys begin with at least.
    pub fn zeroes(&self) -> u32 {
        self.zeroes
    }

    /// True where the table has the key with this hash, which begins with enough zeroes.
    pub fn has(&self, hash: u64) -> bool {
        self.hashes.binary_search(&(hash as u32)).is_ok()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u32>()
    }
}

/// Makes a sample of hashes that come one by one.
#[derive(Debug, Default)]
pub(super) struct SampleBuilder {
    zeroes: u32,
    hashes: Vec<u64>,
}

impl SampleBuilder {
    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        if hash.leading_zeros() >= self.zeroes {
            self.take(hash);
        }
    }

    #[cold]
    fn take(&mut self, hash: u64) {
        self.hashes.push(hash);
        while self.hashes.len() > KEYS_MAX && self.zeroes < ZEROES_MAX {
            self.zeroes += 1;
            self.hashes.retain(|hash| hash.leading_zeros() >= self.zeroes);
        }
    }

    pub(super) fn finish(self) -> KeySample {
        let mut hashes: Vec<u32> = self.hashes.iter().map(|hash| *hash as u32).collect();
        hashes.sort_unstable();
        KeySample { zeroes: self.zeroes, hashes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    fn sample(hashes: &[u64]) -> KeySample {
        let mut builder = SampleBuilder::default();
        hashes.iter().for_each(|hash| builder.add(*hash));
        builder.finish()
    }

    #[test]
    fn a_sample_has_all_keys_with_enough_zeroes_and_no_others() {
        let mut prng = Prng::new(1);
        for (keys, zeroes) in [(0, 0..=0), (100, 0..=0), (1000, 3..=4), (100_000, 6..=6)] {
            let hashes: Vec<u64> = (0..keys).map(|_| prng.next_u64()).collect();
            let sample = sample(&hashes);
            assert!(zeroes.contains(&sample.zeroes()), "{} of {keys}", sample.zeroes());
            let wanted = |hash: &&u64| hash.leading_zeros() >= sample.zeroes();
            assert!(hashes.iter().filter(wanted).all(|hash| sample.has(*hash)));
            let others = (0..1000).map(|_| prng.next_u64()).filter(|hash| sample.has(*hash));
            assert_eq!(others.count(), 0);
            let most = (keys as usize / 64 * 2).max(KEYS_MAX) * size_of::<u32>();
            assert!(sample.bytes() <= most, "{} bytes of {keys}", sample.bytes());
        }
    }
}
