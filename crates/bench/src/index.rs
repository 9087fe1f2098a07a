//! Benchmarks of the two index structures by themselves: the entropy-coded trie and the
//! partial-key cuckoo table.

use crate::generator::mix;
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use silica_base::{KeyHash, Prng};
use silica_parts::cuckoo::{CuckooTable, Geometry, lookup_many};
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams, SparseBuilder, SparseIndex};
use std::time::Instant;

/// Slots of a cuckoo table of the store's own size.
pub const CUCKOO_SLOTS_DEFAULT: u32 = 1 << 17;
/// Lookups that are timed, at most.
const LOOKUPS_MAX: u64 = 4 << 20;
/// Tables that fill up together: a store's partitions.
const TABLES_AT_ONCE: usize = 8;
/// Inserts into each of them in one burst.
const INSERTS_AHEAD: usize = 4;

fn lookups(keys: u64) -> u64 {
    (4 * keys).min(LOOKUPS_MAX)
}

/// What to measure of the entropy-coded trie.
#[derive(Debug, Clone, Copy)]
pub struct EctConfig {
    /// Keys to index.
    pub keys: u64,
    /// Average keys of a virtual bucket.
    pub group: u32,
    /// Largest trie that is Huffman coded.
    pub hmax: u32,
    /// Entries of a chunk, for a sparse index; `None` for a dense one.
    pub per_chunk: Option<u64>,
}

/// Figures of the entropy-coded trie.
#[derive(Debug, Clone, Serialize)]
pub struct EctReport {
    /// Keys indexed.
    pub keys: u64,
    /// Average keys of a virtual bucket.
    pub group: u32,
    /// Largest trie that is Huffman coded.
    pub hmax: u32,
    /// Entries of a chunk; absent for a dense index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_chunk: Option<u64>,
    /// Memory of the whole index, everything counted, in bits per key.
    pub bits_per_key: f64,
    /// Time of one lookup of a present key in memory, one core.
    pub lookup_ns: f64,
    /// Keys indexed per second, from a sorted array in memory, one core.
    pub build_keys_per_second: f64,
    /// Fingerprint of the answers.
    pub result_hash: String,
}

/// Ascending hashes; the same for the same number of keys.
fn sorted_hashes(keys: u64) -> Vec<u64> {
    let mut hashes: Vec<u64> = (0..keys).map(mix).collect();
    hashes.sort_unstable();
    hashes
}

