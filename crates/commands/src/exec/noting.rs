//! What a burst reads and changes is noted, if somebody wants to know: see [`crate::tracking`] and
//! [`Journal`](super::journal::Journal).

use super::held::removes_everything;
use super::telling::{Sources, moved_to, tell_alone, tell_batch, tell_update, tell_write};
use super::{Executor, Slot, Wave};
use crate::burst::{Args, ERROR, Input, Request};
use crate::effect::Effect;
use crate::replication::Effects;
use crate::resp::events::{self, Classes};
use crate::resp::types::Objects;
use crate::service::Service;
use crate::table::{Modify, Read, Run, Write, find};
use crate::tracking::Tracking;
use silica::engine::{Engine, EngineExt, EntryRef, GetSink, OpKind, WriteBatch};
use std::collections::BTreeSet;

/// Passes on what is found, and notes when it expires.
pub(super) struct Expiries<'s> {
    tracking: &'s Tracking,
    keys: &'s [&'s [u8]],
    sink: &'s mut dyn GetSink,
}

impl<'s> Expiries<'s> {
    pub(super) fn new(
        service: &'s Service,
        keys: &'s [&'s [u8]],
        sink: &'s mut dyn GetSink,
    ) -> Self {
        Expiries { tracking: &service.tracking, keys, sink }
    }
}

impl GetSink for Expiries<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        if entry.expires_unix_ms != 0 {
            self.tracking.note_expiry(self.keys[index], entry.expires_unix_ms);
        }
        self.sink.found(index, entry);
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        self.sink.wants(index, bytes)
    }
}

/// Passes on what is found and has not expired: for readers of a replica, whose engines still have
/// what its primary may keep.
pub(super) struct Living<'s> {
    now_ms: u64,
    sink: &'s mut dyn GetSink,
}

impl<'s> Living<'s> {
    pub(super) fn new(service: &Service, sink: &'s mut dyn GetSink) -> Self {
        Living { now_ms: service.unix_ms(), sink }
    }
}

impl GetSink for Living<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        if entry.expires_unix_ms == 0 || entry.expires_unix_ms > self.now_ms {
            self.sink.found(index, entry);
        }
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        self.sink.wants(index, bytes)
    }
}

impl Executor {
    /// Notes the keys that clients of `wave` are about to read and want to be told of.
    pub(super) fn note_reads(&self, wave: &Wave<'_, '_>) {
        for ((input, output), taken) in wave.inputs.iter().zip(&*wave.outputs).zip(&self.taken) {
            for request in &input.requests[output.next..(*taken).max(output.next)] {
                if let Run::Read(read) = request.run
                    && request.tracked
                {
                    let keys = read.keys(input.args(request));
                    self.service.tracking.note(&**self.service, input.client, keys);
                }
            }
        }
    }

    /// What is to be noted of what a wave has changed, which is visible by now. A transaction tells
    /// itself which keys it has changed, when that is visible.
    pub(super) fn notes(&self, is_transaction: bool, db: usize) -> Notes {
        let is_told = self.service.tracking.is_told() || self.service.waiters.any();
        let is_tracked = !is_transaction && is_told;
        let (events, is_told) = (self.service.events.told(), self.tells);
        Notes { is_tracked, is_told, events, db: db as u8 }
    }

    /// The keys of `batch` that are not there, if somebody wants to know of new ones.
    pub(super) fn missing(
        &self,
        wave: &Wave<'_, '_>,
        batch: &WriteBatch<'_>,
    ) -> BTreeSet<Box<[u8]>> {
        let mut missing = BTreeSet::new();
        if self.service.events.told().has(Classes::NEW) {
            let keys: Vec<&[u8]> = batch.ops().iter().map(|op| op.key).collect();
            let mut there = There(vec![false; keys.len()]);
            // What cannot be read is not told.
            if wave.engine.get_many(&keys, &mut there).is_ok() {
                let gone = keys.iter().zip(&there.0).filter(|(_, there)| !**there);
                missing.extend(gone.map(|(key, _)| Box::from(*key)));
            }
        }
        missing
    }

