//! What a write does to one leaf, prepared so that one word, or a few that change together, make it
//! happen (sections 4.4.1, two-phase insertion, and 4.4.5).
//!
//! 1. A plan stores only where no reader and no later opening looks: in free slots, in objects that
//!    nothing names, and in the sum that does not hold yet. So it can be given up at any time.
//! 2. Bitmap and sum of a change of one key lie in one line and are stored together. If a crash
//!    leaves only one of them, the difference is that of one key, and the next opening finds it
//!    ([`Leaf::is_explained`]). Everything larger changes all its words by the region's redo.
//! 3. What a plan needs is allocated before any of its words is stored.
//! 4. Nobody else writes the leaf from the plan's making to its end: its maker holds the node's
//!    lock, or the tree's gate alone.
//! 5. New leaves are found only after the words are durable, the last one first: until all are, the
//!    keys between belong to a node whose lock is held.

pub(crate) mod direct;
pub(crate) mod rewrite;

use super::change::{Before, Change, Gathered, Target, make_slot, note_of};
use super::entry::Torn;
use super::history::Kept;
use super::key::Key;
use super::layout::{
    BITMAP, ENTRIES_MAX, HEAD_SUM, INLINE_KEY_BYTES, LEAF_BYTES, LOW_AT, LOW_HEAD, NEXT, PLAIN,
    SUM, Slot, TAGS, checked, head_sum, mark_of, sum_word, tag_of,
};
use super::leaf::{Leaf, low_sum, low_words};
use super::nodes::Node;
use super::tree::SpTree;
use crate::space::Change as WordChange;
use silica_base::{Error, ErrorKind, Result, shared_len};
use silica_device::region::Region;

/// Entries of a leaf that a split makes, at most; but a leaf behind all others is filled.
const SPLIT_FILL: usize = 44;

/// A leaf that nobody finds yet.
struct NewLeaf {
    low: Vec<u8>,
    node: u32,
    entries: u32,
}

/// See the module's documentation.
pub(crate) struct Plan {
    leaf: u64,
    old_bitmap: u64,
    bitmap: u64,
    old_sum: u32,
    sum: u32,
    old_mark: u32,
    /// Another one than before if the leaf gets what its buffer has.
    mark: u32,
    /// Entries that the buffer has more than the leaf, if the leaf gets them.
    buffered: i64,
    /// The next leaf's word, if it changes.
    next: Option<u64>,
    leaves: Vec<NewLeaf>,
    /// Hashes of the keys that the leaf gets, or of all that it has if `is_split`. The first needs
    /// no allocation: most plans have one.
    hash: Option<u64>,
    hashes: Vec<u64>,
    is_split: bool,
    /// Objects that are free when the plan has happened.
    stale: Vec<u64>,
    /// Objects that are free if it does not happen.
    made: Vec<u64>,
    /// What its keys were, if a snapshot is held.
    pub(crate) notes: Vec<(Vec<u8>, Option<Kept>)>,
}

/// Slots of a leaf that are being written.
struct Writer<'l, 's, R> {
    leaf: &'l Leaf<'s, R>,
    bitmap: u64,
    /// Slots that hold something now or later.
    taken: u64,
    sum: u32,
    /// Lines of slots that were written.
    lines: u16,
    plain: u64,
}

impl<'l, 's, R: Region> Writer<'l, 's, R> {
    fn new(leaf: &'l Leaf<'s, R>, bitmap: u64, sum: u32) -> Self {
        Writer { leaf, bitmap, taken: bitmap, sum, lines: 0, plain: leaf.word(PLAIN) }
    }

    fn remove(&mut self, at: usize, slot: &Slot) {
        self.bitmap &= !(1 << at);
        self.sum ^= slot.sum(self.leaf.space.store(), self.leaf.at, at);
    }

