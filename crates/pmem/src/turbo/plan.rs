//! What an operation changes in which bucket. Nothing is stored here.
//!
//! A batch plans several changes of a bucket before it makes any. So there are two commit words:
//! the *current* one, under which readers look and whose slots must not be touched, and the
//! *planned* one, by which slots are given out. A slot is written only if neither has it in use.

use super::bucket::{Commit, Kind, State, TAGS, match_tags, slot_at, slot_sum};
use super::entry::Pointer;
use super::shards::Buckets;
use super::store::{Probe, Turbo};
use silica_base::Result;
use silica_device::region::Region;

/// What a slot is to hold.
pub(super) type Content = (Kind, [u64; 2]);

/// Commit words and sums that are planned already.
pub(super) trait View {
    /// Those of a bucket; `None` if nothing is planned for it.
    fn planned(&self, bucket: u64) -> Option<(Commit, u64)>;
    /// True if the second word of a slot in use may be replaced together with the commit word.
    const MAY_REPLACE: bool;
}

/// Nothing is planned.
pub(super) struct Unplanned;

impl View for Unplanned {
    #[inline(always)]
    fn planned(&self, _bucket: u64) -> Option<(Commit, u64)> {
        None
    }

    const MAY_REPLACE: bool = false;
}

/// A change of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) bucket: u64,
    /// Its commit word, sealed.
    pub(super) commit: Commit,
    pub(super) sum: u64,
    /// A slot that becomes one in use.
    pub(super) written: Option<(usize, [u64; 2])>,
    /// Buckets from a new key's home on that its search passes on its way to this one.
    pub(super) passed: u64,
    /// A word of a slot in use that is replaced: offset and new value.
    pub(super) replaced: Option<(u64, u64)>,
    /// The entry that no slot names any more.
    pub(super) freed: Option<Pointer>,
    /// How many more slots are in use, and deleted.
    pub(super) used: i32,
    pub(super) deleted: i32,
}

/// What an operation comes to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plan {
    Step(Step),
    /// The key to be deleted is not there.
    Nothing,
    /// No slot is free.
    NoRoom,
}

/// A bucket as a plan sees it.
#[derive(Clone, Copy)]
struct Seen {
    bucket: u64,
    current: Commit,
    planned: Commit,
    sum: u64,
}

impl Seen {
    /// The first slot of `slots` that is not in use for readers.
    #[inline(always)]
    fn usable(&self, slots: u64) -> Option<usize> {
        let usable = slots & !self.current.used();
        (usable != 0).then(|| usable.trailing_zeros() as usize)
    }

    fn step(&self, commit: Commit, sum: u64) -> Step {
        Step {
            bucket: self.bucket,
            commit: commit.sealed(sum),
            sum,
            written: None,
            passed: 0,
            replaced: None,
            freed: None,
            used: 0,
            deleted: 0,
        }
    }

    fn insert(&self, slot: usize, passed: u64, (kind, words): Content) -> Step {
        let sum = self.sum ^ slot_sum(slot, kind, words);
        let was_deleted = self.planned.state(slot) == State::Deleted;
        let step = self.step(self.planned.with(slot, State::Used(kind)), sum);
        let deleted = -i32::from(was_deleted);
        Step { written: Some((slot, words)), passed, used: 1, deleted, ..step }
    }

    fn delete(&self, slot: usize, old: [u64; 2]) -> Step {
        let kind = self.planned.kind(slot);
        // Searches end here anyway: no key beyond depends on the slot.
        let is_end = self.planned.is_path_end();
        let state = if is_end { State::Empty } else { State::Deleted };
        let step = self.step(self.planned.with(slot, state), self.sum ^ slot_sum(slot, kind, old));
        Step { freed: freed(kind, old), used: -1, deleted: i32::from(!is_end), ..step }
    }

