//! Commands about the time when a key expires.

use super::update::any_one;
use super::{NOT_INTEGER, SYNTAX, Values, read};
use crate::burst::Args;
use crate::table::{Answer, Modify, Read, Run, Wants, Write};
use silica::engine::{EntryRef, Update, WriteBatch};
use silica_proto::{Reply, parse_i64};

/// How a time is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct When {
    /// Milliseconds of its unit.
    unit_ms: i64,
    /// Since the Unix epoch; from now on otherwise.
    absolute: bool,
}

/// When a written key expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    Never,
    /// As before.
    Keep,
    /// After so many milliseconds.
    After(u64),
    /// At this time in Unix milliseconds.
    At(u64),
}

impl Expiry {
    /// The entry's expiry, which was `old_unix_ms`, from now on.
    pub(super) fn at(self, old_unix_ms: u64, now_ms: u64) -> u64 {
        match self {
            Expiry::Never => 0,
            Expiry::Keep => old_unix_ms,
            Expiry::After(ms) => now_ms.saturating_add(ms),
            Expiry::At(unix_ms) => unix_ms,
        }
    }
}

const SECONDS: When = When { unit_ms: 1000, absolute: false };
const MILLISECONDS: When = When { unit_ms: 1, absolute: false };
const UNIX_SECONDS: When = When { unit_ms: 1000, absolute: true };
const UNIX_MILLISECONDS: When = When { unit_ms: 1, absolute: true };

impl When {
    /// What the option `word` of SET and GETEX means.
    pub(super) fn named(word: &[u8]) -> Option<When> {
        match &word.to_ascii_uppercase()[..] {
            b"EX" => Some(SECONDS),
            b"PX" => Some(MILLISECONDS),
            b"EXAT" => Some(UNIX_SECONDS),
            b"PXAT" => Some(UNIX_MILLISECONDS),
            _ => None,
        }
    }

    /// What the command EXPIRE and its like mean.
    fn of_command(args: Args<'_>) -> When {
        let unit_ms = if args.get(0)[0].eq_ignore_ascii_case(&b'p') { 1 } else { 1000 };
        let tail = &args.get(0)[args.get(0).len() - 2..];
        When { unit_ms, absolute: tail.eq_ignore_ascii_case(b"at") }
    }

    /// The expiry that `time` tells; times that are not in the future of the epoch are refused.
    pub(super) fn expiry(self, time: &[u8], command: &str) -> Result<Expiry, String> {
        let time = parse_i64(time).ok_or(NOT_INTEGER)?;
        let invalid = || format!("ERR invalid expire time in '{command}' command");
        let ms = time.checked_mul(self.unit_ms).filter(|ms| *ms > 0).ok_or_else(invalid)? as u64;
        if self.absolute {
            return Ok(Expiry::At(ms));
        }
        // What is beyond the end of time when it is added to now is beyond it in any case.
        if ms > i64::MAX as u64 - NOW_MS_MAX { Err(invalid()) } else { Ok(Expiry::After(ms)) }
    }

    /// The time in Unix milliseconds that `time` tells, the past included.
    fn deadline(self, time: &[u8], now_ms: u64, command: &str) -> Result<i64, String> {
        let time = parse_i64(time).ok_or(NOT_INTEGER)?;
        let base = if self.absolute { 0 } else { now_ms as i64 };
        let ms = time.checked_mul(self.unit_ms).and_then(|ms| ms.checked_add(base));
        ms.ok_or_else(|| format!("ERR invalid expire time in '{command}' command"))
    }
}

/// No clock is later than this: the year 10889.
const NOW_MS_MAX: u64 = 1 << 48;

pub(crate) static TTL: Read = Read::new(1, Wants::Expiry, ttl);
pub(crate) static EXPIRETIME: Read = Read::new(1, Wants::Expiry, expiretime);
pub(crate) static EXPIRE: Modify =
    Modify { many: false, any: true, refuse: |args| expire_flags(args).err(), decide: expire };
pub(crate) static PERSIST: Modify = any_one(persist);
pub(crate) static SETEX: Write = Write {
    refuse: |args| setex_expiry(args).err(),
    value_at: 3,
    apply: put_setex,
    reply: |_, reply| reply.ok(),
};
static GETEX: Modify = Modify {
    many: false,
    any: false,
    // A time that is no number is an error only where the key is there, as in Redis.
    refuse: |args| getex_expiry(args, |_, _| Ok(Expiry::Never)).err(),
    decide: getex,
};

/// A GETEX without options is a GET.
pub(crate) fn choose_getex(args: Args<'_>) -> Run {
    if args.len() == 2 { Run::Read(&read::GET) } else { Run::Update(&GETEX) }
}

fn is_in_ms(args: Args<'_>) -> bool {
    args.get(0)[0].eq_ignore_ascii_case(&b'p')
}

fn ttl(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    show(args, values, reply, |at_ms| at_ms.saturating_sub(values.now_ms), 500);
}

