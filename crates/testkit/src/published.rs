//! Batches amid readers: who reads an entry and what it refers to finds out whether they belong
//! together.
#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::concurrent::{StopOnDrop, join};
use super::harness::Harness;
use silica_base::Prng;
use silica_engine::{
    Atomic, Budget, Durability, Engine, EngineExt, EntryRef, Expected, Op, OpKind, Update,
    WriteBatch,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ENTRY: &[u8] = b"entry";
/// Pages that an entry may refer to: more than an engine takes into a batch at a time.
const PAGES_MAX: usize = 80;
/// Pages that a reader looks at.
const READ: usize = 6;
/// Looks of each reader at least.
const LOOKS_MIN: u64 = 200;
const NOW: Durability = Durability::Buffered;

/// Checks what [`Atomic::write_expecting`] does, and lets threads write batches, each of some pages
/// and of the entry that says which pages there are, while `readers` threads read them.
///
/// A reader who finds with [`Atomic::write_expecting`] or [`Atomic::update_all`] that entries are
/// there together must have read what one batch left. So must one who finds the entry unchanged
/// after [`Atomic::settle`], if the engine publishes in order, and never an older page than the
/// entry.
///
/// # Panics
///
/// Where a reader sees something else, or a batch is lost or done without what it expects.
pub fn published_batches<H: Harness>(harness: &mut H, seed: u64, readers: u64, batches: u64) {
    harness.wipe();
    let engine = harness.open().expect("an empty store opens");
    let Some(atomic) = engine.as_atomic() else { return };
    expecting(&engine, atomic);
    for writers in [1, 2] {
        let (stop, late) = (AtomicBool::new(false), AtomicU64::new(readers));
        let case = Case { engine: &engine, atomic, seed };
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            let readers: Vec<_> = (0..readers)
                .map(|n| {
                    let (stop, late) = (&stop, &late);
                    scope.spawn(move || case.read_until(seed ^ n << 32, stop, late))
                })
                .collect();
            let write = |n: u64| {
                let (stop, late) = (&stop, &late);
                move || case.write(seed ^ !n, (writers, batches), stop, late)
            };
            let writers: Vec<_> = (0..writers).map(|n| scope.spawn(write(n))).collect();
            let written: u64 = writers.into_iter().map(join).sum();
            stop.store(true, Ordering::Release);
            readers.into_iter().for_each(join);
            let (number, _) = case.entry().expect("batches were written");
            assert_eq!(number, written, "published_batches(harness, {seed}, …) lost batches");
        });
        engine.delete(ENTRY, NOW).expect("deleted");
        (0..PAGES_MAX).for_each(|n| engine.delete(&case.page(n), NOW).expect("deleted"));
    }
    engine.verify().expect("verification after batches amid readers");
}

/// Ends the writers, who wait for every reader.
struct StopOnPanic<'s>(&'s AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// What a conditional write does and leaves alone, by itself.
fn expecting(engine: &impl Engine, atomic: &dyn Atomic) {
    let entry = |value| EntryRef { user_bits: 7, ..EntryRef::new(value) };
    let put = |key, value| Op { key, kind: OpKind::Put(entry(value)) };
    let write = |expected: &[(&[u8], Option<EntryRef<'_>>)], ops: &[Op<'_>]| {
        let expected: Vec<_> =
            expected.iter().map(|(key, entry)| Expected { key, entry: *entry }).collect();
        atomic.write_expecting(&expected, ops, NOW).expect("a conditional write")
    };
    let value = |key: &[u8]| engine.get(key).expect("a get");
    assert!(write(&[(b"a", None)], &[put(b"b", b"1"), put(b"a", b"1")]), "nothing is expected");
    assert!(!write(&[(b"a", None)], &[put(b"a", b"2")]), "something is there");
    let wrong = EntryRef { user_bits: 8, ..entry(b"1") };
    assert!(!write(&[(b"a", Some(wrong))], &[put(b"a", b"2")]), "of other user bits");
    assert!(!write(&[(b"a", Some(entry(b"0")))], &[put(b"a", b"2")]), "of another value");
    let both = [(&b"a"[..], Some(entry(b"1"))), (b"c", Some(entry(b"1")))];
    assert!(!write(&both, &[put(b"a", b"2"), put(b"c", b"2")]), "one of two is missing");
    assert_eq!((value(b"a"), value(b"c")), (Some(b"1".to_vec()), None), "nothing has happened");
    assert!(write(&both[..1], &[]), "nothing is written");
    let both = [both[0], (b"b", Some(entry(b"1")))];
    let delete = Op { key: b"b", kind: OpKind::Delete };
    assert!(write(&both, &[delete, put(b"a", b"2")]), "all of it is there");
    assert_eq!((value(b"a"), value(b"b")), (Some(b"2".to_vec()), None));
    assert!(write(&[], &[Op { key: b"a", kind: OpKind::Delete }]), "nothing is expected");
    assert_eq!(value(b"a"), None);
}

/// Pages and their entry: of batch `number` each page has that number, and the entry says how many
/// pages there are.
struct Case<'e, E> {
    engine: &'e E,
    atomic: &'e dyn Atomic,
    seed: u64,
}

