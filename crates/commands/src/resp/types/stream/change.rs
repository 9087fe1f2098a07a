//! XADD, XDEL, XTRIM and XSETID.

use super::ids::{self, NewId};
use super::{Change, Done, Failure, Objects, TypeCommand, integer, on_stream};
use crate::burst::Args;
use crate::resp::events::Classes;
use crate::resp::{SYNTAX, wrong_number};
use silica::engine::Result;
use silica_proto::Reply;
use silica_types::{Kind, Stream, StreamId, StreamInfo};

pub(crate) static XADD: TypeCommand = TypeCommand::write(xadd);
pub(crate) static XDEL: TypeCommand = TypeCommand::write(xdel);
pub(crate) static XTRIM: TypeCommand = TypeCommand::write(xtrim);
pub(crate) static XSETID: TypeCommand = TypeCommand::write(xsetid);

/// Entries of one of Redis's nodes: trimming with `~` removes as many, or a multiple.
const NODE_ENTRIES: u64 = 100;
/// The limit of a trim with `~` that names none: 100 nodes.
const LIMIT_USUAL: u64 = 100 * NODE_ENTRIES;

/// What a trim keeps.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Last(u64),
    From(StreamId),
}

/// How a stream is trimmed.
#[derive(Debug, Clone, Copy)]
struct Trim {
    kept: Kept,
    is_exact: bool,
    /// Entries that may be removed at most, unless it is exact; 0 for any number.
    limit: u64,
}

impl Trim {
    /// Trims `stream` and returns how many entries were removed.
    fn apply(&self, stream: &mut Stream<'_>) -> Result<u64> {
        let mut count = match self.kept {
            Kept::Last(len) => stream.len().saturating_sub(len),
            Kept::From(id) => stream.rank(id)?,
        };
        if !self.is_exact {
            let max = if self.limit == 0 { u64::MAX } else { self.limit };
            if count < stream.len() || count > max {
                count = count.min(max) / NODE_ENTRIES * NODE_ENTRIES;
            }
        }
        stream.trim(count)
    }
}

/// Arguments of XADD and XTRIM behind the key.
struct Options {
    trim: Option<Trim>,
    makes_stream: bool,
    /// The id, and where it stands.
    id: Option<(NewId, usize)>,
}

impl Options {
    /// Reads the arguments of XADD, up to the id, or of XTRIM.
    fn read(args: Args<'_>, is_add: bool) -> Done<Options> {
        let mut options = Options { trim: None, makes_stream: true, id: None };
        let mut limit = None;
        let mut at = 2;
        while at < args.len() {
            let has_more = at + 1 < args.len();
            if has_more && (args.is(at, "maxlen") || args.is(at, "minid")) {
                at = options.read_trim(args, at)?;
            } else if has_more && args.is(at, "limit") {
                let given = integer(args.get(at + 1))?;
                let positive = u64::try_from(given);
                let text = "ERR The LIMIT argument must be >= 0.";
                limit = Some(positive.map_err(|_| Failure::reply(text))?);
                at += 1;
            } else if is_add && args.is(at, "nomkstream") {
                options.makes_stream = false;
            } else if is_add {
                options.id = Some((ids::new(args.get(at))?, at));
                break;
            } else {
                return Err(Failure::reply(SYNTAX));
            }
            at += 1;
        }
        options.limit(limit, is_add)?;
        Ok(options)
    }

