//! The stream of changes: a snapshot and what follows it are the store at every later moment.

#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::harness::{DeviceHarness, Harness};
use silica_base::{Prng, Result};
use silica_engine::{
    Budget, ChangePoint, Changes, Durability, Engine, ErrorKind, KeyRange, OpKind, Ordered,
    Snapshot, WriteBatch,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const NOW: Durability = Durability::Buffered;

fn key(prng: &mut Prng) -> Vec<u8> {
    format!("{:03}", prng.below(300)).into_bytes()
}

fn contents(snapshot: &Arc<dyn Snapshot>) -> Map {
    let mut iter = Arc::clone(snapshot).iterate(&KeyRange::ALL).expect("an iterator");
    let (mut map, mut is_there) = (Map::new(), iter.seek_to_first().expect("a seek"));
    while is_there {
        map.insert(iter.key().to_vec(), iter.entry().value.to_vec());
        is_there = iter.next().expect("a step");
    }
    map
}

fn apply(map: &mut Map, batch: &WriteBatch<'_>) {
    for op in batch.ops() {
        match op.kind {
            OpKind::Put(entry) => drop(map.insert(op.key.to_vec(), entry.value.to_vec())),
            OpKind::Delete => drop(map.remove(op.key)),
            OpKind::DeleteRange(upper) => {
                let upper = upper.map_or(Bound::Unbounded, |upper| Bound::Excluded(upper.to_vec()));
                let range = KeyRange { lower: Bound::Included(op.key.to_vec()), upper };
                map.retain(|key, _| !range.contains(key));
            }
        }
    }
}

/// Writes of all kinds, of one thread.
fn write<E: Engine + 'static>(engine: &Arc<E>, seed: u64, each: u64) {
    let mut prng = Prng::new(seed);
    let ordered = Arc::clone(engine).as_ordered().expect("the engine keeps an order");
    for n in 0..each {
        let (keys, bound) = ([key(&mut prng), key(&mut prng), key(&mut prng)], key(&mut prng));
        let value = format!("{seed} {n} {:40}", "").into_bytes();
        let mut batch = WriteBatch::new();
        batch.put(&keys[0], &value).delete(&keys[1]).put(&keys[2], &value);
        match prng.below(40) {
            0 => drop(batch.delete_range(&bound, Some(b"299"))),
            1 => ordered.delete_range(&KeyRange::prefix(&bound[..2]), NOW).expect("a delete"),
            2 if prng.one_in(20) => {
                engine.as_admin().map_or(Ok(()), |admin| admin.clear()).expect("a clear");
            }
            _ => {}
        }
        engine.write(&batch, NOW).expect("a write");
    }
}

/// A reader: what it has, and where it is.
struct Reader {
    map: Map,
    point: ChangePoint,
}

impl Reader {
    fn begin(changes: &Arc<dyn Changes>) -> Self {
        let (snapshot, point) = Arc::clone(changes).begin().expect("a snapshot");
        assert_eq!(point.sequence, snapshot.sequence(), "where the stream joins a snapshot");
        Reader { map: contents(&snapshot), point }
    }

    /// Reads up to what `snapshot` has; false if that came too late.
    fn catch_up(&mut self, changes: &dyn Changes, snapshot: &dyn Snapshot) -> bool {
        let wanted = snapshot.sequence();
        loop {
            let (map, mut reached, mut is_over) = (&mut self.map, self.point, false);
            let read = changes.read(self.point, 4 << 10, &mut |point, batch| {
                assert!(point.sequence > reached.sequence || is_over, "batches out of order");
                is_over |= point.sequence > wanted;
                if !is_over {
                    apply(map, batch);
                    reached = point;
                }
            });
            match read {
                Err(error) if error.kind() == ErrorKind::TooLate => return false,
                read => drop(read.expect("a read")),
            }
            if is_over || reached == self.point {
                self.point = reached;
                return true;
            }
            self.point = reached;
        }
    }
}

