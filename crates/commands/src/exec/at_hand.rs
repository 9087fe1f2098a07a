//! Reads on a thread that may not wait: as far as memory has the answers.

use super::routing::Stops;
use super::staged::Staged;
use super::timer::BurstTimer;
use super::{Executor, Slot, Uncommitted, Wave, WaveKind, commit, next_part, out_bytes};
use crate::burst::Burst;
use std::sync::Arc;

impl Executor {
    /// Answers a burst of reads as far as their engines have the answers in memory, and waits for
    /// no device. Each connection's requests are answered in their order, up to the first whose
    /// answer is not there; [`Executor::run`] goes on from there on a thread that may wait.
    pub fn run_at_hand(&mut self, burst: &mut Burst) {
        let service = Arc::clone(&self.service);
        // Whoever looks for where reads spend their time wants to see all of them in one place.
        if service.slowlog.shows_stages() {
            return;
        }
        let timer = BurstTimer::start(&service, burst);
        self.now_ms = service.unix_ms();
        self.is_at_hand = true;
        let done_before: usize = burst.outputs.iter().map(|output| output.next).sum();
        let mut done = done_before;
        let turn = self.turn();
        let entered = service.databases.enter(&turn);
        let mut stops = Stops::default();
        self.route(burst, &mut stops);
        let (inputs, outputs) = (&burst.inputs[..], &mut burst.outputs[..]);
        while let Some((_, db)) = next_part(inputs, outputs)
            && let Some(engine) = service.databases.opened(db)
            && out_bytes(outputs) < self.out_bytes_max()
        {
            let mut wave = Wave { db, kind: WaveKind::Burst, engine, inputs, outputs };
            self.reads(&mut wave);
            let now = outputs.iter().map(|output| output.next).sum();
            // What comes next is not at hand, or is no read.
            if !self.left.is_empty() || now == done {
                done = now;
                break;
            }
            done = now;
        }
        drop(entered);
        stops.lift(outputs);
        self.is_at_hand = false;
        self.left.clear();
        self.forget(outputs);
        let requests = done - done_before;
        if requests > 0 {
            service.stats.count_burst(burst.lane, requests);
            let uncommitted = Uncommitted { timer, staged: Staged::default(), requests, dirty: 0 };
            commit(&service, [(burst, uncommitted)]);
        }
    }

    /// Marks the keys that were not at hand.
    pub(super) fn defer_left(&mut self) {
        for index in &self.left {
            self.slots[*index] = Slot::Deferred;
        }
    }
}
