//! The state that all handles of a simulated device share.

use super::node::{Body, Node};
use super::{SimOptions, dir::Dir};
use crate::Counters;
use silica_base::{BLOCK_BYTES, Error, ErrorKind, Prng, Result};
use std::sync::{Arc, Mutex, MutexGuard};

/// A fault that a test can order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A write, append, truncation, allocation or name operation fails with `Io` and does
    /// nothing.
    Eio,
    /// A call that takes new space (not an append, whose space is reserved) fails with `Full`
    /// and does nothing.
    Enospc,
    /// A positional write writes only a prefix and fails with `Io`.
    ShortWrite,
    /// A sync of a file, log or directory fails with `Io` and is final.
    FailedSync,
    /// A read fails with `Io`.
    ReadEio,
}

/// Calls as faults tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    Write,
    Append,
    Allocate,
    Truncate,
    Create,
    Link,
    Rename,
    Remove,
    Sync,
}

impl FaultKind {
    fn hits(self, call: Call) -> bool {
        use Call::*;
        match self {
            FaultKind::Eio => !matches!(call, Read | Sync),
            FaultKind::Enospc => matches!(call, Write | Allocate | Truncate | Create | Link),
            FaultKind::ShortWrite => call == Write,
            FaultKind::FailedSync => call == Sync,
            FaultKind::ReadEio => call == Read,
        }
    }

    pub(super) fn error(self, call: Call) -> Error {
        let kind = if self == FaultKind::Enospc { ErrorKind::Full } else { ErrorKind::Io };
        Error::new(kind, format!("simulated {self:?} at {call:?}"))
    }
}

/// An ordered fault.
#[derive(Clone)]
struct Fault {
    kind: FaultKind,
    /// Matching calls until it strikes.
    calls: u64,
    /// Strikes at every matching call from then on.
    lasting: bool,
}

/// Shared state, whole.
pub(super) struct World(pub(super) Mutex<State>);

/// What the mutex guards.
pub(super) struct State {
    pub(super) rng: Prng,
    /// Decides in which order reads end; apart, so that reads do not change what is lost.
    pub(super) reads_rng: Prng,
    pub(super) options: SimOptions,
    /// False from a power cut to the next reopen.
    pub(super) powered: bool,
    /// Handles of former generations are closed.
    pub(super) generation: u64,
    pub(super) ops: u64,
    pub(super) cut_at: Option<u64>,
    faults: Vec<Fault>,
    pub(super) capacity: u64,
    used: u64,
    cuts: u64,
    pub(super) dirs: Vec<Dir>,
    /// The kernel listens to lifetimes.
    pub(super) takes_lifetimes: bool,
}

/// What every handle needs: the world, when it was made, and where to count.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) world: Arc<World>,
    pub(super) generation: u64,
    pub(super) counters: Arc<Counters>,
}

impl Handle {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.world.0.lock().expect("no panic while locked")
    }

    /// The state, unless this handle is closed.
    pub(super) fn enter(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.powered && state.generation == self.generation { Ok(state) } else { Err(closed()) }
    }

    /// Runs an operation that power may be cut at. An operation that is cut is not acknowledged,
    /// whether or not its effects survive; a sync that is cut has no effect at all.
    pub(super) fn mutate<T>(
        &self,
        call: Call,
        operation: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.enter()?;
        state.ops += 1;
        if state.cut_at.is_some_and(|at| state.ops >= at) {
            if call != Call::Sync {
                let _ = operation(&mut state);
            }
            state.cut();
            return Err(closed());
        }
        operation(&mut state)
    }

    /// Syncs a file or log.
    pub(super) fn sync_node(&self, node: &Node) -> Result<()> {
        self.mutate(Call::Sync, |state| {
            let mut body = node.body.lock().expect("no panic while locked");
            if body.poisoned {
                return Err(poisoned());
            }
            if let Err(error) = state.refuse(Call::Sync) {
                body.sync_failed();
                return Err(error);
            }
            body.synced();
            self.counters.add_sync();
            Ok(())
        })
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the device was closed or lost power")
}

pub(super) fn poisoned() -> Error {
    Error::new(ErrorKind::Poisoned, "an earlier sync failed; reopen the store")
}

impl State {
    pub(super) fn new(seed: u64, options: SimOptions) -> Self {
        State {
            rng: Prng::new(seed),
            reads_rng: Prng::new(!seed),
            options,
            powered: true,
            generation: 0,
            ops: 0,
            cut_at: None,
            faults: Vec::new(),
            capacity: u64::MAX / 4,
            used: 0,
            cuts: 0,
            dirs: vec![Dir::default()],
            takes_lifetimes: true,
        }
    }

