//! Flash made of a drive with zones: a block is a zone.
//!
//! Invariants (docs/formats/flash-zones.md has the crash argument):
//!
//! 1. How many pages a block has is what the drive's pointer says; the ledger says it only of
//!    blocks that were finished early or turned bad, whose pointer means nothing any more.
//! 2. A finish is in the ledger before the drive does it, a reset after the drive did it.
//! 3. A block has whole pages: one that a power cut tore is filled up before anything else.
//! 4. A ledger that could not be written, and a sync that failed, are final for this opening.

use super::in_use::{InUse, OF_LEDGER, Refused, settle};
use super::ledger::{FRESH, GRANULE_MIN, Header, Kept, Ledger};
use super::{
    KernelZones, Zone, ZoneAction, ZoneCondition, ZoneKind, ZoneLimits, Zones, carry_out, look_at,
};
use crate::blocks::layout::{Block, Recorded};
use crate::blocks::workers::{Carrier, Workers};
use crate::blocks::{
    Abilities, Append, BlockAddress, BlockState, BlockStatus, FlashCounters, FlashDevice,
    FlashError, FlashFault, FlashImageOptions, FlashResult, Geometry, ImageQueue, PAGES_MAX,
    PageAddress, Place, checks,
};
use silica_base::{Error, ErrorKind, Result};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of a page if nobody says how many, at least: what caches and file systems read at once.
const PAGE_BYTES_MIN: u64 = 4096;
/// Channels and LUNs if nobody says how many, the best first: zones are dealt to as many threads.
const DEALS: [(u32, u32); 4] = [(4, 2), (4, 1), (2, 1), (1, 1)];
/// Blocks of a LUN at least, if zones are dealt to several LUNs.
const BLOCKS_OF_LUN_MIN: u32 = 2;
/// Zones that dealing them out may leave over: one in so many.
const UNUSED_PART_MAX: u32 = 16;

/// Flash on a drive with zones, each of which is a block. The geometry is logical: a drive does
/// not say which zones work side by side.
///
/// Two zones keep what the drive does not. Conventional zones and zones with less room than the
/// others are not used. Pages go past the page cache, operations of a queue through up to eight
/// threads. Nothing is kept beside a page ([`Abilities::checks_pages`]).
///
/// As many zones are open as the drive allows: the one that was not written to for longest is
/// closed for another. If as many are active as it allows, an append that needs one more fails
/// with [`FlashFault::TooManyOpen`] ([`Abilities::open_blocks_max`]).
pub struct ZonedFlash<Z: Zones = KernelZones> {
    drive: Arc<Drive<Z>>,
    workers: Workers,
}

/// What the zones of a drive are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonesSummary {
    /// Limits of the drive.
    pub limits: ZoneLimits,
    /// Zones that are blocks.
    pub blocks: u32,
    /// Conventional zones, which are not used.
    pub conventional: u32,
    /// Sequential zones that are neither blocks nor the ledger: too small, or more than the
    /// geometry has.
    pub unused: u32,
    /// Zones that were closed for others since the drive was opened.
    pub closed_for_others: u64,
}

struct Drive<Z> {
    zones: Z,
    name: String,
    geometry: Geometry,
    endurance: u32,
    abilities: Abilities,
    /// The zone of each block.
    zone_of: Vec<u32>,
    blocks: Box<[Mutex<Block>]>,
    ledger: Mutex<Ledger>,
    in_use: InUse,
    counters: FlashCounters,
    is_poisoned: AtomicBool,
    conventional: u32,
    sequential: u32,
}

/// The zones of a drive by what they can be.
struct Plan {
    ledger: [u32; 2],
    /// Zones that can be blocks, with what they were at the opening.
    blocks: Vec<(u32, Zone)>,
    /// Bytes of each block at most.
    capacity: u64,
    conventional: u32,
    sequential: u32,
}

