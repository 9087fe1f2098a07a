//! Elements that are entries of their own, as a step sees and changes them.
//!
//! What the step has written lies over what the engine has. An iterator of the engine is made when
//! it is needed first, and again after a key was read: it never sees an object as it was before the
//! entry of its key was read, and if the object has changed since, so has that entry.

use super::overlaid::Overlaid;
use crate::known_counts::{KnownCounts, OfTrees};
use silica::engine::{Durability, Engine, EntryIter, EntryRef, Error, ErrorKind};
use silica::engine::{GetSink, KeyRange, Result, Update};
use silica_types::{Counts, Direction, PREFIX, PageId, Pages, is_inner, owner_of_entry};
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::sync::Arc;

/// Elements that are walked over at the cost of a page that is read.
const WALKED: usize = 16;
/// Entries of an engine without an order that are looked at in a step of a search for elements.
const SCANNED: usize = 1024;

/// What was written; `None` of what was removed.
type Written = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
/// Some of it, in the order of keys.
type Between<'w> = btree_map::Range<'w, Vec<u8>, Option<Vec<u8>>>;

/// What a step knows of elements.
pub(super) struct Elements<'e> {
    /// The engine behind the step, if it has an order and its elements may be entries.
    pub(super) whole: Option<&'e Arc<dyn Engine>>,
    /// The engine suits elements that are entries.
    pub(super) are_kept: bool,
    /// Elements above which those of a sorted set become entries.
    pub(super) above: Option<u64>,
    written: Written,
    iterator: Option<Box<dyn EntryIter>>,
    counts: Vec<((u64, usize), Counts)>,
    /// Some counts are not those that were known before.
    pub(super) has_news: bool,
}

impl<'e> Elements<'e> {
    pub(super) fn new(whole: Option<&'e Arc<dyn Engine>>, above: u64) -> Self {
        let suits = |engine: &&Arc<dyn Engine>| {
            let capabilities = engine.descriptor().capabilities;
            capabilities.ordered && capabilities.durable
        };
        let are_kept = whole.as_ref().is_some_and(suits);
        let above = (above > 0 && are_kept).then_some(above);
        let (written, iterator, counts) = Default::default();
        Elements { whole, are_kept, above, written, iterator, counts, has_news: false }
    }

    /// What was written, in the order of keys.
    pub(super) fn written(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.written.iter().map(|(key, value)| (&**key, value.as_deref()))
    }

    /// A key is read from now on: what was seen before may be older than it.
    pub(super) fn look_anew(&mut self) {
        self.iterator = None;
    }

    /// Forgets all about the object `id`.
    pub(super) fn forget(&mut self, id: u64) {
        self.written.retain(|key, _| owner_of_entry(key) != Some(id));
        self.counts.retain(|((own, _), _)| *own != id);
    }

    /// Takes over what is known of an object that was read.
    pub(super) fn load(&mut self, state: (u64, u64), known: &KnownCounts) {
        if self.counts.iter().all(|((id, _), _)| *id != state.0) {
            let counts = known.get(state).into_iter();
            self.counts.extend(counts.map(|(nth, counts)| ((state.0, nth), counts)));
        }
    }

    /// The counts of an object, as far as they are known.
    pub(super) fn of_object(&self, id: u64) -> OfTrees {
        let own = self.counts.iter().filter(|((own, _), _)| *own == id);
        own.map(|((_, nth), counts)| (*nth, counts.clone())).collect()
    }

    pub(super) fn take_counts(&mut self, tree: (u64, usize)) -> Option<Counts> {
        let at = self.counts.iter().position(|(own, _)| *own == tree)?;
        Some(self.counts.swap_remove(at).1)
    }

    pub(super) fn keep_counts(&mut self, tree: (u64, usize), counts: Counts, are_news: bool) {
        self.counts.push((tree, counts));
        self.has_news |= are_news;
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.written.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        let value = value.map(<[u8]>::to_vec);
        match self.written.get_mut(key) {
            Some(written) => *written = value,
            None => drop(self.written.insert(key.to_vec(), value)),
        }
    }

