//! XGROUP and XACK.

use super::ids;
use super::{Change, Done, Failure, Objects, TypeCommand, integer, on_stream};
use crate::burst::Args;
use crate::resp::events::Classes;
use crate::resp::{Cx, introspect, wrong_subcommand};
use silica_proto::Reply;
use silica_types::{Group, Kind, Stream, StreamId};

pub(crate) static CREATE: TypeCommand = TypeCommand::write(create).with_key_at(2);
pub(crate) static SETID: TypeCommand = TypeCommand::write(setid).with_key_at(2);
pub(crate) static DESTROY: TypeCommand = TypeCommand::write(destroy).with_key_at(2);
pub(crate) static CREATECONSUMER: TypeCommand = TypeCommand::write(createconsumer).with_key_at(2);
pub(crate) static DELCONSUMER: TypeCommand = TypeCommand::write(delconsumer).with_key_at(2);
pub(crate) static XACK: TypeCommand = TypeCommand::write(xack);

pub(crate) fn group_help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "xgroup");
}

const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE \
                      you may want to use the MKSTREAM option to create an empty stream \
                      automatically.";

/// Options of CREATE and SETID.
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn read(args: Args<'_>, is_create: bool) -> Done<Options> {
        let mut options = Options { makes_stream: false, entries_read: None };
        let mut at = 5;
        while at < args.len() {
            if is_create && args.is(at, "mkstream") {
                options.makes_stream = true;
            } else if args.is(at, "entriesread") && at + 1 < args.len() {
                at += 1;
                options.entries_read = match integer(args.get(at))? {
                    -1 => None,
                    read => Some(u64::try_from(read).map_err(|_| {
                        Failure::reply("ERR value for ENTRIESREAD must be positive or -1")
                    })?),
                };
            } else {
                return Err(Failure::Reply(wrong_subcommand(args)));
            }
            at += 1;
        }
        Ok(options)
    }
}

/// The id that a group begins behind: `$` for the last one.
fn begin(text: &[u8], last: StreamId, is_strict: bool) -> Done<StreamId> {
    match text {
        b"$" => Ok(last),
        id if is_strict => ids::strict(id),
        id => ids::any(id, 0),
    }
}

fn create(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let options = Options::read(args, true)?;
    let (key, name) = (args.get(2), args.get(3));
    let (mut opened, change) = match objects.open(key, Kind::Stream)? {
        Some(opened) => (opened, Change::Aside),
        None if options.makes_stream => (objects.open_or_new(key, Kind::Stream)?, Change::Some),
        None => return Err(Failure::reply(NO_KEY)),
    };
    if args.len() > 8 {
        return Err(objects.refuse(opened, wrong_subcommand(args)));
    }
    let mut stream = Stream::of(&mut opened.object, objects.pages())?;
    let id = match begin(args.get(4), stream.info().last_id, true) {
        Ok(id) => id,
        Err(failure) => {
            objects.close(opened);
            return Err(failure);
        }
    };
    if !stream.create_group(name, id, options.entries_read)? {
        return Err(objects.refuse(opened, "BUSYGROUP Consumer Group name already exists"));
    }
    change.give_back(objects, opened)?;
    objects.event(Classes::STREAM, "xgroup-create", key);
    reply.ok();
    Ok(())
}

/// Runs `work` on the stream and the group that `args` name.
fn on_group<T>(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    work: impl FnOnce(&mut Stream<'_>, Group) -> Done<(T, Change)>,
) -> Done<T> {
    let (key, name) = (args.get(2), args.get(3));
    let told = on_stream(objects, key, |stream| {
        let group = stream.group(name)?.ok_or_else(|| no_group(key, name))?;
        work(stream, group)
    })?;
    told.ok_or_else(|| Failure::reply(NO_KEY))
}

/// The error about a group that a stream has not.
pub(super) fn no_group(key: &[u8], name: &[u8]) -> Failure {
    let [key, name] = [key, name].map(String::from_utf8_lossy);
    Failure::reply(format!("NOGROUP No such consumer group '{name}' for key name '{key}'"))
}

fn setid(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let options = Options::read(args, false)?;
    on_group(objects, args, |stream, mut group| {
        if ![5, 7].contains(&args.len()) {
            return Err(Failure::Reply(wrong_subcommand(args)));
        }
        group.last_id = begin(args.get(4), stream.info().last_id, false)?;
        group.entries_read = options.entries_read;
        stream.put_group(args.get(3), &group)?;
        Ok(((), Change::Aside))
    })?;
    objects.event(Classes::STREAM, "xgroup-setid", args.get(2));
    reply.ok();
    Ok(())
}

fn destroy(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let is_gone = on_stream(objects, args.get(2), |stream| {
        let is_gone = stream.destroy_group(args.get(3))?;
        Ok((is_gone, Change::aside(is_gone)))
    })?;
    let is_gone = is_gone.ok_or_else(|| Failure::reply(NO_KEY))?;
    if is_gone {
        objects.event(Classes::STREAM, "xgroup-destroy", args.get(2));
    }
    reply.integer(is_gone.into());
    Ok(())
}

fn createconsumer(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let now_ms = objects.now_ms;
    let is_new = on_group(objects, args, |stream, group| {
        let is_new = stream.create_consumer(&group, args.get(4), now_ms)?.is_some();
        Ok((is_new, Change::aside(is_new)))
    })?;
    if is_new {
        objects.event(Classes::STREAM, "xgroup-createconsumer", args.get(2));
    }
    reply.integer(is_new.into());
    Ok(())
}

fn delconsumer(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let pending = on_group(objects, args, |stream, group| {
        let pending = stream.delete_consumer(&group, args.get(4))?;
        Ok((pending, Change::aside(pending.is_some())))
    })?;
    if pending.is_some() {
        objects.event(Classes::STREAM, "xgroup-delconsumer", args.get(2));
    }
    reply.integer(pending.unwrap_or(0) as i64);
    Ok(())
}

fn xack(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let acknowledged = on_stream(objects, args.get(1), |stream| {
        let Some(group) = stream.group(args.get(2))? else { return Ok((0, Change::None)) };
        let ids = args.from(3).map(ids::strict).collect::<Done<Vec<StreamId>>>()?;
        let mut count = 0;
        for id in ids {
            count += u64::from(stream.remove_pending(&group, id)?);
        }
        Ok((count, Change::aside(count > 0)))
    })?;
    reply.integer(acknowledged.unwrap_or(0) as i64);
    Ok(())
}
