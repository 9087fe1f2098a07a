//! When what a file holds expires: how many bytes of it do, and by when which part of them.
//! Format: docs/formats/expiries.md.
//!
//! The distribution comes from a sample of the entries, those whose numbers (hashes, say) begin
//! with so many zeroes, and is kept as points that divide it into parts of equal bytes. So at any
//! time the file's owner knows without a read which part has expired, to a few percent, however far
//! apart the times are.

use crate::fields::Fields;
use crate::frame::POINTER;
use crate::value_log::Pointer;
use silica_base::Prng;

/// Points of a distribution.
const POINTS: usize = 32;
/// Entries of a sample, at most: with fewer the error of the distribution would be noticed.
const SAMPLES_MAX: usize = 1024;
/// Most bytes of encoded [`Expiries`].
pub const EXPIRIES_BYTES_MAX: usize = 40 + 2 * 8 * POINTS;

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
    /// Entries that expire.
    entries: u64,
    /// When the last of them does.
    last_unix_ms: u64,
    /// Entries as they lie in the file.
    here: Bytes,
    /// Values in the value log.
    apart: Bytes,
}

impl Expiries {
    /// Entries that expire.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// When the last of them does, in milliseconds since the Unix epoch.
    pub fn last_unix_ms(&self) -> u64 {
        self.last_unix_ms
    }

    /// Bytes of the file's entries that are over at a time, about.
    pub fn bytes_over(&self, unix_ms: u64) -> f64 {
        self.here.bytes as f64 * self.here.part_over(unix_ms)
    }

    /// Bytes of values in the value log whose entries are over at a time, about.
    pub fn apart_bytes_over(&self, unix_ms: u64) -> f64 {
        self.apart.bytes as f64 * self.apart.part_over(unix_ms)
    }

    /// Appends them as a footer has them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for field in [self.entries, self.last_unix_ms, self.here.bytes, self.apart.bytes] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for points in [&self.here.points, &self.apart.points] {
            out.extend_from_slice(&(points.len() as u32).to_le_bytes());
        }
        for point in self.here.points.iter().chain(&self.apart.points) {
            out.extend_from_slice(&point.to_le_bytes());
        }
    }

    /// Reads them where [`Expiries::encode`] wrote them; `None` if they cannot be.
    pub fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let (entries, last_unix_ms) = (fields.u64()?, fields.u64()?);
        let (here, apart) = (fields.u64()?, fields.u64()?);
        let counts = [fields.u32()? as usize, fields.u32()? as usize];
        if counts.iter().any(|count| *count > POINTS) {
            return None;
        }
        let mut points = |count: usize| (0..count).map(|_| fields.u64()).collect::<Option<_>>();
        let here = Bytes { bytes: here, points: points(counts[0])? };
        let apart = Bytes { bytes: apart, points: points(counts[1])? };
        let are_sorted = here.points.is_sorted() && apart.points.is_sorted();
        are_sorted.then_some(Expiries { entries, last_unix_ms, here, apart })
    }
}

/// An entry that expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiring {
    /// When it does, in milliseconds since the Unix epoch.
    pub expires_unix_ms: u64,
    /// Bytes that it takes in the file.
    pub bytes: u64,
    /// Bytes of its value in the value log.
    pub apart_bytes: u64,
}

impl Expiring {
    /// An entry with these flags and this value, which takes `bytes` in the file.
    pub fn new(expires_unix_ms: u64, bytes: u64, flags: u8, value: &[u8]) -> Self {
        let pointer = if flags & POINTER != 0 { Pointer::decode(value) } else { None };
        let apart_bytes = pointer.map_or(0, |pointer| u64::from(pointer.length));
        Expiring { expires_unix_ms, bytes, apart_bytes }
    }
}

/// An entry of the sample.
#[derive(Debug, Clone, Copy)]
struct Sample {
    number: u64,
    expiring: Expiring,
}