impl<E> Clone for Case<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Case<'_, E> {}

fn number_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.first_chunk().expect("a value has its number"))
}

fn pair_of(value: &[u8]) -> (u64, usize) {
    (number_of(value), number_of(&value[8..]) as usize)
}

impl<E: Engine> Case<'_, E> {
    /// Keys that lie anywhere among all.
    fn page(&self, n: usize) -> [u8; 8] {
        Prng::new(self.seed ^ n as u64).next_u64().to_be_bytes()
    }

    fn pages_of(&self, number: u64) -> usize {
        1 + Prng::new(self.seed ^ !number).below(PAGES_MAX as u64) as usize
    }

    fn entry(&self) -> Option<(u64, usize)> {
        self.engine.get(ENTRY).expect("a get amid batches").map(|value| pair_of(&value))
    }

    /// Writes batches until there are so many by this thread, and every reader has looked.
    fn write(
        &self,
        seed: u64,
        (writers, batches): (u64, u64),
        stop: &AtomicBool,
        late: &AtomicU64,
    ) -> u64 {
        let (mut prng, mut done) = (Prng::new(seed), 0);
        while (done < batches || late.load(Ordering::Acquire) > 0) && !stop.load(Ordering::Acquire)
        {
            done += match prng.below(3) {
                0 if writers == 1 => self.write_batch(),
                0 | 1 => self.write_expecting(),
                _ => self.update_all(),
            };
            if prng.one_in(16) {
                self.engine.maintain(Budget::of(4096)).expect("maintenance amid batches");
            }
        }
        done
    }

    /// Calls `write` with the entry before the next batch, and with its operations.
    fn with_next<T>(&self, write: impl FnOnce(Option<EntryRef<'_>>, &[Op<'_>]) -> T) -> T {
        let before = self.engine.get(ENTRY).expect("a get amid batches");
        let number = before.as_deref().map_or(0, number_of) + 1;
        let pages = self.pages_of(number);
        let keys: Vec<[u8; 8]> = (0..PAGES_MAX).map(|n| self.page(n)).collect();
        let value = number.to_le_bytes();
        let entry = [value, (pages as u64).to_le_bytes()].concat();
        let kind = |n| match n < pages {
            true => OpKind::Put(EntryRef::new(&value)),
            false => OpKind::Delete,
        };
        let mut ops: Vec<Op<'_>> =
            keys.iter().enumerate().map(|(n, key)| Op { key, kind: kind(n) }).collect();
        ops.push(Op { key: ENTRY, kind: OpKind::Put(EntryRef::new(&entry)) });
        write(before.as_deref().map(EntryRef::new), &ops)
    }

    fn write_batch(&self) -> u64 {
        self.with_next(|_, ops| {
            let mut batch = WriteBatch::new();
            for op in ops {
                batch.push(*op);
            }
            self.engine.write(&batch, NOW).expect("a batch amid readers");
        });
        1
    }

    fn write_expecting(&self) -> u64 {
        let written = self.with_next(|entry, ops| {
            let expected = Expected { key: ENTRY, entry };
            self.atomic.write_expecting(&[expected], ops, NOW)
        });
        u64::from(written.expect("a conditional write amid readers"))
    }

    fn update_all(&self) -> u64 {
        let pages: Vec<[u8; 8]> = (0..PAGES_MAX).map(|n| self.page(n)).collect();
        let mut keys: Vec<&[u8]> = pages.iter().map(|page| &page[..]).collect();
        keys.push(ENTRY);
        let updated = self.atomic.update_all(&keys, NOW, &mut |entries| {
            let number = entries[PAGES_MAX].map_or(0, |entry| number_of(entry.value)) + 1;
            let (value, pages) = (number.to_le_bytes(), self.pages_of(number));
            let update = |n| if n < pages { Update::put(value.to_vec()) } else { Update::Delete };
            let entry = [value, (pages as u64).to_le_bytes()].concat();
            (0..PAGES_MAX).map(update).chain([Update::put(entry)]).collect()
        });
        updated.expect("an update of several keys amid readers");
        1
    }

    fn read_until(&self, seed: u64, stop: &AtomicBool, late: &AtomicU64) {
        let _stop = StopOnPanic(stop);
        let (mut prng, mut looks) = (Prng::new(seed), 0);
        while looks < LOOKS_MIN || !stop.load(Ordering::Acquire) {
            let pages: Vec<usize> =
                (0..READ).map(|_| prng.below(PAGES_MAX as u64) as usize).collect();
            match prng.below(3) {
                0 => self.read_settled(&pages),
                1 => self.read_expecting(&pages),
                _ => self.read_all(&pages),
            }
            looks += 1;
            if looks == LOOKS_MIN {
                late.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Pages as they are now, with the numbers of their batches.
    fn read(&self, pages: &[usize]) -> Vec<(usize, Option<Vec<u8>>)> {
        let get = |page: &usize| self.engine.get(&self.page(*page)).expect("a get amid batches");
        pages.iter().map(|page| (*page, get(page))).collect()
    }

    /// Reads in the order that lets a reader find the pages of an entry, and looks at it again.
    fn read_settled(&self, pages: &[usize]) {
        if self.atomic.order_epoch().is_none() {
            return;
        }
        let before = self.entry();
        let read = self.read(pages);
        let (number, count) = before.unwrap_or((0, 0));
        for (page, found) in read.iter().filter(|(page, _)| *page < count) {
            let found = found.as_deref().map(number_of);
            let is_older = found.is_some_and(|found| found < number);
            assert!(!is_older, "page {page} of {found:?} is older than its entry of {number}");
        }
        self.atomic.settle();
        if self.entry() == before {
            self.check_together(before, &read, "an entry that is settled");
        }
    }

    /// Reads, and asks whether all of it is there.
    fn read_expecting(&self, pages: &[usize]) {
        let before = self.engine.get(ENTRY).expect("a get amid batches");
        let read = self.read(pages);
        let keys: Vec<[u8; 8]> = pages.iter().map(|page| self.page(*page)).collect();
        let mut expected =
            vec![Expected { key: ENTRY, entry: before.as_deref().map(EntryRef::new) }];
        for (key, (_, found)) in keys.iter().zip(&read) {
            expected.push(Expected { key, entry: found.as_deref().map(EntryRef::new) });
        }
        if self.atomic.write_expecting(&expected, &[], NOW).expect("a look amid batches") {
            self.check_together(before.as_deref().map(pair_of), &read, "what is expected");
        }
    }

    /// Reads as one step that changes nothing.
    fn read_all(&self, pages: &[usize]) {
        let keys: Vec<[u8; 8]> = pages.iter().map(|page| self.page(*page)).collect();
        let mut keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        keys.push(ENTRY);
        let (mut entry, mut read) = (None, Vec::new());
        let looked = self.atomic.update_all(&keys, NOW, &mut |entries| {
            // Only the last call counts.
            entry = entries[pages.len()].map(|entry| pair_of(entry.value));
            let of = |(page, found): (&usize, &Option<EntryRef<'_>>)| {
                (*page, found.map(|found| found.value.to_vec()))
            };
            read = pages.iter().zip(entries).map(of).collect();
            vec![Update::Keep; keys.len()]
        });
        looked.expect("a look amid batches");
        self.check_together(entry, &read, "what one step read");
    }

    /// Entry and pages must be what one batch left.
    fn check_together(
        &self,
        entry: Option<(u64, usize)>,
        read: &[(usize, Option<Vec<u8>>)],
        what: &str,
    ) {
        let (number, count) = entry.unwrap_or((0, 0));
        for (page, found) in read {
            let found = found.as_deref().map(number_of);
            let wanted = (*page < count).then_some(number);
            assert_eq!(found, wanted, "{what}: page {page} of entry {number} is of another batch");
        }
    }
}
