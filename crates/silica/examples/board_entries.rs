//! What the durable engine writes for each change of a leaderboard whose elements are two entries
//! each: one of the member, and one of its score and the member. No server, and no ranks.
//!
//! ```text
//! cargo run --release -p silica --example board_entries -- \
//!     DIR members=200000 changes=400000 memory=64MiB
//! ```
//!
//! Sizes and steps are those of `silica bench compare types --workloads board`: members of 17
//! bytes, scores of 8, 256 changes in a batch, which also writes an entry of 64 bytes for the key.
//! The directory is removed before and after.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and its directory.

use silica::{DEFAULT_KEYSPACE, Durability, Keyspace, OpenOptions, Result, WriteBatch};
use silica_base::Prng;
use std::path::Path;

/// Changes of a batch.
const STEP: u64 = 256;
/// Bytes of the key's entry, which each batch writes.
const KEY_ENTRY_BYTES: usize = 64;
/// Bytes that the engine has handed to the device.
const WRITTEN: [&str; 4] = [
    "log_bytes_written",
    "value_log_bytes_written",
    "flush_bytes_written",
    "compaction_bytes_written",
];

/// A leaderboard whose elements are entries.
struct Board<'k> {
    keyspace: &'k Keyspace,
    /// By member; `None` of one that has not come yet.
    scores: Vec<Option<u64>>,
}

impl Board<'_> {
    /// Adds to the scores of members, some changes in a batch.
    fn change(&mut self, count: u64, draw: impl Fn(u64, &mut Prng) -> (u64, u64)) -> Result<()> {
        let mut random = Prng::new(count);
        for first in (0..count).step_by(STEP as usize) {
            let mut entries = Vec::with_capacity(3 * STEP as usize + 1);
            for nth in first..count.min(first + STEP) {
                let (member, more) = draw(nth, &mut random);
                let name = format!("member:{member:010}").into_bytes();
                let old = self.scores[member as usize];
                let new = old.unwrap_or(0) + more;
                self.scores[member as usize] = Some(new);
                entries.extend(old.map(|old| (entry_key(0, &ordered(old), &name), None)));
                entries.push((entry_key(0, &ordered(new), &name), Some(Vec::new())));
                entries.push((entry_key(1, &[], &name), Some(ordered(new).to_vec())));
            }
            entries.push((b"board".to_vec(), Some(vec![7; KEY_ENTRY_BYTES])));
            let mut batch = WriteBatch::new();
            for (key, value) in &entries {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                };
            }
            self.keyspace.engine().write(&batch, Durability::Buffered)?;
        }
        Ok(())
    }

    fn written(&self) -> Result<Vec<f64>> {
        let metrics = self.keyspace.metrics()?;
        Ok(WRITTEN.iter().map(|name| metrics.get(name)).collect())
    }
}

/// A score as eight bytes that sort as scores do.
fn ordered(score: u64) -> [u8; 8] {
    ((score as f64).to_bits() | 1 << 63).to_be_bytes()
}

/// The key of an element's entry in one of its two orders.
fn entry_key(order: u8, score: &[u8], member: &[u8]) -> Vec<u8> {
    let object = 0x9E37_79B9_7F4A_7C15_u64.to_be_bytes();
    [&[0xFF, 0x51, 0xCA, 0x00][..], &object, &[0x80 | order], score, member].concat()
}

fn argument(name: &str, usual: u64) -> u64 {
    let found = std::env::args().find_map(|argument| {
        let (own, value) = argument.split_once('=')?;
        (own == name).then(|| silica::parse_size(value).expect("a number or a size"))
    });
    found.unwrap_or(usual)
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).expect("a directory that may be removed");
    let (members, changes) = (argument("members", 200_000), argument("changes", 400_000));
    let memory = argument("memory", 64 << 20);
    let path = Path::new(&directory);
    let _ = std::fs::remove_dir_all(path);
    let store = OpenOptions::new().engine("wip").memory_bytes(memory).open(path)?;
    let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    let mut board = Board { keyspace: &keyspace, scores: vec![None; members as usize] };
    board.change(members, |nth, _| (nth * 2_654_435_761 % members, nth))?;
    let before = board.written()?;
    board.change(changes, |_, random| (random.below(members), 1 + random.below(1000)))?;
    let mut all = 0.0;
    for ((name, before), after) in WRITTEN.iter().zip(before).zip(board.written()?) {
        let bytes = (after - before) / changes as f64;
        all += bytes;
        println!("{name:26} {bytes:8.1} for each change");
    }
    println!("{:26} {all:8.1}", "all");
    drop(keyspace);
    drop(store);
    let _ = std::fs::remove_dir_all(path);
    Ok(())
}
