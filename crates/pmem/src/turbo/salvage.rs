//! What is whole of a damaged table is read.

use super::bucket::{
    BUCKET_BYTES, Commit, FILLED_SLOTS, Kind, SLOTS, place_sum, slot_at, slot_sum,
};
use super::entry::{Pointer, Reader};
use super::open::{self, NAME};
use super::shards::{Buckets, decode};
use crate::saved::{Saved, Sink};
use crate::space::{Kind as Engine, Space};
use silica_base::Result;
use silica_device::region::{Region, Regions};
use silica_engine::EntryRef;

/// Reads every entry that can be believed by its own checksum or by that of its bucket.
///
/// # Errors
/// `Corruption` if header, root or the place of the shards is damaged; those of `sink`.
pub(crate) fn salvage<P: Regions>(place: &P, sink: Sink<'_>) -> Result<Saved> {
    let space = Space::salvage_on(place, NAME, Engine::Turbo)?;
    let (bits, seed, table) = open::salvage_root(&space)?;
    let mut salvage = Salvage { space: &space, seed, saved: Saved::default(), bytes: Vec::new() };
    for shard in 0..1_usize << bits {
        let at = table + shard as u64 * 8;
        let buckets = decode(space.store(), shard, space.region().load(at));
        let is_there = |buckets: &Buckets| {
            buckets
                .start
                .checked_add(buckets.bytes())
                .is_some_and(|end| end <= space.region().len())
        };
        match buckets.filter(is_there) {
            Some(buckets) => salvage.shard(buckets, sink)?,
            None => salvage.saved.lose_unknown(format!("shard {shard} is lost: its descriptor")),
        }
    }
    salvage.saved.tell();
    Ok(salvage.saved)
}

struct Salvage<'s, R> {
    space: &'s Space<R>,
    seed: silica_base::HashSeed,
    saved: Saved,
    bytes: Vec<u8>,
}

impl<R: Region> Salvage<'_, R> {
    fn shard(&mut self, buckets: Buckets, sink: Sink<'_>) -> Result<()> {
        for number in 0..buckets.count {
            self.bucket(buckets.at(number), sink)?;
        }
        Ok(())
    }

    fn words(&self, bucket: u64, slot: usize) -> [u64; 2] {
        let at = bucket + slot_at(slot);
        [self.space.region().word(at), self.space.region().word(at + 8)]
    }

    /// Of a bucket that does not match its checksum, entries beside are believed by their own.
    fn bucket(&mut self, at: u64, sink: Sink<'_>) -> Result<()> {
        debug_assert!(at + BUCKET_BYTES <= self.space.region().len());
        let commit = Commit(self.space.region().word(at));
        let used = || (0..SLOTS).filter(move |slot| commit.used() >> slot & 1 == 1);
        let sum = used().fold(place_sum(self.space.store(), at), |sum, slot| {
            sum ^ slot_sum(slot, commit.kind(slot), self.words(at, slot))
        });
        let is_whole = commit.is_sound(sum);
        let mut saved = 0;
        for slot in used() {
            let words = self.words(at, slot);
            let is_saved = match commit.kind(slot) {
                Kind::Inline if is_whole => {
                    let value = words[1].to_le_bytes();
                    let entry = EntryRef { value: &value, expires_unix_ms: 0, user_bits: 0 };
                    sink(&words[0].to_le_bytes(), Some(entry))?;
                    true
                }
                Kind::Inline => false,
                Kind::Beside => self.beside(words, sink)?,
            };
            saved += u64::from(is_saved);
            self.saved.lost += u64::from(is_whole && !is_saved);
        }
        if !is_whole {
            // What it had is not known: as much as it has room for.
            self.saved.damaged_pieces += 1;
            self.saved.lost += (FILLED_SLOTS as u64).saturating_sub(saved);
        }
        Ok(())
    }

    fn beside(&mut self, [hash, pointer]: [u64; 2], sink: Sink<'_>) -> Result<bool> {
        let (region, store, name) = (self.space.region(), self.space.store(), self.space.name());
        let reader = Reader { region, store, name };
        let Ok(loaded) = reader.load(Pointer(pointer), &mut self.bytes) else { return Ok(false) };
        let key = &self.bytes[loaded.key.clone()];
        if self.seed.low(key) != hash {
            return Ok(false);
        }
        sink(key, Some(loaded.entry(&self.bytes)))?;
        Ok(true)
    }
}
