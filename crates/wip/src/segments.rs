//! The log's segments: made ahead of need, and let go.

use crate::state::Edit;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_parts::wal::POSITION_BYTES;

impl<D: Device> Wip<D> {
    /// Has the log's next segment made before a writer needs it, and little left to sync then.
    pub(crate) fn attend_log(&self) -> Result<()> {
        let register = |number| self.edit(&[Edit::LogSegment(number)]);
        // While room is short it is left to what frees some, and to the writer who needs a segment.
        if self.log.attend(!self.is_short_of_space(), &|| self.sync_log(), &register)? {
            // The log takes a segment more.
            self.share_memory(false);
        }
        Ok(())
    }

    /// The same by a writer, with the writer not locked, where it cannot wait.
    pub(crate) fn sync_before_end(&self) -> Result<()> {
        self.log.sync_before_end(&|| self.sync_log())
    }

    /// Lets go of log segments that no bucket needs.
    pub(crate) fn release_log(&self) -> Result<()> {
        // In this order: what is written meanwhile lies behind. With the writer locked, since what
        // is in the log and in no memtable yet counts as unflushed, too.
        let writer = self.writer.lock().expect("no panic while held");
        let end = self.log.end() / POSITION_BYTES;
        drop(writer);
        let guard = self.lock_install();
        let gone = self.log.release_below(self.needed_from(end));
        let Some(last) = gone.last() else { return Ok(()) };
        self.edit(&[Edit::ReleaseLog(last.number + 1)])?;
        drop(guard);
        // Who keeps files, for a checkpoint, has the segments and asks for none by its name.
        self.log.retire(gone, !self.is_short_of_space());
        Ok(())
    }
}