/// Lets `threads` threads write, `each` times, while readers follow. The harness's engines must
/// keep changes, some kilobytes of them.
///
/// # Panics
///
/// If a snapshot and the stream behind it come to something else than the store, or a reader that
/// is too late is not told.
pub fn changes<H: Harness>(harness: &mut H, seed: u64, threads: u64, each: u64)
where
    H::Engine: 'static,
{
    harness.wipe();
    let engine = Arc::new(harness.open().expect("an empty store opens"));
    let stream = Arc::clone(&engine).as_changes().expect("the engine keeps changes");
    let ordered = Arc::clone(&engine).as_ordered().expect("the engine keeps an order");
    let first = Reader::begin(&stream);
    let writing = AtomicUsize::new(threads as usize);
    let (compared, late) = std::thread::scope(|scope| {
        for thread in 0..threads {
            let (engine, writing) = (Arc::clone(&engine), &writing);
            scope.spawn(move || {
                write(&engine, seed * threads + thread, each);
                writing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while writing.load(Ordering::Relaxed) > 0 {
                engine.maintain(Budget::of(64 << 10)).expect("maintenance");
            }
        });
        follow(&stream, &ordered, &|| writing.load(Ordering::Relaxed) > 0)
    });
    assert!(compared > 2, "only {compared} comparisons, {late} times too late");
    // However late a reader was while others wrote: of a few batches it misses none.
    let mut reader = Reader::begin(&stream);
    for n in 0..8u8 {
        let mut batch = WriteBatch::new();
        batch.put(std::slice::from_ref(&n), b"in quiet");
        engine.write(&batch, NOW).expect("a write");
    }
    let snapshot = Arc::clone(&ordered).snapshot().expect("a snapshot");
    assert!(reader.catch_up(&*stream, &*snapshot), "too late in quiet");
    assert!(reader.map == contents(&snapshot), "the stream comes to another content");
    let mut first = first;
    assert!(!first.catch_up(&*stream, &*snapshot), "what is not kept any more is read");
    let last = stream.now();
    let is_there = stream.read(last, 1, &mut |_, _| panic!("a batch behind the last one"));
    assert_eq!(is_there.expect("a read"), last);
}

/// What [`changes_reopened`] has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReopenedReport {
    /// Readers that went on behind an opening.
    pub went_on: u64,
    /// Readers that were told to begin anew.
    pub late: u64,
    /// Those of them that had all batches when the store was closed, or its process died.
    pub late_in_vain: u64,
}