fn plan(zones: &impl Zones) -> Result<Plan> {
    let name = zones.name();
    let refuse = |why: String| Error::new(ErrorKind::Config, format!("{name}: {why}"));
    let limits = *zones.limits();
    if u64::from(limits.granule) < GRANULE_MIN || limits.zone_bytes < u64::from(limits.granule) {
        return Err(refuse(format!("{limits:?} are limits that no drive with zones has")));
    }
    let few = |max: u32| max > 0 && max <= OF_LEDGER;
    if few(limits.open_max) || few(limits.active_max) {
        let what = "takes too few open zones: two are needed beside those of blocks";
        return Err(refuse(what.into()));
    }
    let all = zones
        .report(0, limits.zones)
        .map_err(|e| Error::io(format!("cannot look at the zones of {name}"), e))?;
    let conventional = all.iter().filter(|zone| zone.kind == ZoneKind::Conventional).count();
    let numbered = (0..).zip(all).filter(|(_, zone)| zone.kind == ZoneKind::Sequential);
    let sequential: Vec<(u32, Zone)> = numbered.collect();
    let [first, second, blocks @ ..] = &sequential[..] else {
        return Err(refuse("has fewer than three zones that are written in order".into()));
    };
    let capacity = blocks.iter().map(|(_, zone)| zone.capacity).max().unwrap_or(0);
    if capacity == 0 {
        return Err(refuse("has fewer than three zones that are written in order".into()));
    }
    // The last zone of a disk may be shorter.
    let fits = |(_, zone): &&(u32, Zone)| zone.capacity == capacity;
    Ok(Plan {
        ledger: [first.0, second.0],
        blocks: blocks.iter().filter(fits).copied().collect(),
        capacity,
        conventional: conventional as u32,
        sequential: sequential.len() as u32,
    })
}

impl Plan {
    /// The geometry that uses all blocks.
    fn geometry(&self, granule: u32) -> Geometry {
        let mut page_bytes = PAGE_BYTES_MIN.max(u64::from(granule)).min(self.capacity);
        while self.capacity / page_bytes > u64::from(PAGES_MAX) {
            page_bytes *= 2;
        }
        let blocks = self.blocks.len() as u32;
        let used = |(channels, luns)| blocks / (channels * luns) * (channels * luns);
        let fits = |dealt: &(u32, u32)| {
            used(*dealt) >= blocks - blocks / UNUSED_PART_MAX
                && blocks >= BLOCKS_OF_LUN_MIN * dealt.0 * dealt.1
        };
        let (channels, luns) = DEALS.into_iter().find(fits).unwrap_or((1, 1));
        Geometry {
            channels,
            luns,
            blocks: blocks / (channels * luns),
            pages: (self.capacity / page_bytes) as u32,
            page_bytes: page_bytes as u32,
            spare_bytes: 0,
        }
    }

    /// Refuses a geometry that the zones cannot have.
    fn check(&self, geometry: &Geometry, name: &str, granule: u32) -> Result<()> {
        geometry.check()?;
        let why = match geometry {
            _ if geometry.spare_bytes > 0 => "zones have no spare bytes; leave them out".into(),
            _ if !geometry.page_bytes.is_multiple_of(granule) => {
                format!("pages must be a multiple of {granule} bytes, in which the drive writes")
            }
            _ if geometry.block_bytes() > self.capacity => {
                format!("a block has more than the {} bytes of a zone", self.capacity)
            }
            _ if geometry.block_count() as usize > self.blocks.len() => {
                format!("there are {} zones for blocks", self.blocks.len())
            }
            _ => return Ok(()),
        };
        let message = format!("{name} cannot be flash of {geometry}: {why}");
        Err(Error::new(ErrorKind::Config, message))
    }
}

impl ZonedFlash<KernelZones> {
    /// Makes the block device `path` flash, of which all contents are lost, and opens it.
    ///
    /// # Errors
    /// As [`KernelZones::open`] and [`ZonedFlash::create_on`].
    pub fn create(
        path: &Path,
        geometry: Option<Geometry>,
        options: FlashImageOptions,
    ) -> Result<Self> {
        Self::create_on(KernelZones::open(path)?, geometry, options)
    }

    /// Opens the flash on the block device `path`.
    ///
    /// # Errors
    /// As [`KernelZones::open`] and [`ZonedFlash::open_on`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_on(KernelZones::open(path)?)
    }
}

