use super::*;
use crate::Prng;

const TABLE: usize = 768 << 10;

struct Taken {
    start: NonNull<u8>,
    bytes: usize,
}

impl Taken {
    /// The bytes, which are still those of the pool.
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the range was taken, and only this `Taken` refers to it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

fn take(pool: &mut Pool, bytes: usize) -> Taken {
    Taken { start: pool.take(bytes).expect("there is memory"), bytes }
}

fn give_back(pool: &mut Pool, taken: Taken) {
    // SAFETY: taken with these bytes, and `taken` was the only one to refer to them.
    unsafe { pool.give_back(taken.start, taken.bytes) }
}

/// Checks what the module promises about free ranges, the zeroes included.
fn verify(pool: &Pool, taken: &[Taken]) {
    let rounded = |t: &Taken| t.bytes.next_multiple_of(GRAIN_BYTES);
    let mut free_bytes = 0;
    for shared in &pool.shared {
        let mut last_end = None;
        for (&start, &len) in &shared.free {
            assert!(last_end.is_none_or(|end| end < start), "ranges are joined");
            last_end = Some(start + len);
            free_bytes += len;
            // SAFETY: nobody writes to free ranges; reading pages maps the zero page at most.
            let bytes = unsafe {
                let start = shared.mapping.start().add(start);
                std::slice::from_raw_parts(start.as_ptr(), len)
            };
            assert!(bytes.chunks(4096).all(|chunk| chunk.iter().all(|b| *b == 0)));
        }
        assert!(last_end.is_none_or(|end| end <= shared.mapping.bytes()));
        assert!(!shared.is_free(), "an empty mapping is unmapped");
        for page in &shared.warm {
            let range = shared.free.range(..=page).next_back().expect("a free range before it");
            assert!(page + shared.page_bytes <= range.0 + range.1, "warm pages are free");
        }
    }
    let mapped: usize = pool.shared.iter().map(|shared| shared.mapping.bytes()).sum();
    assert_eq!(free_bytes + taken.iter().map(rounded).sum::<usize>(), mapped);
}

#[test]
fn tables_lie_side_by_side_and_freed_ranges_are_taken_again() {
    let mut pool = Pool::new();
    let mut tables: Vec<_> = (0..30).map(|_| take(&mut pool, TABLE)).collect();
    assert_eq!(pool.shared.len(), 2, "10 tables fit into the first mapping, 128 into the next");
    let address = |t: &Taken| t.start.as_ptr() as usize;
    assert_eq!(address(&tables[1]), address(&tables[0]) + TABLE);
    assert_eq!(address(&tables[10]) % HUGE_PAGE_BYTES, 0);
    assert_eq!(address(&tables[21]), address(&tables[20]) + TABLE);
    tables.iter_mut().for_each(|table| table.bytes().fill(7));
    let freed = address(&tables[15]);
    give_back(&mut pool, tables.remove(15));
    verify(&pool, &tables);
    let mut again = take(&mut pool, TABLE);
    assert_eq!(address(&again), freed);
    assert!(again.bytes().iter().all(|b| *b == 0));
    tables.push(again);
    tables.drain(..).for_each(|table| give_back(&mut pool, table));
    assert!(pool.shared.is_empty());
}

#[test]
fn any_order_of_sizes_leaves_free_bytes_zero() {
    let (mut pool, mut prng) = (Pool::new(), Prng::new(3));
    let mut taken: Vec<Taken> = Vec::new();
    for round in 0..200 {
        let grow = round % 100 < 50;
        if taken.is_empty() || prng.below(10) < if grow { 8 } else { 3 } {
            let mut new = take(&mut pool, 1 + prng.below(HUGE_PAGE_BYTES as u64) as usize);
            assert!(new.bytes().iter().all(|b| *b == 0), "round {round}");
            new.bytes().fill(0xA5);
            taken.push(new);
        } else {
            let index = prng.below(taken.len() as u64) as usize;
            let mut old = taken.swap_remove(index);
            assert!(old.bytes().iter().all(|b| *b == 0xA5), "round {round}");
            give_back(&mut pool, old);
        }
        if round % 20 == 0 {
            verify(&pool, &taken);
        }
    }
    taken.drain(..).for_each(|t| give_back(&mut pool, t));
    assert!(pool.shared.is_empty());
}

/// Bytes of pages of `from..from + bytes` that hold memory.
#[cfg(target_os = "linux")]
fn resident(from: usize, bytes: usize) -> usize {
    use std::io::{Read, Seek, SeekFrom};
    const PAGE: usize = 4096;
    let mut file = std::fs::File::open("/proc/self/pagemap").expect("its pages");
    file.seek(SeekFrom::Start((from / PAGE * 8) as u64)).expect("a position");
    let mut words = vec![0; bytes / PAGE * 8];
    file.read_exact(&mut words).expect("pages");
    // The bit that says so is the highest.
    words.as_chunks::<8>().0.iter().filter(|word| word[7] & 0x80 != 0).count() * PAGE
}

#[test]
#[cfg(target_os = "linux")]
fn freed_pages_stay_warm_up_to_a_limit() {
    let mut pool = Pool::new();
    let mut tables: Vec<_> = (0..10).map(|_| take(&mut pool, TABLE)).collect();
    let first = tables[0].start.as_ptr() as usize;
    tables.iter_mut().for_each(|table| table.bytes().fill(7));
    assert_eq!(resident(first, 10 * TABLE), 10 * TABLE);
    let last = tables.pop().expect("there is one");
    tables.drain(..).for_each(|table| give_back(&mut pool, table));
    let warm: usize = pool.shared.iter().map(Shared::warm_bytes).sum();
    assert_eq!(warm, WARM_BYTES_MAX);
    assert_eq!(resident(first, 10 * TABLE), WARM_BYTES_MAX + TABLE);
    // It reads free pages, which then count, too.
    verify(&pool, std::slice::from_ref(&last));
    // What comes next takes them.
    let again = take(&mut pool, TABLE);
    assert_eq!(again.start.as_ptr() as usize, first);
    let warm: usize = pool.shared.iter().map(Shared::warm_bytes).sum();
    assert_eq!(warm, WARM_BYTES_MAX - TABLE);
    give_back(&mut pool, again);
    give_back(&mut pool, last);
    assert!(pool.shared.is_empty());
}
