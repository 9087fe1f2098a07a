//! The side that is followed: writes on their way into the stream, and the replicas.

use super::{Effects, Feed, Held, Mask, Phase, Replication, State, Wanted};
use crate::budget::Budget;
use crate::burst::{Args, Burst, Input, Output, Request};
use crate::clients::{Client, Clients};
use crate::exec::tell_batch;
use crate::lane::Lane;
use crate::push::Owner;
use crate::resp::Keyspace;
use crate::service::Service;
use crate::table::Run;
use silica::engine::{EntryRef, Error, GetSink, Result, WriteBatch};
use silica_proto::Reply;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The key for which WAIT waits; no key of a user.
pub(crate) const ACKNOWLEDGED: &[u8] = &[0xFF, 0x51, 0xCA, 0x00, b'W'];

/// How long what takes effect may have begun before: a burst, a transaction or a script goes by the
/// time of its beginning.
const STEP_MS_MAX: u64 = 10_000;

impl Replication {
    pub(super) fn feeds(&self) -> MutexGuard<'_, Vec<Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replicas that have been told to be some.
    pub(crate) fn replicas(&self) -> Vec<Arc<Feed>> {
        let is_one = |feed: &&Arc<Feed>| {
            let is_quiet = matches!(feed.phase(), Phase::Greeting | Phase::Failed);
            !is_quiet && feed.wanted() == Wanted::Stream
        };
        self.feeds().iter().filter(is_one).cloned().collect()
    }

    /// The replicas that get the stream, and have been heard of lately.
    pub(crate) fn good_replicas(&self) -> usize {
        let lag_ms_max = 1000 * self.settings.lag_seconds_max.load(Relaxed);
        let now_ms = self.now_ms.load(Relaxed);
        let is_good = |feed: &&Arc<Feed>| {
            let lag_ms = now_ms.saturating_sub(feed.heard_ms.load(Relaxed));
            matches!(feed.phase(), Phase::Online(_)) && (lag_ms_max == 0 || lag_ms <= lag_ms_max)
        };
        self.feeds().iter().filter(is_good).count()
    }

    /// How many replicas have said to have `offset` bytes of the stream, on the disk if they have
    /// to be there.
    pub(crate) fn acknowledged(&self, offset: u64, on_disk: bool) -> usize {
        let has = |feed: &&Arc<Feed>| {
            let told = if on_disk { &feed.synced } else { &feed.acknowledged };
            matches!(feed.phase(), Phase::Online(_)) && told.load(Relaxed) >= offset
        };
        self.feeds().iter().filter(has).count()
    }

    /// What the connection `id` is fed with, if it has said that it is a replica.
    pub(super) fn fed(&self, id: u64) -> Option<Arc<Feed>> {
        self.feeds().iter().find(|feed| feed.client.id == id).cloned()
    }

    /// What a replica's connection is fed with; made when it is first asked for. `None` if the
    /// connection is gone: nobody would end what is made for it.
    pub(crate) fn feed_of(
        &self,
        clients: &Clients,
        budget: &Arc<Budget>,
        client: &Client,
        now_ms: u64,
    ) -> Option<Arc<Feed>> {
        let mut feeds = self.feeds();
        if let Some(feed) = feeds.iter().find(|feed| feed.client.id == client.id) {
            return Some(Arc::clone(feed));
        }
        // Locked, so that whoever forgets the connection behind its removal finds the feed.
        let client = clients.get(client.id)?;
        let feed = Feed::new(&client, budget, now_ms);
        feeds.push(Arc::clone(&feed));
        Some(feed)
    }

    /// A connection is gone, and in the register of connections no more.
    pub(crate) fn forget(&self, client: &Client, now_ms: u64) {
        let Some(feed) = self.fed(client.id) else { return };
        feed.fail();
        if feed.leaves_as_plain() {
            let mut state = self.state();
            state.plain_feeds -= 1;
            state.plain_end = state.stream.end();
        }
        let mut feeds = self.feeds();
        feeds.retain(|other| !Arc::ptr_eq(other, &feed));
        if feeds.is_empty() {
            self.left_ms.store(now_ms.max(1), Relaxed);
        }
    }

