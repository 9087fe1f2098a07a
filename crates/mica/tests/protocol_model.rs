//! The protocol of readers and writers under a model checker: every interleaving, and every value
//! that the memory model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[path = "../src/protocol.rs"]
mod protocol;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use protocol::{Lock, Refusal, begin_read, begin_write, end_read, end_write, retire};

/// A bucket with one slot, and a log of one place of two words; offsets grow by one an entry.
struct Shrunk {
    lock: Lock,
    bucket: AtomicU64,
    /// Offset and 1 of the bucket's entry; 0 is none.
    slot: AtomicU64,
    head: AtomicU64,
    place: [AtomicU64; 2],
}

/// A slot whose entry is in the other log.
const IN_MAIN: u64 = 1 << 40;

impl Shrunk {
    fn new() -> Arc<Shrunk> {
        let zero = || AtomicU64::new(0);
        Arc::new(Shrunk {
            lock: Lock::default(),
            bucket: zero(),
            slot: zero(),
            head: zero(),
            place: [zero(), zero()],
        })
    }

    fn store(&self, value: u64) {
        self.place.iter().for_each(|word| word.store(value, Relaxed));
    }

    /// Puts an entry at the tail of the log: it overwrites the oldest.
    fn append(&self, offset: u64, value: u64) {
        retire(&self.head, offset);
        self.store(value);
        assert!(begin_write(&self.bucket), "writers take turns");
        self.slot.store(offset + 1, Relaxed);
        end_write(&self.bucket);
    }

    /// An append whose entry belongs to another bucket: only the log changes.
    fn append_elsewhere(&self, offset: u64, value: u64) {
        retire(&self.head, offset);
        self.store(value);
    }

    fn update_in_place(&self, value: u64) {
        assert!(begin_write(&self.bucket), "writers take turns");
        assert!(!begin_write(&self.bucket), "a batch's next operation finds it begun");
        self.store(value);
        end_write(&self.bucket);
        end_write(&self.bucket);
    }

    /// A get where the entry may be in another log, whose head stays where it is.
    fn get_from(&self, main: &[AtomicU64; 2]) -> Result<Option<u64>, ()> {
        let seen = begin_read(&self.bucket).ok_or(())?;
        let slot = self.slot.load(Relaxed);
        let is_there = || slot == IN_MAIN || self.head.load(Relaxed) < slot;
        let found = is_there().then(|| {
            let place = if slot == IN_MAIN { main } else { &self.place };
            [place[0].load(Relaxed), place[1].load(Relaxed)]
        });
        if !end_read(&self.bucket, seen) {
            return Err(());
        }
        let Some([first, second]) = found else { return Ok(None) };
        // It may have begun to move since, and is elsewhere then: no reason to miss it.
        if !is_there() {
            return Err(());
        }
        assert_eq!(first, second, "an entry is whole");
        Ok(Some(first))
    }

    /// The bucket's entry; `Err` where a reader would try again.
    fn get(&self) -> Result<Option<u64>, ()> {
        let seen = begin_read(&self.bucket).ok_or(())?;
        let slot = self.slot.load(Relaxed);
        let words = [self.place[0].load(Relaxed), self.place[1].load(Relaxed)];
        if !end_read(&self.bucket, seen) {
            return Err(());
        }
        // Only offsets from the head on are there.
        if slot == 0 || slot - 1 < self.head.load(Relaxed) {
            return Ok(None);
        }
        assert_eq!(words[0], words[1], "an entry is whole");
        Ok(Some(words[0]))
    }
}

/// Calls `read` in one thread and `write` in another.
fn meet<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    read: impl FnOnce(&T) + Send + 'static,
    write: impl FnOnce(&Arc<T>),
) {
    let reader = shared.clone();
    let reader = thread::spawn(move || read(&reader));
    write(shared);
    reader.join().unwrap();
}

