//! The way of a get: bucket → memtables in memory → in the newest run whose filter lets the key
//! pass, one block, from the cache or by one device read. What is in memory is answered at once;
//! keys that have to be read go one after the other through a window of reads in flight: each is
//! searched as its read ends, while the others are under way, and values that lie apart go through
//! the same window. A burst asks for the memory of its next keys before it looks at one, and what
//! it reads goes into the cache under the reads of the thread's next one (`fresh.rs`).

use crate::bucket::{LatestEntries, Version};
use crate::buckets::Buckets;
use crate::contents::{Contents, gone};
use crate::fresh::{BLOCK_BYTES_MAX, Fresh};
use crate::read_one::read_one;
use arc_swap::Guard;
use silica_base::{AlignedBuf, Error, Result};
use silica_device::{Device, Read};
use silica_engine::{EntryRef, GetSink, Intent, Stage, StageWatch, Unwatched};
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::{self, Lookup, Table};
use silica_parts::value_log::{Pointer, RecordRead};
use silica_parts::{CachedBlock, ReadDone, ReadWindow};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// What one burst leaves to the next.
    static SPARE: Cell<Spare> = const { Cell::new(NOTHING) };
}

/// Longer values are read one after the other: many of them at once would take much memory, and
/// the device has enough to do with one.
const TOGETHER_BYTES_MAX: usize = 128 << 10;
/// Keys that are looked at before blocks which the cache has are searched.
const GROUP: usize = 32;
/// Keys whose memory is on its way while one is looked at: enough of them that it is there in time,
/// and few, so that the first reads begin soon.
const AHEAD: usize = 8;
/// Searches that wait together for their tables' indexes; their reads begin together, too.
const LOCATED: usize = 4;

/// Memory that is used again.
#[derive(Default)]
struct Spare {
    /// Hashes of a group's keys.
    keys: Vec<u64>,
    /// Blocks that are not in the cache yet.
    fresh: Fresh,
}

const NOTHING: Spare = Spare { keys: Vec::new(), fresh: Fresh::NOTHING };

/// A key that no memtable has, on its way through the runs.
struct Search<D: Device> {
    index: usize,
    hash: u64,
    version: Guard<Arc<Version<D>>>,
    /// Versions below this position are deleted, with a range.
    deleted: u64,
    /// The place of the part to ask among its version's filters, and its block.
    at: usize,
    block: Option<usize>,
}

impl<D: Device> Search<D> {
    /// Goes to the next part that may have `key`, which is the search's, from the one on where it
    /// is; false where none has.
    #[inline]
    fn go_to_part(&mut self, key: &[u8]) -> bool {
        let Version { filters, runs, .. } = &**self.version;
        let found = filters.next(runs, self.at, (key, self.hash));
        self.at = found.unwrap_or(self.at);
        found.is_some()
    }

    /// The part's table.
    #[inline]
    fn table(&self) -> &Arc<Table<D::File>> {
        self.version.filters.table(self.at)
    }

    /// The block to ask.
    #[inline]
    fn locate(&mut self, key: &[u8]) -> usize {
        let block = self.block.unwrap_or_else(|| self.table().block_of(key));
        self.block = Some(block);
        block
    }

    /// The block that was located, and its table.
    #[inline]
    fn block(&self) -> (&Arc<Table<D::File>>, usize) {
        (self.table(), self.block.expect("it was located"))
    }

    /// False where the search is over with what its block said of `key`.
    fn goes_on(&mut self, key: &[u8], said: &Said) -> bool {
        match said {
            Said::Done => return false,
            Said::Next => self.block = self.block.map(|block| block + 1),
            Said::Absent => {
                (self.at, self.block) = (self.at + 1, None);
                return self.go_to_part(key);
            }
        }
        true
    }
}

/// What waits for a read.
enum Asked<D: Device> {
    /// A search, for its block.
    Block { search: Search<D>, table: Arc<Table<D::File>>, block: usize },
    /// A key, for its value, which lies apart.
    Value { index: usize, expires_unix_ms: u64, user_bits: u32, record: RecordRead<D::File> },
}

impl<D: Device> AsRef<D::File> for Asked<D> {
    fn as_ref(&self) -> &D::File {
        match self {
            Asked::Block { table, .. } => table.file(),
            Asked::Value { record, .. } => record.as_ref(),
        }
    }
}

/// What a block said of a key.
enum Said {
    Done,
    /// The next block has to be asked.
    Next,
    Absent,
}