    /// Notes what a blind write has changed; `missing` are the keys that were not there before.
    pub(super) fn note_write(
        &self,
        notes: Notes,
        input: &Input,
        (write, args): (&Write, Args<'_>),
        missing: &mut BTreeSet<Box<[u8]>>,
    ) {
        let mut batch = WriteBatch::new();
        (write.apply)(args, self.now_ms, &mut batch);
        let mut journal = self.journal.borrow_mut();
        if notes.is_told {
            tell_write(notes.db, (write, args), self.now_ms, &mut journal.effects);
            self.note_times(notes.db, batch.ops().iter().filter_map(time_of));
        }
        for op in batch.ops() {
            if notes.is_tracked {
                journal.change(input.client, op.key);
            }
            if notes.has_events() {
                let is_new = missing.remove(op.key);
                events::of_write(notes.db, op, is_new, &mut journal.events);
            }
        }
    }

    /// Notes what a batch of blind writes has changed, none of which has several keys; false if
    /// others than replicas want to know, who ask whose each write was.
    pub(super) fn note_batch(&self, notes: Notes, batch: &WriteBatch<'_>) -> bool {
        if notes.is_tracked || notes.has_events() {
            return false;
        }
        tell_batch(notes.db, batch, &mut self.journal.borrow_mut().effects);
        self.note_times(notes.db, batch.ops().iter().filter_map(time_of));
        true
    }

    /// Notes what an update has changed.
    pub(super) fn note_update(
        &self,
        notes: Notes,
        input: &Input,
        (modify, args): (&Modify, Args<'_>),
        effects: &[Effect],
    ) {
        let mut journal = self.journal.borrow_mut();
        if notes.is_told {
            tell_update(notes.db, (modify, args), effects, &mut journal.effects);
            let times = modify.keys(args).zip(effects);
            let times = times.filter(|(_, effect)| effect.expires_unix_ms != 0);
            self.note_times(notes.db, times.map(|(key, effect)| (key, effect.expires_unix_ms)));
        }
        for (key, effect) in modify.keys(args).zip(effects) {
            if notes.is_tracked && effect.changed() {
                journal.change(input.client, key);
            }
            if notes.has_events() {
                events::of_update(notes.db, args, key, effect, &mut journal.events);
            }
        }
    }

    /// Notes what a step of commands on objects has changed.
    pub(super) fn note_objects(&self, notes: Notes, objects: &mut Objects<'_>) {
        let mut journal = self.journal.borrow_mut();
        if notes.is_told {
            journal.effects.append(&mut objects.effects);
            self.note_times(notes.db, objects.times.iter().map(|(key, at)| (&**key, *at)));
        }
        if notes.is_tracked {
            objects.changed().for_each(|(client, key)| journal.change(client, key));
        }
        if notes.has_events() {
            journal.events.append(&mut objects.events);
        }
    }

    /// Notes when keys expire that replicas know.
    fn note_times<'k>(&self, db: u8, times: impl Iterator<Item = (&'k [u8], u64)>) {
        times.for_each(|(key, at)| self.service.replication.timers.note_at(db, key, at));
    }

