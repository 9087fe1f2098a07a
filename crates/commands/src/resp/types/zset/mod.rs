//! Sorted sets.

mod add;
mod combine;
mod pop;
mod random;
mod range;
mod read;
mod remove;
mod sources;

pub(crate) use add::{AddFlags, add};
pub(crate) use sources::Sources;

use super::{Done, Objects, Opened, TypeCommand};
use crate::resp::events::Classes;
use silica_base::Result;
use silica_types::{Kind, Zset};

pub(crate) static ZADD: TypeCommand = TypeCommand::write(add::zadd);
pub(crate) static ZINCRBY: TypeCommand = TypeCommand::write(add::zincrby);

pub(crate) static ZCARD: TypeCommand = TypeCommand::read(read::zcard);
pub(crate) static ZSCORE: TypeCommand = TypeCommand::read(read::zscore);
pub(crate) static ZMSCORE: TypeCommand = TypeCommand::read(read::zmscore);
pub(crate) static ZCOUNT: TypeCommand = TypeCommand::read(read::zcount);
pub(crate) static ZLEXCOUNT: TypeCommand = TypeCommand::read(read::zlexcount);
pub(crate) static ZRANK: TypeCommand = TypeCommand::read(read::zrank);
pub(crate) static ZREVRANK: TypeCommand = TypeCommand::read(read::zrevrank);
pub(crate) static ZRANDMEMBER: TypeCommand = TypeCommand::read(random::zrandmember);
pub(crate) static ZSCAN: TypeCommand = TypeCommand::read(read::zscan);

pub(crate) static ZRANGE: TypeCommand = TypeCommand::read(range::zrange);
pub(crate) static ZRANGESTORE: TypeCommand = TypeCommand::write(range::zrangestore);
pub(crate) static ZRANGEBYSCORE: TypeCommand = TypeCommand::read(range::zrangebyscore);
pub(crate) static ZRANGEBYLEX: TypeCommand = TypeCommand::read(range::zrangebylex);
pub(crate) static ZREVRANGE: TypeCommand = TypeCommand::read(range::zrevrange);
pub(crate) static ZREVRANGEBYSCORE: TypeCommand = TypeCommand::read(range::zrevrangebyscore);
pub(crate) static ZREVRANGEBYLEX: TypeCommand = TypeCommand::read(range::zrevrangebylex);

pub(crate) static ZREM: TypeCommand = TypeCommand::write(remove::zrem);
pub(crate) static ZREMRANGEBYRANK: TypeCommand = TypeCommand::write(remove::zremrangebyrank);
pub(crate) static ZREMRANGEBYSCORE: TypeCommand = TypeCommand::write(remove::zremrangebyscore);
pub(crate) static ZREMRANGEBYLEX: TypeCommand = TypeCommand::write(remove::zremrangebylex);
pub(crate) static ZPOPMIN: TypeCommand = TypeCommand::write(pop::zpopmin);
pub(crate) static ZPOPMAX: TypeCommand = TypeCommand::write(pop::zpopmax);
pub(crate) static ZMPOP: TypeCommand = TypeCommand::write(pop::zmpop);

pub(crate) static BZPOPMIN: TypeCommand = TypeCommand::write(pop::bzpopmin);
pub(crate) static BZPOPMAX: TypeCommand = TypeCommand::write(pop::bzpopmax);
pub(crate) static BZMPOP: TypeCommand = TypeCommand::write(pop::bzmpop);

pub(crate) static ZUNION: TypeCommand = TypeCommand::read(combine::zunion);
pub(crate) static ZINTER: TypeCommand = TypeCommand::read(combine::zinter);
pub(crate) static ZDIFF: TypeCommand = TypeCommand::read(combine::zdiff);
pub(crate) static ZUNIONSTORE: TypeCommand = TypeCommand::write(combine::zunionstore);
pub(crate) static ZINTERSTORE: TypeCommand = TypeCommand::write(combine::zinterstore);
pub(crate) static ZDIFFSTORE: TypeCommand = TypeCommand::write(combine::zdiffstore);
pub(crate) static ZINTERCARD: TypeCommand = TypeCommand::read(combine::zintercard);

/// What `read` tells of the sorted set at `key`; `None` if there is none.
pub(crate) fn read_zset<T>(
    objects: &mut Objects<'_>,
    key: &[u8],
    read: impl FnOnce(&mut Zset<'_>) -> Result<T>,
) -> Done<Option<T>> {
    let Some(mut opened) = objects.open(key, Kind::Zset)? else { return Ok(None) };
    let told = read(&mut Zset::of(&mut opened.object, objects.pages()));
    objects.close(opened);
    Ok(Some(told?))
}

/// Stores a sorted set from which something was removed, and tells of it.
fn store_smaller(
    objects: &mut Objects<'_>,
    opened: Opened,
    key: &[u8],
    event: &'static str,
) -> Done {
    let is_empty = opened.object.is_empty();
    objects.store(opened)?;
    objects.event(Classes::ZSET, event, key);
    if is_empty {
        objects.event(Classes::GENERIC, "del", key);
    }
    Ok(())
}

/// Makes `elements` the sorted set at `key`, whatever that holds, and returns how many these are.
/// Without elements the key is removed.
pub(crate) fn replace<'m>(
    objects: &mut Objects<'_>,
    key: &[u8],
    elements: impl IntoIterator<Item = (&'m [u8], f64)>,
    event: &'static str,
) -> Done<u64> {
    let was_there = objects.remove(key)?;
    let mut opened = objects.open_or_new(key, Kind::Zset)?;
    let mut zset = Zset::of(&mut opened.object, objects.pages());
    for (member, score) in elements {
        zset.put_over(member, None, score)?;
    }
    let len = zset.len();
    if len > 0 {
        objects.store(opened)?;
        objects.event(Classes::ZSET, event, key);
    } else {
        objects.close(opened);
        if was_there {
            objects.event(Classes::GENERIC, "del", key);
        }
    }
    Ok(len)
}