/// Reports to `sink` what every key had before the position `before`, and had not expired at
/// `at_ms`, or now.
/// `watch` is told which stages the burst is in.
pub(crate) fn read_burst<D: Device, W: StageWatch>(
    contents: &Contents<D>,
    keys: &[&[u8]],
    (before, at_ms): (u64, Option<u64>),
    intent: Intent,
    sink: &mut dyn GetSink,
    watch: W,
) -> Result<()> {
    read(contents, keys, (before, at_ms), intent, (sink, None), watch)
}

/// As [`read_burst`], with nobody who watches. One key alone goes the short way.
#[inline]
pub(crate) fn read_keys<D: Device>(
    contents: &Contents<D>,
    keys: &[&[u8]],
    at: (u64, Option<u64>),
    intent: Intent,
    sink: &mut dyn GetSink,
) -> Result<()> {
    if let [key] = keys
        && read_one(contents, key, at, sink)?
    {
        return Ok(());
    }
    read_burst(contents, keys, at, intent, sink, Unwatched)
}

/// Reports to `sink` what keys have now, as far as memory says it; the indexes of the others go to
/// `left`.
pub(crate) fn read_at_hand<D: Device>(
    contents: &Contents<D>,
    keys: &[&[u8]],
    sink: &mut dyn GetSink,
    left: &mut Vec<usize>,
) -> Result<()> {
    let now = (u64::MAX, None);
    read(contents, keys, now, Intent::Foreground, (sink, Some(left)), Unwatched)
}

fn read<D: Device, W: StageWatch>(
    contents: &Contents<D>,
    keys: &[&[u8]],
    (before, at_ms): (u64, Option<u64>),
    intent: Intent,
    (sink, left): (&mut dyn GetSink, Option<&mut Vec<usize>>),
    watch: W,
) -> Result<()> {
    let Spare { keys: hashes, fresh } = SPARE.take();
    let fresh = fresh.of(&contents.tables.cache);
    let left_before = left.as_ref().map_or(0, |left| left.len());
    let mut burst = Burst {
        contents,
        keys,
        before,
        at_ms,
        keeps: intent.keeps(),
        sink,
        left,
        watch,
        reads: ReadWindow::new(&*contents.device, contents.config.read_depth),
        planned: Vec::new(),
        located: Vec::new(),
        here: Vec::new(),
        fresh,
        plain: Vec::new(),
        gone: Vec::new(),
        hits: 0,
        cache_hits: 0,
        device_reads: 0,
        false_positives: 0,
    };
    let result = burst.run(hashes);
    // What is left is asked for again, and counted then.
    let left = burst.left.as_ref().map_or(0, |left| left.len() - left_before);
    let calls = contents.metrics.calls.mine();
    calls.add(|c| &c.gets, (keys.len() - left) as u64);
    calls.add(|c| &c.hits, burst.hits);
    calls.add(|c| &c.get_reads, burst.device_reads);
    calls.add(|c| &c.false_positives, burst.false_positives);
    contents.tables.cache.count(burst.cache_hits, burst.device_reads);
    let Burst { fresh, .. } = burst;
    SPARE.set(Spare { fresh, keys: result? });
    Ok(())
}

/// The keys of a burst that are not decided, and what they share. Where it ends early, the reads
/// in flight are waited for.
struct Burst<'b, D: Device, W> {
    contents: &'b Contents<D>,
    keys: &'b [&'b [u8]],
    before: u64,
    /// The time that the burst has, once an entry was found that expires.
    at_ms: Option<u64>,
    /// What is read goes into the cache.
    keeps: bool,
    sink: &'b mut dyn GetSink,
    /// Where keys go that a device would have to be asked for, if none may be.
    left: Option<&'b mut Vec<usize>>,
    watch: W,
    reads: ReadWindow<'b, D, Asked<D>>,
    /// What is to be read next.
    planned: Vec<Asked<D>>,
    /// Searches that have come to a part, where there are several keys: the memory of their tables'
    /// indexes is asked for before the first is looked at.
    located: Vec<Search<D>>,
    /// Searches whose blocks the cache has, where there are several: the memory of all of them is
    /// asked for before the first is searched.
    here: Vec<(Search<D>, CachedBlock)>,
    /// Blocks that are not in the cache yet.
    fresh: Fresh,
    /// Where blocks are decompressed to.
    plain: Vec<u8>,
    /// Keys that led to values which were moved, and where those were.
    gone: Vec<(usize, Pointer)>,
    hits: u64,
    cache_hits: u64,
    device_reads: u64,
    /// Blocks that a filter asked for in vain.
    false_positives: u64,
}

