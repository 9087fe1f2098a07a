//! The one table of commands: parsing, checks, COMMAND and its docs are made from it.

use crate::acl::Access;
use crate::burst::Args;
use crate::effect::Effect;
use crate::exec::{Slot, is_told_without_value};
use crate::memcached::{self, Outcome};
use crate::resp::scripts::ScriptKind;
use crate::resp::sql::SqlKind;
use crate::resp::types::{TypeCommand, WRONG_TYPE};
use crate::resp::{Cx, Keyspace, Values};
use silica::engine::{EntryRef, Limits, Result, Update, WriteBatch};
use silica_proto::memcached::Request as Head;
use silica_proto::{Reply, parse_i64};
use silica_types::{is_inner, is_marked};
use std::borrow::Cow;
use std::sync::LazyLock;

pub(crate) use places::LIST;
#[cfg(test)]
pub(crate) use places::place;
pub(crate) use traits::{Trait, Traits};

/// What a read needs of the values it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Their bytes.
    Value,
    /// Only whether they are there and how long.
    Length,
    /// Whether they are there, how long, and their user bits, of whatever type they are.
    Kind,
    /// When they expire: Unix milliseconds in place of the value's length, 0 for never.
    Expiry,
    /// Their bytes behind those of their meta.
    Entry,
}

