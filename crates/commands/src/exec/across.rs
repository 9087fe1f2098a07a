//! What concerns several databases, or a whole one, as one step: it runs while no other burst does.
//!
//! A transaction writes into a [`Step`] of each database. What is asked of a whole database comes
//! after all that was written before it, so the steps are committed first; and what is left of
//! them is committed at the end, one batch for each database. A crash in between leaves the batches
//! that were written before it, each of them whole.

use super::routing::needs_database;
use super::{Executor, Wave, WaveKind};
use crate::budget::out_of_memory;
use crate::burst::{Input, Output};
use crate::engine_calls::{claim_entries, error_text};
use crate::overlay::Owned;
use crate::replication::{Mask, READONLY};
use crate::resp::scripts::{Place, Step};
use crate::resp::{Ahead, Keyspace};
use crate::service::Service;
use crate::table::Run;
use crate::transaction::Transaction;
use crate::watch::Watches;
use silica::engine::{EntryRef, Error, GetSink, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::slice;
use std::sync::Arc;

/// The steps of a transaction, by database.
pub(super) type Steps<'s> = BTreeMap<usize, Step<'s>>;

impl Executor {
    /// Runs the next request of `input` while no other burst runs, of which the caller has none;
    /// the places that may have been written, a bit each.
    pub(super) fn across(&mut self, input: &Input, output: &mut Output) -> u32 {
        let service = Arc::clone(&self.service);
        let request = &input.requests[output.next];
        let ahead = match request.run {
            Run::Across(_) if !self.is_refused(input, request) => {
                Ahead::copy(&service, usize::from(request.db), input.args(request))
            }
            _ => None,
        };
        service.databases.alone(|| {
            self.look_at_role();
            if self.is_refused(input, &input.requests[output.next]) {
                let request = &input.requests[output.next];
                return output.reply(request, |reply| reply.error(READONLY));
            }
            // Whoever writes without an executor holds stripes.
            let held = self.tells.then(|| service.hold(Mask::ALL));
            self.run_alone_across(&service, input, output, ahead.as_ref());
            self.tell_replicas(true);
            drop(held);
        });
        // Any of them may have been cleared.
        service.databases.opened_places()
    }

    /// Runs the next request of `input` outside of bursts, in none of which the caller is; the
    /// places that may have been written, a bit each.
    pub(super) fn apart(&mut self, input: &Input, output: &mut Output) -> u32 {
        let service = Arc::clone(&self.service);
        let request = &input.requests[output.next];
        let (db, args) = (usize::from(request.db), input.args(request));
        let Run::Apart(run) = request.run else {
            unreachable!("the caller has looked at what the request runs")
        };
        let reader = input.reader(output.next);
        let ran = service.databases.engine_if(db, || false).map(|engine| {
            let whole = service.databases.whole(db);
            let claim = &self.claim;
            let client = input.client;
            let service = &service;
            let keyspace =
                Keyspace { service, claim, engine, db, whole, reader, client, ahead: None };
            output.reply(request, |reply| keyspace.answer(run, args, reply));
        });
        if let Err(error) = ran {
            output.reply(request, |reply| args.refuse(&error_text(&error), reply));
        }
        self.claim.clear();
        // What it writes, it writes in bursts of its own.
        0
    }

    fn run_alone_across(
        &mut self,
        service: &Service,
        input: &Input,
        output: &mut Output,
        ahead: Option<&Ahead<'_>>,
    ) {
        let request = &input.requests[output.next];
        let args = input.args(request);
        match request.run {
            Run::AcrossTransaction(index) => {
                let transaction = &input.transactions[index];
                let ended = self.transaction_across(service, transaction);
                output.acknowledge(request, self.synced(), |reply| match ended {
                    Err(error) => reply.error(&error_text(&error)),
                    Ok(None) => reply.null_array(),
                    Ok(Some(replies)) => {
                        reply.array(transaction.count);
                        reply.written(&replies);
                    }
                });
            }
            Run::Across(run) | Run::Whole(run) => {
                let db = usize::from(request.db);
                // What concerns others, or takes a key from here, needs nothing of this one.
                let keyspace = service.databases.engine_if(db, || false).map(|engine| Keyspace {
                    service,
                    claim: &self.claim,
                    engine,
                    db,
                    whole: service.databases.whole(db),
                    reader: input.reader(output.next),
                    client: input.client,
                    ahead,
                });
                let start = output.out.len();
                output.acknowledge(request, self.synced(), |reply| match &keyspace {
                    Ok(keyspace) => keyspace.answer(run, args, reply),
                    Err(error) => args.refuse(&error_text(error), reply),
                });
                let notes = self.notes(false, db);
                if let Ok(keyspace) = keyspace
                    && notes.are_kept()
                {
                    let known = (&output.out[start..], &[][..], None);
                    self.note_alone(notes, (input, request), keyspace.engine, known);
                }
            }
            _ => unreachable!("the caller has looked at what the request runs"),
        }
    }

    /// Runs a transaction; its replies, or `None` if a watched key has changed.
    fn transaction_across(
        &mut self,
        service: &Service,
        transaction: &Transaction,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(watches) = transaction.watches()
            && !self.watches_hold(service, watches)?
        {
            return Ok(None);
        }
        let input = &transaction.input;
        let mut executor = Executor::new(Arc::clone(&*self.service));
        (executor.now_ms, executor.place) = (self.now_ms, Place::Long);
        executor.tells = self.tells;
        let (mut steps, mut failed) = (Steps::new(), None);
        let replies = Output::of_all(input, &self.claim, |output| {
            let went_on = executor.next_across(service, input, output, &mut steps);
            failed = went_on.err();
            failed.is_none()
        })?;
        failed.map_or(Ok(()), Err)?;
        commit_all(&mut steps)?;
        transaction.finish(service);
        self.journal.get_mut().absorb(executor.journal.take());
        Ok(Some(replies))
    }

    /// Goes on with a transaction.
    pub(super) fn next_across<'s>(
        &mut self,
        service: &'s Service,
        input: &Input,
        output: &mut Output,
        steps: &mut Steps<'s>,
    ) -> Result<()> {
        let request = &input.requests[output.next];
        let db = usize::from(request.db);
        match request.run {
            Run::Ready => output.copy_ready(input, request),
            Run::Across(_) | Run::Whole(_) => {
                commit_all(steps)?;
                self.run_alone_across(service, input, output, None);
            }
            _ => {
                if let Entry::Vacant(place) = steps.entry(db) {
                    let left = (slice::from_ref(input), slice::from_ref(&*output));
                    let is_needed = || needs_database(left, db);
                    let engine = service.databases.engine_if(db, is_needed)?;
                    let bytes_max = service.budget.max() / 4;
                    place.insert(Step::new(engine, self.now_ms, bytes_max));
                }
                let held: usize = steps.values().map(Step::held_bytes).sum();
                let engine = &steps[&db];
                let (inputs, outputs) = (slice::from_ref(input), slice::from_mut(output));
                let kind = WaveKind::Across;
                self.wave(&mut Wave { db, kind, engine, inputs, outputs });
                self.claim.set(0);
                self.claim.grow(held + engine.held_bytes()).map_err(out_of_memory)?;
            }
        }
        Ok(())
    }

    /// True if nothing has changed what a client watches, in whichever database.
    fn watches_hold(&self, service: &Service, watches: &Watches) -> Result<bool> {
        let list = watches.list();
        let mut held: BTreeMap<usize, BTreeMap<&[u8], Owned>> = BTreeMap::new();
        for (db, keys) in list.by_database() {
            let engine = service.databases.engine_if(db, || false)?;
            claim_entries(engine, &keys, 1, &self.claim)?;
            let mut found = Found { keys: &keys, held: held.entry(db).or_default() };
            engine.get_many(&keys, &mut found)?;
        }
        Ok(watches.hold(&list, 0, |db, key| held.get(&db)?.get(key).map(Owned::entry)))
    }
}

/// Copies the entries of a database that are found.
struct Found<'f, 'k> {
    keys: &'f [&'k [u8]],
    held: &'f mut BTreeMap<&'k [u8], Owned>,
}

impl GetSink for Found<'_, '_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.held.insert(self.keys[index], Owned::of(entry));
    }
}

/// Writes what the steps hold, one batch for each database, from the first on.
fn commit_all(steps: &mut Steps<'_>) -> Result<()> {
    for (db, step) in std::mem::take(steps) {
        let within = |error: Error| error.within(format_args!("database {db}"));
        step.commit_alone().map_err(within)?;
    }
    Ok(())
}
