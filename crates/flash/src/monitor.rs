//! The flash monitor: who has which LUNs, and which blocks stand in for bad ones.
//!
//! Invariants:
//!
//! 1. A LUN belongs to one application at most, and an application's addresses reach its LUNs
//!    only.
//! 2. What the table on the device says is true at every moment: a change is in the table and
//!    synced before anything stands on it. The page docs/formats/flash-table.md has the argument.
//! 3. A LUN that is given away was erased before, so nobody reads what another application left.
//! 4. No two blocks of a LUN lie in one physical block. A block is moved to a spare one only if
//!    its physical block is bad, and only when it is reset: until then its pages stay readable.
//! 5. An application is open once at a time. Its addresses do not change while it is: a LUN is
//!    moved only while no operation on it is under way, and grows and shrinks only while closed.
//! 6. A LUN that is moved is copied and synced before the table says so; until then its pages lie
//!    where they were.

use crate::application::Application;
use crate::deal::deal;
use crate::shared::{Shared, State, slots, write};
use crate::table::{Holding, NAME_BYTES_MAX, Table};
use crate::table_log::TableLog;
use crate::wear::{self, WearLevelling};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::{BlockAddress, FlashDevice, FlashResult};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a monitor divides a new device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorOptions {
    /// A number that no other monitor has, from the caller's source of random numbers.
    pub id: u64,
    /// Blocks of each LUN that stand in for bad ones. Three more of each LUN are kept.
    pub spare_blocks: u32,
}

/// What an application asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// LUNs for its data.
    pub luns: u32,
    /// LUNs beyond these, for data that is dead and not collected yet.
    pub over_provisioned_luns: u32,
}

/// What the monitor says about an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationReport {
    /// Its name.
    pub name: String,
    /// LUNs that it has in all.
    pub luns: u32,
    /// How many of these are over-provisioning.
    pub over_provisioned_luns: u32,
    /// Blocks that lie in a spare one.
    pub replaced_blocks: u32,
    /// Resets of all its blocks together, since the device was new.
    pub erases: u64,
}

/// Shares a flash device among applications.
pub struct Monitor<D> {
    shared: Arc<Shared<D>>,
}

