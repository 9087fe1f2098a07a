//! The pages that a step has read, and how it has changed them.

use super::elements::Elements;
use super::{ASKED_MAX, PAGES_BYTES_KEPT, SLOT_BYTES};
use crate::budget::out_of_memory;
use silica::engine::{Engine, EntryRef, Error, ErrorKind, GetSink, Result};
use silica_base::Prng;
use silica_types::{
    Counts, Direction, FLAT_BYTES_MAX, FLAT_BYTES_USUAL, KEY_BYTES, Page, PageId, Pages,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Bytes for which a page has room when it was read: those of an element.
pub(super) const ELEMENT_BYTES_USUAL: usize = 128;

/// Memory of an element that was written beside its bytes.
const ELEMENT_BYTES: usize = 64;

/// Pages of a step for which there is room once it has one.
const PAGES_USUAL: usize = 48;

thread_local! {
    /// Seeds of the steps of this thread: one call of the system for all of them.
    static SEEDS: RefCell<Option<Prng>> = const { RefCell::new(None) };
}

/// The seed of a step.
fn seed(now_ms: u64) -> u64 {
    SEEDS.with_borrow_mut(|seeds| {
        let first = || Prng::new(getrandom::u64().unwrap_or(now_ms));
        seeds.get_or_insert_with(first).next_u64()
    })
}

/// A page.
#[derive(Debug)]
pub(super) struct PageSlot {
    key: [u8; KEY_BYTES],
    /// `None` if it is removed, or somebody works on it.
    pub(super) bytes: Option<Arc<Page>>,
    /// What the engine had, if it was read and is compared later.
    seen: Option<Arc<Page>>,
    is_changed: bool,
}

impl PageSlot {
    fn new(page: PageId, bytes: Option<Arc<Page>>) -> Self {
        PageSlot { key: page.key(), bytes, seen: None, is_changed: false }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// What is compared when the step is written.
    pub(super) fn seen(&self) -> Option<EntryRef<'_>> {
        self.seen.as_ref().map(|seen| EntryRef::new(seen))
    }

    /// What is written: new bytes, or nothing for a page that is removed. `None` if the engine has
    /// these bytes already.
    pub(super) fn written(&self) -> Option<Option<&[u8]>> {
        match (&self.bytes, &self.seen) {
            _ if !self.is_changed => None,
            (Some(bytes), Some(seen)) if bytes == seen => None,
            (bytes, _) => Some(bytes.as_ref().map(|bytes| &***bytes)),
        }
    }
}

/// Hashes names of pages, of which one part is random.
#[derive(Debug, Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

type PageSlots = HashMap<PageId, PageSlot, BuildHasherDefault<PageHasher>>;

/// Pages of an engine as a step sees and changes them.
pub(crate) struct Overlaid<'e> {
    pub(super) engine: &'e dyn Engine,
    pages: PageSlots,
    /// Elements that are entries of their own.
    pub(super) elements: Elements<'e>,
    held_bytes: usize,
    bytes_max: usize,
    flat_bytes_max: usize,
    /// There is one if the engine lets readers find the pages that an entry refers to: then no
    /// page is compared whose object's entry is what it was.
    order_epoch: Option<u64>,
    /// A page was read from the engine.
    pub(super) has_read: bool,
    /// Pages that are new, less those that are removed.
    pub(super) made: i64,
    /// A page that is not there.
    pub(super) lost: Option<PageId>,
    /// The running command may change something: what it reads is kept.
    pub(super) writes: bool,
    /// Pages and keys that the running command may still ask for, if there is a limit.
    pub(super) left: Option<usize>,
    /// The id that was given last to the running command; 0 if none was.
    pub(super) newest: u64,
    pub(super) prng: Prng,
}

impl<'e> Overlaid<'e> {
    pub(super) fn new(
        engine: &'e dyn Engine,
        elements: Elements<'e>,
        now_ms: u64,
        bytes_max: usize,
    ) -> Self {
        let is_durable = engine.descriptor().capabilities.durable;
        Overlaid {
            engine,
            pages: HashMap::default(),
            elements,
            held_bytes: 0,
            bytes_max,
            // In memory a page costs more than the bytes that are written with each change.
            flat_bytes_max: if is_durable { FLAT_BYTES_USUAL } else { FLAT_BYTES_MAX },
            order_epoch: order_epoch(engine),
            has_read: false,
            made: 0,
            lost: None,
            writes: false,
            left: None,
            newest: 0,
            prng: Prng::new(seed(now_ms)),
        }
    }

