//! The place of a loop among the owners: its shards, and its rings to and from every other loop.

use super::hub::{Hub, Shards, rest};
use super::job::{Gathered, Job, Want};
use super::wake_flag::{ASLEEP, PARKED};
use crate::config::Mode;
use silica::engine::{
    Durability, Engine, EntryRef, Error, ErrorKind, GetSink, Result, Sharded, WriteBatch,
};
use silica_base::{RingReceiver, RingSender, ring};
use silica_commands::{Answer, BurstLimits, Change, Effect, Judged, error_text};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Messages on their way from one loop to another: a job and an answer, since a loop waits for the
/// answers of a round before it begins the next. The others are for rounds that a panic has ended.
const MESSAGES: usize = 16;
/// Turns of waiting that stay on the processor.
const TURNS: u32 = 2000;
/// How soon a loop that waits sees that an owner has ended.
const PATIENCE: Duration = Duration::from_millis(10);

/// What loops send each other.
pub(super) enum ShardMessage {
    /// Do this and send it back.
    Job(Job),
    /// Done.
    Answer(Job),
}

/// The place of a loop.
pub(crate) struct LoopShard {
    pub(super) hub: Arc<Hub>,
    pub(super) number: usize,
    pub(super) shards: Shards,
    /// Of every loop but itself.
    from: Vec<Option<RingReceiver<ShardMessage>>>,
    to: Vec<Option<RingSender<ShardMessage>>>,
    /// Places of a burst's keys by partition; empty between bursts.
    parts: Vec<Vec<u32>>,
    round: u64,
    /// Jobs of this round that are not back.
    away: Vec<usize>,
    back: Vec<Job>,
    spare: Vec<Job>,
    /// What this loop found itself.
    own: Gathered,
    /// By place, who found an entry (none, this loop, or a job that is back) and which of its it
    /// is.
    finders: Vec<(u32, u32)>,
    has_left: bool,
}

/// The shards of all loops of `hub`.
pub(crate) fn loop_shards(hub: &Arc<Hub>) -> Vec<LoopShard> {
    let loop_shard = |number| LoopShard {
        hub: Arc::clone(hub),
        number,
        shards: Shards::new(hub),
        from: Vec::new(),
        to: Vec::new(),
        parts: Vec::new(),
        round: 0,
        away: Vec::new(),
        back: Vec::new(),
        spare: Vec::new(),
        own: Gathered::default(),
        finders: Vec::new(),
        has_left: false,
    };
    let mut loop_shards: Vec<LoopShard> = (0..hub.loops()).map(loop_shard).collect();
    for from in 0..loop_shards.len() {
        for to in 0..loop_shards.len() {
            let ends = (from != to).then(|| ring(MESSAGES)).unzip();
            // In the order of `to` for each `from`, and of `from` for each `to`.
            loop_shards[from].to.push(ends.0);
            loop_shards[to].from.push(ends.1);
        }
    }
    loop_shards
}

/// Reports what is found so many places later.
struct Later<'a> {
    by: usize,
    sink: &'a mut dyn GetSink,
}

impl GetSink for Later<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.sink.found(self.by + index, entry);
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        self.sink.wants(self.by + index, bytes)
    }
}

impl LoopShard {
    /// Does what others have asked for; true where there was anything.
    pub(super) fn serve(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.from.len() {
            while let Some(message) = self.from[number].as_mut().and_then(RingReceiver::pop) {
                any = true;
                self.take(message);
            }
        }
        if self.hub.is_asked(self.number) {
            any = true;
            self.shards.give_up();
            self.hub.hold_still(self.number);
        }
        any
    }

    fn take(&mut self, message: ShardMessage) {
        match message {
            ShardMessage::Job(mut job) => {
                job.run(&mut self.shards);
                self.post(job.from, ShardMessage::Answer(job));
            }
            ShardMessage::Answer(job) if job.round == self.round => {
                self.away.retain(|owner| *owner != job.owner);
                self.back.push(job);
            }
            ShardMessage::Answer(job) => self.keep(job),
        }
    }

