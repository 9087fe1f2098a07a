//! How readers and writers of a TurboHash bucket meet, under a model checker: every interleaving,
//! and every value that the memory model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU16, Ordering, fence};
}

#[path = "../src/turbo/protocol.rs"]
#[allow(clippy::module_inception)]
mod protocol;

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU16, AtomicU64};
use loom::thread;
use protocol::{Words, is_unchanged, mark_passed, publish, write_slot};

/// A commit word, and two slots of key and value. The lowest bits of the commit word say which
/// slots are in use, the others are the sequence number.
struct Bucket([AtomicU64; 5]);

const SEQUENCE: u64 = 4;

impl Words for Bucket {
    fn load(&self, at: u64) -> u64 {
        self.0[at as usize / 8].load(Acquire)
    }

    fn word(&self, at: u64) -> u64 {
        self.0[at as usize / 8].load(Relaxed)
    }

    fn store(&self, at: u64, value: u64) {
        self.0[at as usize / 8].store(value, Release);
    }
}

fn slot_at(slot: u64) -> u64 {
    8 + 16 * slot
}

/// What a reader does with a bucket in which it found nothing.
#[derive(Clone, Copy, PartialEq)]
enum Miss {
    Checked,
    Believed,
}

impl Bucket {
    /// Slot 0 has key 1 with value 10.
    fn new() -> Bucket {
        Bucket([1, 1, 10, 0, 0].map(AtomicU64::new))
    }

    /// Stores an entry in a free slot, and a commit word with these slots in use.
    fn commit(&self, slot: u64, entry: [u64; 2], used: u64) {
        write_slot(self, slot_at(slot), entry);
        self.commit_only(used);
    }

    fn commit_only(&self, used: u64) {
        let sequence = self.word(0) / SEQUENCE + 1;
        publish(self, 0, (sequence * SEQUENCE) | used);
    }

    /// The value of a key; `Err` if the reader would try again.
    fn get(&self, key: u64, miss: Miss) -> Result<Option<u64>, ()> {
        let seen = self.load(0);
        for slot in (0..2).filter(|slot| seen >> slot & 1 == 1) {
            let found = [self.word(slot_at(slot)), self.word(slot_at(slot) + 8)];
            if found[0] == key {
                return if is_unchanged(self, 0, seen) { Ok(Some(found[1])) } else { Err(()) };
            }
        }
        if miss == Miss::Believed || is_unchanged(self, 0, seen) { Ok(None) } else { Err(()) }
    }

    /// Key 1 is updated, so it moves to slot 1; then key 2 takes slot 0.
    fn update_and_insert(&self) {
        self.commit(1, [1, 11], 0b10);
        self.commit(0, [2, 20], 0b11);
    }
}

/// Calls `read` in one thread while another one writes.
fn meet(read: impl Fn(&Bucket) + Send + Sync + 'static, write: fn(&Bucket)) {
    let read = std::sync::Arc::new(read);
    loom::model(move || {
        let bucket = Arc::new(Bucket::new());
        let (other, read) = (bucket.clone(), read.clone());
        let reader = thread::spawn(move || read(&other));
        write(&bucket);
        reader.join().unwrap();
    });
}

#[test]
fn a_key_that_is_updated_is_never_missed() {
    let read = |bucket: &Bucket| {
        if let Ok(found) = bucket.get(1, Miss::Checked) {
            assert!(matches!(found, Some(10 | 11)), "{found:?}");
        }
    };
    meet(read, Bucket::update_and_insert);
}

/// The paper's search checks hits only. Algorithm 1 would find nothing here.
#[test]
#[should_panic(expected = "missed")]
fn a_miss_that_is_not_checked_misses_a_live_key() {
    let read = |bucket: &Bucket| {
        let found = bucket.get(1, Miss::Believed);
        assert!(found != Ok(None), "missed a key that is there all the time");
    };
    meet(read, Bucket::update_and_insert);
}

#[test]
fn a_slot_that_is_used_again_is_not_taken_for_what_was_there() {
    let read = |bucket: &Bucket| {
        if let Ok(found) = bucket.get(2, Miss::Checked) {
            assert!(matches!(found, None | Some(20)), "{found:?} of another key");
        }
    };
    meet(read, |bucket| {
        bucket.commit_only(0);
        bucket.commit(0, [2, 20], 0b01);
        bucket.commit_only(0);
        bucket.commit(0, [1, 12], 0b01);
    });
}

