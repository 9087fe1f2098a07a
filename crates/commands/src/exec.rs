//! Runs bursts: the requests of many connections as few engine calls.
//!
//! A burst runs in waves. A wave takes from every connection the longest run of reads that come
//! next and makes one `get_many` of all of them; then the writes that come next, as one batch;
//! then the read-modify-writes, as one burst of updates. So each connection's requests take effect
//! in their order, as if it were alone, and the engine sees few, large calls. Everything written in
//! a burst is synced once, at its end, before any of its replies leaves.

mod across;
mod alone;
mod at_hand;
mod changes;
mod commit;
mod held;
mod journal;
mod noting;
mod one_by_one;
mod output;
mod pieces;
mod routing;
mod staged;
mod stream;
mod telling;
mod timer;
mod types;

use self::alone::Collector;
use self::changes::{Answers, change, change_by_owners};
pub use self::changes::{Change, OwnedUpdates};
pub use self::commit::{Uncommitted, commit};
use self::journal::Journal;
use self::noting::{Expiries, Living};
pub(crate) use self::one_by_one::HoldAll;
use self::pieces::Writer;
use self::routing::{Stops, needs_database};
use self::staged::Staged;
pub(crate) use self::stream::Unapplied;
use self::telling::hold;
pub(crate) use self::telling::{is_told_without_value, tell_batch, tell_objects};
use self::timer::BurstTimer;
use crate::budget::{Claim, SMALL_BYTES};
use crate::burst::{Args, Burst, Input, Output};
use crate::engine_calls::error_text;
use crate::gate::Turn;
use crate::lane::Lane;
use crate::resp::Values;
use crate::resp::scripts::Place;
use crate::service::Service;
use crate::table::{Answer, Answering, BurstLimits, Run, Wants, Write, find_called};
use silica::engine::{
    CopyRoom, Durability, Engine, GetSink, Limits, Result, WriteBatch, limit_copies,
};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, MutexGuard};

/// Keys of one wave of reads.
const KEYS_MAX: usize = 1024;
/// Bytes of values that a wave of reads collects.
const ARENA_BYTES_MAX: usize = 4 << 20;
/// Of them, those that are kept for the next burst.
const ARENA_BYTES_KEPT: usize = 512 << 10;
/// Reply bytes of one connection after which its burst goes on later.
const OUT_BYTES_MAX: usize = 1 << 20;
/// Reply bytes of all its connections after which it does.
const BURST_OUT_BYTES_MAX: usize = 8 << 20;
/// Bytes of values that one request may fetch over a connection.
pub(crate) const REPLY_BYTES_MAX: usize = 600 << 20;
/// Bytes of an entry's meta before its value in the arena.
pub(crate) const ENTRY_META_BYTES: usize = 12;
/// Bytes of keys and values after which a batch is written.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// What is held while a burst runs: see [`DatabaseSet::enter`](crate::DatabaseSet::enter).
type Guard<'t> = MutexGuard<'t, ()>;

/// A key's result in a wave of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// No such key.
    Missing,
    /// The value lies here in the arena (or is only this long, where that was asked).
    Found { start: usize, len: usize },
    /// There was no room for it.
    Deferred,
    /// It is no string, and the read asks for strings.
    OtherType,
}

/// Runs bursts; keeps its buffers between them.
pub struct Executor {
    /// Counted by itself: clones of it write no line that other threads write.
    #[expect(clippy::redundant_allocation, reason = "the count is on a line of its own")]
    service: Arc<Arc<Service>>,
    /// What engines copy for this thread.
    copies: Arc<dyn CopyRoom>,
    arena: Vec<u8>,
    slots: Vec<Slot>,
    wants: Vec<Wants>,
    taken: Vec<usize>,
    /// Always empty: room for the keys of a wave of reads, and for a batch of writes.
    keys: Vec<&'static [u8]>,
    batch: WriteBatch<'static>,
    /// Bytes of values that one request may fetch.
    reply_bytes_max: usize,
    /// What the burst's large values and replies are claimed from.
    claim: Claim,
    /// Bytes of values and of replies that are not claimed.
    room: usize,
    /// When the burst began, in Unix milliseconds.
    now_ms: u64,
    /// Where its reads spend their time, if somebody asks.
    staged: Staged,
    /// Engines are asked only for what they have in memory; keys of the last wave that were not.
    is_at_hand: bool,
    left: Vec<usize>,
    /// A wave of reads has some whose client is told of later changes.
    is_tracked: bool,
    /// Where its scripts run, and commands that take long.
    place: Place,
    /// The connection and the request that have to run on a thread for long requests.
    aside: Cell<Option<(usize, usize)>>,
    /// What the burst has changed, if somebody wants to know.
    journal: RefCell<Journal>,
    /// Replicas are told what it writes.
    tells: bool,
    /// Writes of clients are refused: this is a replica.
    refuses: bool,
    /// Held while a burst runs; an executor of a part of a burst has none.
    turn: Option<Arc<Turn>>,
}