    /// Reads MAXLEN or MINID at `at`, and returns where its last argument stands.
    fn read_trim(&mut self, args: Args<'_>, at: usize) -> Done<usize> {
        if self.trim.is_some() {
            return Err(Failure::reply(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        let has_mark = at + 2 < args.len() && [&b"~"[..], b"="].contains(&args.get(at + 1));
        let is_exact = !has_mark || args.get(at + 1) == b"=";
        let last = at + 1 + usize::from(has_mark);
        let kept = if args.is(at, "minid") {
            Kept::From(ids::strict(args.get(last))?)
        } else {
            let len = u64::try_from(integer(args.get(last))?);
            let text = "ERR The MAXLEN argument must be >= 0.";
            Kept::Last(len.map_err(|_| Failure::reply(text))?)
        };
        self.trim = Some(Trim { kept, is_exact, limit: 0 });
        Ok(last)
    }

    /// Checks LIMIT and applies it.
    fn limit(&mut self, limit: Option<u64>, is_add: bool) -> Done {
        let needs_mark = || {
            Failure::reply("ERR syntax error, LIMIT cannot be used without the special ~ option")
        };
        let Some(trim) = &mut self.trim else {
            return match limit {
                Some(1..) => Err(Failure::reply(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
                _ if !is_add => Err(Failure::reply(
                    "ERR syntax error, XTRIM must be called with a trimming strategy",
                )),
                Some(0) => Err(needs_mark()),
                None => Ok(()),
            };
        };
        if trim.is_exact && limit.is_some() {
            return Err(needs_mark());
        }
        trim.limit = limit.unwrap_or(LIMIT_USUAL);
        Ok(())
    }
}

fn xadd(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let options = Options::read(args, true)?;
    let arity = || Failure::Reply(wrong_number("xadd"));
    let (new_id, at) = options.id.ok_or_else(arity)?;
    let fields = args.len() - (at + 1);
    if fields < 2 || fields % 2 == 1 {
        return Err(arity());
    }
    if new_id == NewId::Given(StreamId::MIN) {
        return Err(Failure::reply("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let (key, now_ms) = (args.get(1), objects.now_ms);
    let opened = match options.makes_stream {
        true => Some(objects.open_or_new(key, Kind::Stream)?),
        false => objects.open(key, Kind::Stream)?,
    };
    let Some(mut opened) = opened else {
        reply.null();
        return Ok(());
    };
    let mut stream = Stream::of(&mut opened.object, objects.pages())?;
    let id = match chosen(new_id, stream.info().last_id, now_ms) {
        Ok(id) => id,
        Err(text) => return Err(objects.refuse(opened, text)),
    };
    stream.add(id, args.from(at + 1))?;
    let trimmed = options.trim.map_or(Ok(0), |trim| trim.apply(&mut stream))?;
    let len = stream.len();
    let text = id.to_string();
    let mut told = vec![&b"XADD"[..], key, text.as_bytes()];
    told.extend(args.from(at + 1));
    objects.tell(&told);
    if trimmed > 0 {
        tell_trim(objects, key, len);
    }
    objects.store(opened)?;
    objects.event(Classes::STREAM, "xadd", key);
    if trimmed > 0 {
        objects.event(Classes::STREAM, "xtrim", key);
    }
    super::write_id(reply, id);
    Ok(())
}

/// Replicas are told how long a stream is that was trimmed: how much `~` removes is theirs to say.
fn tell_trim(objects: &mut Objects<'_>, key: &[u8], len: u64) {
    objects.tell(&[b"XTRIM", key, b"MAXLEN", b"=", len.to_string().as_bytes()]);
}

/// The id of an entry that is added behind `last`, or why there is none.
fn chosen(
    new_id: NewId,
    last: StreamId,
    now_ms: u64,
) -> std::result::Result<StreamId, &'static str> {
    let Some(next) = last.next() else {
        return Err("ERR The stream has exhausted the last possible ID, unable to add more items");
    };
    let id = match new_id {
        NewId::Automatic => next.max(StreamId { ms: now_ms, seq: 0 }),
        NewId::At(ms) if ms == last.ms && last.seq == u64::MAX => {
            return Err("ERR Elements are too large to be stored");
        }
        NewId::At(ms) if ms == last.ms => next,
        NewId::At(ms) => StreamId { ms, seq: 0 },
        NewId::Given(id) => id,
    };
    match id > last {
        true => Ok(id),
        false => {
            Err("ERR The ID specified in XADD is equal or smaller than the target stream top item")
        }
    }
}

fn xtrim(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let options = Options::read(args, false)?;
    let Some(trim) = options.trim else { return Err(Failure::reply(SYNTAX)) };
    let removed = on_stream(objects, args.get(1), |stream| {
        let removed = trim.apply(stream)?;
        Ok(((removed, stream.len()), Change::if_any(removed)))
    })?;
    let (removed, len) = removed.unwrap_or_default();
    if removed > 0 {
        tell_trim(objects, args.get(1), len);
        objects.event(Classes::STREAM, "xtrim", args.get(1));
    }
    reply.integer(removed as i64);
    Ok(())
}

fn xdel(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let deleted = on_stream(objects, args.get(1), |stream| {
        let ids = args.from(2).map(ids::strict).collect::<Done<Vec<StreamId>>>()?;
        let mut deleted = 0;
        for id in ids {
            deleted += u64::from(stream.delete(id)?);
        }
        Ok((deleted, Change::if_any(deleted)))
    })?;
    let deleted = deleted.unwrap_or(0);
    if deleted > 0 {
        objects.event(Classes::STREAM, "xdel", args.get(1));
    }
    reply.integer(deleted as i64);
    Ok(())
}

fn xsetid(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let last_id = ids::strict(args.get(2))?;
    let (mut added, mut max_deleted_id) = (None, None);
    let mut at = 3;
    while at < args.len() {
        let has_more = at + 1 < args.len();
        if has_more && args.is(at, "entriesadded") {
            let given = u64::try_from(integer(args.get(at + 1))?);
            let text = "ERR entries_added must be positive";
            added = Some(given.map_err(|_| Failure::reply(text))?);
        } else if has_more && args.is(at, "maxdeletedid") {
            let id = ids::strict(args.get(at + 1))?;
            if last_id < id {
                return Err(Failure::reply(
                    "ERR The ID specified in XSETID is smaller than the provided \
                     max_deleted_entry_id",
                ));
            }
            max_deleted_id = Some(id);
        } else {
            return Err(Failure::reply(SYNTAX));
        }
        at += 2;
    }
    let told = on_stream(objects, args.get(1), |stream| {
        let info = stream.info();
        if !stream.is_empty() {
            if stream.final_id()?.is_some_and(|id| last_id < id) {
                return Err(Failure::reply(
                    "ERR The ID specified in XSETID is smaller than the target stream top item",
                ));
            }
            if added.is_some_and(|added| stream.len() > added) {
                return Err(Failure::reply(
                    "ERR The entries_added specified in XSETID is smaller than the target stream \
                     length",
                ));
            }
        }
        let max_deleted_id = max_deleted_id.filter(|id| *id != StreamId::MIN);
        stream.set_info(StreamInfo {
            last_id,
            max_deleted_id: max_deleted_id.unwrap_or(info.max_deleted_id),
            entries_added: added.unwrap_or(info.entries_added),
        });
        Ok(((), Change::Aside))
    })?;
    told.ok_or_else(|| Failure::reply("ERR no such key"))?;
    objects.event(Classes::STREAM, "xsetid", args.get(1));
    reply.ok();
    Ok(())
}