impl<D: FlashDevice> Monitor<D> {
    /// Takes over a device that no monitor has. What it holds is erased as its LUNs are given
    /// away.
    ///
    /// # Errors
    /// `Config` if there is a monitor's table already, or if nothing is left of a LUN; `Io`.
    pub fn format(device: D, options: MonitorOptions) -> Result<Self> {
        let (mut logs, found) = find(&device)?;
        if found.iter().any(Option::is_some) {
            let message = "the flash device has a monitor's table already; open it";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let table = Table {
            spare_blocks: options.spare_blocks,
            holdings: Vec::new(),
            replaced: BTreeMap::new(),
        };
        let geometry = device.geometry();
        let visible = table.visible_blocks(geometry).ok_or_else(|| {
            let message = format!(
                "{} spare blocks and three more leave none of the {} blocks of a LUN; use fewer",
                options.spare_blocks, geometry.blocks
            );
            Error::new(ErrorKind::Config, message)
        })?;
        write(&device, &mut logs, options.id, 1, &table)?;
        Ok(Self::with(device, options.id, visible, State::new(table, 1, logs)))
    }

    /// Opens the monitor of a device.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Unsupported`, `Corruption` if its table cannot be read;
    /// `Io`.
    pub fn open(device: D) -> Result<Self> {
        let (mut logs, found) = find(&device)?;
        let sequences: Vec<Option<u64>> =
            found.iter().map(|found| found.as_ref().map(|found| found.sequence)).collect();
        let newest = found.into_iter().flatten().max_by_key(|found| found.sequence);
        let Some(newest) = newest else {
            let message = "no flash monitor's table is on the device; format it first";
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        // What was read may have been written and not synced by a process that died.
        device.sync()?;
        let mut sequence = newest.sequence;
        if sequences.iter().any(|found| *found != Some(sequence)) {
            sequence += 1;
            write(&device, &mut logs, newest.monitor, sequence, &newest.table)?;
        }
        let visible = newest.table.visible_blocks(device.geometry()).expect("a checked table");
        Ok(Self::with(device, newest.monitor, visible, State::new(newest.table, sequence, logs)))
    }

    fn with(device: D, id: u64, visible: u32, state: State) -> Self {
        Monitor { shared: Arc::new(Shared::new(device, id, visible, state)) }
    }

    /// Gives LUNs to a new application and opens it. Erases them first, all LUNs side by side.
    ///
    /// # Errors
    /// `Config` if the name is taken or impossible, or if no LUNs are asked for; `Full`, with the
    /// number that is free; `Io`.
    pub fn create(&self, name: &str, space: Space) -> Result<Application<D>> {
        let refuse = |kind, message: String| Err(Error::new(kind, message));
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let message = format!("a flash application's name has 1 to {NAME_BYTES_MAX} bytes");
            return refuse(ErrorKind::Config, message);
        }
        let wanted = space.luns.checked_add(space.over_provisioned_luns);
        let Some(wanted) = wanted.filter(|_| space.luns > 0) else {
            let message = format!("the flash application '{name}' asks for no LUNs");
            return refuse(ErrorKind::Config, message);
        };
        let mut state = self.shared.state();
        if state.table.holdings.iter().any(|holding| holding.name == name) {
            let message = format!("there is a flash application '{name}' already; open it");
            return refuse(ErrorKind::Config, message);
        }
        let mut table = state.table.clone();
        let channels = self.deal(&mut table, name, wanted)?;
        let channels = channels.into_iter().filter(|luns| !luns.is_empty()).collect();
        let (name, over_provisioned) = (name.to_string(), space.over_provisioned_luns);
        let holding = Holding { name, over_provisioned, channels };
        table.holdings.push(holding.clone());
        self.shared.device.sync()?;
        self.shared.keep(&mut state, table)?;
        Ok(self.opened(&mut state, &holding))
    }

    /// Finds `wanted` free LUNs and erases them. What stands in for bad blocks goes into `table`.
    fn deal(&self, table: &mut Table, name: &str, wanted: u32) -> Result<Vec<Vec<u32>>> {
        let mut erases = self.free_luns(table)?;
        loop {
            let free = erases.iter().flatten().count();
            let Some(channels) = deal(self.shared.device.geometry(), &erases, wanted) else {
                let message = format!(
                    "the flash application '{name}' asks for {wanted} LUNs, and {free} are free"
                );
                return Err(Error::new(ErrorKind::Full, message));
            };
            // A LUN that lacks spare blocks is passed over.
            match self.shared.prepare(table, channels.iter().flatten().copied())? {
                None => return Ok(channels),
                Some(lacking) => erases[lacking as usize] = None,
            }
        }
    }

    fn opened(&self, state: &mut State, holding: &Holding) -> Application<D> {
        let slots = slots(holding);
        state.open.insert(holding.name.clone(), slots.clone());
        Application::new(self.shared.clone(), holding, slots)
    }

    /// Opens an application.
    ///
    /// # Errors
    /// `NotFound`; `Locked` if it is open.
    pub fn application(&self, name: &str) -> Result<Application<D>> {
        let mut state = self.shared.state();
        let holding = state.closed_holding(name)?.clone();
        Ok(self.opened(&mut state, &holding))
    }

    /// Ends an application: its LUNs are free, and what it wrote is out of reach.
    ///
    /// # Errors
    /// `NotFound`; `Locked` if it is open; `Io`.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.shared.state();
        state.closed_holding(name)?;
        let mut table = state.table.clone();
        table.holdings.retain(|holding| holding.name != name);
        self.shared.keep(&mut state, table)
    }

    /// Gives more LUNs to an application. Its addresses stay; new LUNs are the last of their
    /// channels, and new channels are the last ones.
    ///
    /// # Errors
    /// `NotFound`; `Locked` if it is open; `Full`, with the number that is free; `Io`.
    pub fn grow(&self, name: &str, more: Space) -> Result<()> {
        let mut state = self.shared.state();
        state.closed_holding(name)?;
        let mut table = state.table.clone();
        let wanted = more.luns.saturating_add(more.over_provisioned_luns);
        let dealt = self.deal(&mut table, name, wanted)?;
        let luns = self.shared.device.geometry().luns;
        let number = state.number_of(name)?;
        let holding = &mut table.holdings[number];
        for (channel, more) in (0..).zip(dealt).filter(|(_, more)| !more.is_empty()) {
            match holding.channels.iter_mut().find(|own| own[0] / luns == channel) {
                Some(own) => own.extend(more),
                None => holding.channels.push(more),
            }
        }
        holding.over_provisioned += more.over_provisioned_luns;
        self.shared.device.sync()?;
        self.shared.keep(&mut state, table)
    }

