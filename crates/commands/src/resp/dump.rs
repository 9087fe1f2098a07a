//! DUMP and RESTORE: values in the form that Redis exchanges them in.

use super::events::{Classes, Expiry};
use super::types::generic::encoding_of;
use super::types::{Done, Failure, Objects, TypeCommand};
use super::{NOT_INTEGER, SYNTAX, VALUE_BYTES_MAX};
use crate::burst::Args;
use silica::engine::ErrorKind;
use silica_lua::sha1_hex;
use silica_proto::rdb::{self, Restored, Wrong};
use silica_proto::{Reply, Version, parse_i64};
use silica_types::{of_rdb, to_rdb};

pub(crate) static DUMP: TypeCommand = TypeCommand::read(dump);
pub(crate) static RESTORE: TypeCommand = TypeCommand::write(restore);
/// Removes a key that is what was dumped: its arguments are the replies of DUMP and PEXPIRETIME.
/// The answer is 1 if it was removed, 0 if it has changed, -1 if it is not there.
pub(crate) static MIGRATED: TypeCommand = TypeCommand::write(migrated);

/// DEBUG DIGEST-VALUE, by which tools compare copies of a key on two servers.
pub(crate) static DIGEST: TypeCommand = TypeCommand::read(digest);

/// DEBUG OBJECT: what tools of Redis look at.
pub(crate) static DESCRIBE: TypeCommand = TypeCommand::read(describe).with_key_at(2);

/// Bytes of a payload around its value: its type, a version and a checksum.
const PAYLOAD_FRAME_BYTES: usize = 11;

/// Memory of a value on its way to an object, in bytes of its payload: its elements are apart.
const PAYLOAD_COPIES: usize = 4;

fn dump(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    dump_key(objects, args.get(1), reply)
}

/// The line that Redis answers; there is no address, and no time of the last access.
fn describe(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(2);
    let Some(encoding) = encoding_of(objects, key)? else {
        return Err(Failure::reply("ERR no such key"));
    };
    let mut bulk = Vec::new();
    dump_key(objects, key, &mut Reply::new(&mut bulk, Version::Resp2))?;
    let head = bulk.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let bytes = bulk.len().saturating_sub(head + 2 + PAYLOAD_FRAME_BYTES);
    reply.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:0 \
         lru_seconds_idle:0"
    ));
    Ok(())
}

fn dump_key(objects: &mut Objects<'_>, key: &[u8], reply: &mut Reply<'_>) -> Done {
    let Some(kind) = objects.kind(key)? else {
        reply.null();
        return Ok(());
    };
    let Some(kind) = kind else {
        let (value, _) = objects.string(key)?.unwrap_or_default();
        rdb::reply_dump(&value, reply);
        return Ok(());
    };
    let mut opened = objects.open(key, kind)?.ok_or_else(Failure::wrong_type)?;
    let now_ms = objects.now_ms;
    let value = to_rdb(&mut opened.object, objects.pages(), now_ms);
    objects.close(opened);
    reply.bulk(&rdb::dump_object(&value?));
    Ok(())
}

/// A digest of each key: 40 digits, zeros if it is not there.
fn digest(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut digests = Vec::new();
    for key in args.from(2) {
        digests.push(match objects.kind(key)? {
            None => "0".repeat(40),
            Some(None) => {
                let (value, at) = objects.string(key)?.unwrap_or_default();
                sha1_hex(&[&[b's', u8::from(at != 0)], &value[..]].concat())
            }
            Some(Some(kind)) => {
                let mut opened = objects.open(key, kind)?.ok_or_else(Failure::wrong_type)?;
                let (now_ms, expires) = (objects.now_ms, opened.expires_unix_ms != 0);
                let value = to_rdb(&mut opened.object, objects.pages(), now_ms);
                objects.close(opened);
                let bytes = rdb::dump_object(&in_order(value?));
                sha1_hex(&[&[b'o', u8::from(expires)], &bytes[..]].concat())
            }
        });
    }
    reply.array(digests.len());
    digests.iter().for_each(|digest| reply.simple(digest));
    Ok(())
}

/// `object` with what has no order in the order of its bytes.
fn in_order(mut object: rdb::Object) -> rdb::Object {
    match &mut object {
        rdb::Object::Set(members) => members.sort_unstable(),
        rdb::Object::Hash(fields) => fields.sort_unstable(),
        rdb::Object::List(_) | rdb::Object::Zset(_) | rdb::Object::Stream(_) => {}
    }
    object
}