    /// A command begins, which may change something if it `writes`, and has to go on elsewhere,
    /// once it takes long, if it is `short`.
    pub(super) fn begin(&mut self, writes: bool, short: bool) {
        self.writes = writes;
        self.left = short.then_some(ASKED_MAX);
        self.newest = 0;
        self.has_read = false;
    }

    /// True if the command has failed because it has to go on elsewhere.
    pub(super) fn takes_long(&self) -> bool {
        self.left == Some(0)
    }

    /// True if no page has to be compared, because the engine publishes in order.
    pub(super) fn is_in_order(&self) -> bool {
        self.order_epoch.is_some()
    }

    /// False if no page is compared and a part of what was read may be of an engine that does not
    /// publish in order, which has taken the place of the first one.
    pub(super) fn is_of_one_order(&self) -> bool {
        self.order_epoch.is_none_or(|epoch| order_epoch(self.engine) == Some(epoch))
    }

    /// All pages that were kept.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = &PageSlot> {
        self.pages.values()
    }

    /// True if `page` is kept and has these bytes.
    pub(super) fn has(&self, page: PageId, bytes: &[u8]) -> bool {
        self.pages.get(&page).and_then(|slot| slot.bytes.as_ref()).is_some_and(|b| ***b == *bytes)
    }

    /// Forgets the pages of the newest object, of which nothing comes.
    pub(crate) fn forget_newest(&mut self) {
        let (before, newest) = (self.pages.len(), self.newest);
        self.pages.retain(|page, _| page.object != newest);
        self.made -= (before - self.pages.len()) as i64;
        self.elements.forget(newest);
    }

    /// The running command asks for `count` pages or keys.
    ///
    /// # Errors
    /// Fails if it has to go on apart from others, where nothing limits it.
    pub(super) fn ask_for(&mut self, count: usize) -> Result<()> {
        let Some(left) = &mut self.left else { return Ok(()) };
        match left.checked_sub(count) {
            Some(rest) => *left = rest,
            None => {
                *left = 0;
                return Err(takes_long());
            }
        }
        Ok(())
    }

    pub(super) fn hold(&mut self, bytes: usize) -> Result<()> {
        self.held_bytes += bytes + SLOT_BYTES;
        match self.held_bytes > self.bytes_max {
            true => Err(out_of_memory(format!(
                "commands on objects may hold {} bytes, and this needs more; ask for less at once, \
                 or raise --client-memory",
                self.bytes_max
            ))),
            false => Ok(()),
        }
    }

    /// Reads a page that is not kept.
    fn read(&mut self, page: PageId) -> Result<Arc<Page>> {
        let mut sink = Bytes(None);
        self.engine.get_many(&[&page.key()], &mut sink)?;
        self.has_read = true;
        let Some(bytes) = sink.0 else {
            self.lost = Some(page);
            return Err(missing());
        };
        Ok(Arc::new(bytes.into()))
    }

    /// Keeps a page that was read, or a place for it if somebody `takes` it, unless many are kept
    /// and it is neither changed nor compared: an object larger than all memory can be passed by.
    fn keep(&mut self, page: PageId, bytes: &Arc<Page>, takes: bool) -> Result<()> {
        let is_needed = self.writes && (takes || self.order_epoch.is_none());
        if is_needed || self.held_bytes < PAGES_BYTES_KEPT.min(self.bytes_max / 2) {
            self.hold(bytes.len())?;
            if self.pages.is_empty() {
                self.pages.reserve(PAGES_USUAL);
            }
            let mut slot = PageSlot::new(page, (!takes).then(|| Arc::clone(bytes)));
            slot.seen = self.order_epoch.is_none().then(|| Arc::clone(bytes));
            self.pages.insert(page, slot);
        }
        Ok(())
    }
}