impl Executor {
    /// An executor of the calling thread's bursts.
    pub fn new(service: Arc<Service>) -> Self {
        let reply_bytes_max = REPLY_BYTES_MAX;
        let (arena, slots, wants, taken) = (vec![], vec![], vec![], vec![]);
        let (keys, batch) = (vec![], WriteBatch::new());
        let (claim, room) = (Claim::new(&service.budget), service.room(ARENA_BYTES_MAX));
        Executor {
            copies: Arc::clone(&service.budget) as Arc<dyn CopyRoom>,
            service: Arc::new(service),
            arena,
            slots,
            wants,
            taken,
            keys,
            batch,
            reply_bytes_max,
            claim,
            room,
            now_ms: 0,
            staged: Staged::default(),
            is_at_hand: false,
            left: Vec::new(),
            is_tracked: false,
            place: Place::Short,
            aside: Cell::new(None),
            journal: RefCell::default(),
            tells: false,
            refuses: false,
            turn: None,
        }
    }

    /// One whose requests fetch no more than `reply_bytes_max` bytes of values each.
    pub fn with_replies_up_to(service: Arc<Service>, reply_bytes_max: usize) -> Self {
        Executor { reply_bytes_max, ..Executor::new(service) }
    }

    /// Runs every connection's requests from `next` to `end`, or until its replies are many. What
    /// they write is as durable as the service says.
    pub fn run(&mut self, burst: &mut Burst) {
        let uncommitted = self.apply(burst);
        commit(&self.service, [(burst, uncommitted)]);
    }

    /// As [`Executor::run`], but what was written is not synced yet, if it must be: [`commit`] ends
    /// the burst then.
    pub fn run_to_sync(&mut self, burst: &mut Burst) -> Option<Uncommitted> {
        let uncommitted = self.apply(burst);
        if uncommitted.must_sync() {
            return Some(uncommitted);
        }
        commit(&self.service, [(burst, uncommitted)]);
        None
    }

    fn apply(&mut self, burst: &mut Burst) -> Uncommitted {
        limit_copies(&self.copies);
        let service = Arc::clone(&self.service);
        let timer = BurstTimer::start(&service, burst);
        self.staged = Staged::start(&service, burst);
        self.now_ms = service.unix_ms();
        self.place = if burst.lane == Lane::Long { Place::Long } else { Place::Short };
        let done_before: usize = burst.outputs.iter().map(|output| output.next).sum();
        let turn = self.turn();
        let dirty = self.apply_in(&service, &turn, burst);
        let outputs = &mut burst.outputs[..];
        self.journal.get_mut().tell(&service, self.now_ms);
        let dirty = if self.synced() { dirty } else { 0 };
        self.forget(outputs);
        let done: usize = outputs.iter().map(|output| output.next).sum();
        let requests = done - done_before;
        service.stats.count_burst(burst.lane, requests);
        Uncommitted { timer, staged: std::mem::take(&mut self.staged), requests, dirty }
    }

