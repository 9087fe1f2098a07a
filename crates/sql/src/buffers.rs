//! Memory of cursors, which a connection keeps for the next ones.

use crate::encoding::Column;
use silica::engine::EntryBurst;

/// Memory of cursors that is kept for the next ones: a statement opens its cursors anew each time
/// that it runs.
pub(crate) const BUFFERS_MAX: usize = 8;
/// Larger ones are given back.
pub(crate) const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Memory of a cursor.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) key: Vec<u8>,
    pub(crate) record: Vec<u8>,
    pub(crate) written: Vec<u8>,
    pub(crate) columns: Vec<Column>,
    pub(crate) burst: EntryBurst,
}
