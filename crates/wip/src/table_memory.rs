//! What open tables take of the memory.

use silica_device::DeviceFile;
use silica_parts::table::Table;

/// What an open table takes. It is asked for after every job, and tables are many and lie apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableMemory {
    pub(crate) number: u64,
    /// All of it.
    pub(crate) bytes: u64,
    /// Of its filter: in memory, or not there.
    pub(crate) loaded_bytes: u64,
    pub(crate) lacking_bytes: u64,
    pub(crate) versions: u64,
}

impl TableMemory {
    pub(crate) fn of<F: DeviceFile>(number: u64, table: &Table<F>) -> Self {
        TableMemory {
            number,
            bytes: table.memory_bytes() as u64,
            loaded_bytes: table.loaded_filter_bytes() as u64,
            lacking_bytes: if table.lacks_filter() { table.filter_bytes() as u64 } else { 0 },
            versions: table.footer().versions,
        }
    }
}
