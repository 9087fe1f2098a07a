//! The one table of commands: parsing, checks, COMMAND and its docs are made from it.

use crate::burst::Args;
use crate::commands::{
    Cx, Keyspace, Values, bitfield, bits, client, expiry, introspect, moving, read, session,
    topics, transaction, update, whole,
};
use crate::memcached::{self, Outcome};
use silica::engine::{EntryRef, Limits, Result, Update, WriteBatch};
use silica_proto::Reply;
use std::borrow::Cow;

/// What a read needs of the values it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Their bytes.
    Value,
    /// Only whether they are there and how long.
    Length,
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
    pub(crate) reply: fn(Args<'_>, Values<'_>, &mut Reply<'_>),
}

impl Read {
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
        (self.refuse)(args).or_else(|| {
            (0..pairs).find_map(|pair| {
                let value_at = if self.value_at == 0 { 2 * pair + 2 } else { self.value_at };
                too_large("key", args.get(2 * pair + 1), limits.key_bytes_max)
                    .or_else(|| too_large("value", args.get(value_at), limits.value_bytes_max))
            })
        })
    }
}

/// A command that changes keys by what they hold and can share its burst with others.
pub(crate) struct Modify {
    /// True where every argument is a key, false where only the first is.
    pub(crate) many: bool,
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

    /// Why the request cannot be part of a burst, where that is so.
    pub(crate) fn check(&self, args: Args<'_>, limits: &Limits) -> Option<String> {
        (self.refuse)(args)
            .or_else(|| self.keys(args).find_map(|key| too_large("key", key, limits.key_bytes_max)))
    }
}

/// What a [`Modify`] answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Ok,
    Integer(i64),
    /// An array of integers and nulls.
    Integers(Vec<Option<i64>>),
    Bulk(Vec<u8>),
    Null,
    Error(Cow<'static, str>),
    /// In memcached's protocols, as it is sent.
    Raw(Cow<'static, [u8]>),
    /// Of a meta command.
    Meta(Outcome),
}

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

/// Why `bytes` are too many, where they are.
pub(crate) fn too_large(what: &str, bytes: &[u8], max: usize) -> Option<String> {
    let len = bytes.len();
    (len > max).then(|| format!("ERR a {what} of {len} bytes is over the limit of {max}"))
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
    /// Alone, as a read-modify-write of several keys in one step.
    UpdateAll(fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>),
    /// Alone, as one step: the transaction of this number among the input's.
    Transaction(usize),
    /// Alone: notes what its keys hold in the watches of this number.
    Watch(usize),
    /// Alone, on the store as a whole.
    Whole(fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>),
    /// As its arguments say.
    Choose(fn(Args<'_>) -> Run),
}

impl Run {
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, Run::Ready)
    }

    /// True where the command may change the store.
    pub(crate) fn changes(&self) -> bool {
        matches!(self, Run::Write(_) | Run::Update(_) | Run::UpdateAll(_) | Run::Transaction(_))
    }
}

/// A command or subcommand.
pub(crate) struct Command {
    /// Lower case; a subcommand's is `container|sub`.
    pub(crate) name: &'static str,
    /// Number of arguments, name included; negative where more are fine.
    pub(crate) arity: i32,
    /// Flags as COMMAND shows them, separated by blanks.
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

    /// True where it may come before AUTH.
    pub(crate) fn open_to_all(&self) -> bool {
        self.flags.contains("no_auth")
    }

    /// The keys among `args`.
    pub(crate) fn keys<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (first, last, step) = self.keys;
        let end = if last < 0 { args.len() as i32 + last + 1 } else { last + 1 };
        let places = (first..end).step_by(step.max(1) as usize).filter(move |_| first > 0);
        places.map(move |at| args.get(at as usize))
    }

    /// True where it goes over the whole store.
    pub(crate) fn is_long(&self) -> bool {
        self.flags.contains("long")
    }
}

