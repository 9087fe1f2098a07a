//! A watch over the room on a device, for engines that keep some of it for their maintenance.
//!
//! Maintenance writes its output before its inputs go, so an engine refuses puts while less is free
//! than that may take: room is *short* then, and maintenance does what frees space. A put that was
//! refused is *wanted*: until there is room for it, or nothing is left to do, room counts as short,
//! and nothing that would be freed is too little.

use silica_device::Device;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Sixteen writers who count at the end of as many parts count what makes a look due.
const UNCOUNTED_PART: u64 = 16;
/// The most bytes of a refused put that work makes room for.
const WANTED_BYTES_MAX: u64 = 4 << 20;
/// The share of a segment of the value log, in percent, that is garbage at which it is emptied
/// while room is short; and after a put was refused.
const SHORT_DEAD_PERCENT: u64 = 25;
const WANTED_DEAD_PERCENT: u64 = 1;
/// Tries to make room that all refused puts share, beyond those that each one has.
const SHARED_TRIES_MAX: u64 = 512;

/// Bytes that are free on `device`. One that does not tell is taken to have room: it will say when
/// it has not.
pub fn free_bytes<D: Device>(device: &D) -> u64 {
    device.free_bytes().unwrap_or(u64::MAX / 2)
}

/// What an engine knows of the room on its device.
#[derive(Debug, Default)]
pub struct RoomWatch {
    is_short: AtomicBool,
    /// Bytes written since the last look, and at how many the next one is due.
    unseen_bytes: AtomicU64,
    look_at_bytes: AtomicU64,
    /// Bytes of a put that was refused; 0 for none.
    wanted_bytes: AtomicU64,
    /// The most that was free since room became short, as refused puts saw it, and how many shared
    /// tries were taken since.
    most_free_bytes: AtomicU64,
    shared_tries: AtomicU64,
}

impl RoomWatch {
    /// True while less is free than maintenance may need.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Room counts as short until the next look.
    pub fn set_short(&self) {
        self.is_short.store(true, Ordering::Relaxed);
    }

