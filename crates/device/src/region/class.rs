//! What a region's flush and fence are worth.

use std::fmt;

/// What survives. A fact about the medium, found out when a region is opened; its user decides
/// what to promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionClass {
    /// Persistent memory, mapped so that lines go to it directly: what was fenced survives a
    /// power cut. A fence costs the write-back of the lines.
    Lines,
    /// A file on a disk: everything survives the process. Of a power cut, only what
    /// [`super::Region::sync`] returned for and nobody stored to since. The kernel writes pages
    /// whenever it likes, in any order and mixture, so a fence only orders.
    Pages,
    /// A file in memory: everything survives the process, nothing a power cut. A fence only
    /// orders.
    Process,
}

impl RegionClass {
    /// True if what was flushed and fenced survives a power cut.
    pub fn survives_power_cut(self) -> bool {
        matches!(self, RegionClass::Lines)
    }

    /// Its name in reports: `power`, `process` or `buffered`.
    pub fn name(self) -> &'static str {
        match self {
            RegionClass::Lines => "power",
            RegionClass::Pages => "buffered",
            RegionClass::Process => "process",
        }
    }
}

impl fmt::Display for RegionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RegionClass::Lines => "a power cut (persistent memory)",
            RegionClass::Pages => "the process, and a power cut only after a clean close (a disk)",
            RegionClass::Process => "the process, and no power cut (memory)",
        })
    }
}
