//! DUMP and RESTORE: values in the form that Redis exchanges them in.

use super::update::wrong;
use super::{NOT_INTEGER, SYNTAX, VALUE_BYTES_MAX, Values};
use crate::burst::Args;
use crate::table::{Answer, Modify, Read, Wants};
use silica::engine::{EntryRef, Update};
use silica_proto::rdb::{self, Wrong};
use silica_proto::{Reply, parse_i64};
use std::borrow::Cow;

pub(crate) static DUMP: Read = Read::new(1, Wants::Value, dump);
pub(crate) static RESTORE: Modify =
    Modify { many: false, refuse: |args| options(args).err().map(Into::into), decide: restore };

fn dump(_: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    match values.get(0) {
        Some(value) => rdb::reply_dump(value, reply),
        None => reply.null(),
    }
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

fn refusal(why: Wrong) -> Cow<'static, str> {
    match why {
        Wrong::Footer => "ERR DUMP payload version or checksum are wrong".into(),
        Wrong::Data => "ERR Bad data format".into(),
        Wrong::Type(kind) => format!(
            "ERR the payload is of type {kind}, which Silica does not have: it stores strings"
        )
        .into(),
    }
}

fn restore(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    // A refused request does not come this far.
    let Ok(options) = options(args) else { return wrong(SYNTAX) };
    if old.is_some() && !options.replace {
        return wrong("BUSYKEY Target key name already exists.");
    }
    let Some(ttl_ms) = parse_i64(args.get(2)) else { return wrong(NOT_INTEGER) };
    let Ok(ttl_ms) = u64::try_from(ttl_ms) else {
        return wrong("ERR Invalid TTL value, must be >= 0");
    };
    // What is not compressed is as long as its payload, which was counted.
    let unpacked = rdb::unpacked_bytes(args.get(3));
    if let Err(text) = args.claim_value(unpacked) {
        return (Update::Keep, Answer::Error(text.into()));
    }
    let value = match rdb::restore(args.get(3), VALUE_BYTES_MAX) {
        Ok(value) => value.into_owned(),
        Err(why) => return (Update::Keep, Answer::Error(refusal(why))),
    };
    let expires_unix_ms = match (ttl_ms, options.absolute) {
        (0, _) => 0,
        (at, true) => at,
        (after, false) => now_ms.saturating_add(after),
    };
    if expires_unix_ms != 0 && expires_unix_ms <= now_ms {
        let update = if old.is_some() { Update::Delete } else { Update::Keep };
        return (update, Answer::Ok);
    }
    (Update::Put { value, expires_unix_ms, user_bits: 0 }, Answer::Ok)
}