#[test]
fn a_deleted_key_is_there_or_not() {
    let read = |bucket: &Bucket| {
        if let Ok(found) = bucket.get(1, Miss::Checked) {
            assert!(matches!(found, None | Some(10)), "{found:?}");
        }
    };
    meet(read, |bucket| {
        bucket.commit_only(0);
        bucket.commit(0, [2, 20], 0b01);
    });
}

/// A batch that finds no free slot replaces the value of a slot in use, and then its commit word.
#[test]
fn a_value_that_is_replaced_in_its_slot_is_whole() {
    let read = |bucket: &Bucket| {
        if let Ok(found) = bucket.get(1, Miss::Checked) {
            assert!(matches!(found, Some(10 | 11)), "{found:?}");
        }
    };
    meet(read, |bucket| {
        bucket.store(slot_at(0) + 8, 11);
        bucket.commit_only(0b01);
    });
}

/// A shard that gets other buckets. The memory of the old ones is used again once no reader is
/// pinned, as epochs have it.
struct Shard {
    /// Which of both has the buckets.
    descriptor: AtomicU64,
    buckets: [Bucket; 2],
    pinned: AtomicU64,
}

impl Shard {
    fn get(&self, key: u64) -> Result<Option<u64>, ()> {
        self.pinned.store(1, Relaxed);
        sync::fence(SeqCst);
        let bucket = &self.buckets[self.descriptor.load(Acquire) as usize];
        let found = bucket.get(key, Miss::Checked);
        self.pinned.store(0, Release);
        found
    }

    fn resize(&self) {
        // In memory of its own: whole before the descriptor names it.
        for (at, value) in [4, 0, 0, 1, 10].into_iter().enumerate() {
            self.buckets[1].0[at].store(value, Relaxed);
        }
        let commit = self.buckets[1].word(0) | 0b10;
        self.buckets[1].0[0].store(commit, Relaxed);
        self.descriptor.store(1, Release);
    }

    fn use_old_again(&self) {
        sync::fence(SeqCst);
        if self.pinned.load(Acquire) == 0 {
            for word in &self.buckets[0].0 {
                word.store(77, Relaxed);
            }
        }
    }
}

#[test]
fn a_reader_finds_old_or_new_buckets_whole() {
    loom::model(|| {
        let zeroes = || Bucket([0; 5].map(AtomicU64::new));
        let shard = Arc::new(Shard {
            descriptor: AtomicU64::new(0),
            buckets: [Bucket::new(), zeroes()],
            pinned: AtomicU64::new(0),
        });
        let other = shard.clone();
        let reader = thread::spawn(move || {
            if let Ok(found) = other.get(1) {
                assert_eq!(found, Some(10));
            }
        });
        shard.resize();
        shard.use_old_again();
        reader.join().unwrap();
    });
}

/// A full bucket, what has passed it, and the bucket behind it: [`Bucket`] with key 1 in slot 1.
struct TwoBuckets {
    full: Bucket,
    passed: AtomicU16,
    behind: Bucket,
}

impl TwoBuckets {
    fn new() -> TwoBuckets {
        let empty = || Bucket([0; 5].map(AtomicU64::new));
        TwoBuckets { full: empty(), passed: AtomicU16::new(0), behind: empty() }
    }

    /// True if a search that begins at the full bucket finds key 1 behind it.
    fn finds_behind(&self) -> bool {
        let seen = self.full.load(0);
        let has_passed = self.passed.load(Relaxed) & 2 != 0;
        assert!(is_unchanged(&self.full, 0, seen), "nobody changes it");
        has_passed && self.behind.load(0) & 2 == 2 && self.behind.word(slot_at(1)) == 1
    }

    fn insert_behind(&self, is_marked_first: bool) {
        if is_marked_first {
            mark_passed(&self.passed, 2);
        }
        write_slot(&self.behind, slot_at(1), [1, 10]);
        publish(&self.behind, 0, SEQUENCE | 2);
        if !is_marked_first {
            mark_passed(&self.passed, 2);
        }
    }
}

/// A reader that has seen the commit word of a key finds it from its home on.
fn meet_behind(is_marked_first: bool) {
    loom::model(move || {
        let buckets = Arc::new(TwoBuckets::new());
        let other = buckets.clone();
        let reader = thread::spawn(move || {
            if other.behind.load(0) & 2 == 2 {
                assert!(other.finds_behind(), "missed");
            }
        });
        buckets.insert_behind(is_marked_first);
        reader.join().unwrap();
    });
}

#[test]
fn a_key_that_is_visible_is_not_hidden_by_the_bucket_before() {
    meet_behind(true);
}

#[test]
#[should_panic(expected = "missed")]
fn a_key_that_is_visible_before_memory_says_so_is_missed() {
    meet_behind(false);
}
