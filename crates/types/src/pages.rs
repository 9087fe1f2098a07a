//! Where the pages of objects are.

use crate::counts::Counts;
use crate::indexed::Page;
use silica_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The first bytes of every key that is no key of a user: they name pages of objects.
pub const PREFIX: [u8; 4] = [0xFF, 0x51, 0xCA, 0x00];
/// Bytes of a page's key.
pub const KEY_BYTES: usize = PREFIX.len() + 16;
/// Bytes of a root that has the elements themselves, unless its pages say otherwise.
pub const FLAT_BYTES_USUAL: usize = 1024;
/// Bytes of such a root that pages may say.
pub const FLAT_BYTES_MAX: usize = 4096;

/// In the first byte behind an object's id: the key is that of an element and not of a page, whose
/// numbers stay below.
pub(crate) const ELEMENT_MARK: u8 = 0x80;

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first element to the last one.
    Forward,
    /// From the last element to the first one.
    Backward,
}

/// The name of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The object's id.
    pub object: u64,
    /// Its number among the object's.
    pub number: u64,
}

impl PageId {
    /// Its key in an engine.
    pub fn key(self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(&PREFIX);
        key[4..12].copy_from_slice(&self.object.to_be_bytes());
        key[12..].copy_from_slice(&self.number.to_be_bytes());
        key
    }

    /// The page whose key is `key`; `None` of a user's key.
    pub fn of_key(key: &[u8]) -> Option<PageId> {
        let is_page = |key: &&[u8; KEY_BYTES]| is_inner(&key[..]) && key[12] & ELEMENT_MARK == 0;
        let key: &[u8; KEY_BYTES] = key.try_into().ok().filter(is_page)?;
        let number = |at: usize| Some(u64::from_be_bytes(key[at..at + 8].try_into().ok()?));
        Some(PageId { object: number(4)?, number: number(12)? })
    }
}

/// True if `key` is no key of a user.
#[inline]
pub fn is_inner(key: &[u8]) -> bool {
    key.first() == Some(&PREFIX[0]) && key.starts_with(&PREFIX)
}

/// Which pages an object has given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Allocation {
    /// The name of its pages; 0 before the first one.
    pub(crate) id: u64,
    /// Pages that it has made so far, which is the number of the next.
    pub(crate) next: u64,
}

/// Pages of objects, to read and to change.
pub trait Pages {
    /// The bytes of `page`.
    ///
    /// # Errors
    /// Fails if it is not there, or cannot be read.
    fn get(&mut self, page: PageId) -> Result<Arc<Page>>;

    /// The bytes of `page`, to be changed and put back, or to be given back by
    /// [`Pages::put_back`].
    ///
    /// # Errors
    /// Those of [`Pages::get`].
    fn take(&mut self, page: PageId) -> Result<Arc<Page>> {
        self.get(page)
    }

    /// Stores `bytes` as `page`.
    fn put(&mut self, page: PageId, bytes: Arc<Page>);

    /// Gives the bytes of `page` back, which were taken and are as they were.
    fn put_back(&mut self, page: PageId, bytes: Arc<Page>) {
        self.put(page, bytes);
    }

    /// Removes `page`.
    fn remove(&mut self, page: PageId);

    /// An id that no object has, or had, pages by.
    ///
    /// # Errors
    /// Fails if none can be found.
    fn new_id(&mut self) -> Result<u64>;

    /// Bytes of a tree that lies in the value of its object's key as a whole, at most
    /// [`FLAT_BYTES_MAX`](crate::FLAT_BYTES_MAX).
    fn flat_bytes_max(&self) -> usize {
        FLAT_BYTES_USUAL
    }

    /// True if elements may stay entries: where keys have an order.
    fn keeps_entries(&self) -> bool {
        false
    }

    /// Elements above which those of a sorted set become entries of their own; `None` if they never
    /// do.
    fn entries_above(&self) -> Option<u64> {
        None
    }

    /// Bytes of the key of such an entry at most.
    fn entry_key_bytes_max(&self) -> usize {
        0
    }