/// The command called `name`, in whatever case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut buf = [0u8; 16];
    let lower = buf.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let lower = &*lower;
    COMMANDS.binary_search_by(|c| c.name.as_bytes().cmp(lower)).ok().map(|i| &COMMANDS[i])
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
            subs: table!(@subs $($subs)?),
        }),*]
    };
    (@subs) => { &[] };
    (@subs $subs:expr) => { $subs };
}

const NO: (i32, i32, i32) = (0, 0, 0);
const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const TWO: (i32, i32, i32) = (1, 2, 1);
const OTHERS: (i32, i32, i32) = (2, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);

use Run::{Choose, Session, UpdateAll, Whole};

/// Every command, sorted by name.
pub(crate) static COMMANDS: &[Command] = table! {
    "append" 3 "write denyoom fast" ONE "string" "2.0.0" Run::Update(&update::APPEND),
        "Appends to the value of a key, or stores it.";
    "auth" -2 "noscript loading stale fast no_auth" NO "connection" "1.0.0" Session(session::auth),
        "Gives the password.";
    "bitcount" -2 "readonly" ONE "bitmap" "2.6.0" Run::Read(&bits::BITCOUNT),
        "Counts the bits that are set in a value or a part of it.";
    "bitfield" -2 "write denyoom" ONE "bitmap" "3.2.0" Run::Update(&bitfield::BITFIELD),
        "Reads, sets and adds to integers of any width inside a value.";
    "bitfield_ro" -2 "readonly fast" ONE "bitmap" "6.0.0" Run::Read(&bitfield::BITFIELD_RO),
        "Reads integers of any width inside a value.";
    "bitop" -4 "write denyoom" OTHERS "bitmap" "2.6.0" UpdateAll(bits::bitop),
        "Combines the bits of several values and stores the result.";
    "bitpos" -3 "readonly" ONE "bitmap" "2.8.7" Run::Read(&bits::BITPOS),
        "Finds the first bit that is set or clear in a value.";
    "client" -2 "" NO "connection" "2.4.0" Session(client::help),
        "Commands about connections.", CLIENT;
    "command" -1 "loading stale" NO "server" "2.8.13" Session(introspect::command),
        "Describes all commands.", COMMAND;
    "config" -2 "" NO "server" "2.0.0" Session(introspect::config_help),
        "Commands about settings.", CONFIG;
    "copy" -3 "write denyoom" TWO "generic" "6.2.0" UpdateAll(moving::copy),
        "Copies a key's value and expiry to another key.";
    "dbsize" 1 "readonly long" NO "server" "1.0.0" Whole(whole::dbsize),
        "Counts the keys of the database, exactly.";
    "decr" 2 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::DECR),
        "Takes one from the number at a key.";
    "decrby" 3 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::DECRBY),
        "Takes a number from the number at a key.";
    "del" -2 "write" ALL "generic" "1.0.0" Run::Update(&update::DEL),
        "Removes keys.";
    "discard" 1 "noscript loading stale fast" NO "transactions" "2.0.0"
        Session(transaction::discard), "Forgets a transaction.";
    "echo" 2 "loading stale fast" NO "connection" "1.0.0" Session(session::echo),
        "Returns its argument.";
    "exec" 1 "noscript loading stale" NO "transactions" "1.2.0" Session(transaction::exec),
        "Runs a transaction.";
    "exists" -2 "readonly fast" ALL "generic" "1.0.0" Run::Read(&read::EXISTS),
        "Counts how many of the keys are there.";
    "expire" -3 "write fast" ONE "generic" "1.0.0" Run::Update(&expiry::EXPIRE),
        "Sets after how many seconds a key expires.";
    "expireat" -3 "write fast" ONE "generic" "1.2.0" Run::Update(&expiry::EXPIRE),
        "Sets the Unix time in seconds at which a key expires.";
    "expiretime" 2 "readonly fast" ONE "generic" "7.0.0" Run::Read(&expiry::EXPIRETIME),
        "Returns the Unix time in seconds at which a key expires.";
    "flushall" -1 "write long" NO "server" "1.0.0" Whole(whole::flushall),
        "Removes every key of every database.";
    "flushdb" -1 "write long" NO "server" "1.0.0" Whole(whole::flushdb),
        "Removes every key of the database.";
    "get" 2 "readonly fast" ONE "string" "1.0.0" Run::Read(&read::GET),
        "Returns the value of a key.";
    "getbit" 3 "readonly fast" ONE "bitmap" "2.2.0" Run::Read(&bits::GETBIT),
        "Returns a bit of a value.";
    "getdel" 2 "write fast" ONE "string" "6.2.0" Run::Update(&update::GETDEL),
        "Returns the value of a key and removes the key.";
    "getex" -2 "write fast" ONE "string" "6.2.0" Choose(expiry::choose_getex),
        "Returns the value of a key and sets when it expires.";
    "getrange" 4 "readonly" ONE "string" "2.4.0" Run::Read(&read::GETRANGE),
        "Returns a part of the value of a key.";
    "getset" 3 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::GETSET),
        "Returns the value of a key and stores another.";
    "hello" -1 "noscript loading stale fast no_auth" NO "connection" "6.0.0"
        Session(session::hello), "Chooses the protocol version and may give the password.";
    "incr" 2 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::INCR),
        "Adds one to the number at a key.";
    "incrby" 3 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::INCRBY),
        "Adds a number to the number at a key.";
    "incrbyfloat" 3 "write denyoom fast" ONE "string" "2.6.0" Run::Update(&update::INCRBYFLOAT),
        "Adds a floating-point number to the number at a key.";
    "info" -1 "loading stale" NO "server" "1.0.0" Whole(whole::info),
        "Tells about the server, its clients and its engines.";
    "keys" 2 "readonly long" NO "generic" "1.0.0" Whole(whole::keys),
        "Returns all keys that match a pattern.";
    "mget" -2 "readonly fast" ALL "string" "1.0.0" Run::Read(&read::MGET),
        "Returns the values of several keys.";
    "mset" -3 "write denyoom" PAIRS "string" "1.0.1" Run::Write(&update::MSET),
        "Stores several keys in one step.";
    "msetnx" -3 "write denyoom" PAIRS "string" "1.0.1" UpdateAll(update::msetnx),
        "Stores several keys in one step if none of them is there yet.";
    "multi" 1 "noscript loading stale fast" NO "transactions" "1.2.0"
        Session(transaction::multi), "Begins a transaction.";
    "persist" 2 "write fast" ONE "generic" "2.2.0" Run::Update(&expiry::PERSIST),
        "Lets a key live for ever.";
    "pexpire" -3 "write fast" ONE "generic" "2.6.0" Run::Update(&expiry::EXPIRE),
        "Sets after how many milliseconds a key expires.";
    "pexpireat" -3 "write fast" ONE "generic" "2.6.0" Run::Update(&expiry::EXPIRE),
        "Sets the Unix time in milliseconds at which a key expires.";
    "pexpiretime" 2 "readonly fast" ONE "generic" "7.0.0" Run::Read(&expiry::EXPIRETIME),
        "Returns the Unix time in milliseconds at which a key expires.";
    "ping" -1 "fast" NO "connection" "1.0.0" Session(session::ping),
        "Answers, so that the client knows that the server is there.";
    "psetex" 4 "write denyoom" ONE "string" "2.6.0" Run::Write(&expiry::SETEX),
        "Stores the value of a key that expires after some milliseconds.";
    "psubscribe" -2 "pubsub noscript loading stale" NO "pubsub" "2.0.0"
        Session(topics::psubscribe), "Listens to the channels that match patterns.";
    "pttl" 2 "readonly fast" ONE "generic" "2.6.0" Run::Read(&expiry::TTL),
        "Returns after how many milliseconds a key expires.";
    "publish" 3 "pubsub loading stale fast" NO "pubsub" "2.0.0" Whole(topics::publish),
        "Sends a message to all who listen to a channel.";
    "pubsub" -2 "" NO "pubsub" "2.8.0" Session(topics::numpat),
        "Commands about channels.", PUBSUB;
    "punsubscribe" -1 "pubsub noscript loading stale" NO "pubsub" "2.0.0"
        Session(topics::punsubscribe), "Listens no more to the channels that match patterns.";
    "quit" -1 "noscript loading stale fast no_auth" NO "connection" "1.0.0"
        Session(session::quit), "Ends the connection.";
    "randomkey" 1 "readonly" NO "generic" "1.0.0" Whole(whole::randomkey),
        "Returns a key from somewhere in the database.";
    "rename" 3 "write" TWO "generic" "1.0.0" UpdateAll(moving::rename),
        "Gives a key another name; what had that name is gone.";
    "renamenx" 3 "write fast" TWO "generic" "1.0.0" UpdateAll(moving::rename),
        "Gives a key another name if nothing has that name yet.";
    "reset" 1 "noscript loading stale fast no_auth" NO "connection" "6.2.0"
        Session(session::reset), "Makes the connection as new.";
    "scan" -2 "readonly" NO "generic" "2.8.0" Whole(whole::scan),
        "Returns some keys and a cursor to go on with.";
    "select" 2 "loading stale fast" NO "connection" "1.0.0" Session(session::select),
        "Chooses the database.";
    "set" -3 "write denyoom" ONE "string" "1.0.0" Choose(update::choose_set),
        "Stores the value of a key.";
    "setbit" 4 "write denyoom" ONE "bitmap" "2.2.0" Run::Update(&bits::SETBIT),
        "Sets or clears a bit of a value and returns what it was.";
    "setex" 4 "write denyoom" ONE "string" "2.0.0" Run::Write(&expiry::SETEX),
        "Stores the value of a key that expires after some seconds.";
    "setnx" 3 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::SETNX),
        "Stores the value of a key that is not there yet.";
    "setrange" 4 "write denyoom" ONE "string" "2.2.0" Run::Update(&update::SETRANGE),
        "Overwrites a part of the value of a key.";
    "shutdown" -1 "admin noscript loading stale" NO "server" "1.0.0" Session(session::shutdown),
        "Stops the server gracefully.";
    "strlen" 2 "readonly fast" ONE "string" "2.2.0" Run::Read(&read::STRLEN),
        "Returns the length of the value of a key.";
    "subscribe" -2 "pubsub noscript loading stale" NO "pubsub" "2.0.0"
        Session(topics::subscribe), "Listens to channels.";
    "substr" 4 "readonly" ONE "string" "1.0.0" Run::Read(&read::GETRANGE),
        "Returns a part of the value of a key (older name of GETRANGE).";
    "time" 1 "loading stale fast" NO "server" "2.6.0" Session(session::time),
        "Returns the server's time.";
    "touch" -2 "readonly fast" ALL "generic" "3.2.1" Run::Read(&read::EXISTS),
        "Counts how many of the keys are there.";
    "ttl" 2 "readonly fast" ONE "generic" "1.0.0" Run::Read(&expiry::TTL),
        "Returns after how many seconds a key expires.";
    "type" 2 "readonly fast" ONE "generic" "1.0.0" Run::Read(&read::TYPE),
        "Returns the type of the value of a key.";
    "unlink" -2 "write fast" ALL "generic" "4.0.0" Run::Update(&update::DEL),
        "Removes keys.";
    "unsubscribe" -1 "pubsub noscript loading stale" NO "pubsub" "2.0.0"
        Session(topics::unsubscribe), "Listens no more to channels.";
    "unwatch" 1 "noscript loading stale fast" NO "transactions" "2.2.0"
        Session(transaction::unwatch), "Watches no key any more.";
    "watch" -2 "noscript loading stale fast" ALL "transactions" "2.2.0"
        Session(transaction::watch), "Lets the next transaction run only if keys do not change.";
};

