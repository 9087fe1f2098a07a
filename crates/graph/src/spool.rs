//! Edges as they come: in memory as far as it goes, then in a stream.

use crate::memory::Reserved;
use crate::storage::Storage;
use crate::stream::{Stream, StreamReader, StreamWriter, Workspace};
use silica_base::Result;

/// Bytes that are counted at a time.
const STEP_BYTES: u64 = 1 << 20;

/// Takes numbers of 8 bytes, and gives them back in the same order.
pub(crate) struct Spool<'w, 'a, S> {
    space: &'w Workspace<'a, S>,
    kept: Vec<u64>,
    /// Numbers that memory takes at most.
    kept_max: usize,
    counted: usize,
    reserved: Reserved,
    writer: Option<StreamWriter<'w, 'a, S>>,
}

impl<'w, 'a, S: Storage> Spool<'w, 'a, S> {
    /// A spool with one in `share` of the memory that is free now.
    pub(crate) fn new(space: &'w Workspace<'a, S>, share: u64) -> Result<Self> {
        let kept_max = (space.memory.free_bytes() / share / 8) as usize;
        let reserved = space.memory.take(0, "edges")?;
        Ok(Spool { space, kept: Vec::new(), kept_max, counted: 0, reserved, writer: None })
    }

    #[inline]
    pub(crate) fn push(&mut self, number: u64) -> Result<()> {
        if self.kept.len() < self.counted {
            self.kept.push(number);
            return Ok(());
        }
        self.push_more(number)
    }

    fn push_more(&mut self, number: u64) -> Result<()> {
        if self.writer.is_none() && self.counted < self.kept_max {
            let more = (self.counted).max(STEP_BYTES as usize / 8);
            let more = more.min(self.kept_max - self.counted);
            if self.reserved.grow(more as u64 * 8, "edges").is_ok() {
                self.kept.reserve_exact(more);
                self.counted += more;
                self.kept.push(number);
                return Ok(());
            }
        }
        if self.writer.is_none() {
            self.writer = Some(StreamWriter::new(self.space, self.space.buffer_bytes(8))?);
        }
        self.writer.as_mut().expect("it was just made").push(&number.to_le_bytes())
    }

    /// Gives every number to `each`, and the space back.
    pub(crate) fn drain(self, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let Spool { space, kept, reserved, writer, .. } = self;
        let rest = writer.map(StreamWriter::finish).transpose()?;
        for number in &kept {
            each(*number)?;
        }
        drop((kept, reserved));
        rest.map_or(Ok(()), |stream| each_of(space, stream, each))
    }
}

fn each_of<S: Storage>(
    space: &Workspace<'_, S>,
    stream: Stream,
    mut each: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut reader = StreamReader::new(space, stream, space.buffer_bytes(8))?;
    while let Some(number) = reader.next_u64()? {
        each(number)?;
    }
    let stream = reader.stream.clone();
    drop(reader);
    space.release([stream])
}
