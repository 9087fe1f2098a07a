//! Requests that run alone, one by one: updates of several keys, transactions, scripts, and what is
//! asked of the store as a whole.

use super::{Executor, Wave, WaveKind, out_bytes};
use crate::burst::{Args, Input, Output, Request};
use crate::engine_calls::error_text;
use crate::resp::Keyspace;
use crate::resp::scripts::{Environment, ScriptCall, ScriptKind, write_answer};
use crate::table::Run;
use crate::transaction::Transaction;
use silica::engine::{Engine, Error, ErrorKind, Result};
use std::cell::RefCell;
use std::slice;
use std::sync::Arc;

/// What a request that changes something is answered with: an error, nothing, or so many replies.
type Ended = Result<Option<(usize, Vec<u8>)>>;

impl Executor {
    /// Commands that come next and run alone, one by one. True where anything may have been
    /// written.
    pub(super) fn alone(&mut self, wave: &mut Wave<'_, '_>) -> bool {
        let (inputs, engine, db) = (wave.inputs, wave.engine, wave.db);
        let keyspace = Keyspace {
            service: &self.service,
            claim: &self.claim,
            engine,
            db,
            whole: match wave.kind {
                WaveKind::Burst => self.service.databases.whole(db),
                WaveKind::Transaction | WaveKind::Across => None,
            },
            reader: None,
        };
        let mut wrote = false;
        let is_transaction = wave.kind == WaveKind::Transaction;
        let mut out_bytes = out_bytes(wave.outputs);
        let out_bytes_max = self.out_bytes_max();
        for (input, output) in inputs.iter().zip(wave.outputs.iter_mut()) {
            out_bytes -= output.out.len();
            while output.next < output.limit() && out_bytes + output.out.len() < out_bytes_max {
                let request = &input.requests[output.next];
                if request.run.is_ready() {
                    output.copy_ready(input, request);
                    continue;
                }
                let is_elsewhere = match wave.kind {
                    WaveKind::Across => matches!(request.run, Run::Whole(_)),
                    WaveKind::Burst | WaveKind::Transaction => false,
                };
                if usize::from(request.db) != db || !is_alone(request) || is_elsewhere {
                    break;
                }
                let (number, start) = (output.next, output.out.len());
                let were_there = self.are_there(engine, input, request);
                if request.run.changes() {
                    wrote = true;
                    self.change_alone(&keyspace, input, output);
                } else {
                    run_alone(&keyspace, input, output);
                }
                let notes = self.notes(is_transaction, db);
                if output.next > number && notes.are_kept() {
                    let reply = &output.out[start..];
                    self.note_alone(notes, input, request, (reply, &were_there));
                }
            }
            out_bytes += output.out.len();
        }
        wrote
    }

    /// Runs the next request of `input`, which may change the store; or marks it as postponed.
    fn change_alone(&self, keyspace: &Keyspace<'_>, input: &Input, output: &mut Output) {
        let request = &input.requests[output.next];
        let args = input.args(request);
        match request.run {
            Run::UpdateAll(run) => {
                output
                    .acknowledge(request, self.synced(), |reply| keyspace.answer(run, args, reply));
            }
            Run::Transaction(index) => {
                let transaction = &input.transactions[index];
                let Some(ended) = self.transaction(keyspace, transaction) else {
                    output.is_postponed = true;
                    return;
                };
                output.acknowledge(request, self.synced(), |reply| match ended {
                    Err(error) => reply.error(&error_text(&error)),
                    Ok(None) => reply.null_array(),
                    Ok(Some((count, replies))) => {
                        reply.array(count);
                        reply.written(&replies);
                    }
                });
            }
            Run::Script(kind, index) => {
                let call = &input.scripts[index];
                let Some(answer) = self.script(keyspace, call, kind, args) else {
                    output.is_postponed = true;
                    return;
                };
                output.acknowledge(request, self.synced(), |reply| match answer {
                    Ok(answer) => write_answer(&answer, reply),
                    Err(text) => reply.error(&text),
                });
            }
            _ => run_alone(keyspace, input, output),
        }
    }