    /// Runs a burst inside `turn`; the places that may have been written, a bit each.
    fn apply_in(&mut self, service: &Service, turn: &Turn, burst: &mut Burst) -> u32 {
        // A statement of SQL may take long, and has its own way to see one moment.
        let is_sql = burst.lane == Lane::Sql;
        let enter = || (!is_sql).then(|| service.databases.enter(turn));
        let mut entered = enter();
        self.look_at_role();
        let hands_over = burst.inputs.iter().any(|input| input.hands_over);
        let cluster = service.cluster.as_ref().filter(|_| hands_over);
        let _held = cluster.map(|cluster| service.databases.lock(cluster.handover()));
        let (mut stops, mut dirty) = (Stops::default(), 0);
        self.route(burst, &mut stops);
        loop {
            let parts = (&burst.inputs[..], &mut burst.outputs[..]);
            let (wrote, has_left) = self.waves(service, parts, &mut entered);
            dirty |= wrote;
            if has_left {
                // Whatever was decided before may have changed.
                entered = enter();
                self.look_at_role();
                self.route(burst, &mut stops);
                continue;
            }
            if out_bytes(&burst.outputs) >= self.out_bytes_max() {
                break;
            }
            match self.run_handed_over(burst, &stops, &mut entered) {
                Some(wrote) => dirty |= wrote,
                None => break,
            }
        }
        stops.lift(&mut burst.outputs);
        dirty
    }

    /// Runs requests wave by wave, until one has run for which the burst was left; the places that
    /// may have been written, a bit each, and whether it was left.
    fn waves(
        &mut self,
        service: &Service,
        (inputs, outputs): (&[Input], &mut [Output]),
        entered: &mut Option<Guard<'_>>,
    ) -> (u32, bool) {
        let mut dirty = 0;
        while let Some((at, db)) = next_part(inputs, outputs)
            && out_bytes(outputs) < self.out_bytes_max()
        {
            let run = inputs[at].requests[outputs[at].next].run;
            if run.is_across() || run.is_apart() {
                *entered = None;
                return match run.is_apart() {
                    true => (dirty | self.apart(&inputs[at], &mut outputs[at]), true),
                    false => (dirty | self.across(&inputs[at], &mut outputs[at]), true),
                };
            }
            let is_needed = || needs_database((inputs, outputs), db);
            match service.databases.engine_if(db, is_needed) {
                Ok(engine) => {
                    let kind = WaveKind::Burst;
                    let mut wave = Wave { db, kind, engine, inputs, outputs };
                    dirty |= u32::from(self.wave(&mut wave)) << service.databases.place_of(db);
                }
                Err(error) => refuse(db, &error_text(&error), inputs, outputs),
            }
        }
        (dirty, false)
    }

    /// What it holds while a burst runs.
    fn turn(&mut self) -> Arc<Turn> {
        let new = || self.service.databases.new_turn();
        Arc::clone(self.turn.get_or_insert_with(new))
    }

    /// Reply bytes of a burst after which it goes on later.
    fn out_bytes_max(&self) -> usize {
        self.room.saturating_mul(2).min(BURST_OUT_BYTES_MAX)
    }

    /// Gives large buffers and all claims back. What is answered is counted until it is handed to
    /// its connections, which count it themselves.
    fn forget(&mut self, outputs: &mut [Output]) {
        self.arena.clear();
        self.arena.shrink_to(ARENA_BYTES_KEPT.min(self.room));
        self.slots.clear();
        self.slots.shrink_to(KEYS_MAX);
        self.wants.clear();
        self.wants.shrink_to(KEYS_MAX);
        self.taken.shrink_to(KEYS_MAX);
        self.keys.shrink_to(KEYS_MAX);
        self.claim.clear();
        for output in outputs.iter_mut().filter(|output| output.out.len() > SMALL_BYTES) {
            let claim = output.claim.get_or_insert_with(|| Claim::new(&self.service.budget));
            claim.set(output.out.len());
        }
    }

    /// True where everything that a burst has written is synced at its end.
    fn synced(&self) -> bool {
        self.service.options.durability == Durability::Synced
    }

    /// Takes every connection as far as a wave goes. True where anything may have been written.
    fn wave(&mut self, wave: &mut Wave<'_, '_>) -> bool {
        if self.refuses {
            self.refuse_writes(wave);
        }
        self.reads(wave);
        // None of them is left out because another has written.
        let wrote = [self.writes(wave), self.updates(wave), self.objects(wave), self.alone(wave)];
        wrote.contains(&true)
    }

