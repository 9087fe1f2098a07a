//! What a partition consists of besides the words of its index and its log.

use crate::family::Spaces;
use crate::partition::{Counts, Partition, Tally};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

impl Counts {
    /// Those that say what there is, not what happened.
    fn kept(&self) -> [&Tally; 4] {
        [&self.entries, &self.live_words, &self.clean_next, &self.clean_due]
    }
}

/// The words of index and log that an image has.
fn words(partition: &Partition) -> impl Iterator<Item = &AtomicU64> {
    partition.index().state().into_iter().chain(partition.log().state())
}

/// Everything besides the words of index and log, of a partition that nobody writes. `has_lists`
/// says whether the cache has ever had a large value.
pub(super) fn of(partition: &Partition, has_lists: bool) -> Vec<u64> {
    let counts = partition.counts.kept().map(Tally::get);
    let mut state = counts.to_vec();
    state.extend(partition.spaces().into_iter().flat_map(Spaces::get));
    state.extend(words(partition).map(|word| word.load(Relaxed)));
    if partition.is_store() {
        state.extend(partition.expiry().state().map(|word| word.load(Relaxed)));
        state.extend(partition.store().state());
    }
    state.extend(has_lists.then(|| partition.counts.chunks.get()));
    state
}

/// Takes over what [`of`] said of a partition of the same layout; false where that was something
/// else.
pub(super) fn take_over(partition: &Partition, state: &[u64], has_lists: bool) -> bool {
    let (chunks, state) = match (has_lists, state) {
        (true, [state @ .., chunks]) => (*chunks, state),
        (true, []) => return false,
        (false, _) => (0, state),
    };
    partition.counts.chunks.set(chunks);
    let Some((counts, state)) = state.split_first_chunk() else { return false };
    let kept: [&Tally; 4] = partition.counts.kept();
    let counts: &[u64; 4] = counts;
    kept.iter().zip(counts).for_each(|(to, from)| to.set(*from));
    let mut state = state;
    if let Some(spaces) = partition.spaces() {
        let Some((entries, rest)) = state.split_first_chunk() else { return false };
        spaces.set(entries);
        state = rest;
    }
    let Some((own, state)) = state.split_at_checked(words(partition).count()) else { return false };
    words(partition).zip(own).for_each(|(to, from)| to.store(*from, Relaxed));
    if !partition.is_store() {
        // The first pass finds out.
        partition.expiry().forget();
        return state.is_empty();
    }
    let Some((expiry, state)) = state.split_first_chunk::<3>() else { return false };
    partition.expiry().state().iter().zip(expiry).for_each(|(to, from)| to.store(*from, Relaxed));
    partition.store().set_state(state)
}
