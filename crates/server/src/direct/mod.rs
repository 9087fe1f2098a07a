//! Partitions that belong to loops: the modes EREW and CREW.
//!
//! In these modes every partition of an engine has one event loop as its owner, which alone writes
//! it (CREW), or reads and writes it (EREW), through the engine's shards: without a lock or an
//! atomic read-modify-write. [`Direct`] stands before the engine and is an [`Engine`] like it, so
//! bursts run as they always do. It splits a burst by owner: the calling loop's own keys it asks
//! its shards for, the others it sends to their owners and waits for the answers; in CREW it reads
//! them itself. Values are reported in the order of the keys, whoever has them. A loop that waits
//! does what others ask of it meanwhile, so nobody waits in a circle.
//!
//! An [`Engine`] cannot send what decides about an update elsewhere; a command can be sent, with
//! its arguments, so [`OwnedUpdates::update`] takes these and the owners decide.
//!
//! * `loop_shard`: a loop's shards and its rings to and from the others, and how a burst is split
//!   and put together again;
//! * `job`: what is sent;
//! * `wake_flag`: whether who gets a message has to be woken;
//! * `hub`: what all loops know of each other, and how one works alone where partitions of several
//!   owners change together.
//!
//! Threads that are no loops read as everybody may, and write as what concerns several owners is
//! written. Walks over the whole store (SCAN, KEYS, DBSIZE) read beside the owners, too: they would
//! hold them up.

mod hub;
mod job;
mod loop_shard;
mod sync;
mod wake_flag;

pub(crate) use hub::Hub;
pub(crate) use loop_shard::{LoopShard, loop_shards};

use silica::engine::{
    Admin, Atomic, Checkpoint, Count, Durability, Engine, EntryRef, Error, ErrorKind, Expected,
    GetSink, Intent, Layer, Op, Result, Sharded, Stage, StageWatch, Stages, Update, WriteBatch,
};
use silica_commands::{BurstLimits, Change, Judged, OwnedUpdates, Owners, PlaceWatchers};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// The shard of the loop that this thread runs.
    static LOOP_SHARD: RefCell<Option<LoopShard>> = const { RefCell::new(None) };
}

/// Runs `work` as the loop that `loop_shard` is of.
pub(crate) fn run_as(loop_shard: Option<LoopShard>, work: impl FnOnce()) {
    let Some(loop_shard) = loop_shard else { return work() };
    loop_shard.hub.is_mine(loop_shard.number);
    LOOP_SHARD.with(|mine| *mine.borrow_mut() = Some(loop_shard));
    work();
    LOOP_SHARD.with(|mine| {
        if let Some(mut loop_shard) = mine.borrow_mut().take() {
            loop_shard.leave();
        }
    });
}

/// Before a loop waits for its sockets: how long it may, of `time`.
pub(crate) fn park(time: Duration) -> Duration {
    let may =
        LOOP_SHARD.with(|loop_shard| loop_shard.borrow_mut().as_mut().is_none_or(LoopShard::park));
    if may { time } else { Duration::ZERO }
}

/// After a loop has waited: does what others ask of it.
pub(crate) fn resume() {
    LOOP_SHARD.with(|loop_shard| {
        if let Some(loop_shard) = &mut *loop_shard.borrow_mut() {
            loop_shard.resume();
            loop_shard.serve();
        }
    });
}

impl Owners for Hub {
    fn wrap(
        self: Arc<Self>,
        place: usize,
        engine: Arc<dyn Engine>,
        watchers: &Arc<PlaceWatchers>,
    ) -> Arc<dyn Engine> {
        if engine.as_sharded().is_none() {
            return engine;
        }
        self.keep(place, &engine, watchers);
        Arc::new(Direct { place, hub: self, engine })
    }

    fn serve(&self) -> bool {
        LOOP_SHARD.with(|loop_shard| loop_shard.borrow_mut().as_mut().is_some_and(LoopShard::serve))
    }
}

impl OwnedUpdates for Hub {
    fn update(
        &self,
        place: usize,
        sharded: &dyn Sharded,
        changes: &[Change<'_>],
        burst_limits: &BurstLimits,
    ) -> Option<Vec<Judged>> {
        LOOP_SHARD.with(|loop_shard| {
            let mut loop_shard = loop_shard.borrow_mut();
            // All that is its own goes the usual way.
            let loop_shard = loop_shard
                .as_mut()
                .filter(|loop_shard| sharded.shards() > 1 || !loop_shard.owns(0))?;
            Some(loop_shard.update(place, sharded, changes, burst_limits))
        })
    }
}

/// An engine whose partitions belong to loops.
pub(crate) struct Direct {
    /// Where the database is, whatever its number.
    place: usize,
    hub: Arc<Hub>,
    engine: Arc<dyn Engine>,
}

impl Direct {
    /// Calls `work` with the loop shard of the calling thread, where it is one of these loops.
    fn with_loop_shard<T>(&self, work: impl FnOnce(Option<&mut LoopShard>) -> T) -> T {
        LOOP_SHARD.with(|loop_shard| {
            let mut loop_shard = loop_shard.borrow_mut();
            work(loop_shard.as_mut().filter(|loop_shard| Arc::ptr_eq(&loop_shard.hub, &self.hub)))
        })
    }

    fn sharded(&self) -> Result<&dyn Sharded> {
        let none = || Error::new(ErrorKind::Unsupported, "the engine has no partitions");
        self.engine.as_sharded().ok_or_else(none)
    }

