//! Table 5.2 of Lim's chapter 5: a structure of others that is only partitioned, each part used by
//! one core without locks, beside MICA used in the same way. The paper took Masstree; here it is
//! the standard library's hash table.

use super::sheet::Sheet;
use hashbrown::HashMap;
use silica::Result;
use silica_base::{HashSeed, Prng, Zipf};
use silica_engine::{
    Durability, EntryRef, Environment, GetSink, OptionValues, Shard, Sharded, WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Requests answered together.
const BURST: usize = 32;
/// Requests drawn for each core, before the clock starts.
const DRAWN_MAX: u64 = 1 << 20;
const TIME: Duration = Duration::from_millis(400);
/// Memory for an entry of 8 + 8 bytes.
const ENTRY_BYTES: u64 = 88;
const SKEW: f64 = 0.99;
/// The paper's partitioned Masstree, of MICA's rate, by percent of gets.
const PAPER: [(u64, f64); 2] = [(50, 0.082), (95, 0.273)];

/// A part of a store that one core uses.
trait Part: Send {
    /// Answers requests: the gets' keys, and the puts'.
    fn serve(&mut self, gets: &[[u8; 8]], puts: &[[u8; 8]]) -> Result<()>;
}

/// MICA's partition.
struct Own(Box<dyn Shard>);

struct Sum(u64);

impl GetSink for Sum {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        let value = entry.value.first_chunk().map_or(0, |value| u64::from_le_bytes(*value));
        self.0 = self.0.wrapping_add(value);
    }
}

impl Part for Own {
    fn serve(&mut self, gets: &[[u8; 8]], puts: &[[u8; 8]]) -> Result<()> {
        let keys: Vec<&[u8]> = gets.iter().map(|key| &key[..]).collect();
        let mut sum = Sum(0);
        self.0.get_many(&keys, &mut sum)?;
        black_box(sum.0);
        let mut batch = WriteBatch::new();
        puts.iter().for_each(|key| {
            batch.put(key, key);
        });
        if puts.is_empty() { Ok(()) } else { self.0.write(&batch, Durability::Buffered) }
    }
}

/// A hash table; keys and values are allocated, as tables of any bytes do.
struct Table(HashMap<Box<[u8]>, Box<[u8]>, foldhash::fast::FixedState>);

impl Part for Table {
    fn serve(&mut self, gets: &[[u8; 8]], puts: &[[u8; 8]]) -> Result<()> {
        let mut sum = 0u64;
        for key in gets {
            let value = self.0.get(&key[..]).and_then(|value| value.first_chunk());
            sum = sum.wrapping_add(value.map_or(0, |value| u64::from_le_bytes(*value)));
        }
        black_box(sum);
        for key in puts {
            match self.0.get_mut(&key[..]) {
                Some(value) => value.copy_from_slice(key),
                None => drop(self.0.insert(Box::from(&key[..]), Box::from(&key[..]))),
            }
        }
        Ok(())
    }
}

/// Both stores, by percent of gets, skewed, 8 + 8 bytes, a core for each partition.
pub(super) fn table_5_2(keys: u64, seed: u64, sheet: &mut Sheet) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = if cores.is_power_of_two() { cores } else { cores.next_power_of_two() / 2 };
    let mica = open(keys, workers)?;
    let own = streams(&mica, keys, workers, seed);
    for (gets, paper) in PAPER {
        let shards: Result<Vec<Box<dyn Part>>> = (0..workers)
            .map(|number| Ok(Box::new(Own(mica.take(number)?)) as Box<dyn Part>))
            .collect();
        let ours = rate(shards?, &own, gets)?;
        let tables =
            (0..workers).map(|number| Box::new(table(&mica, keys, number)) as Box<dyn Part>);
        let theirs = rate(tables.collect(), &own, gets)?;
        let metric = format!("{gets} % gets, {workers} cores: operations/s");
        sheet.add("table-5.2", "silica:mica, owners", metric.clone(), ours, None);
        sheet.add("table-5.2", "partitioned hashbrown", metric, theirs, None);
        let metric = format!("{gets} % gets: of mica's");
        sheet.add("table-5.2", "partitioned hashbrown", metric, theirs / ours, paper);
    }
    Ok(())
}

fn open(keys: u64, partitions: usize) -> Result<Mica> {
    let memory = (keys * ENTRY_BYTES + (4 << 20)).to_string();
    let partitions = partitions.to_string();
    let options =
        [("memory_bytes", &memory[..]), ("entry_bytes_mean", "16"), ("partitions", &partitions)];
    let options = OptionValues::parse(OPTIONS, options)?;
    let mica = Mica::open(&options, &Environment::new(HashSeed([1; 16])))?;
    let all: Vec<[u8; 8]> = (0..keys).map(u64::to_le_bytes).collect();
    for keys in all.chunks(BURST) {
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| {
            batch.put(key, key);
        });
        silica_engine::Engine::write(&mica, &batch, Durability::Buffered)?;
    }
    Ok(mica)
}

/// The keys of partition `number` in a table.
fn table(mica: &Mica, keys: u64, number: usize) -> Table {
    let mut table = Table(HashMap::default());
    for key in (0..keys).map(u64::to_le_bytes).filter(|key| mica.shard_of(key) == number) {
        table.0.insert(Box::from(&key[..]), Box::from(&key[..]));
    }
    table
}

/// For each partition the keys that its core is asked for, by Zipf's law.
fn streams(mica: &Mica, keys: u64, partitions: usize, seed: u64) -> Vec<Vec<[u8; 8]>> {
    let (zipf, mut prng) = (Zipf::new(keys, SKEW), Prng::new(seed));
    let mut streams = vec![Vec::new(); partitions];
    for _ in 0..(8 * keys).min(DRAWN_MAX) * partitions as u64 {
        // The popular keys are scattered: the fill wrote them in order.
        let key = zipf.rank(&mut prng).wrapping_mul(0x9E37_79B9_7F4A_7C15) % keys;
        streams[mica.shard_of(&key.to_le_bytes())].push(key.to_le_bytes());
    }
    streams
}

/// Operations a second of all parts, each on a thread of its own.
fn rate(parts: Vec<Box<dyn Part>>, streams: &[Vec<[u8; 8]>], gets: u64) -> Result<f64> {
    let ready = Barrier::new(parts.len());
    let rates: Vec<Result<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .into_iter()
            .zip(streams)
            .map(|(mut part, stream)| {
                let ready = &ready;
                scope.spawn(move || {
                    ready.wait();
                    serve(&mut *part, stream, gets)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("parts do not panic")).collect()
    });
    rates.into_iter().sum()
}

fn serve(part: &mut dyn Part, stream: &[[u8; 8]], gets: u64) -> Result<f64> {
    let (mut prng, started, mut done) = (Prng::new(9), Instant::now(), 0);
    let (mut asked, mut put) = (Vec::with_capacity(BURST), Vec::with_capacity(BURST));
    for burst in stream.chunks(BURST).cycle() {
        asked.clear();
        put.clear();
        for key in burst {
            if prng.below(100) < gets { &mut asked } else { &mut put }.push(*key);
        }
        part.serve(&asked, &put)?;
        done += burst.len();
        if started.elapsed() >= TIME {
            break;
        }
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}
