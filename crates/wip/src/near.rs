//! A place near a random entry, for RANDOMKEY.
//!
//! Every version in the store is as likely as another: a bucket is chosen by how many it has, then
//! a table or a memtable of it, then a block of the table. Which entry of a block it is only a read
//! tells; so whoever asks goes on from the block's beginning over up to twice as many entries as
//! blocks have, and the entries at the end of one are reached, too.

use crate::bucket::{LogEntries, Stores};
use crate::contents::Contents;
use crate::memtable::Entries;
use crate::run::Part;
use silica_device::Device;
use silica_engine::Near;

/// A place near a random entry; `None` if nothing is there.
pub(crate) fn near_random<D: Device>(contents: &Contents<D>, random: u64) -> Option<Near> {
    let mut buckets = Vec::new();
    contents.for_each_bucket(|lower, _, stores| buckets.push((lower.to_vec(), versions(stores))));
    let all: u64 = buckets.iter().map(|(_, versions)| versions).sum();
    let mut place = random.checked_rem(all)?;
    for (lower, versions) in buckets {
        if place < versions {
            let near = contents.with_stores(&lower, |_, stores| near_in(contents, stores, place));
            // What was there when the bucket was chosen may have been flushed or split.
            return Some(near.unwrap_or(Near { key: lower, among: 1 }));
        }
        place -= versions;
    }
    None
}

/// The place near version `place` of a bucket.
fn near_in<D: Device>(contents: &Contents<D>, stores: &Stores<D>, mut place: u64) -> Option<Near> {
    for part in stores.version.runs.iter().flatten() {
        let versions = part.versions();
        if place < versions {
            let blocks = part.blocks();
            let block = blocks.start + (place * blocks.len() as u64 / versions) as usize;
            let key = part.table.table.separator(block).max(part.lower.clone());
            return Some(Near { key, among: 2 * versions.div_ceil(blocks.len() as u64) });
        }
        place -= versions;
    }
    let frozen = stores.frozen.iter().map(|frozen| &frozen.memtable);
    for memtable in frozen.chain([&stores.active]) {
        if place < memtable.len() as u64 {
            let position = *memtable.positions().get(place as usize)?;
            // Behind the positions, to which others add meanwhile.
            let segments = contents.log.segments();
            let key = LogEntries(&segments).entry(position).key.to_vec();
            return Some(Near { key, among: 1 });
        }
        place -= memtable.len() as u64;
    }
    None
}

/// Versions in a bucket.
fn versions<D: Device>(stores: &Stores<D>) -> u64 {
    let tables: u64 = stores.version.runs.iter().flatten().map(Part::versions).sum();
    let frozen = stores.frozen.iter().map(|frozen| frozen.memtable.len());
    tables + frozen.sum::<usize>() as u64 + stores.active.len() as u64
}