fn order_epoch(engine: &dyn Engine) -> Option<u64> {
    engine.as_atomic().and_then(|atomic| atomic.order_epoch())
}

pub(super) fn takes_long() -> Error {
    Error::new(ErrorKind::Busy, "the command takes long")
}

fn missing() -> Error {
    let text = "a page of an object is missing; `silica verify` tells of which";
    Error::new(ErrorKind::Corruption, text)
}

impl Pages for Overlaid<'_> {
    fn get(&mut self, page: PageId) -> Result<Arc<Page>> {
        self.ask_for(1)?;
        if let Some(slot) = self.pages.get(&page) {
            return slot.bytes.clone().ok_or_else(missing);
        }
        let bytes = self.read(page)?;
        self.keep(page, &bytes, false)?;
        Ok(bytes)
    }

    fn take(&mut self, page: PageId) -> Result<Arc<Page>> {
        self.ask_for(1)?;
        if let Some(slot) = self.pages.get_mut(&page) {
            return slot.bytes.take().ok_or_else(missing);
        }
        let bytes = self.read(page)?;
        self.keep(page, &bytes, true)?;
        Ok(bytes)
    }

    fn put(&mut self, page: PageId, bytes: Arc<Page>) {
        self.held_bytes += bytes.len();
        let is_new = !self.pages.contains_key(&page);
        let slot = self.pages.entry(page).or_insert_with(|| PageSlot::new(page, None));
        (slot.bytes, slot.is_changed) = (Some(bytes), true);
        self.made += i64::from(is_new);
    }

    fn put_back(&mut self, page: PageId, bytes: Arc<Page>) {
        if let Some(slot) = self.pages.get_mut(&page) {
            slot.bytes = Some(bytes);
        }
    }

    fn remove(&mut self, page: PageId) {
        self.made -= 1;
        let slot = self.pages.entry(page).or_insert_with(|| PageSlot::new(page, None));
        (slot.bytes, slot.is_changed) = (None, true);
    }

    fn new_id(&mut self) -> Result<u64> {
        loop {
            let id = self.prng.next_u64();
            let mut sink = Bytes(None);
            self.engine.get_many(&[&PageId { object: id, number: 0 }.key()], &mut sink)?;
            if id != 0 && sink.0.is_none() {
                self.newest = id;
                return Ok(id);
            }
        }
    }

    fn flat_bytes_max(&self) -> usize {
        self.flat_bytes_max
    }

    fn keeps_entries(&self) -> bool {
        self.elements.are_kept
    }

    fn entries_above(&self) -> Option<u64> {
        self.elements.above
    }

    fn entry_key_bytes_max(&self) -> usize {
        self.engine.descriptor().limits.key_bytes_max
    }

    fn element(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.ask_for(1)?;
        if let Some(written) = self.elements.get(key) {
            return Ok(written);
        }
        let mut sink = Bytes(None);
        self.engine.get_many(&[key], &mut sink)?;
        self.has_read = true;
        Ok(sink.0)
    }

    fn put_element(&mut self, key: &[u8], value: Option<&[u8]>, is_new: bool) {
        self.held_bytes += key.len() + value.map_or(0, <[u8]>::len) + ELEMENT_BYTES;
        self.made += match value {
            Some(_) => i64::from(is_new),
            None => -1,
        };
        self.elements.put(key, value);
    }

    fn walk_elements(
        &mut self,
        range: (&[u8], &[u8]),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.walk(range, direction, each)
    }

    fn take_counts(&mut self, tree: (u64, usize)) -> Option<Counts> {
        self.elements.take_counts(tree)
    }

    fn keep_counts(&mut self, tree: (u64, usize), counts: Counts, are_news: bool) {
        self.elements.keep_counts(tree, counts, are_news);
    }
}

/// Copies the value of one key.
struct Bytes(Option<Vec<u8>>);

impl GetSink for Bytes {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        // With room for an element more.
        let mut bytes = Vec::with_capacity(entry.value.len() + ELEMENT_BYTES_USUAL);
        bytes.extend_from_slice(entry.value);
        self.0 = Some(bytes);
    }
}
