//! What a store writes down besides its table files: the log, the value log, and the manifest that
//! names all files.

use crate::state::StoreState;
use silica_device::Device;
use silica_parts::frame::Frame;
use silica_parts::store_log::StoreLog;

/// See the module's documentation.
pub(crate) type Journal<D> = StoreLog<D, StoreState>;

/// Counts the value of an overwritten frame as garbage.
pub(crate) fn note_dead_value<D: Device>(journal: &Journal<D>, frame: &Frame<'_>) {
    if frame.is_pointer() {
        journal.values.note_dead_at(frame.value);
    }
}