    /// Near-place update; `None` if there is no slot for it.
    fn update(
        &self,
        slot: usize,
        old: [u64; 2],
        (kind, words): Content,
        may_replace: bool,
    ) -> Option<Step> {
        let old_kind = self.planned.kind(slot);
        let without = self.sum ^ slot_sum(slot, old_kind, old);
        let freed = freed(old_kind, old);
        let spare = self.usable(self.planned.empty()).map(|spare| (spare, State::Empty));
        let spare = spare
            .or_else(|| self.usable(self.planned.deleted()).map(|spare| (spare, State::Deleted)));
        if let Some((spare, left)) = spare {
            let commit = self.planned.with(slot, left).with(spare, State::Used(kind));
            let step = self.step(commit, without ^ slot_sum(spare, kind, words));
            return Some(Step { written: Some((spare, words)), freed, ..step });
        }
        if !may_replace || kind != old_kind || words[0] != old[0] {
            return None;
        }
        let step = self.step(self.planned, without ^ slot_sum(slot, kind, words));
        let replaced = Some((self.bucket + slot_at(slot) + 8, words[1]));
        Some(Step { replaced, freed, ..step })
    }
}

fn freed(kind: Kind, old: [u64; 2]) -> Option<Pointer> {
    (kind == Kind::Beside).then_some(Pointer(old[1]))
}

impl<R: Region> Turbo<R> {
    /// Plans a put of `content`, or a delete. Only for the holder of the shard's lock. A key comes
    /// once in what `view` has planned.
    #[inline]
    pub(super) fn plan<V: View>(
        &self,
        view: &V,
        buckets: Buckets,
        probe: &Probe<'_>,
        content: Option<Content>,
    ) -> Result<Plan> {
        let mut room: Option<(Seen, usize, u64)> = None;
        let mut is_absent = false;
        let mut number = match buckets.count {
            0 => 0,
            count => self.division.home(probe.hash, count),
        };
        for passed in 0..buckets.scope() {
            let seen = self.seen(view, buckets.at(number));
            if !is_absent && let Some((slot, old)) = self.find(&seen, probe)? {
                let step = match content {
                    None => Some(seen.delete(slot, old)),
                    Some(content) => seen.update(slot, old, content, V::MAY_REPLACE),
                };
                return Ok(step.map_or(Plan::NoRoom, Plan::Step));
            }
            if room.is_none() {
                let slot = seen.usable(seen.planned.deleted());
                room = slot.map(|slot| (seen, slot, passed));
            }
            if seen.planned.is_path_end() {
                let slot = || seen.usable(seen.planned.empty());
                room = room.or_else(|| slot().map(|slot| (seen, slot, passed)));
                break;
            }
            // From here on only room is looked for.
            is_absent = is_absent || !self.passed.may_have(seen.bucket, probe.hash);
            if is_absent && (content.is_none() || room.is_some()) {
                break;
            }
            number = buckets.after(number);
        }
        Ok(match (content, room) {
            (None, _) => Plan::Nothing,
            (Some(content), Some((seen, slot, passed))) => {
                Plan::Step(seen.insert(slot, passed, content))
            }
            (Some(_), None) => Plan::NoRoom,
        })
    }

    #[inline(always)]
    fn seen(&self, view: &impl View, bucket: u64) -> Seen {
        let current = Commit(self.region().word(bucket));
        let planned = view.planned(bucket);
        let (planned, sum) = planned.unwrap_or_else(|| (current, self.sum_of(bucket)));
        Seen { bucket, current, planned, sum }
    }

    /// The slot of the key in a bucket, and its words.
    #[inline(always)]
    fn find(&self, seen: &Seen, probe: &Probe<'_>) -> Result<Option<(usize, [u64; 2])>> {
        let region = self.region();
        let tags = [region.word(seen.bucket + TAGS), region.word(seen.bucket + TAGS + 8)];
        let mut candidates = match_tags(tags, probe.tag()) & seen.current.used();
        while candidates != 0 {
            let slot = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let words = self.slot_words(seen.bucket, slot);
            let kind = seen.current.kind(slot);
            if !probe.may_be(kind, words[0]) {
                continue;
            }
            if kind == Kind::Inline || self.is_key(Pointer(words[1]), probe.key)? {
                return Ok(Some((slot, words)));
            }
        }
        Ok(None)
    }

    fn is_key(&self, pointer: Pointer, key: &[u8]) -> Result<bool> {
        self.reader().has_key(pointer, key)
    }
}
