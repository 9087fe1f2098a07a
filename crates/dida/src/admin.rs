//! Counting, clearing, closing, checking.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::index::Found;
use crate::journal::Record;
use crate::slabs::Whereabouts;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::{Admin, Checkpoint, Count};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

impl<F: Flash, D: Device> Dida<F, D> {
    /// Entries that the index names, expired ones included.
    pub(crate) fn entries(&self) -> u64 {
        let on_flash = self.slabs.on_flash().map(|(_, slab, _)| slab.live.load(Ordering::Relaxed));
        let in_memory = self.slabs.in_memory().map(|(_, slab)| slab.live.load(Ordering::Relaxed));
        on_flash.chain(in_memory).map(u64::from).sum()
    }

    /// Writes what is in memory to flash, and the index, durably.
    fn write_all(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.seal_all();
        let all = self.streams.sealed_count() as u64 + 1;
        let mut done = 0;
        progress(done, all);
        while self.drain_one()? {
            done += 1;
            progress(done.min(all), all);
        }
        self.flash.sync()?;
        self.make_checkpoint()?;
        self.flash.sync()?;
        self.journal.sync()?;
        progress(all, all);
        Ok(())
    }

    /// Walks the index: each slot is in the bucket and has the tag of its key, and each slab has
    /// as many live items as slots name it.
    pub(crate) fn check_everything(&self) -> Result<()> {
        let guards = self.index.lock_all();
        let wrong = |text: String| Err(Error::new(ErrorKind::Corruption, text));
        let mut named: BTreeMap<u32, u32> = BTreeMap::new();
        let mut slots: Vec<(usize, Found)> = Vec::new();
        for bucket in 0..self.layout.buckets as usize {
            let mut tags: Vec<u64> = Vec::new();
            for found in self.index.bucket(bucket) {
                let place = self.layout.place_of(found.slot);
                if self.slabs.get(place.slab).whereabouts() == Whereabouts::Nowhere {
                    return wrong(format!(
                        "bucket {bucket} names slab {}, which is none",
                        place.slab
                    ));
                }
                *named.entry(place.slab).or_default() += 1;
                tags.push(self.layout.tag_of(found.slot));
                slots.push((bucket, found));
            }
            tags.sort_unstable();
            if tags.windows(2).any(|pair| pair[0] == pair[1]) {
                return wrong(format!("bucket {bucket} has a tag twice"));
            }
        }
        let on_flash = self.slabs.on_flash().map(|(number, slab, _)| (number, slab));
        for (number, slab) in on_flash.chain(self.slabs.in_memory()) {
            let (live, slots) =
                (slab.live.load(Ordering::Relaxed), named.get(&number).copied().unwrap_or(0));
            if live != slots && !slab.is_claimed() {
                return wrong(format!("slab {number} counts {live} live items of {slots}"));
            }
        }
        drop(guards);
        for (bucket, found) in slots {
            let mut strange = None;
            self.with_item(found, &mut |key, _| {
                let hash = self.seed.low(key);
                let is_right = self.layout.bucket(hash) == bucket
                    && self.layout.tag(hash) == self.layout.tag_of(found.slot);
                if !is_right && self.index.load(found.at) == found.slot {
                    strange = Some(key.to_vec());
                }
            })?;
            if let Some(key) = strange {
                return wrong(format!(
                    "bucket {bucket} names key {key:?}, which belongs elsewhere"
                ));
            }
        }
        Ok(())
    }
}

impl<F: Flash, D: Device> Admin for Dida<F, D> {
    fn count(&self, exact: bool) -> Result<Count> {
        if !exact {
            let entries = self.entries();
            return Ok(Count { low: 0, estimate: entries, high: entries });
        }
        let mut entries = 0;
        for bucket in 0..self.layout.buckets as usize {
            let slots: Vec<Found> = self.index.bucket(bucket).collect();
            for found in slots {
                entries += u64::from(self.with_item(found, &mut |_, _| ())?);
            }
        }
        Ok(Count { low: entries, estimate: entries, high: entries })
    }

    fn clear(&self) -> Result<()> {
        self.check_open()?;
        let guards = self.index.lock_all();
        let placing = self.placing.lock().expect("no panic while locked");
        // Slabs that are begun from here on are not cleared, so none may be open before.
        self.seal_all();
        let before = self.next_sequence.fetch_add(1, Ordering::AcqRel) + 1;
        self.record(&[Record::Cleared { before }])?;
        self.cleared_before.store(before, Ordering::Release);
        self.index.clear();
        self.forget_memory()?;
        drop(placing);
        drop(guards);
        self.journal.settle()?;
        self.give_up_cleared()
    }

    fn checkpoint(&self, _target: &mut dyn Checkpoint) -> Result<()> {
        let message = "a cache on flash is not backed up: whoever fills it has the data; back that \
                       up instead";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Nobody begins a write any more; who has begun one ends it first.
        drop(self.index.lock_all());
        self.write_all(progress)?;
        self.record(&[Record::Closed])?;
        self.journal.sync()?;
        self.files.sync_dir()
    }

    fn save(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        self.check_open()?;
        self.write_all(progress).map(|()| true)
    }

    fn inspect(&self) -> Result<String> {
        let mut text = String::new();
        let shape = self.layout.shape;
        let marks = self.provision.marks(self.flash.free(), self.flash.usable());
        let (written, freed) = self.provision.rates();
        let on_flash = self.slabs.on_flash().count();
        let lines: [(&str, String); 11] = [
            ("channels", shape.channels.to_string()),
            ("blocks", shape.slabs.to_string()),
            ("usable blocks", self.flash.usable().to_string()),
            ("free blocks", self.flash.free().to_string()),
            ("low mark", marks.low.to_string()),
            ("high mark", marks.high.to_string()),
            ("slabs written a second", format!("{written:.3}")),
            ("slabs that could be made free a second", format!("{freed:.3}")),
            ("slabs on flash", on_flash.to_string()),
            ("buckets", self.layout.buckets.to_string()),
            ("entries", self.entries().to_string()),
        ];
        for (name, value) in lines {
            writeln!(text, "{name}: {value}").expect("a string takes all");
        }
        Ok(text)
    }
}
