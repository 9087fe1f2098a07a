//! What a loop does with the requests of its connections: they become bursts, which run here or on
//! a worker, and their replies go back to the connections.

use super::EventLoop;
use crate::at_hand::AtHand;
use crate::conn::Planned;
use silica_commands::{Burst, Executor, Lane, Output, Waited};
use std::mem::replace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Where a connection's next requests run.
enum Place {
    /// On this loop, now.
    Here(usize),
    /// On a worker, up to this request.
    Worker(Lane, usize),
}

/// The bursts of a loop.
pub(super) struct Bursts {
    /// Being collected: for this loop alone.
    here: Burst,
    /// Reads, whose answers are looked for in memory first.
    reads: Burst,
    /// Reads that wait for a worker, since a device has to be asked.
    left: Burst,
    /// Requests that write, for a worker.
    writes: Burst,
    reads_in_flight: usize,
    writes_in_flight: usize,
    at_hand: AtHand,
}

impl Bursts {
    /// Those of the event loop `index`.
    pub(super) fn new(index: usize) -> Self {
        Bursts {
            here: Burst::new(index, Lane::Read),
            reads: Burst::new(index, Lane::Read),
            left: Burst::new(index, Lane::Read),
            writes: Burst::new(index, Lane::Write),
            reads_in_flight: 0,
            writes_in_flight: 0,
            at_hand: AtHand::default(),
        }
    }

    /// A burst has come back from a worker.
    pub(super) fn note_done(&mut self, lane: Lane) {
        match lane {
            Lane::Read => self.reads_in_flight -= 1,
            Lane::Write => self.writes_in_flight -= 1,
            Lane::Long | Lane::Sql => {}
        }
    }
}

/// The burst, to be handed out, if there is something in it and fewer than `most` are under way.
fn take(burst: &mut Burst, in_flight: &mut usize, most: usize) -> Option<Burst> {
    if burst.owners.is_empty() || *in_flight >= most {
        return None;
    }
    *in_flight += 1;
    let next = Burst::new(burst.from, burst.lane);
    Some(replace(burst, next))
}

impl EventLoop {
    /// Decides where the next requests of `work` run.
    fn decide(&self, work: &Planned) -> Place {
        let databases = &self.service.databases;
        let mut may_wait = false;
        let mut changes = false;
        for (index, request) in work.left().iter().enumerate() {
            if request.is_ready() {
                continue;
            }
            let engine = databases.opened(usize::from(request.db));
            let long = request.long || engine.is_none();
            match (long, index) {
                (true, 0) if request.is_sql() => {
                    let statements = work.left().iter().take_while(|request| request.is_sql());
                    return Place::Worker(Lane::Sql, work.next + statements.count());
                }
                (true, 0) => return Place::Worker(Lane::Long, work.next + 1),
                (true, _) if index > 0 => {
                    let lane = if changes { Lane::Write } else { Lane::Read };
                    let end = work.next + index;
                    return if may_wait { Place::Worker(lane, end) } else { Place::Here(end) };
                }
                _ => {}
            }
            may_wait |= engine.is_some_and(|engine| engine.descriptor().capabilities.may_wait);
            changes |= request.changes();
        }
        let end = work.input.requests.len();
        match (may_wait, changes) {
            (false, _) => Place::Here(end),
            (true, false) => Place::Worker(Lane::Read, end),
            (true, true) => Place::Worker(Lane::Write, end),
        }
    }

    /// Adds a connection's requests to the burst that they belong to.
    pub(super) fn place(&mut self, slot: usize) {
        let Some(conn) = &mut self.conns[slot] else { return };
        if conn.parked {
            return;
        }
        let Some(mut work) = conn.planned.take() else { return };
        if self.service.holds(&work.input, work.left(), self.now_ms) {
            conn.planned = Some(work);
            self.held.insert(slot);
            return;
        }
        conn.woken = false;
        work.input.may_wait = true;
        conn.in_flight = Some(work.input.held_bytes());
        conn.tell_if_left();
        let owner = conn.owner;
        let place = self.decide(&work);
        let (Place::Here(end) | Place::Worker(_, end)) = place;
        let out = self.spare_bytes.pop().unwrap_or_default();
        let output = Output::new(out, work.next, end);
        match place {
            Place::Here(_) => self.bursts.here.push(owner, work.input, output),
            Place::Worker(Lane::Read, _) => self.bursts.reads.push(owner, work.input, output),
            Place::Worker(Lane::Write, _) => self.bursts.writes.push(owner, work.input, output),
            Place::Worker(lane @ (Lane::Long | Lane::Sql), _) => {
                let mut burst = Burst::new(self.index, lane);
                burst.push(owner, work.input, output);
                self.hand_over(burst);
            }
        }
    }

