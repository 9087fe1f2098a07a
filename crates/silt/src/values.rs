//! Values that are too large for a slot: the engine's side of the value log.

use crate::entry::Frame;
use crate::silt::Silt;
use crate::state::StoreState;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::Checkpoint;

impl<D: Device> Silt<D> {
    pub(crate) fn store_value(&self, _key: &[u8], _value: &[u8]) -> Result<Vec<u8>> {
        Err(Error::new(ErrorKind::Unsupported, "no value log"))
    }
    pub(crate) fn load_value(&self, _frame: &Frame<'_>) -> Result<Vec<u8>> {
        Err(Error::new(ErrorKind::Unsupported, "no value log"))
    }
    pub(crate) fn note_dead_pointer(&self, _pointer: &[u8]) {}
    pub(crate) fn sync_values(&self) -> Result<()> {
        Ok(())
    }
    pub(crate) fn clear_values(&self) -> Result<()> {
        Ok(())
    }
    pub(crate) fn checkpoint_values(
        &self,
        _state: &StoreState,
        _target: &mut dyn Checkpoint,
    ) -> Result<()> {
        Ok(())
    }
    pub(crate) fn step_value_log(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    pub(crate) fn value_log_live_bytes(&self) -> u64 {
        0
    }
    pub(crate) fn value_log_bytes(&self) -> u64 {
        0
    }
}
