//! Sketches as bytes.

use super::sample::{DISTANCES, KEYS_MAX, Sample, Seen};
use super::{SizeHistogram, Sketch, Totals};
use silica_base::{Error, Result};

/// Number of the layout; a sketch of another one is not read.
const LAYOUT: u64 = 1;
const WORD_BYTES: usize = 8;
/// Words of a sketch that saw nothing: layout, keys, totals, four lengths, four of the sample and
/// the number of its keys.
const WORDS_ALWAYS: usize = 2 + 10 + 4 + 4 + 1;

impl Totals {
    pub(super) fn numbers(&mut self) -> [&mut u64; 10] {
        [
            &mut self.get_calls,
            &mut self.get_hits,
            &mut self.get_misses,
            &mut self.write_calls,
            &mut self.synced_calls,
            &mut self.syncs,
            &mut self.puts,
            &mut self.deletes,
            &mut self.scans,
            &mut self.modifies,
        ]
    }
}

fn put<const N: usize>(out: &mut Vec<u8>, words: [u64; N]) {
    words.into_iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

impl SizeHistogram {
    /// Buckets that have values, with their numbers.
    fn used(&self) -> impl Iterator<Item = (u64, &(u64, u64))> {
        (0u64..).zip(&self.buckets).filter(|(_, (count, _))| *count > 0)
    }
}

impl Sketch {
    /// The sketch as little-endian words: docs/formats/sketch.md. Beside what it returns it takes
    /// as much memory again, so that it may run while a sketch is in use.
    pub fn encode(&self) -> Vec<u8> {
        let histograms = [&self.key_bytes, &self.put_bytes, &self.found_bytes, &self.scan_entries];
        let sample = &self.sample;
        let buckets: usize = histograms.iter().map(|histogram| histogram.used().count()).sum();
        let distances = || (0u64..).zip(&sample.distances).filter(|(_, weight)| **weight > 0.0);
        let words = WORDS_ALWAYS + 3 * buckets + 2 * distances().count() + 2 * sample.seen.len();
        let mut out = Vec::with_capacity(WORD_BYTES * words);
        put(&mut out, [LAYOUT, self.keys_before]);
        put(&mut out, self.totals.clone().numbers().map(|number| *number));
        for histogram in histograms {
            put(&mut out, [histogram.used().count() as u64]);
            for (bucket, (count, sum)) in histogram.used() {
                put(&mut out, [bucket, *count, *sum]);
            }
        }
        put(&mut out, [sample.threshold, sample.reads, sample.first_reads.to_bits()]);
        put(&mut out, [distances().count() as u64]);
        for (bucket, weight) in distances() {
            put(&mut out, [bucket, weight.to_bits()]);
        }
        put(&mut out, [sample.seen.len() as u64]);
        for hash in sample.in_order() {
            let seen = &sample.seen[&hash];
            put(&mut out, [hash, u64::from(seen.count) << 1 | u64::from(seen.written_first)]);
        }
        debug_assert_eq!(out.len(), WORD_BYTES * words);
        out
    }

    /// The sketch that [`Sketch::encode`] made `bytes` of.
    ///
    /// # Errors
    /// `Corruption` where they are something else; the position is that in `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut words = Words { bytes, at: 0 };
        if words.next()? != LAYOUT {
            return Err(words.damaged("its layout is another one"));
        }
        let mut sketch = Sketch { keys_before: words.next()?, ..Sketch::default() };
        for number in sketch.totals.numbers() {
            *number = words.next()?;
        }
        for histogram in [
            &mut sketch.key_bytes,
            &mut sketch.put_bytes,
            &mut sketch.found_bytes,
            &mut sketch.scan_entries,
        ] {
            read_histogram(&mut words, histogram)?;
        }
        sketch.sample = read_sample(&mut words)?;
        if words.at != bytes.len() {
            return Err(words.damaged("there is more behind it"));
        }
        Ok(sketch)
    }
}

fn read_histogram(words: &mut Words<'_>, histogram: &mut SizeHistogram) -> Result<()> {
    for _ in 0..words.below(histogram.buckets.len() + 1)? {
        let bucket = words.below(histogram.buckets.len())?;
        histogram.buckets[bucket] = (words.next()?, words.next()?);
    }
    Ok(())
}

fn read_sample(words: &mut Words<'_>) -> Result<Sample> {
    let mut sample = Sample::default();
    sample.threshold = words.next()?;
    sample.reads = words.next()?;
    sample.first_reads = words.weight()?;
    for _ in 0..words.below(DISTANCES + 1)? {
        let bucket = words.below(DISTANCES)?;
        sample.distances[bucket] = words.weight()?;
    }
    for place in 0..words.below(KEYS_MAX + 1)? as u32 {
        let (hash, packed) = (words.next()?, words.next()?);
        let count = u32::try_from(packed >> 1).ok().filter(|count| *count > 0);
        let Some(count) = count.filter(|_| hash < sample.threshold) else {
            return Err(words.damaged("a key of it cannot be"));
        };
        let seen = Seen { count, place, written_first: packed & 1 == 1 };
        if sample.seen.insert(hash, seen).is_some() {
            return Err(words.damaged("a key of it comes twice"));
        }
    }
    sample.renumber();
    Ok(sample)
}

struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn damaged(&self, why: &str) -> Error {
        Error::corruption("the sketch", self.at as u64, why)
    }

    fn next(&mut self) -> Result<u64> {
        let Some(word) = self.bytes[self.at..].first_chunk::<WORD_BYTES>() else {
            return Err(self.damaged("it ends too early"));
        };
        self.at += WORD_BYTES;
        Ok(u64::from_le_bytes(*word))
    }

    fn below(&mut self, bound: usize) -> Result<usize> {
        match usize::try_from(self.next()?) {
            Ok(number) if number < bound => Ok(number),
            _ => Err(self.damaged("a number of it is too large")),
        }
    }

    fn weight(&mut self) -> Result<f64> {
        let weight = f64::from_bits(self.next()?);
        if weight.is_finite() && weight >= 0.0 {
            Ok(weight)
        } else {
            Err(self.damaged("a weight of it is no number"))
        }
    }
}
