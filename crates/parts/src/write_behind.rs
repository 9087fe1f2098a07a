//! Files that are written from front to back: while one buffer is on its way to the device, the
//! next one is filled.

use silica_base::{AlignedBuf, Result};
use silica_device::{DeviceFile, Transfer};

/// A file and the one write of it that may be under way. After an error the file is of no more use.
pub struct WriteBehind<F: DeviceFile> {
    file: F,
    under_way: Option<F::Transfer>,
}

impl<F: DeviceFile> WriteBehind<F> {
    /// Writes to `file`.
    pub fn new(file: F) -> Self {
        WriteBehind { file, under_way: None }
    }

    /// True where [`WriteBehind::write`] would wait for the write before.
    pub fn would_wait(&self) -> bool {
        self.under_way.as_ref().is_some_and(|write| !write.is_done())
    }

    /// Has `buf` written at `offset` while the caller goes on, as soon as what was written before
    /// is; a buffer for what comes next, whose bytes may be any. An error may be of the write
    /// before.
    pub fn write(&mut self, offset: u64, buf: AlignedBuf) -> Result<AlignedBuf> {
        let spare = self.settled()?.unwrap_or_else(|| AlignedBuf::zeroed(0));
        self.under_way = Some(self.file.begin_write(offset, buf));
        Ok(spare)
    }

    /// Waits for the write that is under way; its buffer.
    fn settled(&mut self) -> Result<Option<AlignedBuf>> {
        let Some(write) = self.under_way.take() else { return Ok(None) };
        let (buf, written) = write.wait();
        written.map(|_| Some(buf))
    }

    /// Has `buf`, the end of the file, written at `offset` and all of it made durable while the
    /// caller goes on; the buffer of the write before, if there was one.
    pub fn write_last(&mut self, offset: u64, buf: AlignedBuf) -> Result<Option<AlignedBuf>> {
        let spare = self.settled()?;
        self.under_way = Some(self.file.begin_write_and_sync(offset, buf));
        Ok(spare)
    }

    /// Waits until the file is durable, and the buffer of its end.
    ///
    /// # Panics
    /// Where the end was not written.
    pub fn into_file(mut self) -> Result<(F, AlignedBuf)> {
        let buf = self.settled()?.expect("the end was written");
        Ok((self.file, buf))
    }
}