/// A command that reads some keys and can share its `get_many` with others.
pub(crate) struct Read {
    /// How many of the arguments are keys, from the first on.
    pub(crate) keys_max: usize,
    pub(crate) wants: Wants,
    pub(crate) answering: Answering,
    /// The error where a key holds another type.
    other_type: fn(Args<'_>) -> &'static str,
}

/// How a read is answered.
pub(crate) enum Answering {
    /// Once all of its values are there.
    Whole(fn(Args<'_>, Values<'_>, &mut Reply<'_>)),
    /// Key by key, in their order.
    Pieces(Pieces),
}

/// The parts of a reply.
pub(crate) struct Pieces {
    /// Before those of so many keys.
    pub(crate) first: fn(usize, &mut Reply<'_>),
    /// What the key that is asked about has.
    pub(crate) each: fn(Args<'_>, Option<EntryRef<'_>>, &mut Reply<'_>),
    /// Behind them.
    pub(crate) last: fn(&mut Reply<'_>),
}

impl Read {
    pub(crate) const fn new(
        keys_max: usize,
        wants: Wants,
        reply: fn(Args<'_>, Values<'_>, &mut Reply<'_>),
    ) -> Self {
        let answering = Answering::Whole(reply);
        Read { keys_max, wants, answering, other_type: |_| WRONG_TYPE }
    }

    /// The read with an error of its own where a key holds another type: be it that its arguments
    /// are wrong, which Redis tells before it looks at the key.
    pub(crate) const fn with_other_type(self, other_type: fn(Args<'_>) -> &'static str) -> Self {
        Read { other_type, ..self }
    }

    /// One that is answered key by key; it wants values, with their meta or without.
    pub(crate) const fn in_pieces(keys_max: usize, wants: Wants, pieces: Pieces) -> Self {
        let answering = Answering::Pieces(pieces);
        Read { keys_max, wants, answering, other_type: |_| WRONG_TYPE }
    }

    /// Answers with all values.
    pub(crate) fn answer(&self, args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
        if self.keys_max <= 2 && values.slots.contains(&Slot::OtherType) {
            return args.refuse((self.other_type)(args), reply);
        }
        let pieces = match &self.answering {
            Answering::Whole(answer) => return answer(args, values, reply),
            Answering::Pieces(pieces) => pieces,
        };
        let keys = self.keys(args).len();
        (pieces.first)(keys, reply);
        for nth in 0..keys {
            let entry = match self.wants {
                Wants::Entry => values.entry(nth),
                _ => values.get(nth).map(EntryRef::new),
            };
            (pieces.each)(args.at_key(nth), entry, reply);
        }
        (pieces.last)(reply);
    }

    /// The keys that `args` ask for.
    #[inline]
    pub(crate) fn keys<'a>(
        &self,
        args: Args<'a>,
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        args.from(1).take(self.keys_max)
    }
}

/// A command that writes without looking and can share its batch with others.
pub(crate) struct Write {
    /// Why the arguments are wrong, where they are.
    pub(crate) refuse: fn(Args<'_>) -> Option<String>,
    /// The place of the value of the only key; 0 where all arguments are pairs of both.
    pub(crate) value_at: usize,
    /// Adds the puts, at a time in Unix milliseconds.
    pub(crate) apply: for<'a> fn(Args<'a>, u64, &mut WriteBatch<'a>),
    pub(crate) reply: fn(Args<'_>, &mut Reply<'_>),
}

impl Write {
    /// Why the request cannot be part of a batch, where that is so.
    pub(crate) fn check(&self, args: Args<'_>, limits: &Limits) -> Option<String> {
        let pairs = if self.value_at == 0 { args.len() / 2 } else { 1 };
        (self.refuse)(args).or_else(|| refuse_flags(args)).or_else(|| {
            (0..pairs).find_map(|pair| {
                let value_at = if self.value_at == 0 { 2 * pair + 2 } else { self.value_at };
                refuse_key(args.get(2 * pair + 1), limits.key_bytes_max)
                    .or_else(|| value_too_large(args.get(value_at), limits.value_bytes_max))
            })
        })
    }
}

/// A command that changes keys by what they hold and can share its burst with others.
pub struct Modify {
    /// True where every argument is a key, false where only the first is.
    pub many: bool,
    /// It changes keys of whatever type, and not only strings.
    pub(crate) any: bool,
    /// Why the arguments are wrong, where they are.
    pub(crate) refuse: fn(Args<'_>) -> Option<String>,
    pub(crate) decide: Decide,
}

/// What becomes of a key at a time in Unix milliseconds, and the answer; the numbers of several
/// keys are added up.
pub(crate) type Decide = fn(Args<'_>, Option<EntryRef<'_>>, u64) -> (Update, Answer);

impl Modify {
    /// The keys that `args` change.
    #[inline]
    pub(crate) fn keys<'a>(
        &self,
        args: Args<'a>,
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        args.from(1).take(if self.many { usize::MAX } else { 1 })
    }

    /// What becomes of the key that `args` ask about, within `burst_limits`; the answer, and what
    /// the update has done once it is made.
    pub fn judge(
        &self,
        args: Args<'_>,
        current: Option<EntryRef<'_>>,
        burst_limits: &BurstLimits,
    ) -> (Update, Judged) {
        // The engine of a replica may still have what has expired.
        let is_live = |entry: &EntryRef<'_>| {
            entry.expires_unix_ms == 0 || entry.expires_unix_ms > burst_limits.now_ms
        };
        let current = current.filter(is_live);
        let (update, answer) = self.judge_within(args, current, burst_limits);
        let mut effect = Effect::of(current, &update);
        if burst_limits.is_told {
            let needs_value = !is_told_without_value(args, &effect);
            effect.note_told(&update, needs_value);
        }
        (update, (answer, effect))
    }

    fn judge_within(
        &self,
        args: Args<'_>,
        current: Option<EntryRef<'_>>,
        burst_limits: &BurstLimits,
    ) -> (Update, Answer) {
        if !self.any && current.is_some_and(|entry| is_marked(entry.user_bits)) {
            return (Update::Keep, Answer::Error(WRONG_TYPE.into()));
        }
        let old = current.map_or(0, |entry| entry.value.len());
        // Of many keys each has its turn, and none of them brings a value.
        let given = if self.many { 0 } else { args.bytes() };
        // The engine's copy of the value, and what takes its place or answers it.
        if let Err(text) = args.claim(2 * old + given) {
            return (Update::Keep, Answer::Error(text.into()));
        }
        let (update, answer) = (self.decide)(args, current, burst_limits.now_ms);
        let refused = match &update {
            Update::Put { value, .. } => value_too_large(value, burst_limits.value_bytes_max)
                .or_else(|| args.refuse_value(value.len())),
            _ => None,
        };
        let refused = refused.or_else(|| burst_limits.refuse_reply(answer.held_bytes()));
        match refused {
            Some(text) => (Update::Keep, Answer::Error(text.into())),
            None => (update, answer),
        }
    }

    /// Why the request cannot be part of a burst, where that is so.
    pub(crate) fn check(&self, args: Args<'_>, limits: &Limits) -> Option<String> {
        (self.refuse)(args)
            .or_else(|| refuse_flags(args))
            .or_else(|| self.keys(args).find_map(|key| refuse_key(key, limits.key_bytes_max)))
    }
}

/// The time and the limits that hold for all updates of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstLimits {
    /// Unix milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) value_bytes_max: usize,
    /// Bytes of values that the reply to a request may hold.
    pub(crate) reply_bytes_max: usize,
    /// Bytes of values in answers after which the burst goes on later.
    pub(crate) room: usize,
    /// Replicas are told what becomes of keys.
    pub(crate) is_told: bool,
}

impl BurstLimits {
    /// Why a reply cannot hold `bytes` bytes of values, where that is so.
    pub(crate) fn refuse_reply(&self, bytes: usize) -> Option<String> {
        (bytes > self.reply_bytes_max).then(|| reply_too_large(self.reply_bytes_max))
    }
}

pub(crate) fn reply_too_large(bytes_max: usize) -> String {
    format!("ERR the reply is larger than {bytes_max} bytes; ask for fewer keys at once")
}

/// What a [`Modify`] answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The simple string OK.
    Ok,
    /// A number.
    Integer(i64),
    /// An array of integers and nulls.
    Integers(Vec<Option<i64>>),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Null.
    Null,
    /// An error, its code first.
    Error(Cow<'static, str>),
    /// In memcached's protocols, as it is sent.
    Raw(Cow<'static, [u8]>),
    /// Of a meta command.
    Meta(Outcome),
}

/// The answer about a key, and what was done to it.
pub type Judged = (Answer, Effect);

impl Answer {
    /// `value` or, where there is none, null.
    pub(crate) fn optional(value: Option<&[u8]>) -> Self {
        value.map_or(Answer::Null, |bytes| Answer::Bulk(bytes.to_vec()))
    }

    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Answer::Bulk(bytes)
            | Answer::Raw(Cow::Owned(bytes))
            | Answer::Meta(Outcome::Entry { value: bytes, .. }) => bytes.len(),
            _ => 0,
        }
    }

    /// Answers a request with those of its keys; the numbers of several are added up.
    pub(crate) fn write_all(answers: &[Answer], args: Args<'_>, reply: &mut Reply<'_>) {
        let mut sum = 0;
        for answer in answers {
            match answer {
                Answer::Integer(n) => sum += n,
                Answer::Raw(_) | Answer::Meta(_) => {
                    return memcached::write_all(answers, args, reply);
                }
                other => return other.write(args, reply),
            }
        }
        reply.integer(sum);
    }

    fn write(&self, args: Args<'_>, reply: &mut Reply<'_>) {
        match self {
            Answer::Ok => reply.ok(),
            Answer::Integer(n) => reply.integer(*n),
            Answer::Integers(numbers) => {
                reply.array(numbers.len());
                for number in numbers {
                    match number {
                        Some(n) => reply.integer(*n),
                        None => reply.null(),
                    }
                }
            }
            Answer::Bulk(bytes) => reply.bulk(bytes),
            Answer::Null => reply.null(),
            Answer::Error(text) => args.refuse(text, reply),
            Answer::Raw(bytes) => reply.raw().extend_from_slice(bytes),
            Answer::Meta(_) => memcached::write_all(std::slice::from_ref(self), args, reply),
        }
    }
}

/// Why `key` is no key of a user, or too long, if that is so.
pub(crate) fn refuse_key(key: &[u8], max: usize) -> Option<String> {
    if is_inner(key) {
        return Some(INNER_KEY.into());
    }
    too_large("key", key, max)
}

/// Why the flags of a request of memcached's protocols cannot be kept, if that is so.
#[inline]
fn refuse_flags(args: Args<'_>) -> Option<String> {
    let flags = match args.memcached()? {
        Head::Store { flags, .. } => *flags,
        Head::Meta(meta) => meta.client_flags,
        Head::Binary(packet) => packet.flags,
        _ => return None,
    };
    let text = "ERR flags from 51CA0000 to 51CAFFFF (hexadecimal) are the server's own; use others";
    is_marked(flags).then(|| text.into())
}

/// The error of a command that names a page.
pub(crate) const INNER_KEY: &str =
    "ERR keys that begin with the bytes FF 51 CA 00 are the server's own; use another key";

/// Why `bytes` are too many, where they are.
pub(crate) fn too_large(what: &str, bytes: &[u8], max: usize) -> Option<String> {
    let len = bytes.len();
    (len > max).then(|| format!("ERR a {what} of {len} bytes is over the limit of {max}"))
}

/// Why a value has too many bytes for an engine, and which option says so.
fn value_too_large(value: &[u8], max: usize) -> Option<String> {
    let text = too_large("value", value, max)?;
    // Only the memory of a small cache allows for less than the protocol.
    let is_of_memory = max < silica_proto::Limits::OPEN.bulk_bytes_max;
    let way = "; a database with more memory (--cache, memory_bytes) takes larger ones";
    Some(if is_of_memory { text + way } else { text })
}

/// How a command is run.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// It was answered already.
    Ready,
    /// By the loop, from what it knows.
    Session(fn(&mut Cx<'_>, Args<'_>)),
    /// Together with other reads.
    Read(&'static Read),
    /// Together with other writes.
    Write(&'static Write),
    /// Together with other read-modify-writes.
    Update(&'static Modify),
    /// Together with other commands on objects.
    Type(&'static TypeCommand),
    /// Alone, as a read-modify-write of several keys in one step.
    UpdateAll(fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>),
    /// Alone, as one step: the transaction of this number among the input's.
    Transaction(usize),
    /// While no other burst runs: on several databases at once.
    Across(fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>),
    /// While no other burst runs: the transaction of this number, which concerns several databases,
    /// or a whole one.
    AcrossTransaction(usize),
    /// Alone: notes what its keys hold in the watches of this number.
    Watch(usize),
    /// Alone, as one step: a script, for whom the input says under this number.
    Script(ScriptKind, usize),
    /// Alone, a statement of SQL: the call of this number among the input's.
    Sql(SqlKind, usize),
    /// Alone, on the store as a whole.
    Whole(fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>),
    /// Alone, outside of bursts: it may wait for other servers, and nobody waits for it.
    Apart(fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>),
    /// As its arguments say.
    Choose(fn(Args<'_>) -> Run),
}

impl Run {
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, Run::Ready)
    }

    /// True if it runs while no other burst does.
    pub(crate) fn is_across(&self) -> bool {
        matches!(self, Run::Across(_) | Run::AcrossTransaction(_))
    }

    /// True if it runs outside of bursts.
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self, Run::Apart(_))
    }

    /// True where the command may change the store.
    pub(crate) fn changes(&self) -> bool {
        if let Run::Type(command) = self {
            return command.writes;
        }
        matches!(
            self,
            Run::Write(_)
                | Run::Update(_)
                | Run::UpdateAll(_)
                | Run::Transaction(_)
                | Run::Across(_)
                | Run::AcrossTransaction(_)
                | Run::Script(..)
                | Run::Sql(SqlKind::All, _)
        )
    }
}

/// A command or subcommand.
#[derive(Clone)]
pub(crate) struct Command {
    /// Lower case; a subcommand's is `container|sub`.
    pub(crate) name: &'static str,
    /// Number of arguments, name included; negative where more are fine.
    pub(crate) arity: i32,
    /// Flags as COMMAND shows them, separated by blanks; behind a slash words that it does not
    /// show: what is special about the command ([`Trait`]), and categories that group and flags do
    /// not tell.
    pub(crate) flags: &'static str,
    /// First key, last key (negative: from the end) and step among the arguments.
    pub(crate) keys: (i32, i32, i32),
    /// Group in the docs.
    pub(crate) group: &'static str,
    /// Version of Redis that has it too.
    pub(crate) since: &'static str,
    /// One line for the docs.
    pub(crate) summary: &'static str,
    pub(crate) run: Run,
    /// What the flags say is special, since they are too long to be read each time.
    pub(crate) traits: Traits,
    /// Subcommands; a command with some is never run itself unless it came alone.
    pub(crate) subs: &'static [Command],
}

impl Command {
    /// True where a request with `len` arguments is well-formed.
    pub(crate) fn takes(&self, len: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exact) => len == exact,
            Err(_) => len >= self.arity.unsigned_abs() as usize,
        }
    }

    /// True where it acts on, or tells, more than keys and what its own connection has chosen: then
    /// it waits until the requests before it on its connection are answered, and those behind it
    /// wait for it.
    pub(crate) fn is_alone(&self) -> bool {
        match self.run {
            Run::Session(_) => !self.is(Trait::Own),
            Run::Whole(_) => ["server", "connection"].contains(&self.group),
            Run::Apart(_) => true,
            _ => false,
        }
    }

    /// True if `which` is special about it.
    #[inline]
    pub(crate) fn is(&self, which: Trait) -> bool {
        self.traits.has(which)
    }

    /// The flags that COMMAND shows.
    pub(crate) fn shown_flags(&self) -> impl Iterator<Item = &'static str> + Clone {
        let shown = self.flags.split_once('/').map_or(self.flags, |(shown, _)| shown);
        shown.split_ascii_whitespace()
    }

    /// True where it may come before AUTH.
    pub(crate) fn open_to_all(&self) -> bool {
        self.flags.contains("no_auth")
    }

    /// The keys among `args`.
    pub(crate) fn keys<'a>(
        &self,
        args: Args<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (mut first, mut last, step) = self.keys;
        let number_at = match () {
            () if self.is(Trait::NumberedFirst) => Some(1),
            () if self.is(Trait::CountedKeys) || self.is(Trait::NumberedSecond) => Some(2),
            () => None,
        };
        let mut other = None;
        if let Some(at) = number_at.filter(|at| args.len() > *at) {
            // An argument says how many of those behind it are keys; one may come before it.
            let count = parse_i64(args.get(at)).and_then(|n| usize::try_from(n).ok());
            let count = count.filter(|count| *count < args.len() - at).unwrap_or(0);
            other = (first > 0).then_some(first as usize);
            (first, last) = (at as i32 + 1, (count + at) as i32);
        } else if self.is(Trait::Stores) {
            let is_option = |at: &usize| args.is(*at, "store") || args.is(*at, "storedist");
            other = (2..args.len() - 1).rev().find(is_option).map(|at| at + 1);
        }
        if self.is(Trait::Streams) {
            (first, last) = keys_of_streams(args);
        }
        if self.is(Trait::BehindKeys)
            && let Some(at) = (6..args.len()).find(|at| args.is(*at, "keys"))
        {
            (first, last) = (at as i32 + 1, -1);
        }
        let end = if last < 0 { args.len() as i32 + last + 1 } else { last + 1 };
        let places = (first..end).step_by(step.max(1) as usize).filter(move |_| first > 0);
        let places = places.map(|at| at as usize);
        let (before, behind) = if number_at.is_some() { (other, None) } else { (None, other) };
        before.into_iter().chain(places).chain(behind).map(move |at| args.get(at))
    }

    /// The keys among `args` that it may change.
    pub(crate) fn written_keys<'a>(
        &self,
        args: Args<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (skip, take) = match () {
            () if self.is(Trait::IntoSecond) || self.is(Trait::Stores) => (1, 1),
            () if self.is(Trait::IntoFirst) || self.is(Trait::Merges) => (0, 1),
            () => (0, usize::MAX),
        };
        self.keys(args).skip(skip).take(take)
    }

