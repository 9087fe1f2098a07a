//! When what a table holds expires: how much of it does, and by when which part of that.
//!
//! The distribution is known by a sample of keys, those whose hashes begin with so many zeroes, and
//! kept as points that divide it into parts of equal bytes. So at any time what is over is known
//! without a read, to a few percent of the table, however far apart the times are.

use super::Version;
use crate::fields::Fields;
use crate::value_log::Pointer;

/// Points of a distribution.
const POINTS: usize = 32;
/// Versions of a sample, at most: with fewer the error of the distribution would be noticed.
const SAMPLES_MAX: usize = 1024;

/// Bytes that expire, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Bytes {
    bytes: u64,
    /// Times in milliseconds since the Unix epoch, ascending: between two of them as many bytes
    /// expire as between any others.
    points: Vec<u64>,
}

impl Bytes {
    /// The part of the bytes that is over at a time.
    fn part_over(&self, unix_ms: u64) -> f64 {
        let over = self.points.partition_point(|point| *point <= unix_ms);
        over as f64 / self.points.len().max(1) as f64
    }
}

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expiries {
    /// Versions that expire.
    versions: u64,
    /// When the last of them does.
    last_unix_ms: u64,
    /// Keys, and values in the table.
    here: Bytes,
    /// Values in the value log.
    apart: Bytes,
}

impl Expiries {
    /// Versions that expire.
    pub fn versions(&self) -> u64 {
        self.versions
    }

    /// When the last of them does, in milliseconds since the Unix epoch.
    pub fn last_unix_ms(&self) -> u64 {
        self.last_unix_ms
    }

    /// Bytes of keys and values in the table that are over at a time, about.
    pub fn bytes_over(&self, unix_ms: u64) -> f64 {
        self.here.bytes as f64 * self.here.part_over(unix_ms)
    }

    /// Bytes of values in the value log whose entries are over at a time, about.
    pub fn apart_bytes_over(&self, unix_ms: u64) -> f64 {
        self.apart.bytes as f64 * self.apart.part_over(unix_ms)
    }

    /// Appends them as a footer has them.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for field in [self.versions, self.last_unix_ms, self.here.bytes, self.apart.bytes] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for points in [&self.here.points, &self.apart.points] {
            out.extend_from_slice(&(points.len() as u32).to_le_bytes());
        }
        for point in self.here.points.iter().chain(&self.apart.points) {
            out.extend_from_slice(&point.to_le_bytes());
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (versions, last_unix_ms) = (fields.u64()?, fields.u64()?);
        let (here, apart) = (fields.u64()?, fields.u64()?);
        let counts = [fields.u32()? as usize, fields.u32()? as usize];
        if counts.iter().any(|count| *count > POINTS) {
            return None;
        }
        let mut points = |count: usize| (0..count).map(|_| fields.u64()).collect::<Option<_>>();
        let here = Bytes { bytes: here, points: points(counts[0])? };
        let apart = Bytes { bytes: apart, points: points(counts[1])? };
        let are_sorted = here.points.is_sorted() && apart.points.is_sorted();
        are_sorted.then_some(Expiries { versions, last_unix_ms, here, apart })
    }
}

/// A version that expires.
#[derive(Debug, Clone, Copy)]
struct Sample {
    hash: u64,
    expires_unix_ms: u64,
    bytes: u64,
    apart_bytes: u64,
}

/// Learns from versions that come one by one.
#[derive(Debug, Default)]
pub(super) struct ExpiriesBuilder {
    expiries: Expiries,
    zeroes: u32,
    samples: Vec<Sample>,
}

impl ExpiriesBuilder {
    /// Counts a version that expires; with the hash of its key where it is its newest.
    #[cold]
    pub(super) fn add(&mut self, version: &Version<'_>, new_key: Option<u64>) {
        let bytes = (version.key.len() + version.value.len()) as u64;
        let is_pointer = version.flags & crate::frame::POINTER != 0;
        let pointer = if is_pointer { Pointer::decode(version.value) } else { None };
        let apart_bytes = pointer.map_or(0, |pointer| u64::from(pointer.length));
        let expires_unix_ms = version.expires_unix_ms;
        let all = &mut self.expiries;
        all.versions += 1;
        all.last_unix_ms = all.last_unix_ms.max(expires_unix_ms);
        all.here.bytes += bytes;
        all.apart.bytes += apart_bytes;
        if let Some(hash) = new_key.filter(|hash| hash.leading_zeros() >= self.zeroes) {
            self.samples.push(Sample { hash, expires_unix_ms, bytes, apart_bytes });
            while self.samples.len() > SAMPLES_MAX {
                self.zeroes += 1;
                self.samples.retain(|sample| sample.hash.leading_zeros() >= self.zeroes);
            }
        }
    }

