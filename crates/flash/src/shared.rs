//! What the monitor and its applications share: the table as it counts, and where blocks lie.

use crate::table::{Holding, Table};
use crate::table_log::TableLog;
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use silica_device::blocks::{
    BlockAddress, BlockState, FlashDevice, FlashError, FlashFault, FlashQueue, FlashResult,
    Operation, Request,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// Erases in flight while LUNs are made ready: a few for each channel of a large drive.
const ERASES_AT_ONCE: usize = 64;

/// By an application's channels, the LUNs of the device that its LUNs are. An operation holds
/// the lock of its LUN for reading. A LUN is moved under the lock for writing, which is only
/// tried and never waited for: nobody waits behind a writer, so a queue that holds locks can take
/// more of them.
pub(crate) type Slots = Vec<Vec<RwLock<u32>>>;

/// The slots of an application that is opened.
pub(crate) fn slots(holding: &Holding) -> Arc<Slots> {
    let channel = |luns: &Vec<u32>| luns.iter().copied().map(RwLock::new).collect();
    Arc::new(holding.channels.iter().map(channel).collect())
}

/// What the monitor and its applications share.
pub(crate) struct Shared<D> {
    pub(crate) device: D,
    id: u64,
    /// Blocks of a LUN that applications see.
    pub(crate) visible: u32,
    /// Physical block of each block that applications see, by LUN.
    physical: Box<[AtomicU32]>,
    state: Mutex<State>,
}

/// What changes, and how it is kept.
pub(crate) struct State {
    pub(crate) table: Table,
    sequence: u64,
    logs: Vec<TableLog>,
    /// The applications that are open, by name.
    pub(crate) open: BTreeMap<String, Arc<Slots>>,
}

/// True if the block, and not the device, refused.
pub(crate) fn is_of_the_block(error: &FlashError) -> bool {
    let fault = error.fault();
    matches!(fault, FlashFault::BadBlock | FlashFault::EraseFailed | FlashFault::WornOut)
}

/// Writes a record to all table areas, durably. One that takes it is enough.
pub(crate) fn write<D: FlashDevice>(
    device: &D,
    logs: &mut [TableLog],
    id: u64,
    sequence: u64,
    table: &Table,
) -> Result<()> {
    let pages = table.pages(id, sequence, device.geometry().page_bytes as usize);
    let mut refused = None;
    let mut written = 0;
    for log in logs.iter_mut() {
        match log.append(device, &pages) {
            Ok(()) => written += 1,
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if written == 0 => Err(error),
        _ => Ok(device.sync()?),
    }
}

impl State {
    pub(crate) fn new(table: Table, sequence: u64, logs: Vec<TableLog>) -> Self {
        State { table, sequence, logs, open: BTreeMap::new() }
    }

    fn holding(&self, name: &str) -> Result<&Holding> {
        let found = self.table.holdings.iter().find(|holding| holding.name == name);
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no flash application '{name}'"))
        })
    }

    /// Number of an application among the holdings.
    pub(crate) fn number_of(&self, name: &str) -> Result<usize> {
        let holding = self.holding(name)?;
        let same = |other: &Holding| std::ptr::eq(other, holding);
        Ok(self.table.holdings.iter().position(same).expect("it is one of them"))
    }

    /// What an application has that is not open.
    pub(crate) fn closed_holding(&self, name: &str) -> Result<&Holding> {
        match self.holding(name)? {
            _ if self.open.contains_key(name) => Err(is_open(name)),
            holding => Ok(holding),
        }
    }
}

fn is_open(name: &str) -> Error {
    let message = format!("the flash application '{name}' is open; close it first");
    Error::new(ErrorKind::Locked, message)
}

