//! The simulated twin of a drive with zones, with the manners of several drivers.
//!
//! A power cut takes bytes that were not flushed from the end of each zone, in whole granules, and
//! may take back a reset that was not flushed; the seed chooses. Writes can be made to stop short
//! ([`SimZones::tear_write`]), zones to be given up ([`SimZones::give_up`]), and actions to be
//! answered wrongly ([`ZoneManner::lies`]): only a report tells the truth.

use crate::blocks::{Zone, ZoneAction, ZoneCondition, ZoneKind, ZoneLimits, Zones};
use rustix::io::Errno;
use silica_base::Prng;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What drivers do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneManner {
    /// Error number of a write that is not at the pointer.
    pub off_pointer: i32,
    /// Bytes that the pointer of a full zone stands behind its start: those of the zone (true), or
    /// its capacity.
    pub points_to_end: bool,
    /// Closing a zone without bytes, and one that is not open, succeeds.
    pub closes_anything: bool,
    /// A zone that was opened and closed without bytes is closed, not empty.
    pub closes_to_closed: bool,
    /// Finishing a zone without bytes succeeds.
    pub finishes_empty: bool,
    /// One in so many actions is answered wrongly: one that was done by an error, one that was not
    /// done by success; 0 for none.
    pub lies: u64,
}

impl ZoneManner {
    /// NVMe drives, as QEMU 7.2 emulates them under Linux 6.1 (docs/flash.md).
    pub const NVME: ZoneManner = ZoneManner {
        off_pointer: Errno::IO.raw_os_error(),
        points_to_end: true,
        closes_anything: false,
        closes_to_closed: true,
        finishes_empty: true,
        lies: 0,
    };
    /// `null_blk` of Linux 6.1.
    pub const NULL_BLK: ZoneManner = ZoneManner { closes_to_closed: false, ..ZoneManner::NVME };
    /// `scsi_debug` of Linux 6.1.
    pub const SCSI_DEBUG: ZoneManner = ZoneManner {
        off_pointer: Errno::REMOTEIO.raw_os_error(),
        closes_anything: true,
        closes_to_closed: false,
        ..ZoneManner::NVME
    };
    /// A driver whose answers say nothing.
    pub const LIAR: ZoneManner =
        ZoneManner { points_to_end: false, finishes_empty: false, lies: 3, ..ZoneManner::NVME };
}

/// How a [`SimZones`] is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimZonesOptions {
    /// Conventional zones, before the others.
    pub conventional: u32,
    /// Zones that are written in order.
    pub sequential: u32,
    /// Bytes from the start of a zone to the start of the next.
    pub zone_bytes: u64,
    /// Bytes that a zone takes.
    pub capacity: u64,
    /// Bytes that the last zone takes.
    pub last_capacity: u64,
    /// Writes begin and end at multiples of this.
    pub granule: u32,
    /// Zones open at the same time at most; 0 for no limit.
    pub open_max: u32,
    /// Zones open or closed at the same time at most; 0 for no limit.
    pub active_max: u32,
    /// What the driver does.
    pub manner: ZoneManner,
}

#[derive(Debug, Clone)]
struct SimZone {
    kind: ZoneKind,
    condition: ZoneCondition,
    capacity: u64,
    bytes: Vec<u8>,
    /// Bytes that survive a power cut.
    certain: usize,
    /// What it had before a reset that was not flushed.
    before: Option<(ZoneCondition, Vec<u8>)>,
}

struct State {
    options: SimZonesOptions,
    zones: Vec<SimZone>,
    prng: Prng,
    /// Bytes that the next write to a zone carries out.
    tear: Option<(u32, usize)>,
    fails_flush: bool,
    refusals: u64,
    actions: u64,
}

/// A simulated drive with zones. Clones are the same drive.
#[derive(Clone)]
pub struct SimZones {
    state: Arc<Mutex<State>>,
    limits: ZoneLimits,
}

fn error(errno: Errno) -> io::Error {
    errno.into()
}

impl SimZone {
    fn is_open(&self) -> bool {
        self.condition == ZoneCondition::Open
    }

    fn is_active(&self) -> bool {
        matches!(self.condition, ZoneCondition::Open | ZoneCondition::Closed)
    }

    fn report(&self, number: u32, options: &SimZonesOptions) -> Zone {
        let pointer = match self.condition {
            ZoneCondition::Full if options.manner.points_to_end => options.zone_bytes,
            ZoneCondition::Full => self.capacity,
            // The kernel gives conventional zones and those given up none that means anything.
            ZoneCondition::NoPointer | ZoneCondition::ReadOnly | ZoneCondition::Offline => u64::MAX,
            _ => self.bytes.len() as u64,
        };
        let Self { kind, condition, capacity, .. } = *self;
        let start = u64::from(number) * options.zone_bytes;
        Zone { kind, condition, start, capacity, pointer }
    }