    pub(super) fn finish(mut self) -> Expiries {
        self.samples.sort_unstable_by_key(|sample| sample.expires_unix_ms);
        let last = self.expiries.last_unix_ms;
        for (bytes, of) in [
            (&mut self.expiries.here, (|sample| sample.bytes) as fn(&Sample) -> u64),
            (&mut self.expiries.apart, |sample| sample.apart_bytes),
        ] {
            if bytes.bytes > 0 {
                bytes.points = points(&self.samples, of).unwrap_or_else(|| vec![last]);
            }
        }
        self.expiries
    }
}

/// Times that divide `samples`, which are sorted by theirs, into parts of equal bytes.
fn points(samples: &[Sample], of: fn(&Sample) -> u64) -> Option<Vec<u64>> {
    let all: u64 = samples.iter().map(of).sum();
    let mut points = Vec::with_capacity(POINTS);
    let mut sum = 0;
    for sample in samples {
        sum += of(sample);
        while points.len() < POINTS && sum * POINTS as u64 >= all * (points.len() as u64 + 1) {
            points.push(sample.expires_unix_ms);
        }
    }
    (all > 0).then_some(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    fn version(expires_unix_ms: u64, value: &[u8]) -> Version<'_> {
        Version { key: b"0123456789", sequence: 1, flags: 0, expires_unix_ms, user_bits: 0, value }
    }

    /// When the version of a number expires.
    type Expiry<'e> = &'e dyn Fn(u64, &mut Prng) -> u64;

    /// Of `count` versions, each of which expires when `at` says.
    fn expiries(count: u64, mut at: impl FnMut(u64, &mut Prng) -> u64) -> Expiries {
        let (mut prng, mut builder) = (Prng::new(1), ExpiriesBuilder::default());
        for n in 0..count {
            let expires = at(n, &mut prng);
            builder.add(&version(expires, &[0; 90]), Some(prng.next_u64()));
        }
        builder.finish()
    }

    #[test]
    fn what_is_over_is_known_to_a_few_percent_at_any_time() {
        const YEAR: u64 = 365 * 86_400_000;
        // Half within three seconds, half within ten years, in no order, and in that of the keys.
        let mixed = |n: u64, prng: &mut Prng| match n % 2 {
            0 => 1 + prng.below(3_000),
            _ => 1 + prng.below(10 * YEAR),
        };
        let ascending = |n: u64, _: &mut Prng| 1 + n;
        for count in [10, 1_000, 200_000] {
            for at in [&mixed as Expiry<'_>, &ascending] {
                let known = expiries(count, at);
                let mut times = Vec::new();
                expiries(count, |n, prng| {
                    times.push(at(n, prng));
                    1
                });
                for asked in [0, 500, 1_500, 3_000, count / 2, YEAR, 5 * YEAR, u64::MAX] {
                    let over = times.iter().filter(|time| **time <= asked).count() as f64 * 100.0;
                    let error = (known.bytes_over(asked) - over).abs() / (count as f64 * 100.0);
                    assert!(error < 0.08, "{error} of {count} at {asked}");
                }
                assert_eq!(known.last_unix_ms(), *times.iter().max().expect("some"));
            }
        }
    }

    #[test]
    fn they_round_trip_and_every_cut_is_refused() {
        for count in [0, 1, 5_000] {
            let known = expiries(count, |n, _| 1 + n);
            let mut bytes = Vec::new();
            known.encode(&mut bytes);
            assert_eq!(Expiries::decode(&mut Fields(&bytes)), Some(known));
            let is_refused = |cut: usize| Expiries::decode(&mut Fields(&bytes[..cut])).is_none();
            assert!((0..bytes.len()).all(is_refused));
        }
        let mut unsorted = Vec::new();
        let points = vec![2, 1];
        Expiries { here: Bytes { bytes: 9, points }, ..Default::default() }.encode(&mut unsorted);
        assert_eq!(Expiries::decode(&mut Fields(&unsorted)), None);
    }

    #[test]
    fn values_that_lie_apart_count_apart() {
        let mut builder = ExpiriesBuilder::default();
        let pointer = Pointer { segment: 1, offset: 8, length: 1 << 20, checksum: 3 }.encode();
        let apart = Version { flags: crate::frame::POINTER, ..version(50, &pointer) };
        builder.add(&apart, Some(1));
        builder.add(&version(200, b"short"), Some(2));
        let known = builder.finish();
        assert_eq!(known.apart_bytes_over(49), 0.0);
        assert_eq!(known.apart_bytes_over(50), f64::from(1 << 20));
        assert!(known.bytes_over(50) > 0.0 && known.bytes_over(50) < known.bytes_over(200));
    }
}
