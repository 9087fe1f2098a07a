//! The region's copy of the top layer (sections 4.4.1 and 4.4.6): which leaves an opening begins
//! with. docs/formats/sptree.md, "Copy of the top layer".
//!
//! The copy is a set of *anchors*: words that name one leaf in [`SPACING`] or so. An opening serves
//! from them at once, and finds the leaves between two of them by the links when somebody comes
//! there (`unfold.rs`).
//!
//! Invariants:
//!
//! 1. A word of the copy that is whole names a leaf of the list. So the copy is never stale: a leaf
//!    leaves the list only after its word was stored as 0 and flushed, before the fence that the
//!    change of the list waits for.
//! 2. The copy may lack any leaf: what it lacks costs an opening a longer way along the links.
//! 3. Whoever adds or retracts a leaf holds the lock of its node.
//! 4. A piece is zero durably before the root lists it. The list becomes empty with the change that
//!    clears the store.

use super::layout::{checked, unchecked};
use super::leaf::is_possible;
use crate::space::{Change, PAGE_BYTES, ROOT, Space};
use silica_base::{ErrorKind, Result};
use silica_device::region::Region;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Leaves from one anchor to the next. A word of 8 bytes for 16 leaves is 0.04 % of their bytes,
/// and a way along 16 links takes some 5 µs.
pub(crate) const SPACING: u64 = 16;
/// Where the root lists the pieces. Piece *n* has 2^*n* pages.
const PIECES: u64 = ROOT + 64 + 256 * 8;
const PIECES_MAX: usize = 24;
/// A pass over all leaves waits until this share of them was made since the last pass.
const PASS_SHARE: u64 = 16;

#[derive(Default)]
struct Book {
    pieces: Vec<u64>,
    /// The word of each leaf that the copy names.
    words: BTreeMap<u64, u64>,
    /// Words that name nothing.
    free: BTreeSet<u64>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Anchors {
    book: Mutex<Book>,
    /// Leaves that the copy lacks since the last pass, besides those that splits made.
    lacking: AtomicU64,
    /// Leaves made by splits when the last pass began.
    splits: AtomicU64,
}

fn piece_bytes(number: usize) -> u64 {
    PAGE_BYTES << number
}

fn listed_at(number: usize) -> u64 {
    PIECES + 8 * number as u64
}

impl Book {
    fn add_piece(&mut self, at: u64) {
        let number = self.pieces.len();
        self.free.extend((at..at + piece_bytes(number)).step_by(8));
        self.pieces.push(at);
    }
}

impl Anchors {
    /// Reads the copy; of a list of pieces that is damaged, nothing is believed, and it goes.
    ///
    /// # Errors
    /// Those of a fence, and `Corruption` if a piece is no object.
    pub(crate) fn open<R: Region>(space: &Space<R>) -> Result<Anchors> {
        let (region, mut book) = (space.region(), Book::default());
        let words = (0..PIECES_MAX).map(|number| region.load(listed_at(number)));
        for word in words.take_while(|word| *word != 0).collect::<Vec<_>>() {
            let number = book.pieces.len();
            let page = unchecked(space.store(), listed_at(number), word);
            let at = page.and_then(|page| page.checked_mul(PAGE_BYTES));
            let ends_at = |at: u64| at.checked_add(piece_bytes(number));
            let Some(at) = at.filter(|at| ends_at(*at).is_some_and(|end| end <= region.len()))
            else {
                log::warn!("{}: the copy of the top layer is damaged and made anew", space.name());
                drop_all(space)?;
                return Ok(Anchors::default());
            };
            book.add_piece(at);
        }
        if space.is_marking() {
            space.mark(&book.pieces)?;
        }
        for word_at in book.free.clone() {
            let word = region.load(word_at);
            let leaf = unchecked(space.store(), word_at, word).filter(|leaf| *leaf != 0);
            let leaf = leaf.filter(|leaf| is_possible(region, *leaf));
            // A word that is damaged names nothing, and a second word of a leaf is of no use.
            if let Some(leaf) = leaf.filter(|leaf| !book.words.contains_key(leaf)) {
                book.free.remove(&word_at);
                book.words.insert(leaf, word_at);
            } else if word != 0 {
                region.store(word_at, 0);
                region.flush(word_at, 8);
            }
        }
        Ok(Anchors { book: Mutex::new(book), ..Anchors::default() })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no panic while locked")
    }

    /// The leaves that the copy names.
    pub(crate) fn leaves(&self) -> Vec<u64> {
        self.book().words.keys().copied().collect()
    }

    /// True if the copy has a place in the region.
    pub(crate) fn is_used(&self) -> bool {
        !self.book().pieces.is_empty()
    }

