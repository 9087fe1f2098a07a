//! Entries that only expire: the space that they took comes back, by the sizes of files and the
//! bytes that a model says have not expired, never by what the store says of itself.

use super::harness::DeviceHarness;
use silica_base::{Clock, ManualClock};
use silica_engine::{Budget, Durability, Engine, EntryRef, ErrorKind, Result, WriteBatch};

/// What every entry has to live, and how long writing a generation of them takes.
const LIFE_MS: u64 = 3000;
const GENERATIONS: u64 = 16;
/// Looks at the files in each generation.
const LOOKS: u64 = 8;
/// Puts between two calls of `maintain`, and its budget.
const MAINTAIN_EVERY: u64 = 16;
const MAINTAIN_BYTES: u64 = 256 << 10;

/// The entries of [`expired_space`], and what files may take.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpiredSpace {
    /// Keys of a generation, each of which is written once.
    pub keys: u64,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Bytes of files for each byte of keys and values that has not expired, in percent, at rest.
    pub percent: u64,
    /// Bytes of files for each byte that has not expired, in percent, while writes go on: what
    /// maintenance has in hand comes to what stays at rest.
    pub busy_percent: u64,
    /// What files may take besides: the log, above all.
    pub slack_bytes: u64,
    /// What they may take at rest when everything has expired.
    pub empty_bytes: u64,
}

/// A store, and how many of its entries expire when.
struct Run<'h, H: DeviceHarness> {
    harness: &'h mut H,
    clock: &'h ManualClock,
    engine: Option<H::Engine>,
    sizes: ExpiredSpace,
    written: u64,
    /// When each entry expires.
    expiries: Vec<u64>,
}

impl<H: DeviceHarness> Run<'_, H> {
    fn engine(&self) -> &H::Engine {
        self.engine.as_ref().expect("it is open")
    }

    fn reopen(&mut self, closed_ms: u64) {
        self.engine = None;
        self.clock.advance_ns(closed_ms * 1_000_000);
        self.engine = Some(self.harness.open().expect("it opens again"));
    }

    fn put(&mut self) -> Result<()> {
        // Keys in no order.
        let key = self.written.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let value = vec![self.written as u8; self.sizes.value_bytes];
        let expires_unix_ms = self.clock.unix_ms() + LIFE_MS;
        let entry = EntryRef { value: &value, expires_unix_ms, user_bits: 0 };
        let mut batch = WriteBatch::new();
        self.engine().write(batch.put_entry(&key, entry), Durability::Buffered)?;
        self.expiries.push(expires_unix_ms);
        self.written += 1;
        if self.written.is_multiple_of(MAINTAIN_EVERY) {
            self.engine().maintain(Budget::amid_work(MAINTAIN_BYTES))?;
        }
        Ok(())
    }

    /// Writes a generation while it is as old as an entry gets, and looks at the files meanwhile.
    fn generation(&mut self, number: u64) {
        let keys = self.sizes.keys;
        for n in 1..=keys {
            self.put().expect("a put");
            let step_ns = |n: u64| LIFE_MS * 1_000_000 * n / keys;
            self.clock.advance_ns(step_ns(n) - step_ns(n - 1));
            if n % (keys / LOOKS) == 0 {
                let (percent, slack) = (self.sizes.busy_percent, self.sizes.slack_bytes);
                self.check(&format!("generation {number}, {n} entries"), percent, slack);
            }
        }
    }

    /// Background work until nothing is left to do; a full disk may stop it.
    fn settle(&self) {
        loop {
            match self.engine().maintain(Budget::of(1 << 20)) {
                Ok(progress) if progress.more => {}
                Ok(_) => return,
                Err(e) if e.kind() == ErrorKind::Full => return,
                Err(e) => panic!("maintained: {e}"),
            }
        }
    }

    /// Puts until the disk is full although background work is done; how many.
    fn fill(&mut self, most: u64) -> u64 {
        let before = self.written;
        let mut is_refused = false;
        while self.written < before + most {
            match self.put() {
                Ok(()) => is_refused = false,
                Err(e) if e.kind() == ErrorKind::Full && !is_refused => {
                    // A put that is refused asks for all the room that can be made.
                    is_refused = true;
                    self.settle();
                }
                Err(e) if e.kind() == ErrorKind::Full => return self.written - before,
                Err(e) => panic!("neither written nor full: {e}"),
            }
        }
        panic!("the disk never becomes full");
    }

    fn unexpired_bytes(&self) -> u64 {
        let now = self.clock.unix_ms();
        // Later writes expire later.
        let gone = self.expiries.partition_point(|expires| *expires <= now);
        (self.expiries.len() - gone) as u64 * (8 + self.sizes.value_bytes as u64)
    }

    #[track_caller]
    fn check(&self, when: &str, percent: u64, slack_bytes: u64) {
        let (files, unexpired) = (self.harness.disk_bytes(), self.unexpired_bytes());
        let allowed = unexpired * percent / 100 + slack_bytes;
        println!("{when}: {files} bytes of files, {unexpired} unexpired, {allowed} allowed");
        assert!(files <= allowed, "{when}: {files} bytes of files, {unexpired} unexpired");
    }

    /// At rest: nothing is written any more, and background work is done.
    #[track_caller]
    fn check_at_rest(&self, when: &str) {
        self.settle();
        let (percent, slack) = (self.sizes.percent, self.sizes.slack_bytes);
        self.check(&format!("{when}, at rest"), percent, slack);
    }

    #[track_caller]
    fn check_empty(&self, when: &str) {
        self.settle();
        assert_eq!(self.unexpired_bytes(), 0);
        self.check(when, 0, self.sizes.empty_bytes);
        if let Some(admin) = self.engine().as_admin() {
            assert_eq!(admin.count(true).expect("counted").estimate, 0, "{when}");
        }
    }
}

