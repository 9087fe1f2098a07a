//! What dies together goes to flash with one placement stream.

use crate::support::{DidaHarness, NOW, geometry, maintain, metric};
use silica_base::{Clock, HashSeed, Prng, Result};
use silica_device::blocks::FlashResult;
use silica_device::sim::SimFlash;
use silica_dida::{Dida, Flash, PageRead, RawFlash, Shape};
use silica_engine::{Engine, EngineExt, EntryRef, Environment, WriteBatch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The raw level, which notes how many pages each stream had.
struct Recording {
    raw: RawFlash<SimFlash>,
    pages: Arc<Mutex<BTreeMap<u16, u64>>>,
}

impl Flash for Recording {
    fn shape(&self) -> Shape {
        self.raw.shape()
    }
    fn free(&self) -> u32 {
        self.raw.free()
    }
    fn usable(&self) -> u32 {
        self.raw.usable()
    }
    fn channel_of(&self, block: u32) -> u32 {
        self.raw.channel_of(block)
    }
    fn loads(&self) -> Vec<u64> {
        self.raw.loads()
    }
    fn take(&self, channel: u32) -> Result<Option<u32>> {
        self.raw.take(channel)
    }
    fn take_worn(&self) -> Result<Option<u32>> {
        self.raw.take_worn()
    }
    fn program(&self, block: u32, first: u32, stream: u16, pages: &[u8]) -> FlashResult<()> {
        let count = pages.len() as u64 / u64::from(self.shape().page_bytes);
        *self.pages.lock().unwrap().entry(stream).or_default() += count;
        self.raw.program(block, first, stream, pages)
    }
    fn give_back(&self, block: u32) -> Result<()> {
        self.raw.give_back(block)
    }
    fn read(&self, block: u32, first: u32, pages: &mut [u8]) -> FlashResult<()> {
        self.raw.read(block, first, pages)
    }
    fn read_many(&self, reads: Vec<PageRead>, done: &mut dyn FnMut(PageRead, FlashResult<()>)) {
        self.raw.read_many(reads, done);
    }
    fn erases(&self, block: u32) -> u64 {
        self.raw.erases(block)
    }
    fn held(&self) -> Vec<u32> {
        self.raw.held()
    }
    fn sync(&self) -> Result<()> {
        self.raw.sync()
    }
    fn streams(&self) -> (u16, u64) {
        (3, 4096)
    }
}

#[test]
fn new_short_lived_and_copied_entries_and_checkpoints_have_a_stream_each() {
    let harness = DidaHarness::new(geometry(12));
    let pages = Arc::new(Mutex::new(BTreeMap::new()));
    let raw = RawFlash::new(harness.flash.clone()).unwrap();
    let flash = Recording { raw, pages: Arc::clone(&pages) };
    let environment = Environment { clock: harness.clock.clone(), seed: HashSeed([7; 16]) };
    let options = &harness.options;
    let cache =
        Dida::open(flash, harness.files.clone(), options, &environment, harness.startup).unwrap();
    assert_eq!(metric(&cache, "flash_write_streams"), 3.0);
    assert_eq!(metric(&cache, "flash_streamed_bytes"), 4096.0);
    let mut prng = Prng::new(3);
    let soon = harness.clock.unix_ms() + 60_000;
    for number in 0..4000_u64 {
        let expires_unix_ms = if number % 3 == 0 { soon } else { 0 };
        let value = vec![7; 200];
        let entry = EntryRef { value: &value, expires_unix_ms, user_bits: 0 };
        let key = format!("key {}", prng.below(600));
        cache.write(WriteBatch::new().put_entry(key.as_bytes(), entry), NOW).unwrap();
        // What is read is worth a copy.
        let read = format!("key {}", prng.below(600));
        cache.get(read.as_bytes()).unwrap();
        maintain(&cache);
    }
    cache.as_admin().unwrap().close(&mut |_, _| {}).unwrap();
    let pages = pages.lock().unwrap();
    let streams: Vec<u16> = pages.keys().copied().collect();
    assert_eq!(streams, [1, 2, 3, 4], "{pages:?}");
    assert!(pages[&1] > pages[&4], "{pages:?}");
}
