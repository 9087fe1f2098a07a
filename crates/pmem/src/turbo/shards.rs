//! Shards: where a key belongs, and what a descriptor says.

use super::bucket::{BUCKET_BYTES, mixed};

/// Buckets that a search goes over at most.
pub(super) const SCOPE: u64 = 16;
/// Buckets of a shard at most.
pub(super) const BUCKETS_MAX: u64 = (1 << COUNT_BITS) - 1;
const START_BITS: u32 = 32;
const COUNT_BITS: u32 = 20;
const LOW_BITS: u32 = START_BITS + COUNT_BITS;
const LOW: u64 = (1 << LOW_BITS) - 1;
/// In memory: what the shard holds has not been checked since the opening.
pub(super) const UNCHECKED: u64 = 1 << 63;

/// The buckets of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Buckets {
    /// Offset of the first one.
    pub(super) start: u64,
    pub(super) count: u64,
}

impl Buckets {
    /// What a descriptor in memory, or the lower bits of one in the region, says.
    #[inline(always)]
    pub(super) fn of(word: u64) -> Buckets {
        Buckets {
            start: (word & ((1 << START_BITS) - 1)) * BUCKET_BYTES,
            count: word >> START_BITS & BUCKETS_MAX,
        }
    }

    /// The lower bits of a descriptor.
    pub(super) fn word(self) -> u64 {
        (self.start / BUCKET_BYTES) | (self.count << START_BITS)
    }

    /// Offset of a bucket.
    #[inline(always)]
    pub(super) fn at(self, number: u64) -> u64 {
        self.start + number * BUCKET_BYTES
    }

    /// The bucket after `number`, around the end.
    #[inline(always)]
    pub(super) fn after(self, number: u64) -> u64 {
        if number + 1 == self.count { 0 } else { number + 1 }
    }

    /// Buckets that a search goes over at most.
    #[inline(always)]
    pub(super) fn scope(self) -> u64 {
        self.count.min(SCOPE)
    }

    /// How far bucket `number` lies behind `home`.
    pub(super) fn distance(self, home: u64, number: u64) -> u64 {
        if number >= home { number - home } else { number + self.count - home }
    }

    /// Bytes of all of them.
    pub(super) fn bytes(self) -> u64 {
        self.count * BUCKET_BYTES
    }
}

/// How hashes are divided among shards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    /// There are two to the power of so many shards.
    pub(super) bits: u32,
}

impl Division {
    /// The shard of a key with this hash.
    #[inline(always)]
    pub(super) fn shard(self, hash: u64) -> usize {
        // In two steps, because shifting by 64 is not allowed where there is one shard.
        (hash >> 1 >> (63 - self.bits)) as usize
    }

    /// The home bucket of a key with this hash, in a shard that has buckets.
    #[inline(always)]
    pub(super) fn home(self, hash: u64, count: u64) -> u64 {
        ((u128::from(hash << self.bits) * u128::from(count)) >> 64) as u64
    }

    /// The least hash of `shard` whose home is `number` of `count` buckets, or a later one; `None`
    /// behind the last.
    pub(super) fn first_hash(self, shard: usize, number: u64, count: u64) -> Option<u64> {
        if number >= count {
            return None;
        }
        let fraction = (u128::from(number) << 64).div_ceil(u128::from(count));
        // The lowest bits of a fraction are 0: it has `bits` fewer than a hash.
        let unit = 1_u128 << self.bits;
        let fraction = fraction.next_multiple_of(unit);
        if fraction >> 64 != 0 {
            return None;
        }
        let shard = if self.bits == 0 { 0 } else { (shard as u64) << (64 - self.bits) };
        Some(shard | (fraction as u64) >> self.bits)
    }
}

/// A descriptor as it lies in the region.
pub(super) fn encode(store: u64, shard: usize, buckets: Buckets) -> u64 {
    let low = buckets.word();
    low | check(store, shard, low) << LOW_BITS
}

/// The buckets that a descriptor in the region names; `None` if it is damaged.
pub(super) fn decode(store: u64, shard: usize, word: u64) -> Option<Buckets> {
    let low = word & LOW;
    (word >> LOW_BITS == check(store, shard, low)).then(|| Buckets::of(low))
}

fn check(store: u64, shard: usize, low: u64) -> u64 {
    1 + mixed(low ^ mixed(store.wrapping_add(shard as u64 + 1))) % ((1 << (64 - LOW_BITS)) - 1)
}

/// A shard grows before it has more than 23 entries for each two buckets, 88 % of the slots that
/// inserts fill: beyond that, searches for keys that are not there get long
/// (docs/benchmarks/turbo.md). Larger shards grow at 80 to 88 %, when a key finds no room.
const ENTRIES_OF_TWO_BUCKETS: u64 = 23;

/// True if a shard with `used` entries grows before it takes another one.
#[inline(always)]
pub(super) fn is_full(buckets: Buckets, used: u32) -> bool {
    u64::from(used) * 2 >= buckets.count * ENTRIES_OF_TWO_BUCKETS
}

/// How many buckets a shard of `count` has when it has grown.
pub(super) fn grown(count: u64) -> u64 {
    count + (count / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn homes_are_in_the_order_of_hashes() {
        let mut prng = Prng::new(1);
        for bits in [0, 1, 7, 16] {
            let division = Division { bits };
            for _ in 0..2000 {
                let count = 1 + prng.below(3000);
                let hash = prng.next_u64();
                let shard = division.shard(hash);
                assert!(shard < 1 << bits);
                let home = division.home(hash, count);
                assert!(home < count);
                let first = division.first_hash(shard, home, count).unwrap();
                assert!(first <= hash);
                assert_eq!(division.home(first, count), home, "{bits} bits, {count} buckets");
                assert_eq!(division.shard(first), shard);
                match division.first_hash(shard, home + 1, count) {
                    Some(next) => {
                        assert!(next > hash);
                        assert!(division.home(next - 1, count) <= home);
                    }
                    None => assert_eq!(home + 1, count),
                }
            }
        }
    }

    #[test]
    fn a_descriptor_is_that_of_one_shard() {
        let (mut prng, mut missed) = (Prng::new(2), 0);
        for _ in 0..500 {
            let start = prng.below(1 << 32) * BUCKET_BYTES;
            let buckets = Buckets { start, count: prng.below(BUCKETS_MAX + 1) };
            let word = encode(9, 5, buckets);
            assert_eq!(decode(9, 5, word), Some(buckets));
            missed += (0..64).filter(|bit| decode(9, 5, word ^ 1 << bit).is_some()).count();
        }
        // Twelve bits of check: one flip in 4095 on average.
        assert!(missed < 30, "{missed} of 32,000 flips");
        assert_eq!(decode(9, 5, 0), None, "zeroes are no descriptor");
        let others =
            (0..2000).filter(|n| decode(9, *n, encode(9, 5, Buckets::default())).is_some());
        assert!(others.count() < 6);
    }

    #[test]
    fn distances_go_around_the_end() {
        let buckets = Buckets { start: 0, count: 10 };
        assert_eq!((buckets.distance(8, 9), buckets.distance(8, 2)), (1, 4));
        assert_eq!((buckets.after(8), buckets.after(9)), (9, 0));
        assert_eq!([1, 2, 3, 100].map(grown), [2, 3, 4, 150]);
    }
}
