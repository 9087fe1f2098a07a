//! The kernel's calls for zones. All `unsafe` of zoned drives is in this file.
//!
//! Numbers and layouts are those of `linux/blkzoned.h`, the same on every architecture that has
//! the kernel's usual encoding of calls (x86-64 and aarch64 have).

use super::{SECTOR_BYTES, Zone, ZoneAction, ZoneCondition, ZoneKind};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const BLKREPORTZONE: u32 = 0xC010_1282;
const BLKRESETZONE: u32 = 0x4010_1283;
const BLKGETZONESZ: u32 = 0x8004_1284;
const BLKGETNRZONES: u32 = 0x8004_1285;
const BLKOPENZONE: u32 = 0x4010_1286;
const BLKCLOSEZONE: u32 = 0x4010_1287;
const BLKFINISHZONE: u32 = 0x4010_1288;

/// Flag of a report: its zones have capacities.
const HAS_CAPACITY: u32 = 1;
/// Zones of one call.
const AT_ONCE: usize = 1024;

/// `struct blk_zone`, in sectors.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawZone {
    start: u64,
    len: u64,
    pointer: u64,
    kind: u8,
    condition: u8,
    non_sequential: u8,
    wants_reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    padding: [u8; 24],
}

/// `struct blk_zone_report`, with room for its zones.
#[repr(C)]
struct RawReport {
    sector: u64,
    zones: u32,
    flags: u32,
    found: [RawZone; AT_ONCE],
}

/// `struct blk_zone_range`, in sectors.
#[repr(C)]
struct RawRange {
    sector: u64,
    sectors: u64,
}

const NOTHING: RawZone = RawZone {
    start: 0,
    len: 0,
    pointer: 0,
    kind: 0,
    condition: 0,
    non_sequential: 0,
    wants_reset: 0,
    reserved: [0; 4],
    capacity: 0,
    padding: [0; 24],
};

/// Makes a call whose argument is a `T`.
///
/// # Safety
/// The call `number` reads and writes no more than a `T`, and leaves it a valid one.
unsafe fn call<T>(file: &File, number: u32, argument: &mut T) -> io::Result<()> {
    let argument: *mut T = argument;
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the pointer is to a
    // `T` that nobody else sees; what the call does with it is upheld by the caller.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), number as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Bytes from the start of a zone to the start of the next; 0 if the device has no zones.
pub(super) fn zone_bytes(file: &File) -> io::Result<u64> {
    let mut sectors = 0_u32;
    // SAFETY: BLKGETZONESZ writes one u32.
    unsafe { call(file, BLKGETZONESZ, &mut sectors) }?;
    Ok(u64::from(sectors) * SECTOR_BYTES)
}

/// Zones of the device.
pub(super) fn zone_count(file: &File) -> io::Result<u32> {
    let mut zones = 0_u32;
    // SAFETY: BLKGETNRZONES writes one u32.
    unsafe { call(file, BLKGETNRZONES, &mut zones) }?;
    Ok(zones)
}

/// The zones from the one that has byte `at` on: as many as one call gives, `most` at most.
pub(super) fn report(file: &File, at: u64, most: usize) -> io::Result<Vec<Zone>> {
    let most = most.min(AT_ONCE);
    let (sector, zones) = (at / SECTOR_BYTES, most as u32);
    let mut report = Box::new(RawReport { sector, zones, flags: 0, found: [NOTHING; AT_ONCE] });
    // SAFETY: BLKREPORTZONE writes the header and at most as many zones as the header asks for,
    // which are no more than there is room for; any bytes are valid ones.
    unsafe { call(file, BLKREPORTZONE, &mut *report) }?;
    let found = &report.found[..most.min(report.zones as usize)];
    let has_capacity = report.flags & HAS_CAPACITY != 0;
    Ok(found.iter().map(|zone| meaning(zone, has_capacity)).collect())
}

/// Does something with the zone that begins at byte `start`.
pub(super) fn manage(file: &File, action: ZoneAction, start: u64, bytes: u64) -> io::Result<()> {
    let number = match action {
        ZoneAction::Open => BLKOPENZONE,
        ZoneAction::Close => BLKCLOSEZONE,
        ZoneAction::Finish => BLKFINISHZONE,
        ZoneAction::Reset => BLKRESETZONE,
    };
    let mut range = RawRange { sector: start / SECTOR_BYTES, sectors: bytes / SECTOR_BYTES };
    // SAFETY: these four calls read one range.
    unsafe { call(file, number, &mut range) }
}

/// What a zone of a report says. Numbers are those of `linux/blkzoned.h`.
fn meaning(zone: &RawZone, has_capacity: bool) -> Zone {
    let kind = if zone.kind == 1 { ZoneKind::Conventional } else { ZoneKind::Sequential };
    let condition = match zone.condition {
        0 => ZoneCondition::NoPointer,
        1 => ZoneCondition::Empty,
        2 | 3 => ZoneCondition::Open,
        4 => ZoneCondition::Closed,
        0xE => ZoneCondition::Full,
        0xD => ZoneCondition::ReadOnly,
        // What this release does not know is not written to.
        _ => ZoneCondition::Offline,
    };
    let capacity = if has_capacity { zone.capacity } else { zone.len };
    Zone {
        kind,
        condition,
        start: zone.start * SECTOR_BYTES,
        capacity: capacity * SECTOR_BYTES,
        // Drivers give conventional zones any pointer, the highest number among them.
        pointer: zone.pointer.saturating_sub(zone.start).saturating_mul(SECTOR_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_kernel() {
        assert_eq!(size_of::<RawZone>(), 64);
        assert_eq!(std::mem::offset_of!(RawZone, capacity), 32);
        assert_eq!(std::mem::offset_of!(RawReport, found), 16);
        assert_eq!(size_of::<RawRange>(), 16);
    }

    #[test]
    fn zones_mean_what_the_kernel_says() {
        let raw = RawZone { start: 8, len: 8, pointer: 11, kind: 2, condition: 4, ..NOTHING };
        let zone = meaning(&raw, false);
        assert_eq!((zone.kind, zone.condition), (ZoneKind::Sequential, ZoneCondition::Closed));
        assert_eq!((zone.start, zone.capacity, zone.pointer), (4096, 4096, 1536));
        let short = meaning(&RawZone { capacity: 6, condition: 0xE, ..raw }, true);
        assert_eq!((short.condition, short.capacity), (ZoneCondition::Full, 3072));
        let conventional = RawZone { pointer: u64::MAX, kind: 1, condition: 0, ..raw };
        assert_eq!(meaning(&conventional, true).kind, ZoneKind::Conventional);
        assert_eq!(
            meaning(&RawZone { condition: 9, ..raw }, true).condition,
            ZoneCondition::Offline
        );
        let before_its_start = RawZone { pointer: 0, ..raw };
        assert_eq!(meaning(&before_its_start, true).pointer, 0);
    }

    #[test]
    fn a_file_has_no_zones_and_says_so() {
        let file = tempfile::tempfile().unwrap();
        assert!(zone_bytes(&file).is_err());
        assert!(zone_count(&file).is_err());
        assert!(report(&file, 0, 1).is_err());
        assert!(manage(&file, ZoneAction::Reset, 0, 4096).is_err());
    }
}