static CLIENT: &[Command] = table! {
    "client|getname" 2 "noscript loading stale" NO "connection" "2.6.9" Session(client::getname),
        "Returns the connection's name.";
    "client|help" 2 "loading stale" NO "connection" "5.0.0" Session(client::help),
        "Lists the subcommands.";
    "client|id" 2 "noscript loading stale" NO "connection" "5.0.0" Session(client::id),
        "Returns the connection's number.";
    "client|info" 2 "noscript loading stale" NO "connection" "6.2.0" Session(client::info),
        "Describes this connection.";
    "client|list" -2 "admin noscript loading stale long" NO "connection" "2.4.0"
        Whole(client::list), "Describes all connections.";
    "client|no-evict" 3 "admin noscript loading stale" NO "connection" "7.0.0"
        Session(client::no_evict), "Keeps the connection when memory for clients is short.";
    "client|no-touch" 3 "noscript loading stale" NO "connection" "7.2.0"
        Session(client::no_touch), "Accepted; there is no access time that reads could touch.";
    "client|reply" 3 "noscript loading stale" NO "connection" "3.2.0" Session(client::reply),
        "Switches replies on or off.";
    "client|setinfo" 4 "noscript loading stale" NO "connection" "7.2.0" Session(client::setinfo),
        "Tells the client library's name or version.";
    "client|setname" 3 "noscript loading stale" NO "connection" "2.6.9" Session(client::setname),
        "Names the connection.";
};

