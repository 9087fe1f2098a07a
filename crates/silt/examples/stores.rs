//! Conversion, merge and lookups of one partition's stores, without an engine around them.
//!
//! ```text
//! cargo run --release -p silica-silt --example stores -- [--path DIR] [--value-size B]
//!     [--stores N] [--sorted-keys N]
//! ```

use silica_base::{AlignedBuf, HashSeed, KeyHash, Prng, Result};
use silica_device::{Device, DeviceOptions, FileDevice, PlainFile};
use silica_parts::cuckoo::{CuckooTable, Geometry};
use silica_parts::ect::EctParams;
use silica_parts::frame::Frame;
use silica_silt::Hasher;
use silica_silt::hash_store::{HashStore, HashStoreBuilder};
use silica_silt::merge::{EntryStream, MergeStream};
use silica_silt::packed::{Layout, READ_AHEAD_BYTES};
use silica_silt::sorted_store::{
    IndexKind, Plan, SortedStore, SortedStoreBuilder, SortedStoreOptions,
};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

const HASHER: Hasher = Hasher::Seeded(HashSeed([5; 16]));
const KEY_BYTES: u64 = 8;

/// Runs one phase and prints its rate.
fn timed<T>(what: &str, run: impl FnOnce() -> Result<(T, u64, u64)>) -> Result<T> {
    let start = Instant::now();
    let (out, keys, bytes) = run()?;
    let seconds = start.elapsed().as_secs_f64();
    let (rate, mib) = (keys as f64 / seconds / 1e6, bytes as f64 / seconds / 1048576.0);
    println!("{what}: {rate:.3} M keys/s, {mib:.0} MiB/s of entries ({keys} keys, {seconds:.2} s)");
    Ok(out)
}

/// Entries of one size, one behind the other, as a log holds them.
struct Log {
    bytes: Vec<u8>,
    entry_bytes: usize,
}

impl Log {
    fn new(entries: u64, keys: u64, value_bytes: usize, seed: u64) -> Self {
        let (mut bytes, mut prng, value) = (Vec::new(), Prng::new(seed), vec![b'v'; value_bytes]);
        let mut entry_bytes = 0;
        for _ in 0..entries {
            let key = prng.below(keys).to_le_bytes();
            let frame = Frame::put(&key, &value);
            entry_bytes = frame.encoded_len();
            frame.encode(&mut bytes);
        }
        Log { bytes, entry_bytes }
    }

    fn frame(&self, i: u32) -> &[u8] {
        &self.bytes[i as usize * self.entry_bytes..][..self.entry_bytes]
    }
}

struct Bench {
    device: FileDevice,
    value_bytes: usize,
    keys: u64,
    next_file: u64,
}

impl Bench {
    fn name(&mut self) -> (String, u64) {
        self.next_file += 1;
        (format!("bench-{}", self.next_file), self.next_file)
    }

    fn layout(&self) -> Layout {
        let bytes = self.value_bytes as u64 + KEY_BYTES + 5;
        Layout::choose(bytes, bytes)
    }

    fn convert(&mut self) -> Result<HashStore<PlainFile>> {
        let geometry = Geometry::new(0, 32, 10, 15)?;
        let log =
            Log::new(u64::from(geometry.slots()), self.keys, self.value_bytes, self.next_file);
        let mut table = CuckooTable::new(geometry, 1);
        for i in 0..geometry.slots() {
            let frame = Frame::decode(log.frame(i)).expect("encoded above").0;
            let h = HASHER.hash(frame.key);
            let known = table.candidates(h).find(|(_, other)| {
                Frame::decode(log.frame(*other)).is_some_and(|f| f.0.key == frame.key)
            });
            if known.is_none() && table.insert(h, i).is_err() {
                break;
            }
        }
        let (name, id) = self.name();
        timed("conversion", || {
            let mut builder =
                HashStoreBuilder::new(&self.device, &name, id, self.layout(), HASHER)?;
            while !builder.step(&table, |i| log.frame(i), |_| (), 1 << 20)? {}
            let store = builder.finish(&table)?;
            let footer = store.footer();
            let (entries, bytes) = (footer.entries, footer.entry_bytes);
            Ok((store, entries, bytes))
        })
    }

