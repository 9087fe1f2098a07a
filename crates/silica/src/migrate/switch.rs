//! The engine of every keyspace: passes calls to the engine that has the entries now, so that
//! another one can take its place while users hold it.

use super::dual::{Dual, Write};
use super::journal::{Journal, Touch};
use super::sorted::Sorted;
use super::staged::Routed;
use crate::sketch::Live;
use silica_base::{HashSeed, Published};
use silica_engine::transaction::CommitTurns;
use silica_engine::{
    Admin, Atomic, Budget, ChangePoint, Changes, Checkpoint, Count, Descriptor, Durability, Engine,
    EntryIter, EntryRef, Error, ErrorKind, GetSink, Ingested, Intent, IterateOptions, KeyRange,
    MetricVisitor, Near, Ordered, Progress, RangeSize, Reads, Result, Scan, Shard, Sharded,
    Snapshot, SortedFile, Stages, Staging, WriteBatch,
};
use silica_tune::sketch::Sketch;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Between two looks whether calls that began before are done.
const LOOK: Duration = Duration::from_micros(200);

/// Where calls go.
pub(crate) enum Route {
    Plain(Arc<dyn Engine>),
    /// To one engine, and it is noted what is written, until an interrupted migration goes on.
    Noted(Arc<dyn Engine>, Arc<Journal>),
    /// Reads to one engine, writes to two.
    Both(Arc<Dual>),
}

impl Route {
    /// The engine that has everything.
    pub(super) fn whole(&self) -> &Arc<dyn Engine> {
        match self {
            Route::Plain(engine) | Route::Noted(engine, _) => engine,
            Route::Both(dual) => &dual.source,
        }
    }
}

/// A route, and what is found out about it once instead of by each call.
struct Way {
    route: Route,
    /// Differs from that of another route whose engine with everything is another one.
    epoch: u64,
    /// Callers were told that answers come in order, and the engine gives them in another one.
    sorts: bool,
}

impl Way {
    fn new(route: Route, epoch: u64, in_order: bool) -> Self {
        let sorts = in_order && !route.whole().reports_in_order();
        Way { route, epoch, sorts }
    }
}

/// Descriptors are lent for as long as the switch lives, so none ever goes.
struct Named {
    descriptor: Descriptor,
    next: OnceLock<Box<Named>>,
}

impl Named {
    fn new(descriptor: Descriptor) -> Self {
        Named { descriptor, next: OnceLock::new() }
    }

    fn last(&self) -> &Named {
        self.next.get().map_or(self, |next| next.last())
    }
}

/// Apart from the number of its owners, which those write who clone one.
#[repr(align(128))]
pub(crate) struct Switch {
    /// Calls are made while they read it, so that whoever turns them elsewhere waits for them.
    way: Published<Way>,
    named: Named,
    /// What the first engine says of its reports; callers may have asked once and for all.
    in_order: bool,
    /// Partitions were handed out, whose owners write past this switch.
    has_owners: AtomicBool,
    /// What is asked for. Owners of partitions ask past it.
    live: Arc<Live>,
    /// Somebody read, deleted or committed by the order of keys.
    uses_order: AtomicBool,
    /// Nothing is written.
    is_read_only: bool,
    /// Of whatever engine has the entries.
    commit_turns: Arc<CommitTurns>,
}

