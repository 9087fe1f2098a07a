//! Memory of replies whose length nobody knows before they are written.

use super::{Done, Failure};
use crate::burst::Args;
use crate::exec::REPLY_BYTES_MAX;
use crate::table::reply_too_large;

/// Bytes for which memory is claimed at a time.
const STEP_BYTES: usize = 1 << 20;

/// What a reply may grow to, and why it may not grow further.
pub(crate) struct Room<'a> {
    args: Args<'a>,
    /// Bytes of the buffer before the reply.
    start: usize,
    claimed: usize,
    refused: Option<String>,
}

impl<'a> Room<'a> {
    /// For the reply to `args`, behind `start` bytes of its buffer.
    pub(crate) fn new(args: Args<'a>, start: usize) -> Self {
        Room { args, start, claimed: STEP_BYTES, refused: None }
    }

    /// True if the buffer may hold `bytes` bytes, for which memory is claimed then.
    pub(crate) fn fits(&mut self, bytes: usize) -> bool {
        let held = bytes - self.start;
        if held > REPLY_BYTES_MAX {
            self.refused = Some(reply_too_large(REPLY_BYTES_MAX));
        }
        while self.refused.is_none() && held > self.claimed {
            self.refused = self.args.claim(STEP_BYTES).err();
            self.claimed += STEP_BYTES;
        }
        self.refused.is_none()
    }

    /// # Errors
    /// Fails if something did not fit.
    pub(crate) fn finish(self) -> Done {
        self.refused.map_or(Ok(()), |text| Err(Failure::Reply(text)))
    }
}