    /// The reads that come next on every connection, as one `get_many`.
    fn reads(&mut self, wave: &mut Wave<'_, '_>) {
        let mut keys: Vec<&[u8]> = std::mem::take(&mut self.keys);
        self.taken.clear();
        self.is_tracked = false;
        let mut in_pieces =
            !self.is_at_hand && wave.engine.reports_in_order() && !self.notes_misses();
        for (input, output) in wave.inputs.iter().zip(wave.outputs.iter()) {
            let (mut cursor, limit) = (output.next, output.limit());
            while cursor < limit && keys.len() < KEYS_MAX {
                let request = &input.requests[cursor];
                match request.run {
                    Run::Ready => {}
                    Run::Read(read) if usize::from(request.db) == wave.db => {
                        self.is_tracked |= request.tracked;
                        in_pieces &= matches!(read.answering, Answering::Pieces(_));
                        keys.extend(read.keys(input.args(request)));
                    }
                    _ => break,
                }
                cursor += 1;
            }
            self.taken.push(cursor);
        }
        if self.is_tracked {
            self.note_reads(wave);
        }
        match in_pieces {
            true => self.reads_in_pieces(wave, &keys),
            false => self.reads_at_once(wave, &keys),
        }
        keys.clear();
        // Nothing is left of them, and so the room may be called anybody's.
        self.keys = keys.into_iter().map(|_| &[][..]).collect();
    }

    /// Answers reads while the engine reports their values.
    fn reads_in_pieces(&mut self, wave: &mut Wave<'_, '_>, keys: &[&[u8]]) {
        let mut writer = Writer::new(wave.inputs, wave.outputs, &self.taken, self.room);
        let mut result = Ok(());
        if !keys.is_empty() {
            let (staged, service) = (&mut self.staged, &self.service);
            result = match self.is_tracked {
                false => staged.get_many(service, wave.engine, keys, &mut writer),
                true => {
                    let mut sink = Expiries::new(service, keys, &mut writer);
                    staged.get_many(service, wave.engine, keys, &mut sink)
                }
            };
        }
        match &result {
            Ok(()) => writer.end(keys.len()),
            Err(_) => writer.give_up(),
        }
        let (done, (seen, hits)) = (writer.done, writer.answered);
        self.service.stats.count_reads(seen, hits);
        if let Err(error) = result {
            self.slots.clear();
            self.slots.resize(keys.len(), Slot::Missing);
            let _ = self.answer(wave, Some(&error_text(&error)));
        } else if done == 0 && !keys.is_empty() {
            self.read_alone(wave);
        }
    }

    /// Answers reads once the values of all are there.
    fn reads_at_once(&mut self, wave: &mut Wave<'_, '_>, keys: &[&[u8]]) {
        self.wants.clear();
        for ((input, output), taken) in wave.inputs.iter().zip(&*wave.outputs).zip(&self.taken) {
            for request in &input.requests[output.next..(*taken).max(output.next)] {
                if let Run::Read(read) = request.run {
                    let keys = self.wants.len() + read.keys(input.args(request)).len();
                    self.wants.resize(keys, read.wants);
                }
            }
        }
        let result = self.fetch(wave.engine, keys);
        let failed = result.err().map(|e| error_text(&e));
        let answered = self.answer(wave, failed.as_deref());
        self.service.stats.count_reads(answered.keys, answered.hits);
        if answered.requests == 0 && !keys.is_empty() && !self.is_at_hand {
            self.read_alone(wave);
        }
    }

    fn count_slots(&self) {
        self.service.stats.count_reads(self.slots.len(), hits(&self.slots));
    }

    fn fetch(&mut self, engine: &dyn Engine, keys: &[&[u8]]) -> Result<()> {
        self.arena.clear();
        self.slots.clear();
        self.slots.resize(keys.len(), Slot::Missing);
        if keys.is_empty() {
            return Ok(());
        }
        let (arena, slots) = (&mut self.arena, &mut self.slots);
        let mut values = Collector::new(arena, slots, &self.wants, self.room);
        let mut expiries;
        let sink: &mut dyn GetSink = match self.is_tracked {
            false => &mut values,
            true => {
                expiries = Expiries::new(&self.service, keys, &mut values);
                &mut expiries
            }
        };
        if !self.is_at_hand {
            return self.staged.get_many(&self.service, engine, keys, sink);
        }
        self.left.clear();
        let mut living;
        let sink: &mut dyn GetSink = match self.service.databases.holds_expired() {
            false => sink,
            true => {
                living = Living::new(&self.service, sink);
                &mut living
            }
        };
        engine.get_many_at_hand(keys, sink, &mut self.left)?;
        self.defer_left();
        Ok(())
    }

