//! Views of one moment have one time, too: what expires later is there for as long as they are
//! held, and whoever decides by an entry has it until the decision is written.

use super::harness::Harness;
use silica_base::{Clock, ManualClock};
use silica_engine::{
    Atomic, Budget, Durability, Engine, EngineExt, EntryRef, GetSink, KeyRange, Ordered, Reads,
    Snapshot, Update, WriteBatch,
};
use std::sync::Arc;

const NOW: Durability = Durability::Buffered;
/// Entries that expire, and how long they live.
const MORTALS: u32 = 10;
const LIFE_MS: u64 = 300;
/// Entries that do not expire, written later: so many make engines flush and compact.
const OTHERS: u32 = 3_000;

fn advance(clock: &ManualClock, ms: u64) {
    clock.advance_ns(ms * 1_000_000);
}

fn mortal(n: u32) -> Vec<u8> {
    [&(n * OTHERS / MORTALS).to_be_bytes()[..], b"mortal"].concat()
}

fn put_until(engine: &impl Engine, key: &[u8], expires_unix_ms: u64) {
    let entry = EntryRef { value: &[b'v'; 40], expires_unix_ms, user_bits: 0 };
    engine.write(WriteBatch::new().put_entry(key, entry), NOW).expect("written");
}

/// Checks snapshots, commits and updates of entries that expire meanwhile. The harness's engines
/// must take their time from `clock`.
///
/// # Panics
///
/// Where a snapshot loses what had not expired when it was taken or shows what had, or where a
/// decision by an entry that has expired is written.
pub fn moments<H: Harness>(harness: &mut H, clock: &ManualClock)
where
    H::Engine: 'static,
{
    harness.wipe();
    advance(clock, 1_000);
    let engine = Arc::new(harness.open().expect("an empty device opens"));
    if let Some(ordered) = Arc::clone(&engine).as_ordered() {
        snapshots(&engine, &ordered, clock);
        commits(&engine, &ordered, clock);
    }
    if let Some(atomic) = engine.as_atomic() {
        updates(&engine, atomic, clock);
    }
    engine.verify().expect("verified");
}

fn snapshots<E: Engine>(engine: &Arc<E>, ordered: &Arc<dyn Ordered>, clock: &ManualClock) {
    let snapshot = || Arc::clone(ordered).snapshot().expect("a snapshot");
    let expires_unix_ms = clock.unix_ms() + LIFE_MS;
    (0..MORTALS).for_each(|n| put_until(&**engine, &mortal(n), expires_unix_ms));
    let before = snapshot();
    assert_eq!(before.unix_ms(), clock.unix_ms(), "the time of a snapshot");
    let mut walk = Arc::clone(&before).iterate(&KeyRange::ALL).expect("an iterator");
    assert!(walk.seek_to_first().expect("a seek"), "a first entry");
    advance(clock, LIFE_MS + 100);
    assert_eq!(mortals(&before), MORTALS, "entries of a snapshot from before they expired");
    assert_eq!(mortals(&snapshot()), 0, "entries of a snapshot from after they expired");
    // Whatever becomes of memtables and tables meanwhile.
    for n in 0..OTHERS {
        engine.put(&n.to_be_bytes(), &[b'o'; 40], NOW).expect("written");
    }
    while engine.maintain(Budget::of(1 << 20)).expect("maintained").more {}
    ordered.compact_range(&KeyRange::ALL).expect("compacted");
    assert_eq!(mortals(&before), MORTALS, "entries of a snapshot after compactions");
    let mut walked = 1;
    while walk.next().expect("a step") {
        walked += 1;
    }
    assert_eq!(walked, MORTALS, "entries that an iterator goes to after they expired");
    drop((walk, before));
    ordered.compact_range(&KeyRange::ALL).expect("compacted");
    assert_eq!(mortals(&snapshot()), 0, "entries of a snapshot from after they expired");
}