/// Learns from entries that come one by one.
#[derive(Debug)]
pub struct ExpiriesBuilder {
    expiries: Expiries,
    zeroes: u32,
    samples: Vec<Sample>,
    samples_max: usize,
}

impl Default for ExpiriesBuilder {
    fn default() -> Self {
        Self::rough(SAMPLES_MAX)
    }
}

impl ExpiriesBuilder {
    /// A builder that keeps so many entries at most and knows the less the fewer they are.
    pub fn rough(samples_max: usize) -> Self {
        let (expiries, samples) = (Expiries::default(), Vec::new());
        ExpiriesBuilder { expiries, zeroes: 0, samples, samples_max }
    }

    /// Counts an entry. It may be sampled if it has a `number`: numbers are to be uniform and to
    /// say nothing of the time. Hashes of keys are, and so is [`mixed`] of a place.
    #[cold]
    pub fn add(&mut self, expiring: Expiring, number: Option<u64>) {
        let all = &mut self.expiries;
        all.entries += 1;
        all.last_unix_ms = all.last_unix_ms.max(expiring.expires_unix_ms);
        all.here.bytes += expiring.bytes;
        all.apart.bytes += expiring.apart_bytes;
        if let Some(number) = number.filter(|number| number.leading_zeros() >= self.zeroes) {
            self.samples.push(Sample { number, expiring });
            while self.samples.len() > self.samples_max {
                self.zeroes += 1;
                self.samples.retain(|sample| sample.number.leading_zeros() >= self.zeroes);
            }
        }
    }

    /// Takes an entry out again that was added so.
    #[cold]
    pub fn remove(&mut self, expiring: Expiring, number: Option<u64>) {
        let all = &mut self.expiries;
        all.entries = all.entries.saturating_sub(1);
        all.here.bytes = all.here.bytes.saturating_sub(expiring.bytes);
        all.apart.bytes = all.apart.bytes.saturating_sub(expiring.apart_bytes);
        if let Some(number) = number.filter(|number| number.leading_zeros() >= self.zeroes) {
            self.samples.retain(|sample| sample.number != number);
        }
    }

    /// Bytes so far that are over at a time, about: of the entries, and of values apart.
    pub fn bytes_over(&self, unix_ms: u64) -> (f64, f64) {
        let all = &self.expiries;
        if all.entries == 0 {
            return (0.0, 0.0);
        }
        let over = |of: fn(&Expiring) -> u64, bytes: u64| {
            let (mut over, mut sum) = (0, 0);
            for Sample { expiring, .. } in &self.samples {
                sum += of(expiring);
                over += if expiring.expires_unix_ms <= unix_ms { of(expiring) } else { 0 };
            }
            match sum {
                0 if all.last_unix_ms <= unix_ms => bytes as f64,
                0 => 0.0,
                _ => bytes as f64 * over as f64 / sum as f64,
            }
        };
        (over(|e| e.bytes, all.here.bytes), over(|e| e.apart_bytes, all.apart.bytes))
    }

    /// The distribution of all that came.
    pub fn finish(mut self) -> Expiries {
        silica_base::compact_sort_by_key(&mut self.samples, |sample| {
            sample.expiring.expires_unix_ms
        });
        let last = self.expiries.last_unix_ms;
        for (bytes, of) in [
            (&mut self.expiries.here, (|sample| sample.expiring.bytes) as fn(&Sample) -> u64),
            (&mut self.expiries.apart, |sample| sample.expiring.apart_bytes),
        ] {
            if bytes.bytes > 0 {
                bytes.points = points(&self.samples, of).unwrap_or_else(|| vec![last]);
            }
        }
        self.expiries
    }
}

/// A number for [`ExpiriesBuilder::add`] from one that is not uniform, as places are not.
pub fn mixed(place: u64) -> u64 {
    Prng::new(place).next_u64()
}