    /// Notes when a key expires that a command has brought to another name or database, and was
    /// answered with `reply`: its replicas keep it until its removal is told.
    fn note_moved_time(&self, (db, args): (u8, Args<'_>), (engine, reply): (&dyn Engine, &[u8])) {
        if args.len() == 0 || args.memcached().is_some() || reply.starts_with(b":0\r\n") {
            return;
        }
        let Some((to_db, to)) = moved_to(db, args) else { return };
        let databases = &self.service.databases;
        let expires = |engine: &dyn Engine| {
            engine.get_with(to, |entry| entry.map(|entry| entry.expires_unix_ms))
        };
        let at = match to_db == db {
            true => expires(engine),
            false => databases.engine(usize::from(to_db)).and_then(expires),
        };
        // What has expired since then, or cannot be read, is looked at soon.
        self.note_times(to_db, std::iter::once((to, at.ok().flatten().unwrap_or(1))));
    }

    /// Notes the keys of a read that are not there.
    pub(super) fn note_misses(&self, db: u8, read: &Read, args: Args<'_>, slots: &[Slot]) {
        // OBJECT and MEMORY only look, as in Redis.
        if args.memcached().is_none() && find(args.get(0)).is_none() {
            return;
        }
        let misses = read.keys(args).zip(slots).filter(|(_, slot)| **slot == Slot::Missing);
        let mut journal = self.journal.borrow_mut();
        journal.events.extend(misses.map(|(key, _)| events::miss(db, key)));
    }

    /// True if reads of keys that are not there are noted.
    pub(super) fn notes_misses(&self) -> bool {
        self.service.events.told().has(Classes::MISS | Classes::EXPIRED)
    }

    /// If events are told: of each key of an update of several keys, whether it is there.
    pub(super) fn are_there(
        &self,
        engine: &dyn Engine,
        input: &Input,
        request: &Request,
    ) -> Vec<bool> {
        let is_told = self.service.events.told() != Classes::NONE;
        if !is_told || !matches!(request.run, Run::UpdateAll(_)) {
            return Vec::new();
        }
        let args = input.args(request);
        let Some(command) = find(args.get(0)) else { return Vec::new() };
        let keys: Vec<&[u8]> = command.keys(args).collect();
        let mut there = There(vec![false; keys.len()]);
        // What cannot be read is not told.
        let looked = engine.get_many(&keys, &mut there);
        looked.map(|()| there.0).unwrap_or_default()
    }

    /// Adds the effects of a request that ran alone and was answered with `reply`.
    fn tell_alone(
        &self,
        (input, request): (&Input, &Request),
        engine: &dyn Engine,
        (reply, sources): (&[u8], Option<&Sources>),
        effects: &mut Effects,
    ) {
        match request.run {
            Run::Script(_, index) => effects.append(&mut input.scripts[index].effects()),
            Run::Transaction(index) => effects.append(&mut input.transactions[index].effects()),
            _ if reply.first() == Some(&ERROR) => {}
            _ => {
                self.note_moved_time((request.db, input.args(request)), (engine, reply));
                let on = (engine, &self.claim);
                let told = tell_alone((input, request), (reply, sources), on, effects);
                if let Err(error) = told {
                    self.service.begin_replicas_anew(&error);
                }
            }
        }
    }

    /// Notes what a request has changed that ran alone, if it was not answered with an error.
    pub(super) fn note_alone(
        &self,
        notes: Notes,
        (input, request): (&Input, &Request),
        engine: &dyn Engine,
        (reply, were_there, sources): (&[u8], &[bool], Option<&Sources>),
    ) {
        let is_refused = reply.first() == Some(&ERROR);
        let args = input.args(request);
        let mut journal = self.journal.borrow_mut();
        if notes.is_told {
            let effects = &mut journal.effects;
            self.tell_alone((input, request), engine, (reply, sources), effects);
        }
        let mut change = |key: &[u8]| {
            if notes.is_tracked {
                journal.change(input.client, key);
            }
        };
        match request.run {
            // A script that ends with an error has written all the same.
            Run::Script(_, index) => {
                let call = &input.scripts[index];
                call.take_changed().iter().for_each(|key| change(key));
                journal.events.extend(call.take_events());
            }
            _ if is_refused => {}
            Run::UpdateAll(_) => {
                let written = find(args.get(0)).map(|command| command.written_keys(args));
                written.into_iter().flatten().for_each(change);
                if notes.has_events() {
                    events::of_alone(notes.db, args, (reply, were_there), &mut journal.events);
                }
            }
            Run::Transaction(index) => {
                let transaction = &input.transactions[index];
                transaction.take_changed().iter().for_each(|key| change(key));
                journal.events.extend(transaction.take_events());
            }
            Run::Sql(_, index) if input.sql[index].has_written_keys() => {
                journal.change_everything();
            }
            _ if removes_everything(input, request) => {
                journal.change_everything();
                // Those that are not about one database are about several.
                let only = matches!(request.run, Run::Whole(_)).then_some(notes.db);
                self.service.events.forget_databases(only);
            }
            Run::Across(_) => {
                let written = find(args.get(0)).map(|command| command.written_keys(args));
                written.into_iter().flatten().for_each(change);
                if notes.has_events() {
                    events::of_across(notes.db, args, reply, &mut journal.events);
                }
            }
            _ => {}
        }
    }
}

/// The key of an operation that puts what expires, and when.
fn time_of<'k>(op: &silica::engine::Op<'k>) -> Option<(&'k [u8], u64)> {
    match &op.kind {
        OpKind::Put(entry) if entry.expires_unix_ms != 0 => Some((op.key, entry.expires_unix_ms)),
        _ => None,
    }
}

/// What is noted of what a wave has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notes {
    /// The keys.
    is_tracked: bool,
    /// What replicas are told.
    is_told: bool,
    /// Events of these classes.
    events: Classes,
    db: u8,
}

impl Notes {
    /// True if anything is noted.
    pub(super) fn are_kept(self) -> bool {
        self.is_tracked || self.is_told || self.has_events()
    }

    /// True if it is noted which keys were changed.
    pub(super) fn is_tracked(self) -> bool {
        self.is_tracked
    }

    /// True if keyspace notifications are told.
    pub(super) fn has_events(self) -> bool {
        self.events != Classes::NONE
    }
}

/// Whether keys are there.
struct There(Vec<bool>);

impl GetSink for There {
    fn found(&mut self, index: usize, _: EntryRef<'_>) {
        self.0[index] = true;
    }

    fn wants(&mut self, index: usize, _: usize) -> bool {
        self.0[index] = true;
        false
    }
}