#[test]
fn an_update_in_place_is_seen_whole() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        shrunk.append(0, 7);
        let read = |shrunk: &Shrunk| {
            if let Ok(found) = shrunk.get() {
                assert!(matches!(found, Some(7 | 8)), "{found:?}");
            }
        };
        meet(&shrunk, read, |shrunk| shrunk.update_in_place(8));
        assert_eq!(shrunk.get(), Ok(Some(8)));
    });
}

#[test]
fn an_entry_that_the_log_overwrites_is_missing_or_whole() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        shrunk.append(0, 7);
        let read = |shrunk: &Shrunk| {
            // The bucket is never touched, so this reader need not try again.
            let found = shrunk.get().expect("nobody writes the bucket");
            assert!(matches!(found, None | Some(7)), "{found:?}");
        };
        meet(&shrunk, read, |shrunk| shrunk.append_elsewhere(1, 8));
        assert_eq!(shrunk.get(), Ok(None));
    });
}

/// An entry goes from the end of one log to another one, and its old place is written anew: nobody
/// misses it.
#[test]
fn an_entry_that_moves_to_another_log_is_always_there() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        shrunk.append(0, 7);
        let main = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let other = main.clone();
        let read = move |shrunk: &Shrunk| {
            if let Ok(found) = shrunk.get_from(&other) {
                assert_eq!(found, Some(7), "it is somewhere all the time");
            }
        };
        meet(&shrunk, read, |shrunk| {
            // Readers are turned away before the head moves.
            assert!(begin_write(&shrunk.bucket), "writers take turns");
            retire(&shrunk.head, 1);
            shrunk.store(8);
            main.iter().for_each(|word| word.store(7, Relaxed));
            shrunk.slot.store(IN_MAIN, Relaxed);
            end_write(&shrunk.bucket);
        });
    });
}

#[test]
fn whoever_finds_an_offset_finds_its_bytes() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        let read = |shrunk: &Shrunk| {
            if let Ok(found) = shrunk.get() {
                assert!(matches!(found, None | Some(7)), "{found:?}");
            }
        };
        meet(&shrunk, read, |shrunk| shrunk.append(0, 7));
    });
}

#[test]
fn an_owner_is_the_only_writer() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        let owner = shrunk.clone();
        let owner = thread::spawn(move || {
            if owner.lock.try_own() {
                assert!(!owner.lock.try_lock() && owner.lock.refusal() == Some(Refusal::Owned));
                owner.append(0, 7);
                owner.lock.unlock();
            }
        });
        if shrunk.lock.try_lock() {
            let value = shrunk.place[0].load(Relaxed);
            assert_eq!(shrunk.get(), Ok((value != 0).then_some(value)), "all or nothing of it");
            shrunk.update_in_place(8);
            shrunk.lock.unlock();
        }
        owner.join().unwrap();
        assert!(shrunk.lock.try_lock(), "nobody holds it any more");
    });
}

#[test]
fn writers_take_turns() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        let add = |shrunk: &Shrunk| {
            while !shrunk.lock.try_lock() {
                thread::yield_now();
            }
            // As a reader that is also the writer: two relaxed steps, which nobody may interleave.
            let value = shrunk.place[0].load(Relaxed);
            shrunk.update_in_place(value + 1);
            shrunk.lock.unlock();
        };
        let other = shrunk.clone();
        let other = thread::spawn(move || add(&other));
        add(&shrunk);
        other.join().unwrap();
        assert_eq!(shrunk.place[1].load(Relaxed), 2);
    });
}

/// Store mode: two buckets, and one block that their entries have in turn.
struct Reused {
    lock: Lock,
    buckets: [AtomicU64; 2],
    slots: [AtomicU64; 2],
    block: [AtomicU64; 2],
}

impl Reused {
    /// The entry 7 of the first bucket is in the block.
    fn new() -> Arc<Reused> {
        let two = |value| [AtomicU64::new(value), AtomicU64::new(value)];
        let reused =
            Reused { lock: Lock::default(), buckets: two(0), slots: two(0), block: two(7) };
        reused.slots[0].store(1, Relaxed);
        Arc::new(reused)
    }

