//! Keyspace notifications: what becomes of keys, as messages of channels.
//!
//! `notify-keyspace-events` says which classes of events are told ([`classes`]); [`names`] says
//! which events a command makes of what it has done. They are told when a burst has run, in the
//! order in which it has done things; those of a transaction or script when all of it is visible.
//! If none are told, all of this costs a load for each wave of a burst.
//!
//! Engines forget expired entries without telling. [`timers`] know when keys expire that commands
//! have written, and at their time it is looked whether they are gone.

mod classes;
mod names;
mod timers;

pub(crate) use self::classes::Classes;
pub(crate) use self::names::{miss, of_across, of_alone, of_update, of_write};
pub(crate) use self::timers::burst as timers_burst;

pub(crate) use self::timers::Timers;
use crate::budget::{Budget, Share};
use crate::push::Kind;
use crate::service::Service;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// What is known afterwards of the time when a key expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// As before.
    Same,
    /// At this time in Unix milliseconds; 0 for never, or if the key is gone.
    At(u64),
    /// The key has given its time to another one of its database.
    To(Box<[u8]>),
    /// When another key, of this database, expires.
    Of(u8, Box<[u8]>),
}

/// Something that became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) db: u8,
    pub(crate) key: Box<[u8]>,
    pub(crate) class: Classes,
    /// Nothing is told if it is empty.
    pub(crate) name: &'static str,
    pub(crate) expiry: Expiry,
}

/// Which events are told.
#[derive(Debug)]
pub(crate) struct Events {
    classes: AtomicU16,
    timers: Timers,
}

impl Events {
    /// None; what is kept for them counts in `budget`.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        let timers = Timers::new(Share::new(budget), budget.max());
        Events { classes: AtomicU16::new(0), timers }
    }

    /// The classes of the setting.
    pub(crate) fn classes(&self) -> Classes {
        Classes::of_bits(self.classes.load(Relaxed))
    }

    /// Sets the classes that are told.
    pub(crate) fn set_classes(&self, classes: Classes) {
        self.classes.store(classes.bits(), Relaxed);
        if !self.told().has(Classes::EXPIRED) {
            self.timers.clear(None);
        }
    }

    /// The classes that are told; none if no kind of message is chosen.
    #[inline]
    pub(crate) fn told(&self) -> Classes {
        let classes = self.classes();
        if classes.is_on() { classes } else { Classes::NONE }
    }

    /// True if the times of expiry of some keys are known to be over at `now_ms`.
    pub(crate) fn has_due(&self, now_ms: u64) -> bool {
        self.timers.has_due(now_ms)
    }

    /// All keys of a database were removed; without one, those of several were, or are others.
    pub(crate) fn forget_databases(&self, only: Option<u8>) {
        self.timers.clear(only);
    }

    /// Tells `events`, which have happened at `now_ms`.
    pub(crate) fn tell(&self, service: &Service, now_ms: u64, events: impl Iterator<Item = Event>) {
        let told = self.told();
        let keeps_time = told.has(Classes::EXPIRED);
        for event in events {
            if keeps_time {
                if self.timers.take_if_due(event.db, &event.key, now_ms) {
                    publish(service, told, event.db, &event.key, "expired");
                }
                self.timers.note(&event);
            }
            if told.has(event.class) && !event.name.is_empty() {
                publish(service, told, event.db, &event.key, event.name);
            }
        }
    }

    /// Tells that a key has expired, if it was not told before.
    fn tell_expired(&self, service: &Service, db: u8, key: &[u8], now_ms: u64) {
        if self.timers.take_if_due(db, key, now_ms) {
            publish(service, self.told(), db, key, "expired");
        }
    }
}

/// Sends the messages of an event.
fn publish(service: &Service, told: Classes, db: u8, key: &[u8], name: &str) {
    let send = |channel: Vec<u8>, text: &[u8]| {
        if let Err(why) = service.publish_here(Kind::Channel, &channel, text) {
            log::warn!("an event is lost: {why}");
        }
    };
    if told.has(Classes::KEYSPACE) {
        send([format!("__keyspace@{db}__:").as_bytes(), key].concat(), name.as_bytes());
    }
    if told.has(Classes::KEYEVENT) {
        send(format!("__keyevent@{db}__:{name}").into_bytes(), key);
    }
}
