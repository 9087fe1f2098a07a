//! Requests of a primary's stream: a group of them is one batch for each database.

use super::across::Steps;
use super::{BATCH_BYTES_MAX, Executor};
use crate::burst::{Input, Output};
use crate::engine_calls::error_text;
use crate::marks::MARK_KEY;
use crate::resp::Keyspace;
use crate::resp::across::move_between;
use crate::resp::scripts::{Place, Step};
use crate::service::Service;
use crate::table::Run;
use crate::watch::untold;
use silica::engine::{Durability, Engine, EntryRef, Error, Result, WriteBatch};
use silica_proto::parse_i64;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Why a request of the stream was not applied.
#[derive(Debug)]
pub(crate) struct Unapplied {
    /// Its number.
    pub(crate) request: usize,
    /// What it was answered.
    pub(crate) text: String,
    /// Some of the batches were written.
    pub(crate) is_half: bool,
}

impl Executor {
    /// Runs all requests of `input`, and writes what they have changed: one batch for each
    /// database, with the mark that `mark_of` returns, which is told the databases that were
    /// written by the batches. What concerns whole databases takes effect at once, after what was
    /// written before it; then the caller is alone with the databases.
    ///
    /// If a request is answered with an error, nothing is written, but by what concerns whole
    /// databases.
    pub(crate) fn follow(
        &mut self,
        input: &Input,
        mark_of: &mut dyn FnMut(&[usize]) -> Vec<u8>,
    ) -> std::result::Result<(), Unapplied> {
        let service = Arc::clone(&self.service);
        // Nothing has expired that the primary may not have found expired.
        (self.now_ms, self.place) = (service.expiry_ms(), Place::Long);
        if let Some(followed) = self.follow_writes(&service, input, mark_of) {
            return followed;
        }
        let mut steps = Steps::new();
        let end = input.requests.len();
        let mut output = Output::new(Vec::new(), 0, end).with_ends(Vec::new());
        while output.next < output.end {
            let next = output.next;
            let moved = self.move_across(&service, input, &mut output, &mut steps);
            let went_on = match moved {
                Ok(false) => self.next_across(&service, input, &mut output, &mut steps),
                moved => moved.map(drop),
            };
            let text = match went_on {
                Err(error) => Some((next, error_text(&error))),
                Ok(()) if output.next == next => Some((next, "ERR it does not run".into())),
                Ok(()) => failed_reply(&output, next),
            };
            if let Some((request, text)) = text {
                self.journal.take();
                self.claim.clear();
                return Err(Unapplied { request, text, is_half: false });
            }
            output.out.clear();
            output.acknowledgements.clear();
            output.ends.iter_mut().for_each(Vec::clear);
        }
        let mut written = Vec::new();
        let committed = commit(steps, mark_of, &mut written);
        self.claim.clear();
        let is_half = !written.is_empty();
        let unwritten = |error: Error| {
            let request = end.saturating_sub(1);
            Unapplied { request, text: error_text(&error), is_half }
        };
        committed.map_err(unwritten)?;
        self.journal.get_mut().tell(&service, self.now_ms);
        if self.synced() {
            let sync = |db: &usize| service.databases.engine(*db).and_then(|engine| engine.sync());
            written.iter().try_for_each(sync).map_err(unwritten)?;
        }
        Ok(())
    }
}

