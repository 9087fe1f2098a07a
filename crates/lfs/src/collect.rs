//! Collection: live pages of segments that are mostly dead are copied, and the segments given back.

use crate::batch::{Owner, decode_summary, summary_pages};
use crate::commit::{COLD, Page, Plan};
use crate::core::{Collection, Lfs, Writer};
use crate::extents::UNWRITTEN;
use crate::fault::LfsResult;
use crate::ground::{Fetch, Ground};
use crate::space::Use;
use crate::tree::read;
use silica_base::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Segments that one round collects at most.
const ROUND_MAX: usize = 32;
/// Segments that are erased at once while there is time.
const ERASES: u32 = 16;
/// Rounds of one collection at most: each gains a page at least.
const ROUNDS_MAX: u32 = 1000;

impl<G: Ground> Lfs<G> {
    /// Collects until there is room for so many more pages, or until nothing can be gained.
    pub(crate) fn make_room(&self, writer: &mut Writer, pages: u64) -> LfsResult<()> {
        let wanted = |writer: &Writer| {
            let waiting = pages + writer.dirty_pages;
            writer.space.low(writer.weight) + waiting.div_ceil(u64::from(writer.space.data_pages))
        };
        for _ in 0..ROUNDS_MAX {
            let before = self.ground.free();
            if u64::from(before) >= wanted(writer) {
                break;
            }
            // A round on a full device may gain less than a segment, and is not in vain.
            let has_copied = self.collect_round(writer, wanted(writer) as u32 + 1)?;
            if !has_copied && self.ground.free() <= before {
                break;
            }
        }
        Ok(())
    }

    /// Background work: erases segments that were given back, and collects if few are free. Its
    /// owner calls it whenever there is time, from any thread.
    ///
    /// # Errors
    /// What the device said.
    pub fn tend(&self) -> LfsResult<()> {
        self.ground.tend(ERASES)?;
        let mut writer = self.change()?;
        let low = writer.space.low(writer.weight);
        if u64::from(self.ground.free()) < low + low / 2 {
            self.make_room(&mut writer, low / 2)?;
            drop(writer);
            self.ground.tend(ERASES)?;
        }
        Ok(())
    }

    /// Collects segments, a few at once, and gives back what is dead. True if any were copied.
    fn collect_round(&self, writer: &mut Writer, free_wanted: u32) -> LfsResult<bool> {
        if self.commit(writer)? {
            self.checkpoint(writer)?;
        }
        let dead = |s: &&crate::space::Segment| s.use_ == Use::Closed && s.live == 0;
        let dead = writer.space.segments.iter().filter(dead).count() as u32;
        let by_log = writer.log_segments.len() as u32;
        let have = self.ground.free() + dead + by_log.saturating_sub(1);
        let mut has_copied = false;
        if have < free_wanted {
            let victims = self.victims(writer, free_wanted - have);
            has_copied = !victims.is_empty();
            let result = self.copy_live(writer, &victims);
            if let Err(error) = &result {
                writer.poison = Some(error.duplicate());
            }
            result?;
        }
        match by_log > 1 {
            true => self.checkpoint(writer)?,
            false => self.settle(writer)?,
        }
        self.ground.tend(ERASES)?;
        Ok(has_copied)
    }

    /// Segments to collect, the best first, as far as their live pages fit what is free.
    fn victims(&self, writer: &Writer, gain: u32) -> Vec<u32> {
        let pages = f64::from(writer.space.data_pages);
        let now = writer.statistics.commits + 1;
        let mut candidates: Vec<(f64, u32, u32)> = (0..)
            .zip(&writer.space.segments)
            .filter(|(_, of)| of.use_ == Use::Closed && of.live > 0 && !of.is_stuck)
            .filter(|(_, of)| of.live < writer.space.data_pages)
            .map(|(segment, of)| {
                let used = f64::from(of.live) / pages;
                let score = match self.options.collection {
                    Collection::Greedy => 1.0 - used,
                    Collection::CostBenefit => {
                        (1.0 - used) * (now - of.closed_at) as f64 / (1.0 + used)
                    }
                };
                (score, segment, of.live)
            })
            .collect();
        silica_base::compact_sort_by(&mut candidates, |a, b| {
            b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
        });
        // Copies, the log and a checkpoint need some of what is free.
        let spare = u64::from(self.ground.free()).saturating_sub(2);
        let keep =
            writer.space.checkpoint_pages(writer.weight).div_ceil(writer.space.segment_pages);
        let mut room = spare.saturating_sub(keep).max(1) * u64::from(writer.space.data_pages);
        let mut victims = Vec::new();
        let mut gained = 0;
        let wanted = u64::from(gain) * u64::from(writer.space.data_pages);
        for (_, segment, live) in candidates.into_iter().take(ROUND_MAX) {
            if u64::from(live) > room || gained >= wanted {
                break;
            }
            room -= u64::from(live);
            gained += u64::from(writer.space.data_pages - live);
            victims.push(segment);
        }
        victims
    }

