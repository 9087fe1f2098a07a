//! The driver allocates nothing per operation: not while it draws, calls, checks or records.

use silica::{Durability, MetricsMap, Result};
use silica_bench::{Abilities, Plan, Session, Shape, Sink, Target, WORKLOADS, Workload, drive};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// Allocations of this thread so far.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

struct Counting;

// SAFETY: every call is handed on to the system's allocator with the same arguments; counting
// touches a thread-local number that is initialised at compile time and so never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the rules of `GlobalAlloc::alloc`, which are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` or `realloc` above, that is from the system.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A store that keeps nothing but the last entry, and what its threads allocated between their
/// first call and their last.
#[derive(Default)]
struct Null {
    allocated: AtomicU64,
    calls: AtomicU64,
}

struct NullSession<'a> {
    null: &'a Null,
    first: Option<u64>,
    last: u64,
    calls: u64,
    deleted: bool,
}

impl NullSession<'_> {
    fn call(&mut self) {
        self.calls += 1;
        self.last = allocations();
        self.first.get_or_insert(self.last);
    }
}

impl Drop for NullSession<'_> {
    fn drop(&mut self) {
        let allocated = self.last - self.first.unwrap_or(self.last);
        self.null.allocated.fetch_add(allocated, Ordering::Relaxed);
        self.null.calls.fetch_add(self.calls, Ordering::Relaxed);
    }
}

impl Target for Null {
    fn abilities(&self) -> Abilities {
        // What nobody keeps may be gone.
        Abilities { scan: true, delete: true, lossy: true }
    }

    fn session(&self, _: Durability) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(NullSession { null: self, first: None, last: 0, calls: 0, deleted: false }))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Ok(MetricsMap::default())
    }
}

/// Writes the value of 8 bytes that the generator gives a key of 8 bytes; false for other keys.
fn value_of(key: &[u8], value: &mut Vec<u8>) -> bool {
    let shape = Shape { key_bytes: 8, value_bytes: 8 };
    let mut made = Vec::with_capacity(8);
    for index in 0..KEYS {
        shape.key(index, &mut made);
        if made == key {
            shape.value(index, 0, value);
            return true;
        }
    }
    false
}

const KEYS: u64 = 4;

impl Session for NullSession<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        if self.deleted {
            // The look at the end whether the keys are gone: once in a run, not per operation.
            return Ok(());
        }
        self.call();
        // What the store allocates is not the driver's.
        let before = allocations();
        let mut value = Vec::with_capacity(8);
        for (index, key) in keys.iter().enumerate() {
            if !value_of(key, &mut value) {
                continue;
            }
            let own = allocations();
            sink.found(index, &value);
            assert_eq!(allocations(), own, "an answer was copied without an allocation");
        }
        ALLOCATIONS.with(|count| count.set(before));
        Ok(())
    }

    fn put_many(&mut self, _: &[(&[u8], &[u8])]) -> Result<()> {
        self.call();
        Ok(())
    }

    fn delete_many(&mut self, _: &[&[u8]]) -> Result<()> {
        self.deleted = true;
        self.call();
        Ok(())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.call();
        Ok(())
    }
}

#[test]
fn the_driver_allocates_nothing_per_operation() {
    for workload in WORKLOADS {
        for (threads, batch, rate) in [(1, 1, 0), (2, 16, 0), (2, 3, 2_000_000)] {
            if workload.split_roles && threads < 2 {
                continue;
            }
            let plan = Plan {
                keys: if workload.shape.key_bytes == 8 { KEYS } else { 500 },
                operations: 5000,
                threads,
                batch,
                rate,
                ..Plan::new(workload.name).unwrap()
            };
            let null = Null::default();
            drive(&plan, &null, "", &mut |_, _| {}).unwrap();
            let (allocated, calls) =
                (null.allocated.load(Ordering::Relaxed), null.calls.load(Ordering::Relaxed));
            assert!(calls >= 5000 / batch as u64);
            assert_eq!(allocated, 0, "{} x {threads} x {batch}, {calls} calls", workload.name);
        }
    }
}

#[test]
fn the_counter_counts() {
    let before = allocations();
    drop(vec![0u8; 100]);
    assert_eq!(allocations(), before + 1);
    assert!(Workload::find("turbohash-positive").unwrap().shape.key_bytes == 8);
}
