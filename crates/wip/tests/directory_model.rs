//! The directory under a model checker: every interleaving, and every value that the memory model
//! lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::AtomicU64;
    pub(crate) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    /// Two, so that keys go to their second lines soon.
    pub(crate) const TAG_GROUP: usize = 2;

    pub(crate) type Line = [AtomicU64; TAG_GROUP];

    pub(crate) struct Lines(Vec<Line>);

    impl Lines {
        pub(crate) fn zeroed(len: usize) -> Self {
            Lines((0..len).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect())
        }
    }

    impl std::ops::Deref for Lines {
        type Target = [Line];

        fn deref(&self) -> &[Line] {
            &self.0
        }
    }

    pub(crate) fn prefetch(_: &[Line], _: usize) {}

    /// As the vectorised one, which loads relaxed as well.
    pub(crate) fn match_tags(words: &Line, tag: u16) -> u32 {
        let has_tag = |at: usize| u32::from((words[at].load(Relaxed) >> 48) as u16 == tag) << at;
        (0..TAG_GROUP).fold(0, |found, at| found | has_tag(at))
    }
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/memtable/entries.rs"]
mod entries;

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/memtable/directory.rs"]
mod directory;

use directory::{Directory, Inserted};
use entries::Entries;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use silica_parts::frame::Frame;
use std::sync::atomic::Ordering::Relaxed;

/// The keys of positions 1 and so on, from the first that is written to the last: versions of one,
/// and another whose tag is the same.
const KEYS: [&[u8]; 4] = [b"a", b"b", b"a", b"a"];
/// Of both keys: they differ in nothing that the directory looks at.
const HASH: u64 = 7;

/// A log of these entries, and what was written of each.
struct Log([AtomicU64; 4]);

impl Entries for Log {
    fn entry(&self, position: u64) -> Frame<'_> {
        let at = position as usize - 1;
        assert_eq!(self.0[at].load(Relaxed), position, "the entry was written before");
        Frame::put(KEYS[at], b"")
    }
}

struct Shared {
    directory: Directory,
    log: Log,
}

impl Shared {
    fn insert(&self, position: u64, kept_before: u64) -> Inserted {
        let at = position as usize - 1;
        self.log.0[at].store(position, Relaxed);
        let key = KEYS[at];
        let inserted = self.directory.insert(HASH, key, position, kept_before, &self.log);
        inserted.expect("there is room")
    }

    fn find(&self, before: u64) -> Option<u64> {
        let found = self.directory.find(HASH, b"a", before, &self.log)?;
        assert_eq!(found.entry.key, b"a");
        Some(found.position)
    }
}

/// A directory of position 1, to which others are added while `read` is at work; those before
/// `kept_before` stay.
fn model(kept_before: u64, read: fn(&Shared), inserted: [Inserted; 3]) {
    loom::model(move || {
        let log = Log(std::array::from_fn(|_| AtomicU64::new(0)));
        let shared = Arc::new(Shared { directory: Directory::new(2), log });
        assert_eq!(shared.insert(1, kept_before), Inserted::Added);
        let readers = shared.clone();
        let reader = thread::spawn(move || read(&readers));
        assert_eq!([2, 3, 4].map(|position| shared.insert(position, kept_before)), inserted);
        reader.join().expect("it ends");
        assert_eq!(shared.find(u64::MAX), Some(4));
    });
}

const ADDED: Inserted = Inserted::Added;
const IN_ONE_PLACE: [Inserted; 3] = [ADDED, Inserted::Replaced(1), Inserted::Replaced(3)];

#[test]
fn a_key_is_never_missing_and_never_goes_back_while_it_is_written_again() {
    let read = |shared: &Shared| {
        let first = shared.find(u64::MAX).expect("it was there");
        let second = shared.find(u64::MAX).expect("it was there");
        assert!([1, 3, 4].contains(&first) && first <= second, "{first}, then {second}");
    };
    model(0, read, IN_ONE_PLACE);
}

#[test]
fn a_reader_of_the_past_finds_what_was_there_then() {
    // The third version replaces the second, which nobody of the past sees.
    let read = |shared: &Shared| {
        assert_eq!(shared.find(2), Some(1));
        assert!(shared.find(u64::MAX).is_some_and(|position| [1, 3, 4].contains(&position)));
    };
    model(2, read, [ADDED, ADDED, Inserted::Replaced(3)]);
    model(4, read, [ADDED, ADDED, ADDED]);
}

#[test]
fn positions_are_of_entries_that_are_there() {
    let read = |shared: &Shared| {
        let positions = shared.directory.positions();
        assert!(positions.iter().any(|position| [1, 3, 4].contains(position)), "{positions:?}");
        positions.iter().for_each(|position| {
            shared.log.entry(*position);
        });
    };
    model(0, read, IN_ONE_PLACE);
}

/// Two insert at the same time; in the end the newest version of each key is there, and whoever
/// reads meanwhile never misses what was there.
#[test]
fn inserts_that_meet_leave_the_newest_version() {
    for ((one, other), newest) in [((3, 4), 4), ((4, 3), 4), ((2, 3), 3), ((2, 4), 4)] {
        loom::model(move || {
            let log = Log(std::array::from_fn(|_| AtomicU64::new(0)));
            let shared = Arc::new(Shared { directory: Directory::new(2), log });
            assert_eq!(shared.insert(1, 0), Inserted::Added);
            let others = shared.clone();
            let thread = thread::spawn(move || {
                let inserted = others.insert(other, 0);
                let found = others.find(u64::MAX).expect("it was there");
                assert!(KEYS[other as usize - 1] != b"a" || found >= other, "{found}");
                inserted
            });
            let first = shared.insert(one, 0);
            let found = shared.find(u64::MAX).expect("it was there");
            assert!(KEYS[one as usize - 1] != b"a" || found >= one, "{found}");
            let second = thread.join().expect("it ends");
            assert_eq!(shared.find(u64::MAX), Some(newest));
            let added = [first, second].iter().filter(|one| **one == Inserted::Added).count();
            assert_eq!(shared.directory.len(), 1 + added, "each has a slot of its own");
        });
    }
}

/// Both insert a key that is not there: each may have a slot, and the newest is found.
#[test]
fn a_new_key_may_take_two_slots() {
    loom::model(|| {
        let log = Log(std::array::from_fn(|_| AtomicU64::new(0)));
        let shared = Arc::new(Shared { directory: Directory::new(2), log });
        let others = shared.clone();
        let thread = thread::spawn(move || others.insert(3, 0));
        let first = shared.insert(1, 0);
        let second = thread.join().expect("it ends");
        assert_eq!(shared.find(u64::MAX), Some(3));
        assert!([first, second].contains(&Inserted::Added), "{first:?}, {second:?}");
        assert_eq!(shared.insert(4, 0), Inserted::Replaced(3));
    });
}