impl<Z: Zones> ZonedFlash<Z> {
    /// Makes a drive flash, of which all contents are lost, and opens it. Without a geometry all
    /// zones that can be blocks are, with pages of 4 KiB or more.
    ///
    /// # Errors
    /// `Config` if the drive has too few zones, or does not have this geometry; `Io`.
    pub fn create_on(
        zones: Z,
        geometry: Option<Geometry>,
        options: FlashImageOptions,
    ) -> Result<Self> {
        let plan = plan(&zones)?;
        let (name, granule) = (zones.name(), zones.limits().granule);
        let geometry = geometry.unwrap_or_else(|| plan.geometry(granule));
        plan.check(&geometry, &name, granule)?;
        let failed = |e| Error::io(format!("cannot make {name} flash"), e);
        for (zone, state) in &plan.blocks {
            if state.condition != ZoneCondition::Empty && !state.is_given_up() {
                carry_out(&zones, ZoneAction::Reset, *zone).map_err(failed)?;
            }
        }
        let endurance = options.endurance.unwrap_or(0);
        let header = Header { id: options.id, geometry, endurance };
        let ledger = Ledger::create(&zones, header, plan.ledger)?;
        Self::with(zones, plan, ledger)
    }

    /// Opens flash on a drive. Reads a report of all zones and the ledger.
    ///
    /// # Errors
    /// `Config` if the drive was not made flash; `Unsupported` for another version; `Corruption`
    /// if what is kept does not fit the drive; `Io`.
    pub fn open_on(zones: Z) -> Result<Self> {
        let plan = plan(&zones)?;
        let name = zones.name();
        let Some(ledger) = Ledger::open(&zones, plan.ledger)? else {
            let message = format!("{name} has zones and no flash; make it: silica flash create");
            return Err(Error::new(ErrorKind::Config, message));
        };
        let granule = zones.limits().granule;
        plan.check(&ledger.header().geometry, &name, granule)
            .map_err(|e| Error::corruption(&name, 0, e))?;
        Self::with(zones, plan, ledger)
    }

    fn with(zones: Z, plan: Plan, mut ledger: Ledger) -> Result<Self> {
        let Header { geometry, endurance, .. } = *ledger.header();
        let name = zones.name();
        let failed = |e| Error::io(format!("cannot open the zones of {name}"), e);
        let used = &plan.blocks[..geometry.block_count() as usize];
        let mut active = std::collections::BTreeSet::new();
        let mut blocks = Vec::with_capacity(used.len());
        for (block, (zone, _)) in (0..).zip(used) {
            let found = recover(&zones, &mut ledger, &geometry, block, *zone).map_err(failed)?;
            if settle(&zones, *zone).map_err(failed)? {
                active.insert(*zone);
            }
            blocks.push(Mutex::new(found));
        }
        let limits = *zones.limits();
        let abilities = Abilities {
            is_physical: false,
            is_durable_at_return: false,
            orders_appends: true,
            counts_erases: true,
            checks_pages: false,
            open_blocks_max: (limits.active_max > 0).then(|| limits.active_max - OF_LEDGER),
            streams: 0,
            endurance: (endurance > 0).then_some(endurance),
        };
        let drive = Arc::new(Drive {
            name: name.clone(),
            geometry,
            endurance,
            abilities,
            zone_of: used.iter().map(|(zone, _)| *zone).collect(),
            blocks: blocks.into(),
            ledger: Mutex::new(ledger),
            in_use: InUse::new(limits.open_max, limits.active_max, active),
            counters: FlashCounters::new(&geometry),
            is_poisoned: AtomicBool::new(false),
            conventional: plan.conventional,
            sequential: plan.sequential,
            zones,
        });
        Ok(ZonedFlash { workers: Workers::new(drive.clone()), drive })
    }

    /// The drive below.
    pub fn zones(&self) -> &Z {
        &self.drive.zones
    }

    /// What the zones are used for.
    pub fn summary(&self) -> ZonesSummary {
        let blocks = self.drive.zone_of.len() as u32;
        ZonesSummary {
            limits: *self.drive.zones.limits(),
            blocks,
            conventional: self.drive.conventional,
            unused: self.drive.sequential - blocks - 2,
            closed_for_others: self.drive.in_use.closed(),
        }
    }
}