    /// Somebody continues at `offset` of the history `id`: true if what is missing is kept, and
    /// then it is fed from there on.
    pub(crate) fn continues(&self, feed: &Feed, id: &[u8], offset: u64, now_ms: u64) -> bool {
        let takes_records = feed.takes_records();
        let mut state = self.state();
        let continues = self.has_all_since(&state, (id, offset), takes_records);
        if continues {
            state.plain_feeds += usize::from(feed.counts_as_plain());
            self.left_ms.store(0, Relaxed);
            // Before anything is appended, which would forget what it needs.
            feed.go_on(offset, now_ms);
        }
        continues
    }

    /// True if the stream has all that somebody lacks who stands at `offset` of the history `id`.
    pub(super) fn has_all_since(
        &self,
        state: &State,
        (id, offset): (&[u8], u64),
        takes_records: bool,
    ) -> bool {
        let history = &state.history;
        let is_ours = id == history.id.as_bytes();
        let was_ours = history
            .second
            .as_ref()
            .is_some_and(|(second, until)| id == second.as_bytes() && offset <= *until);
        // Without it, what was written is not in the stream.
        let is_told = self.is_replica() || self.tells.load(Relaxed);
        let is_kept = state.stream.is_kept() && state.stream.read(offset, 0).is_some();
        let can_read = takes_records || offset >= state.records_end;
        let may_lack = |(from, to): (u64, u64)| (from..=to).contains(&offset);
        (is_ours || was_ours)
            && is_told
            && is_kept
            && can_read
            && !state.half_told.is_some_and(may_lack)
    }

    /// The keys of databases without snapshots were not all put into the stream for a replica whose
    /// data is that of offset `from`, and which may have what was put so far.
    pub(super) fn note_half_told(&self, from: u64) {
        let mut state = self.state();
        let end = state.stream.end();
        let (first, _) = state.half_told.unwrap_or((from, end));
        state.half_told = Some((first.min(from), end));
    }

    /// What is to be told to the loops of replicas that have nothing to do.
    fn wake(&self, service: &Service) {
        for feed in self.feeds().iter().filter(|feed| feed.takes_wake()) {
            let owner = feed.client.owner();
            service.front.feed(feed.client.loop_index, owner);
        }
    }
}

