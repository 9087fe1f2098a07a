//! Sorted runs on a device: blocks of whole records, a checksum of each block in memory.

use silica_base::{AlignedBuf, BLOCK_BYTES, Checksum, Error, Result};
use silica_device::{Device, DeviceFile, Lifetime, Mode};

/// How a run is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunShape {
    /// Bytes of a block, a multiple of [`BLOCK_BYTES`] and at least one record.
    pub(super) block_bytes: usize,
    pub(super) record_bytes: usize,
}

impl RunShape {
    fn records_per_block(&self) -> usize {
        self.block_bytes / self.record_bytes
    }
}

/// A run; its file goes when it is dropped.
pub(super) struct Run<'a, D: Device> {
    device: &'a D,
    name: String,
    file: D::File,
    shape: RunShape,
    records: u64,
    checksums: Vec<u32>,
}

impl<D: Device> Run<'_, D> {
    /// Records in it.
    pub(super) fn records(&self) -> u64 {
        self.records
    }
}

impl<D: Device> Drop for Run<'_, D> {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the next sorter begins.
        let _ = self.device.remove(&self.name);
    }
}

/// Writes a run.
pub(super) struct RunWriter<'a, D: Device> {
    run: Run<'a, D>,
    block: AlignedBuf,
    used: usize,
}

impl<'a, D: Device> RunWriter<'a, D> {
    pub(super) fn create(device: &'a D, name: String, shape: RunShape) -> Result<Self> {
        let file = device.create(&name, Mode::Direct)?.with_lifetime(Lifetime::Short);
        let run = Run { device, name, file, shape, records: 0, checksums: Vec::new() };
        Ok(RunWriter { run, block: AlignedBuf::zeroed(shape.block_bytes), used: 0 })
    }

    #[inline]
    pub(super) fn push(&mut self, record: &[u8]) -> Result<()> {
        if self.used + record.len() > self.block.len() {
            self.flush()?;
        }
        self.block[self.used..self.used + record.len()].copy_from_slice(record);
        self.used += record.len();
        self.run.records += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let number = self.run.checksums.len() as u64;
        let len = self.used.next_multiple_of(BLOCK_BYTES);
        self.block[self.used..len].fill(0);
        let sum = Checksum::at(0, number).update(&self.block[..self.used]).finish();
        self.run.checksums.push(sum);
        self.run.file.write_at(number * self.run.shape.block_bytes as u64, &self.block[..len])?;
        self.used = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Run<'a, D>> {
        if self.used > 0 {
            self.flush()?;
        }
        Ok(self.run)
    }
}

/// Reads a run from its start.
pub(super) struct RunReader<'a, D: Device> {
    run: Run<'a, D>,
    block: AlignedBuf,
    /// Bytes of the block that hold records, and those read of them.
    filled: usize,
    at: usize,
    blocks_read: u64,
}

impl<'a, D: Device> RunReader<'a, D> {
    pub(super) fn new(run: Run<'a, D>) -> Self {
        let block = AlignedBuf::zeroed(run.shape.block_bytes);
        RunReader { run, block, filled: 0, at: 0, blocks_read: 0 }
    }

    #[inline]
    pub(super) fn next<const RECORD: usize>(&mut self) -> Result<Option<[u8; RECORD]>> {
        if self.at == self.filled {
            self.fill()?;
        }
        let record = self.block[self.at..self.filled].first_chunk::<RECORD>().copied();
        self.at += if record.is_some() { RECORD } else { 0 };
        Ok(record)
    }

    /// Reads the next block; nothing at the end.
    fn fill(&mut self) -> Result<()> {
        let shape = self.run.shape;
        let per_block = shape.records_per_block() as u64;
        let left = self.run.records.saturating_sub(self.blocks_read * per_block);
        let records = left.min(per_block) as usize;
        (self.at, self.filled) = (0, records * shape.record_bytes);
        if records == 0 {
            return Ok(());
        }
        let len = self.filled.next_multiple_of(BLOCK_BYTES);
        let offset = self.blocks_read * shape.block_bytes as u64;
        let got = self.run.file.read_at(offset, &mut self.block[..len])?;
        let sum = Checksum::at(0, self.blocks_read).update(&self.block[..self.filled]).finish();
        if got < self.filled || sum != self.run.checksums[self.blocks_read as usize] {
            let what = format!("sorted run {}", self.run.name);
            return Err(Error::corruption(what, offset, "a block is not what was written"));
        }
        self.blocks_read += 1;
        Ok(())
    }
}