    /// What it does to key `nth` of `args`.
    pub(crate) fn access(&self, nth: usize, args: Args<'_>) -> Access {
        let of = |read, write| Access { read, write };
        let any = |from, word: &[u8]| args.from(from).any(|arg| arg.eq_ignore_ascii_case(word));
        match () {
            () if self.is(Trait::IntoFirst) => of(nth > 0, nth == 0),
            () if self.is(Trait::IntoSecond) || self.is(Trait::Stores) => of(nth == 0, nth > 0),
            () if self.is(Trait::Moves) => of(nth == 0, true),
            () if self.is(Trait::ReadsWithGet) => of(any(3, b"get"), true),
            () if self.is(Trait::WritesWithSet) => of(true, any(2, b"set") || any(2, b"incrby")),
            () if self.is(Trait::Streams) => of(true, false),
            () if self.is(Trait::Merges) => of(true, nth == 0),
            () if self.is(Trait::Looks) => of(false, false),
            () if self.is(Trait::CountedKeys) => of(true, !self.name.ends_with("_ro")),
            () if self.is(Trait::Blind) => of(false, true),
            () => of(true, self.has("write")),
        }
    }

    /// Arguments before the command's own name, which reads do not see: their keys come right after
    /// it, as in OBJECT ENCODING.
    pub(crate) fn args_before(&self, run: &Run) -> usize {
        if matches!(run, Run::Read(_)) { self.keys.0 as usize - 1 } else { 0 }
    }