static COMMAND: &[Command] = table! {
    "command|count" 2 "loading stale" NO "server" "2.8.13" Session(introspect::count),
        "Counts the commands.";
    "command|docs" -2 "loading stale" NO "server" "7.0.0" Session(introspect::docs),
        "Returns the docs of commands.";
    "command|getkeys" -3 "loading stale" NO "server" "2.8.13" Session(introspect::getkeys),
        "Returns the keys of a command line.";
    "command|help" 2 "loading stale" NO "server" "5.0.0" Session(introspect::command_help),
        "Lists the subcommands.";
    "command|info" -2 "loading stale" NO "server" "2.8.13" Session(introspect::info),
        "Describes some commands.";
    "command|list" -2 "loading stale" NO "server" "7.0.0" Session(introspect::list),
        "Returns the names of all commands.";
};

static CONFIG: &[Command] = table! {
    "config|get" -3 "admin noscript loading stale" NO "server" "2.0.0"
        Session(introspect::config_get), "Returns settings by pattern.";
    "config|help" 2 "loading stale" NO "server" "5.0.0" Session(introspect::config_help),
        "Lists the subcommands.";
    "config|resetstat" 2 "admin noscript loading stale" NO "server" "2.0.0"
        Session(introspect::config_resetstat), "Sets the server's counters to zero.";
    "config|set" -4 "admin noscript loading stale" NO "server" "2.0.0"
        Session(introspect::config_set), "Refused: settings are given at start.";
};