    /// Copies the live pages of segments to cold ones.
    fn copy_live(&self, writer: &mut Writer, victims: &[u32]) -> Result<()> {
        let mut live: Vec<(u64, u64, u64)> = Vec::new();
        let mut by_look: Vec<u32> = Vec::new();
        for victim in victims {
            match self.owners(writer, *victim) {
                Some(owners) => {
                    let first = writer.space.place(*victim, 0);
                    let live_of = (first..).zip(&owners).filter_map(|(at, (ino, index, _))| {
                        self.is_at(*ino, *index, at).then_some((*ino, *index, at))
                    });
                    let found: Vec<_> = live_of.collect();
                    if found.len() as u32 == writer.space.of(*victim).live {
                        live.extend(found);
                        continue;
                    }
                    by_look.push(*victim);
                }
                None => by_look.push(*victim),
            }
        }
        live.extend(self.look(writer, &by_look));
        live.sort_unstable();
        let pages = self.read_live(writer, &live);
        let mut plan = Plan::default();
        let mut places = self.place(writer, &mut plan, COLD, &pages)?;
        self.write_placed(writer, plan, COLD, &pages, &mut places)?;
        self.record_places(writer, &pages, &places);
        self.apply_places(writer, &pages, &places);
        writer.statistics.pages_copied += pages.len() as u64;
        writer.statistics.collections += victims.len() as u64;
        writer.change += 1;
        Ok(())
    }

    fn is_at(&self, ino: u64, index: u64, at: u64) -> bool {
        let Some(node) = self.inodes.get(ino) else { return false };
        let node = read(&node);
        node.content().is_some_and(|content| content.extents.get(index) == Some(at))
    }

    /// Whose the pages of a closed segment were when they were written.
    fn owners(&self, writer: &Writer, segment: u32) -> Option<Vec<Owner>> {
        let count = summary_pages(self.ground.segment_pages(), self.page_bytes);
        let written = self.ground.written(segment);
        let first = written.checked_sub(count)?;
        let mut found = None;
        let fetch = Fetch::new(0, segment, first, count, self.page_bytes);
        self.ground.read(vec![fetch], &mut |fetch, result| {
            let at = writer.space.place(segment, 0);
            found = result.and_then(|()| decode_summary(self.id, at, &fetch.pages)).ok();
        });
        found
    }

    /// Live pages of segments without a summary: looks at all files.
    fn look(&self, writer: &Writer, segments: &[u32]) -> Vec<(u64, u64, u64)> {
        let mut live = Vec::new();
        if segments.is_empty() {
            return live;
        }
        for (ino, node) in self.inodes.all() {
            let node = read(&node);
            let Some(content) = node.content() else { continue };
            for run in content.extents.iter().filter(|run| run.at != UNWRITTEN) {
                let of = |i: &u64| segments.contains(&writer.space.segment_of(run.at + i));
                let pages = (0..run.count).filter(of);
                live.extend(pages.map(|i| (ino, run.index + i, run.at + i)));
            }
        }
        live
    }

    /// Reads live pages side by side. A segment with pages that cannot be read is left alone.
    fn read_live(&self, writer: &mut Writer, live: &[(u64, u64, u64)]) -> Vec<Page> {
        let mut fetches = Vec::new();
        for (of, (_, _, at)) in live.iter().enumerate() {
            let (segment, first) = writer.space.split(*at);
            fetches.push(Fetch::new(of, segment, first, 1, self.page_bytes));
        }
        let mut read: BTreeMap<usize, Arc<[u8]>> = BTreeMap::new();
        let mut stuck: Vec<(u32, Error)> = Vec::new();
        self.ground.read(fetches, &mut |fetch, result| match result {
            Ok(()) => drop(read.insert(fetch.of, fetch.pages[..].into())),
            Err(error) => stuck.push((fetch.segment, error)),
        });
        for (segment, error) in stuck {
            log::warn!("a segment is not collected, a page of it cannot be read: {error}");
            writer.space.of(segment).is_stuck = true;
        }
        let page = |(of, bytes)| {
            let (ino, index, _) = live[of];
            Page { ino, index, bytes }
        };
        read.into_iter().map(page).collect()
    }
}