impl Switch {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        let in_order = engine.reports_in_order();
        Switch {
            named: Named::new(*engine.descriptor()),
            in_order,
            way: Published::new(Way::new(Route::Plain(engine), 0, in_order)),
            has_owners: AtomicBool::new(false),
            live: Arc::new(Live::new(Sketch::default())),
            uses_order: AtomicBool::new(false),
            is_read_only: false,
            commit_turns: Arc::default(),
        }
    }

    /// Refuses writes if the store is only read.
    pub(crate) fn read_only(self, is_read_only: bool) -> Self {
        Switch { is_read_only, ..self }
    }

    /// For whatever writes past the routes.
    pub(crate) fn refuse_if_read_only(&self) -> Result<()> {
        if self.is_read_only { Err(read_only()) } else { Ok(()) }
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// True where the order of keys was used since the switch was made.
    pub(crate) fn uses_order(&self) -> bool {
        self.uses_order.load(Ordering::Relaxed)
    }

    /// Calls `call` with the route of now, which is not left before it returns.
    #[inline(always)]
    pub(super) fn on_route<T>(&self, call: impl FnOnce(&Route) -> T) -> T {
        self.way.read(|way| call(&way.route))
    }

    /// The engine that has everything, to be kept for a long call.
    pub(crate) fn whole(&self) -> Arc<dyn Engine> {
        self.on_route(|route| Arc::clone(route.whole()))
    }

    /// The engine, where no migration is under way.
    pub(crate) fn plain(&self) -> Option<Arc<dyn Engine>> {
        self.on_route(|route| match route {
            Route::Plain(engine) | Route::Noted(engine, _) => Some(Arc::clone(engine)),
            Route::Both(_) => None,
        })
    }

    /// Where it is noted what is written, since a migration was interrupted.
    pub(crate) fn journal(&self) -> Option<Arc<Journal>> {
        self.on_route(|route| match route {
            Route::Noted(_, journal) => Some(Arc::clone(journal)),
            Route::Plain(_) | Route::Both(_) => None,
        })
    }

    /// Something is written past the routes.
    fn touch_anything(&self) -> Result<()> {
        self.journal().map_or(Ok(()), |journal| journal.touch(Touch::Anything))
    }

    pub(crate) fn has_owners(&self) -> bool {
        self.has_owners.load(Ordering::Acquire)
    }

    /// Sends calls elsewhere; returns when no call is under way on the old route.
    pub(crate) fn turn(&self, route: Route) {
        let mut descriptor = *route.whole().descriptor();
        if let Route::Both(dual) = &route {
            descriptor.capabilities.may_wait |= dual.target.descriptor().capabilities.may_wait;
        }
        let last = self.named.last();
        if descriptor != last.descriptor {
            // One migration at a time appends.
            let _ = last.next.set(Box::new(Named::new(descriptor)));
        }
        let epoch = self.way.read(|way| {
            let is_same = Arc::ptr_eq(way.route.whole(), route.whole());
            way.epoch + u64::from(!is_same)
        });
        let way = Way::new(route, epoch, self.in_order);
        drop(self.way.replace(way, || std::thread::sleep(LOOK)));
    }

    /// What `ask` says of the engine that has everything, and a number that differs from that of
    /// any other such engine.
    pub(super) fn with_epoch<T>(&self, ask: impl FnOnce(&dyn Engine, u64) -> T) -> T {
        self.way.read(|way| ask(&**way.route.whole(), way.epoch))
    }

    /// Lets `ask` have values of `keys` from the engine that has everything, and hands them to
    /// `sink`.
    #[inline(always)]
    fn answer(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        ask: impl FnOnce(&dyn Engine, &mut dyn GetSink) -> Result<()>,
    ) -> Result<()> {
        self.way.read(|way| {
            let engine = &**way.route.whole();
            match way.sorts {
                false => ask(engine, sink),
                true => Sorted::pass(engine, keys, sink, ask),
            }
        })
    }

    /// Writes to wherever entries are; tries again where that changes meanwhile.
    #[inline]
    pub(super) fn write_to<T>(
        &self,
        touch: Touch<'_>,
        mut plain: impl FnMut(&Arc<dyn Engine>) -> Result<T>,
        mut both: impl FnMut(&Dual) -> Write<T>,
    ) -> Result<T> {
        self.refuse_if_read_only()?;
        loop {
            let written = self.on_route(|route| match route {
                Route::Plain(engine) => Write::Done(plain(engine)),
                Route::Noted(engine, journal) => {
                    Write::Done(journal.touch(touch).and_then(|()| plain(engine)))
                }
                Route::Both(dual) => both(dual),
            });
            match written {
                Write::Done(outcome) => return outcome,
                Write::Elsewhere => std::thread::yield_now(),
            }
        }
    }
}

