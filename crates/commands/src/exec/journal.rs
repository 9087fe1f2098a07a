//! What a burst has changed, for those who want to know.

use crate::replication::Effects;
use crate::resp::events::Event;
use crate::service::Service;
use crate::tracking::Changed;

/// What was changed, in the order in which it was, until it is told.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    changed: Vec<Changed>,
    /// All keys of a database were removed, or may have been changed.
    is_everything: bool,
    /// What is told as keyspace notifications.
    pub(crate) events: Vec<Event>,
    /// What replicas are told.
    pub(crate) effects: Effects,
}

impl Journal {
    /// The connection `writer` has changed `key`; 0 for none.
    pub(crate) fn change(&mut self, writer: u64, key: &[u8]) {
        self.changed.push((writer, key.into()));
    }

    /// Any key may have been changed.
    pub(crate) fn change_everything(&mut self) {
        self.is_everything = true;
    }

    /// Goes on with what another one has noted.
    pub(crate) fn absorb(&mut self, mut other: Journal) {
        self.effects.append(&mut other.effects);
        self.changed.extend(other.changed);
        self.is_everything |= other.is_everything;
        self.events.extend(other.events);
    }

    /// Tells who wants to know what has happened, of which the last was at `now_ms`, and forgets
    /// it. What is told must be visible by now.
    pub(crate) fn tell(&mut self, service: &Service, now_ms: u64) {
        if self.is_everything {
            self.is_everything = false;
            service.tracking.tell_everything(service);
            service.wake_all(service.waiters.all());
        }
        if !self.changed.is_empty() {
            if service.tracking.is_told() {
                service.tracking.tell(service, &self.changed);
            }
            if service.waiters.any() {
                let keys = self.changed.iter().map(|(_, key)| &**key);
                service.wake_all(service.waiters.of_keys(keys));
            }
            self.changed.clear();
        }
        if !self.events.is_empty() {
            service.events.tell(service, now_ms, self.events.drain(..));
        }
    }
}