    /// Gives the first bucket's block back; what is free has links in it.
    fn delete(&self) {
        self.slots[0].store(0, Relaxed);
        self.block[1].store(99, Relaxed);
    }

    fn put(&self) {
        self.block.iter().for_each(|word| word.store(8, Relaxed));
        self.slots[1].store(1, Relaxed);
    }

    fn get(&self, which: usize) -> Result<Option<u64>, ()> {
        let seen = begin_read(&self.buckets[which]).ok_or(())?;
        let slot = self.slots[which].load(Relaxed);
        let words = [self.block[0].load(Relaxed), self.block[1].load(Relaxed)];
        if !end_read(&self.buckets[which], seen) {
            return Err(());
        }
        Ok((slot != 0).then(|| {
            assert_eq!(words[0], words[1], "an entry is whole");
            words[0]
        }))
    }

    /// As a reader of the first bucket sees it while `write` is at work.
    fn check(write: impl Fn(&Arc<Reused>)) {
        let reused = Reused::new();
        let read = |reused: &Reused| {
            if let Ok(found) = reused.get(0) {
                assert!(matches!(found, None | Some(7)), "{found:?} of another key");
            }
        };
        meet(&reused, read, write);
        assert_eq!([reused.get(0), reused.get(1)], [Ok(None), Ok(Some(8))]);
    }

    /// One write with its bucket's readers turned away.
    fn step(&self, which: usize, write: impl Fn(&Reused)) {
        assert!(self.lock.try_lock(), "nobody else writes");
        assert!(begin_write(&self.buckets[which]), "writers take turns");
        write(self);
        end_write(&self.buckets[which]);
        self.lock.unlock();
    }
}

#[test]
fn a_block_that_is_used_again_is_not_taken_for_what_was_there() {
    loom::model(|| {
        Reused::check(|reused| {
            reused.step(0, Reused::delete);
            reused.step(1, Reused::put);
        });
    });
}

#[test]
fn a_block_that_another_writer_uses_again_is_not_taken_for_what_was_there() {
    loom::model(|| {
        Reused::check(|reused| {
            reused.step(0, Reused::delete);
            let other = reused.clone();
            thread::spawn(move || other.step(1, Reused::put)).join().unwrap();
        });
    });
}

#[test]
fn a_batch_may_use_a_block_again_that_it_gave_back() {
    loom::model(|| {
        Reused::check(|reused| {
            assert!(reused.lock.try_lock());
            reused.buckets.iter().for_each(|bucket| assert!(begin_write(bucket)));
            reused.delete();
            reused.put();
            reused.buckets.iter().for_each(end_write);
            reused.lock.unlock();
        });
    });
}

/// A batch that does not fit puts back what it gave back and overwrote, before readers come in.
#[test]
fn what_a_batch_takes_back_was_never_there() {
    loom::model(|| {
        let reused = Reused::new();
        let read = |reused: &Reused| {
            if let Ok(found) = reused.get(0) {
                assert_eq!(found, Some(7));
            }
        };
        meet(&reused, read, |reused| {
            reused.buckets.iter().for_each(|bucket| assert!(begin_write(bucket)));
            reused.delete();
            reused.put();
            reused.slots[1].store(0, Relaxed);
            reused.block.iter().for_each(|word| word.store(7, Relaxed));
            reused.slots[0].store(1, Relaxed);
            reused.buckets.iter().for_each(end_write);
        });
        assert_eq!(reused.get(0), Ok(Some(7)));
    });
}

#[test]
fn a_poisoned_lock_lets_in_who_mends() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        let writer = shrunk.clone();
        let writer = thread::spawn(move || {
            if writer.lock.try_lock() {
                begin_write(&writer.bucket);
                writer.store(7);
                writer.lock.poison();
                writer.lock.unlock();
            }
        });
        if shrunk.lock.refusal() == Some(Refusal::Poisoned) {
            assert!(!shrunk.lock.try_lock() && !shrunk.lock.try_own());
        }
        if shrunk.lock.try_mend() {
            assert_eq!(shrunk.place[0].load(Relaxed), 7, "who mends sees what was done");
            end_write(&shrunk.bucket);
            shrunk.lock.unlock();
        }
        writer.join().unwrap();
        assert!(shrunk.lock.try_lock() || shrunk.lock.try_mend());
    });
}