impl<D: Device, W: StageWatch> Burst<'_, D, W> {
    /// Answers all keys; the memory of `hashes` comes back.
    fn run(&mut self, mut hashes: Vec<u64>) -> Result<Vec<u64>> {
        let buckets = self.contents.buckets.load();
        if self.keys.len() == 1 {
            // A read that is alone is waited for in the call that begins it.
            self.keep_fresh();
        }
        for start in (0..self.keys.len()).step_by(GROUP) {
            let keys = &self.keys[start..self.keys.len().min(start + GROUP)];
            hashes.clear();
            hashes.extend(keys.iter().map(|key| self.contents.seed.low(key)));
            let (mut ahead, is_one) = (0, self.keys.len() == 1);
            for (at, hash) in hashes.iter().enumerate() {
                // The first reads begin before the memory of other keys is asked for.
                let until = if at < LOCATED { LOCATED } else { at + AHEAD };
                while !is_one && ahead < keys.len().min(until) {
                    Self::prefetch(&buckets, keys[ahead], hashes[ahead]);
                    ahead += 1;
                }
                self.begin(&buckets, start + at, *hash)?;
                if self.located.len() >= LOCATED {
                    self.go_on_located()?;
                }
                self.begin_reads()?;
            }
            self.go_on_all()?;
        }
        if self.reads.has_begun() {
            self.reads.start();
            self.keep_fresh();
        }
        while let Some(done) = self.next_read() {
            self.end_read(done)?;
            self.go_on_all()?;
        }
        Ok(hashes)
    }

    /// Waits for a read in flight.
    #[inline]
    fn next_read(&mut self) -> Option<ReadDone<Asked<D>>> {
        if !self.reads.has_begun() {
            return None;
        }
        self.watch.enter(Stage::Device);
        let done = self.reads.pop();
        self.watch.enter(Stage::Other);
        done
    }

    /// Asks for the memory that a key is looked for in.
    fn prefetch(buckets: &Buckets<D>, key: &[u8], hash: u64) {
        let stores = buckets.of(key).read();
        stores.prefetch(hash);
        stores.version.filters.prefetch(key, hash);
    }

    /// Looks for a key in the memtables, and goes on with the runs where it is not there.
    fn begin(&mut self, buckets: &Buckets<D>, index: usize, hash: u64) -> Result<()> {
        let key = self.keys[index];
        self.watch.enter(Stage::Memory);
        let stores = buckets.of(key).read();
        if stores.is_gone {
            drop(stores);
            return self.begin(&self.contents.buckets(), index, hash);
        }
        if self.keys.len() == 1 {
            stores.version.filters.prefetch(key, hash);
        }
        let deleted = stores.deleted_at(key, self.before);
        loop {
            // Taken under the bucket's lock: no segment that its memtables point at is missing, but
            // for those that come with what others insert.
            let segments = self.contents.log.segments_now();
            let entries = LatestEntries::new(&segments);
            let found = stores.find(hash, key, self.before, &entries);
            if entries.has_missed() {
                continue;
            }
            let Some(found) = found else { break };
            drop(stores);
            let frame = found.entry;
            let entry = EntryRef {
                value: frame.value,
                expires_unix_ms: frame.expires_unix_ms,
                user_bits: frame.user_bits,
            };
            return self.report((index, hash), frame.flags, found.position < deleted, entry);
        }
        let version = stores.version_now();
        drop(stores);
        buckets.of(key).count_read();
        let mut search = Search { index, hash, version, deleted, at: 0, block: None };
        self.watch.enter(Stage::Filter);
        if !search.go_to_part(key) {
            return Ok(());
        }
        if self.keys.len() == 1 {
            return self.go_on(search);
        }
        search.table().prefetch();
        self.located.push(search);
        Ok(())
    }

    /// Goes on with all searches until each is over or has to read, and begins the reads. What is
    /// read meanwhile, where the window is full, may leave some: there are reads in flight then.
    fn go_on_all(&mut self) -> Result<()> {
        while !self.located.is_empty() || !self.here.is_empty() {
            self.go_on_located()?;
            self.begin_reads()?;
            self.search_here()?;
        }
        self.begin_reads()
    }

    /// Goes on with the searches that have come to their parts.
    fn go_on_located(&mut self) -> Result<()> {
        self.located.iter().for_each(|search| search.table().prefetch_index());
        self.located.iter().for_each(|search| search.table().prefetch_separators());
        while let Some(search) = self.located.pop() {
            self.go_on(search)?;
        }
        Ok(())
    }

    /// Passes on what a version with these flags says of key `index`.
    #[inline]
    fn report(
        &mut self,
        (index, hash): (usize, u64),
        flags: u8,
        is_deleted: bool,
        entry: EntryRef<'_>,
    ) -> Result<()> {
        let expires = entry.expires_unix_ms;
        let is_gone = is_deleted || flags & TOMBSTONE != 0;
        if is_gone || expires != 0 && expires <= self.at_ms() {
            return Ok(());
        }
        self.watch.enter(Stage::Other);
        if flags & POINTER != 0 {
            return self.report_apart((index, hash), entry);
        }
        self.sink.found(index, entry);
        self.hits += 1;
        Ok(())
    }

    /// The one time for all keys.
    fn at_ms(&mut self) -> u64 {
        *self.at_ms.get_or_insert_with(|| self.contents.clock.unix_ms())
    }

    /// Reports an entry whose value lies apart: it is read with the others of the burst. Where it
    /// was moved meanwhile, the key is looked up again.
    #[cold]
    fn report_apart(&mut self, (index, hash): (usize, u64), entry: EntryRef<'_>) -> Result<()> {
        if let Some(left) = &mut self.left {
            left.push(index);
            return Ok(());
        }
        let (pointer, key) = (Pointer::in_entry(entry.value)?, self.keys[index]);
        if let Some(record) = self.contents.values.plan_read(&pointer, key)? {
            if record.read_bytes() > TOGETHER_BYTES_MAX {
                if !self.sink.wants(index, record.read_bytes()) {
                    return Ok(());
                }
                self.watch.enter(Stage::Device);
                let value = record.read_alone(key)?;
                self.watch.enter(Stage::Other);
                self.sink.found(index, EntryRef { value: &value, ..entry });
                self.hits += 1;
                return Ok(());
            }
            let EntryRef { expires_unix_ms, user_bits, .. } = entry;
            self.planned.push(Asked::Value { index, expires_unix_ms, user_bits, record });
            return Ok(());
        }
        // A snapshot keeps what it sees, and a lookup later does not lead to the same place.
        if self.before != u64::MAX || self.gone.contains(&(index, pointer)) {
            return Err(gone(&pointer));
        }
        self.gone.push((index, pointer));
        self.begin(&self.contents.buckets(), index, hash)
    }

    /// Looks for a search's key in its part and one run after the other, until it is found, none is
    /// left, or a block has to be read.
    fn go_on(&mut self, mut search: Search<D>) -> Result<()> {
        let key = self.keys[search.index];
        loop {
            self.watch.enter(Stage::Index);
            let block = search.locate(key);
            let table = search.table();
            let id = table.id(block);
            self.watch.enter(Stage::Cache);
            let mut found = self.contents.tables.cache.get(id);
            if found.is_none() && self.fresh.has(id) {
                self.keep_fresh();
                found = self.contents.tables.cache.get(id);
            }
            let Some(bytes) = found else {
                if let Some(left) = &mut self.left {
                    left.push(search.index);
                    return Ok(());
                }
                let table = Arc::clone(table);
                self.planned.push(Asked::Block { search, table, block });
                return Ok(());
            };
            self.cache_hits += 1;
            if self.keys.len() > 1 {
                table::prefetch_end(&bytes);
                self.here.push((search, bytes));
                return Ok(());
            }
            let said = self.ask(&search, table, block, &bytes)?;
            if !search.goes_on(key, &said) {
                return Ok(());
            }
        }
    }

    /// Searches the blocks that the cache has.
    fn search_here(&mut self) -> Result<()> {
        while !self.here.is_empty() {
            let here = std::mem::take(&mut self.here);
            here.iter().for_each(|(_, bytes)| table::prefetch_keys(bytes));
            for (mut search, bytes) in here {
                let (table, block) = search.block();
                let said = self.ask(&search, table, block, &bytes)?;
                if search.goes_on(self.keys[search.index], &said) {
                    self.go_on(search)?;
                }
                // What was said may have led to another look.
                self.begin_reads()?;
            }
        }
        Ok(())
    }

    /// Looks for a search's key in the bytes of a block.
    #[inline]
    fn ask(
        &mut self,
        search: &Search<D>,
        table: &Table<D::File>,
        block: usize,
        bytes: &[u8],
    ) -> Result<Said> {
        let (index, deleted) = (search.index, search.deleted);
        self.watch.enter(Stage::Search);
        match table.search(block, bytes, self.keys[index], self.before - 1)? {
            Lookup::Found(version) => {
                let entry = EntryRef {
                    value: version.value,
                    expires_unix_ms: version.expires_unix_ms,
                    user_bits: version.user_bits,
                };
                let is_deleted = version.sequence < deleted;
                self.report((index, search.hash), version.flags, is_deleted, entry)?;
                Ok(Said::Done)
            }
            Lookup::Next => Ok(Said::Next),
            Lookup::Absent => {
                self.watch.enter(Stage::Filter);
                self.false_positives += 1;
                Ok(Said::Absent)
            }
        }
    }

    /// Begins the reads that are planned. Where the window is full, each takes the place of one
    /// that ended before that one is searched: the device never waits for the processor.
    fn begin_reads(&mut self) -> Result<()> {
        while let Some(asked) = self.planned.pop() {
            let (offset, len) = match &asked {
                Asked::Block { table, block, .. } => {
                    self.device_reads += 1;
                    let place = table.place(*block);
                    (place.offset, place.len)
                }
                Asked::Value { record, .. } => (record.offset(), record.read_bytes()),
            };
            if len > TOGETHER_BYTES_MAX && !self.make_way(&asked, len)? {
                continue;
            }
            self.watch.enter(Stage::Device);
            let done = self.reads.make_room();
            self.watch.enter(Stage::Queue);
            self.reads.push(asked, offset, len);
            if let Some(done) = done {
                self.end_read(done)?;
            }
        }
        Ok(())
    }

    /// Waits for all reads in flight before a large one; false if what it brings is not wanted.
    #[cold]
    fn make_way(&mut self, asked: &Asked<D>, len: usize) -> Result<bool> {
        while let Some(done) = self.next_read() {
            self.end_read(done)?;
        }
        Ok(match asked {
            Asked::Block { search, .. } => self.sink.wants(search.index, len),
            Asked::Value { .. } => true,
        })
    }

    /// Passes on the value that a read brought, or searches the block and goes on with its key.
    fn end_read(&mut self, (read, filled): ReadDone<Asked<D>>) -> Result<()> {
        let (Read { of, offset, buf }, filled) = (read, filled?);
        match of {
            Asked::Block { search, table, block } => {
                if filled < buf.len() {
                    let at = offset + filled as u64;
                    return Err(Error::corruption(table.name(), at, "the file ends early"));
                }
                self.end_block(search, &table, block, buf)
            }
            Asked::Value { index, expires_unix_ms, user_bits, record } => {
                let value = record.value(&buf[..filled], self.keys[index])?;
                self.sink.found(index, EntryRef { value, expires_unix_ms, user_bits });
                self.hits += 1;
                self.reads.keep(buf);
                Ok(())
            }
        }
    }

    fn end_block(
        &mut self,
        mut search: Search<D>,
        table: &Table<D::File>,
        block: usize,
        buf: AlignedBuf,
    ) -> Result<()> {
        let mut plain = std::mem::take(&mut self.plain);
        self.watch.enter(Stage::Search);
        let bytes = table.check(block, &buf, &mut plain)?;
        let said = self.ask(&search, table, block, bytes)?;
        let (id, len) = (table.id(block), bytes.len());
        // What was decompressed is somewhere else.
        let is_buf = std::ptr::eq(bytes.as_ptr(), buf.as_ptr());
        self.watch.enter(Stage::Cache);
        if !self.keeps {
            self.reads.keep(buf);
        } else if self.keys.len() > 1 && is_buf && buf.capacity() <= BLOCK_BYTES_MAX {
            if self.fresh.is_full() {
                self.keep_fresh();
            }
            self.fresh.add(id, buf, len);
        } else {
            self.contents.tables.cache.insert(id, bytes);
            self.reads.keep(buf);
        }
        self.plain = plain;
        if search.goes_on(self.keys[search.index], &said) { self.go_on(search) } else { Ok(()) }
    }

    /// Puts blocks that are not in the cache yet into it.
    fn keep_fresh(&mut self) {
        self.fresh.keep(&self.contents.tables.cache, |buf| self.reads.keep(buf));
    }
}