    /// Writes the replies of a wave of reads, as far as they are there.
    fn answer(&mut self, wave: &mut Wave<'_, '_>, failed: Option<&str>) -> Answered {
        let now_ms = self.now_ms;
        let claim = Some(&self.claim);
        let values = |slots| Values { slots, arena: &self.arena, now_ms, claim };
        let mut first = 0;
        let mut answered = Answered::default();
        let notes_misses = failed.is_none() && self.notes_misses();
        for (index, input) in wave.inputs.iter().enumerate() {
            let output = &mut wave.outputs[index];
            let mut blocked = false;
            for request in &input.requests[output.next..self.taken[index].max(output.next)] {
                let Run::Read(read) = request.run else {
                    if !blocked {
                        output.copy_ready(input, request);
                        answered.requests += 1;
                    }
                    continue;
                };
                let args = input.args(request);
                let slots = &self.slots[first..first + read.keys(args).len()];
                first += slots.len();
                blocked |= failed.is_none() && slots.contains(&Slot::Deferred);
                if blocked {
                    continue;
                }
                if notes_misses {
                    self.note_misses(wave.db as u8, read, args, slots);
                }
                output.reply(request, |reply| match failed {
                    Some(text) => args.refuse(text, reply),
                    None => read.answer(args, values(slots), reply),
                });
                answered.requests += 1;
                answered.keys += slots.len();
                answered.hits += hits(slots);
            }
        }
        answered
    }

    /// The writes that come next on every connection, as one batch (or a few, where they are
    /// large). True where anything was written.
    fn writes(&mut self, wave: &mut Wave<'_, '_>) -> bool {
        let limits = wave.engine.descriptor().limits;
        let bytes_max = limits.batch_bytes_max.min(BATCH_BYTES_MAX).min(2 * self.room);
        let inputs = wave.inputs;
        let now_ms = self.now_ms;
        let mut wrote = false;
        let mut batch = std::mem::take(&mut self.batch).recycled();
        loop {
            let mut together = false;
            batch.clear();
            self.taken.clear();
            let mut bytes = 0;
            let mut refused = Refused::default();
            for (input, output) in inputs.iter().zip(wave.outputs.iter()) {
                let mut cursor = output.next;
                while cursor < output.limit() {
                    let request = &input.requests[cursor];
                    let Run::Write(write) = request.run else { break };
                    if usize::from(request.db) != wave.db || self.is_refused(input, request) {
                        break;
                    }
                    let args = input.args(request);
                    let size: usize = args.from(1).map(<[u8]>::len).sum();
                    if bytes > 0 && bytes + size > bytes_max {
                        break;
                    }
                    if refused.next(self.refuse_write(write, args, &limits)) {
                        bytes += size.max(1);
                        let before = batch.len();
                        (write.apply)(args, now_ms, &mut batch);
                        together |= batch.len() > before + 1;
                    }
                    cursor += 1;
                }
                self.taken.push(cursor);
            }
            let taken = self.taken.iter().zip(wave.outputs.iter());
            if taken.map(|(t, o)| t.saturating_sub(o.next)).sum::<usize>() == 0 {
                self.batch = batch.recycled();
                return wrote;
            }
            wrote |= self.commit(wave, &batch, &refused, together);
        }
    }

    /// Why a write cannot be part of a batch, where that is so.
    fn refuse_write(&self, write: &Write, args: Args<'_>, limits: &Limits) -> Option<String> {
        let refused = write.check(args, limits);
        let largest = || args.from(1).map(<[u8]>::len).max().unwrap_or(0);
        refused.or_else(|| self.service.budget.refuse_value(largest()))
    }

