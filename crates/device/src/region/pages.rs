//! Pages of the file systems that regions lie on, and the class that follows from them.

use super::lines::WriteBack;
use super::mapping::Mapping;
use super::{RegionClass, XPLINE_BYTES};
use silica_base::{Error, ErrorKind, Result};
use std::fs::File;

/// Bytes of a page, the unit in which a file is mapped and its space is given back.
const PAGE_BYTES: u64 = 4096;
/// Magic numbers of file systems in memory (statfs(2)).
const TMPFS: u64 = 0x0102_1994;
const HUGETLBFS: u64 = 0x9584_58F6;

const _: () = assert!(PAGE_BYTES.is_multiple_of(XPLINE_BYTES));

/// Refuses a length that no region has.
pub(super) fn check_bytes(bytes: u64) -> Result<()> {
    if bytes > 0 && bytes.is_multiple_of(PAGE_BYTES) {
        return Ok(());
    }
    let message = format!("a region of {bytes} bytes cannot be; use a multiple of {PAGE_BYTES}");
    Err(Error::new(ErrorKind::Config, message))
}

/// What kind of file system a file lies on; 0 if the kernel does not say.
fn file_system(file: &File) -> u64 {
    rustix::fs::fstatfs(file).map_or(0, |found| found.f_type as u64)
}

/// Bytes of the pages that a file consists of.
pub(super) fn page_bytes(file: &File) -> u64 {
    match rustix::fs::fstatfs(file) {
        Ok(found) if found.f_type as u64 == HUGETLBFS => found.f_bsize as u64,
        _ => PAGE_BYTES,
    }
}

pub(super) fn class_of_file(file: &File, page_bytes: u64) -> RegionClass {
    if [TMPFS, HUGETLBFS].contains(&file_system(file)) {
        return RegionClass::Process;
    }
    let can_flush = !WriteBack::available().is_empty();
    match can_flush && Mapping::can_sync(file, page_bytes) {
        true => RegionClass::Lines,
        false => RegionClass::Pages,
    }
}