    /// Writes a slot where none was; false if there is no room.
    fn insert(&mut self, slot: &Slot) -> bool {
        let at = self.taken.trailing_ones() as usize;
        if at >= 64 {
            return false;
        }
        let (leaf, region) = (self.leaf, self.leaf.region());
        region.store(leaf.slot_at(at), slot.head);
        region.store(leaf.slot_at(at) + 8, slot.body);
        let (tags, shift) = (leaf.at + TAGS + (at as u64 & !7), 8 * (at as u32 % 8));
        region.store(tags, region.word(tags) & !(0xFF << shift) | u64::from(slot.tag) << shift);
        self.plain = self.plain & !(1 << at) | u64::from(slot.is_plain) << at;
        self.sum ^= slot.sum(leaf.space.store(), leaf.at, at);
        self.bitmap |= 1 << at;
        self.taken |= 1 << at;
        self.lines |= 1 << (at / 4);
        true
    }

    /// Begins to make everything durable that has to be before the bitmap.
    fn flush(&self) {
        let (leaf, region) = (self.leaf, self.leaf.region());
        for line in super::leaf::bits(u64::from(self.lines)) {
            region.flush(leaf.slot_at(4 * line), 64);
        }
        if self.lines != 0 {
            region.flush(leaf.at + TAGS, 64);
        }
        if leaf.word(PLAIN) != self.plain {
            region.store(leaf.at + PLAIN, self.plain);
            region.flush(leaf.at, 64);
        }
    }
}

/// Why a leaf cannot be changed where it is.
enum Obstacle {
    NoRoom,
    Failed(Error),
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Obstacle::Failed(error)
    }
}