    fn lose_power(&mut self, prng: &mut Prng, granule: usize) {
        if let Some((condition, bytes)) = self.before.take()
            && self.certain == 0
            && prng.one_in(2)
        {
            (self.condition, self.certain, self.bytes) = (condition, bytes.len(), bytes);
            return;
        }
        let granules = (self.bytes.len() - self.certain) / granule;
        let kept = self.certain + granule * prng.below(granules as u64 + 1) as usize;
        let loses = kept < self.bytes.len();
        self.bytes.truncate(kept);
        self.certain = kept;
        self.condition = match self.condition {
            ZoneCondition::Open | ZoneCondition::Closed if kept == 0 => ZoneCondition::Empty,
            ZoneCondition::Full if loses && kept == 0 => ZoneCondition::Empty,
            ZoneCondition::Full if loses => ZoneCondition::Closed,
            ZoneCondition::Open => ZoneCondition::Closed,
            condition => condition,
        };
    }
}

impl State {
    /// Opens a zone for writing.
    fn open(&mut self, zone: u32) -> io::Result<()> {
        let SimZonesOptions { open_max, active_max, .. } = self.options;
        let count = |is: fn(&SimZone) -> bool| self.zones.iter().filter(|zone| is(zone)).count();
        let (open, active) = (count(SimZone::is_open) as u32, count(SimZone::is_active) as u32);
        let now = &mut self.zones[zone as usize];
        let refused = match now.condition {
            ZoneCondition::Open => return Ok(()),
            ZoneCondition::Empty | ZoneCondition::Closed if open_max > 0 && open >= open_max => {
                Errno::TOOMANYREFS
            }
            ZoneCondition::Empty if active_max > 0 && active >= active_max => Errno::OVERFLOW,
            ZoneCondition::Empty | ZoneCondition::Closed => {
                now.condition = ZoneCondition::Open;
                return Ok(());
            }
            _ => return Err(error(Errno::IO)),
        };
        self.refusals += 1;
        Err(error(refused))
    }

    fn act(&mut self, action: ZoneAction, zone: u32) -> io::Result<()> {
        let manner = self.options.manner;
        let now = &mut self.zones[zone as usize];
        match (action, now.condition) {
            (_, ZoneCondition::NoPointer | ZoneCondition::ReadOnly | ZoneCondition::Offline) => {
                Err(error(Errno::IO))
            }
            (ZoneAction::Open, _) => self.open(zone),
            (ZoneAction::Close, ZoneCondition::Open) => {
                let is_empty = now.bytes.is_empty();
                now.condition = if is_empty { ZoneCondition::Empty } else { ZoneCondition::Closed };
                Ok(())
            }
            (ZoneAction::Close, ZoneCondition::Closed) => Ok(()),
            (ZoneAction::Close, _) if manner.closes_anything => Ok(()),
            (ZoneAction::Close, _) => Err(error(Errno::IO)),
            (ZoneAction::Finish, ZoneCondition::Empty) if !manner.finishes_empty => {
                Err(error(Errno::IO))
            }
            (ZoneAction::Finish, _) => {
                now.condition = ZoneCondition::Full;
                Ok(())
            }
            (ZoneAction::Reset, _) => {
                if now.before.is_none() && now.certain > 0 {
                    let condition = match now.condition {
                        ZoneCondition::Full if now.certain == now.bytes.len() => {
                            ZoneCondition::Full
                        }
                        _ => ZoneCondition::Closed,
                    };
                    now.bytes.truncate(now.certain);
                    now.before = Some((condition, std::mem::take(&mut now.bytes)));
                }
                now.bytes.clear();
                (now.certain, now.condition) = (0, ZoneCondition::Empty);
                Ok(())
            }
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8], is_durable: bool) -> io::Result<()> {
        let SimZonesOptions { granule, zone_bytes, manner, .. } = self.options;
        let (zone, within) = ((at / zone_bytes) as u32, at % zone_bytes);
        let is_whole = |bytes: u64| bytes.is_multiple_of(u64::from(granule));
        if !is_whole(at) || !is_whole(bytes.len() as u64) || zone as usize >= self.zones.len() {
            return Err(error(Errno::INVAL));
        }
        let now = &self.zones[zone as usize];
        let is_at_pointer = within == now.bytes.len() as u64;
        let fits = within + bytes.len() as u64 <= now.capacity;
        if now.kind == ZoneKind::Conventional || !is_at_pointer || !fits {
            return Err(io::Error::from_raw_os_error(manner.off_pointer));
        }
        self.open(zone)?;
        let done = match self.tear.take_if(|(torn, _)| *torn == zone) {
            Some((_, done)) => done.min(bytes.len()) / granule as usize * granule as usize,
            None => bytes.len(),
        };
        let now = &mut self.zones[zone as usize];
        now.bytes.extend(&bytes[..done]);
        if now.bytes.len() as u64 == now.capacity {
            now.condition = ZoneCondition::Full;
        }
        if is_durable {
            (now.certain, now.before) = (now.bytes.len(), None);
        }
        if done < bytes.len() { Err(error(Errno::IO)) } else { Ok(()) }
    }
}