impl Engine for Switch {
    fn descriptor(&self) -> &Descriptor {
        &self.named.last().descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let look = self.live.look();
        if look.any() {
            return self.live.gets(look, keys, sink, |sink| {
                self.answer(keys, sink, |engine, sink| engine.get_many(keys, sink))
            });
        }
        self.answer(keys, sink, |engine, sink| engine.get_many(keys, sink))
    }

    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        let first = left.len();
        if self.in_order {
            left.extend(0..keys.len());
            return Ok(());
        }
        let look = self.live.look();
        if !look.any() {
            let ask = |engine: &dyn Engine, sink: &mut dyn GetSink| {
                engine.get_many_at_hand(keys, sink, left)
            };
            return self.answer(keys, sink, ask);
        }
        // A call is noted as a whole: by this thread, or by the one that asks again. Many or large
        // values are left to that one, which hands them on without holding them.
        let mut held = Sorted::default();
        self.answer(keys, &mut held, |engine, sink| engine.get_many_at_hand(keys, sink, left))?;
        if left.len() > first || held.is_short() {
            left.truncate(first);
            left.extend(0..keys.len());
            return Ok(());
        }
        self.live.gets(look, keys, sink, |sink| {
            held.report(sink);
            Ok(())
        })
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        let mut get = |sink: &mut dyn GetSink| {
            self.answer(keys, sink, |engine, sink| engine.get_many_staged(keys, sink, stages))
        };
        match self.live.look() {
            look if look.any() => self.live.gets(look, keys, sink, get),
            _ => get(sink),
        }
    }

    /// Not sketched: no user asks.
    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        match intent {
            Intent::Foreground => self.get_many(keys, sink),
            // In the order of the keys if callers were told so once and for all.
            _ if self.in_order => {
                self.answer(keys, sink, |engine, sink| engine.get_many(keys, sink))
            }
            _ => self.whole().get_many_with(keys, intent, sink),
        }
    }

    fn reports_in_order(&self) -> bool {
        self.in_order
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let look = self.live.look();
        self.write_to(
            Touch::Batch(batch),
            |engine| engine.write(batch, durability),
            |dual| dual.write(batch, durability),
        )?;
        if look.any() {
            self.live.wrote(look, batch, durability);
        }
        Ok(())
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let look = self.live.look();
        self.write_to(
            Touch::Batch(batch),
            |engine| engine.write_each(batch, durability),
            // As one: nobody can tell what of it had happened where it fails.
            |dual| dual.write(batch, durability),
        )?;
        if look.any() {
            self.live.wrote(look, batch, durability);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.live.synced(self.live.look());
        self.whole().sync()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        if self.is_read_only {
            return Ok(Progress::default());
        }
        let (engine, beside) = self.on_route(|route| match route {
            Route::Plain(engine) | Route::Noted(engine, _) => (Arc::clone(engine), None),
            Route::Both(dual) => (Arc::clone(&dual.source), Some(Arc::clone(&dual.target))),
        });
        // Cheap unless it is time, and no caller waits for it.
        self.live.age(|| Some(engine.as_admin()?.count(false).ok()?.estimate));
        self.live.save(false);
        let done = engine.maintain(budget);
        // No switch waits for this, so the files of an engine that was replaced meanwhile may be
        // gone. Nobody needs what it did; the other one is next.
        let is_replaced = self.on_route(|route| !Arc::ptr_eq(route.whole(), &engine));
        let next = Progress { bytes: 0, more: true };
        let mut done = if is_replaced { done.unwrap_or(next) } else { done? };
        if let Some(target) = beside {
            // What goes wrong there ends the migration at its next write, and nothing else.
            let more = target.maintain(budget).unwrap_or_default();
            done = Progress { bytes: done.bytes + more.bytes, more: done.more || more.more };
        }
        Ok(done)
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.whole().metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        self.whole().verify()
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        self.on_route(|route| route.whole().as_scan().is_some()).then_some(self)
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        let is_ordered = self.descriptor().capabilities.ordered;
        let engine = Arc::downgrade(&self.whole());
        is_ordered.then(|| Arc::new(InOrder { switch: self, engine }) as Arc<dyn Ordered>)
    }

    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        self.whole().as_changes().is_some().then_some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        self.on_route(|route| route.whole().as_atomic().is_some()).then_some(self)
    }

    fn as_sharded(&self) -> Option<&dyn Sharded> {
        self.on_route(|route| route.whole().as_sharded().is_some()).then_some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        self.on_route(|route| route.whole().as_admin().is_some()).then_some(self)
    }
}

/// What whoever writes to a store is told that is only read.
pub(crate) fn read_only() -> Error {
    let message = "the store was opened to be read only; to write to it open it without read_only \
                   (on the command line: without --read-only, as a user who may write to its \
                   directory, on a file system that is mounted for writing)";
    Error::new(ErrorKind::ReadOnly, message)
}

/// What a view says that the engine of now has not, though the one before had it.
pub(super) fn lacks(engine: &Arc<dyn Engine>, what: &str) -> Error {
    let name = engine.descriptor().name;
    Error::new(ErrorKind::Unsupported, format!("engine {name} cannot {what}"))
}

