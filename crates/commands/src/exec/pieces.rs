//! Replies that are written as their values come: from the engine straight to a connection.

use crate::burst::{Input, Output};
use crate::resp::types::WRONG_TYPE;
use crate::table::{Answering, Read, Run};
use silica::engine::{EntryRef, GetSink};
use silica_proto::Reply;
use silica_types::is_marked;

/// Writes the replies of a wave of reads while an engine reports its values, which it does in the
/// order of the keys.
pub(super) struct Writer<'w> {
    inputs: &'w [Input],
    outputs: &'w mut [Output],
    /// Of each connection the first request that is not part of the wave.
    taken: &'w [usize],
    /// Bytes of values that the wave may have.
    room: usize,
    /// The connection whose next request comes next.
    at: usize,
    /// The key of that request which comes next, and where the request's reply starts.
    nth: usize,
    start: usize,
    /// Keys that are done with, and those of them that were found.
    keys: usize,
    hits: usize,
    /// Reads that are answered.
    pub(super) done: usize,
    /// Keys of these reads, and those of them that were found: the keys of a read that is not
    /// whole are asked for again, and counted then.
    pub(super) answered: (usize, usize),
    value_bytes: usize,
    is_full: bool,
}

impl<'w> Writer<'w> {
    pub(super) fn new(
        inputs: &'w [Input],
        outputs: &'w mut [Output],
        taken: &'w [usize],
        room: usize,
    ) -> Self {
        let mut writer = Writer {
            inputs,
            outputs,
            taken,
            room,
            at: 0,
            nth: 0,
            start: 0,
            keys: 0,
            hits: 0,
            done: 0,
            answered: (0, 0),
            value_bytes: 0,
            is_full: false,
        };
        writer.skip();
        writer
    }

    /// Ends the wave, of so many keys: none that were not reported are there, unless the room was
    /// too small. A request that is not whole has no reply.
    pub(super) fn end(&mut self, keys: usize) {
        while self.keys < keys && !self.is_full {
            self.write(None);
        }
        if self.nth > 0 {
            self.outputs[self.at].out.truncate(self.start);
        }
    }

    /// Ends the replies if the engine has failed.
    pub(super) fn give_up(&mut self) {
        self.is_full = true;
        self.end(self.keys);
    }

    /// Goes on to the next read, and copies what is ready before it.
    #[inline]
    fn skip(&mut self) {
        while let Some(output) = self.outputs.get_mut(self.at) {
            let input = &self.inputs[self.at];
            while output.next < self.taken[self.at] {
                let request = &input.requests[output.next];
                if !request.run.is_ready() {
                    return;
                }
                output.copy_ready(input, request);
                self.done += 1;
            }
            self.at += 1;
        }
    }

    /// Writes what the next key is answered with.
    #[inline]
    fn write(&mut self, entry: Option<EntryRef<'_>>) {
        let (input, output) = (&self.inputs[self.at], &mut self.outputs[self.at]);
        let request = &input.requests[output.next];
        let Run::Read(Read { answering: Answering::Pieces(pieces), keys_max, .. }) = request.run
        else {
            unreachable!("a wave in pieces is taken of such reads alone");
        };
        let args = input.args(request);
        let keys = (args.len() - 1).min(*keys_max);
        let mut reply = Reply::new(&mut output.out, request.version);
        if self.nth == 0 {
            self.start = reply.buffered();
            (pieces.first)(keys, &mut reply);
        }
        (pieces.each)(args.at_key(self.nth), entry, &mut reply);
        (self.keys, self.nth) = (self.keys + 1, self.nth + 1);
        if self.nth == keys {
            (pieces.last)(&mut reply);
            if request.silent {
                output.out.truncate(self.start);
            }
            output.end_reply();
            (self.nth, self.done) = (0, self.done + 1);
            self.answered = (self.keys, self.hits);
            self.skip();
        }
    }
}

impl Writer<'_> {
    /// Answers a read of a key that is no string: with an error, or, if it is one of several,
    /// as if there was nothing.
    #[cold]
    fn refuse(&mut self) {
        let (input, output) = (&self.inputs[self.at], &mut self.outputs[self.at]);
        let request = &input.requests[output.next];
        let is_one = matches!(request.run, Run::Read(Read { keys_max: 1, .. }));
        if !is_one {
            return self.write(None);
        }
        output.reply(request, |reply| input.args(request).refuse(WRONG_TYPE, reply));
        (self.keys, self.done) = (self.keys + 1, self.done + 1);
        self.answered = (self.keys, self.hits);
        self.skip();
    }
}

impl GetSink for Writer<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        assert!(index >= self.keys || self.is_full, "the engine reports in the order of the keys");
        let bytes = entry.value.len();
        self.is_full |= self.value_bytes + bytes > self.room;
        if self.is_full {
            return;
        }
        while self.keys < index {
            self.write(None);
        }
        self.value_bytes += bytes;
        self.hits += 1;
        match is_marked(entry.user_bits) {
            false => self.write(Some(entry)),
            true => self.refuse(),
        }
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        // What is left is asked for again, with its memory claimed before.
        self.is_full |= self.value_bytes + bytes > self.room;
        !self.is_full
    }
}