    fn post(&mut self, to: usize, message: ShardMessage) {
        let Some(sender) = &mut self.to[to] else { return };
        let (mut message, mut turns) = (message, 0);
        while let Some(back) = sender.push(message) {
            message = back;
            self.hub.notify(to);
            rest(&mut turns);
        }
        self.hub.notify(to);
    }

    fn keep(&mut self, mut job: Job) {
        job.clear();
        self.spare.push(job);
    }

    /// A job for `owner` in this round.
    fn job(&mut self, db: usize, owner: usize, want: Want) -> Job {
        let hub = &self.hub;
        let mut job = self.spare.pop().unwrap_or_else(|| Job::new(&hub.budget));
        (job.from, job.round, job.owner, job.db, job.want) =
            (self.number, self.round, owner, db, want);
        job
    }

    fn send(&mut self, job: Job) {
        let owner = job.owner;
        self.away.push(owner);
        self.post(owner, ShardMessage::Job(job));
    }

    /// Begins a round; answers to earlier ones are left out.
    fn begin(&mut self) {
        self.round += 1;
        self.away.clear();
        self.forget_back();
    }

    fn forget_back(&mut self) {
        while let Some(job) = self.back.pop() {
            self.keep(job);
        }
    }

    /// Waits until all jobs of the round are back, and serves others meanwhile.
    fn wait(&mut self) -> Result<()> {
        let mut turns = 0;
        while !self.away.is_empty() {
            if self.serve() {
                turns = 0;
                continue;
            }
            turns += 1;
            if turns < TURNS {
                std::hint::spin_loop();
                continue;
            }
            if self.away.iter().any(|owner| self.hub.is_gone(*owner)) {
                let message = "the event loop that owns the key has ended";
                return Err(Error::new(ErrorKind::Closed, message));
            }
            self.hub.wake_flag(self.number).announce_sleep(PARKED);
            if !self.has_messages() {
                std::thread::park_timeout(PATIENCE);
            }
            self.hub.wake_flag(self.number).announce_awake();
        }
        Ok(())
    }

    fn has_messages(&self) -> bool {
        self.from.iter().flatten().any(|from| !from.is_empty()) || self.hub.is_asked(self.number)
    }

    /// Says that the loop waits for its sockets from now on; false where messages wait.
    pub(super) fn park(&mut self) -> bool {
        self.hub.wake_flag(self.number).announce_sleep(ASLEEP);
        !self.has_messages()
    }

    pub(super) fn resume(&mut self) {
        self.hub.wake_flag(self.number).announce_awake();
    }

    /// Serves the others until no loop sends messages any more.
    pub(super) fn leave(&mut self) {
        self.has_left = true;
        self.hub.at_work.fetch_sub(1, Ordering::AcqRel);
        let mut turns = 0;
        while self.hub.at_work.load(Ordering::Acquire) > 0 {
            if !self.serve() {
                rest(&mut turns);
            }
        }
    }

    /// True where the loop owns `partition`.
    pub(super) fn owns(&self, partition: usize) -> bool {
        self.hub.owner_of(partition) == self.number
    }

