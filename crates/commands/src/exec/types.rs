//! Commands on objects: those that come next on all connections run as one step.
//!
//! What they read is kept while they run, and compared when what they have changed is written. If
//! somebody else has changed it meanwhile, all of them run anew on what is there then. So a burst
//! of requests for one object reads and writes its entry once.

use super::{Executor, Wave, WaveKind};
use crate::burst::Input;
use crate::engine_calls::error_text;
use crate::replication::Mask;
use crate::resp::replicas::WAIT;
use crate::resp::scripts::Place;
use crate::resp::types::{Done, Failure, Objects};
use crate::table::{Run, find_called};
use crate::waiters::{Vain, Wait, Waited};
use silica::engine::{Engine, Error, ErrorKind};
use silica_proto::Reply;
use std::ops::Range;
use std::sync::Arc;

/// Requests of a step at most.
const REQUESTS_MAX: usize = 512;
/// Bytes of their arguments after which no more are added.
const BYTES_MAX: usize = 4 << 20;
/// Bytes of a reply, about, for which room is made.
const REPLY_BYTES_USUAL: usize = 24;
/// Runs whose keys others have changed, after which the requests fail.
const RUNS_MAX: usize = 10_000;

/// The answer to a request whose wait somebody has ended.
const ENDED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// What a step of several requests has answered.
#[derive(Default)]
struct Answers {
    bytes: Vec<u8>,
    /// The replies, in the order of requests.
    replies: Vec<Range<usize>>,
    /// Of each connection: the first request that has not run, and what it waits for, if that is
    /// why.
    ends: Vec<(usize, Option<Wait>)>,
}

impl Executor {
    /// The commands on objects that come next on every connection, as one step. True where anything
    /// may have been written.
    pub(super) fn objects(&mut self, wave: &mut Wave<'_, '_>) -> bool {
        let (mut is_one, mut wrote) = (false, false);
        while self.take_objects(wave, if is_one { 1 } else { REQUESTS_MAX }) > 0 {
            let (engine, db) = (wave.engine, wave.db);
            let service = self.told();
            let held = service.as_ref().filter(|_| wave.kind == WaveKind::Burst).map(|service| {
                let mut mask = Mask::NONE;
                for (at, input) in wave.inputs.iter().enumerate() {
                    let range = (wave.outputs[at].next, self.taken[at]);
                    self.stripes_of_objects(input, range, &mut mask);
                }
                service.hold(mask)
            });
            let mut ran = self.run_objects(wave, engine, db);
            while let Some((at, cursor)) = self.aside.take() {
                // It goes on apart from others; what comes before it runs once more, without it.
                drop(ran);
                self.taken[at] = cursor;
                wave.outputs[at].is_postponed = true;
                ran = self.run_objects(wave, engine, db);
            }
            let answers = match ran {
                Ok((answers, mut objects)) => {
                    wrote |= objects.is_changed();
                    let is_transaction = wave.kind == WaveKind::Transaction;
                    if wave.kind == WaveKind::Burst {
                        self.service.dead_pages.note_made(db, objects.pages_made());
                        let dead = objects.dead.drain(..);
                        dead.for_each(|dead| self.service.dead_pages.add(db, dead));
                    }
                    self.note_objects(self.notes(is_transaction, db), &mut objects);
                    if held.is_some() {
                        self.tell_replicas(false);
                    }
                    Ok(answers)
                }
                Err(error) if self.taken_requests(wave) > 1 => {
                    // One of them is at fault, and the others are to run.
                    log::debug!("commands on objects run one by one: {error}");
                    is_one = true;
                    continue;
                }
                Err(error) => Err(error_text(&error)),
            };
            let again = self.answer_objects(wave, &answers);
            if !is_one && !again {
                break;
            }
        }
        wrote
    }

    /// Notes how far every connection goes in a step of `max` requests; how many these are.
    fn take_objects(&mut self, wave: &Wave<'_, '_>, max: usize) -> usize {
        self.taken.clear();
        let (mut requests, mut bytes) = (0, 0);
        for (input, output) in wave.inputs.iter().zip(&*wave.outputs) {
            let mut cursor = output.next;
            while cursor < output.limit() && requests < max && bytes < BYTES_MAX {
                let request = &input.requests[cursor];
                match request.run {
                    Run::Ready => {}
                    // What its connection has written before is to be in the stream.
                    Run::Type(command) if std::ptr::eq(command, &WAIT) && cursor > output.next => {
                        break;
                    }
                    Run::Type(_)
                        if usize::from(request.db) == wave.db
                            && !self.is_refused(input, request) =>
                    {
                        requests += 1;
                        bytes += input.args(request).bytes();
                    }
                    _ => break,
                }
                cursor += 1;
            }
            self.taken.push(cursor);
        }
        requests
    }

