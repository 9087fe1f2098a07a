//! Reading a record by a queue of reads, together with others.

use super::log::SegmentOf;
use super::segment::{Pointer, RECORD_HEADER_BYTES, Segment};
use silica_base::{BLOCK_BYTES, Error, Result};
use silica_device::{Device, DeviceFile};
use std::sync::Arc;

/// A record that is to be read: which bytes of which file, and what they have to be.
///
/// Who has it can read the value, even where the segment is reclaimed meanwhile.
pub struct RecordRead<F> {
    segment: Arc<Segment<F>>,
    file: Arc<F>,
    pointer: Pointer,
}

impl<F> AsRef<F> for RecordRead<F> {
    fn as_ref(&self) -> &F {
        &self.file
    }
}

impl<F: DeviceFile> RecordRead<F> {
    pub(super) fn new<D: Device<File = F>>(
        segment: Arc<SegmentOf<D>>,
        pointer: Pointer,
        key: &[u8],
    ) -> Result<Self> {
        segment.value_len(&pointer, key)?;
        let file = segment.file();
        Ok(RecordRead { segment, file, pointer })
    }

    /// Where the read begins in the file: a multiple of a block.
    pub fn offset(&self) -> u64 {
        self.pointer.offset - self.pointer.offset % BLOCK_BYTES as u64
    }

    /// Bytes to read: whole blocks, of which the file may have less.
    pub fn read_bytes(&self) -> usize {
        let end = self.pointer.offset + u64::from(self.pointer.length);
        (end.next_multiple_of(BLOCK_BYTES as u64) - self.offset()) as usize
    }

    /// The value of `key`, checked, in the bytes that were read, as far as the file had them.
    ///
    /// # Errors
    /// Corruption, where they are not the record of `key`.
    pub fn value<'a>(&self, bytes: &'a [u8], key: &[u8]) -> Result<&'a [u8]> {
        let start = (self.pointer.offset - self.offset()) as usize;
        let Some(record) = bytes.get(start..start + self.pointer.length as usize) else {
            let at = self.offset() + bytes.len() as u64;
            return Err(Error::corruption(self.segment.name(), at, "the file ends early"));
        };
        let (head, value) = record.split_at(RECORD_HEADER_BYTES + key.len());
        self.segment.check(&self.pointer, key, head, value)?;
        Ok(value)
    }

    /// The value, read here and now, in pieces where it is long.
    ///
    /// # Errors
    /// Those of the device, and corruption.
    pub fn read_alone(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.segment.read(&self.pointer, key)
    }
}