    /// Writes `batch` and answers the requests it was made of. Where a request has several keys
    /// (`together`), all that it changes is seen together.
    fn commit(
        &mut self,
        wave: &mut Wave<'_, '_>,
        batch: &WriteBatch<'_>,
        refused: &Refused,
        together: bool,
    ) -> bool {
        let told = self.told().filter(|_| wave.kind == WaveKind::Burst);
        let held = hold(&told, batch.ops().iter().map(|op| op.key));
        let mut missing = self.missing(wave, batch);
        let result = match (batch.is_empty(), together) {
            (true, _) => Ok(()),
            (false, true) => wave.engine.write(batch, Durability::Buffered),
            (false, false) => wave.engine.write_each(batch, Durability::Buffered),
        };
        let failed = result.err().map(|e| error_text(&e));
        let notes = self.notes(wave.kind == WaveKind::Transaction, wave.db);
        let is_noted = failed.is_none() && notes.are_kept();
        // If each request does one thing to one key, replicas are told the batch as it is.
        let is_told = is_noted && !together && self.note_batch(notes, batch);
        let is_noted = is_noted && !is_told;
        let mut refused = refused.again();
        for (index, input) in wave.inputs.iter().enumerate() {
            let output = &mut wave.outputs[index];
            for request in &input.requests[output.next..self.taken[index].max(output.next)] {
                let Run::Write(write) = request.run else { continue };
                let args = input.args(request);
                let refused = refused();
                if is_noted && refused.is_none() {
                    self.note_write(notes, input, (write, args), &mut missing);
                }
                output.acknowledge(request, self.synced(), |reply| {
                    match refused.or(failed.as_deref()) {
                        Some(text) => args.refuse(text, reply),
                        None => (write.reply)(args, reply),
                    }
                });
            }
        }
        held.iter().for_each(|_| self.tell_replicas(false));
        failed.is_none() && !batch.is_empty()
    }

    /// The read-modify-writes that come next on every connection, as one burst. True where
    /// anything may have been written.
    fn updates(&mut self, wave: &mut Wave<'_, '_>) -> bool {
        let limits = wave.engine.descriptor().limits;
        let mut changes = Vec::new();
        let (mut bytes, mut refused) = (0, Refused::default());
        self.taken.clear();
        for (input, output) in wave.inputs.iter().zip(wave.outputs.iter()) {
            let mut cursor = output.next;
            while cursor < output.limit() && changes.len() < KEYS_MAX && bytes < 2 * self.room {
                let request = &input.requests[cursor];
                match request.run {
                    Run::Ready => {}
                    Run::Update(modify)
                        if usize::from(request.db) == wave.db
                            && !self.is_refused(input, request) =>
                    {
                        let args = input.args(request).within(&self.claim);
                        if refused.next(modify.check(args, &limits)) {
                            bytes += args.from(1).map(<[u8]>::len).sum::<usize>();
                            let start = changes.len();
                            changes.extend(modify.keys(args).enumerate().map(|(nth, key)| {
                                Change { key, args, modify, nth, request: start }
                            }));
                        }
                    }
                    _ => break,
                }
                cursor += 1;
            }
            self.taken.push(cursor);
        }
        let burst_limits = BurstLimits {
            now_ms: self.now_ms,
            value_bytes_max: limits.value_bytes_max,
            reply_bytes_max: self.reply_bytes_max,
            room: 2 * self.room,
            is_told: self.tells,
        };
        let told = self.told().filter(|_| wave.kind == WaveKind::Burst);
        let held = hold(&told, changes.iter().map(|change| change.key));
        let owners = self.service.owners.as_deref();
        let place = self.service.databases.place_of(wave.db);
        let by_owners =
            owners.and_then(|o| change_by_owners(o, (place, wave), &changes, &burst_limits));
        let (answers, failed) = match by_owners {
            Some(answers) => (answers, None),
            None => change(wave.engine, &changes, &burst_limits, &self.claim),
        };
        self.answer_updates(wave, &answers, failed.as_deref(), &refused);
        held.iter().for_each(|_| self.tell_replicas(false));
        !changes.is_empty()
    }

