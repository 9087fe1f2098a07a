//! The sparse index: key to chunk.
//!
//! A chunk's number is the number of borders at or before a key, so only the borders are coded,
//! one separator each, in virtual buckets of about a quarter of `group`. A separator that starts
//! a bucket takes no bits at all: the directory counts it.

use super::EctParams;
use super::bits::{CodeBytes, Cursor};
use super::borders::{CELL_BITS_MAX, Grid, LOW_BITS_MAX, Place};
use super::dense::locate;
use super::directory::Directory;
use super::frame::{self, Header, Kind};
use silica_base::{Error, Result};

/// Borders that the code's parameters are fitted to.
const SAMPLE: usize = 4096;

/// Builds a [`SparseIndex`] from the keys around chunk borders.
#[derive(Debug)]
pub struct SparseBuilder {
    per_bucket: u64,
    chunks_expected: u64,
    /// The first borders, until there are enough to fit the code.
    sample: Vec<[u64; 2]>,
    writer: Option<BorderWriter>,
}

impl SparseBuilder {
    /// A builder for about `chunks_expected` chunks. Far fewer cost memory, far more cost time.
    pub fn new(params: EctParams, chunks_expected: u64) -> Self {
        SparseBuilder {
            per_bucket: u64::from(params.group / 4).max(1),
            chunks_expected,
            sample: Vec::new(),
            writer: None,
        }
    }

    /// Adds the border between two chunks: the `last` key before it and the `first` behind it;
    /// `last <= first`, and no key is less than one of an earlier border.
    #[inline]
    pub fn push_boundary(&mut self, last: u64, first: u64) {
        debug_assert!(last <= first);
        match &mut self.writer {
            Some(writer) => writer.push([last, first]),
            None => self.sample.push([last, first]),
        }
        if self.sample.len() == SAMPLE {
            self.start_writing(self.chunks_expected);
        }
    }

    fn start_writing(&mut self, borders: u64) -> &mut BorderWriter {
        let buckets = borders.div_ceil(self.per_bucket).max(1);
        let sample = std::mem::take(&mut self.sample);
        let mut writer = BorderWriter::new(buckets, fit(buckets, &sample));
        sample.iter().for_each(|&border| writer.push(border));
        self.writer.insert(writer)
    }

    /// The index of everything pushed.
    pub fn finish(mut self) -> SparseIndex {
        if self.writer.is_none() {
            self.start_writing(self.sample.len() as u64);
        }
        let mut writer = self.writer.expect("writing has started");
        writer.open(writer.buckets);
        SparseIndex {
            borders: writer.borders,
            grid: writer.grid,
            codes: writer.out.finish(),
            directory: Directory::new(&writer.starts),
        }
    }
}

/// Writes borders under fixed parameters.
#[derive(Debug)]
struct BorderWriter {
    buckets: u64,
    grid: Grid,
    borders: u64,
    /// The separator before, in 2^-64 of a bucket.
    separator: u128,
    place: Place,
    /// For each bucket the separators at or before its start, and the bit where its codes start;
    /// the last one is being filled.
    starts: Vec<[u64; 2]>,
    out: CodeBytes,
}

impl BorderWriter {
    fn new(buckets: u64, grid: Grid) -> Self {
        BorderWriter {
            buckets,
            grid,
            borders: 0,
            separator: 0,
            place: grid.start(),
            starts: vec![[0, 0]],
            out: CodeBytes::default(),
        }
    }

    /// Opens `bucket`, and those before it.
    fn open(&mut self, bucket: u64) {
        if self.starts.len() as u64 <= bucket {
            self.starts.resize(bucket as usize + 1, [self.borders, self.out.len_bits()]);
            self.place = self.grid.start();
            self.out.drain();
        }
    }

    fn push(&mut self, [last, first]: [u64; 2]) {
        let scaled = |key: u128| key * u128::from(self.buckets);
        // A separator above equal keys leads to the first of their chunks.
        let upto = u128::from(first) + u128::from(last == first);
        let (after, upto) = (scaled(u128::from(last)), scaled(upto));
        // Separators ascend, also where equal keys fill whole chunks.
        let after = after.max(self.separator.saturating_sub(1));
        let (bucket, bucket_upto) = ((after >> 64) as u64, (upto >> 64) as u64);
        if bucket < bucket_upto {
            self.open(bucket + 1);
            self.separator = u128::from(bucket + 1) << 64;
            let start = self.starts.len() - 1;
            self.starts[start][0] += 1;
        } else {
            self.open(bucket);
            let border = self.grid.choose(self.place, after as u64, upto as u64);
            self.place = self.grid.write(self.out.writer(), self.place, border);
            self.separator = u128::from(bucket) << 64 | u128::from(border.position(self.grid));
        }
        self.borders += 1;
    }
}