    /// The only partition of `keys`, where they have one.
    pub(super) fn only<'k>(
        sharded: &dyn Sharded,
        mut keys: impl Iterator<Item = &'k [u8]>,
    ) -> Option<usize> {
        let first = sharded.shard_of(keys.next()?);
        (sharded.shards() == 1 || keys.all(|key| sharded.shard_of(key) == first)).then_some(first)
    }

    /// Sorts the places of `keys` by partition.
    fn sort(&mut self, sharded: &dyn Sharded, keys: &[&[u8]]) -> Vec<Vec<u32>> {
        let mut parts = std::mem::take(&mut self.parts);
        // A burst that panicked has left them as they were.
        parts.iter_mut().for_each(Vec::clear);
        parts.resize_with(sharded.shards(), Vec::new);
        sharded.shards_of(keys, &mut |place, partition| parts[partition].push(place as u32));
        parts
    }

    /// As [`Engine::get_many`]; reports in the order of the keys where the engine does.
    pub(super) fn get_many(
        &mut self,
        db: usize,
        engine: &dyn Engine,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
    ) -> Result<()> {
        let Some(sharded) = engine.as_sharded() else { return engine.get_many(keys, sink) };
        if sharded.shards() == 1 && self.owns(0) {
            return self.shards.get(db, 0)?.get_many(keys, sink);
        }
        let (mut first, mut count) = (0, keys.len());
        while first < keys.len() {
            let some = &keys[first..keys.len().min(first + count)];
            let parts = self.sort(sharded, some);
            let told = self.get_some(db, engine, some, &parts, &mut Later { by: first, sink });
            self.parts = parts;
            self.forget_back();
            // Where not all values had room, those of fewer keys may.
            let told = told?;
            count = if told == 0 { 1 } else { 2 * told };
            first += told;
        }
        Ok(())
    }

    /// Gets `keys`, whose places are sorted in `parts`; says how many, from the first on, are done.
    fn get_some(
        &mut self,
        db: usize,
        engine: &dyn Engine,
        keys: &[&[u8]],
        parts: &[Vec<u32>],
        sink: &mut dyn GetSink,
    ) -> Result<usize> {
        let only = parts.iter().position(|places| places.len() == keys.len());
        match only.map(|partition| (partition, self.owns(partition))) {
            Some((partition, true)) => {
                return self.shards.get(db, partition)?.get_many(keys, sink).map(|()| keys.len());
            }
            Some((_, false)) if self.hub.mode == Mode::Crew => {
                return engine.get_many(keys, sink).map(|()| keys.len());
            }
            _ => {}
        }
        self.begin();
        self.own.clear();
        let mut result = match self.hub.mode {
            Mode::Erew => {
                self.ask_others(db, Want::Get, parts, |job, place, partition| {
                    job.add_key(place, partition, keys[place as usize]);
                });
                Ok(())
            }
            _ => self.look_myself(engine, keys, parts),
        };
        for (partition, places) in parts.iter().enumerate() {
            if !places.is_empty() && self.owns(partition) {
                let own: Vec<&[u8]> = places.iter().map(|p| keys[*p as usize]).collect();
                let shard = self.shards.get(db, partition);
                let sink = &mut self.own.from(|index| places[index]);
                result = result.and(shard.and_then(|shard| shard.get_many(&own, sink)));
            }
        }
        self.wait()?;
        for job in &mut self.back {
            result = result.and(std::mem::replace(&mut job.result, Ok(())));
        }
        result.map(|()| self.tell(keys.len(), sink))
    }

    /// Reports what was found of so many keys, up to the first whose value had no room; how many.
    fn tell(&mut self, keys: usize, sink: &mut dyn GetSink) -> usize {
        let LoopShard { own, back, finders, .. } = self;
        let finder = |number: u32| match number {
            0 => &*own,
            number => &back[number as usize - 1].gathered,
        };
        const NOBODY: (u32, u32) = (u32::MAX, 0);
        finders.clear();
        finders.resize(keys, NOBODY);
        let mut end = keys;
        for number in 0..=back.len() as u32 {
            end = end.min(finder(number).missed as usize);
            for (at, place) in finder(number).places().enumerate() {
                finders[place as usize] = (number, at as u32);
            }
        }
        for (place, found) in finders[..end].iter().enumerate().filter(|(_, f)| **f != NOBODY) {
            sink.found(place, finder(found.0).entry(found.1 as usize));
        }
        end
    }

    /// Sends each other owner what `add` makes of the places of its partitions.
    fn ask_others(
        &mut self,
        db: usize,
        want: Want,
        parts: &[Vec<u32>],
        mut add: impl FnMut(&mut Job, u32, usize),
    ) {
        for owner in 0..self.hub.loops() {
            if owner != self.number {
                let job = self.job_of(db, owner, want, parts, &mut add);
                if job.is_empty() { self.keep(job) } else { self.send(job) }
            }
        }
    }

    /// What `add` makes of the places of the partitions of `owner`.
    fn job_of(
        &mut self,
        db: usize,
        owner: usize,
        want: Want,
        parts: &[Vec<u32>],
        mut add: impl FnMut(&mut Job, u32, usize),
    ) -> Job {
        let mut job = self.job(db, owner, want);
        for partition in (owner..parts.len()).step_by(self.hub.loops()) {
            parts[partition].iter().for_each(|place| add(&mut job, *place, partition));
        }
        job
    }

    /// Reads the keys of other owners as everybody may.
    fn look_myself(
        &mut self,
        engine: &dyn Engine,
        keys: &[&[u8]],
        parts: &[Vec<u32>],
    ) -> Result<()> {
        let others = parts.iter().enumerate().filter(|(partition, _)| !self.owns(*partition));
        let places: Vec<u32> = others.flat_map(|(_, places)| places.iter().copied()).collect();
        let theirs: Vec<&[u8]> = places.iter().map(|place| keys[*place as usize]).collect();
        engine.get_many(&theirs, &mut self.own.from(|index| places[index]))
    }

    /// Makes `changes` through the owners of their keys; the answers.
    pub(super) fn update(
        &mut self,
        db: usize,
        sharded: &dyn Sharded,
        changes: &[Change<'_>],
        burst_limits: &BurstLimits,
    ) -> Vec<Judged> {
        let keys: Vec<&[u8]> = changes.iter().map(|change| change.key).collect();
        let parts = self.sort(sharded, &keys);
        self.begin();
        let want = Want::Update(*burst_limits);
        let mut add = |job: &mut Job, place: u32, partition: usize| {
            job.add_change(place, partition, &changes[place as usize]);
        };
        self.ask_others(db, want, &parts, &mut add);
        let mut own = self.job_of(db, self.number, want, &parts, &mut add);
        own.run(&mut self.shards);
        self.parts = parts;
        let waited = self.wait();
        self.back.push(own);
        let unanswered =
            waited.err().map_or(Answer::Null, |e| Answer::Error(error_text(&e).into()));
        let mut answers = vec![(unanswered, Effect::default()); changes.len()];
        self.back.iter_mut().for_each(|job| job.answer(&mut answers));
        self.forget_back();
        answers
    }

    /// As [`Engine::write_each`].
    pub(super) fn write_each(
        &mut self,
        db: usize,
        engine: &dyn Engine,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<()> {
        let Some(sharded) = engine.as_sharded() else { return engine.write(batch, durability) };
        if sharded.shards() == 1 && self.owns(0) {
            return self.shards.get(db, 0)?.write(batch, durability);
        }
        let ops = batch.ops();
        let keys: Vec<&[u8]> = ops.iter().map(|op| op.key).collect();
        let parts = self.sort(sharded, &keys);
        self.begin();
        self.ask_others(db, Want::Write(durability), &parts, |job, place, partition| {
            job.add_op(place, partition, &ops[place as usize]);
        });
        let mut result = Ok(());
        for (partition, places) in parts.iter().enumerate() {
            if !places.is_empty() && self.owns(partition) {
                let shard = self.shards.get(db, partition);
                let wrote = shard.and_then(|shard| {
                    if places.len() == ops.len() {
                        return shard.write(batch, durability);
                    }
                    let mut own = WriteBatch::new();
                    for place in places {
                        own.push(ops[*place as usize]);
                    }
                    shard.write(&own, durability)
                });
                result = result.and(wrote);
            }
        }
        self.parts = parts;
        self.wait()?;
        while let Some(mut job) = self.back.pop() {
            result = result.and(std::mem::replace(&mut job.result, Ok(())));
            self.keep(job);
        }
        result
    }

    /// How many of `keys`, from the first on, are of one partition of this loop, and that
    /// partition.
    pub(super) fn own_run(&self, sharded: &dyn Sharded, keys: &[&[u8]]) -> Option<(usize, usize)> {
        let first = sharded.shard_of(keys.first()?);
        let all = sharded.shards() == 1;
        let is_here = |key: &&&[u8]| all || sharded.shard_of(key) == first;
        let count = if all { keys.len() } else { keys.iter().take_while(is_here).count() };
        self.owns(first).then_some((first, count))
    }
}

impl Drop for LoopShard {
    fn drop(&mut self) {
        self.shards.give_up();
        if !self.has_left {
            self.hub.at_work.fetch_sub(1, Ordering::AcqRel);
        }
        self.hub.leave(self.number);
    }
}
