//! Requests on their way to the loop that owns their keys, and what comes back.

use super::hub::Shards;
use silica::engine::{
    Durability, EntryRef, Error, ErrorKind, GetSink, Op, OpKind, Result, WriteBatch,
};
use silica_commands::{
    Answer, Args, Budget, BurstLimits, Change, Claim, Effect, Judged, Modify, Parcel, SMALL_BYTES,
    error_text,
};
use silica_proto::Span;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of values after which the rest of a job's keys is left for another one.
const VALUES_BYTES_MAX: usize = 1 << 20;
/// Bytes that a job which waits for its next use keeps.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// What is wanted of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Get,
    Write(Durability),
    Update(BurstLimits),
}

/// A key, or an operation.
#[derive(Debug, Clone)]
struct Item {
    /// Its place in the sender's list.
    place: u32,
    partition: u32,
    key: Range<usize>,
    /// What is stored; nothing where the key is deleted, or asked for.
    entry: Option<(Range<usize>, u64, u32)>,
}

/// A key that is changed by what it holds.
struct Call {
    place: u32,
    partition: u32,
    modify: &'static Modify,
    parcel: Parcel,
}

/// An entry that was found.
#[derive(Debug, Clone)]
struct Found {
    place: u32,
    value: Range<usize>,
    expires_unix_ms: u64,
    user_bits: u32,
}

/// What goes to an owner and comes back; kept for its memory.
pub(super) struct Job {
    /// The loop that gets it back.
    pub(super) from: usize,
    /// The loop that it goes to.
    pub(super) owner: usize,
    /// Which of the sender's rounds it belongs to.
    pub(super) round: u64,
    pub(super) db: usize,
    pub(super) want: Want,
    bytes: Vec<u8>,
    items: Vec<Item>,
    calls: Vec<Call>,
    spans: Vec<Span>,
    /// Of the calls, in their order.
    answers: Vec<Judged>,
    pub(super) gathered: Gathered,
    pub(super) result: Result<()>,
    /// What is copied for the way, and what its changes take.
    claim: Claim,
}

impl Job {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Job {
            from: 0,
            owner: 0,
            round: 0,
            db: 0,
            want: Want::Get,
            bytes: Vec::new(),
            items: Vec::new(),
            calls: Vec::new(),
            spans: Vec::new(),
            answers: Vec::new(),
            gathered: Gathered::default(),
            result: Ok(()),
            claim: Claim::new(budget),
        }
    }

    /// Forgets all but a little memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.items.clear();
        self.calls.clear();
        self.spans.clear();
        self.answers.clear();
        self.gathered.clear();
        self.result = Ok(());
        self.claim.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.calls.is_empty()
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.count();
        start..self.bytes.len()
    }

    /// Counts what was copied, once that is much.
    fn count(&self) {
        if self.bytes.len() > SMALL_BYTES {
            self.claim.set(self.bytes.len());
        }
    }

    /// Adds a key. Those of one partition follow one another.
    pub(super) fn add_key(&mut self, place: u32, partition: usize, key: &[u8]) {
        let key = self.copy(key);
        self.items.push(Item { place, partition: partition as u32, key, entry: None });
    }

    /// Adds an operation. Those of one partition follow one another.
    pub(super) fn add_op(&mut self, place: u32, partition: usize, op: &Op<'_>) {
        let is_range = matches!(op.kind, OpKind::DeleteRange(_));
        assert!(!is_range, "no command deletes a range of an engine with partitions");
        self.add_key(place, partition, op.key);
        if let OpKind::Put(entry) = &op.kind {
            let value = self.copy(entry.value);
            let entry = (value, entry.expires_unix_ms, entry.user_bits);
            self.items.last_mut().expect("one was added").entry = Some(entry);
        }
    }

    /// Adds a change. Those of one partition follow one another.
    pub(super) fn add_change(&mut self, place: u32, partition: usize, change: &Change<'_>) {
        let modify = change.modify;
        let args = change.args.at_key(change.nth);
        let parcel = args.pack(modify.many, &mut self.bytes, &mut self.spans);
        self.count();
        self.calls.push(Call { place, partition: partition as u32, modify, parcel });
    }

    /// Does the work, with the owner's shards.
    pub(super) fn run(&mut self, shards: &mut Shards) {
        let run = catch_unwind(AssertUnwindSafe(|| self.try_to_run(shards)));
        self.result = run.unwrap_or_else(|_| {
            log::error!("a request of another loop made an engine panic");
            Err(Error::new(ErrorKind::Io, "the engine failed; the server's log says more"))
        });
    }

    fn try_to_run(&mut self, shards: &mut Shards) -> Result<()> {
        if let Want::Update(burst_limits) = self.want {
            self.change(shards, &burst_limits);
            return Ok(());
        }
        let Job { bytes, items, gathered, .. } = self;
        let mut result = Ok(());
        for items in items.chunk_by(|a, b| a.partition == b.partition) {
            let shard = shards.get(self.db, items[0].partition as usize)?;
            let done = match self.want {
                Want::Write(durability) => {
                    let mut batch = WriteBatch::new();
                    for item in items {
                        batch.push(item.op(bytes));
                    }
                    shard.write(&batch, durability)
                }
                _ => {
                    let keys: Vec<&[u8]> = items.iter().map(|i| &bytes[i.key.clone()]).collect();
                    shard.get_many(&keys, &mut gathered.from(|index| items[index].place))
                }
            };
            // One partition's failure is not the others'.
            result = result.and(done);
        }
        result
    }

    /// Changes all keys; where one cannot be changed that is its answer.
    fn change(&mut self, shards: &mut Shards, burst_limits: &BurstLimits) {
        let Job { bytes, calls, spans, answers, claim, .. } = self;
        for calls in calls.chunk_by(|a, b| a.partition == b.partition) {
            let args: Vec<Args<'_>> =
                calls.iter().map(|call| call.parcel.args(bytes, spans).within(claim)).collect();
            let keys: Vec<&[u8]> = args.iter().map(Args::key).collect();
            let (first, mut done) = (answers.len(), 0);
            answers.resize(first + calls.len(), (Answer::Null, Effect::default()));
            while done < keys.len() {
                let shard = shards.get(self.db, calls[0].partition as usize);
                let result = shard.and_then(|shard| {
                    shard.update_many(&keys[done..], Durability::Buffered, &mut |index, current| {
                        let at = done + index;
                        let (update, answer) =
                            calls[at].modify.judge(args[at], current, burst_limits);
                        answers[first + done + index] = answer;
                        update
                    })
                });
                done += result.unwrap_or_else(|error| {
                    let failed = Answer::Error(error_text(&error).into());
                    answers[first + done] = (failed, Effect::default());
                    1
                });
            }
        }
    }

    /// Puts the answers of its calls to their places in `answers`.
    pub(super) fn answer(&mut self, answers: &mut [Judged]) {
        let failed = self.result.as_ref().err().map(error_text);
        let mut own = self.answers.drain(..);
        for call in &self.calls {
            answers[call.place as usize] = match &failed {
                Some(text) => (Answer::Error(text.clone().into()), Effect::default()),
                None => own.next().unwrap_or((Answer::Null, Effect::default())),
            };
        }
    }
}