impl Executor {
    /// Writes what `input` asks for without a look at what is there, if it is nothing but blind
    /// writes of one database, as most groups are; `None` if it is something else, or may be
    /// answered with an error. Then nothing was done.
    fn follow_writes(
        &mut self,
        service: &Service,
        input: &Input,
        mark_of: &mut dyn FnMut(&[usize]) -> Vec<u8>,
    ) -> Option<std::result::Result<(), Unapplied>> {
        let db = usize::from(input.requests.first()?.db);
        let notes = self.notes(false, db);
        // Whether a key is new is asked for before it is written.
        if notes.has_events() {
            return None;
        }
        let engine = service.databases.engine(db).ok()?;
        let limits = engine.descriptor().limits;
        let mut batch = WriteBatch::new();
        let mut bytes = 0;
        for request in &input.requests {
            let Run::Write(write) = request.run else { return None };
            let args = input.args(request);
            if usize::from(request.db) != db || self.refuse_write(write, args, &limits).is_some() {
                return None;
            }
            bytes += args.from(1).map(<[u8]>::len).sum::<usize>();
            (write.apply)(args, self.now_ms, &mut batch);
        }
        if batch.is_empty() || bytes > limits.batch_bytes_max.min(BATCH_BYTES_MAX) {
            return None;
        }
        let mark = mark_of(&[db]);
        let changed = batch.len();
        batch.put_entry(MARK_KEY, EntryRef::new(&mark));
        let failed = |error: Error, is_half| {
            let text = error_text(&error.within(format_args!("database {db}")));
            Unapplied { request: input.requests.len().saturating_sub(1), text, is_half }
        };
        let written =
            untold(std::iter::once(MARK_KEY), || engine.write(&batch, Durability::Buffered));
        if let Err(error) = written {
            return Some(Err(failed(error, false)));
        }
        if notes.is_tracked() {
            let mut journal = self.journal.borrow_mut();
            batch.ops()[..changed].iter().for_each(|op| journal.change(input.client, op.key));
        }
        self.journal.get_mut().tell(service, self.now_ms);
        let synced = if self.synced() { engine.sync() } else { Ok(()) };
        Some(synced.map_err(|error| failed(error, true)))
    }

    /// Runs the next request of `input` if it is a MOVE, which is a part of two batches; false if
    /// it is not.
    fn move_across<'s>(
        &mut self,
        service: &'s Service,
        input: &Input,
        output: &mut Output,
        steps: &mut Steps<'s>,
    ) -> Result<bool> {
        let request = &input.requests[output.next];
        let args = input.args(request);
        if !matches!(request.run, Run::Across(_)) || args.len() != 3 || !args.is(0, "move") {
            return Ok(false);
        }
        let db = usize::from(request.db);
        let count = service.databases.count();
        let target = parse_i64(args.get(2)).and_then(|number| usize::try_from(number).ok());
        let Some(target) = target.filter(|target| *target < count && *target != db) else {
            return Ok(false);
        };
        for db in [db, target] {
            if let Entry::Vacant(place) = steps.entry(db) {
                let engine = service.databases.engine(db)?;
                place.insert(Step::new(engine, self.now_ms, service.budget.max() / 4));
            }
        }
        let keys = Keyspace::of_step((service, &self.claim), (&steps[&db], db), None);
        let moved = move_between(&keys, &steps[&target], args.get(1))?;
        self.journal.borrow_mut().change(0, args.get(1));
        output.reply(request, |reply| reply.integer(i64::from(moved)));
        Ok(true)
    }
}

/// Writes what the steps hold; `done` gets the databases that were written.
fn commit(
    steps: Steps<'_>,
    mark_of: &mut dyn FnMut(&[usize]) -> Vec<u8>,
    done: &mut Vec<usize>,
) -> Result<()> {
    let written: Vec<usize> =
        steps.iter().filter(|(_, step)| step.has_written()).map(|(db, _)| *db).collect();
    let mark = mark_of(&written);
    for (db, step) in steps.into_iter().filter(|(db, _)| written.contains(db)) {
        let mut batch = WriteBatch::new();
        batch.put_entry(MARK_KEY, EntryRef::new(&mark));
        step.write(&batch, Durability::Buffered)?;
        step.commit_alone().map_err(|error| error.within(format_args!("database {db}")))?;
        done.push(db);
    }
    Ok(())
}

/// The first request from number `first` on that was answered with an error, and its text.
fn failed_reply(output: &Output, first: usize) -> Option<(usize, String)> {
    let (request, word) = output.failed.first()?;
    let ends = output.ends.as_ref()?;
    let nth = request.checked_sub(first)?;
    let start = if nth == 0 { 0 } else { *ends.get(nth - 1)? };
    let line = output.out.get(start + 1..*ends.get(nth)?);
    let text = line.map(|line| String::from_utf8_lossy(line).trim_end().to_string());
    Some((*request, text.unwrap_or_else(|| word.clone())))
}