/// Builds an index over hashed keys, looks random ones up, and checks every answer.
pub fn ect(config: EctConfig) -> Result<EctReport> {
    let invalid = config.keys == 0 || config.group == 0 || config.per_chunk == Some(0);
    if invalid {
        let message = "--keys, --group and --per-chunk must be at least 1";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let keys = sorted_hashes(config.keys);
    let params = EctParams { group: config.group, hmax: config.hmax };
    let started = Instant::now();
    let index = match config.per_chunk {
        None => Index::Dense(build_dense(params, &keys)),
        Some(per_chunk) => Index::Sparse(build_sparse(params, &keys, per_chunk), per_chunk),
    };
    let build_seconds = started.elapsed().as_secs_f64();
    let mut prng = Prng::new(7);
    let lookups = lookups(config.keys);
    let ranks: Vec<u64> = (0..lookups).map(|_| prng.below(config.keys)).collect();
    let asked: Vec<u64> = ranks.iter().map(|r| keys[*r as usize]).collect();
    let started = Instant::now();
    let mut wrong = 0u64;
    let mut hash = 0u64;
    for (key, rank) in asked.iter().zip(&ranks) {
        let answer = index.find(*key);
        wrong += u64::from(answer != index.expected(*rank));
        hash = hash.rotate_left(1) ^ answer;
    }
    let lookup_ns = started.elapsed().as_nanos() as f64 / lookups as f64;
    if wrong > 0 {
        let message = format!("{wrong} of {lookups} lookups gave a wrong place");
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    Ok(EctReport {
        keys: config.keys,
        group: config.group,
        hmax: config.hmax,
        per_chunk: config.per_chunk,
        bits_per_key: index.bytes() as f64 * 8.0 / config.keys as f64,
        lookup_ns,
        build_keys_per_second: config.keys as f64 / build_seconds,
        result_hash: format!("{hash:016x}"),
    })
}

enum Index {
    Dense(DenseIndex),
    Sparse(SparseIndex, u64),
}

impl Index {
    #[inline]
    fn find(&self, key: u64) -> u64 {
        match self {
            Index::Dense(index) => index.rank(key),
            Index::Sparse(index, _) => index.chunk(key),
        }
    }

    #[inline]
    fn expected(&self, rank: u64) -> u64 {
        match self {
            Index::Dense(_) => rank,
            Index::Sparse(_, per_chunk) => rank / per_chunk,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Index::Dense(index) => index.bytes(),
            Index::Sparse(index, _) => index.bytes(),
        }
    }
}

fn build_dense(params: EctParams, keys: &[u64]) -> DenseIndex {
    let mut builder = DenseBuilder::new(params, keys.len() as u64);
    keys.iter().for_each(|k| builder.push(*k));
    builder.finish()
}

fn build_sparse(params: EctParams, keys: &[u64], per_chunk: u64) -> SparseIndex {
    let chunks = (keys.len() as u64).div_ceil(per_chunk);
    let mut builder = SparseBuilder::new(params, chunks);
    for border in (per_chunk as usize..keys.len()).step_by(per_chunk as usize) {
        builder.push_boundary(keys[border - 1], keys[border]);
    }
    builder.finish()
}

/// Figures of partial-key cuckoo tables.
#[derive(Debug, Clone, Serialize)]
pub struct CuckooReport {
    /// Keys in all tables together.
    pub keys: u64,
    /// Tables of the store's own size.
    pub tables: u64,
    /// Slots of each.
    pub slots: u32,
    /// Bits of a tag.
    pub tag_bits: u32,
    /// Share of all slots that are occupied when every table has refused an insert.
    pub occupancy: f64,
    /// Inserts per second, one core, into the tables of one store after the other, in bursts.
    pub inserts_per_second: f64,
    /// Lookups per second of present keys, one core, in bursts.
    pub lookups_per_second: f64,
    /// Lookups per second of present keys, one core, one by one.
    pub lookups_single_per_second: f64,
    /// Memory per key while the tables are in the log store.
    pub bytes_per_key: f64,
    /// Fingerprint of the answers.
    pub result_hash: String,
}

/// The hash of key number `i` of table `table`: computed, so that lookups need no list of keys.
#[inline]
fn table_hash(table: u64, i: u64) -> KeyHash {
    let seed = mix(table << 32 | i);
    KeyHash(u128::from(mix(seed)) << 64 | u128::from(mix(!seed)))
}

/// Fills tables until each refuses an insert, then looks random keys up.
pub fn cuckoo(keys: u64, slots: u32, tag_bits: u32) -> Result<CuckooReport> {
    let geometry = Geometry::with_slots(0, slots, tag_bits)?;
    // About 95 % of the slots get occupied, so this many tables hold the keys.
    let count = (keys as f64 / (f64::from(geometry.slots()) * 0.95)).round().max(1.0) as u64;
    let started = Instant::now();
    let tables = fill_tables(geometry, count);
    let insert_seconds = started.elapsed().as_secs_f64();
    let held: u64 = tables.iter().map(|t| u64::from(t.len())).sum();
    let bytes: usize = tables.iter().map(CuckooTable::bytes).sum();
    let mut prng = Prng::new(11);
    let lookups = lookups(held);
    let asked: Vec<(u32, u32)> = (0..lookups)
        .map(|_| {
            let table = prng.below(count) as u32;
            (table, prng.below(u64::from(tables[table as usize].len())) as u32)
        })
        .collect();
    let (burst_seconds, hash) = look_up_bursts(&tables, &asked)?;
    let single_seconds = look_up_singles(&tables, &asked)?;
    Ok(CuckooReport {
        keys: held,
        tables: count,
        slots: geometry.slots(),
        tag_bits,
        occupancy: held as f64 / (count as f64 * f64::from(geometry.slots())),
        inserts_per_second: held as f64 / insert_seconds,
        lookups_per_second: lookups as f64 / burst_seconds,
        lookups_single_per_second: lookups as f64 / single_seconds,
        bytes_per_key: bytes as f64 / held as f64,
        result_hash: format!("{hash:016x}"),
    })
}

/// Fills a store's worth of tables at a time, as a store does: its other tables are frozen (the
/// SILT paper's section 6.2 measures it so, too).
fn fill_tables(geometry: Geometry, count: u64) -> Vec<CuckooTable> {
    let mut tables: Vec<_> = (0..count).map(|id| CuckooTable::new(geometry, id)).collect();
    for first in (0..count).step_by(TABLES_AT_ONCE) {
        fill_together(&mut tables, (first..count).take(TABLES_AT_ONCE).collect());
    }
    tables
}

/// Spreads inserts over the tables `open` until each refuses one.
fn fill_together(tables: &mut [CuckooTable], mut open: Vec<u64>) {
    for first in (0u32..).step_by(INSERTS_AHEAD) {
        let ahead = first..first + INSERTS_AHEAD as u32;
        for t in &open {
            ahead.clone().for_each(|i| tables[*t as usize].prefetch(table_hash(*t, i.into())));
        }
        open.retain(|t| {
            let table = &mut tables[*t as usize];
            ahead.clone().all(|i| table.insert(table_hash(*t, i.into()), i).is_ok())
        });
        if open.is_empty() {
            return;
        }
    }
}

fn all_found(found: u64, asked: &[(u32, u32)]) -> Result<()> {
    if found == asked.len() as u64 {
        return Ok(());
    }
    let message = format!("{found} of {} keys were found", asked.len());
    Err(Error::new(ErrorKind::Corruption, message))
}

fn look_up_bursts(tables: &[CuckooTable], asked: &[(u32, u32)]) -> Result<(f64, u64)> {
    let hashes: Vec<KeyHash> =
        asked.iter().map(|(t, i)| table_hash((*t).into(), (*i).into())).collect();
    let (mut found, mut hash) = (0u64, 0u64);
    let started = Instant::now();
    lookup_many(
        &hashes,
        |i| &tables[asked[i].0 as usize],
        |i, mut candidates| {
            let slot = candidates.find(|(_, value)| *value == asked[i].1);
            if let Some((slot, _)) = slot {
                found += 1;
                // Answers come in any order.
                hash ^= mix((i as u64) << 32 | u64::from(slot));
            }
            slot.is_some()
        },
    );
    let seconds = started.elapsed().as_secs_f64();
    all_found(found, asked)?;
    Ok((seconds, hash))
}

fn look_up_singles(tables: &[CuckooTable], asked: &[(u32, u32)]) -> Result<f64> {
    let hashes: Vec<KeyHash> =
        asked.iter().map(|(t, i)| table_hash((*t).into(), (*i).into())).collect();
    let mut found = 0u64;
    let started = Instant::now();
    for ((table, value), hash) in asked.iter().zip(&hashes) {
        let mut candidates = tables[*table as usize].candidates(*hash);
        found += u64::from(candidates.any(|(_, v)| v == *value));
    }
    let seconds = started.elapsed().as_secs_f64();
    all_found(found, asked)?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_find_every_place_and_repeat() {
        let config = EctConfig { keys: 5000, group: 256, hmax: 64, per_chunk: None };
        let dense = ect(config).unwrap();
        assert_eq!(dense.result_hash, ect(config).unwrap().result_hash);
        assert!(dense.bits_per_key > 0.0 && dense.build_keys_per_second > 0.0);
        let sparse = ect(EctConfig { per_chunk: Some(8), ..config }).unwrap();
        assert_ne!(sparse.result_hash, dense.result_hash);
        assert!(ect(EctConfig { per_chunk: Some(0), ..config }).is_err());
    }

    #[test]
    fn cuckoo_tables_fill_up_and_repeat() {
        let first = cuckoo(10_000, 1 << 12, 15).unwrap();
        assert!(first.occupancy > 0.8 && first.keys > 8_000, "{first:?}");
        assert_eq!(first.result_hash, cuckoo(10_000, 1 << 12, 15).unwrap().result_hash);
    }
}