/// Those of the engine that has everything: after a migration it is another stream.
impl Changes for Switch {
    fn begin(self: Arc<Self>) -> Result<(Arc<dyn Snapshot>, ChangePoint)> {
        self.stream()?.begin()
    }

    fn now(&self) -> ChangePoint {
        self.stream().map_or(ChangePoint { history: 0, sequence: 0 }, |stream| stream.now())
    }

    fn read(
        &self,
        from: ChangePoint,
        bytes_max: usize,
        each: &mut dyn FnMut(ChangePoint, &WriteBatch<'_>),
    ) -> Result<ChangePoint> {
        self.stream()?.read(from, bytes_max, each)
    }
}

impl Switch {
    fn stream(&self) -> Result<Arc<dyn Changes>> {
        let engine = self.whole();
        Arc::clone(&engine).as_changes().ok_or_else(|| lacks(&engine, "keep changes"))
    }
}

impl Scan for Switch {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let engine = self.whole();
        let scan = engine.as_scan().ok_or_else(|| lacks(&engine, "iterate"))?;
        let (look, mut entries) = (self.live.look(), 0);
        let next = scan.scan(cursor, limit, &mut |key, entry| {
            entries += 1;
            visit(key, entry);
        })?;
        self.live.scanned(look, entries, None);
        Ok(next)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        self.whole().as_scan().map_or(0, |scan| scan.cursor_of(key))
    }
}

pub(super) fn admin(engine: &Arc<dyn Engine>) -> Result<&dyn Admin> {
    engine.as_admin().ok_or_else(|| lacks(engine, "be administered"))
}

impl Admin for Switch {
    fn count(&self, exact: bool) -> Result<Count> {
        admin(&self.whole())?.count(exact)
    }

    fn estimate(&self) -> Result<Count> {
        admin(&self.whole())?.estimate()
    }

    fn clear(&self) -> Result<()> {
        self.write_to(Touch::Anything, |engine| admin(engine)?.clear(), Dual::clear)
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        admin(&self.whole())?.checkpoint(target)
    }

    fn set_memory_bytes(&self, bytes: u64) {
        self.on_route(|route| match route {
            Route::Plain(engine) | Route::Noted(engine, _) => {
                engine.as_admin().iter().for_each(|a| a.set_memory_bytes(bytes))
            }
            // Both have their half until it is over.
            Route::Both(_) => {}
        });
    }

    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        if self.is_read_only {
            // What an engine leaves for its next opening is as it was found.
            return Ok(());
        }
        admin(&self.whole())?.close(progress)
    }

    fn save(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        admin(&self.whole())?.save(progress)
    }

    fn inspect(&self) -> Result<String> {
        admin(&self.whole())?.inspect()
    }
}

impl Switch {
    fn sharded<T>(&self, ask: impl FnOnce(&dyn Sharded) -> T) -> Option<T> {
        self.whole().as_sharded().map(ask)
    }
}

impl Sharded for Switch {
    fn shards(&self) -> usize {
        self.sharded(|sharded| sharded.shards()).unwrap_or(0)
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        self.sharded(|sharded| sharded.shard_of(key)).unwrap_or(0)
    }

    fn shards_of(&self, keys: &[&[u8]], each: &mut dyn FnMut(usize, usize)) {
        self.sharded(|sharded| sharded.shards_of(keys, each));
    }

    fn seed(&self) -> Option<HashSeed> {
        self.sharded(|sharded| sharded.seed()).flatten()
    }

    fn take(&self, number: usize) -> Result<Box<dyn Shard>> {
        self.refuse_if_read_only()?;
        self.has_owners.store(true, Ordering::Release);
        if self.plain().is_none() {
            let message = "partitions have no owners during a migration; wait for its end";
            return Err(Error::new(ErrorKind::Locked, message));
        }
        self.touch_anything()?;
        let none = || lacks(&self.whole(), "hand out partitions");
        self.sharded(|sharded| sharded.take(number)).ok_or_else(none)?
    }
}

/// The ordered view.
struct InOrder {
    switch: Arc<Switch>,
    /// The engine whose snapshots it gave: those of another one say nothing here.
    engine: Weak<dyn Engine>,
}

pub(super) fn ordered(engine: &Arc<dyn Engine>) -> Result<Arc<dyn Ordered>> {
    Arc::clone(engine).as_ordered().ok_or_else(|| lacks(engine, "keep an order"))
}

/// A snapshot whose gets are sketched and recorded as those of the keyspace.
struct Seen {
    inner: Arc<dyn Snapshot>,
    live: Arc<Live>,
}