    fn merge(
        &mut self,
        hash_stores: &[HashStore<PlainFile>],
        sorted: Option<&SortedStore<PlainFile>>,
    ) -> Result<SortedStore<PlainFile>> {
        let (name, id) = self.name();
        let mut streams: Vec<Box<dyn EntryStream>> = Vec::new();
        for store in hash_stores {
            streams.push(Box::new(store.stream(KeyHash(0), READ_AHEAD_BYTES)?));
        }
        if let Some(sorted) = sorted {
            streams.push(Box::new(sorted.stream(KeyHash(0), READ_AHEAD_BYTES)?));
        }
        let footers = hash_stores.iter().map(HashStore::footer).chain(sorted.map(|s| s.footer()));
        let (entries, bytes) =
            footers.fold((0, 0), |sum, f| (sum.0 + f.entries, sum.1 + f.entry_bytes));
        let options = SortedStoreOptions {
            partition_bits: 0,
            params: EctParams::default(),
            index_kind: IndexKind::Auto,
            filter_bits: 0,
            layout: self.layout(),
            entries_expected: entries,
            bytes_expected: bytes,
        };
        timed(&format!("merge of {} stores", streams.len()), || {
            let mut merged = MergeStream::new(streams);
            let mut builder = SortedStoreBuilder::new(&self.device, &name, id, HASHER, options)?;
            while merged.advance()? {
                builder.push(merged.hash(), merged.frame_bytes())?;
            }
            Ok((builder.finish()?, entries, bytes))
        })
    }

    /// The processor's share of a lookup: planning, checking a chunk and finding the entry in it.
    fn lookups_in_memory(&self, store: &SortedStore<PlainFile>) -> Result<()> {
        let mut stream = store.stream(KeyHash(0), READ_AHEAD_BYTES)?;
        let mut asked = Vec::new();
        while stream.advance()? && asked.len() < 1000 {
            let Plan::Read(extent) = store.plan(stream.hash()) else { continue };
            let mut buf = AlignedBuf::zeroed(0);
            store.reader().read(extent, &mut buf)?;
            asked.push((stream.hash(), stream.key().to_vec(), extent, buf));
        }
        let count = 200 * asked.len() as u64;
        let mut buf = AlignedBuf::zeroed(0);
        timed("lookups with the chunk in memory", || {
            for _ in 0..200 {
                for (h, key, extent, bytes) in &asked {
                    black_box(store.plan(*h));
                    // As a read would: a search may move the bytes of its buffer.
                    buf.resize(bytes.len());
                    buf.copy_from_slice(bytes);
                    black_box(store.find(&mut buf, *extent, *h, key)?);
                }
            }
            Ok(((), count, count * self.value_bytes as u64))
        })
    }

    fn lookups(&self, store: &SortedStore<PlainFile>) -> Result<()> {
        let before = self.device.counters().snapshot().reads;
        let mut buf = AlignedBuf::zeroed(4096);
        let mut prng = Prng::new(77);
        let count = 20_000;
        timed("lookups in the sorted store, one by one", || {
            for _ in 0..count {
                let key = prng.below(self.keys).to_le_bytes();
                store.lookup(HASHER.hash(&key), &key, &mut buf)?;
            }
            Ok(((), count, count * self.value_bytes as u64))
        })?;
        let reads = self.device.counters().snapshot().reads - before;
        println!("reads per lookup: {:.4}", reads as f64 / count as f64);
        Ok(())
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| args.iter().position(|a| a == name).and_then(|at| args.get(at + 1));
    let number = |name: &str, default: u64| {
        text(name).map_or(default, |n| n.parse().expect("a number after the flag"))
    };
    let path = text("--path").map_or_else(std::env::temp_dir, PathBuf::from);
    let device = FileDevice::open(&path.join("silt-stores-bench"), DeviceOptions::default())?;
    for name in device.list()?.iter().filter(|name| name.starts_with("bench-")) {
        device.remove(name)?;
    }
    let keys = number("--sorted-keys", 2_000_000);
    let value_bytes = number("--value-size", 50) as usize;
    let mut bench = Bench { device, value_bytes, keys, next_file: 0 };
    let mut sorted: Option<SortedStore<PlainFile>> = None;
    let stores_per_merge = number("--stores", 8) as usize;
    for _ in 0..3 {
        let hash_stores =
            (0..stores_per_merge).map(|_| bench.convert()).collect::<Result<Vec<_>>>()?;
        let old = sorted.take();
        let merged = bench.merge(&hash_stores, old.as_ref())?;
        for reader in
            hash_stores.iter().map(HashStore::reader).chain(old.as_ref().map(|s| s.reader()))
        {
            bench.device.remove(reader.name())?;
        }
        let footer = merged.footer();
        println!(
            "sorted store: {} entries, {:?} index {:.2} bits per key, file / entries {:.3}",
            footer.entries,
            merged.index_kind(),
            merged.index_bytes() as f64 * 8.0 / footer.entries as f64,
            merged.reader().file_bytes() as f64 / footer.entry_bytes as f64,
        );
        sorted = Some(merged);
    }
    if let Some(sorted) = &sorted {
        bench.lookups_in_memory(sorted)?;
        bench.lookups(sorted)?;
        bench.device.remove(sorted.reader().name())?;
    }
    Ok(())
}