/// What a block is after an opening: the zone's state, where it says something, else the ledger's.
fn recover(
    zones: &impl Zones,
    ledger: &mut Ledger,
    geometry: &Geometry,
    block: u32,
    zone: u32,
) -> io::Result<Block> {
    let mut state = look_at(zones, zone)?;
    let kept = ledger.kept(block);
    let is_bad = kept.recorded == Recorded::Bad || state.is_given_up();
    if state.is_active() && !is_bad {
        state = fill_up(zones, zone, state, geometry)?;
    }
    let page_bytes = u64::from(geometry.page_bytes);
    let of_pointer = (state.written() / page_bytes).min(u64::from(geometry.pages)) as u32;
    let is_full = state.condition == ZoneCondition::Full;
    let of = |recorded, written| Block {
        recorded,
        is_undefined: false,
        sequence: 0,
        erases: kept.erases,
        written,
    };
    Ok(match kept.recorded {
        // An early end that the ledger knows.
        Recorded::Closed | Recorded::Bad if is_full => of(kept.recorded, kept.pages),
        Recorded::Bad => of(Recorded::Bad, of_pointer.min(kept.pages)),
        _ if is_bad => of(Recorded::Bad, of_pointer),
        Recorded::Closed if state.condition == ZoneCondition::Empty && kept.pages > 0 => {
            // It was reset, or a power cut took its pages, before the ledger knew.
            let now = Kept { erases: kept.erases, ..FRESH };
            ledger.record(zones, block, now)?;
            of(Recorded::Appending, 0)
        }
        Recorded::Closed => {
            // The finish was cut off. One without pages needs nothing of the drive.
            let pages = of_pointer.min(kept.pages);
            ledger.record(zones, block, Kept { pages, ..kept })?;
            if state.condition != ZoneCondition::Empty {
                carry_out(zones, ZoneAction::Finish, zone)?;
            }
            of(Recorded::Closed, pages)
        }
        Recorded::Appending => {
            if of_pointer == geometry.pages && !is_full {
                carry_out(zones, ZoneAction::Finish, zone)?;
            }
            of(Recorded::Appending, of_pointer)
        }
    })
}

/// Fills the page up in which the pointer of a zone stands: pages behind it have to begin where
/// pages begin. What the page reads as is its caller's business, as after any power cut.
fn fill_up(zones: &impl Zones, zone: u32, state: Zone, geometry: &Geometry) -> io::Result<Zone> {
    let torn = state.written() % u64::from(geometry.page_bytes);
    if torn == 0 || state.written() >= geometry.block_bytes() {
        return Ok(state);
    }
    let rest = vec![0; (u64::from(geometry.page_bytes) - torn) as usize];
    zones.write(state.start + state.written(), &rest, false)?;
    look_at(zones, zone)
}

impl<Z: Zones> Drive<Z> {
    fn zone(&self, index: u32) -> u32 {
        self.zone_of[index as usize]
    }

    fn page_at(&self, index: u32, page: u32) -> u64 {
        let start = u64::from(self.zone(index)) * self.zones.limits().zone_bytes;
        start + u64::from(page) * u64::from(self.geometry.page_bytes)
    }

    fn lock_block(&self, block: BlockAddress) -> FlashResult<(u32, MutexGuard<'_, Block>)> {
        checks::contains(&self.geometry, block)?;
        let index = self.geometry.index_of(block);
        Ok((index, self.blocks[index as usize].lock().expect("no panic while locked")))
    }

    /// Locks a block that is to be changed.
    fn change_block(&self, block: BlockAddress) -> FlashResult<(u32, MutexGuard<'_, Block>)> {
        let locked = self.lock_block(block)?;
        if self.is_poisoned.load(Ordering::Acquire) {
            return Err(FlashError::new(FlashFault::Poisoned, block));
        }
        Ok(locked)
    }

    /// Keeps in the ledger what a block is from now on.
    fn record(&self, address: BlockAddress, index: u32, now: &Block) -> FlashResult<()> {
        let Block { recorded, erases, written, .. } = *now;
        let pages = if recorded == Recorded::Appending { 0 } else { written };
        let mut ledger = self.ledger.lock().expect("no panic while locked");
        ledger.record(&self.zones, index, Kept { recorded, pages, erases }).map_err(|e| {
            self.is_poisoned.store(true, Ordering::Release);
            log::error!(
                "the ledger of {} cannot be written, so the drive is closed: {e}",
                self.name
            );
            FlashError::io(address, e)
        })
    }

