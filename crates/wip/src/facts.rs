//! What is known of the tables of a bucket's version, found once.

use crate::run::Run;
use crate::table_writer::whole;
use silica_device::Device;

/// A part that does not see its whole table.
pub(crate) struct Clipped {
    pub(crate) table: u64,
    /// Bytes that the part sees, and all of the table's blocks.
    pub(crate) seen_bytes: u64,
    pub(crate) bytes: u64,
}

/// What is known of a version's tables.
pub(crate) struct Facts {
    pub(crate) clipped: Vec<Clipped>,
    /// Some entries expire.
    pub(crate) expires: bool,
}

impl Facts {
    pub(crate) fn of<D: Device>(runs: &[Run<D>]) -> Self {
        let parts = || runs.iter().flatten();
        let clipped = parts().filter_map(|part| {
            let (seen_bytes, bytes) = (part.bytes(), whole(part.table.clone(), 0, 0).bytes());
            let table = part.table.number;
            (seen_bytes < bytes).then_some(Clipped { table, seen_bytes, bytes })
        });
        let expires = parts().any(|part| part.table.table.expiries().is_some());
        Facts { clipped: clipped.collect(), expires }
    }
}
