//! Zones that take resources of the drive: as many are open and active as it allows, by our count.
//!
//! A zone that was not written to for longest is closed if another one is to be opened. No zone is
//! finished for another: that takes pages from whoever holds its block. If as many zones are
//! active as the drive allows, the caller is told, and finishes or resets one that it can spare.

use super::{ZoneAction, ZoneCondition, Zones, carry_out, look_at};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Zones of the ledger that may be open beside those of blocks.
pub(super) const OF_LEDGER: u32 = 2;

#[derive(Debug, Default)]
struct Uses {
    /// Open zones: when each was used last, and whether it is being written to.
    open: BTreeMap<u32, (u64, bool)>,
    active: BTreeSet<u32>,
    uses: u64,
    closed: u64,
}

/// The zones of blocks that are open or active.
#[derive(Debug)]
pub(super) struct InUse {
    uses: Mutex<Uses>,
    is_free: Condvar,
    open_max: usize,
    active_max: usize,
}

/// Why a zone cannot be written to.
#[derive(Debug)]
pub(super) enum Refused {
    /// As many zones are active as the drive allows.
    TooManyActive,
    Io(io::Error),
}

impl InUse {
    /// Room for what a drive with these limits allows beside its ledger; 0 is no limit.
    pub(super) fn new(open_max: u32, active_max: u32, active: BTreeSet<u32>) -> Self {
        let room = |max: u32| match max {
            0 => usize::MAX,
            max => max.saturating_sub(OF_LEDGER).max(1) as usize,
        };
        InUse {
            uses: Mutex::new(Uses { active, ..Uses::default() }),
            is_free: Condvar::new(),
            // An open zone is active, too.
            open_max: room(open_max).min(room(active_max)),
            active_max: room(active_max),
        }
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().expect("no panic while locked")
    }

    /// Opens a zone for a write, which ends with [`InUse::end`]. Waits while as many zones are
    /// being written to as may be open.
    pub(super) fn begin(&self, drive: &impl Zones, zone: u32) -> Result<(), Refused> {
        let mut uses = self.uses();
        if !uses.active.contains(&zone) && uses.active.len() >= self.active_max {
            return Err(Refused::TooManyActive);
        }
        while !uses.open.contains_key(&zone) && uses.open.len() >= self.open_max {
            let idle = uses.open.iter().filter(|(_, (_, is_busy))| !is_busy);
            let longest = idle.min_by_key(|(_, (used, _))| *used).map(|(zone, _)| *zone);
            let Some(longest) = longest else {
                uses = self.is_free.wait(uses).expect("no panic while locked");
                continue;
            };
            carry_out(drive, ZoneAction::Close, longest).map_err(Refused::Io)?;
            uses.open.remove(&longest);
            uses.closed += 1;
        }
        if !uses.open.contains_key(&zone) {
            carry_out(drive, ZoneAction::Open, zone).map_err(Refused::Io)?;
        }
        uses.uses += 1;
        let used = uses.uses;
        uses.open.insert(zone, (used, true));
        uses.active.insert(zone);
        Ok(())
    }

    /// Ends a write to a zone, which takes more if it is not full.
    pub(super) fn end(&self, zone: u32, is_full: bool) {
        let mut uses = self.uses();
        if let Some((_, is_busy)) = uses.open.get_mut(&zone) {
            *is_busy = false;
        }
        if is_full {
            uses.open.remove(&zone);
            uses.active.remove(&zone);
        }
        drop(uses);
        self.is_free.notify_all();
    }

    /// Zones that were closed for others.
    pub(super) fn closed(&self) -> u64 {
        self.uses().closed
    }
}

/// Closes a zone that an earlier opening left open; returns true if it stays active. One that was
/// opened and never written to is reset: some drives count it as active once it is closed.
pub(super) fn settle(drive: &impl Zones, zone: u32) -> io::Result<bool> {
    let now = look_at(drive, zone)?;
    let action = match now.condition {
        _ if now.is_active() && now.written() == 0 => ZoneAction::Reset,
        ZoneCondition::Open => ZoneAction::Close,
        _ => return Ok(now.is_active()),
    };
    Ok(carry_out(drive, action, zone)?.is_active())
}
