//! Connections whose next request waits for something: BLPOP and the like.

use super::{EventLoop, TICK_MS};
use silica_commands::{Wait, Waited};
use std::sync::atomic::Ordering::Relaxed;

impl EventLoop {
    /// Parks connection `slot` if its next request waits; else it waits no more.
    pub(super) fn park(&mut self, slot: usize, wait: Option<&Wait>) {
        let Some(conn) = &mut self.conns[slot] else { return };
        let Some(wait) = wait else {
            if conn.waits_until_ms.take().is_some() {
                conn.state.client.waits.store(false, Relaxed);
            }
            return;
        };
        let now_ms = self.service.monotonic_ms();
        let end = wait.timeout_ms().map_or(u64::MAX, |ms| now_ms.saturating_add(ms));
        let until_ms = *conn.waits_until_ms.get_or_insert(end);
        conn.state.client.waits.store(true, Relaxed);
        if !conn.woken {
            conn.parked = true;
            self.parked.insert((until_ms, slot));
        }
    }

    /// Lets the request that connection `slot` waits with run anew.
    pub(super) fn unpark(&mut self, slot: usize, waited: Waited) {
        let Some(conn) = &mut self.conns[slot] else { return };
        conn.woken = true;
        if !conn.parked {
            return;
        }
        conn.parked = false;
        self.parked.remove(&(conn.waits_until_ms.unwrap_or(u64::MAX), slot));
        if let Some(planned) = &mut conn.planned {
            planned.input.waited = waited;
        }
        self.queue(slot);
    }

    /// Milliseconds until the first wait ends.
    pub(super) fn parked_ms(&self) -> u64 {
        let first = self.parked.first().map(|(until_ms, _)| *until_ms);
        first.map_or(TICK_MS, |until_ms| until_ms.saturating_sub(self.service.monotonic_ms()))
    }

    /// Ends the waits whose time is over.
    pub(super) fn end_waits(&mut self) {
        while let Some((until_ms, slot)) = self.parked.first().copied()
            && until_ms <= self.now_ms
        {
            self.unpark(slot, Waited::TimedOut);
        }
    }
}