fn expiretime(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    show(args, values, reply, |at_ms| at_ms, 0);
}

/// Answers `time` of a key's expiry: in milliseconds, or in seconds after `round_ms` were added;
/// -1 where it never expires, -2 where it is not there.
fn show(
    args: Args<'_>,
    values: Values<'_>,
    reply: &mut Reply<'_>,
    time: impl Fn(u64) -> u64,
    round_ms: u64,
) {
    reply.integer(match values.len_of(0) {
        None => -2,
        Some(0) => -1,
        Some(at) if is_in_ms(args) => time(at as u64) as i64,
        Some(at) => ((time(at as u64) + round_ms) / 1000) as i64,
    });
}

/// When EXPIRE changes something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    /// Only a key that never expires.
    nx: bool,
    /// Only a key that expires.
    xx: bool,
    /// Only to a later time.
    gt: bool,
    /// Only to an earlier time.
    lt: bool,
}

fn expire_flags(args: Args<'_>) -> Result<Flags, String> {
    let mut flags = Flags::default();
    for word in args.from(3) {
        match &word.to_ascii_uppercase()[..] {
            b"NX" => flags.nx = true,
            b"XX" => flags.xx = true,
            b"GT" => flags.gt = true,
            b"LT" => flags.lt = true,
            _ => {
                let word = String::from_utf8_lossy(word);
                return Err(format!("ERR Unsupported option {word}"));
            }
        }
    }
    let Flags { nx, xx, gt, lt } = flags;
    if nx && (xx || gt || lt) {
        let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(text.into());
    }
    if gt && lt {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(flags)
}

fn expire(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let name = String::from_utf8_lossy(args.get(0)).to_ascii_lowercase();
    let at_ms = match When::of_command(args).deadline(args.get(2), now_ms, &name) {
        Ok(at_ms) => at_ms,
        Err(text) => return (Update::Keep, Answer::Error(text.into())),
    };
    let (Some(entry), Ok(Flags { nx, xx, gt, lt })) = (old, expire_flags(args)) else {
        return (Update::Keep, Answer::Integer(0));
    };
    let never = entry.expires_unix_ms == 0;
    let old_ms = if never { i64::MAX } else { entry.expires_unix_ms as i64 };
    if (nx && !never) || (xx && never) || (gt && at_ms <= old_ms) || (lt && at_ms >= old_ms) {
        return (Update::Keep, Answer::Integer(0));
    }
    let is_over = at_ms <= now_ms as i64;
    let update = if is_over { Update::Delete } else { expiring(entry, at_ms as u64) };
    (update, Answer::Integer(1))
}

/// The entry, with another expiry.
fn expiring(entry: EntryRef<'_>, expires_unix_ms: u64) -> Update {
    Update::Put { value: entry.value.to_vec(), expires_unix_ms, user_bits: entry.user_bits }
}

fn persist(_: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    match old {
        Some(entry) if entry.expires_unix_ms != 0 => (expiring(entry, 0), Answer::Integer(1)),
        _ => (Update::Keep, Answer::Integer(0)),
    }
}

fn setex_expiry(args: Args<'_>) -> Result<Expiry, String> {
    let name = if is_in_ms(args) { "psetex" } else { "setex" };
    let when = if is_in_ms(args) { MILLISECONDS } else { SECONDS };
    when.expiry(args.get(2), name)
}

fn put_setex<'a>(args: Args<'a>, now_ms: u64, batch: &mut WriteBatch<'a>) {
    // A refused request does not come this far.
    if let Ok(expiry) = setex_expiry(args) {
        let expires_unix_ms = expiry.at(0, now_ms);
        batch.put_entry(args.get(1), EntryRef { expires_unix_ms, ..EntryRef::new(args.get(3)) });
    }
}

/// What GETEX does to the expiry.
fn getex_expiry(
    args: Args<'_>,
    expiry: impl Fn(When, &[u8]) -> Result<Expiry, String>,
) -> Result<Expiry, String> {
    match args.len() {
        3.. if (2..args.len()).all(|index| args.is(index, "persist")) => Ok(Expiry::Never),
        4 => expiry(When::named(args.get(2)).ok_or(SYNTAX)?, args.get(3)),
        _ => Err(SYNTAX.into()),
    }
}

fn getex(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let Some(entry) = old else { return (Update::Keep, Answer::Null) };
    let expiry = match getex_expiry(args, |when, time| when.expiry(time, "getex")) {
        Ok(expiry) => expiry,
        Err(text) => return (Update::Keep, Answer::Error(text.into())),
    };
    let update = match expiry.at(entry.expires_unix_ms, now_ms) {
        at if at == entry.expires_unix_ms => Update::Keep,
        at if at != 0 && at <= now_ms => Update::Delete,
        at => expiring(entry, at),
    };
    (update, Answer::optional(Some(entry.value)))
}
