//! What the commands do. The table says which function runs for which command and where.

pub(crate) mod acl;
pub(crate) mod across;
mod ahead;
pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod dump;
pub(crate) mod events;
pub(crate) mod expiring;
pub(crate) mod expiry;
pub(crate) mod function;
pub(crate) mod info;
pub(crate) mod introspect;
pub(crate) mod jobs;
pub(crate) mod lcs;
mod long_double;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod monitors;
pub(crate) mod moving;
pub(crate) mod object;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod replicaof;
pub(crate) mod replicas;
pub(crate) mod roles;
pub(crate) mod script;
pub(crate) mod scripts;
pub(crate) mod session;
pub(crate) mod slowlog;
pub(crate) mod sql;
pub(crate) mod topics;
pub(crate) mod tracking;
pub(crate) mod transaction;
pub(crate) mod types;
pub(crate) mod update;
pub(crate) mod whole;

pub(crate) use self::ahead::Ahead;
use crate::acl::User;
use crate::budget::Claim;
pub(crate) use crate::budget::out_of_memory;
use crate::burst::Args;
use crate::clients::Client;
use crate::engine_calls;
pub(crate) use crate::engine_calls::{atomic, error_text};
use crate::exec::{ENTRY_META_BYTES, Slot};
use crate::service::Service;
use crate::session::Session;
use crate::table::Run;
use silica::engine::{Engine, EntryRef, Result};
use silica_proto::{Limits, Reply, parse_i64};
use std::sync::Arc;

pub(crate) const SYNTAX: &str = "ERR syntax error";
pub(crate) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

/// The number of a database, of whatever size Redis takes one of, or the error that it answers.
pub(crate) fn database_number(text: &[u8]) -> std::result::Result<i32, &'static str> {
    let number = parse_i64(text).ok_or(NOT_INTEGER)?;
    i32::try_from(number)
        .map_err(|_| "ERR value is out of range, value must between -2147483648 and 2147483647")
}

/// Bytes that a value may have, whatever the engine takes.
const VALUE_BYTES_MAX: usize = Limits::OPEN.bulk_bytes_max;

/// The reply to a request with too few or too many arguments.
pub(crate) fn wrong_number(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

/// The reply to a subcommand with too many arguments.
pub(crate) fn wrong_subcommand(args: Args<'_>) -> String {
    let text = |index| String::from_utf8_lossy(args.get(index));
    let (container, sub) = (text(0).to_ascii_uppercase(), text(1));
    format!(
        "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try {container} HELP."
    )
}

/// The name of a plain GET or SET, and what runs it: most requests by far, which need no look into
/// the table.
#[inline]
pub(crate) fn plain(args: Args<'_>) -> Option<(&'static str, Run)> {
    let [a, b, c] = *args.get(0) else { return None };
    match (args.len(), [a | 0x20, b | 0x20, c | 0x20]) {
        (2, [b'g', b'e', b't']) => Some(("get", Run::Read(&read::GET))),
        (3, [b's', b'e', b't']) => Some(("set", Run::Write(&update::SET))),
        _ => None,
    }
}

/// Values that a read asked for, in the order of its keys.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) slots: &'a [Slot],
    pub(crate) arena: &'a [u8],
    /// The time of the read, in Unix milliseconds.
    pub(crate) now_ms: u64,
    /// What further memory is claimed from.
    pub(crate) claim: Option<&'a Claim>,
}

impl<'a> Values<'a> {
    /// The value of key `index`.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        match self.slots[index] {
            Slot::Found { start, len } => Some(&self.arena[start..start + len]),
            Slot::Missing | Slot::Deferred | Slot::OtherType => None,
        }
    }

    /// The entry of key `index`, where [`Wants::Entry`](crate::table::Wants) asked for it.
    pub(crate) fn entry(&self, index: usize) -> Option<EntryRef<'a>> {
        let bytes = self.get(index)?;
        let (meta, value) = bytes.split_first_chunk::<ENTRY_META_BYTES>()?;
        let (expires, user) = meta.split_first_chunk::<8>()?;
        Some(EntryRef {
            value,
            expires_unix_ms: u64::from_le_bytes(*expires),
            user_bits: u32::from_le_bytes(user.try_into().ok()?),
        })
    }

    /// The length of the value of key `index`, or what else was wanted in its place.
    pub(crate) fn len_of(&self, index: usize) -> Option<usize> {
        match self.slots[index] {
            Slot::Found { len, .. } => Some(len),
            Slot::Missing | Slot::Deferred | Slot::OtherType => None,
        }
    }

    /// The user bits of key `index`, where [`Wants::Kind`](crate::table::Wants) asked for them.
    pub(crate) fn user_bits_of(&self, index: usize) -> Option<u32> {
        match self.slots[index] {
            Slot::Found { start, .. } => Some(start as u32),
            Slot::Missing | Slot::Deferred | Slot::OtherType => None,
        }
    }
}

/// What a command on one database works with.
#[derive(Clone, Copy)]
pub(crate) struct Keyspace<'a> {
    pub(crate) service: &'a Service,
    /// What its memory is claimed from.
    pub(crate) claim: &'a Claim,
    pub(crate) engine: &'a dyn Engine,
    /// The number of the database.
    pub(crate) db: usize,
    /// All of the database, for views that outlive a call; not there inside a transaction.
    pub(crate) whole: Option<&'a Arc<dyn Engine>>,
    /// For whom names of keys are told, if that is not everybody.
    pub(crate) reader: Option<&'a User>,
    /// The connection that asks, if a command on no key is asked; else 0.
    pub(crate) client: u64,
    /// What was copied before the step began, of an object that it takes to another database.
    pub(crate) ahead: Option<&'a Ahead<'a>>,
}

impl<'a> Keyspace<'a> {
    /// Database `db` for a step of which every name of a key may be told.
    pub(crate) fn of_step(
        (service, claim): (&'a Service, &'a Claim),
        (engine, db): (&'a dyn Engine, usize),
        whole: Option<&'a Arc<dyn Engine>>,
    ) -> Self {
        Keyspace { service, claim, engine, db, whole, reader: None, client: 0, ahead: None }
    }
}

impl Keyspace<'_> {
    /// True if the client may be told the name of `key`.
    pub(crate) fn may_tell(&self, key: &[u8]) -> bool {
        self.reader.is_none_or(|user| user.may_know(key))
    }

    /// Claims memory for `copies` copies of the values of `keys`, or says why it may not.
    fn claim_entries(&self, keys: &[&[u8]], copies: usize) -> Result<()> {
        engine_calls::claim_entries(self.engine, keys, copies, self.claim)
    }

    /// Runs `run` and answers with its error where it has one.
    pub(crate) fn answer(
        &self,
        run: fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) {
        if let Err(error) = run(self, args, reply) {
            args.refuse(&error_text(&error), reply);
        }
    }
}

/// What a command works with that a loop runs itself.
pub(crate) struct Cx<'a> {
    pub(crate) service: &'a Service,
    pub(crate) client: &'a Client,
    pub(crate) session: &'a mut Session,
    pub(crate) reply: Reply<'a>,
}