    /// Runs all of `input` on `engine`, which stands before database `db`; the replies, or `None`
    /// if one of its scripts has to run elsewhere.
    fn run_on(
        &self,
        executor: &mut Executor,
        (db, engine): (usize, &dyn Engine),
        input: &Input,
    ) -> Result<Option<Vec<u8>>> {
        executor.now_ms = self.now_ms;
        executor.place = self.place;
        let mut is_postponed = false;
        let replies = Output::of_all(input, &self.claim, |output| {
            let claimed = executor.claim.bytes();
            let (inputs, outputs) = (slice::from_ref(input), slice::from_mut(output));
            let kind = WaveKind::Transaction;
            let mut wave = Wave { db, kind, engine, inputs, outputs };
            if !executor.wave(&mut wave) {
                // What was read is in the replies; what was written stays.
                executor.claim.set(claimed);
            }
            is_postponed |= output.is_postponed;
            !output.is_postponed
        })?;
        Ok((!is_postponed).then_some(replies))
    }

    /// Runs a transaction; `None` if it has to run on a thread for long requests.
    fn transaction(&self, keyspace: &Keyspace<'_>, transaction: &Transaction) -> Option<Ended> {
        let (mut is_postponed, mut events) = (false, Vec::new());
        let run = &mut |overlay: &dyn Engine, input: &Input| {
            let mut executor = Executor::new(Arc::clone(&*self.service));
            let replies = self.run_on(&mut executor, (keyspace.db, overlay), input)?;
            is_postponed = replies.is_none();
            // Only the last run counts.
            events = std::mem::take(&mut executor.journal.get_mut().events);
            // Nothing of a transaction that ends with an error happens.
            replies.ok_or_else(|| Error::new(ErrorKind::Closed, "the transaction is postponed"))
        };
        let &Keyspace { engine, claim, db, .. } = keyspace;
        let ran = transaction.run(db, engine, self.now_ms, claim, run);
        if is_postponed {
            return None;
        }
        Some(ran.map(|replies| {
            let replies = replies?;
            transaction.finish(&self.service);
            transaction.set_events(events);
            Some((transaction.count, replies))
        }))
    }

    /// Runs a script; `None` if it has to run on a thread for long requests.
    fn script(
        &self,
        keyspace: &Keyspace<'_>,
        call: &ScriptCall,
        kind: ScriptKind,
        args: Args<'_>,
    ) -> Option<std::result::Result<silica_lua::Answer, String>> {
        let environment = Environment {
            service: keyspace.service,
            db: keyspace.db,
            engine: keyspace.engine,
            whole: keyspace.whole,
            claim: keyspace.claim,
            now_ms: self.now_ms,
            place: self.place,
        };
        let executor = RefCell::new(None);
        let run = &mut |engine: &dyn Engine, input: &Input| {
            let mut executor = executor.borrow_mut();
            let new = || Executor::new(Arc::clone(&*self.service));
            let executor = executor.get_or_insert_with(new);
            let replies = self.run_on(executor, (keyspace.db, engine), input)?;
            call.add_events(&mut executor.journal.get_mut().events);
            Ok(replies.unwrap_or_default())
        };
        call.run(kind, &environment, args, run)
    }
}

/// True if nothing but [`Executor::alone`] runs `request`.
fn is_alone(request: &Request) -> bool {
    !matches!(
        request.run,
        Run::Ready
            | Run::Session(_)
            | Run::Read(_)
            | Run::Write(_)
            | Run::Update(_)
            | Run::Choose(_)
            | Run::Across(_)
            | Run::AcrossTransaction(_)
    )
}

/// Runs the next request of `input`, which changes no keys of the database.
fn run_alone(keyspace: &Keyspace<'_>, input: &Input, output: &mut Output) {
    let request = &input.requests[output.next];
    let args = input.args(request);
    match request.run {
        Run::Watch(index) => {
            let keys: Vec<&[u8]> = args.from(1).collect();
            let noted = input.watches[index].add(keyspace.engine, keyspace.db, &keys);
            output.reply(request, |reply| match noted {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(&error_text(&error)),
            });
        }
        Run::Sql(kind, index) => {
            let call = &input.sql[index];
            output.reply(request, |reply| call.run(kind, keyspace, args, reply));
        }
        Run::Whole(run) => {
            let reader = input.reader(output.next);
            let keyspace = Keyspace { reader, ..*keyspace };
            output.reply(request, |reply| keyspace.answer(run, args, reply));
        }
        _ => unreachable!("the caller has looked at what the request runs"),
    }
}
