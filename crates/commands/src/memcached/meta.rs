//! The meta commands: what they do, and their answers.

use super::expiry::expires;
use super::text::{joined, number_changed, rewritten, touched};
use super::unique::base_of;
use crate::burst::Args;
use crate::resp::Values;
use crate::table::{Answer, Modify, Read, Run, Wants, Write};
use silica::engine::{EntryRef, Update, WriteBatch};
use silica_proto::memcached::{Fault, Meta, Request, Verb, encode_base64, fault};
use silica_proto::{Reply, append_i64, append_u64};

static GET: Read = Read::new(1, Wants::Entry, get);
static DEBUG: Read = Read::new(1, Wants::Entry, debug);
static SET: Write = Write { refuse: |_| None, value_at: 2, apply: set, reply: set_reply };
static GET_CHANGING: Modify =
    Modify { many: false, any: false, refuse: |_| None, decide: get_changing };
static STORE: Modify = Modify { many: false, any: false, refuse: |_| None, decide: store };
static DELETE: Modify = Modify { many: false, any: true, refuse: |_| None, decide: delete };
static ARITHMETIC: Modify =
    Modify { many: false, any: false, refuse: |_| None, decide: arithmetic };

/// How a meta command is run.
pub(crate) fn run(meta: &Meta) -> Run {
    match meta.verb {
        Verb::Get if meta.has(b'T') || meta.has(b'N') => Run::Update(&GET_CHANGING),
        Verb::Get => Run::Read(&GET),
        Verb::Set if matches!(meta.mode, 0 | b'S') && !meta.has(b'C') => Run::Write(&SET),
        Verb::Set => Run::Update(&STORE),
        Verb::Delete => Run::Update(&DELETE),
        Verb::Arithmetic => Run::Update(&ARITHMETIC),
        Verb::Debug => Run::Read(&DEBUG),
    }
}

/// What came of a meta command that changes something. Its marks are set when it is answered,
/// since it may be decided several times.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Nothing but a code.
    Code(&'static str),
    /// An entry, as it was before its expiry changed.
    Entry {
        /// Its value.
        value: Vec<u8>,
        /// When it expires in Unix milliseconds; 0 for never.
        expires_unix_ms: u64,
        /// Its flags.
        user_bits: u32,
        /// There was none before.
        created: bool,
    },
    /// Stored.
    Stored {
        /// The unique that value and flags alone make.
        base: u64,
        /// It is marked as stale.
        stale: bool,
    },
    /// Removed.
    Deleted,
    /// Marked as stale.
    Invalidated {
        /// The unique that value and flags alone make.
        base: u64,
    },
    /// The value is no number.
    NoNumber,
}

fn answer(outcome: Outcome) -> Answer {
    Answer::Meta(outcome)
}

/// The command of `args`.
fn meta_of(args: Args<'_>) -> Meta {
    match args.head() {
        Request::Meta(meta) => meta,
        _ => Meta::new(Verb::Debug),
    }
}

/// The flags of `args`, in their order.
fn words<'a>(args: Args<'a>, meta: &Meta) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    args.from(if meta.verb == Verb::Set { 3 } else { 2 })
}

fn key(out: &mut Vec<u8>, args: Args<'_>, meta: &Meta) {
    if meta.has(b'b') {
        encode_base64(out, args.get(1));
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(args.get(1));
    }
}

/// Appends what every answer repeats: the opaque, and the key where it is asked for.
fn repeat(out: &mut Vec<u8>, word: &[u8], args: Args<'_>, meta: &Meta) {
    match word[0] {
        b'O' => {
            out.push(b' ');
            out.extend_from_slice(word);
        }
        b'k' => {
            out.extend_from_slice(b" k");
            key(out, args, meta);
        }
        _ => {}
    }
}