    /// Declares a block bad for good.
    fn give_up(&self, address: BlockAddress, index: u32, block: &mut Block) -> FlashResult<()> {
        if let Err(e) = self.zones.flush() {
            log::warn!("{} cannot be flushed while a block is given up: {e}", self.name);
        }
        let now = Block { recorded: Recorded::Bad, ..*block };
        self.record(address, index, &now)?;
        *block = now;
        let zone = self.zone(index);
        if look_at(&self.zones, zone).is_ok_and(|state| state.is_active()) {
            // It must not take resources for ever; if the drive does not let it go, it does.
            if let Err(e) = carry_out(&self.zones, ZoneAction::Finish, zone) {
                log::warn!("zone {zone} of {} stays open and bad: {e}", self.name);
                self.in_use.end(zone, false);
                return Ok(());
            }
        }
        self.in_use.end(zone, true);
        Ok(())
    }

    /// Finds out what a write that failed has left, and what the error is.
    fn after_failed_write(
        &self,
        address: BlockAddress,
        index: u32,
        block: &mut Block,
        error: io::Error,
    ) -> FlashError {
        let zone = self.zone(index);
        let looked = look_at(&self.zones, zone)
            .and_then(|state| fill_up(&self.zones, zone, state, &self.geometry));
        let first = address.page(block.written);
        self.counters.add_failures(address, 1);
        match looked {
            Ok(state) if state.is_active() || state.condition == ZoneCondition::Empty => {
                let pages = state.written() / u64::from(self.geometry.page_bytes);
                block.written = (pages as u32).clamp(block.written, self.geometry.pages);
                self.in_use.end(zone, false);
                FlashError::io(first, error)
            }
            // A zone that takes no more, or of which nobody knows: the pages before stay.
            _ => match self.give_up(address, index, block) {
                Ok(()) => FlashError::new(FlashFault::ProgramFailed, first),
                Err(error) => error,
            },
        }
    }

    /// Ends an append that wrote everything.
    fn after_write(&self, index: u32, block: &mut Block, count: u32) -> io::Result<()> {
        block.written += count;
        let zone = self.zone(index);
        if block.written < self.geometry.pages {
            self.in_use.end(zone, false);
            return Ok(());
        }
        let finished = look_at(&self.zones, zone).and_then(|state| match state.condition {
            ZoneCondition::Full => Ok(state),
            // The zone has room for more than the block.
            _ => carry_out(&self.zones, ZoneAction::Finish, zone),
        });
        self.in_use.end(zone, finished.is_ok());
        finished.map(drop)
    }

    fn reset_zone(&self, address: BlockAddress, index: u32, block: &mut Block) -> FlashResult<()> {
        let zone = self.zone(index);
        let Err(error) = carry_out(&self.zones, ZoneAction::Reset, zone) else {
            self.in_use.end(zone, true);
            return Ok(());
        };
        self.counters.add_failures(address, 1);
        if look_at(&self.zones, zone).is_ok_and(|state| state.is_given_up()) {
            self.give_up(address, index, block)?;
            return Err(FlashError::new(FlashFault::EraseFailed, address));
        }
        Err(FlashError::io(address, error))
    }
}