impl Plan {
    /// Prepares `changes` of a checked leaf: different keys of its range, in order. What the leaf's
    /// buffer has goes to the leaf with them.
    ///
    /// # Errors
    /// `Full`, `Corruption`: nothing has happened.
    pub(crate) fn prepare<R: Region>(
        tree: &SpTree<R>,
        node: Node<'_>,
        changes: &[Change<'_>],
    ) -> Result<Plan> {
        let leaf = tree.leaf(node.leaf());
        let gathered = Gathered::of(tree, node).map_err(|torn| torn.error(tree.space.name()))?;
        let Some(gathered) = gathered else { return Self::of(&leaf).fill(tree, node, changes) };
        let (changes, stale) = gathered.with(changes);
        let mut plan = Plan::of(&leaf);
        (plan.mark, plan.buffered) = (tree.log.new_mark(), gathered.added);
        let mut plan = plan.fill(tree, node, &changes)?;
        plan.stale.extend(stale);
        Ok(plan)
    }

    /// Prepares `changes` in the leaf, or by splitting it if they have no room there.
    fn fill<R: Region>(
        mut self,
        tree: &SpTree<R>,
        node: Node<'_>,
        changes: &[Change<'_>],
    ) -> Result<Plan> {
        let leaf = tree.leaf(node.leaf());
        let (mark, buffered) = (self.mark, self.buffered);
        match self.change_in_place(tree, node, &leaf, changes) {
            Ok(()) => return Ok(self),
            Err(Obstacle::NoRoom) => self.give_up(tree),
            Err(Obstacle::Failed(error)) => {
                self.give_up(tree);
                return Err(error);
            }
        }
        let mut plan = Plan { mark, buffered, ..Plan::of(&leaf) };
        match plan.split(tree, &leaf, changes) {
            Ok(()) => Ok(plan),
            Err(error) => {
                plan.give_up(tree);
                Err(error)
            }
        }
    }

    fn of<R: Region>(leaf: &Leaf<'_, R>) -> Plan {
        let bitmap = leaf.bitmap();
        Plan {
            leaf: leaf.at,
            old_bitmap: bitmap,
            bitmap,
            old_sum: leaf.known_sum(),
            sum: leaf.known_sum(),
            old_mark: leaf.mark(),
            mark: leaf.mark(),
            buffered: 0,
            next: None,
            leaves: Vec::new(),
            hash: None,
            hashes: Vec::new(),
            is_split: false,
            stale: Vec::new(),
            made: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// True if nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.bitmap == self.old_bitmap && self.next.is_none() && self.mark == self.old_mark
    }

    /// True if the leaf is left with few entries.
    pub(crate) fn leaves_few(&self) -> bool {
        self.bitmap.count_ones() < self.old_bitmap.count_ones() && self.bitmap.count_ones() <= 16
    }

    fn change_in_place<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        node: Node<'_>,
        leaf: &Leaf<'_, R>,
        changes: &[Change<'_>],
    ) -> Result<(), Obstacle> {
        let mut writer = Writer::new(leaf, self.old_bitmap, self.old_sum);
        for change in changes {
            let tag = tag_of(change.hash);
            let may_be_there = !tree.config.has_filters || node.may_have(change.hash);
            let found = if may_be_there { leaf.find(change.key, tag) } else { Ok(None) };
            let found = found.map_err(|torn| torn.error(tree.space.name()))?;
            self.note(tree, leaf, change, found.as_ref())?;
            if !matches!(change.to, Target::Removed) {
                let has_room = writer.taken.count_ones() as usize <= ENTRIES_MAX
                    && (found.is_some() || (writer.bitmap.count_ones() as usize) < ENTRIES_MAX);
                if !has_room {
                    return Err(Obstacle::NoRoom);
                }
                let slot = self.slot_of(tree, change)?;
                if !slot.is_none_or(|slot| writer.insert(&slot)) {
                    return Err(Obstacle::NoRoom);
                }
                self.add_hash(change.hash);
            }
            if let Some((at, slot)) = found {
                writer.remove(at, &slot);
                self.stale.extend(slot.beside_at());
            }
        }
        if writer.bitmap != self.old_bitmap {
            writer.flush();
        }
        (self.bitmap, self.sum) = (writer.bitmap, writer.sum);
        Ok(())
    }

    /// The slot of a key from here on, whose entry is stored beside the leaf if it has to; `None`
    /// if the key is removed.
    fn slot_of<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        change: &Change<'_>,
    ) -> Result<Option<Slot>> {
        let entry = match &change.to {
            Target::Removed => return Ok(None),
            Target::Slot(slot) => return Ok(Some(*slot)),
            Target::Entry(entry) => entry,
        };
        let slot = make_slot(tree, change.key, entry, change.hash)?;
        self.made.extend(slot.beside_at());
        Ok(Some(slot))
    }

    fn add_hash(&mut self, hash: u64) {
        match self.hash {
            None => self.hash = Some(hash),
            Some(_) => self.hashes.push(hash),
        }
    }

    /// Notes what a key was, if a snapshot is held.
    fn note<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        leaf: &Leaf<'_, R>,
        change: &Change<'_>,
        found: Option<&(usize, Slot)>,
    ) -> Result<()> {
        let before = match change.before {
            Before::Same => return Ok(()),
            Before::InLeaf => found.map(|(_, slot)| *slot),
            Before::Buffered(slot) => slot,
        };
        self.notes.extend(note_of(tree, leaf, change.key, before)?);
        Ok(())
    }

    /// The leaf keeps its first entries, as far as they are in it or have room, and new leaves get
    /// the others.
    fn split<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        leaf: &Leaf<'_, R>,
        changes: &[Change<'_>],
    ) -> Result<()> {
        let torn = |torn: Torn| torn.error(tree.space.name());
        let next = leaf.next().map_err(torn)?;
        let (items, old_last) = self.merge(tree, leaf, changes)?;
        let free = leaf.region().word(leaf.at + BITMAP).count_zeros() as usize;
        let pieces = pieces(&items, old_last, free);
        let (kept, rest) = items.split_at(pieces[0]);
        let mut writer = Writer::new(leaf, self.old_bitmap, self.old_sum);
        let mut stays = 0;
        for item in kept {
            match item.old {
                Some(at) => stays |= 1 << at,
                None => assert!(writer.insert(&item.slot), "there is room for these"),
            }
            self.add_hash(item.hash);
        }
        for at in super::leaf::bits(self.old_bitmap & !stays) {
            writer.remove(at, &leaf.slot(at));
        }
        let mut next = next.unwrap_or(0);
        let mut end = items.len();
        for len in pieces[1..].iter().rev() {
            let start = end - len;
            let own = &rest[start - kept.len()..end - kept.len()];
            next = self.make_leaf(tree, &items[start - 1].key, own, next)?;
            end = start;
        }
        writer.flush();
        (self.bitmap, self.sum) = (writer.bitmap, writer.sum);
        self.next = Some(checked(tree.space.store(), leaf.at + NEXT, next));
        self.is_split = true;
        Ok(())
    }

    /// What the leaf would have after the changes, in order, and how many of its own entries come
    /// before all others.
    fn merge<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        leaf: &Leaf<'_, R>,
        changes: &[Change<'_>],
    ) -> Result<(Vec<Item>, usize)> {
        let torn = |torn: Torn| torn.error(tree.space.name());
        let mut items = Vec::with_capacity(64 + changes.len());
        let (mut changes_left, mut key) = (changes, Vec::new());
        let mut take_before = |plan: &mut Plan, items: &mut Vec<Item>, key: Option<&[u8]>| {
            while let Some((change, rest)) = changes_left.split_first()
                && key.is_none_or(|key| change.key < key)
            {
                changes_left = rest;
                plan.note(tree, leaf, change, None)?;
                plan.push_new(tree, items, change)?;
            }
            let same = changes_left.first().filter(|change| Some(change.key) == key);
            if same.is_some() {
                changes_left = &changes_left[1..];
            }
            Ok::<_, Error>(same)
        };
        for at in leaf.ordered(self.old_bitmap).map_err(torn)?.0.slots() {
            let at = usize::from(*at);
            let slot = leaf.slot(at);
            key.clear();
            leaf.read_key(at, &slot, &mut key).map_err(torn)?;
            let same = take_before(self, &mut items, Some(&key))?;
            if let Some(change) = same {
                self.note(tree, leaf, change, Some(&(at, slot)))?;
                self.stale.extend(slot.beside_at());
                self.push_new(tree, &mut items, change)?;
            } else {
                let hash = tree.hash(&key);
                items.push(Item { key: key[..].into(), hash, slot, old: Some(at) });
            }
        }
        take_before(self, &mut items, None)?;
        let first_new = items.iter().position(|item| item.old.is_none()).unwrap_or(items.len());
        Ok((items, first_new))
    }

    fn push_new<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        items: &mut Vec<Item>,
        change: &Change<'_>,
    ) -> Result<()> {
        if let Some(slot) = self.slot_of(tree, change)? {
            items.push(Item { key: change.key.into(), hash: change.hash, slot, old: None });
        }
        Ok(())
    }