impl Service {
    /// Takes the stripes of `mask`; see the invariants of [`crate::replication`].
    pub(crate) fn hold(&self, mask: Mask) -> Held<'_> {
        self.databases.with_serve(|serve| self.replication.stripes.take(mask, serve))
    }

    /// Appends `effects` to the stream and forgets them. The caller holds the stripes of their
    /// keys, or is alone with the databases.
    pub(crate) fn tell_replicas(&self, effects: &mut Effects, one_step: bool) {
        if self.replication.is_walked.load(Relaxed)
            && !effects.is_empty()
            && let Err(error) = self.restate(effects)
        {
            log::warn!("replicas begin anew, because a key cannot be read: {error}");
            self.drop_replicas();
        }
        self.tell_as_is(effects, one_step);
    }

    /// Appends `effects` to the stream as they are, and forgets them.
    pub(super) fn tell_as_is(&self, effects: &mut Effects, one_step: bool) {
        if !effects.is_empty() {
            self.replication.append(effects, one_step);
            effects.clear();
            self.replication.wake(self);
        }
    }

    /// Writes `batch` of strings to database `db` with `write`, and tells replicas. For whoever
    /// writes without an executor, within a turn of the databases.
    pub fn write_told(
        &self,
        db: u8,
        batch: &WriteBatch<'_>,
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !self.replication.tells() {
            return write();
        }
        let mut mask = Mask::NONE;
        batch.ops().iter().for_each(|op| mask.add(op.key));
        let _held = self.hold(mask);
        write()?;
        let mut effects = Effects::default();
        tell_batch(db, batch, &mut effects);
        self.tell_replicas(&mut effects, false);
        Ok(())
    }

    /// Appends one command that is about no key.
    pub(crate) fn tell_command(&self, args: Args<'_>) {
        if self.replication.tells() {
            let mut effects = Effects::default();
            effects.push_args(None, args);
            self.tell_replicas(&mut effects, false);
        }
    }

    /// Appends the command of these words, which is about no key.
    pub(crate) fn tell_words(&self, words: &[&[u8]]) {
        if self.replication.tells() {
            let mut effects = Effects::default();
            effects.push(None, words);
            self.tell_replicas(&mut effects, false);
        }
    }

    /// Ends the connections of all replicas, because the history has another id from now on: they
    /// come again, and hear of it in the answer to PSYNC. Without that they would ask for the old
    /// id after the next break, which is known up to here only, or read another history's bytes.
    pub fn drop_replicas(&self) {
        let feeds = self.replication.feeds().clone();
        for feed in feeds.iter().filter(|feed| feed.phase() != Phase::Greeting) {
            feed.fail();
            let owner = feed.client.owner();
            self.front.close(feed.client.loop_index, owner);
        }
    }

    /// Something was written that the stream lacks, because of `error`: all replicas get all data
    /// once more.
    pub(crate) fn begin_replicas_anew(&self, error: &Error) {
        log::warn!("replicas begin anew, because a key cannot be read: {error}");
        self.replication.note_half_told(0);
        self.drop_replicas();
    }

    /// Makes what the databases hold survive a power cut; false if one of them cannot.
    ///
    /// # Errors
    /// Those of the databases.
    pub fn sync_databases(&self) -> Result<bool> {
        let databases = &self.databases;
        let turn = databases.new_turn();
        let _entered = databases.enter(&turn);
        let opened = || (0..databases.count()).filter_map(|db| databases.opened(db));
        let can_sync = opened().all(|engine| engine.descriptor().capabilities.synced);
        if can_sync {
            opened().try_for_each(|engine| engine.sync())?;
        }
        Ok(can_sync)
    }

    /// Wakes the loops of replicas, for which there is something new.
    pub fn wake_replicas(&self) {
        self.replication.wake(self);
    }

    /// Bytes for the socket of `client`, if it is a replica's: about `max`. `Ok(None)` if there is
    /// nothing to send now.
    ///
    /// # Errors
    /// If its connection is to be closed, with the reason.
    pub fn feed(
        self: &Arc<Self>,
        client: &Client,
        max: usize,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        let Some(feed) = self.replication.fed(client.id) else { return Ok(None) };
        if feed.takes_start() {
            super::begin_full(self, &feed)?;
        }
        feed.fill(max, |from, max| self.replication.read(from, max)).map_err(Into::into)
    }

    /// True if `client` has been handed all of the file that it asked for, and gets nothing more.
    pub fn has_whole_file(&self, client: &Client) -> bool {
        self.replication.fed(client.id).is_some_and(|feed| feed.has_ended())
    }

    /// About once a second: PINGs, timeouts, and the end of a stream that nobody follows. Returns
    /// what is to be run for event loop `index`.
    pub(crate) fn tick_replicas(&self, index: usize, now_ms: u64) -> Option<Burst> {
        let replication = &self.replication;
        let settings = &replication.settings;
        replication.now_ms.store(now_ms, Relaxed);
        if !replication.tells.load(Relaxed) {
            return None;
        }
        let timeout_ms = 1000 * settings.timeout_seconds.load(Relaxed);
        for feed in replication.replicas() {
            let silent_ms = now_ms.saturating_sub(feed.heard_ms.load(Relaxed));
            let speaks = matches!(feed.phase(), Phase::Online(_)) && !feed.is_bare();
            if speaks && silent_ms > timeout_ms {
                log::warn!("replica {} has said nothing for {silent_ms} ms", feed.client.peer);
                feed.fail();
                let owner = feed.client.owner();
                self.front.close(feed.client.loop_index, owner);
            }
        }
        let ping_ms = 1000 * settings.ping_seconds.load(Relaxed).max(1);
        let is_due = now_ms.saturating_sub(replication.pinged_ms.load(Relaxed)) >= ping_ms;
        if replication.is_failing_over() {
            return None;
        }
        if is_due && !replication.is_replica() && !replication.feeds().is_empty() {
            replication.pinged_ms.store(now_ms, Relaxed);
            let mut effects = Effects::default();
            // To Redis it is a text; a Silica removes what has expired by then.
            let passed_ms = self.unix_ms().saturating_sub(STEP_MS_MAX).to_string();
            effects.push(None, &[b"PING", passed_ms.as_bytes()]);
            self.tell_replicas(&mut effects, false);
        }
        let left_ms = replication.left_ms.load(Relaxed);
        let kept_ms = 1000 * settings.backlog_seconds.load(Relaxed);
        let is_over = left_ms > 0 && kept_ms > 0 && now_ms.saturating_sub(left_ms) > kept_ms;
        if is_over && !replication.is_replica() {
            log::info!("no replica has come for {} s: the backlog is given up", kept_ms / 1000);
            return Some(burst(index, Run::Across(end_stream)));
        }
        let expires = replication.tells() && replication.timers.has_due(self.unix_ms());
        expires.then(|| burst(index, Run::Whole(expire_due)))
    }
}