impl<D: FlashDevice> Shared<D> {
    /// The monitor with number `id` of a device whose LUNs have `visible` blocks for applications.
    pub(crate) fn new(device: D, id: u64, visible: u32, state: State) -> Self {
        let luns = device.geometry().lun_count();
        let physical: Box<[AtomicU32]> =
            (0..luns).flat_map(|_| 0..visible).map(AtomicU32::new).collect();
        let shared = Shared { device, id, visible, physical, state: Mutex::new(state) };
        shared.publish(&shared.state().table);
        shared
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// Address of the physical block `block` of the LUN with number `lun`.
    pub(crate) fn physical_block(&self, lun: u32, block: u32) -> BlockAddress {
        let luns = self.device.geometry().luns;
        BlockAddress { channel: (lun / luns) as u16, lun: (lun % luns) as u16, block }
    }

    /// Where block `block` of `lun`, as applications see it, lies.
    #[inline]
    pub(crate) fn place(&self, lun: u32, block: u32) -> BlockAddress {
        // Acquire pairs with the Release in `publish`: the block was erased before.
        let physical = self.physical[(lun * self.visible + block) as usize].load(Ordering::Acquire);
        self.physical_block(lun, physical)
    }

    fn publish(&self, table: &Table) {
        for ((lun, block), physical) in &table.replaced {
            self.physical[(lun * self.visible + block) as usize]
                .store(*physical, Ordering::Release);
        }
    }

    /// Makes `table` the one that counts, on the device and here.
    pub(crate) fn keep(&self, state: &mut State, table: Table) -> Result<()> {
        // A record that failed may be there nevertheless: its number is not used again.
        state.sequence += 1;
        write(&self.device, &mut state.logs, self.id, state.sequence, &table)?;
        self.publish(&table);
        state.table = table;
        Ok(())
    }

    /// Resets of all blocks of a LUN that applications may have.
    pub(crate) fn lun_erases(&self, lun: u32) -> FlashResult<u64> {
        let usable = Table::usable_blocks(self.device.geometry(), lun);
        let status = |block| self.device.block(self.physical_block(lun, block));
        (0..usable).map(|block| Ok(status(block)?.erases)).sum()
    }

    /// Erases the blocks of `luns` that are not free, and lets good blocks stand in for bad ones.
    /// A LUN that has too few good blocks, if there is one.
    pub(crate) fn prepare(
        &self,
        table: &mut Table,
        luns: impl Iterator<Item = u32>,
    ) -> FlashResult<Option<u32>> {
        let blocks = luns.flat_map(|lun| (0..self.visible).map(move |block| (lun, block)));
        let places = |table: &Table, (lun, block): (u32, u32)| {
            self.physical_block(lun, table.physical(lun, block))
        };
        let blocks: Vec<(u32, u32)> = blocks.collect();
        self.erase(blocks.iter().map(|block| places(table, *block)))?;
        for (lun, block) in blocks {
            if self.device.block(places(table, (lun, block)))?.state == BlockState::Bad {
                match self.erased_spare(table, lun)? {
                    Some(spare) => table.replaced.insert((lun, block), spare),
                    None => return Ok(Some(lun)),
                };
            }
        }
        Ok(None)
    }

    /// Erases those of `blocks` that are not free, as many at the same time as the device can.
    /// Those that are bad, or turn bad, are passed over.
    pub(crate) fn erase(&self, blocks: impl Iterator<Item = BlockAddress>) -> FlashResult<()> {
        let mut queue = self.device.queue(ERASES_AT_ONCE);
        let check = |result: FlashResult<u32>| match result {
            Err(error) if !is_of_the_block(&error) => Err(error),
            _ => Ok(()),
        };
        for block in blocks {
            if matches!(self.device.block(block)?.state, BlockState::Free | BlockState::Bad) {
                continue;
            }
            if queue.is_full() {
                queue.pop().map_or(Ok(()), |(_, result)| check(result))?;
            }
            let request = Request::Reset { block };
            let (pages, spare) = (AlignedBuf::zeroed(0), Vec::new());
            queue.push(Operation { of: (), request, pages, spare });
        }
        while let Some((_, result)) = queue.pop() {
            check(result)?;
        }
        Ok(())
    }

    /// Erases a good block of `lun` that nothing lies in, the one with the fewest erases first.
    pub(crate) fn erased_spare(&self, table: &Table, lun: u32) -> FlashResult<Option<u32>> {
        let lies_in = |physical: u32| {
            let own = table.physical(lun, physical);
            physical < self.visible && own == physical
                || table.replaced.iter().any(|((l, _), p)| *l == lun && *p == physical)
        };
        let mut spares = Vec::new();
        for physical in 0..Table::usable_blocks(self.device.geometry(), lun) {
            let status = self.device.block(self.physical_block(lun, physical))?;
            if status.state != BlockState::Bad && !lies_in(physical) {
                spares.push((status.erases, physical));
            }
        }
        spares.sort_unstable();
        for (_, physical) in spares {
            let address = self.physical_block(lun, physical);
            let is_free = self.device.block(address)?.state == BlockState::Free;
            match if is_free { Ok(()) } else { self.device.reset(address) } {
                Ok(()) => return Ok(Some(physical)),
                Err(error) if is_of_the_block(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Lets a spare block stand in for block `block` of `lun`, whose reset said `cause`.
    ///
    /// # Errors
    /// `cause` if there is no spare block, or if the table cannot be written.
    pub(crate) fn replace(&self, lun: u32, block: u32, cause: FlashError) -> FlashResult<()> {
        let mut state = self.state();
        let place = self.place(lun, block);
        if self.device.block(place)?.state != BlockState::Bad {
            // Somebody else has replaced it meanwhile.
            return self.device.reset(place);
        }
        let mut table = state.table.clone();
        let Some(spare) = self.erased_spare(&table, lun)? else { return Err(cause) };
        table.replaced.insert((lun, block), spare);
        self.device.sync()?;
        match self.keep(&mut state, table) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Closed => {
                Err(FlashError::new(FlashFault::PowerLost, place))
            }
            Err(_) => Err(cause),
        }
    }

    /// Resets block `block` of `lun`; a spare one stands in for it if it is bad.
    pub(crate) fn reset(&self, lun: u32, block: u32) -> FlashResult<()> {
        match self.device.reset(self.place(lun, block)) {
            Err(error) if is_of_the_block(&error) => self.replace(lun, block, error),
            result => result,
        }
    }

    pub(crate) fn close(&self, name: &str) {
        self.state().open.remove(name);
    }
}