    /// Makes a leaf of `items`, which come behind the key `before`. Where it lies.
    fn make_leaf<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        before: &[u8],
        items: &[Item],
        next: u64,
    ) -> Result<u64> {
        // The shortest key that tells the leaves apart.
        let first = &items[0].key;
        let low = first[..first.len().min(shared_len(before, first) + 1)].to_vec();
        let slots: Vec<Slot> = items.iter().map(|item| item.slot).collect();
        let at = write_leaf(tree, &low, &slots, next, &mut self.made)?;
        let node = tree.nodes.make(at, false).ok_or_else(too_many_leaves)?;
        let new = tree.nodes.get(node);
        items.iter().for_each(|item| new.add(item.hash));
        self.leaves.push(NewLeaf { low, node, entries: items.len() as u32 });
        Ok(at)
    }

    /// The words that make the plan happen.
    pub(crate) fn words(&self, store: u64, into: &mut Vec<WordChange>) {
        if self.bitmap != self.old_bitmap {
            into.push(WordChange { offset: self.leaf + BITMAP, new: self.bitmap });
        }
        if self.bitmap != self.old_bitmap || self.mark != self.old_mark {
            let new = sum_word(store, self.leaf, self.sum, self.mark);
            into.push(WordChange { offset: self.leaf + SUM, new });
        }
        if let Some(next) = self.next {
            into.push(WordChange { offset: self.leaf + NEXT, new: next });
        }
    }

    /// Makes the plan of one key happen, and all that it prepared durable before.
    ///
    /// # Errors
    /// Those of [`crate::space::Space::commit`].
    pub(crate) fn commit<R: Region>(&self, tree: &SpTree<R>) -> Result<()> {
        let store = tree.space.store();
        if self.next.is_some() || self.mark != self.old_mark {
            let mut words = Vec::new();
            self.words(store, &mut words);
            return tree.space.commit(&words);
        }
        let word = sum_word(store, self.leaf, self.sum, self.mark);
        commit_one(tree.space.region(), self.leaf, self.bitmap, word)
    }

    /// True if its words are what it wanted them to be.
    pub(crate) fn has_happened<R: Region>(&self, tree: &SpTree<R>) -> bool {
        let word = |offset| tree.space.region().load(self.leaf + offset);
        word(BITMAP) == self.bitmap
            && mark_of(word(SUM)) == self.mark
            && self.next.is_none_or(|next| word(NEXT) == next)
    }

    /// Brings filters before a plan's bits are seen. Only for the holder of the node's lock.
    pub(crate) fn prepare_filter(&self, node: Node<'_>) {
        self.hash.iter().chain(&self.hashes).for_each(|hash| node.add(*hash));
    }

    /// What is in memory follows: the words are as they should be. The caller still holds the lock;
    /// it frees what is returned after it has unlocked.
    pub(crate) fn finish<R: Region>(self, tree: &SpTree<R>, node: Node<'_>) -> Vec<u64> {
        if self.is_split {
            tree.counts.add(|counts| &counts.splits, self.leaves.len() as u64);
            // New leaves were made from the last to the first.
            for leaf in &self.leaves {
                tree.top.insert(&leaf.low, leaf.node);
            }
            node.clear_filter();
            self.hash.iter().chain(&self.hashes).for_each(|hash| node.add(*hash));
        }
        if self.mark != self.old_mark {
            tree.buffers.get(node.buffer()).reset(self.mark);
            tree.counts.add(|counts| &counts.buffer_merges, 1);
        }
        self.stale
    }

    /// Entries more than before, in leaf and buffer.
    pub(crate) fn added(&self) -> i64 {
        let in_new: u32 = self.leaves.iter().map(|leaf| leaf.entries).sum();
        let before = i64::from(self.old_bitmap.count_ones()) + self.buffered;
        i64::from(self.bitmap.count_ones() + in_new) - before
    }

    /// Frees what was prepared, of which nothing has happened.
    pub(crate) fn give_up<R: Region>(&self, tree: &SpTree<R>) {
        self.made.iter().for_each(|at| tree.space.free(*at));
        self.leaves.iter().for_each(|leaf| tree.nodes.free(leaf.node));
    }
}