static PUBSUB: &[Command] = table! {
    "pubsub|channels" -2 "pubsub loading stale" NO "pubsub" "2.8.0" Session(topics::channels),
        "Returns the channels that somebody listens to.";
    "pubsub|numpat" 2 "pubsub loading stale" NO "pubsub" "2.8.0" Session(topics::numpat),
        "Counts the patterns that somebody listens to.";
    "pubsub|numsub" -2 "pubsub loading stale" NO "pubsub" "2.8.0" Session(topics::numsub),
        "Counts those who listen to channels.";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_well_formed() {
        assert!(COMMANDS.windows(2).all(|w| w[0].name < w[1].name));
        for command in COMMANDS {
            assert!(command.arity != 0 && command.name.len() <= 16, "{}", command.name);
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
        assert!(find(b"nope").is_none());
        assert!(find(b"").is_none());
        assert!(find(&[b'x'; 400]).is_none());
        assert_eq!(find_sub(find(b"client").unwrap(), b"SETNAME").unwrap().name, "client|setname");
    }

    #[test]
    fn the_docs_name_every_command() {
        let docs = include_str!("../../../docs/server.md");
        for command in COMMANDS {
            let name = format!("`{}`", command.name.to_ascii_uppercase());
            assert!(docs.contains(&name), "docs/server.md lacks {name}");
        }
    }

    #[test]
    fn arity_may_be_a_minimum() {
        let get = find(b"get").unwrap();
        assert!(get.takes(2) && !get.takes(1) && !get.takes(3));
        let mget = find(b"mget").unwrap();
        assert!(mget.takes(2) && mget.takes(9) && !mget.takes(1));
    }
}
