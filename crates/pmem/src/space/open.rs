//! A region is made, opened and settled.

use super::book::Book;
use super::layout::{
    EXTENT_COUNT, EXTENTS, EXTENTS_MAX, Extent, FIXED_PAGES, FRONT_BYTES, Kind, ROOT, ROOT_BYTES,
    STATE, State, decode_descriptor, decode_front, extents_word, front,
};
use super::redo::{Places, finish};
use super::{PAGE_BYTES, Space};
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::{Region, RegionClass, Regions};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Bytes of a region with nothing in it.
const EMPTY_BYTES: u64 = 64 * PAGE_BYTES;

/// Bytes that a region is handed over in.
const PIECE_BYTES: usize = 1 << 20;

/// What an engine asks of a region.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Whose the region is.
    pub kind: Kind,
    /// The number of a store that is made anew: random.
    pub store: u64,
    /// The region does not grow beyond this.
    pub limit_bytes: u64,
    /// Open it even if the machine stopped while it was in use and its class does not survive
    /// that: the engine then believes nothing that it has not checked.
    pub salvage: bool,
}

/// A region that was opened.
pub struct Opened<R> {
    /// The space in it.
    pub space: Space<R>,
    /// It was made just now.
    pub is_new: bool,
    /// It was settled: everything in it is as it was then, and a checksum that does not match is
    /// damage.
    pub was_settled: bool,
    /// It is not to be believed unchecked, see [`Settings::salvage`].
    pub is_doubtful: bool,
}

impl<R: Region> Space<R> {
    /// Opens the region `name`, or makes it.
    ///
    /// # Errors
    /// `Corruption`, `Unsupported` for another version or a medium that lost what it held; `Full`,
    /// `Locked`, `Io`.
    pub fn open_on<P>(place: &P, name: &str, settings: &Settings) -> Result<Opened<R>>
    where
        P: Regions<Region = R>,
    {
        let boot = place.boot();
        match place.open_region(name)? {
            Some(region) if region.len() < EMPTY_BYTES => Err(too_short(name, region.len())),
            // Its first word is stored last.
            Some(region) if region.load(0) != 0 => Self::open(region, name, boot, settings),
            Some(region) if is_blank(&region) => Self::make(region, name, boot, settings),
            Some(_) => Err(Error::corruption(name, 0, "it has no header")),
            None => Self::make(place.create_region(name, EMPTY_BYTES)?, name, boot, settings),
        }
    }

    pub(super) fn new(region: R, name: &str, boot: u64, store: u64, settings: &Settings) -> Self {
        Space {
            region,
            store,
            boot,
            name: name.to_string(),
            book: Mutex::new(Book::new()),
            growth: Mutex::new(()),
            redo: Places::new(),
            limit_bytes: AtomicU64::new(settings.limit_bytes),
        }
    }

    /// Makes a region of zeroes one of `settings.kind`.
    fn make(region: R, name: &str, boot: u64, settings: &Settings) -> Result<Opened<R>> {
        let pages = region.len() / PAGE_BYTES;
        let extent = Extent { first: 0, pages };
        region.store(EXTENTS, pages);
        region.store(EXTENT_COUNT, extents_word(settings.store, &[pages]));
        region.store(STATE, State::InUse { boot }.word());
        let front = front(settings.kind, settings.store);
        region.write(8, &front[8..]);
        region.flush(0, PAGE_BYTES);
        region.fence()?;
        region.store(0, u64::from_le_bytes(front[..8].try_into().expect("eight")));
        region.flush(0, 8);
        region.fence()?;
        let space = Self::new(region, name, boot, settings.store, settings);
        {
            let mut book = space.book();
            book.add_extent(extent);
            book.add_free(extent.data(), extent.end() - extent.data(), false);
        }
        Ok(Opened { space, is_new: true, was_settled: true, is_doubtful: false })
    }

