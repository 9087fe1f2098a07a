//! Values on their way from the engine: collected for a wave, as far as they are small; and the
//! reads that have large ones, one by one, their memory claimed before it is allocated.

use super::noting::Expiries;
use super::staged::Staged;
use super::{ENTRY_META_BYTES, Executor, Slot, Wave};
use crate::budget::Claim;
use crate::burst::Args;
use crate::engine_calls::error_text;
use crate::resp::Values;
use crate::resp::types::WRONG_TYPE;
use crate::service::Service;
use crate::table::{Answering, Read, Run, Wants, reply_too_large};
use silica::engine::{Engine, EntryRef, GetSink, Result};
use silica_proto::Reply;
use silica_types::is_marked;

/// Bytes of a reply around its values.
const FRAME_BYTES: usize = 64;

/// Collects values; those beyond `room` bytes are left for later.
pub(super) struct Collector<'e> {
    arena: &'e mut Vec<u8>,
    slots: &'e mut [Slot],
    wants: &'e [Wants],
    room: usize,
}

impl<'e> Collector<'e> {
    pub(super) fn new(
        arena: &'e mut Vec<u8>,
        slots: &'e mut [Slot],
        wants: &'e [Wants],
        room: usize,
    ) -> Self {
        Collector { arena, slots, wants, room }
    }

    /// Keeps what is wanted of an entry.
    fn keep(&mut self, index: usize, entry: EntryRef<'_>) {
        let (start, len) = (self.arena.len(), entry.value.len());
        let is_any = matches!(self.wants[index], Wants::Kind | Wants::Expiry);
        self.slots[index] = match self.wants[index] {
            _ if !is_any && is_marked(entry.user_bits) => Slot::OtherType,
            Wants::Kind => Slot::Found { start: entry.user_bits as usize, len },
            Wants::Length => Slot::Found { start: 0, len },
            Wants::Expiry => Slot::Found { start: 0, len: entry.expires_unix_ms as usize },
            Wants::Value => {
                self.arena.extend_from_slice(entry.value);
                Slot::Found { start, len }
            }
            Wants::Entry => {
                self.arena.extend_from_slice(&entry.expires_unix_ms.to_le_bytes());
                self.arena.extend_from_slice(&entry.user_bits.to_le_bytes());
                self.arena.extend_from_slice(entry.value);
                Slot::Found { start, len: ENTRY_META_BYTES + len }
            }
        };
    }

    /// Bytes that keeping a value of `len` bytes takes.
    fn kept_bytes(&self, index: usize, len: usize) -> usize {
        if matches!(self.wants[index], Wants::Length | Wants::Expiry | Wants::Kind) {
            0
        } else {
            len
        }
    }
}

impl GetSink for Collector<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        if self.arena.len() + self.kept_bytes(index, entry.value.len()) > self.room {
            self.slots[index] = Slot::Deferred;
            return;
        }
        self.keep(index, entry);
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        let fits =
            bytes <= self.room && self.arena.len() + self.kept_bytes(index, bytes) <= self.room;
        if !fits {
            self.slots[index] = Slot::Deferred;
        }
        fits
    }
}

/// The memory of one read that has large values.
struct Memory<'c> {
    claim: &'c Claim,
    /// What the engine holds of a value that it was told to read.
    of_engine: usize,
    /// Bytes of values that the reply may have, and has.
    reply_bytes_max: usize,
    reply_bytes: usize,
    /// Why the read cannot be answered.
    refused: Option<String>,
}

impl<'c> Memory<'c> {
    fn new(claim: &'c Claim, reply_bytes_max: usize) -> Self {
        Memory { claim, of_engine: 0, reply_bytes_max, reply_bytes: 0, refused: None }
    }