    /// Counts bytes written.
    #[inline]
    pub fn count(&self, bytes: u64) {
        self.unseen_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that one of many writers may keep to itself before it counts them.
    #[inline]
    pub fn uncounted_bytes_max(&self) -> u64 {
        self.look_at_bytes.load(Ordering::Relaxed) / UNCOUNTED_PART
    }

    /// True if so many bytes were written since the last look that another is due.
    #[inline]
    pub fn is_look_due(&self) -> bool {
        let look_at = self.look_at_bytes.load(Ordering::Relaxed);
        self.unseen_bytes.load(Ordering::Relaxed) >= look_at
    }

    /// Sets after how many bytes of writes the next look is due.
    pub fn look_after(&self, bytes: u64) {
        self.look_at_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Compares what is free with what maintenance needs beside `more` bytes. Where that is too
    /// little it is asked for again once `give_back` has freed some. Returns true if less is free
    /// than both take, and how much more is free than maintenance and what is wanted take.
    pub fn look(
        &self,
        needed: u64,
        more: u64,
        free: impl Fn() -> u64,
        give_back: impl FnOnce() -> u64,
    ) -> (bool, u64) {
        self.unseen_bytes.store(0, Ordering::Relaxed);
        let most = needed + more.max(self.wanted_bytes());
        let mut left = free();
        if left < most && give_back() > 0 {
            left = free();
        }
        self.is_short.store(left < most, Ordering::Relaxed);
        if left >= most {
            self.wanted_bytes.store(0, Ordering::Relaxed);
            self.most_free_bytes.store(0, Ordering::Relaxed);
        }
        (left < needed + more, left.saturating_sub(most))
    }

    /// A put of `bytes` was refused: work is to make room for it.
    pub fn want(&self, bytes: u64) {
        self.wanted_bytes.fetch_max(bytes.clamp(1, WANTED_BYTES_MAX), Ordering::Relaxed);
        self.set_short();
    }

    /// True if a put may try once more which its own tries did not help, where `free` bytes are
    /// free now. A try is a piece of work, or a short wait for work of others. All puts share so
    /// many, which begin anew when more is free than at any time since room became short: puts
    /// wait as long as work frees space, and where none does, many clients together do not stand
    /// still for long.
    pub fn may_try_on(&self, free: u64) -> bool {
        if free > self.most_free_bytes.fetch_max(free, Ordering::Relaxed) {
            self.shared_tries.store(0, Ordering::Relaxed);
        }
        self.shared_tries.fetch_add(1, Ordering::Relaxed) < SHARED_TRIES_MAX
    }

    /// Bytes of a put that was refused and that work is to make room for; 0 for none.
    pub fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes.load(Ordering::Relaxed)
    }

    /// True if work is to make room for a put that was refused.
    pub fn is_wanted(&self) -> bool {
        self.wanted_bytes() > 0
    }

    /// Nothing is left to do that would free any: the next refused put asks again. Returns true if
    /// one had asked, and another look is due.
    pub fn stop_wanting(&self) -> bool {
        self.wanted_bytes.swap(0, Ordering::Relaxed) > 0
    }

    /// The share of a segment of the value log, in percent, that is garbage at which it is emptied
    /// now; `usual` while there is room.
    pub fn dead_percent(&self, usual: u64) -> u64 {
        match (self.is_short(), self.is_wanted()) {
            (true, true) => usual.min(WANTED_DEAD_PERCENT),
            (true, false) => usual.min(SHORT_DEAD_PERCENT),
            (false, _) => usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_short_until_it_suffices_for_what_was_refused() {
        let watch = RoomWatch::default();
        let look = |free: u64, more: u64| watch.look(100, more, || free, || 0);
        assert_eq!((look(150, 0), watch.is_short()), ((false, 50), false));
        assert_eq!((look(150, 60), watch.is_short()), ((true, 0), true));
        assert_eq!(watch.dead_percent(50), SHORT_DEAD_PERCENT);
        watch.want(60);
        assert_eq!(watch.dead_percent(50), WANTED_DEAD_PERCENT);
        // Enough for maintenance alone, and not for the put that was refused.
        assert_eq!((look(150, 0), watch.is_short(), watch.is_wanted()), ((false, 0), true, true));
        assert_eq!((look(160, 0), watch.is_short(), watch.is_wanted()), ((false, 0), false, false));
        assert_eq!(watch.dead_percent(50), 50);
    }

    #[test]
    fn what_is_wanted_is_bounded_and_ends_where_nothing_is_left_to_do() {
        let watch = RoomWatch::default();
        watch.want(0);
        assert!(watch.is_short() && watch.is_wanted(), "a put of nothing wants room, too");
        watch.want(u64::MAX);
        assert_eq!(watch.wanted_bytes(), WANTED_BYTES_MAX);
        assert!(watch.stop_wanting());
        assert!(!watch.stop_wanting() && !watch.is_wanted());
    }

    #[test]
    fn refused_puts_try_on_while_more_becomes_free() {
        let watch = RoomWatch::default();
        let tries = |free: u64| (0..2000).filter(|_| watch.may_try_on(free)).count() as u64;
        assert_eq!(tries(100), SHARED_TRIES_MAX);
        assert_eq!(tries(100) + tries(99), 0, "nothing became free");
        assert_eq!(tries(101), SHARED_TRIES_MAX, "something did");
        assert_eq!(tries(50), 0);
        assert!(!watch.look(10, 10, || 50, || 0).0, "there is room");
        assert_eq!(tries(50), SHARED_TRIES_MAX, "it is short once more");
    }

    #[test]
    fn what_is_given_back_counts() {
        let (watch, free) = (RoomWatch::default(), AtomicU64::new(50));
        let give_back = || free.fetch_add(60, Ordering::Relaxed);
        let seen = watch.look(100, 0, || free.load(Ordering::Relaxed), give_back);
        assert_eq!((seen, watch.is_short()), ((false, 10), false));
    }

    #[test]
    fn looks_are_due_after_so_many_bytes() {
        let watch = RoomWatch::default();
        watch.look_after(10);
        watch.count(9);
        assert!(!watch.is_look_due());
        watch.count(1);
        assert!(watch.is_look_due());
        watch.look(0, 0, || 0, || 0);
        assert!(!watch.is_look_due());
    }
}