fn run<'h, H: DeviceHarness>(
    harness: &'h mut H,
    clock: &'h ManualClock,
    sizes: ExpiredSpace,
) -> Run<'h, H> {
    harness.wipe();
    let engine = Some(harness.open().expect("an empty device opens"));
    Run { harness, clock, engine, sizes, written: 0, expiries: Vec::new() }
}

/// Writes 16 generations of unique keys with three seconds to live, of which at most one lives at
/// any time, and checks that files keep to what has not expired while writes go on, at rest and
/// after a restart; and that they are nearly empty, at rest and after a restart, once all has
/// expired, whether it expired while the store was open or while it was closed. The harness's
/// engines must take their time from `clock`.
pub fn expired_space<H: DeviceHarness>(harness: &mut H, clock: &ManualClock, sizes: ExpiredSpace) {
    let mut run = run(harness, clock, sizes);
    (0..GENERATIONS).for_each(|number| run.generation(number));
    run.check_at_rest("all are written");
    run.clock.advance_ns(LIFE_MS / 2 * 1_000_000);
    run.check_at_rest("half of the last has expired");
    run.reopen(0);
    run.check_at_rest("opened again");
    run.clock.advance_ns(LIFE_MS * 1_000_000);
    run.check_empty("all has expired");
    run.reopen(0);
    run.check_empty("opened again when all had expired");
    run.generation(GENERATIONS);
    run.settle();
    run.reopen(2 * LIFE_MS);
    run.check_empty("all has expired while the store was closed");
    run.engine().verify().expect("verified");
}

/// Fills a device of `capacity` bytes with entries that live for three seconds, with values of
/// `value_bytes`, until the engine
/// says `Full`, and checks that three seconds later as many are accepted as before, less a
/// quarter, without a delete and without a restart, three times over. The smaller number of
/// entries.
pub fn expired_room<H: DeviceHarness>(
    harness: &mut H,
    clock: &ManualClock,
    value_bytes: usize,
    capacity: u64,
) -> u64 {
    let sizes = ExpiredSpace { value_bytes, ..ExpiredSpace::default() };
    let mut run = run(harness, clock, sizes);
    run.harness.set_capacity(Some(capacity));
    let mut fills = Vec::new();
    for _ in 0..4 {
        fills.push(run.fill(capacity));
        run.clock.advance_ns(LIFE_MS * 1_000_000);
    }
    println!("puts until the disk was full: {fills:?}");
    let least = fills.iter().copied().min().unwrap_or(0);
    assert!(least * 4 >= fills[0] * 3, "puts until the disk was full: {fills:?}");
    run.engine().verify().expect("verified");
    least
}