    /// Answers the requests of a burst of updates, as far as it came.
    fn answer_updates(
        &self,
        wave: &mut Wave<'_, '_>,
        answers: &Answers,
        failed: Option<&str>,
        refused: &Refused,
    ) {
        let Answers { list: answers, effects } = answers;
        let notes = self.notes(wave.kind == WaveKind::Transaction, wave.db);
        if wave.kind == WaveKind::Burst && failed.is_none() {
            let dead = effects.iter().filter_map(|effect| effect.dead);
            dead.for_each(|dead| self.service.dead_pages.add(wave.db, dead));
        }
        let (mut first, mut refused) = (0, refused.again());
        for (index, input) in wave.inputs.iter().enumerate() {
            let output = &mut wave.outputs[index];
            let mut blocked = false;
            for request in &input.requests[output.next..self.taken[index].max(output.next)] {
                let Run::Update(modify) = request.run else {
                    if !blocked {
                        output.copy_ready(input, request);
                    }
                    continue;
                };
                let args = input.args(request);
                let refused = refused();
                let keys = if refused.is_some() { 0 } else { modify.keys(args).len() };
                let answers = answers.get(first..first + keys);
                if notes.are_kept() && answers.is_some() {
                    let effects = &effects[first..first + keys];
                    self.note_update(notes, input, (modify, args), effects);
                }
                first += keys;
                blocked |= answers.is_none() && failed.is_none();
                if blocked {
                    continue;
                }
                output.acknowledge(request, self.synced(), |reply| match (refused, answers) {
                    (Some(text), _) => args.refuse(text, reply),
                    (None, Some(answers)) => Answer::write_all(answers, args, reply),
                    (None, None) => args.refuse(failed.unwrap_or_default(), reply),
                });
            }
        }
    }
}

/// Why requests that a wave has taken change nothing, by their places among those that it changes
/// something for: each is looked at once, and few are refused.
#[derive(Default)]
struct Refused {
    texts: Vec<(usize, String)>,
    looked_at: usize,
}

impl Refused {
    /// The next request; true if nothing is wrong with it.
    fn next(&mut self, refused: Option<String>) -> bool {
        let is_fine = refused.is_none();
        self.texts.extend(refused.map(|text| (self.looked_at, text)));
        self.looked_at += 1;
        is_fine
    }

    /// What each of them was refused for, one after the other in the same order.
    fn again<'r>(&'r self) -> impl FnMut() -> Option<&'r str> {
        let (mut texts, mut place) = (self.texts.iter().peekable(), 0);
        move || {
            let found = texts.next_if(|(refused, _)| *refused == place);
            place += 1;
            found.map(|(_, text)| text.as_str())
        }
    }
}

/// What a wave of reads has answered.
#[derive(Default)]
struct Answered {
    requests: usize,
    keys: usize,
    /// Of the keys, those that were found.
    hits: usize,
}

fn hits(slots: &[Slot]) -> usize {
    slots.iter().filter(|slot| matches!(slot, Slot::Found { .. } | Slot::OtherType)).count()
}

/// Counts the requests that were answered with an error, by the error and by their commands.
fn count_failed(service: &Service, input: &Input, output: &mut Output) {
    for (failed, word) in output.failed.drain(..) {
        service.count_error(word);
        let args = input.args(&input.requests[failed]);
        let is_ours = args.memcached().is_none() && args.len() > 0;
        let command = if is_ours { find_called(args) } else { None };
        command.into_iter().for_each(|command| service.calls.fail(command.name));
    }
}

/// One round through the connections of a burst, for one database.
struct Wave<'b, 'o> {
    db: usize,
    kind: WaveKind,
    engine: &'b dyn Engine,
    inputs: &'b [Input],
    outputs: &'o mut [Output],
}

/// What a wave is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaveKind {
    Burst,
    /// A transaction in one database, which happens as one step.
    Transaction,
    /// One on several databases: what is asked of a whole one is no part of a wave.
    Across,
}

/// The first connection that has a request which can run, and the database of that.
fn next_part(inputs: &[Input], outputs: &[Output]) -> Option<(usize, usize)> {
    let at = outputs.iter().position(|output| output.next < output.limit())?;
    Some((at, usize::from(inputs[at].requests[outputs[at].next].db)))
}

fn out_bytes(outputs: &[Output]) -> usize {
    outputs.iter().map(|output| output.out.len()).sum()
}

/// Answers everything for database `db` with an error.
fn refuse(db: usize, text: &str, inputs: &[Input], outputs: &mut [Output]) {
    for (input, output) in inputs.iter().zip(outputs) {
        while output.next < output.limit() {
            let request = &input.requests[output.next];
            if request.run.is_ready() {
                output.copy_ready(input, request);
            } else if usize::from(request.db) == db {
                output.reply(request, |reply| input.args(request).refuse(text, reply));
            } else {
                break;
            }
        }
    }
}