impl Snapshot for Seen {
    fn sequence(&self) -> u64 {
        self.inner.sequence()
    }

    fn unix_ms(&self) -> u64 {
        self.inner.unix_ms()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let look = self.live.look();
        if look.any() {
            return self.live.gets(look, keys, sink, |sink| self.inner.get_many(keys, sink));
        }
        self.inner.get_many(keys, sink)
    }

    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        self.inner.get_many_with(keys, intent, sink)
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        Arc::clone(&self.inner).iterate(range)
    }

    fn iterate_with(
        self: Arc<Self>,
        range: &KeyRange,
        options: IterateOptions,
    ) -> Result<Box<dyn EntryIter>> {
        Arc::clone(&self.inner).iterate_with(range, options)
    }

    fn count(self: Arc<Self>, range: &KeyRange) -> Result<u64> {
        Arc::clone(&self.inner).count(range)
    }
}

impl Ordered for InOrder {
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        self.switch.uses_order.store(true, Ordering::Relaxed);
        let inner = ordered(&self.switch.whole())?.snapshot()?;
        Ok(Arc::new(Seen { inner, live: Arc::clone(&self.switch.live) }))
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        &self.switch.commit_turns
    }

    fn sync_commits(&self) -> Result<()> {
        self.switch.sync()
    }

    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        self.switch.uses_order.store(true, Ordering::Relaxed);
        let look = self.switch.live.look();
        self.switch.write_to(
            Touch::Anything,
            |engine| ordered(engine)?.delete_range(range, durability),
            |dual| dual.delete_range(range, durability),
        )?;
        self.switch.live.removed_range(look);
        Ok(())
    }

    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<bool> {
        let look = self.switch.live.look();
        let is_done = self.switch.write_to(
            Touch::Batch(batch),
            |engine| match Weak::ptr_eq(&self.engine, &Arc::downgrade(engine)) {
                true => ordered(engine)?.commit(snapshot, reads, batch, durability),
                false => Ok(false),
            },
            |dual| match Weak::ptr_eq(&self.engine, &Arc::downgrade(&dual.source)) {
                true => dual.commit(snapshot, reads, batch, durability),
                false => Write::Done(Ok(false)),
            },
        )?;
        if is_done && look.any() {
            self.switch.live.wrote(look, batch, durability);
        }
        Ok(is_done)
    }

    fn staging(self: Arc<Self>) -> Option<Box<dyn Staging>> {
        self.switch.uses_order.store(true, Ordering::Relaxed);
        // None during a migration, which writes to two engines.
        let engine = self.switch.plain()?;
        let inner = ordered(&engine).ok()?.staging()?;
        let (switch, engine) = (Arc::clone(&self.switch), Arc::downgrade(&engine));
        let is_same = move |now: &Arc<dyn Engine>| Weak::ptr_eq(&engine, &Arc::downgrade(now));
        let commits = move |inner: &mut dyn Staging| {
            switch.refuse_if_read_only()?;
            switch.on_route(|route| match route {
                Route::Plain(now) if is_same(now) => inner.commit(),
                Route::Noted(now, journal) if is_same(now) => {
                    journal.touch(Touch::Anything)?;
                    inner.commit()
                }
                _ => Err(Error::new(ErrorKind::Locked, "a migration began; run it all again")),
            })
        };
        Some(Box::new(Routed { inner, commits }))
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        ordered(&self.switch.whole()).map(|view| view.range_size(range)).unwrap_or_default()
    }

    fn near(&self, random: u64) -> Option<Near> {
        ordered(&self.switch.whole()).ok()?.near(random)
    }

    fn compact_range(&self, range: &KeyRange) -> Result<()> {
        self.switch.refuse_if_read_only()?;
        ordered(&self.switch.whole())?.compact_range(range)
    }

    fn ingest(&self, files: &[SortedFile], progress: &mut dyn FnMut(u64, u64)) -> Result<Ingested> {
        self.switch.refuse_if_read_only()?;
        self.switch.uses_order.store(true, Ordering::Relaxed);
        self.switch.on_route(|route| match route {
            Route::Plain(engine) => ordered(engine)?.ingest(files, progress),
            Route::Noted(engine, journal) => {
                journal.touch(Touch::Anything)?;
                ordered(engine)?.ingest(files, progress)
            }
            Route::Both(_) => {
                let message = "files are not ingested during a migration; wait for its end";
                Err(Error::new(ErrorKind::Locked, message))
            }
        })
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