    /// True if the engine may read a value.
    fn lets_read(&mut self, bytes: usize) -> bool {
        // It holds one at a time.
        self.forget();
        if self.refused.is_none() {
            self.refused = self.claim.grow(bytes).err();
            self.of_engine = if self.refused.is_none() { bytes } else { 0 };
        }
        self.refused.is_none()
    }

    /// True if a value of `bytes` bytes may be held in `copies` copies.
    fn lets_keep(&mut self, bytes: usize, copies: usize) -> bool {
        self.reply_bytes += bytes;
        if self.refused.is_none() && self.reply_bytes > self.reply_bytes_max {
            self.refused = Some(reply_too_large(self.reply_bytes_max));
        }
        if self.refused.is_none() {
            self.refused = self.claim.grow(copies * bytes).err();
        }
        self.refused.is_none()
    }

    /// The engine's copy of the last value is gone.
    fn forget(&mut self) {
        self.claim.set(self.claim.bytes() - std::mem::take(&mut self.of_engine));
    }
}

/// Collects the values of one read in two copies: until they are answered, and in the reply.
struct Several<'e> {
    collector: Collector<'e>,
    memory: Memory<'e>,
}

impl GetSink for Several<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let bytes = self.collector.kept_bytes(index, entry.value.len());
        if self.memory.lets_keep(bytes, 2) {
            self.collector.keep(index, entry);
        }
        self.memory.forget();
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        self.memory.lets_read(bytes)
    }
}

/// Answers a read of one key from the engine's own copy of its value.
struct Single<'e, 'r, 'o> {
    read: &'static Read,
    args: Args<'e>,
    now_ms: u64,
    memory: Memory<'e>,
    reply: &'r mut Reply<'o>,
    is_found: bool,
}

impl GetSink for Single<'_, '_, '_> {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        let len = entry.value.len();
        let has_meta = self.read.wants == Wants::Entry;
        let (claim, now_ms) = (Some(self.memory.claim), self.now_ms);
        self.is_found = true;
        let is_any = matches!(self.read.wants, Wants::Kind | Wants::Expiry);
        if !is_any && is_marked(entry.user_bits) {
            self.memory.refused = Some(WRONG_TYPE.into());
            return;
        }
        match &self.read.answering {
            Answering::Pieces(pieces) => {
                if self.memory.lets_keep(len, 1) {
                    self.reply.raw().reserve_exact(len + FRAME_BYTES);
                    (pieces.first)(1, self.reply);
                    (pieces.each)(self.args.at_key(0), Some(entry), self.reply);
                    (pieces.last)(self.reply);
                }
            }
            Answering::Whole(answer) => {
                let place = match self.read.wants {
                    Wants::Expiry => entry.expires_unix_ms as usize,
                    _ => len,
                };
                let (mut meta, mut arena) = (Vec::new(), entry.value);
                let copies = 1 + usize::from(has_meta);
                if !self.memory.lets_keep(len, copies) {
                    return;
                }
                let start = entry.user_bits as usize;
                let start = if self.read.wants == Wants::Kind { start } else { 0 };
                let mut slots = [Slot::Found { start, len: place }];
                if has_meta {
                    let wants = &[Wants::Entry];
                    Collector::new(&mut meta, &mut slots, wants, usize::MAX).keep(0, entry);
                    arena = &meta;
                }
                answer(self.args, Values { slots: &slots, arena, now_ms, claim }, self.reply);
            }
        }
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        self.memory.lets_read(bytes)
    }
}