impl Item {
    fn op<'b>(&self, bytes: &'b [u8]) -> Op<'b> {
        let kind = match &self.entry {
            None => OpKind::Delete,
            Some((value, expires_unix_ms, user_bits)) => OpKind::Put(EntryRef {
                value: &bytes[value.clone()],
                expires_unix_ms: *expires_unix_ms,
                user_bits: *user_bits,
            }),
        };
        Op { key: &bytes[self.key.clone()], kind }
    }
}

/// Copies of the entries that were found.
#[derive(Debug)]
pub(super) struct Gathered {
    values: Vec<u8>,
    found: Vec<Found>,
    /// The first place whose value had no room.
    pub(super) missed: u32,
}

impl Default for Gathered {
    fn default() -> Self {
        Gathered { values: Vec::new(), found: Vec::new(), missed: u32::MAX }
    }
}

impl Gathered {
    /// Forgets all but a little memory.
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.values.shrink_to(KEPT_BYTES_MAX);
        self.found.clear();
        self.missed = u32::MAX;
    }

    /// Takes in what is found; `place_of` says where each key belongs.
    pub(super) fn from<P: Fn(usize) -> u32>(&mut self, place_of: P) -> Gatherer<'_, P> {
        Gatherer { gathered: self, place_of }
    }

    /// The places of the entries, in the order of [`Gathered::entry`].
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.found.iter().map(|found| found.place)
    }

    /// Entry `number`.
    pub(super) fn entry(&self, number: usize) -> EntryRef<'_> {
        let Found { value, expires_unix_ms, user_bits, .. } = &self.found[number];
        let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
        EntryRef { value: &self.values[value.clone()], expires_unix_ms, user_bits }
    }
}

/// Collects values; those that have no room are missed.
pub(super) struct Gatherer<'g, P> {
    gathered: &'g mut Gathered,
    place_of: P,
}

impl<P: Fn(usize) -> u32> GetSink for Gatherer<'_, P> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let Gathered { values, found, missed } = &mut *self.gathered;
        let (start, place) = (values.len(), (self.place_of)(index));
        // The first always fits: otherwise nothing would ever go on.
        if start > 0 && start + entry.value.len() > VALUES_BYTES_MAX {
            *missed = place.min(*missed);
            return;
        }
        values.extend_from_slice(entry.value);
        let (expires_unix_ms, user_bits) = (entry.expires_unix_ms, entry.user_bits);
        let value = start..values.len();
        found.push(Found { place, value, expires_unix_ms, user_bits });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_room_are_missed_but_for_the_first() {
        let mut gathered = Gathered::default();
        let value = vec![1; VALUES_BYTES_MAX + 1];
        let mut sink = gathered.from(|index| 10 + index as u32);
        sink.found(2, EntryRef::new(&value));
        sink.found(1, EntryRef::new(b"x"));
        sink.found(0, EntryRef::new(b"x"));
        assert_eq!((gathered.places().collect::<Vec<_>>(), gathered.missed), (vec![12], 10));
        assert_eq!(gathered.entry(0).value, value);
    }
}