    /// True if COMMAND shows `flag`, or it groups the command.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.split_ascii_whitespace().any(|word| word == flag)
    }

    /// The categories that it is given and taken by.
    pub(crate) fn categories(&self) -> Vec<&'static str> {
        let group = match self.group {
            _ if !self.subs.is_empty() => None,
            "string" | "bitmap" | "connection" | "stream" | "hyperloglog" => Some(self.group),
            // WAIT is about what its connection wrote, SORT about elements.
            "generic" if self.has("connection") || self.has("sortedset") => None,
            "generic" => Some("keyspace"),
            "transactions" => Some("transaction"),
            "sorted-set" => Some("sortedset"),
            "hash" | "list" | "set" | "geo" => Some(self.group),
            "scripting" => Some("scripting"),
            _ => None,
        };
        let is_in = |category: &&&str| match **category {
            // A script that only reads is no command that reads, as in Redis.
            "read" => self.has("readonly") && self.group != "scripting",
            "dangerous" => self.has("dangerous") || self.has("admin"),
            "slow" => !self.has("fast"),
            category => self.has(category) || group == Some(category),
        };
        CATEGORIES.iter().filter(is_in).copied().collect()
    }
}

/// The first and the last place of keys in a request with STREAMS; 0 and -1 if there are none.
fn keys_of_streams(args: Args<'_>) -> (i32, i32) {
    let mut at = 1;
    while at < args.len() {
        let is = |word| args.is(at, word);
        at += match () {
            () if is("block") || is("count") => 2,
            () if is("group") => 3,
            () if is("noack") => 1,
            () if is("streams") => {
                let count = (args.len() - at - 1) as i32 / 2;
                return (at as i32 + 1, at as i32 + count);
            }
            () => break,
        };
    }
    (0, -1)
}