/// Makes a change of one key of the leaf at `leaf` happen, behind all that was flushed for it.
#[inline]
fn commit_one<R: Region>(region: &R, leaf: u64, bitmap: u64, sum_word: u64) -> Result<()> {
    region.fence()?;
    region.store(leaf + SUM, sum_word);
    region.store(leaf + BITMAP, bitmap);
    region.flush(leaf, 64);
    region.fence()
}

/// The entries of a leaf in free slots of another one.
pub(crate) struct Fold {
    /// The other leaf's bitmap with them.
    pub(crate) bitmap: u64,
    /// Its sum with them.
    pub(crate) sum: u32,
}

impl Fold {
    /// Writes `slots` to free slots of `leaf`.
    pub(crate) fn prepare<R: Region>(leaf: &Leaf<'_, R>, slots: &[Slot]) -> Fold {
        let mut writer = Writer::new(leaf, leaf.bitmap(), leaf.known_sum());
        slots.iter().for_each(|slot| assert!(writer.insert(slot), "there is room for these"));
        writer.flush();
        Fold { bitmap: writer.bitmap, sum: writer.sum }
    }
}

/// An entry of a leaf that is split.
struct Item {
    key: Key,
    hash: u64,
    slot: Slot,
    /// Its slot, if it is in the leaf already.
    old: Option<usize>,
}