/// A burst that belongs to no connection.
fn burst(from: usize, run: Run) -> Burst {
    let (silent, long) = (true, true);
    let request = Request { silent, long, ..Request::new(run, 0, 0) };
    let input = Input { requests: vec![request], is_internal: true, ..Input::default() };
    let mut burst = Burst::new(from, Lane::Long);
    burst.push(Owner { slot: usize::MAX, client: 0 }, input, Output::new(Vec::new(), 0, 1));
    burst
}

/// Makes no stream any more. Whoever comes later finds another history.
fn end_stream(keys: &Keyspace<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<()> {
    let replication = &keys.service.replication;
    if replication.feeds().is_empty() {
        replication.tells.store(false, Relaxed);
        replication.left_ms.store(0, Relaxed);
        replication.timers.clear(None);
        replication.give_up_stream();
    }
    Ok(())
}

/// Which keys are there.
struct There(Vec<Option<u64>>);

impl GetSink for There {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.expires_unix_ms);
    }
}

/// Tells replicas to remove keys that have expired: a replica of Redis only hides them.
fn expire_due(keys: &Keyspace<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<()> {
    let service = keys.service;
    let timers = &service.replication.timers;
    let now_ms = service.unix_ms();
    loop {
        let due = timers.due(now_ms);
        let Some(first) = due.first() else { return Ok(()) };
        let engine = service.databases.engine(usize::from(first.0))?;
        let names: Vec<&[u8]> = due.iter().map(|name| &*name.1).collect();
        let mut mask = Mask::NONE;
        names.iter().for_each(|name| mask.add(name));
        let _held = service.hold(mask);
        let mut there = There(vec![None; names.len()]);
        engine.get_many(&names, &mut there)?;
        let mut gone: Vec<&[u8]> = vec![b"DEL"];
        for (name, at) in due.iter().zip(there.0) {
            if at.is_none() {
                gone.push(&name.1);
            }
            // What is there has another time, or none.
            let at = at.filter(|at| *at != 0).map_or(0, |at| at.max(now_ms + 1));
            timers.note_at(name.0, &name.1, at);
        }
        let mut effects = Effects::default();
        if gone.len() > 1 {
            effects.push(Some(first.0), &gone);
        }
        service.tell_replicas(&mut effects, false);
    }
}
