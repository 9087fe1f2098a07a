//! What all loops of a server know of each other, and how one works alone.
//!
//! What concerns partitions of several owners at once (a transaction, FLUSHALL, MSET) is done by
//! one thread while the owners of these partitions hold still: each gives its shards up, says so,
//! and waits until it may go on. Then the engine itself is called, which locks as it does without
//! owners. One thread at a time works like this; who waits for its turn, or for owners to hold
//! still, goes on with the messages that it gets, so nobody waits in a circle.

use super::loop_shard::LoopShard;
use super::wake_flag::{AWAKE, PARKED, WakeFlag};
use crate::config::Mode;
use mio::Waker;
use silica::engine::{Engine, Error, ErrorKind, Result, Shard};
use silica_commands::{Budget, PlaceWatchers};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread::Thread;
use std::time::Duration;

/// How long a thread sleeps that nobody has to wake.
const NAP: Duration = Duration::from_micros(20);
/// Turns of waiting that stay on the processor.
const TURNS: u32 = 200;

/// An owner works.
const AT_WORK: u32 = 0;
/// It was asked to hold still.
const ASKED: u32 = 1;
/// It holds still, and has no shards.
const STILL: u32 = 2;
/// It has ended, and has no shards.
const GONE: u32 = 3;

/// Where a loop is reached.
struct LoopHandle {
    wake_flag: WakeFlag,
    hold: AtomicU32,
    waker: Arc<Waker>,
    thread: OnceLock<Thread>,
}

/// The engine of a database and who watches its keys.
type Opened = (Arc<dyn Engine>, Arc<PlaceWatchers>);

/// All loops of a server, and the engines whose partitions they own.
pub(crate) struct Hub {
    pub(super) mode: Mode,
    handles: Box<[LoopHandle]>,
    /// The engine in each place, once it is open, and who watches its keys.
    engines: Box<[OnceLock<Opened>]>,
    alone: Mutex<()>,
    /// The memory of all clients.
    pub(super) budget: Arc<Budget>,
    /// Loops that may still send messages.
    pub(super) at_work: AtomicUsize,
}

impl Hub {
    /// For loops that `wakers` wake and so many databases.
    pub(crate) fn new(
        mode: Mode,
        wakers: &[Arc<Waker>],
        databases: u32,
        budget: &Arc<Budget>,
    ) -> Self {
        let handle = |waker: &Arc<Waker>| LoopHandle {
            wake_flag: WakeFlag::new(),
            hold: AtomicU32::new(AT_WORK),
            waker: Arc::clone(waker),
            thread: OnceLock::new(),
        };
        Hub {
            mode,
            handles: wakers.iter().map(handle).collect(),
            engines: (0..databases).map(|_| OnceLock::new()).collect(),
            alone: Mutex::default(),
            budget: Arc::clone(budget),
            at_work: AtomicUsize::new(wakers.len()),
        }
    }

    /// The number of loops.
    pub(super) fn loops(&self) -> usize {
        self.handles.len()
    }

    /// The loop that owns a partition.
    pub(super) fn owner_of(&self, partition: usize) -> usize {
        partition % self.handles.len()
    }

    pub(super) fn wake_flag(&self, number: usize) -> &WakeFlag {
        &self.handles[number].wake_flag
    }

    /// The calling thread is that of loop `number`.
    pub(super) fn is_mine(&self, number: usize) {
        // It says so once.
        let _ = self.handles[number].thread.set(std::thread::current());
    }

    /// Keeps the engine in a place for its owners.
    pub(super) fn keep(
        &self,
        place: usize,
        engine: &Arc<dyn Engine>,
        watchers: &Arc<PlaceWatchers>,
    ) {
        // A database is opened once.
        let _ = self.engines[place].set((Arc::clone(engine), Arc::clone(watchers)));
    }

    /// Wakes loop `number` where it sleeps, after a message to it was put in.
    pub(super) fn notify(&self, number: usize) {
        let handle = &self.handles[number];
        match handle.wake_flag.notify() {
            AWAKE => {}
            PARKED => self.unpark(number),
            _ => {
                if let Err(error) = handle.waker.wake() {
                    // The loop looks again at its next tick, at the latest after a second.
                    log::warn!("waking an event loop: {error}");
                }
            }
        }
    }

    fn unpark(&self, number: usize) {
        if let Some(thread) = self.handles[number].thread.get() {
            thread.unpark();
        }
    }

    pub(super) fn is_gone(&self, number: usize) -> bool {
        self.handles[number].hold.load(Ordering::Acquire) == GONE
    }

    /// True where loop `number` is to hold still.
    pub(super) fn is_asked(&self, number: usize) -> bool {
        self.handles[number].hold.load(Ordering::Acquire) == ASKED
    }