    pub(super) fn order_fault(&mut self, kind: FaultKind, calls: u64, lasting: bool) {
        assert!(calls > 0, "calls are counted from 1");
        self.faults.push(Fault { kind, calls, lasting });
    }

    pub(super) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Counts `call` against the ordered faults; the one that strikes now.
    pub(super) fn fault(&mut self, call: Call) -> Option<FaultKind> {
        let mut strikes = None;
        self.faults.retain_mut(|fault| {
            if !fault.kind.hits(call) {
                return true;
            }
            fault.calls -= 1;
            if fault.calls > 0 {
                return true;
            }
            strikes = strikes.or(Some(fault.kind));
            fault.calls = 1;
            fault.lasting
        });
        strikes
    }

    /// Fails where a fault strikes `call`.
    pub(super) fn refuse(&mut self, call: Call) -> Result<()> {
        self.fault(call).map_or(Ok(()), |kind| Err(kind.error(call)))
    }

    pub(super) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// Takes space so that a file of `len` bytes fits, or fails with `Full`.
    pub(super) fn charge(&mut self, body: &mut Body, len: u64) -> Result<()> {
        let want = len.next_multiple_of(BLOCK_BYTES as u64);
        let more = want.saturating_sub(body.charge);
        if more == 0 || body.links == 0 {
            return Ok(());
        }
        if more > self.free() {
            let message = format!("no space for {more} more bytes, {} are free", self.free());
            return Err(Error::new(ErrorKind::Full, message));
        }
        self.used += more;
        body.charge = want;
        Ok(())
    }

    /// Gives back the space above `len`.
    pub(super) fn release_above(&mut self, body: &mut Body, len: u64) {
        let want = len.next_multiple_of(BLOCK_BYTES as u64);
        let less = body.charge.saturating_sub(want);
        if body.links > 0 {
            self.used -= less;
            body.charge -= less;
        }
    }

    /// One name more for `node`.
    pub(super) fn linked(&mut self, node: &Node) {
        node.body.lock().expect("no panic while locked").links += 1;
    }

    /// One name less for `node`; with the last one its space becomes free.
    pub(super) fn unlinked(&mut self, node: &Node) {
        let mut body = node.body.lock().expect("no panic while locked");
        body.links -= 1;
        if body.links == 0 {
            self.used -= std::mem::take(&mut body.charge);
        }
    }

    /// The process ended: the next one may sync the files whose sync failed.
    pub(super) fn restart(&mut self) {
        for node in self.dirs.iter().flat_map(|dir| dir.live.values()) {
            node.body.lock().expect("no panic while locked").restarted();
        }
    }

    /// Cuts the power: decides what of everything pending survives.
    pub(super) fn cut(&mut self) {
        self.powered = false;
        self.cut_at = None;
        self.cuts += 1;
        let in_order = self.options.names_in_order;
        for dir in &mut self.dirs {
            dir.cut(&mut self.rng, in_order);
        }
        let mut used = 0;
        for dir in &self.dirs {
            for node in dir.live.values() {
                let mut body = node.body.lock().expect("no panic while locked");
                if body.cuts < self.cuts {
                    body.cuts = self.cuts;
                    body.cut(&mut self.rng, self.options.garble);
                    body.links = 0;
                    body.charge = body.len().next_multiple_of(BLOCK_BYTES as u64);
                    used += body.charge;
                }
                body.links += 1;
            }
        }
        self.used = used;
    }

    /// A copy of everything, with a random future of its own.
    pub(super) fn fork(&self, seed: u64) -> State {
        let mut copies: Vec<(*const Node, Arc<Node>)> = Vec::new();
        let mut copy = |node: &Arc<Node>| {
            let known = copies.iter().find(|(original, _)| *original == Arc::as_ptr(node));
            if let Some((_, copy)) = known {
                return copy.clone();
            }
            let body = node.body.lock().expect("no panic while locked").clone();
            let fresh = Arc::new(Node { body: Mutex::new(body) });
            copies.push((Arc::as_ptr(node), fresh.clone()));
            fresh
        };
        State {
            rng: Prng::new(seed),
            reads_rng: Prng::new(!seed),
            options: self.options,
            powered: self.powered,
            generation: self.generation,
            ops: self.ops,
            cut_at: self.cut_at,
            faults: self.faults.clone(),
            capacity: self.capacity,
            used: self.used,
            cuts: self.cuts,
            dirs: self.dirs.iter().map(|dir| dir.duplicate(&mut copy)).collect(),
            takes_lifetimes: self.takes_lifetimes,
        }
    }
}
