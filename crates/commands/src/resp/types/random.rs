//! Elements by chance: what HRANDFIELD, SRANDMEMBER and ZRANDMEMBER have in common.

use super::room::Room;
use super::{Done, Failure};
use crate::burst::Args;
use crate::resp::NOT_INTEGER;
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};

/// How many elements are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// So many different ones at most.
    Distinct(u64),
    /// So many, each of them any element.
    Repeated(u64),
}

impl Count {
    /// # Errors
    /// Fails if `arg` is no number that Redis takes.
    pub(crate) fn parse(arg: &[u8]) -> Done<Count> {
        match parse_i64(arg).ok_or_else(|| Failure::reply(NOT_INTEGER))? {
            i64::MIN => Err(Failure::reply(format!(
                "ERR value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            ))),
            count if count < 0 => Ok(Count::Repeated(count.unsigned_abs())),
            count => Ok(Count::Distinct(count.unsigned_abs())),
        }
    }

    /// True if it cannot be doubled: a value is returned for each element.
    pub(crate) fn is_huge(self) -> bool {
        let (Count::Distinct(count) | Count::Repeated(count)) = self;
        count > i64::MAX as u64 / 2
    }
}

/// Calls `write` for one element after the other, `count` in all, as long as the reply may grow.
///
/// # Errors
/// Fails if the client's memory, or the limit of a reply, does not allow more.
pub(crate) fn repeat(
    args: Args<'_>,
    count: u64,
    reply: &mut Reply<'_>,
    mut write: impl FnMut(&mut Reply<'_>) -> Result<()>,
) -> Done {
    let mut room = Room::new(args, reply.buffered());
    for _ in 0..count {
        write(reply)?;
        if !room.fits(reply.buffered()) {
            break;
        }
    }
    room.finish()
}