/// How many items each leaf gets. The first has at most `free` new ones among its own.
fn pieces(items: &[Item], first_new: usize, free: usize) -> Vec<usize> {
    let len = items.len();
    let new_comes_last = items[first_new..].iter().all(|item| item.old.is_none());
    let mut pieces = Vec::new();
    let first = if new_comes_last && first_new > 0 && first_new <= ENTRIES_MAX {
        // Keys that come in order fill their leaves.
        first_new
    } else {
        let count = len.div_ceil(SPLIT_FILL).max(2);
        let fair = len.div_ceil(count);
        let mut new = 0;
        let fits = items[..fair].iter().take_while(|item| {
            new += usize::from(item.old.is_none());
            new <= free
        });
        fits.count()
    };
    pieces.push(first);
    let rest = len - first;
    let count = rest.div_ceil(SPLIT_FILL).max(1);
    let (fair, more) = (rest / count, rest % count);
    pieces.extend((0..count).map(|at| fair + usize::from(at < more)).filter(|len| *len > 0));
    pieces
}

pub(crate) fn too_many_leaves() -> Error {
    let message = "the store has as many leaves as there are numbers for; divide it into keyspaces";
    Error::new(ErrorKind::Full, message)
}

/// Writes a leaf that nothing names yet and begins to make it durable. Where it lies; what was
/// allocated for it goes to `made`.
pub(crate) fn write_leaf<R: Region>(
    tree: &SpTree<R>,
    low: &[u8],
    slots: &[Slot],
    next: u64,
    made: &mut Vec<u64>,
) -> Result<u64> {
    let mark = if tree.log.is_used() { tree.log.new_mark() } else { 0 };
    write_marked_leaf(&tree.space, (low, slots, next), mark, made)
}

/// As [`write_leaf`], of lowest key, slots and next leaf, with this mark.
pub(crate) fn write_marked_leaf<R: Region>(
    space: &crate::space::Space<R>,
    (low, slots, next): (&[u8], &[Slot], u64),
    mark: u32,
    made: &mut Vec<u64>,
) -> Result<u64> {
    let region = space.region();
    let at = space.allocate(LEAF_BYTES)?;
    made.push(at);
    let mut low_at = 0;
    if low.len() > INLINE_KEY_BYTES {
        low_at = space.allocate(8 + low.len() as u64)?;
        made.push(low_at);
        region.store(low_at, u64::from(low_sum(space.store(), low_at, low)));
        region.write(low_at + 8, low);
        region.flush(low_at, 8 + low.len() as u64);
    }
    (0..LEAF_BYTES).step_by(8).for_each(|offset| region.store(at + offset, 0));
    let leaf = Leaf::new(space, at);
    let mut writer = Writer::new(&leaf, 0, 0);
    slots.iter().for_each(|slot| assert!(writer.insert(slot), "a leaf has room for these"));
    if slots.last().is_none_or(|slot| slot.is_plain) {
        // Entries to come are mostly like those that are there: a put whose slot has its plain bit
        // already flushes a line less, which waits for the line's next store.
        writer.plain |= !writer.bitmap;
    }
    let (low_head, low_at) = low_words(low, low_at);
    let head_sum = head_sum(space.store(), at, low_head, low_at);
    let words = [
        (BITMAP, writer.bitmap),
        (SUM, sum_word(space.store(), at, writer.sum, mark)),
        (PLAIN, writer.plain),
        (NEXT, checked(space.store(), at + NEXT, next)),
        (LOW_HEAD, low_head),
        (LOW_AT, low_at),
        (HEAD_SUM, head_sum),
    ];
    words.iter().for_each(|(offset, word)| region.store(at + offset, *word));
    region.flush(at, LEAF_BYTES);
    Ok(at)
}