    fn open(region: R, name: &str, boot: u64, settings: &Settings) -> Result<Opened<R>> {
        let mut bytes = [0; FRONT_BYTES];
        region.read(0, &mut bytes);
        let store = decode_front(name, settings.kind, &bytes)?;
        let state = State::decode(region.load(STATE))
            .ok_or_else(|| Error::corruption(name, STATE, "it does not say how it was left"))?;
        let lost = state.is_of_another_boot(boot) && region.class() != RegionClass::Lines;
        if lost && !settings.salvage {
            let message = format!(
                "{name} was in use when the machine stopped, on memory that does not survive that \
                 ({}): what it holds cannot be trusted; `silica repair` saves what is whole",
                region.class()
            );
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        let extents = extents(&region, name, store)?;
        finish(&region, store, name)?;
        region.store(STATE, State::InUse { boot }.word());
        region.flush(STATE, 8);
        region.fence()?;
        let was_settled = state == State::Settled;
        let space = Self::new(region, name, boot, store, settings);
        space.read_spans(&extents)?;
        Ok(Opened { space, is_new: false, was_settled, is_doubtful: lost })
    }

    /// Notes all spans and free pages. What of the spans is in use has to be marked. Free pages
    /// may be holes of the file: their space is reserved before they are used.
    fn read_spans(&self, extents: &[Extent]) -> Result<()> {
        let mut book = self.book();
        for extent in extents {
            book.add_extent(*extent);
            let mut page = extent.data();
            let mut free = page;
            while page < extent.end() {
                let at = extent.descriptor_at(page);
                let word = self.region.word(at);
                if word == 0 {
                    page += 1;
                    continue;
                }
                let found = decode_descriptor(self.store, page, word);
                let found = found.filter(|(_, pages)| page + pages <= extent.end());
                let (held, pages) = found.ok_or_else(|| {
                    Error::corruption(&self.name, at, "a span's descriptor is damaged")
                })?;
                if page > free {
                    book.add_free(free, page - free, true);
                }
                book.add_span(page, held, pages, true);
                book.is_marking = true;
                page += pages;
                free = page;
            }
            if page > free {
                book.add_free(free, page - free, true);
            }
        }
        Ok(())
    }

    /// Everything is durable, as far as the medium can, and may be believed by the next opening.
    /// Nothing may be stored from here on until [`Space::unsettle`].
    ///
    /// # Errors
    /// `Io`, `Poisoned`: it stays in use.
    pub fn settle(&self) -> Result<()> {
        self.region.sync()?;
        self.store_state(State::Settled)
    }

    /// The region is in use again.
    ///
    /// # Errors
    /// As for [`Space::settle`].
    pub fn unsettle(&self) -> Result<()> {
        self.store_state(State::InUse { boot: self.boot })
    }

    /// Hands the region over in pieces, settled, as a backup needs it, and takes it in use again.
    /// The caller keeps writers away until this returns.
    ///
    /// # Errors
    /// As for [`Space::settle`], and what `piece` returns.
    pub fn hand_over(&self, piece: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.settle()?;
        let mut bytes = vec![0; PIECE_BYTES];
        let mut handed = Ok(());
        let mut at = 0;
        while at < self.region.len() && handed.is_ok() {
            let len = (self.region.len() - at).min(PIECE_BYTES as u64) as usize;
            self.region.read(at, &mut bytes[..len]);
            handed = piece(&bytes[..len]);
            at += len as u64;
        }
        handed.and(self.unsettle())
    }

    fn store_state(&self, state: State) -> Result<()> {
        self.region.store(STATE, state.word());
        self.region.flush(STATE, 8);
        if self.region.class() == RegionClass::Pages {
            return self.region.sync();
        }
        self.region.fence()
    }
}

fn too_short(name: &str, bytes: u64) -> Error {
    let detail = format!("it has {bytes} bytes, fewer than an empty one: it was cut");
    Error::corruption(name, bytes, detail)
}

/// True if a region was created and not made one before the process died.
fn is_blank<R: Region>(region: &R) -> bool {
    let of_root = ROOT..ROOT + ROOT_BYTES;
    let of_table = FIXED_PAGES * PAGE_BYTES..(FIXED_PAGES + 1) * PAGE_BYTES;
    of_root.chain(of_table).step_by(8).all(|at| region.word(at) == 0)
}

/// The extents that the header says. What the region has behind them is cut.
fn extents<R: Region>(region: &R, name: &str, store: u64) -> Result<Vec<Extent>> {
    let word = region.load(EXTENT_COUNT);
    let count = (word & 0xFFFF_FFFF) as usize;
    let damaged = || Error::corruption(name, EXTENT_COUNT, "its list of extents is damaged");
    if count == 0 || count > EXTENTS_MAX {
        return Err(damaged());
    }
    let lengths: Vec<u64> = (0..count as u64).map(|n| region.load(EXTENTS + n * 8)).collect();
    if word != extents_word(store, &lengths) {
        return Err(damaged());
    }
    let mut extents = Vec::with_capacity(count);
    let mut first: u64 = 0;
    for pages in lengths {
        let end = first.checked_add(pages).filter(|end| *end <= u64::MAX / PAGE_BYTES);
        extents.push(Extent { first, pages });
        first = end.ok_or_else(damaged)?;
    }
    let bytes = first * PAGE_BYTES;
    if region.len() < bytes {
        let detail = format!("it has {} bytes of {bytes}: it was cut", region.len());
        return Err(Error::corruption(name, region.len(), detail));
    }
    if region.len() > bytes {
        region.truncate(bytes)?;
    }
    Ok(extents)
}