    fn taken_requests(&self, wave: &Wave<'_, '_>) -> usize {
        let range = |(at, taken): (usize, &usize)| {
            let first = wave.outputs[at].next;
            let requests = &wave.inputs[at].requests[first..(*taken).max(first)];
            requests.iter().filter(|request| !request.run.is_ready()).count()
        };
        self.taken.iter().enumerate().map(range).sum()
    }

    /// Runs what was taken until nobody else has changed what it has read; an error if the engine
    /// has one.
    fn run_objects<'e>(
        &'e self,
        wave: &Wave<'_, '_>,
        engine: &'e dyn Engine,
        db: usize,
    ) -> silica::engine::Result<(Answers, Objects<'e>)> {
        let mut keys = Vec::with_capacity(self.taken_requests(wave));
        for ((input, output), taken) in wave.inputs.iter().zip(&*wave.outputs).zip(&self.taken) {
            let requests = &input.requests[output.next..(*taken).max(output.next)];
            for request in requests {
                let Run::Type(command) = request.run else { continue };
                let args = input.args(request);
                keys.extend((command.key_at > 0).then(|| args.get(command.key_at)));
            }
        }
        let bytes_max = self.claim.budget().max() / 4;
        // Before anything is read, so that no change of it is missed.
        let is_tracked = self.note_keys(wave);
        for _ in 0..RUNS_MAX {
            let mut objects = Objects::new(&self.service, engine, db, self.now_ms, bytes_max);
            let ran = objects.fetch(&keys).and_then(|()| self.run_once(wave, &mut objects));
            match ran {
                Ok(answers) => {
                    if objects.commit()? {
                        if is_tracked {
                            let tracking = &self.service.tracking;
                            let note = |(key, at): (&[u8], u64)| tracking.note_expiry(key, at);
                            objects.expiring().for_each(note);
                        }
                        return Ok((answers, objects));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    match objects.forget_evicted()? {
                        Some(key) => {
                            let mut journal = self.journal.borrow_mut();
                            journal.change(0, &key);
                            if self.tells {
                                journal.effects.push(Some(db as u8), &[b"DEL", &key]);
                            }
                        }
                        // Others may have changed the pages while they were read.
                        None if objects.is_current()? => return Err(error),
                        None => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let text = "others have changed the keys of the command during each of its runs; use \
                    fewer keys that others write";
        Err(Error::new(ErrorKind::Busy, text))
    }

    /// Notes the keys of what was taken whose clients are to be told of later changes; true if
    /// there are any.
    fn note_keys(&self, wave: &Wave<'_, '_>) -> bool {
        let mut is_tracked = false;
        for ((input, output), taken) in wave.inputs.iter().zip(&*wave.outputs).zip(&self.taken) {
            for request in &input.requests[output.next..(*taken).max(output.next)] {
                if !request.tracked || !matches!(request.run, Run::Type(_)) {
                    continue;
                }
                let args = input.args(request);
                if let Some(command) = find_called(args) {
                    self.service.tracking.note(&**self.service, input.client, command.keys(args));
                    is_tracked = true;
                }
            }
        }
        is_tracked
    }

    fn run_once(
        &self,
        wave: &Wave<'_, '_>,
        objects: &mut Objects<'_>,
    ) -> silica::engine::Result<Answers> {
        let requests = self.taken_requests(wave);
        let mut answers = Answers {
            bytes: Vec::with_capacity(requests * REPLY_BYTES_USUAL),
            replies: Vec::with_capacity(requests),
            ends: Vec::with_capacity(wave.inputs.len()),
        };
        for (at, (input, output)) in wave.inputs.iter().zip(&*wave.outputs).enumerate() {
            let (mut waited, mut wait, mut is_first) = (input.waited, None, true);
            let mut cursor = output.next;
            while cursor < self.taken[at] && wait.is_none() {
                let request = &input.requests[cursor];
                cursor += 1;
                let Run::Type(command) = request.run else { continue };
                let args = input.args(request).within(&self.claim);
                let start = answers.bytes.len();
                self.begin(wave, (input, command.writes), std::mem::take(&mut is_first), objects);
                let told = self.tells && command.writes;
                let told = if told { objects.begin_telling(args)? } else { None };
                let mut reply = Reply::new(&mut answers.bytes, request.version);
                let result = match std::mem::take(&mut waited) {
                    Waited::Ended => Err(Failure::reply(ENDED)),
                    waited => {
                        objects.is_over = waited == Waited::TimedOut || !may_wait(wave.kind, input);
                        (command.run)(objects, args, &mut reply).or_else(|failure| {
                            self.end_wait(wave, (input, waited), failure, &mut reply)
                        })
                    }
                };
                match result {
                    Ok(()) => {}
                    Err(Failure::Reply(text)) => {
                        answers.bytes.truncate(start);
                        args.refuse(&text, &mut Reply::new(&mut answers.bytes, request.version));
                    }
                    Err(Failure::Wait(what)) => {
                        answers.bytes.truncate(start);
                        objects.end()?;
                        (cursor, wait) = (cursor - 1, Some(what));
                        continue;
                    }
                    Err(Failure::Engine(error)) => {
                        let aside = objects.takes_long().then_some((at, cursor - 1));
                        self.aside.set(aside);
                        return Err(error);
                    }
                }
                if let Some(told) = told {
                    objects.end_telling(args, told);
                }
                objects.end()?;
                answers.replies.push(start..answers.bytes.len());
            }
            answers.ends.push((cursor, wait));
        }
        Ok(answers)
    }

    /// A command of `input` begins. Only the first one of its step may have waited.
    fn begin(
        &self,
        wave: &Wave<'_, '_>,
        (input, writes): (&Input, bool),
        is_first: bool,
        objects: &mut Objects<'_>,
    ) {
        let is_short = self.place == Place::Short && wave.kind != WaveKind::Across;
        objects.begin(input.client, writes, is_short);
        let waiters = &self.service.waiters;
        if is_first && may_wait(wave.kind, input) && waiters.any() {
            objects.resolved = waiters.resolved(input.client).unwrap_or_default();
        } else if !objects.resolved.is_empty() {
            objects.resolved = Arc::default();
        }
    }

    /// Answers a command that would wait, if it may not, or not any more.
    fn end_wait(
        &self,
        wave: &Wave<'_, '_>,
        (input, waited): (&Input, Waited),
        failure: Failure,
        reply: &mut Reply<'_>,
    ) -> Done {
        match failure {
            Failure::Wait(wait) if waited == Waited::TimedOut || !may_wait(wave.kind, input) => {
                match wait.vain {
                    Vain::Array => reply.null_array(),
                    Vain::Value => reply.null(),
                }
                Ok(())
            }
            failure => Err(failure),
        }
    }

    /// Hands the replies of a step to its connections; true if some requests that wait are to look
    /// once more.
    fn answer_objects(
        &self,
        wave: &mut Wave<'_, '_>,
        answers: &std::result::Result<Answers, String>,
    ) -> bool {
        let (mut nth, mut again) = (0, false);
        for (index, input) in wave.inputs.iter().enumerate() {
            let output = &mut wave.outputs[index];
            let (end, wait) = match answers {
                Ok(answers) => (answers.ends[index].0, answers.ends[index].1.as_ref()),
                Err(_) => (self.taken[index].max(output.next), None),
            };
            let before = nth;
            for request in &input.requests[output.next..end] {
                let Run::Type(command) = request.run else {
                    output.copy_ready(input, request);
                    continue;
                };
                output.acknowledge(
                    request,
                    self.synced() && command.writes,
                    |reply| match answers {
                        Ok(answers) => reply.written(&answers.bytes[answers.replies[nth].clone()]),
                        Err(text) => input.args(request).refuse(text, reply),
                    },
                );
                nth += 1;
            }
            let waiters = &self.service.waiters;
            if nth > before && may_wait(wave.kind, input) && waiters.any() {
                // It waits no more, if it did.
                self.service.wake_all(waiters.end(input.client));
            }
            if let Some(wait) = wait {
                match waiters.begin(input.client, wait) {
                    true => again = true,
                    false => output.waits = Some(wait.clone()),
                }
            }
        }
        again
    }
}

/// True if requests of `input` may wait until there is something for them.
fn may_wait(kind: WaveKind, input: &Input) -> bool {
    kind == WaveKind::Burst && input.may_wait
}
