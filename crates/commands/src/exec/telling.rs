//! What a burst has written, as commands for replicas: see [`crate::replication`].

use super::held::removes_everything;
use super::{Executor, Wave};
use crate::budget::Claim;
use crate::burst::{Args, Input, Request};
use crate::effect::{Became, Effect};
use crate::replication::walk::push_key;
use crate::replication::{Effects, Held, Mask, READONLY};
use crate::service::Service;
use crate::table::{Command, Modify, Run, Write, find, find_called};
use silica::engine::{Engine, EntryRef, GetSink, OpKind, Result, WriteBatch};
use silica_proto::memcached::Request as Head;
use silica_proto::parse_i64;
use std::sync::Arc;

impl Executor {
    /// The service, if what is written now is to be told to replicas.
    pub(super) fn told(&self) -> Option<Arc<Service>> {
        self.tells.then(|| Arc::clone(&*self.service))
    }

    /// Notes what the role of the server means for a burst that has entered.
    pub(super) fn look_at_role(&mut self) {
        let replication = &self.service.replication;
        self.tells = replication.tells();
        self.refuses = replication.is_read_only_replica();
    }

    /// Answers writes of clients that come next, and were planned before this was a replica.
    #[cold]
    pub(super) fn refuse_writes(&self, wave: &mut Wave<'_, '_>) {
        for (input, output) in wave.inputs.iter().zip(wave.outputs.iter_mut()) {
            while output.next < output.limit()
                && let request = &input.requests[output.next]
                && usize::from(request.db) == wave.db
                && self.is_refused(input, request)
            {
                output.reply(request, |reply| input.args(request).refuse(READONLY, reply));
            }
        }
    }

    /// Tells replicas what was written so far. The caller holds the stripes of its keys.
    pub(super) fn tell_replicas(&self, one_step: bool) {
        if self.tells {
            // Keys may be read, which serves others meanwhile.
            let mut effects = std::mem::take(&mut self.journal.borrow_mut().effects);
            self.service.tell_replicas(&mut effects, one_step);
            self.journal.borrow_mut().effects = effects;
        }
    }

    /// True if `request` of `input` is a write that a replica does not take from its clients.
    pub(super) fn is_refused(&self, input: &Input, request: &Request) -> bool {
        self.refuses && !input.is_primary && writes(input, request)
    }

    /// The stripes of the keys of commands on objects among the requests from `first` up to `end`;
    /// none if none of them writes.
    pub(super) fn stripes_of_objects(
        &self,
        input: &Input,
        (first, end): (usize, usize),
        mask: &mut Mask,
    ) {
        for request in &input.requests[first..end.max(first)] {
            let Run::Type(of_type) = request.run else { continue };
            if of_type.writes {
                add_keys(input.args(request), mask);
            }
        }
    }
}

/// True if a request writes keys. Scripts ask about each of their commands themselves.
pub(super) fn writes(input: &Input, request: &Request) -> bool {
    match request.run {
        Run::Transaction(index) | Run::AcrossTransaction(index) => {
            let inner = &input.transactions[index].input;
            inner.requests.iter().any(|request| writes(inner, request))
        }
        Run::Script(..) => false,
        Run::Across(_) | Run::Whole(_) => {
            let args = input.args(request);
            removes_everything(input, request)
                || (args.len() > 0
                    && args.memcached().is_none()
                    && find_called(args).is_some_and(|command| command.has("write")))
        }
        run => run.changes(),
    }
}