    /// Takes LUNs from an application: each time the last one of the channel that has most of
    /// them, of several the last channel. The application has reset all their blocks before, so
    /// that nothing is lost.
    ///
    /// # Errors
    /// `NotFound`; `Locked` if it is open; `Config` if it has not that many, or if a block of
    /// theirs has pages, which the message names; `Io`.
    pub fn shrink(&self, name: &str, less: Space) -> Result<()> {
        let mut state = self.shared.state();
        state.closed_holding(name)?;
        let mut table = state.table.clone();
        let number = state.number_of(name)?;
        let holding = &mut table.holdings[number];
        let count = less.luns.saturating_add(less.over_provisioned_luns);
        let has = holding.luns().count() as u32;
        if count >= has || less.over_provisioned_luns > holding.over_provisioned {
            let message = format!(
                "the flash application '{name}' has {has} LUNs, {} of them over-provisioning; it \
                 keeps one at least",
                holding.over_provisioned
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        for _ in 0..count {
            let most = (0..holding.channels.len()).max_by_key(|c| holding.channels[*c].len());
            let channel = most.expect("it has LUNs");
            let lun = holding.channels[channel].pop().expect("the channel has most LUNs");
            for block in 0..self.shared.visible {
                if self.shared.device.block(self.shared.place(lun, block))?.written > 0 {
                    let own = BlockAddress {
                        channel: channel as u16,
                        lun: holding.channels[channel].len() as u16,
                        block,
                    };
                    let message = format!(
                        "{own} of the flash application '{name}' has pages; reset all blocks of \
                         its LUN before that is taken away"
                    );
                    return Err(Error::new(ErrorKind::Config, message));
                }
            }
            if holding.channels[channel].is_empty() {
                holding.channels.remove(channel);
            }
        }
        holding.over_provisioned -= less.over_provisioned_luns;
        self.shared.keep(&mut state, table)
    }

    /// Levels the wear of the device: if the hottest LUN that an application has and the coldest
    /// of all LUNs are at least `threshold` mean erases of a block apart, they trade places.
    /// Applications may be open; their addresses stay. Operations on a LUN wait while it is
    /// copied, and it is not moved while some are under way. Erase counts of its blocks are those
    /// of its new place.
    ///
    /// # Errors
    /// `Io`, `Closed`: the LUN lies where it was.
    pub fn level_wear(&self, threshold: u64) -> Result<WearLevelling> {
        wear::level(&self.shared, &mut self.shared.state(), threshold)
    }

    /// What each application has.
    ///
    /// # Errors
    /// `Closed` if the device lost power.
    pub fn report(&self) -> Result<Vec<ApplicationReport>> {
        let table = self.shared.state().table.clone();
        let report = |holding: &Holding| -> Result<ApplicationReport> {
            let luns: BTreeSet<u32> = holding.luns().collect();
            let mut erases = 0;
            for lun in &luns {
                erases += self.shared.lun_erases(*lun)?;
            }
            let replaced = table.replaced.keys().filter(|(lun, _)| luns.contains(lun)).count();
            Ok(ApplicationReport {
                name: holding.name.clone(),
                luns: luns.len() as u32,
                over_provisioned_luns: holding.over_provisioned,
                replaced_blocks: replaced as u32,
                erases,
            })
        };
        table.holdings.iter().map(report).collect()
    }

    /// LUNs that no application has.
    pub fn free_lun_count(&self) -> u32 {
        let state = self.shared.state();
        let given: usize = state.table.holdings.iter().map(|holding| holding.luns().count()).sum();
        self.shared.device.geometry().lun_count() - given as u32
    }

    /// The device below.
    pub fn device(&self) -> &D {
        &self.shared.device
    }

    /// By LUN how often its blocks were reset, if it is free.
    fn free_luns(&self, table: &Table) -> FlashResult<Vec<Option<u64>>> {
        let given = table.given();
        (0..self.shared.device.geometry().lun_count())
            .map(|lun| match given.contains(&lun) {
                true => Ok(None),
                false => self.shared.lun_erases(lun).map(Some),
            })
            .collect()
    }
}

/// Finds the newest record of each table area.
fn find<D: FlashDevice>(
    device: &D,
) -> Result<(Vec<TableLog>, Vec<Option<crate::table_log::Found>>)> {
    let geometry = device.geometry();
    let mut logs: Vec<TableLog> = match geometry.blocks > crate::table::AREA_BLOCKS {
        true => {
            Table::area_luns(geometry).iter().map(|lun| TableLog::new(geometry, *lun)).collect()
        }
        false => Vec::new(),
    };
    let found: Result<Vec<_>> = logs.iter_mut().map(|log| log.find(device)).collect();
    Ok((logs, found?))
}