#[test]
fn a_closed_lock_lets_nobody_in() {
    loom::model(|| {
        let shrunk = Shrunk::new();
        let closer = shrunk.clone();
        let closer = thread::spawn(move || {
            if closer.lock.try_lock() {
                closer.append(0, 7);
                closer.lock.close();
            }
        });
        if shrunk.lock.try_own() {
            assert_eq!(shrunk.get(), Ok(None), "nobody has written, and nobody does");
            shrunk.lock.unlock();
        }
        closer.join().unwrap();
        if shrunk.lock.refusal() == Some(Refusal::Closed) {
            assert!(!shrunk.lock.try_lock() && !shrunk.lock.try_own());
            assert_eq!(shrunk.get(), Ok(Some(7)), "readers go on");
        }
    });
}

/// A large value of one chunk (`large.rs`): the list's bucket, the chunks' bucket with two slots,
/// and a place of two words for each.
struct Large {
    list: AtomicU64,
    /// The number of the put whose value is there.
    id: AtomicU64,
    chunks: AtomicU64,
    /// Numbers of the puts whose chunks are there; 0 is none.
    slots: [AtomicU64; 2],
    places: [[AtomicU64; 2]; 2],
}

impl Large {
    /// The value of put 1.
    fn new() -> Arc<Large> {
        let word = AtomicU64::new;
        Arc::new(Large {
            list: word(0),
            id: word(1),
            chunks: word(0),
            slots: [word(1), word(0)],
            places: [[word(1), word(1)], [word(0), word(0)]],
        })
    }

    fn set_slot(&self, slot: usize, id: u64) {
        assert!(begin_write(&self.chunks), "writers take turns");
        self.slots[slot].store(id, Relaxed);
        end_write(&self.chunks);
    }

    /// Puts the value of put 2: its chunk, its list; then the old chunk goes, and its place is
    /// used for something else.
    fn overwrite(&self) {
        self.places[1].iter().for_each(|word| word.store(2, Relaxed));
        self.set_slot(1, 2);
        assert!(begin_write(&self.list), "writers take turns");
        self.id.store(2, Relaxed);
        end_write(&self.list);
        self.set_slot(0, 0);
        self.places[0].iter().for_each(|word| word.store(9, Relaxed));
    }

    fn read_list(&self) -> Option<u64> {
        let seen = begin_read(&self.list)?;
        let id = self.id.load(Relaxed);
        end_read(&self.list, seen).then_some(id)
    }

    /// The chunk of put `id`; `Err` where a reader would try again.
    fn read_chunk(&self, id: u64) -> Result<Option<u64>, ()> {
        let seen = begin_read(&self.chunks).ok_or(())?;
        let slot = (0..2).find(|slot| self.slots[*slot].load(Relaxed) == id);
        let words = slot.map(|slot| self.places[slot].each_ref().map(|word| word.load(Relaxed)));
        if !end_read(&self.chunks, seen) {
            return Err(());
        }
        Ok(words.map(|[first, second]| {
            assert_eq!(first, second, "a chunk is whole");
            first
        }))
    }
}

#[test]
fn a_large_value_is_of_one_put() {
    loom::model(|| {
        let large = Large::new();
        let read = |large: &Large| {
            let Some(id) = large.read_list() else { return };
            match large.read_chunk(id) {
                Ok(Some(value)) => assert_eq!(value, id, "the chunk of the list that was read"),
                // Nothing was evicted: the list is another one by now.
                Ok(None) => assert!(large.read_list().is_none_or(|now| now != id), "gone"),
                Err(()) => {}
            }
        };
        meet(&large, read, |large| large.overwrite());
    });
}