    /// What was written of a range, here and in a step that the engine is.
    fn with_held_back(&self, engine: &dyn Engine, range: (&[u8], &[u8])) -> Written {
        let mut changes = Written::new();
        engine.held_back(range, &mut |key, entry| {
            changes.insert(key.to_vec(), entry.map(|entry| entry.value.to_vec()));
        });
        let own = between(&self.written, range);
        changes.extend(own.map(|(key, value)| (key.clone(), value.clone())));
        changes
    }

    /// True if `engine` is the one behind the step, so that nothing is held back in front of it.
    fn is_whole(&self, engine: &dyn Engine) -> bool {
        self.whole.is_some_and(|whole| std::ptr::addr_eq(Arc::as_ptr(whole), engine))
    }
}

/// An iterator over all that is no key of a user: `known`, if there is one.
fn iterator<'i>(
    whole: Option<&Arc<dyn Engine>>,
    known: &'i mut Option<Box<dyn EntryIter>>,
) -> Result<Option<&'i mut Box<dyn EntryIter>>> {
    if known.is_none() {
        let Some(ordered) = whole.and_then(|engine| Arc::clone(engine).as_ordered()) else {
            return Ok(None);
        };
        *known = Some(ordered.snapshot()?.iterate(&KeyRange::prefix(&PREFIX))?);
    }
    Ok(known.as_mut())
}

fn between<'w>(written: &'w Written, (lower, upper): (&[u8], &[u8])) -> Between<'w> {
    written.range::<[u8], _>((Bound::Included(lower), Bound::Excluded(upper)))
}

/// Hears nothing of what is found.
struct Unheard;

impl GetSink for Unheard {
    fn found(&mut self, _: usize, _: EntryRef<'_>) {}
}

/// Where a walk is: what comes next of the changes and of the engine.
struct Merge<'m> {
    direction: Direction,
    next: Option<(&'m [u8], Option<&'m [u8]>)>,
    rest: Between<'m>,
    each: &'m mut dyn FnMut(&[u8], &[u8]) -> bool,
}

impl<'m> Merge<'m> {
    fn new(
        direction: Direction,
        rest: Between<'m>,
        each: &'m mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Self {
        let mut merge = Merge { direction, next: None, rest, each };
        merge.pass_change();
        merge
    }

    fn pass_change(&mut self) {
        let next = match self.direction {
            Direction::Forward => self.rest.next(),
            Direction::Backward => self.rest.next_back(),
        };
        self.next = next.map(|(key, value)| (&key[..], value.as_deref()));
    }

    fn comes_before(&self, own: &[u8], key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => own < key,
            Direction::Backward => own > key,
        }
    }

    /// Shows the changes before `key`, or all; false if no more is wanted.
    fn show_changes(&mut self, key: Option<&[u8]>) -> bool {
        while let Some((own, value)) = self.next
            && key.is_none_or(|key| self.comes_before(own, key))
        {
            self.pass_change();
            if value.is_some_and(|value| !(self.each)(own, value)) {
                return false;
            }
        }
        true
    }

    /// Shows an entry of the engine, and the changes before it; false if no more is wanted.
    fn show(&mut self, key: &[u8], value: &[u8]) -> bool {
        if !self.show_changes(Some(key)) {
            return false;
        }
        match self.next {
            Some((own, changed)) if own == key => {
                self.pass_change();
                changed.is_none_or(|value| (self.each)(key, value))
            }
            _ => (self.each)(key, value),
        }
    }
}