    /// Drops what does not name one of `leaves`, which are sorted: an opening has walked all links.
    pub(crate) fn retain<R: Region>(&self, space: &Space<R>, leaves: &[u64]) {
        let strays: Vec<u64> = self.leaves();
        let strays = strays.into_iter().filter(|leaf| leaves.binary_search(leaf).is_err());
        strays.for_each(|leaf| self.retract(space, leaf));
        self.lacking.store(leaves.len() as u64, Ordering::Relaxed);
    }

    /// True if the copy names this leaf.
    pub(crate) fn has(&self, leaf: u64) -> bool {
        self.book().words.contains_key(&leaf)
    }

    /// The copy names a leaf of the list no more. Its word is durable as 0 at this thread's next
    /// fence. By the holder of the leaf's node.
    pub(crate) fn retract<R: Region>(&self, space: &Space<R>, leaf: u64) {
        let mut book = self.book();
        let Some(word_at) = book.words.remove(&leaf) else { return };
        space.region().store(word_at, 0);
        space.region().flush(word_at, 8);
        book.free.insert(word_at);
        self.lacking.fetch_add(1, Ordering::Relaxed);
    }

    /// Names a leaf of the list, durably; false if the region has no room for that. By the holder
    /// of the leaf's node, who holds the gate. `upgrade` are changes that come with a first piece.
    ///
    /// # Errors
    /// Those of a fence.
    pub(crate) fn add<R: Region>(
        &self,
        space: &Space<R>,
        leaf: u64,
        upgrade: impl FnOnce() -> Vec<Change>,
    ) -> Result<bool> {
        let mut book = self.book();
        if book.free.is_empty() && !add_piece(space, &mut book, upgrade)? {
            return Ok(false);
        }
        let word_at = book.free.pop_first().expect("a word of a piece");
        book.words.insert(leaf, word_at);
        let region = space.region();
        region.store(word_at, checked(space.store(), word_at, leaf));
        region.flush(word_at, 8);
        region.fence()?;
        Ok(true)
    }

    /// The changes that empty the copy with those that clear the store.
    pub(crate) fn clearing(&self) -> Vec<Change> {
        let count = self.book().pieces.len();
        (0..count).map(|number| Change { offset: listed_at(number), new: 0 }).collect()
    }

    /// The store was cleared: the pieces, which are the caller's to free.
    pub(crate) fn cleared(&self) -> Vec<u64> {
        std::mem::take(&mut *self.book()).pieces
    }

    /// True if a pass over the leaves is worth it: of so many `leaves`, splits made `splits` ever.
    pub(crate) fn is_due(&self, leaves: u64, splits: u64) -> bool {
        self.missing(splits) > SPACING + leaves / PASS_SHARE
    }

    /// Leaves that came since the last pass.
    pub(crate) fn missing(&self, splits: u64) -> u64 {
        let since = splits.wrapping_sub(self.splits.load(Ordering::Relaxed));
        self.lacking.load(Ordering::Relaxed) + since
    }

    /// A pass over all leaves begins.
    pub(crate) fn begin_pass(&self, splits: u64) {
        self.lacking.store(0, Ordering::Relaxed);
        self.splits.store(splits, Ordering::Relaxed);
    }

    /// Bytes of the copy in the region.
    pub(crate) fn region_bytes(&self) -> u64 {
        (0..self.book().pieces.len()).map(piece_bytes).sum()
    }

    /// Bytes of memory: some 48 for each leaf that is named, and 24 for a free word.
    pub(crate) fn bytes(&self) -> u64 {
        let book = self.book();
        book.words.len() as u64 * 48 + book.free.len() as u64 * 24
    }
}

/// Adds a piece that is zero to the list; false if the region has no room for it.
fn add_piece<R: Region>(
    space: &Space<R>,
    book: &mut Book,
    upgrade: impl FnOnce() -> Vec<Change>,
) -> Result<bool> {
    let number = book.pieces.len();
    if number == PIECES_MAX {
        return Ok(false);
    }
    let bytes = piece_bytes(number);
    let at = match space.allocate(bytes) {
        Ok(at) => at,
        Err(error) if error.kind() == ErrorKind::Full => return Ok(false),
        Err(error) => return Err(error),
    };
    let region = space.region();
    (at..at + bytes).step_by(8).for_each(|word_at| region.store(word_at, 0));
    region.flush(at, bytes);
    region.fence()?;
    let new = checked(space.store(), listed_at(number), at / PAGE_BYTES);
    let mut changes = upgrade();
    changes.push(Change { offset: listed_at(number), new });
    space.commit(&changes)?;
    book.add_piece(at);
    Ok(true)
}

/// Empties the list of pieces.
fn drop_all<R: Region>(space: &Space<R>) -> Result<()> {
    let all = (0..PIECES_MAX).map(|number| Change { offset: listed_at(number), new: 0 });
    space.commit(&all.collect::<Vec<_>>())
}
