//! External sort of numbers of 8 bytes, within the memory number.
//!
//! What comes is sorted in memory and written as runs; runs are merged, several times if there are
//! more than buffers. Without a run nothing is written.

use crate::memory::Reserved;
use crate::storage::Storage;
use crate::stream::{Stream, StreamReader, StreamWriter, Workspace};
use silica_base::Result;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Buffers of merges have so many bytes if memory allows.
const BUFFER_BYTES: usize = 256 << 10;

/// Takes numbers in any order.
pub(crate) struct Sorter<'w, 'a, S> {
    space: &'w Workspace<'a, S>,
    buffer: Vec<u64>,
    /// Numbers that the buffer may have.
    room: usize,
    runs: Vec<Stream>,
    reserved: Reserved,
}

impl<'w, 'a, S: Storage> Sorter<'w, 'a, S> {
    /// A sorter with a share of the memory that is free now, one in `share`.
    pub(crate) fn new(space: &'w Workspace<'a, S>, share: u64) -> Result<Self> {
        let free = space.memory.free_bytes();
        // Two buffers for a merge are needed beside it at the least.
        let room = (free / share / 8).max(64) as usize;
        let reserved = space.memory.take(room as u64 * 8, "sorting edges")?;
        Ok(Sorter { space, buffer: Vec::new(), room, runs: Vec::new(), reserved })
    }

    #[inline]
    pub(crate) fn push(&mut self, number: u64) -> Result<()> {
        if self.buffer.len() == self.room {
            self.spill()?;
        }
        if self.buffer.len() == self.buffer.capacity() {
            // Doubling would pass the room that was counted.
            let more = self.buffer.len().max(1024).min(self.room - self.buffer.len());
            self.buffer.reserve_exact(more);
        }
        self.buffer.push(number);
        Ok(())
    }

    /// Writes the buffer as a run.
    fn spill(&mut self) -> Result<()> {
        self.buffer.sort_unstable();
        let mut writer = StreamWriter::new(self.space, self.space.buffer_bytes(4))?;
        for number in &self.buffer {
            writer.push(&number.to_le_bytes())?;
        }
        self.runs.push(writer.finish()?);
        self.buffer.clear();
        Ok(())
    }

    /// Sorts.
    pub(crate) fn finish(mut self) -> Result<Sorted<'w, 'a, S>> {
        if self.runs.is_empty() {
            self.buffer.sort_unstable();
            let numbers = std::mem::take(&mut self.buffer).into_iter();
            return Ok(Sorted::Memory { numbers, _reserved: self.reserved });
        }
        self.spill()?;
        // Its memory is what the buffers of the merges take.
        let Sorter { space, buffer, runs, reserved, .. } = self;
        drop((buffer, reserved));
        let mut runs = std::collections::VecDeque::from(runs);
        loop {
            let page_bytes = space.page_bytes() as u64;
            // Half for these buffers, half for whoever takes the numbers.
            let room = space.memory.free_bytes() / 2;
            let fan_in = (room / page_bytes).saturating_sub(1).max(2) as usize;
            if runs.len() <= fan_in {
                let bytes = (room / runs.len() as u64) as usize / page_bytes as usize;
                let bytes = (bytes * page_bytes as usize).min(BUFFER_BYTES);
                return Merge::new(space, runs.into(), bytes).map(Sorted::Merge);
            }
            let some: Vec<Stream> = runs.drain(..fan_in).collect();
            let mut merge = Merge::new(space, some, page_bytes as usize)?;
            let mut writer = StreamWriter::new(space, page_bytes as usize)?;
            while let Some(number) = merge.next()? {
                writer.push(&number.to_le_bytes())?;
            }
            runs.push_back(writer.finish()?);
        }
    }
}

/// Gives the numbers in their order.
pub(crate) enum Sorted<'w, 'a, S> {
    /// All of them were in memory.
    Memory { numbers: std::vec::IntoIter<u64>, _reserved: Reserved },
    /// Runs.
    Merge(Merge<'w, 'a, S>),
}

impl<S: Storage> Sorted<'_, '_, S> {
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<u64>> {
        match self {
            Sorted::Memory { numbers, .. } => Ok(numbers.next()),
            Sorted::Merge(merge) => merge.next(),
        }
    }
}

/// A merge of runs, which are given back at its end.
pub(crate) struct Merge<'w, 'a, S> {
    space: &'w Workspace<'a, S>,
    readers: Vec<StreamReader<'w, 'a, S>>,
    /// The next number of each run.
    heads: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'w, 'a, S: Storage> Merge<'w, 'a, S> {
    fn new(space: &'w Workspace<'a, S>, runs: Vec<Stream>, bytes: usize) -> Result<Self> {
        let mut readers = Vec::with_capacity(runs.len());
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.into_iter().enumerate() {
            let mut reader = StreamReader::new(space, run, bytes)?;
            if let Some(head) = reader.next_u64()? {
                heads.push(Reverse((head, number as u32)));
            }
            readers.push(reader);
        }
        Ok(Merge { space, readers, heads })
    }

    fn next(&mut self) -> Result<Option<u64>> {
        let Some(mut head) = self.heads.peek_mut() else {
            self.space.release(self.readers.drain(..).map(|reader| reader.stream))?;
            return Ok(None);
        };
        let Reverse((number, run)) = *head;
        match self.readers[run as usize].next_u64()? {
            Some(next) => *head = Reverse((next, run)),
            None => {
                std::collections::binary_heap::PeekMut::pop(head);
            }
        }
        Ok(Some(number))
    }
}
