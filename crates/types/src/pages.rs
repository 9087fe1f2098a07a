//! Where the pages of objects are.

use crate::indexed::Page;
use silica_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first bytes of every key that is no key of a user: they name pages of objects.
pub const PREFIX: [u8; 4] = [0xFF, 0x51, 0xCA, 0x00];
/// Bytes of a page's key.
pub const KEY_BYTES: usize = PREFIX.len() + 16;
/// Bytes of a root that has the elements themselves, unless its pages say otherwise.
pub const FLAT_BYTES_USUAL: usize = 1024;
/// Bytes of such a root that pages may say.
pub const FLAT_BYTES_MAX: usize = 4096;

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
        let key: &[u8; KEY_BYTES] = key.try_into().ok().filter(|_| is_inner(key))?;
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
}

/// Pages in memory alone.
#[derive(Debug, Default)]
pub struct MemoryPages {
    /// All of them.
    pub pages: BTreeMap<PageId, Arc<Page>>,
    ids: u64,
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
}