/// Categories of commands, as ACL CAT lists them; those of types that we do not have are empty.
pub(crate) const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Every command, sorted by name.
pub(crate) static COMMANDS: LazyLock<&'static [Command]> = LazyLock::new(|| {
    let mut all = list::COMMANDS.to_vec();
    types::ALL.iter().for_each(|commands| all.extend_from_slice(commands));
    all.sort_unstable_by_key(|command| command.name);
    Vec::leak(all)
});

/// Names are no longer than this.
const NAME_BYTES_MAX: usize = 24;

/// A name as a number.
type Number = [u64; NAME_BYTES_MAX / 8];

/// `name` as a number, in lower case; nothing where it is longer than any command's.
#[inline]
fn number_of(name: &[u8]) -> Option<Number> {
    let mut bytes = [0; NAME_BYTES_MAX];
    bytes.get_mut(..name.len())?.copy_from_slice(name);
    bytes.make_ascii_lowercase();
    let (words, _) = bytes.as_chunks::<8>();
    Some(std::array::from_fn(|at| u64::from_le_bytes(words[at])))
}

/// Where commands are found by the numbers of their names.
struct Index {
    /// Number and command, each at the first free place from its own on.
    places: [Option<(Number, &'static Command)>; Index::PLACES],
}

impl Index {
    /// Several times the commands that there are, so that most lie at their own place.
    const PLACES: usize = 1024;

    fn new() -> Self {
        let mut index = Index { places: [None; Index::PLACES] };
        for command in COMMANDS.iter() {
            let number = number_of(command.name.as_bytes());
            let number = number.expect("a test looks every command up");
            let mut place = Index::place(number);
            while index.places[place].is_some() {
                place = (place + 1) % Index::PLACES;
            }
            index.places[place] = Some((number, command));
        }
        index
    }

    #[inline]
    fn place([a, b, c]: Number) -> usize {
        // The golden ratio's bits spread names that differ little.
        let folded = (a ^ b ^ c).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (folded >> 54) as usize
    }
}

static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

/// The names of all commands of RESP, in lower case, each with the place of its first key among the
/// arguments (the name's is 0); `None` for those that take no key, or say where it is.
pub fn command_names() -> impl Iterator<Item = (&'static str, Option<usize>)> {
    let first = |place: i32| usize::try_from(place).ok().filter(|place| *place > 0);
    COMMANDS.iter().map(move |command| (command.name, first(command.keys.0)))
}

/// The command called `name`, in whatever case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let number = number_of(name)?;
    let mut place = Index::place(number);
    while let Some((other, command)) = INDEX.places[place] {
        // Zeros behind a name do not change its number.
        if other == number && command.name.len() == name.len() {
            return Some(command);
        }
        place = (place + 1) % Index::PLACES;
    }
    None
}

/// The command or subcommand that `args` call.
pub(crate) fn find_called(args: Args<'_>) -> Option<&'static Command> {
    let command = find(args.get(0))?;
    match command.subs.is_empty() || args.len() == 1 {
        true => Some(command),
        false => find_sub(command, args.get(1)),
    }
}

/// The subcommand `name` of `container`.
pub(crate) fn find_sub(container: &Command, name: &[u8]) -> Option<&'static Command> {
    let skip = container.name.len() + 1;
    container.subs.iter().find(|s| s.name.as_bytes()[skip..].eq_ignore_ascii_case(name))
}

macro_rules! table {
    ($($name:literal $arity:literal $flags:literal $keys:tt $group:literal $since:literal
       $run:expr, $summary:literal $(, $subs:expr)?;)*) => {
        &[$(Command {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            group: $group,
            since: $since,
            summary: $summary,
            run: $run,
            traits: $crate::table::Traits::of($flags),
            subs: table!(@subs $($subs)?),
        }),*]
    };
    (@subs) => { &[] };
    (@subs $subs:expr) => { $subs };
}

/// No keys.
const NO: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
/// The key behind a subcommand's name.
const SECOND: (i32, i32, i32) = (2, 2, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const OTHERS: (i32, i32, i32) = (2, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);
/// All but the last argument.
const FIRST_OF_MANY: (i32, i32, i32) = (1, -2, 1);
/// Where an argument says how many there are.
const NUMBERED: (i32, i32, i32) = (0, 0, 0);

mod list;
mod places;
mod subcommands;
mod traits;
mod types;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_well_formed() {
        assert!(COMMANDS.windows(2).all(|w| w[0].name < w[1].name));
        for command in COMMANDS.iter() {
            assert!(command.arity != 0 && command.name.len() <= NAME_BYTES_MAX, "{}", command.name);
            for sub in command.subs {
                assert!(sub.name.starts_with(&format!("{}|", command.name)));
                assert!(sub.summary.ends_with('.'));
            }
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(find(b"GeT").unwrap().name, "get");
        assert_eq!(find(b"incrbyfloat").unwrap().name, "incrbyfloat");
        assert!(COMMANDS.iter().all(|c| find(c.name.as_bytes()).unwrap().name == c.name));
        assert!(find(b"nope").is_none() && find(b"get\0").is_none());
        assert!(find(b"").is_none());
        assert!(find(&[b'x'; 400]).is_none());
        assert_eq!(find_sub(find(b"client").unwrap(), b"SETNAME").unwrap().name, "client|setname");
    }

    #[test]
    fn arity_may_be_a_minimum() {
        let get = find(b"get").unwrap();
        assert!(get.takes(2) && !get.takes(1) && !get.takes(3));
        let mget = find(b"mget").unwrap();
        assert!(mget.takes(2) && mget.takes(9) && !mget.takes(1));
    }
}
