//! Requests that run alone, one by one: updates of several keys, transactions, scripts, and what is
//! asked of the store as a whole.

use super::held::removes_everything;
use super::telling::{Sources, add_keys};
use super::{Executor, Wave, WaveKind, out_bytes};
use crate::burst::{Args, Input, Output, Request};
use crate::engine_calls::error_text;
use crate::replication::{Effects, Mask};
use crate::resp::Keyspace;
use crate::resp::moving::takes_long;
use crate::resp::scripts::{Environment, Place, ScriptCall, ScriptKind, write_answer};
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
        let whole = match wave.kind {
            WaveKind::Burst => self.service.databases.whole(db),
            WaveKind::Transaction | WaveKind::Across => None,
        };
        let keyspace = Keyspace::of_step((&self.service, &self.claim), (engine, db), whole);
        let mut wrote = false;
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
                if self.is_refused(input, request) {
                    break;
                }
                wrote |= self.run_one_alone(&keyspace, wave.kind, input, output);
            }
            out_bytes += output.out.len();
        }
        wrote
    }

    /// Runs the next request of `input`; true if it may have written.
    fn run_one_alone(
        &self,
        keyspace: &Keyspace<'_>,
        kind: WaveKind,
        input: &Input,
        output: &mut Output,
    ) -> bool {
        let request = &input.requests[output.next];
        let (number, start) = (output.next, output.out.len());
        let told = self.told().filter(|_| kind == WaveKind::Burst);
        let held = RefCell::new(None);
        if let Some(service) = &told {
            let mask = self.stripes_alone(input, request);
            *held.borrow_mut() = mask.map(|mask| service.hold(mask));
        }
        let hold = || {
            if let Some(service) = &told {
                held.borrow_mut().get_or_insert_with(|| service.hold(Mask::ALL));
            }
        };
        let unhold = || drop(held.borrow_mut().take());
        let turn = HoldAll { hold: &hold, unhold: &unhold };
        let is_one = matches!(request.run, Run::UpdateAll(_)) && self.tells;
        let args = input.args(request);
        let sources = is_one.then(|| Sources::of(keyspace.engine, args)).flatten();
        let were_there = self.are_there(keyspace.engine, input, request);
        let wrote = request.run.changes();
        match wrote {
            true => self.change_alone(keyspace, input, output, &turn),
            false => run_alone(keyspace, input, output),
        }
        let notes = self.notes(kind == WaveKind::Transaction, keyspace.db);
        if output.next > number && notes.are_kept() {
            let reply = &output.out[start..];
            let known = (reply, &were_there[..], sources.as_ref());
            self.note_alone(notes, (input, request), keyspace.engine, known);
        }
        if kind == WaveKind::Burst {
            self.tell_replicas(is_step(request));
        }
        wrote
    }

    /// The stripes that a request needs from its beginning; `None` if it takes all of them when it
    /// takes effect, or writes nothing.
    fn stripes_alone(&self, input: &Input, request: &Request) -> Option<Mask> {
        let mut mask = Mask::NONE;
        match request.run {
            Run::UpdateAll(_) => add_keys(input.args(request), &mut mask),
            Run::Transaction(index) => input.transactions[index].add_stripes(&mut mask)?,
            _ if removes_everything(input, request) => mask = Mask::ALL,
            _ => return None,
        }
        Some(mask)
    }

    /// Runs the next request of `input`, which may change the store; or marks it as postponed.
    fn change_alone(
        &self,
        keyspace: &Keyspace<'_>,
        input: &Input,
        output: &mut Output,
        turn: &HoldAll<'_>,
    ) {
        let request = &input.requests[output.next];
        let args = input.args(request);
        match request.run {
            Run::UpdateAll(_)
                if self.place == Place::Short && takes_long(keyspace.engine, args) =>
            {
                output.is_postponed = true;
            }
            Run::UpdateAll(run) => {
                output
                    .acknowledge(request, self.synced(), |reply| keyspace.answer(run, args, reply));
            }
            Run::Transaction(index) => {
                let transaction = &input.transactions[index];
                let Some(ended) = self.transaction(keyspace, transaction, turn) else {
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
                let Some(answer) = self.script(keyspace, call, kind, args, turn) else {
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

    /// Runs all of `input` at `place` on `engine`, which stands before database `db`; the replies,
    /// or `None` if one of its requests has to run elsewhere.
    fn run_on(
        &self,
        (executor, place): (&mut Executor, Place),
        (db, engine): (usize, &dyn Engine),
        input: &Input,
    ) -> Result<Option<Vec<u8>>> {
        (executor.now_ms, executor.tells) = (self.now_ms, self.tells);
        executor.place = place;
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
    fn transaction(
        &self,
        keyspace: &Keyspace<'_>,
        transaction: &Transaction,
        turn: &HoldAll<'_>,
    ) -> Option<Ended> {
        let (mut is_postponed, mut events) = (false, Vec::new());
        let mut effects = Effects::default();
        let run = &mut |overlay: &dyn Engine, input: &Input| {
            let mut executor = Executor::new(Arc::clone(&*self.service));
            let replies =
                self.run_on((&mut executor, self.place), (keyspace.db, overlay), input)?;
            is_postponed = replies.is_none();
            // Only the last run counts.
            events = std::mem::take(&mut executor.journal.get_mut().events);
            effects = std::mem::take(&mut executor.journal.get_mut().effects);
            // Nothing of a transaction that ends with an error happens.
            replies.ok_or_else(|| Error::new(ErrorKind::Closed, "the transaction is postponed"))
        };
        let &Keyspace { engine, claim, db, .. } = keyspace;
        let ran = transaction.run(db, engine, self.now_ms, claim, (run, turn));
        if is_postponed {
            return None;
        }
        Some(ran.map(|replies| {
            let replies = replies?;
            transaction.finish(&self.service);
            transaction.set_events(events);
            *transaction.effects() = effects;
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
        turn: &HoldAll<'_>,
    ) -> Option<std::result::Result<silica_lua::Answer, String>> {
        let environment = Environment {
            service: keyspace.service,
            db: keyspace.db,
            engine: keyspace.engine,
            whole: keyspace.whole,
            claim: keyspace.claim,
            now_ms: self.now_ms,
            place: self.place,
            turn,
        };
        let executor = RefCell::new(None);
        let run = &mut |engine: &dyn Engine, input: &Input| {
            let mut executor = executor.borrow_mut();
            let new = || Executor::new(Arc::clone(&*self.service));
            let executor = executor.get_or_insert_with(new);
            // The script as a whole runs elsewhere, if one of its commands has to.
            let place = (&mut *executor, self.place);
            let replies = self.run_on(place, (keyspace.db, engine), input)?;
            call.add_events(&mut executor.journal.get_mut().events);
            call.effects().append(&mut executor.journal.get_mut().effects);
            Ok(replies)
        };
        call.run(kind, &environment, args, run)
    }
}

/// Takes all stripes if it is called for what is told to replicas; else does nothing. For what
/// takes effect on keys that nobody knows before.
pub(crate) struct HoldAll<'h> {
    pub(crate) hold: &'h dyn Fn(),
    /// It has not taken effect.
    pub(crate) unhold: &'h dyn Fn(),
}

/// True if what `request` does is one step for others.
fn is_step(request: &Request) -> bool {
    matches!(request.run, Run::Transaction(_) | Run::Script(..))
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
            | Run::Type(_)
            | Run::Choose(_)
            | Run::Across(_)
            | Run::AcrossTransaction(_)
            | Run::Apart(_)
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
            let keyspace = Keyspace { reader, client: input.client, ..*keyspace };
            output.reply(request, |reply| keyspace.answer(run, args, reply));
        }
        _ => unreachable!("the caller has looked at what the request runs"),
    }
}