impl Overlaid<'_> {
    /// Waits until all is visible of the write that has left the entry of `key`, which was read and
    /// is the object `id`, whose elements are entries.
    ///
    /// An engine that publishes in order has shown the elements before that entry. Of others this
    /// asks, and the first page of the object is kept: with two entries to compare, they look
    /// whether what was read belongs together once a write that was seen in part is done.
    pub(super) fn settle_entries(&mut self, id: u64, key: &[u8]) -> Result<()> {
        if self.is_in_order() {
            return Ok(());
        }
        let first = PageId { object: id, number: 0 };
        self.get(first)?;
        let atomic = self.elements.whole.and_then(|engine| engine.as_atomic());
        // One that has taken another's place has all that was written to that one.
        let Some(atomic) = atomic.filter(|atomic| atomic.order_epoch().is_none()) else {
            return Ok(());
        };
        let keys: [&[u8]; 2] = [key, &first.key()];
        let keep = &mut |_: &[Option<EntryRef<'_>>]| vec![Update::Keep; 2];
        atomic.update_all(&keys, Durability::Buffered, keep)
    }

    /// Notes that elements are walked over, of which the first has the key `lower` or none has. A
    /// step in front of the engine compares what was read of it, and takes one entry that was read
    /// for a moment of its own: it reads a second one.
    fn note_walk(&mut self, lower: &[u8]) -> Result<()> {
        self.has_read = true;
        let is_whole = self.elements.is_whole(self.engine);
        if let Some(object) = owner_of_entry(lower).filter(|_| !is_whole) {
            let first = PageId { object, number: 0 }.key();
            self.engine.get_many(&[&first], &mut Unheard)?;
        }
        Ok(())
    }

    /// Walks over elements; see [`silica_types::Pages::walk_elements`].
    pub(super) fn walk(
        &mut self,
        (lower, upper): (&[u8], &[u8]),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if lower >= upper {
            return Ok(());
        }
        self.ask_for(1)?;
        self.note_walk(lower)?;
        let held = match self.elements.is_whole(self.engine) {
            true => None,
            false => Some(self.elements.with_held_back(self.engine, (lower, upper))),
        };
        let Elements { whole, written, iterator: known, .. } = &mut self.elements;
        let changes = between(held.as_ref().unwrap_or(written), (lower, upper));
        let mut merge = Merge::new(direction, changes, each);
        let Some(iterator) = iterator(*whole, known)? else {
            // A step in front of the engine has no entries to look at.
            let engine = whole.map_or(self.engine, |whole| &**whole);
            return walk_unordered(engine, (lower, upper), merge);
        };
        let mut is_there = match direction {
            Direction::Forward => iterator.seek(lower)?,
            Direction::Backward => iterator.seek_for_prev(upper)?,
        };
        if direction == Direction::Backward && is_there && iterator.key() == upper {
            is_there = iterator.prev()?;
        }
        let mut walked = 0;
        while is_there {
            let key = iterator.key();
            let is_inside = match direction {
                Direction::Forward => key < upper,
                Direction::Backward => key >= lower,
            };
            if !is_inside {
                break;
            }
            if !merge.show(key, iterator.entry().value) {
                return Ok(());
            }
            walked += 1;
            if walked % WALKED == 0
                && let Some(left) = &mut self.left
            {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    return Err(super::overlaid::takes_long());
                }
            }
            is_there = match direction {
                Direction::Forward => iterator.next()?,
                Direction::Backward => iterator.prev()?,
            };
        }
        merge.show_changes(None);
        Ok(())
    }
}

/// Walks over elements that have come, from elsewhere, to an engine without an order: by a look at
/// all that it has. Once such an object is changed, it has pages.
fn walk_unordered(
    engine: &dyn Engine,
    (lower, upper): (&[u8], &[u8]),
    mut merge: Merge<'_>,
) -> Result<()> {
    let Some(scan) = engine.as_scan() else {
        let text = "the elements of this sorted set are entries, which cannot be listed here";
        return Err(Error::new(ErrorKind::Unsupported, text));
    };
    let (mut found, mut next) = (BTreeMap::new(), Some(0));
    while let Some(cursor) = next {
        next = scan.scan(cursor, SCANNED, &mut |key, entry: EntryRef<'_>| {
            if is_inner(key) && key >= lower && key < upper {
                found.insert(key.to_vec(), entry.value.to_vec());
            }
        })?;
    }
    while let Some((key, value)) = match merge.direction {
        Direction::Forward => found.pop_first(),
        Direction::Backward => found.pop_last(),
    } {
        if !merge.show(&key, &value) {
            return Ok(());
        }
    }
    merge.show_changes(None);
    Ok(())
}
