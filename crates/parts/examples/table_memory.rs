//! Memory of tables' indexes and filters a key, and what writing a version costs.
//!
//! `cargo run --release -p silica-parts --example table_memory -- DIR [KEYS [KEYS_OF_A_TABLE
//! [FILTER_BITS]]]`

use silica_base::{HashSeed, Prng};
use silica_device::{Device, DeviceOptions, FileDevice, Lifetime};
use silica_parts::table::{Compression, TableBuilder, TableOptions, Version};
use std::time::Instant;

/// RocksDB 7.8 with full Bloom filters of ten bits, indexes and filters beside the block cache, and
/// 2 million such keys compacted: what it says itself (`rocksdb.estimate-table-readers-mem`).
const PEER_BYTES_PER_KEY: f64 = 1.72;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number =
        |at: usize, usual: u64| args.get(at).map_or(usual, |text| text.parse().expect("a number"));
    let dir = args.get(1).expect("a directory");
    let keys = number(2, 10_000_000);
    let (of_table, filter_bits) = (number(3, 2_500_000).min(keys), number(4, 7) as u32);
    let device = FileDevice::open(dir.as_ref(), DeviceOptions::default()).expect("the directory");
    let options = TableOptions {
        block_bytes: 4096,
        sequence_base: 1,
        filter_bits,
        compression: Compression::None,
        seed: HashSeed([1; 16]),
        lifetime: Lifetime::Long,
    };
    let (mut memory, mut written, start) = (0, 0, Instant::now());
    let (mut prng, step) = (Prng::new(1), u64::MAX / keys);
    let mut finishing = 0.0;
    for table in 0..keys / of_table {
        let name = format!("TABLE-{table}");
        let mut builder =
            TableBuilder::create(&device, &name, table + 1, &options).expect("a new file");
        for n in table * of_table..(table + 1) * of_table {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&(n * step + prng.below(step)).to_be_bytes());
            key[8..].copy_from_slice(&n.to_be_bytes());
            let value = [7; 100];
            let version = Version {
                key: &key,
                sequence: 0,
                flags: 0,
                expires_unix_ms: 0,
                user_bits: 0,
                value: &value,
            };
            builder.add(&version).expect("added");
        }
        let begun = Instant::now();
        let table = builder.finish().expect("finished");
        finishing += begun.elapsed().as_secs_f64();
        memory += table.memory_bytes();
        written += table.footer().versions;
        device.remove(&name).expect("removed");
    }
    let per_key = memory as f64 / written as f64;
    println!("{written} keys, filters of {filter_bits} bits: {per_key:.3} bytes a key");
    let of_peer = per_key / PEER_BYTES_PER_KEY;
    println!("RocksDB has {PEER_BYTES_PER_KEY:.2}: {of_peer:.2} of that");
    let nanoseconds = |seconds: f64| seconds * 1e9 / written as f64;
    println!(
        "{:.0} ns a version, {:.0} of them to finish (filter, sync)",
        nanoseconds(start.elapsed().as_secs_f64()),
        nanoseconds(finishing)
    );
}