fn migrated(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let (key, wanted) = (args.get(1), [args.get(2), args.get(3)]);
    let Some(kind) = objects.kind(key)? else {
        reply.integer(-1);
        return Ok(());
    };
    let expires_unix_ms = match kind {
        None => objects.string(key)?.unwrap_or_default().1,
        Some(kind) => {
            let opened = objects.open(key, kind)?.ok_or_else(Failure::wrong_type)?;
            let at = opened.expires_unix_ms;
            objects.close(opened);
            at
        }
    };
    let expires = if expires_unix_ms == 0 { -1 } else { expires_unix_ms as i64 };
    let mut now = Vec::with_capacity(wanted[0].len());
    dump(objects, args, &mut Reply::new(&mut now, Version::Resp2))?;
    if now != wanted[0] || format!(":{expires}\r\n").as_bytes() != wanted[1] {
        reply.integer(0);
        return Ok(());
    }
    objects.tell(&[b"DEL", key]);
    objects.remove(key)?;
    objects.event(Classes::GENERIC, "del", key);
    reply.integer(1);
    Ok(())
}

/// What the options of RESTORE say.
#[derive(Default)]
struct Options {
    replace: bool,
    /// The time is Unix time.
    absolute: bool,
}

fn options(args: Args<'_>) -> Result<Options, &'static str> {
    let mut options = Options::default();
    let (mut idle, mut frequency) = (false, false);
    let mut index = 4;
    while index < args.len() {
        // There is no time or frequency of access that these two could set.
        let number = (index + 1 < args.len()).then(|| parse_i64(args.get(index + 1)));
        if args.is(index, "replace") {
            options.replace = true;
        } else if args.is(index, "absttl") {
            options.absolute = true;
        } else if args.is(index, "idletime") && number.is_some() && !frequency {
            let seconds = number.flatten().ok_or(NOT_INTEGER)?;
            if seconds < 0 {
                return Err("ERR Invalid IDLETIME value, must be >= 0");
            }
            idle = true;
            index += 1;
        } else if args.is(index, "freq") && number.is_some() && !idle {
            let frequent = number.flatten().ok_or(NOT_INTEGER)?;
            if !(0..=255).contains(&frequent) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255");
            }
            frequency = true;
            index += 1;
        } else {
            return Err(SYNTAX);
        }
        index += 1;
    }
    Ok(options)
}

fn refusal(why: Wrong) -> String {
    match why {
        Wrong::Footer => "ERR DUMP payload version or checksum are wrong".into(),
        Wrong::Data => "ERR Bad data format".into(),
        Wrong::Type(kind) => format!(
            "ERR the payload is of type {kind}, which Silica does not have: it is of a module, or \
             of a newer Redis"
        ),
    }
}

fn restore(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let options = options(args).map_err(Failure::reply)?;
    let (key, payload) = (args.get(1), args.get(3));
    let was_there = objects.kind(key)?.is_some();
    if was_there && !options.replace {
        return Err(Failure::reply("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = parse_i64(args.get(2)).ok_or_else(|| Failure::reply(NOT_INTEGER))?;
    let ttl_ms =
        u64::try_from(ttl_ms).map_err(|_| Failure::reply("ERR Invalid TTL value, must be >= 0"))?;
    // What is not compressed is as long as its payload, which was counted.
    args.claim_value(rdb::unpacked_bytes(payload)).map_err(Failure::Reply)?;
    let is_string = payload.first() == Some(&0);
    let copies = if is_string { 0 } else { PAYLOAD_COPIES };
    args.claim(copies * payload.len()).map_err(Failure::Reply)?;
    let value =
        rdb::restore_any(payload, VALUE_BYTES_MAX).map_err(|why| Failure::Reply(refusal(why)))?;
    let expires_unix_ms = match (ttl_ms, options.absolute) {
        (0, _) => 0,
        (at, true) => at,
        (after, false) => objects.now_ms.saturating_add(after),
    };
    if expires_unix_ms != 0 && expires_unix_ms <= objects.now_ms {
        objects.tell(&[b"DEL", key]);
        if objects.remove(key)? {
            objects.event(Classes::GENERIC, "del", key);
        }
        reply.ok();
        return Ok(());
    }
    let at = expires_unix_ms.to_string();
    objects.tell(&[b"RESTORE", key, at.as_bytes(), payload, b"REPLACE", b"ABSTTL"]);
    match value {
        Restored::String(value) => {
            objects.put_string(key, value.into_owned(), expires_unix_ms)?;
        }
        Restored::Object(value) => {
            let object = of_rdb(value, objects.pages()).map_err(|error| match error.kind() {
                ErrorKind::Corruption => {
                    objects.pages().forget_newest();
                    Failure::reply("ERR Bad data format")
                }
                _ => Failure::Engine(error),
            })?;
            objects.put_object(key, object, expires_unix_ms)?;
        }
    }
    // It removes what it replaces.
    objects.event(Classes::NEW, "new", key);
    objects.event_at(Classes::GENERIC, "restore", key, Expiry::At(expires_unix_ms));
    reply.ok();
    Ok(())
}