    /// Hands a burst to the workers.
    fn hand_over(&self, mut burst: Burst) {
        burst.queued_ns = self.service.queued_ns();
        self.shared.pools.push(burst);
    }

    /// Runs or hands out the bursts that this turn has collected.
    pub(super) fn dispatch(&mut self) {
        self.read_at_hand();
        // While as many are under way as workers can share, the next burst goes on growing.
        let in_flight_max = self.shared.pools.workers_of_loop();
        let writes_max = self.shared.write_bursts_max();
        let bursts = &mut self.bursts;
        let reads = take(&mut bursts.left, &mut bursts.reads_in_flight, in_flight_max);
        let writes = take(&mut bursts.writes, &mut bursts.writes_in_flight, writes_max);
        [reads, writes].into_iter().flatten().for_each(|burst| self.hand_over(burst));
        if !self.bursts.here.owners.is_empty() {
            let index = self.index;
            let mut burst = replace(&mut self.bursts.here, Burst::new(index, Lane::Read));
            self.run_here(&mut burst, Executor::run);
            self.bursts.here = burst;
        }
    }

    /// Answers the reads that memory has the answers to; the others are left to workers.
    fn read_at_hand(&mut self) {
        if self.bursts.reads.owners.is_empty() {
            return;
        }
        let mut burst = replace(&mut self.bursts.reads, Burst::new(self.index, Lane::Read));
        if self.bursts.at_hand.is_worth_a_try() {
            let asked = burst.owners.len();
            let run = |executor: &mut Executor, burst: &mut Burst| executor.run_at_hand(burst);
            if !self.catch(&mut burst, run) {
                burst.move_unfinished(&mut self.bursts.left);
                self.bursts.at_hand.note(burst.owners.len(), asked);
            }
            self.complete(&mut burst);
            burst.broken = false;
        } else {
            burst.move_unfinished(&mut self.bursts.left);
        }
        // Its lists are used again.
        self.bursts.reads = burst;
    }

    /// Runs a burst on this thread; its lists may be used again.
    fn run_here(&mut self, burst: &mut Burst, run: impl FnOnce(&mut Executor, &mut Burst)) {
        self.catch(burst, run);
        self.complete(burst);
        burst.broken = false;
    }

    /// Runs a burst on this thread; true if an engine panicked, and the burst is broken.
    fn catch(&mut self, burst: &mut Burst, run: impl FnOnce(&mut Executor, &mut Burst)) -> bool {
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut self.executor, burst)));
        burst.broken = ran.is_err();
        if burst.broken {
            log::error!("a request made an engine panic; its connections are closed");
            self.executor = Executor::new(Arc::clone(&self.service));
        }
        burst.broken
    }

    /// Takes a burst's replies back to its connections; nothing is left in it.
    pub(super) fn complete(&mut self, burst: &mut Burst) {
        let parts = burst.owners.drain(..).zip(burst.inputs.drain(..));
        let parts = parts.zip(burst.outputs.drain(..));
        for ((owner, mut input), output) in parts {
            output.mark_postponed(&mut input);
            let slot = owner.slot;
            let conn = match self.conns.get_mut(slot) {
                Some(Some(conn)) if conn.owner == owner => conn,
                _ => {
                    self.recycle(input);
                    self.keep_bytes(output.out);
                    continue;
                }
            };
            conn.in_flight = None;
            conn.received_ms = self.now_ms;
            if burst.broken {
                self.close(slot);
                continue;
            }
            let unused = conn.push(output.out);
            // From here on the connection counts it.
            drop(output.claim);
            let wait = output.waits;
            input.waited = Waited::Not;
            if output.next < input.requests.len() {
                conn.planned = Some(Planned { input, next: output.next });
            } else {
                self.recycle(input);
            }
            unused.into_iter().for_each(|bytes| self.keep_bytes(bytes));
            self.park(slot, wait.as_ref());
            if self.send(slot).is_err() {
                self.close(slot);
                continue;
            }
            self.count_bytes(slot);
            if self.conns[slot].as_ref().is_some_and(|conn| conn.has_more()) {
                self.queue(slot);
            }
        }
    }
}