/// Answers with a code, and what every answer repeats.
fn code(out: &mut Vec<u8>, code: &str, args: Args<'_>, meta: &Meta) {
    out.extend_from_slice(code.as_bytes());
    for word in words(args, meta) {
        match word[0] {
            b'c' if meta.verb == Verb::Set => out.extend_from_slice(b" c0"),
            _ => repeat(out, word, args, meta),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// How far the time of one loop may be behind that of another, where the entry was written.
const LOOPS_APART_MS: u64 = 20;

/// Whole seconds until `at_ms`, begun ones included.
fn seconds(at_ms: u64, now_ms: u64) -> u64 {
    let left = at_ms.saturating_sub(now_ms);
    left.saturating_sub(LOOPS_APART_MS).div_ceil(1000).max(u64::from(left > 0))
}

fn ttl(out: &mut Vec<u8>, expires_unix_ms: u64, now_ms: u64) {
    match expires_unix_ms {
        0 => append_i64(out, -1),
        at_ms => append_u64(out, seconds(at_ms, now_ms)),
    }
}

/// The code, and the size where the value follows.
fn head(out: &mut Vec<u8>, value: &[u8], meta: &Meta) {
    if meta.has(b'v') {
        out.extend_from_slice(b"VA ");
        append_u64(out, value.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
}

/// The end of the line, and the value where it is asked for.
fn tail(out: &mut Vec<u8>, value: &[u8], meta: &Meta) {
    out.extend_from_slice(b"\r\n");
    if meta.has(b'v') {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

fn get(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    let meta = meta_of(args);
    match values.entry(0) {
        Some(entry) => found(reply.raw(), args, &meta, entry, false, values.now_ms),
        None => missed(reply.raw(), args, &meta),
    }
}

fn missed(out: &mut Vec<u8>, args: Args<'_>, meta: &Meta) {
    if let Some(marks) = args.marks() {
        marks.clear(args.get(1));
    }
    if !meta.has(b'q') {
        code(out, "EN", args, meta);
    }
}

/// Answers `mg` with `entry`, as it was before the command changed it.
fn found(
    out: &mut Vec<u8>,
    args: Args<'_>,
    meta: &Meta,
    entry: EntryRef<'_>,
    created: bool,
    now_ms: u64,
) {
    let base = base_of(&entry);
    let mut expires_unix_ms = entry.expires_unix_ms;
    let mut wants = false;
    head(out, entry.value, meta);
    for word in words(args, meta) {
        match word[0] {
            b'T' => expires_unix_ms = expires(meta.expiry, now_ms).unwrap_or(now_ms),
            b'N' if created => expires_unix_ms = expires(meta.vivify, now_ms).unwrap_or(now_ms),
            b'R' if !created => wants |= is_near(expires_unix_ms, meta.recache, now_ms),
            b's' => {
                out.extend_from_slice(b" s");
                append_u64(out, entry.value.len() as u64);
            }
            b't' => {
                out.extend_from_slice(b" t");
                ttl(out, expires_unix_ms, now_ms);
            }
            b'c' => {
                out.extend_from_slice(b" c");
                append_u64(out, args.unique(args.get(1), &entry));
            }
            b'f' => {
                out.extend_from_slice(b" f");
                append_u64(out, u64::from(entry.user_bits));
            }
            // Neither is kept.
            b'h' => out.extend_from_slice(b" h0"),
            b'l' => out.extend_from_slice(b" l0"),
            _ => repeat(out, word, args, meta),
        }
    }
    if let Some(marks) = args.marks() {
        if created {
            out.extend_from_slice(b" W");
        } else {
            let seen = marks.visit(args.get(1), base, wants);
            let shown: [(bool, &[u8]); 3] =
                [(seen.told, b" Z"), (seen.stale, b" X"), (seen.won, b" W")];
            shown.iter().filter(|s| s.0).for_each(|s| out.extend_from_slice(s.1));
        }
    }
    tail(out, entry.value, meta);
}

/// True where an entry has less time left than `recache` says.
fn is_near(expires_unix_ms: u64, recache: i64, now_ms: u64) -> bool {
    let limit = expires(recache, now_ms).unwrap_or(0);
    expires_unix_ms != 0 && limit != 0 && seconds(expires_unix_ms, now_ms) < seconds(limit, now_ms)
}

fn debug(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    let (meta, now_ms) = (meta_of(args), values.now_ms);
    let out = reply.raw();
    let Some(entry) = values.entry(0) else { return out.extend_from_slice(b"EN\r\n") };
    out.extend_from_slice(b"ME ");
    match meta.has(b'b') {
        true => encode_base64(out, args.get(1)),
        false => out.extend_from_slice(args.get(1)),
    }
    out.extend_from_slice(b" exp=-");
    append_u64(
        out,
        if entry.expires_unix_ms == 0 { 1 } else { seconds(entry.expires_unix_ms, now_ms) },
    );
    out.extend_from_slice(b" la=0 cas=");
    append_u64(out, args.unique(args.get(1), &entry));
    out.extend_from_slice(b" fetch=no cls=1 size=");
    append_u64(out, (args.get(1).len() + entry.value.len()) as u64);
    out.extend_from_slice(b"\r\n");
}

fn get_changing(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let meta = meta_of(args);
    let entry = |entry: EntryRef<'_>, created| Outcome::Entry {
        value: entry.value.to_vec(),
        expires_unix_ms: entry.expires_unix_ms,
        user_bits: entry.user_bits,
        created,
    };
    match old {
        Some(old) if meta.has(b'T') => {
            (touched(&old, meta.expiry, now_ms), answer(entry(old, false)))
        }
        Some(old) => (Update::Keep, answer(entry(old, false))),
        None if meta.has(b'N') => {
            // What comes later in the request counts.
            let order = words(args, &meta).filter(|word| matches!(word[0], b'N' | b'T'));
            let sent = match order.last() {
                Some([b'T', ..]) => meta.expiry,
                _ => meta.vivify,
            };
            let update = match expires(sent, now_ms) {
                Some(expires_unix_ms) => {
                    // Before anybody can see the entry: who does is told that somebody makes it.
                    if let Some(marks) = args.marks() {
                        marks.create(args.get(1), base_of(&EntryRef::default()));
                    }
                    Update::Put { value: Vec::new(), expires_unix_ms, user_bits: 0 }
                }
                None => Update::Keep,
            };
            (update, answer(entry(EntryRef::default(), true)))
        }
        None => (Update::Keep, answer(Outcome::Code("EN"))),
    }
}

/// The entry that `ms` stores.
fn new_entry<'a>(args: Args<'a>, meta: &Meta, now_ms: u64) -> Option<EntryRef<'a>> {
    let expires_unix_ms = expires(if meta.has(b'T') { meta.expiry } else { 0 }, now_ms)?;
    Some(EntryRef { value: args.get(2), expires_unix_ms, user_bits: meta.client_flags })
}

fn set<'a>(args: Args<'a>, now_ms: u64, batch: &mut WriteBatch<'a>) {
    let meta = meta_of(args);
    args.forget_mark();
    match new_entry(args, &meta, now_ms) {
        Some(entry) => batch.put_entry(args.get(1), entry),
        None => batch.delete(args.get(1)),
    };
}

fn set_reply(args: Args<'_>, reply: &mut Reply<'_>) {
    let meta = meta_of(args);
    stored(reply.raw(), args, &meta, stored_base(args, &meta));
}

/// The unique of what `ms` stores whole.
fn stored_base(args: Args<'_>, meta: &Meta) -> u64 {
    base_of(&EntryRef { value: args.get(2), expires_unix_ms: 0, user_bits: meta.client_flags })
}

fn stored(out: &mut Vec<u8>, args: Args<'_>, meta: &Meta, base: u64) {
    if meta.has(b'q') {
        return;
    }
    out.extend_from_slice(b"HD");
    for word in words(args, meta) {
        if word[0] == b'c' {
            out.extend_from_slice(b" c");
            append_u64(out, args.marked_unique(args.get(1), base));
        } else {
            repeat(out, word, args, meta);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// An `ms` that has to look first.
fn store(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let meta = meta_of(args);
    let keep = |code| (Update::Keep, answer(Outcome::Code(code)));
    let matches =
        !meta.has(b'C') || old.is_some_and(|old| args.unique(args.get(1), &old) == meta.unique);
    let joins = matches!(meta.mode, b'A' | b'P');
    // A unique that does not match may be let through, to be marked as stale.
    let stale = !matches && meta.has(b'I') && !joins && meta.mode != b'E';
    match (meta.mode, old) {
        (b'E', Some(_)) => return keep("NS"),
        (b'E', None) => {}
        (b'A' | b'P', None) => return keep("NS"),
        (b'R', None) if !meta.has(b'C') => return keep("NS"),
        (_, None) if meta.has(b'C') => return keep("NF"),
        (_, Some(_)) if !matches && !stale => return keep("EX"),
        _ => {}
    }
    let update = match old {
        Some(old) if joins => match joined(&old, args.get(2), meta.mode == b'A') {
            Some(value) => rewritten(&old, value),
            None => return keep("NS"),
        },
        _ => match new_entry(args, &meta, now_ms) {
            // Stale where nothing can be marked would look fresh.
            Some(_) if stale && !args.has_room_for_mark() => Update::Delete,
            Some(EntryRef { value, expires_unix_ms, user_bits }) => {
                Update::Put { value: value.to_vec(), expires_unix_ms, user_bits }
            }
            None => Update::Delete,
        },
    };
    let base = match update.kind() {
        Some(silica::engine::OpKind::Put(entry)) => base_of(&entry),
        _ => stored_base(args, &meta),
    };
    args.forget_mark();
    let stale = stale && update != Update::Delete;
    (update, answer(Outcome::Stored { base, stale }))
}

fn delete(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let meta = meta_of(args);
    let Some(old) = old else { return (Update::Keep, answer(Outcome::Code("NF"))) };
    if meta.has(b'C') && args.unique(args.get(1), &old) != meta.unique {
        return (Update::Keep, answer(Outcome::Code("EX")));
    }
    if !meta.has(b'I') || !args.has_room_for_mark() {
        args.forget_mark();
        return (Update::Delete, answer(Outcome::Deleted));
    }
    let touches = meta.has(b'T');
    let update = if touches { touched(&old, meta.expiry, now_ms) } else { Update::Keep };
    (update, answer(Outcome::Invalidated { base: base_of(&old) }))
}

fn arithmetic(args: Args<'_>, old: Option<EntryRef<'_>>, now_ms: u64) -> (Update, Answer) {
    let meta = meta_of(args);
    let Some(old) = old else {
        if !meta.has(b'N') {
            return (Update::Keep, answer(Outcome::Code("NF")));
        }
        let mut value = Vec::with_capacity(20);
        append_u64(&mut value, meta.initial);
        let update = expires(meta.vivify, now_ms).map_or(Update::Keep, |expires_unix_ms| {
            Update::Put { value: value.clone(), expires_unix_ms, user_bits: 0 }
        });
        let created = Outcome::Entry { value, expires_unix_ms: 0, user_bits: 0, created: true };
        return (update, answer(created));
    };
    if meta.has(b'C') && args.unique(args.get(1), &old) != meta.unique {
        return (Update::Keep, answer(Outcome::Code("EX")));
    }
    let up = !matches!(meta.mode, b'D' | b'-');
    let Some(value) = number_changed(old.value, up, meta.delta) else {
        return (Update::Keep, answer(Outcome::NoNumber));
    };
    let EntryRef { expires_unix_ms, user_bits, .. } = old;
    let update = match meta.has(b'T').then(|| expires(meta.expiry, now_ms)) {
        None => rewritten(&old, value.clone()),
        Some(None) => Update::Delete,
        Some(Some(at)) => Update::Put { value: value.clone(), expires_unix_ms: at, user_bits },
    };
    (update, answer(Outcome::Entry { value, expires_unix_ms, user_bits, created: false }))
}

/// Answers `ma` with the number it has made.
fn counted(out: &mut Vec<u8>, args: Args<'_>, meta: &Meta, entry: EntryRef<'_>, made: bool) {
    if meta.has(b'q') && !made {
        return;
    }
    let now_ms = args.now_ms();
    let mut expires_unix_ms = entry.expires_unix_ms;
    head(out, entry.value, meta);
    for word in words(args, meta) {
        match word[0] {
            b'T' => expires_unix_ms = expires(meta.expiry, now_ms).unwrap_or(now_ms),
            b'N' if made => expires_unix_ms = expires(meta.vivify, now_ms).unwrap_or(now_ms),
            b't' => {
                out.extend_from_slice(b" t");
                ttl(out, expires_unix_ms, now_ms);
            }
            b'c' => {
                out.extend_from_slice(b" c");
                append_u64(out, base_of(&entry));
            }
            _ => repeat(out, word, args, meta),
        }
    }
    tail(out, entry.value, meta);
}

/// Answers a meta command that may have changed something.
pub(super) fn write(outcome: &Outcome, args: Args<'_>, reply: &mut Reply<'_>) {
    let meta = meta_of(args);
    let out = reply.raw();
    let quiet = meta.has(b'q');
    match outcome {
        Outcome::Code("EN") => missed(out, args, &meta),
        Outcome::Code(text) => code(out, text, args, &meta),
        Outcome::Entry { value, expires_unix_ms, user_bits, created } => {
            let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
            let entry = EntryRef { value, expires_unix_ms, user_bits };
            match meta.verb {
                Verb::Get => found(out, args, &meta, entry, *created, args.now_ms()),
                _ => counted(out, args, &meta, entry, *created),
            }
        }
        Outcome::Stored { base, stale } => {
            if let (Some(marks), true) = (args.marks(), *stale) {
                marks.invalidate(args.get(1), *base);
            }
            stored(out, args, &meta, *base);
        }
        Outcome::Deleted if quiet => {}
        Outcome::Deleted => code(out, "HD", args, &meta),
        Outcome::Invalidated { base } => {
            if let Some(marks) = args.marks() {
                marks.invalidate(args.get(1), *base);
            }
            if !quiet {
                code(out, "HD", args, &meta);
            }
        }
        Outcome::NoNumber => fault(out, Fault::NoNumber),
    }
}