/// The parameters that code `sample` in the fewest bits.
fn fit(buckets: u64, sample: &[[u64; 2]]) -> Grid {
    let mut gaps: Vec<u64> = sample.iter().map(|[last, first]| first - last).collect();
    gaps.sort_unstable();
    let gap = u128::from(gaps.get(gaps.len() / 2).copied().unwrap_or(1).max(1));
    let likely = (gap * u128::from(buckets)).min(u128::from(u64::MAX)) as u64;
    let likely = likely.leading_zeros().clamp(1, CELL_BITS_MAX);
    let cost = |grid: Grid| {
        let mut writer = BorderWriter::new(buckets, grid);
        sample.iter().for_each(|&border| writer.push(border));
        writer.out.len_bits()
    };
    let from = likely.saturating_sub(3).max(1);
    (from..=(likely + 1).min(CELL_BITS_MAX))
        .flat_map(|cell_bits| {
            let (usual, spread) = usual_distance(buckets, cell_bits, sample);
            let low = (spread + 1).ilog2().min(LOW_BITS_MAX - 1);
            (low.saturating_sub(1)..=low + 1).map(move |low_bits| Grid {
                cell_bits,
                low_bits,
                usual,
            })
        })
        .min_by_key(|&grid| cost(grid))
        .expect("there is a grid to try")
}

/// The median distance between the borders of `sample` in cells, and the median deviation.
fn usual_distance(buckets: u64, cell_bits: u32, sample: &[[u64; 2]]) -> (u16, u64) {
    let cell = |key: u64| (u128::from(key) * u128::from(buckets)) >> (64 - cell_bits);
    let distance = |pair: &[[u64; 2]]| (cell(pair[1][1]) - cell(pair[0][1])) as u64;
    let mut distances: Vec<u64> = sample.windows(2).map(distance).collect();
    let median = |distances: &mut Vec<u64>| {
        distances.sort_unstable();
        distances.get(distances.len() / 2).copied().unwrap_or(0)
    };
    let usual = median(&mut distances).min(u64::from(u16::MAX));
    distances.iter_mut().for_each(|distance| *distance = distance.abs_diff(usual));
    (usual as u16, median(&mut distances))
}

/// The chunk that holds a key.
#[derive(Debug)]
pub struct SparseIndex {
    borders: u64,
    grid: Grid,
    directory: Directory,
    codes: Vec<u8>,
}

impl SparseIndex {
    /// The chunk where `key` is if it was indexed (the earliest of several: the caller goes on
    /// to the next while it ends with the same key), else some chunk.
    pub fn chunk(&self, key: u64) -> u64 {
        let (bucket, position) = locate(key, self.directory.shape().buckets);
        let spot = self.directory.spot(bucket);
        let mut chunk = spot.ranks[0];
        let mut cursor = Cursor::forwards(&self.codes, spot.bits[0]);
        let mut place = self.grid.start();
        let cell = self.grid.cell(position);
        while cursor.at() < spot.bits[1] && !cursor.is_past_end() {
            let read = self.grid.read(cursor, place);
            if read.border.is_behind(position, cell, self.grid) {
                break;
            }
            (cursor, place) = (read.cursor, read.behind);
            chunk = chunk.wrapping_add(1);
        }
        chunk.min(self.borders)
    }

    /// Chunks told apart: one more than the borders.
    pub fn chunks(&self) -> u64 {
        self.borders.saturating_add(1)
    }

    /// Memory that the index takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.directory.bytes().len() + self.codes.len()
    }

    /// Appends the encoded index to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let [usual_low, usual_high] = self.grid.usual.to_le_bytes();
        let code = [self.grid.cell_bits as u8, self.grid.low_bits as u8, usual_low, usual_high];
        let header = Header { kind: Kind::Sparse, items: self.borders, code };
        frame::encode(out, &header, &self.directory, &self.codes);
    }

    /// Decodes what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (header, directory, codes) = frame::decode(bytes, Kind::Sparse)?;
        let [cell_bits, low_bits, usual_low, usual_high] = header.code;
        let (cell_bits, low_bits) = (u32::from(cell_bits), u32::from(low_bits));
        if !(1..=CELL_BITS_MAX).contains(&cell_bits) || low_bits > LOW_BITS_MAX {
            return Err(Error::corruption("trie index", 8, "no such border code"));
        }
        let usual = u16::from_le_bytes([usual_low, usual_high]);
        let grid = Grid { cell_bits, low_bits, usual };
        Ok(SparseIndex { borders: header.items, grid, directory, codes })
    }
}