    /// Holds still until the thread that asked for it lets go. The caller has given its shards up.
    pub(super) fn hold_still(&self, number: usize) {
        let hold = &self.handles[number].hold;
        hold.store(STILL, Ordering::Release);
        let mut turns = 0;
        while hold.load(Ordering::Acquire) == STILL {
            rest(&mut turns);
        }
    }

    /// Loop `number` has ended and has no shards.
    pub(super) fn leave(&self, number: usize) {
        self.handles[number].hold.swap(GONE, Ordering::AcqRel);
    }

    /// Waits until the loops in `owners` hold still; they do until what is returned is dropped.
    /// `loop_shard` is the calling loop's, which gives up its own shards.
    pub(super) fn hold<'h>(
        &'h self,
        owners: &[bool],
        loop_shard: &mut Option<&mut LoopShard>,
    ) -> Held<'h> {
        let mut turns = 0;
        let alone = loop {
            match self.alone.try_lock() {
                Ok(alone) => break alone,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => serve_or_rest(loop_shard, &mut turns),
            }
        };
        let own = loop_shard.as_ref().map(|loop_shard| loop_shard.number);
        let others = (0..self.loops()).filter(|n| owners[*n] && Some(*n) != own);
        let ask = |n: &usize| {
            let hold = &self.handles[*n].hold;
            hold.compare_exchange(AT_WORK, ASKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let held = Held { hub: self, owners: others.filter(ask).collect(), _alone: alone };
        held.owners.iter().for_each(|n| self.notify(*n));
        for owner in &held.owners {
            let mut turns = 0;
            while self.is_asked(*owner) {
                serve_or_rest(loop_shard, &mut turns);
            }
        }
        if let Some(loop_shard) = loop_shard {
            loop_shard.shards.give_up();
        }
        held
    }
}

/// Serves messages, or rests where there are none.
fn serve_or_rest(loop_shard: &mut Option<&mut LoopShard>, turns: &mut u32) {
    let served = loop_shard.as_mut().is_some_and(|loop_shard| loop_shard.serve());
    if served { *turns = 0 } else { rest(turns) }
}

/// A turn of waiting for another thread.
pub(super) fn rest(turns: &mut u32) {
    *turns += 1;
    if *turns < TURNS {
        std::hint::spin_loop();
    } else {
        std::thread::park_timeout(NAP);
    }
}

/// Owners that hold still until this is dropped.
pub(super) struct Held<'h> {
    hub: &'h Hub,
    owners: Vec<usize>,
    _alone: MutexGuard<'h, ()>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for owner in &self.owners {
            let hold = &self.hub.handles[*owner].hold;
            // Nothing happens where it has ended meanwhile.
            let _ = hold.compare_exchange(STILL, AT_WORK, Ordering::AcqRel, Ordering::Acquire);
            self.hub.unpark(*owner);
        }
    }
}

/// The shards of a loop, taken when they are first used.
pub(super) struct Shards {
    hub: Arc<Hub>,
    /// By place and partition.
    taken: Vec<Vec<Option<Box<dyn Shard>>>>,
}

impl Shards {
    pub(super) fn new(hub: &Arc<Hub>) -> Self {
        Shards { hub: Arc::clone(hub), taken: Vec::new() }
    }

    /// Partition `partition` of the database in place `db`, which must be the loop's own.
    pub(super) fn get(&mut self, db: usize, partition: usize) -> Result<&mut dyn Shard> {
        let is_there =
            matches!(self.taken.get(db).map(|all| all.get(partition)), Some(Some(Some(_))));
        if !is_there {
            self.take(db, partition)?;
        }
        match &mut self.taken[db][partition] {
            Some(shard) => Ok(&mut **shard),
            None => Err(Error::new(ErrorKind::Locked, "the partition was not taken")),
        }
    }

    #[cold]
    fn take(&mut self, db: usize, partition: usize) -> Result<()> {
        let engine = self.hub.engines.get(db).and_then(OnceLock::get);
        let sharded = engine.and_then(|(engine, watchers)| Some((engine.as_sharded()?, watchers)));
        let Some((sharded, watchers)) = sharded else {
            let message = format!("database {db} has no partitions that a loop could own");
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        if self.taken.len() <= db {
            self.taken.resize_with(db + 1, Vec::new);
        }
        self.taken[db].resize_with(sharded.shards(), || None);
        let taken = sharded.take(partition).or_else(|error| {
            // Databases of one cache have the same partitions: another one may have it now.
            let others = self.taken.iter_mut().filter_map(|all| all.get_mut(partition)?.take());
            if others.count() == 0 { Err(error) } else { sharded.take(partition) }
        });
        let shard = watchers.wrap_shard(taken?);
        self.taken[db][partition] = Some(shard);
        Ok(())
    }

    /// Lets others have them; what is used again is taken again.
    pub(super) fn give_up(&mut self) {
        self.taken.clear();
    }
}
