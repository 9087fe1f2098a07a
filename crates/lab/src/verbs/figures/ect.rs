//! `silica bench figures ect`: chapter 3 of Lim's dissertation.

use super::job::Job;
use super::sheet::{Drawing, Sheet, drawing};
use super::{ect_builds, ect_lookups, ect_streamed};
use ph::{GetSize, fmph, phast};
use silica::Result;
use silica_base::Prng;
use silica_lab::figures::ect::figure_3_3;
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams, SparseBuilder, SparseIndex};
use std::hint::black_box;
use std::time::Instant;

/// Keys of a full run, as many as the paper's figures have.
const KEYS: f64 = 16e6;
const KEYS_MIN: u64 = 10_000;
const LOOKUPS: usize = 2_000_000;
/// Lookups timed together: short enough that most batches are not interrupted.
const BATCH: usize = 1000;
const BUILDS: usize = 3;
const GROUPS: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];
const HMAXES: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];
const PER_CHUNK: [usize; 4] = [4, 8, 16, 63];
/// The paper's index and external perfect hashing (3.3.3).
const PAPER_BITS: f64 = 2.51;
const PAPER_BITS_EPH: f64 = 3.92;

const ITEMS: &str = "items a second";
const DRAWINGS: [Drawing; 6] = [
    Drawing {
        metric: "items/s",
        x_powers: true,
        ..drawing("figure-3.7", "Construction by sort buffer, items of 1 KiB", "KiB", ITEMS)
    },
    Drawing {
        metric: "items/s",
        x_powers: true,
        ..drawing("figure-3.8", "Construction by number of items of 1 KiB", "items", ITEMS)
    },
    Drawing {
        metric: "seconds",
        ..drawing("figure-3.9", "Batches of new items: merge and rebuild", "batches", "seconds")
    },
    Drawing {
        metric: "items/s",
        x_powers: true,
        ..drawing("figure-3.12", "Construction by sort buffer, items of 16 B", "KiB", ITEMS)
    },
    Drawing {
        metric: "bits per key",
        x_powers: true,
        ..drawing("figure-3.10", "Size by keys of a virtual bucket", "g", "bits per key")
    },
    Drawing {
        metric: "bits per key",
        x_powers: true,
        ..drawing(
            "figure-3.11",
            "Size by the largest trie with Huffman codes",
            "hmax",
            "bits per key",
        )
    },
];

/// Everything that the chapter's evaluation has.
pub(super) fn sheet(job: &Job<'_>) -> Result<Sheet> {
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    sheet.rows.extend(figure_3_3());
    ect_streamed::add(job, &mut sheet)?;
    let input = Input::new(job.keys(KEYS, KEYS_MIN) as usize, job.seed());
    if !job.begins("section 3.3.3: indexes beside each other", &mut sheet)? {
        return Ok(sheet);
    }
    compared(&input, &mut sheet);
    if !job.begins("section 3.1.6: one key of each chunk", &mut sheet)? {
        return Ok(sheet);
    }
    sparse(&input, &mut sheet);
    if !job.begins("figures 3.10 and 3.11: options", &mut sheet)? {
        return Ok(sheet);
    }
    knobs(&input, &mut sheet);
    if !job.begins("figures 3.7 to 3.9 and 3.12: builds", &mut sheet)? {
        return Ok(sheet);
    }
    ect_builds::add(job, input.keys.len() as u64, &mut sheet)?;
    if !job.begins("table 3.4: lookups on the device", &mut sheet)? {
        return Ok(sheet);
    }
    ect_lookups::add(job, &input.keys, &mut sheet)?;
    Ok(sheet)
}

/// What was measured of one index.
struct Figures {
    bits_per_key: f64,
    lookup_ns: f64,
    build_keys_per_second: f64,
}

impl Figures {
    fn add(
        &self,
        figure: &'static str,
        scheme: &str,
        at: &str,
        paper: Option<f64>,
        to: &mut Sheet,
    ) {
        let metric = |what: &str| format!("{at}{what}");
        to.add(figure, scheme, metric("bits per key"), self.bits_per_key, paper);
        to.add(figure, scheme, metric("ns of a lookup"), self.lookup_ns, None);
        let rate = self.build_keys_per_second;
        to.add(figure, scheme, metric("keys/s built"), rate, None);
    }
}

/// The keys in order, and a random selection of them in random order.
struct Input {
    keys: Vec<u64>,
    wanted: Vec<u64>,
}

