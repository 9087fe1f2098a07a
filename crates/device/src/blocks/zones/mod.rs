//! Drives with zones: what a kernel lets a program do with one, and flash made of it.
//!
//! [`Zones`] is the drive: [`KernelZones`] the one behind a path, and [`crate::sim::SimZones`] its
//! twin, with the manners of several drivers. [`ZonedFlash`] is a [`super::FlashDevice`] on either.
//!
//! Obligations of a drive:
//!
//! 1. A sequential zone takes bytes at its pointer only, in whole granules, up to its capacity.
//! 2. Whether an action was carried out is what [`Zones::report`] says afterwards. The result of
//!    the action says nothing certain: drivers differ in what they refuse, in error numbers, and
//!    in the pointer of a zone that is full.
//! 3. After [`Zones::flush`] returned `Ok`, bytes that were written before survive a power cut.

mod flash;
mod in_use;
mod ioctl;
mod kernel;
mod ledger;

pub use flash::{ZonedFlash, ZonesSummary};
pub use kernel::KernelZones;

use std::io;

/// Bytes of a sector, in which the kernel counts whatever the drive's blocks are.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// How the zones of a drive are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneKind {
    /// Anywhere, as often as wanted; it has no pointer.
    Conventional,
    /// At the pointer only.
    Sequential,
}

/// What a zone takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneCondition {
    /// Conventional.
    NoPointer,
    /// Sequential, without bytes.
    Empty,
    /// It holds resources of the drive for writing: opened by a write or an action.
    Open,
    /// It has bytes and takes more, without resources for writing.
    Closed,
    /// It takes no more bytes until it is reset.
    Full,
    /// The drive gave it up; bytes that it has may be read.
    ReadOnly,
    /// The drive gave it up, bytes included.
    Offline,
}

/// One zone of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// How it is written.
    pub kind: ZoneKind,
    /// What it takes.
    pub condition: ZoneCondition,
    /// Where it begins on the drive, in bytes.
    pub start: u64,
    /// Bytes that can be written, counted from its start.
    pub capacity: u64,
    /// Bytes behind the start at which the next write goes. Means nothing in a zone that is full,
    /// given up or conventional.
    pub pointer: u64,
}

impl Zone {
    /// Bytes that were written from the start on, as far as the drive tells. A full zone may have
    /// been finished with fewer.
    pub(crate) fn written(&self) -> u64 {
        match self.condition {
            ZoneCondition::Empty | ZoneCondition::Offline => 0,
            ZoneCondition::Open | ZoneCondition::Closed => self.pointer.min(self.capacity),
            ZoneCondition::Full | ZoneCondition::ReadOnly | ZoneCondition::NoPointer => {
                self.capacity
            }
        }
    }

    /// True if the drive counts it among its active zones.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.condition, ZoneCondition::Open | ZoneCondition::Closed)
    }

    /// True if the drive gave it up.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.condition, ZoneCondition::ReadOnly | ZoneCondition::Offline)
    }
}

/// What can be done with a whole zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneAction {
    /// Gives it resources for writing.
    Open,
    /// Takes them back.
    Close,
    /// Makes it full.
    Finish,
    /// Makes it empty.
    Reset,
}

impl ZoneAction {
    /// True if a zone in this condition is as the action leaves it.
    pub(crate) fn is_done(self, condition: ZoneCondition) -> bool {
        match self {
            ZoneAction::Open => condition == ZoneCondition::Open,
            ZoneAction::Close => condition != ZoneCondition::Open,
            ZoneAction::Finish => condition == ZoneCondition::Full,
            ZoneAction::Reset => condition == ZoneCondition::Empty,
        }
    }
}

/// How a drive is divided, and what it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Zones of the drive, conventional ones included.
    pub zones: u32,
    /// Bytes from the start of a zone to that of the next.
    pub zone_bytes: u64,
    /// Writes begin and end at multiples of this.
    pub granule: u32,
    /// Zones open at the same time at most; 0 for no limit.
    pub open_max: u32,
    /// Zones open or closed at the same time at most; 0 for no limit.
    pub active_max: u32,
}

/// A drive of zones. Its obligations stand at the top of the module.
pub trait Zones: Send + Sync + 'static {
    /// What it is called in messages.
    fn name(&self) -> String;
    /// How it is divided.
    fn limits(&self) -> &ZoneLimits;
    /// States of `count` zones from zone `first` on, or of as many as there are.
    ///
    /// # Errors
    /// Those of the system.
    fn report(&self, first: u32, count: u32) -> io::Result<Vec<Zone>>;
    /// Does something with a zone.
    ///
    /// # Errors
    /// Those of the system, which may be wrong either way: look at [`Zones::report`].
    fn manage(&self, action: ZoneAction, zone: u32) -> io::Result<()>;
    /// Writes whole granules at byte `at` of the drive. With `is_durable` they survive a power cut
    /// once this returned.
    ///
    /// # Errors
    /// Those of the system; some of the bytes may be there then.
    fn write(&self, at: u64, bytes: &[u8], is_durable: bool) -> io::Result<()>;
    /// Reads whole granules.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Makes all that was written survive a power cut.
    ///
    /// # Errors
    /// Those of the system.
    fn flush(&self) -> io::Result<()>;
}

/// State of one zone.
pub(crate) fn look_at(zones: &impl Zones, zone: u32) -> io::Result<Zone> {
    let found = zones.report(zone, 1)?.into_iter().next();
    found.ok_or_else(|| io::Error::other(format!("{} reports no zone {zone}", zones.name())))
}

/// Does something with a zone and looks whether it was done. Returns the zone afterwards.
pub(crate) fn carry_out(zones: &impl Zones, action: ZoneAction, zone: u32) -> io::Result<Zone> {
    let told = zones.manage(action, zone);
    let now = look_at(zones, zone)?;
    if action.is_done(now.condition) {
        return Ok(now);
    }
    let refused = || {
        let is = now.condition;
        io::Error::other(format!("{action:?} of zone {zone} was accepted and left it {is:?}"))
    };
    Err(told.err().unwrap_or_else(refused))
}