impl Executor {
    /// Runs the first read that needs more room than a wave has.
    pub(super) fn read_alone(&mut self, wave: &mut Wave<'_, '_>) {
        let is_next = |index: &usize| {
            let output = &wave.outputs[*index];
            output.next < output.limit()
                && output.next < self.taken[*index]
                && matches!(wave.inputs[*index].requests[output.next].run, Run::Read(_))
        };
        let Some(index) = (0..wave.inputs.len()).find(is_next) else { return };
        let input = &wave.inputs[index];
        let request = &input.requests[wave.outputs[index].next];
        let Run::Read(read) = request.run else { return };
        let args = input.args(request);
        let keys: Vec<&[u8]> = read.keys(args).collect();
        let memory = Memory::new(&self.claim, self.reply_bytes_max);
        if let [key] = keys[..] {
            let (now_ms, mut hits) = (self.now_ms, 0);
            let (staged, service) = (&mut self.staged, &self.service);
            let is_tracked = self.is_tracked;
            wave.outputs[index].reply(request, |reply| {
                let start = reply.buffered();
                let mut sink = Single { read, args, now_ms, memory, reply, is_found: false };
                let result = get_many(staged, service, wave.engine, &[key], is_tracked, &mut sink);
                let Single { mut memory, is_found, reply, .. } = sink;
                memory.forget();
                hits = usize::from(is_found);
                let failed = result.err().map(|error| error_text(&error)).or(memory.refused);
                if let Some(text) = failed {
                    reply.raw().truncate(start);
                    return args.refuse(&text, reply);
                }
                if !is_found {
                    let claim = Some(memory.claim);
                    let values = Values { slots: &[Slot::Missing], arena: &[], now_ms, claim };
                    read.answer(args, values, reply);
                }
            });
            if hits == 0 && self.notes_misses() {
                self.note_misses(wave.db as u8, read, args, &[Slot::Missing]);
            }
            self.service.stats.count_reads(1, hits);
            return;
        }
        self.wants.clear();
        self.wants.resize(keys.len(), read.wants);
        self.arena.clear();
        self.slots.clear();
        self.slots.resize(keys.len(), Slot::Missing);
        let collector = Collector::new(&mut self.arena, &mut self.slots, &self.wants, usize::MAX);
        let mut sink = Several { collector, memory };
        let (staged, service) = (&mut self.staged, &self.service);
        let result = get_many(staged, service, wave.engine, &keys, self.is_tracked, &mut sink);
        sink.memory.forget();
        let failed = result.err().map(|error| error_text(&error)).or(sink.memory.refused);
        self.count_slots();
        if failed.is_none() && self.notes_misses() {
            self.note_misses(wave.db as u8, read, args, &self.slots);
        }
        let (claim, now_ms) = (Some(&self.claim), self.now_ms);
        let values = Values { slots: &self.slots, arena: &self.arena, now_ms, claim };
        wave.outputs[index].reply(request, |reply| match failed {
            Some(text) => args.refuse(&text, reply),
            None => read.answer(args, values, reply),
        });
        self.arena = Vec::new();
    }
}

/// Reads `keys`, and notes when they expire if somebody wants to be told of that.
fn get_many(
    staged: &mut Staged,
    service: &Service,
    engine: &dyn Engine,
    keys: &[&[u8]],
    is_tracked: bool,
    sink: &mut dyn GetSink,
) -> Result<()> {
    match is_tracked {
        false => staged.get_many(service, engine, keys, sink),
        true => {
            let mut sink = Expiries::new(service, keys, sink);
            staged.get_many(service, engine, keys, &mut sink)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_room_wait() {
        let (mut arena, mut slots) = (Vec::new(), vec![Slot::Missing; 5]);
        let wants = [Wants::Value, Wants::Value, Wants::Length, Wants::Value, Wants::Value];
        let mut collector = Collector::new(&mut arena, &mut slots, &wants, 10);
        let value = [b'v'; 20];
        for (index, len) in [(3, 10), (0, 1), (2, 15)] {
            collector.found(index, EntryRef::new(&value[..len]));
        }
        assert!(!collector.wants(4, 11), "nothing is read that does not fit");
        let first = Slot::Found { start: 0, len: 10 };
        let length = Slot::Found { start: 0, len: 15 };
        assert_eq!(slots, [Slot::Deferred, Slot::Missing, length, first, Slot::Deferred]);
        assert_eq!(arena.len(), 10);
    }
}