impl SimZones {
    /// An empty drive whose failures depend on `seed`.
    pub fn new(seed: u64, options: SimZonesOptions) -> Self {
        let SimZonesOptions { conventional, sequential, capacity, last_capacity, .. } = options;
        let count = conventional + sequential;
        let zone = |number: u32| {
            let is_conventional = number < conventional;
            let (kind, condition, capacity) = match is_conventional {
                true => (ZoneKind::Conventional, ZoneCondition::NoPointer, options.zone_bytes),
                false if number + 1 == count => {
                    (ZoneKind::Sequential, ZoneCondition::Empty, last_capacity)
                }
                false => (ZoneKind::Sequential, ZoneCondition::Empty, capacity),
            };
            SimZone { kind, condition, capacity, bytes: Vec::new(), certain: 0, before: None }
        };
        let limits = ZoneLimits {
            zones: count,
            zone_bytes: options.zone_bytes,
            granule: options.granule,
            open_max: options.open_max,
            active_max: options.active_max,
        };
        let state = State {
            options,
            zones: (0..count).map(zone).collect(),
            prng: Prng::new(seed),
            tear: None,
            fails_flush: false,
            refusals: 0,
            actions: 0,
        };
        SimZones { state: Arc::new(Mutex::new(state)), limits }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// Takes what was not flushed, or a part of it.
    pub fn power_cut(&self) {
        let state = &mut *self.state();
        let granule = state.options.granule as usize;
        let State { zones, prng, .. } = state;
        zones.iter_mut().for_each(|zone| zone.lose_power(prng, granule));
    }

    /// Lets the next write to a zone carry out `bytes` bytes at most and fail.
    pub fn tear_write(&self, zone: u32, bytes: usize) {
        self.state().tear = Some((zone, bytes));
    }

    /// Lets the next flush fail.
    pub fn fail_flush(&self) {
        self.state().fails_flush = true;
    }

    /// Gives a zone up, with its bytes or without.
    pub fn give_up(&self, zone: u32, keeps_bytes: bool) {
        let condition = if keeps_bytes { ZoneCondition::ReadOnly } else { ZoneCondition::Offline };
        self.state().zones[zone as usize].condition = condition;
    }

    /// Times that a zone could not be opened because of a limit.
    pub fn refusals(&self) -> u64 {
        self.state().refusals
    }
}

impl Zones for SimZones {
    fn name(&self) -> String {
        "a simulated drive".into()
    }

    fn limits(&self) -> &ZoneLimits {
        &self.limits
    }

    fn report(&self, first: u32, count: u32) -> io::Result<Vec<Zone>> {
        let state = self.state();
        let numbered = (0..).zip(&state.zones).skip(first as usize).take(count as usize);
        Ok(numbered.map(|(number, zone)| zone.report(number, &state.options)).collect())
    }

    fn manage(&self, action: ZoneAction, zone: u32) -> io::Result<()> {
        let mut state = self.state();
        state.actions += 1;
        let lies = state.options.manner.lies;
        let is_lie = lies > 0 && state.actions.is_multiple_of(lies);
        match state.act(action, zone) {
            Ok(()) if is_lie => Err(error(Errno::IO)),
            Err(_) if is_lie => Ok(()),
            told => told,
        }
    }

    fn write(&self, at: u64, bytes: &[u8], is_durable: bool) -> io::Result<()> {
        self.state().write(at, bytes, is_durable)
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let (zone, within) = (at / state.options.zone_bytes, at % state.options.zone_bytes);
        let zone = &state.zones[zone as usize];
        if zone.condition == ZoneCondition::Offline {
            return Err(error(Errno::IO));
        }
        // What was not written reads as zeroes, as on most drives.
        bytes.fill(0);
        let has = zone.bytes.get(within as usize..).unwrap_or(&[]);
        let read = has.len().min(bytes.len());
        bytes[..read].copy_from_slice(&has[..read]);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        if std::mem::take(&mut state.fails_flush) {
            return Err(error(Errno::IO));
        }
        for zone in &mut state.zones {
            (zone.certain, zone.before) = (zone.bytes.len(), None);
        }
        Ok(())
    }
}