/// Opens a store `rounds` times, after orderly ends, deaths of the process and power cuts, while
/// readers of its changes are ever further behind, or ahead of what survives. The harness's engines
/// must keep changes.
///
/// # Panics
///
/// If a reader that may go on comes to something else than the store: it has missed a batch, or has
/// one that was lost.
pub fn changes_reopened<H: DeviceHarness>(harness: &mut H, seed: u64, rounds: u64) -> ReopenedReport
where
    H::Engine: 'static,
{
    harness.wipe();
    let (mut prng, mut report) = (Prng::new(seed), ReopenedReport::default());
    let mut readers: Vec<Reader> = Vec::new();
    // Whether each reader had all that was written, and all of that has survived.
    let mut has_all = [false; READERS];
    for round in 0..rounds {
        if prng.one_in(6) {
            // A power cut while it opens.
            harness.cut_at_op(harness.op_count() + prng.below(12));
            drop(harness.open());
            harness.power_cut(prng.next_u64());
            has_all = [false; READERS];
        }
        let engine = Arc::new(harness.open().expect("it opens"));
        let stream = Arc::clone(&engine).as_changes().expect("the engine keeps changes");
        let ordered = Arc::clone(&engine).as_ordered().expect("the engine keeps an order");
        for (reader, has_all) in readers.iter_mut().zip(has_all) {
            let snapshot = Arc::clone(&ordered).snapshot().expect("a snapshot");
            if reader.catch_up(&*stream, &*snapshot) {
                let context = format!("seed {seed}, round {round}: {:?}", reader.point);
                assert!(reader.map == contents(&snapshot), "a stream goes on otherwise, {context}");
                report.went_on += 1;
            } else {
                report.late += 1;
                report.late_in_vain += u64::from(has_all);
                *reader = Reader::begin(&stream);
            }
        }
        readers.resize_with(READERS, || Reader::begin(&stream));
        let end = prng.below(4);
        if end == 0 {
            harness.cut_at_op(harness.op_count() + prng.below(40));
        }
        for step in 0..=prng.below(30) {
            if write_one(&engine, &mut prng, (round << 32) + step).is_err() {
                assert!(harness.power_is_off(), "a write fails without a power cut");
                break;
            }
            // The last one reads all, the first one seldom.
            for (nth, reader) in readers.iter_mut().enumerate() {
                let reads = prng.below(READERS as u64) <= nth as u64;
                let snapshot = reads.then(|| Arc::clone(&ordered).snapshot());
                if let Some(Ok(snapshot)) = snapshot {
                    // One that is too late stays so.
                    reader.catch_up(&*stream, &*snapshot);
                }
            }
        }
        let now = stream.now();
        has_all.iter_mut().zip(&readers).for_each(|(has_all, reader)| {
            *has_all = end > 1 && reader.point.sequence >= now.sequence;
            *has_all &= reader.point.history == now.history;
        });
        drop((stream, ordered));
        match end {
            0 | 1 => harness.power_cut(prng.next_u64()),
            2 => harness.kill(),
            _ => {}
        }
        drop(Arc::into_inner(engine).expect("nobody else has it"));
        if end == 3 {
            harness.kill();
        }
    }
    report
}

/// Readers that follow a store over its openings.
const READERS: usize = 5;

/// One write of any kind; `number` is in its values, so that no other write has the same.
fn write_one<E: Engine + 'static>(engine: &Arc<E>, prng: &mut Prng, number: u64) -> Result<()> {
    let (keys, durability) = ([key(prng), key(prng)], Durability::Buffered);
    let padding = if prng.one_in(4) { 700 } else { 30 };
    let value = format!("{number:padding$}").into_bytes();
    match prng.below(24) {
        0 => engine.sync()?,
        1 => drop(engine.maintain(Budget::of(64 << 10))?),
        2 if prng.one_in(4) => engine.as_admin().map_or(Ok(()), |admin| admin.clear())?,
        3 => {
            let ordered = Arc::clone(engine).as_ordered().expect("the engine keeps an order");
            ordered.delete_range(&KeyRange::prefix(&keys[0][..2]), durability)?;
        }
        n => {
            let mut batch = WriteBatch::new();
            batch.put(&keys[0], &value).delete(&keys[1]);
            if prng.one_in(8) {
                batch.delete_range(&keys[1], Some(b"299"));
            }
            let durability = if n < 8 { Durability::Synced } else { durability };
            engine.write(&batch, durability)?;
        }
    }
    Ok(())
}

/// Follows the stream and compares what it comes to with snapshots; how often, and how often it
/// was too late.
fn follow(
    stream: &Arc<dyn Changes>,
    ordered: &Arc<dyn Ordered>,
    goes_on: &dyn Fn() -> bool,
) -> (u64, u64) {
    let (mut reader, mut compared, mut late) = (Reader::begin(stream), 0, 0);
    loop {
        let is_last = !goes_on();
        let snapshot = Arc::clone(ordered).snapshot().expect("a snapshot");
        if reader.catch_up(&**stream, &*snapshot) {
            assert!(reader.map == contents(&snapshot), "the stream comes to another content");
            compared += 1;
        } else {
            late += 1;
            reader = Reader::begin(stream);
        }
        if is_last {
            return (compared, late);
        }
    }
}