impl Input {
    fn new(count: usize, seed: u64) -> Self {
        let mut prng = Prng::new(seed);
        let mut keys: Vec<u64> = (0..count).map(|_| prng.next_u64()).collect();
        keys.sort_unstable();
        keys.dedup();
        let any = |_| keys[prng.below(keys.len() as u64) as usize];
        Input { wanted: (0..LOOKUPS.min(4 * count)).map(any).collect(), keys }
    }

    /// Builds several times and takes the fastest; looks up in batches and takes the median.
    fn measure<T>(
        &self,
        build: impl Fn(&[u64]) -> T,
        bytes: impl Fn(&T) -> usize,
        find: impl Fn(&T, u64) -> u64,
    ) -> Figures {
        let timed = |_| {
            let start = Instant::now();
            (build(&self.keys), start.elapsed().as_secs_f64())
        };
        let builds: Vec<_> = (0..BUILDS).map(timed).collect();
        let fastest = builds.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        let index = &builds[0].0;
        let batch = |keys: &[u64]| {
            let start = Instant::now();
            for &key in keys {
                black_box(find(index, key));
            }
            start.elapsed().as_nanos() as f64 / keys.len() as f64
        };
        let mut batches: Vec<f64> = self.wanted.chunks_exact(BATCH).map(batch).collect();
        batches.sort_by(f64::total_cmp);
        let count = self.keys.len() as f64;
        Figures {
            bits_per_key: bytes(index) as f64 * 8.0 / count,
            lookup_ns: batches[batches.len() / 2],
            build_keys_per_second: count / fastest,
        }
    }

    fn dense(&self, group: u32, hmax: u32) -> Figures {
        let build = |keys: &[u64]| dense(keys, EctParams { group, hmax });
        self.measure(build, DenseIndex::bytes, DenseIndex::rank)
    }

    fn sparse(&self, per_chunk: usize) -> Figures {
        let build = |keys: &[u64]| {
            let chunks = keys.len().div_ceil(per_chunk) as u64;
            let mut builder = SparseBuilder::new(EctParams::default(), chunks);
            for first in (per_chunk..keys.len()).step_by(per_chunk) {
                builder.push_boundary(keys[first - 1], keys[first]);
            }
            builder.finish()
        };
        self.measure(build, SparseIndex::bytes, SparseIndex::chunk)
    }
}

/// The index of `keys`, which are in order.
pub(super) fn dense(keys: &[u64], params: EctParams) -> DenseIndex {
    let mut builder = DenseBuilder::new(params, keys.len() as u64);
    keys.iter().for_each(|&key| builder.push(key));
    builder.finish()
}

/// Section 3.3.3: sizes, beside minimal perfect hashes of today. The paper's is EPH.
fn compared(input: &Input, sheet: &mut Sheet) {
    let mut add = |scheme: &str, figures: &Figures, paper: Option<f64>| {
        figures.add("section-3.3.3", scheme, "", paper, sheet);
    };
    add("ECT", &input.dense(256, 64), Some(PAPER_BITS));
    let found = input.measure(
        |keys| fmph::Function::from_slice_with_conf(keys, fmph::BuildConf::mt(false)),
        |f| f.size_bytes(),
        |f, key| f.get_or_panic(&key),
    );
    add("FMPH", &found, Some(PAPER_BITS_EPH));
    let go = || fmph::GOBuildConf::with_mt(fmph::GOConf::default(), false);
    let found = input.measure(
        |keys| fmph::GOFunction::from_slice_with_conf(keys, go()),
        |f| f.size_bytes(),
        |f, key| f.get_or_panic(&key),
    );
    add("FMPHGO", &found, Some(PAPER_BITS_EPH));
    let found = input.measure(
        phast::Function::from_slice_st,
        |f| f.size_bytes(),
        |f, key| f.get(&key) as u64,
    );
    add("PHast", &found, Some(PAPER_BITS_EPH));
}

/// Section 3.1.6: one key of each chunk.
fn sparse(input: &Input, sheet: &mut Sheet) {
    for per_chunk in PER_CHUNK.into_iter().filter(|count| *count < input.keys.len()) {
        let at = format!("{per_chunk} keys a chunk: ");
        input.sparse(per_chunk).add("figure-3.6", "ECT", &at, None, sheet);
    }
}

/// Figures 3.10 and 3.11: what the two knobs trade.
fn knobs(input: &Input, sheet: &mut Sheet) {
    for group in GROUPS {
        let paper = (group == 256).then_some(PAPER_BITS);
        input.dense(group, 64).add("figure-3.10", "ECT", &format!("{group} = g: "), paper, sheet);
    }
    for hmax in HMAXES {
        let at = format!("{hmax} = hmax: ");
        input.dense(256, hmax).add("figure-3.11", "ECT", &at, None, sheet);
    }
}