    /// Calls the engine itself while the owners of `keys` hold still.
    fn alone<'k, T>(
        &self,
        loop_shard: &mut Option<&mut LoopShard>,
        keys: impl Iterator<Item = &'k [u8]>,
        work: impl FnOnce(&dyn Engine) -> Result<T>,
    ) -> Result<T> {
        let mut owners = vec![false; self.hub.loops()];
        let sharded = self.sharded()?;
        keys.for_each(|key| owners[self.hub.owner_of(sharded.shard_of(key))] = true);
        let _held = self.hub.hold(&owners, loop_shard);
        work(&*self.engine)
    }

    /// Calls `work` with the engine while all owners hold still.
    fn all_alone<T>(&self, work: impl FnOnce(&dyn Engine) -> Result<T>) -> Result<T> {
        self.with_loop_shard(|mut loop_shard| {
            let _held = self.hub.hold(&vec![true; self.hub.loops()], &mut loop_shard);
            work(&*self.engine)
        })
    }

    fn admin(&self) -> Result<&dyn Admin> {
        let none = || Error::new(ErrorKind::Unsupported, "the engine cannot count or clear");
        self.engine.as_admin().ok_or_else(none)
    }
}

fn atomic(engine: &dyn Engine) -> Result<&dyn Atomic> {
    let none = || Error::new(ErrorKind::Unsupported, "the engine cannot update atomically");
    engine.as_atomic().ok_or_else(none)
}

impl Layer for Direct {
    type Inner = dyn Engine;

    fn inner(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.with_loop_shard(|loop_shard| match loop_shard {
            Some(loop_shard) => loop_shard.get_many(self.place, &*self.engine, keys, sink),
            None => self.engine.get_many(keys, sink),
        })
    }

    fn get_many_with(&self, keys: &[&[u8]], _: Intent, sink: &mut dyn GetSink) -> Result<()> {
        Layer::get_many(self, keys, sink)
    }

    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        // An owner may be busy; the loops that own partitions ask in the usual way.
        left.extend(0..keys.len());
        let _ = sink;
        Ok(())
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        stages.enter(Stage::Memory);
        Layer::get_many(self, keys, sink)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let keys = batch.ops().iter().map(|op| op.key);
        self.with_loop_shard(|mut loop_shard| match &mut loop_shard {
            // The owner of a partition writes all of it as one step.
            Some(loop_shard) if LoopShard::only(self.sharded()?, keys.clone()).is_some() => {
                loop_shard.write_each(self.place, &*self.engine, batch, durability)
            }
            _ => self.alone(&mut loop_shard, keys, |engine| engine.write(batch, durability)),
        })
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.with_loop_shard(|mut loop_shard| match &mut loop_shard {
            Some(loop_shard) => loop_shard.write_each(self.place, &*self.engine, batch, durability),
            None => {
                let keys = batch.ops().iter().map(|op| op.key);
                self.alone(&mut loop_shard, keys, |engine| engine.write(batch, durability))
            }
        })
    }

    fn verify(&self) -> Result<()> {
        self.all_alone(|engine| engine.verify())
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        self.engine.as_atomic().map(|_| self as &dyn Atomic)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        self.engine.as_admin().map(|_| self as &dyn Admin)
    }
}

impl Atomic for Direct {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_many(&[key], durability, &mut |_, current| decide(current)).map(|_| ())
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        self.with_loop_shard(|mut loop_shard| {
            if let Some(loop_shard) = &mut loop_shard
                && let Some((partition, count)) = loop_shard.own_run(self.sharded()?, keys)
            {
                let shard = loop_shard.shards.get(self.place, partition)?;
                return shard.update_many(&keys[..count], durability, decide);
            }
            self.alone(&mut loop_shard, keys.iter().copied(), |engine| {
                atomic(engine)?.update_many(keys, durability, decide)
            })
        })
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.with_loop_shard(|mut loop_shard| {
            self.alone(&mut loop_shard, keys.iter().copied(), |engine| {
                atomic(engine)?.update_all(keys, durability, decide)
            })
        })
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        let keys = expected.iter().map(|expected| expected.key);
        let keys = keys.chain(ops.iter().map(|op| op.key));
        self.with_loop_shard(|mut loop_shard| {
            self.alone(&mut loop_shard, keys, |engine| {
                atomic(engine)?.write_expecting(expected, ops, durability)
            })
        })
    }

    fn order_epoch(&self) -> Option<u64> {
        self.engine.as_atomic().and_then(Atomic::order_epoch)
    }

    fn settle(&self) {
        if let Some(atomic) = self.engine.as_atomic() {
            atomic.settle();
        }
    }
}

impl Admin for Direct {
    fn count(&self, exact: bool) -> Result<Count> {
        self.admin()?.count(exact)
    }

    fn estimate(&self) -> Result<Count> {
        self.admin()?.estimate()
    }

    fn clear(&self) -> Result<()> {
        self.all_alone(|_| self.admin()?.clear())
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        self.admin()?.checkpoint(target)
    }

    fn set_memory_bytes(&self, bytes: u64) {
        if let Some(admin) = self.engine.as_admin() {
            admin.set_memory_bytes(bytes);
        }
    }

    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.all_alone(|_| self.admin()?.close(progress))
    }

    fn save(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        self.all_alone(|_| self.admin()?.save(progress))
    }

    fn inspect(&self) -> Result<String> {
        self.admin()?.inspect()
    }
}