impl<Z: Zones> Carrier for Drive<Z> {
    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        let count = checks::pages_of_read(&self.geometry, first, pages.len(), spare.len())?;
        let (index, block) = self.lock_block(first.block)?;
        checks::has_pages(&block, first, count)?;
        let erases = block.erases;
        drop(block);
        let read = self.zones.read(self.page_at(index, first.page), pages);
        if self.lock_block(first.block)?.1.erases != erases {
            // A reset has overtaken this read, and others may have written since.
            return Err(FlashError::new(FlashFault::Unwritten, first));
        }
        read.map_err(|e| FlashError::io(first, e))?;
        self.counters.add_reads(first.block, u64::from(count));
        Ok(())
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        let count = checks::pages_of_append(&self.geometry, append)?;
        let (index, mut block) = self.change_block(append.block)?;
        checks::takes_pages(&block.status(&self.geometry), append, count)?;
        let (first, zone) = (block.written, self.zone(index));
        let written = match self.in_use.begin(&self.zones, zone) {
            Ok(()) => self.zones.write(self.page_at(index, first), append.pages, false),
            Err(Refused::TooManyActive) => {
                return Err(FlashError::new(FlashFault::TooManyOpen, append.block));
            }
            Err(Refused::Io(e)) => Err(e),
        };
        written.map_err(|e| self.after_failed_write(append.block, index, &mut block, e)).and_then(
            |()| {
                let ended = self.after_write(index, &mut block, count);
                ended.map_err(|e| FlashError::io(append.block, e))
            },
        )?;
        self.counters.add_programs(append.block, u64::from(count));
        Ok(first)
    }

    fn finish(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.change_block(address)?;
        match block.status(&self.geometry).state {
            BlockState::Full => return Ok(()),
            BlockState::Undefined => return Err(FlashError::new(FlashFault::NeedsReset, address)),
            BlockState::Bad => return Err(FlashError::new(FlashFault::BadBlock, address)),
            BlockState::Free | BlockState::Open => {}
        }
        // What the ledger says of the pages must not outlive them, nor the reset before them.
        self.zones.flush().map_err(|e| FlashError::io(address, e))?;
        let now = Block { recorded: Recorded::Closed, ..*block };
        self.record(address, index, &now)?;
        *block = now;
        if block.written > 0 {
            let zone = self.zone(index);
            carry_out(&self.zones, ZoneAction::Finish, zone)
                .map_err(|e| FlashError::io(address, e))?;
            self.in_use.end(zone, true);
        }
        Ok(())
    }

    fn reset(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.change_block(address)?;
        if block.recorded == Recorded::Bad {
            return Err(FlashError::new(FlashFault::BadBlock, address));
        }
        if self.endurance > 0 && block.erases >= u64::from(self.endurance) {
            self.give_up(address, index, &mut block)?;
            self.counters.add_failures(address, 1);
            return Err(FlashError::new(FlashFault::WornOut, address));
        }
        self.reset_zone(address, index, &mut block)?;
        if block.recorded == Recorded::Closed {
            // The ledger must not forget how many pages there were before they are gone for good.
            self.zones.flush().map_err(|e| FlashError::io(address, e))?;
        }
        let erases = block.erases + 1;
        let now = Block { recorded: Recorded::Appending, erases, written: 0, ..*block };
        *block = now;
        self.record(address, index, &now)?;
        self.counters.add_erases(address, 1);
        Ok(())
    }
}

impl<Z: Zones> FlashDevice for ZonedFlash<Z> {
    type Queue<'d, T> = ImageQueue<'d, T>;

    fn geometry(&self) -> &Geometry {
        &self.drive.geometry
    }

    fn abilities(&self) -> &Abilities {
        &self.drive.abilities
    }

    fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        Ok(self.drive.lock_block(block)?.1.status(self.geometry()))
    }

    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()> {
        self.drive.read(first, pages, spare)
    }

    fn append(&self, append: &Append<'_>) -> FlashResult<u32> {
        self.drive.append(append)
    }

    fn finish(&self, block: BlockAddress) -> FlashResult<()> {
        self.drive.finish(block)
    }

    fn reset(&self, block: BlockAddress) -> FlashResult<()> {
        self.drive.reset(block)
    }

    fn retire(&self, address: BlockAddress) -> FlashResult<()> {
        let (index, mut block) = self.drive.change_block(address)?;
        if block.recorded == Recorded::Bad {
            return Ok(());
        }
        self.drive.give_up(address, index, &mut block)
    }

    fn sync(&self) -> FlashResult<()> {
        if self.drive.is_poisoned.load(Ordering::Acquire) {
            return Err(FlashError::new(FlashFault::Poisoned, Place::Device));
        }
        self.drive.zones.flush().map_err(|e| {
            self.drive.is_poisoned.store(true, Ordering::Release);
            FlashError::io(Place::Device, e)
        })?;
        self.drive.counters.add_sync();
        Ok(())
    }

    fn queue<T>(&self, depth: usize) -> ImageQueue<'_, T> {
        ImageQueue::new(&self.workers, self.geometry().luns, depth)
    }

    fn counters(&self) -> &FlashCounters {
        &self.drive.counters
    }
}