#[derive(Default)]
struct Count(u32);

impl GetSink for Count {
    fn found(&mut self, _index: usize, _entry: EntryRef<'_>) {
        self.0 += 1;
    }
}

/// Expiring entries that `snapshot` has: by gets, and by walks in both directions.
fn mortals(snapshot: &Arc<dyn Snapshot>) -> u32 {
    let keys: Vec<Vec<u8>> = (0..MORTALS).map(mortal).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = Count::default();
    snapshot.get_many(&keys, &mut found).expect("a get");
    let mut iter = Arc::clone(snapshot).iterate(&KeyRange::ALL).expect("an iterator");
    for is_forward in [true, false] {
        let go = if is_forward { iter.seek_to_first() } else { iter.seek_to_last() };
        let (mut is_there, mut count) = (go.expect("a seek"), 0);
        while is_there {
            count += u32::from(iter.key().ends_with(b"mortal"));
            is_there = if is_forward { iter.next() } else { iter.prev() }.expect("a step");
        }
        assert_eq!(count, found.0, "entries that a walk and a get of one snapshot find");
    }
    found.0
}

/// An entry that was read for a transaction and has expired at its commit is a conflict.
fn commits<E: Engine>(engine: &Arc<E>, ordered: &Arc<dyn Ordered>, clock: &ManualClock) {
    let expires_unix_ms = clock.unix_ms() + LIFE_MS;
    put_until(&**engine, b"read", expires_unix_ms);
    let snapshot = Arc::clone(ordered).snapshot().expect("a snapshot");
    let mut batch = WriteBatch::new();
    batch.put(b"written", b"by it");
    let commit = |batch: &WriteBatch<'_>| {
        let reads = Reads { expires_unix_ms, ..Reads::of(&[b"read"]) };
        ordered.commit(&*snapshot, reads, batch, NOW).expect("an answer")
    };
    advance(clock, LIFE_MS - 1);
    assert!(commit(&batch), "a commit before what it read expires is refused");
    engine.delete(b"written", NOW).expect("written");
    advance(clock, 1);
    assert!(!commit(&batch), "a commit by an entry that has expired");
    assert!(!commit(&WriteBatch::new()), "a commit by an entry that has expired, of no writes");
    assert_eq!(engine.get(b"written").expect("read"), None, "a refused commit writes");
}

/// An update by an entry that expires while it is decided is decided once more.
fn updates<E: Engine>(engine: &Arc<E>, atomic: &dyn Atomic, clock: &ManualClock) {
    let mut seen = Vec::new();
    let decide = |old: bool, seen: &mut Vec<bool>| {
        if seen.is_empty() {
            advance(clock, LIFE_MS);
        }
        seen.push(old);
        if old { Update::put(b"changed".to_vec()) } else { Update::Keep }
    };
    let key = &b"updated"[..];
    let mut check = |which: &str, update: &mut dyn FnMut(&mut Vec<bool>)| {
        put_until(&**engine, key, clock.unix_ms() + LIFE_MS);
        seen.clear();
        update(&mut seen);
        assert_eq!(seen, [true, false], "{which} decides by an entry that has expired");
        assert_eq!(engine.get(key).expect("read"), None, "{which} writes by such an entry");
    };
    check("an update", &mut |seen| {
        atomic.update(key, NOW, &mut |old| decide(old.is_some(), seen)).expect("updated");
    });
    check("a burst of updates", &mut |seen| {
        let mut update = |_: usize, old: Option<EntryRef<'_>>| decide(old.is_some(), seen);
        while atomic.update_many(&[key], NOW, &mut update).expect("updated") == 0 {}
    });
    check("an update of several keys", &mut |seen| {
        let decide =
            &mut |old: &[Option<EntryRef<'_>>]| vec![decide(old[0].is_some(), seen), Update::Keep];
        atomic.update_all(&[key, b"missing"], NOW, decide).expect("updated");
    });
}
