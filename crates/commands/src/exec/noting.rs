//! What a burst reads and changes is noted, if somebody wants to know: see [`crate::tracking`] and
//! [`Journal`](crate::journal::Journal).

use super::{Executor, Wave};
use crate::burst::{Args, ERROR, Input, Request};
use crate::effect::Effect;
use crate::service::Service;
use crate::table::{Modify, Run, Write, find};
use crate::tracking::{Tracking, removes_everything};
use silica::engine::{EntryRef, GetSink, WriteBatch};

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

impl Executor {
    /// Notes the keys that clients of `wave` are about to read and want to be told of.
    pub(super) fn note_reads(&self, wave: &Wave<'_, '_>) {
        for ((input, output), taken) in wave.inputs.iter().zip(&*wave.outputs).zip(&self.taken) {
            for request in &input.requests[output.next..(*taken).max(output.next)] {
                if let Run::Read(read) = request.run
                    && request.tracked
                {
                    let keys = read.keys(input.args(request));
                    self.service.tracking.note(&self.service, input.client, keys);
                }
            }
        }
    }

    /// True if somebody wants to know what `wave` has changed. A transaction tells itself what it
    /// has changed, when that is visible.
    pub(super) fn is_told(&self, wave: &Wave<'_, '_>) -> bool {
        !wave.is_transaction && self.service.tracking.is_told()
    }

    /// Notes what a blind write has changed.
    pub(super) fn note_write(&self, input: &Input, write: &Write, args: Args<'_>) {
        let mut batch = WriteBatch::new();
        (write.apply)(args, self.now_ms, &mut batch);
        let mut journal = self.journal.borrow_mut();
        batch.ops().iter().for_each(|op| journal.change(input.client, op.key));
    }

    /// Notes what an update has changed.
    pub(super) fn note_update(
        &self,
        input: &Input,
        modify: &Modify,
        args: Args<'_>,
        effects: &[Effect],
    ) {
        let mut journal = self.journal.borrow_mut();
        for (key, effect) in modify.keys(args).zip(effects) {
            if effect.changed() {
                journal.change(input.client, key);
            }
        }
    }

    /// Notes what a request has changed that ran alone, if it was not answered with an error.
    pub(super) fn note_alone(&self, input: &Input, request: &Request, reply: &[u8]) {
        if reply.first() == Some(&ERROR) {
            return;
        }
        let args = input.args(request);
        let mut journal = self.journal.borrow_mut();
        match request.run {
            Run::UpdateAll(_) => {
                let written = find(args.get(0)).map(|command| command.written_keys(args));
                written.into_iter().flatten().for_each(|key| journal.change(input.client, key));
            }
            Run::Transaction(index) => {
                let keys = input.transactions[index].take_changed();
                keys.iter().for_each(|key| journal.change(input.client, key));
            }
            Run::Script(_, index) => {
                let keys = input.scripts[index].take_changed();
                keys.iter().for_each(|key| journal.change(input.client, key));
            }
            Run::Sql(_, index) if input.sql[index].has_written_keys() => {
                journal.change_everything();
            }
            _ if removes_everything(input, request) => journal.change_everything(),
            _ => {}
        }
    }
}