/// Takes the stripes of `keys`, if replicas are told of them.
pub(super) fn hold<'s, 'k>(
    told: &'s Option<Arc<Service>>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Option<Held<'s>> {
    let service = told.as_ref()?;
    let mut mask = Mask::NONE;
    keys.for_each(|key| mask.add(key));
    Some(service.hold(mask))
}

/// Adds the stripes of all keys of a request; of all keys if it may ask for others.
pub(super) fn add_keys(args: Args<'_>, mask: &mut Mask) {
    match find_called(args) {
        Some(command) if command.name != "sort" => command.keys(args).for_each(|key| mask.add(key)),
        // The keys of its patterns are nowhere among its arguments.
        _ => *mask = Mask::ALL,
    }
}

/// The effects of a blind write, which is part of a batch.
pub(super) fn tell_write(
    db: u8,
    (write, args): (&Write, Args<'_>),
    now_ms: u64,
    effects: &mut Effects,
) {
    let mut batch = WriteBatch::new();
    (write.apply)(args, now_ms, &mut batch);
    if batch.len() > 1 && args.memcached().is_none() {
        return effects.push_args(Some(db), args);
    }
    tell_batch(db, &batch, effects);
}

/// The effects of a batch of strings.
pub(crate) fn tell_batch(db: u8, batch: &WriteBatch<'_>, effects: &mut Effects) {
    for op in batch.ops() {
        match &op.kind {
            OpKind::Put(entry) => effects.put(db, op.key, *entry),
            OpKind::Delete => effects.delete(db, op.key),
            OpKind::DeleteRange(_) => {}
        }
    }
}

/// The effects of an update of the keys of `args`.
pub(super) fn tell_update(
    db: u8,
    (modify, args): (&Modify, Args<'_>),
    all: &[Effect],
    effects: &mut Effects,
) {
    for (key, effect) in modify.keys(args).zip(all) {
        let at = effect.expires_unix_ms.to_string();
        match (effect.became, &effect.told) {
            (Became::Kept, _) => {}
            (Became::Deleted, _) => effects.push(Some(db), &[b"DEL", key]),
            (Became::Put, Some(value)) => {
                let Effect { expires_unix_ms, user_bits, .. } = *effect;
                effects.put(db, key, EntryRef { value, expires_unix_ms, user_bits });
            }
            (Became::Put, None) if !is_about_time(args) => effects.push_args(Some(db), args),
            (Became::Put, None) if effect.expires_unix_ms == 0 => {
                effects.push(Some(db), &[b"PERSIST", key]);
            }
            (Became::Put, None) => effects.push(Some(db), &[b"PEXPIREAT", key, at.as_bytes()]),
        }
    }
}

/// True if an update leaves the value as it was, and sets when it expires.
fn is_about_time(args: Args<'_>) -> bool {
    let name = find(args.get(0)).map_or("", |command| command.name);
    args.memcached().is_some()
        || matches!(name, "expire" | "pexpire" | "expireat" | "pexpireat" | "persist" | "getex")
}

/// True if a replica gets an update as it came, or when it expires: then its value is not told.
pub(crate) fn is_told_without_value(args: Args<'_>, effect: &Effect) -> bool {
    if args.memcached().is_some() {
        return false;
    }
    let name = find(args.get(0)).map_or("", |command| command.name);
    let is_plain = matches!(
        name,
        "append" | "setrange" | "setbit" | "bitfield" | "incr" | "incrby" | "decr" | "decrby"
    );
    // A replica may still have what has expired here, or not have any more what has not.
    is_about_time(args) || (is_plain && effect.existed && effect.expires_unix_ms == 0)
}

/// Which keys are there.
struct There(Vec<bool>);

impl GetSink for There {
    fn found(&mut self, index: usize, _: silica::engine::EntryRef<'_>) {
        self.0[index] = true;
    }

    fn wants(&mut self, index: usize, _: usize) -> bool {
        self.0[index] = true;
        false
    }
}

/// What is known of the sources of a BITOP before it runs.
///
/// A replica may still have what has expired here, and a source may expire between a look and the
/// run. So the command is told only if the same sources are missing before and after.
pub(super) struct Sources(Vec<Vec<u8>>);

impl Sources {
    /// Looks before `args` run; `None` for commands whose sources are there if they succeed.
    pub(super) fn of(engine: &dyn Engine, args: Args<'_>) -> Option<Self> {
        // What the server asks of itself has no arguments.
        let is_bitop = args.len() > 3 && args.memcached().is_none() && args.is(0, "bitop");
        // If they cannot be read, nothing will be written either.
        is_bitop.then(|| Sources(absent(engine, args.from(3)).unwrap_or_default()))
    }

    /// What replicas are told of `args` of database `db`, which have run on `engine`.
    fn told(
        &self,
        engine: &dyn Engine,
        (db, args): (u8, Args<'_>),
        claim: &Claim,
    ) -> Result<Effects> {
        let mut told = Effects::default();
        let target = args.get(2);
        let is_source = args.from(3).any(|source| source == target);
        if !is_source && absent(engine, args.from(3))? == self.0 {
            self.0.iter().for_each(|key| told.push(Some(db), &[b"DEL", key]));
            told.push_args(Some(db), args);
            return Ok(told);
        }
        // A string has no fields that expire.
        push_key((engine, None), (db, target), claim, 0, &mut told)?;
        if told.is_empty() {
            told.push(Some(db), &[b"DEL", target]);
        }
        Ok(told)
    }
}

/// The `keys` that are not there.
fn absent<'k>(engine: &dyn Engine, keys: impl Iterator<Item = &'k [u8]>) -> Result<Vec<Vec<u8>>> {
    let keys: Vec<&[u8]> = keys.collect();
    let mut there = There(vec![false; keys.len()]);
    engine.get_many(&keys, &mut there)?;
    let absent = keys.iter().zip(there.0).filter(|(_, is_there)| !is_there);
    Ok(absent.map(|(key, _)| key.to_vec()).collect())
}

/// The effects of a request that ran alone and was answered with `reply`, but those of transactions
/// and scripts.
///
/// # Errors
/// Those of reading what a BITOP has made.
pub(super) fn tell_alone(
    (input, request): (&Input, &Request),
    (reply, sources): (&[u8], Option<&Sources>),
    (engine, claim): (&dyn Engine, &Claim),
    effects: &mut Effects,
) -> Result<()> {
    let (db, args) = (request.db, input.args(request));
    if removes_everything(input, request) {
        tell_removal((db, args), effects);
        return Ok(());
    }
    if input.is_internal || args.len() == 0 || args.memcached().is_some() {
        return Ok(());
    }
    let Some(command) = find(args.get(0)) else { return Ok(()) };
    let is_write =
        matches!(request.run, Run::UpdateAll(_) | Run::Across(_)) && command.has("write");
    if !is_write {
        return Ok(());
    }
    if let Some(sources) = sources {
        effects.append(&mut sources.told(engine, (db, args), claim)?);
    } else if !reply.starts_with(b":0\r\n") {
        tell_several((db, args), command, effects);
    }
    Ok(())
}

/// The effects of a command that removes everything.
fn tell_removal((db, args): (u8, Args<'_>), effects: &mut Effects) {
    let is_later = match args.memcached() {
        Some(Head::FlushAll { delay }) => *delay > 0,
        Some(Head::Binary(packet)) => packet.expiry > 0,
        _ => false,
    };
    match args.len() {
        _ if is_later => {}
        1.. if args.memcached().is_none() => effects.push_args(Some(db), args),
        _ => effects.push(Some(db), &[b"FLUSHDB"]),
    }
}

/// The effects of a command on several keys, or databases, which has done something.
///
/// A replica may still have what has expired here, where it stands in the way of a command that
/// replaces nothing. Its removal is told for each target that was not there, which the command's
/// success shows: a look before the run would miss what expires in between.
fn tell_several((db, args): (u8, Args<'_>), command: &Command, effects: &mut Effects) {
    if command.name == "msetnx" {
        let args: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(args.from(1)).collect();
        return effects.push(Some(db), &args);
    }
    let replaces = command.name == "rename"
        || (command.name == "copy" && (3..args.len()).any(|at| args.is(at, "replace")));
    if let Some((db, key)) = moved_to(db, args).filter(|_| !replaces) {
        effects.push(Some(db), &[b"DEL", key]);
    }
    effects.push_args(Some(db), args);
}

/// The database and the key to which a command of database `db` has brought a key.
pub(super) fn moved_to<'a>(db: u8, args: Args<'a>) -> Option<(u8, &'a [u8])> {
    match find(args.get(0))?.name {
        "rename" | "renamenx" => Some((db, args.get(2))),
        "move" => Some((number(args, 2)?, args.get(1))),
        "copy" => {
            let named = (3..args.len() - 1).rev().find(|at| args.is(*at, "db"));
            Some((named.map_or(Some(db), |at| number(args, at + 1))?, args.get(2)))
        }
        _ => None,
    }
}

/// The number of a database among `args`.
fn number(args: Args<'_>, at: usize) -> Option<u8> {
    parse_i64(args.get(at)).and_then(|number| u8::try_from(number).ok())
}

/// A command on objects as replicas get it, unless it has said so itself: `key` is the first one
/// that it has changed.
pub(crate) fn tell_objects(
    db: u8,
    command: &Command,
    args: Args<'_>,
    key: &[u8],
    effects: &mut Effects,
) {
    let db = Some(db);
    let rest: Vec<&[u8]> = args.from(1).collect();
    let mut shifted = |name: &'static [u8], args: &[&[u8]]| {
        let mut all = vec![name];
        all.extend_from_slice(args);
        effects.push(db, &all);
    };
    match command.name {
        "blpop" => shifted(b"LPOP", &[key]),
        "brpop" => shifted(b"RPOP", &[key]),
        "blmove" => shifted(b"LMOVE", &rest[..4]),
        "brpoplpush" => shifted(b"RPOPLPUSH", &rest[..2]),
        "blmpop" => shifted(b"LMPOP", &rest[1..]),
        "bzmpop" => shifted(b"ZMPOP", &rest[1..]),
        "bzpopmin" => shifted(b"ZPOPMIN", &[key]),
        "bzpopmax" => shifted(b"ZPOPMAX", &[key]),
        _ => effects.push_args(db, args),
    }
}