    /// The value of the element whose entry has `key`.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    fn element(&mut self, _key: &[u8]) -> Result<Option<Vec<u8>>> {
        Err(without_elements())
    }

    /// Stores the value of the element whose entry has `key`, or removes the element. It `is_new`
    /// if it was not there before.
    fn put_element(&mut self, _key: &[u8], _value: Option<&[u8]>, _is_new: bool) {}

    /// Calls `each` with the keys and values of the elements' entries from a key on and below
    /// another one, in order or against it, until it returns false.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn walk_elements(
        &mut self,
        _range: (&[u8], &[u8]),
        _direction: Direction,
        _each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        Err(without_elements())
    }

    /// The counts of a tree of an object whose elements are entries, if they are known: to be given
    /// back by [`Pages::keep_counts`].
    fn take_counts(&mut self, _tree: (u64, usize)) -> Option<Counts> {
        None
    }

    /// Keeps the counts of a tree as it is now. Unless they are news, they are those that
    /// [`Pages::take_counts`] has given.
    fn keep_counts(&mut self, _tree: (u64, usize), _counts: Counts, _are_news: bool) {}
}

fn without_elements() -> Error {
    let text = "an object with its elements as entries is not read here";
    Error::new(ErrorKind::Unsupported, text)
}

/// Pages in memory alone.
#[derive(Debug, Default)]
pub struct MemoryPages {
    /// All of them.
    pub pages: BTreeMap<PageId, Arc<Page>>,
    /// Entries of elements.
    pub elements: BTreeMap<Vec<u8>, Vec<u8>>,
    /// [`Pages::entries_above`].
    pub entries_above: Option<u64>,
    /// [`Pages::entry_key_bytes_max`].
    pub entry_key_bytes_max: usize,
    counts: BTreeMap<(u64, usize), Counts>,
    ids: u64,
}

impl MemoryPages {
    /// Forgets the counts that are known.
    pub fn forget_counts(&mut self) {
        self.counts.clear();
    }
}

impl Pages for MemoryPages {
    fn get(&mut self, page: PageId) -> Result<Arc<Page>> {
        let missing = || Error::new(ErrorKind::Corruption, format!("{page:?} is not there"));
        self.pages.get(&page).cloned().ok_or_else(missing)
    }

    fn take(&mut self, page: PageId) -> Result<Arc<Page>> {
        let missing = || Error::new(ErrorKind::Corruption, format!("{page:?} is not there"));
        self.pages.remove(&page).ok_or_else(missing)
    }

    fn put(&mut self, page: PageId, bytes: Arc<Page>) {
        self.pages.insert(page, bytes);
    }

    fn remove(&mut self, page: PageId) {
        self.pages.remove(&page);
    }

    fn new_id(&mut self) -> Result<u64> {
        self.ids += 1;
        Ok(self.ids)
    }

    fn keeps_entries(&self) -> bool {
        self.entries_above.is_some()
    }

    fn entries_above(&self) -> Option<u64> {
        self.entries_above
    }

    fn entry_key_bytes_max(&self) -> usize {
        self.entry_key_bytes_max
    }

    fn element(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.elements.get(key).cloned())
    }

    fn put_element(&mut self, key: &[u8], value: Option<&[u8]>, is_new: bool) {
        let old = match value {
            Some(value) => self.elements.insert(key.to_vec(), value.to_vec()),
            None => self.elements.remove(key),
        };
        debug_assert_eq!(old.is_none(), is_new, "whoever changes an element knows of it");
    }

    fn walk_elements(
        &mut self,
        (from, end): (&[u8], &[u8]),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if from < end {
            let range =
                self.elements.range::<[u8], _>((Bound::Included(from), Bound::Excluded(end)));
            let mut wants = |(key, value): (&Vec<u8>, &Vec<u8>)| each(key, value);
            match direction {
                Direction::Forward => drop({ range }.all(&mut wants)),
                Direction::Backward => drop(range.rev().all(&mut wants)),
            }
        }
        Ok(())
    }

    fn take_counts(&mut self, tree: (u64, usize)) -> Option<Counts> {
        self.counts.remove(&tree)
    }

    fn keep_counts(&mut self, tree: (u64, usize), counts: Counts, _: bool) {
        self.counts.insert(tree, counts);
    }
}