/// Times that divide `samples`, which are sorted by theirs, into parts of equal bytes.
fn points(samples: &[Sample], of: fn(&Sample) -> u64) -> Option<Vec<u64>> {
    let all: u64 = samples.iter().map(of).sum();
    let mut points = Vec::with_capacity(POINTS);
    let mut sum = 0;
    for sample in samples {
        sum += of(sample);
        while points.len() < POINTS && sum * POINTS as u64 >= all * (points.len() as u64 + 1) {
            points.push(sample.expiring.expires_unix_ms);
        }
    }
    (all > 0).then_some(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiring(expires_unix_ms: u64) -> Expiring {
        Expiring { expires_unix_ms, bytes: 100, apart_bytes: 0 }
    }

    /// When the entry of a number expires.
    type Expiry<'e> = &'e dyn Fn(u64, &mut Prng) -> u64;

    /// Of `count` entries, each of which expires when `at` says.
    fn builder(
        samples_max: usize,
        count: u64,
        mut at: impl FnMut(u64, &mut Prng) -> u64,
    ) -> ExpiriesBuilder {
        let (mut prng, mut builder) = (Prng::new(1), ExpiriesBuilder::rough(samples_max));
        for n in 0..count {
            builder.add(expiring(at(n, &mut prng)), Some(mixed(n)));
        }
        builder
    }

    fn expiries(count: u64, at: impl FnMut(u64, &mut Prng) -> u64) -> Expiries {
        builder(SAMPLES_MAX, count, at).finish()
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
            assert!(bytes.len() <= EXPIRIES_BYTES_MAX);
            let is_refused = |cut: usize| Expiries::decode(&mut Fields(&bytes[..cut])).is_none();
            assert!((0..bytes.len()).all(is_refused));
        }
        let mut unsorted = Vec::new();
        let points = vec![2, 1];
        Expiries { here: Bytes { bytes: 9, points }, ..Default::default() }.encode(&mut unsorted);
        assert_eq!(Expiries::decode(&mut Fields(&unsorted)), None);
    }

    #[test]
    fn what_is_over_is_known_roughly_before_the_end() {
        assert_eq!(ExpiriesBuilder::rough(64).bytes_over(u64::MAX), (0.0, 0.0));
        for count in [1, 50, 100_000] {
            let known = builder(64, count, |n, _| 1 + n);
            assert!(known.samples.len() <= 64);
            for part in 0..=4 {
                let over = known.bytes_over(count * part / 4).0 / (100 * count) as f64;
                let expected = (count * part / 4) as f64 / count as f64;
                assert!((over - expected).abs() < 0.2, "{over} of {count}, {part} quarters");
            }
        }
    }

    #[test]
    fn what_is_taken_out_again_does_not_count() {
        let mut known = builder(64, 10_000, |n, _| 1 + n);
        for n in 0..5_000 {
            known.remove(expiring(1 + n), Some(mixed(n)));
        }
        assert_eq!(known.bytes_over(5_000).0, 0.0);
        assert_eq!(known.bytes_over(10_000).0, 500_000.0);
    }

    #[test]
    fn values_that_lie_apart_count_apart() {
        let mut builder = ExpiriesBuilder::default();
        let pointer = Pointer { segment: 1, offset: 8, length: 1 << 20, checksum: 3 }.encode();
        builder.add(Expiring::new(50, 40, POINTER, &pointer), Some(1));
        builder.add(Expiring::new(200, 20, 0, b"short"), Some(2));
        assert_eq!(builder.bytes_over(49), (0.0, 0.0));
        assert_eq!(builder.bytes_over(50), (40.0, f64::from(1 << 20)));
        let known = builder.finish();
        assert_eq!(known.apart_bytes_over(49), 0.0);
        assert_eq!(known.apart_bytes_over(50), f64::from(1 << 20));
        assert!(known.bytes_over(50) > 0.0 && known.bytes_over(50) < known.bytes_over(200));
    }
}
