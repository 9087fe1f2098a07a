//! The way of a get: hash → partition → log stores in memory → one device read per candidate in
//! the hash stores and the sorted store. The keys of a burst go one after the other through a
//! window of reads in flight: each is searched as its read ends, while the others are under way.

use crate::ground::Ground;
use crate::hash_store::{Candidates, HashStore};
use crate::journal::Journal;
use crate::packed::{Extent, Found, PackedReader};
use crate::partition::{Stores, Version};
use crate::partitions::Partitions;
use crate::sorted_store::{Plan, SortedStore};
use silica_base::{AlignedBuf, BiasedRead, Error, ErrorKind, KeyHash, Result};
use silica_device::{Device, Read};
use silica_engine::optimistic::Seen;
use silica_engine::{EntryRef, GetSink, Stage, StageWatch, Unwatched};
use silica_parts::frame::Frame;
use silica_parts::value_log::Pointer;
use silica_parts::{ReadDone, ReadWindow};
use std::mem::take;
use std::sync::Arc;

/// A key that the log stores did not answer, on its way through the other stores.
struct Lookup<D: Device> {
    index: usize,
    hash: KeyHash,
    version: Arc<Version<D>>,
    /// Stores asked, the one in hand included: hash stores youngest first, then the sorted store.
    asked: usize,
    /// Where the store in hand may have the key, and how many of these places were searched.
    candidates: Candidates,
    searched: usize,
    /// Device reads of indexes that are not in memory, not counted yet.
    index_reads: u64,
}

/// How a lookup goes on.
enum Step {
    /// This is to be read.
    Read(Extent),
    /// The sorted store has no index in memory, and searches by itself.
    Search,
    /// No store is left.
    Absent,
}

/// What a burst counts.
#[derive(Default)]
struct Tally {
    log: u64,
    hash: u64,
    sorted: u64,
    reads: u64,
    false_positives: u64,
}

/// Takes the newest frame of the key with an index; true where it counts as a hit.
type OnFrame<'a> = dyn FnMut(usize, &Frame<'_>) -> Result<bool> + 'a;

/// What a read looks at.
pub(crate) struct Reads<D: Device> {
    pub(crate) ground: Arc<Ground<D>>,
    pub(crate) journal: Arc<Journal<D>>,
    pub(crate) partitions: Arc<Partitions<D>>,
}

impl<D: Device> Reads<D> {
    pub(crate) fn new(partitions: &Arc<Partitions<D>>) -> Self {
        Reads {
            ground: Arc::clone(&partitions.ground),
            journal: Arc::clone(&partitions.journal),
            partitions: Arc::clone(partitions),
        }
    }

    /// Reports all `keys`; `watch` is told which stages that is in.
    pub(crate) fn read_burst<W: StageWatch>(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        watch: W,
    ) -> Result<()> {
        let report = &mut |index, frame: &Frame<'_>| self.report(index, frame, sink);
        let tally = self.find_frames(keys, report, watch)?;
        self.count_reads(keys.len(), &tally);
        Ok(())
    }

    /// The newest frame of `key`, a tombstone included, encoded.
    pub(crate) fn newest_frame(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut newest = None;
        self.find_frames(
            &[key],
            &mut |_, frame| {
                newest = Some(encoded(frame));
                Ok(true)
            },
            Unwatched,
        )?;
        Ok(newest)
    }

    /// Calls `found` with the newest frame of every key that has one; it says whether the key
    /// counts as a hit.
    fn find_frames<W: StageWatch>(
        &self,
        keys: &[&[u8]],
        found: &mut OnFrame<'_>,
        mut watch: W,
    ) -> Result<Tally> {
        watch.enter(Stage::Memory);
        let mut burst = Burst {
            store: self,
            keys,
            found,
            watch,
            reads: ReadWindow::new(&*self.ground.device, self.ground.config.read_depth),
            planned: Vec::new(),
            tally: Tally::default(),
        };
        if let [key] = keys {
            // No list of hashes, and nothing to ask for ahead of its turn.
            burst.begin(0, self.ground.hash(key))?;
            burst.begin_reads()?;
        } else {
            let hashes = self.hash_and_prefetch(keys.iter().copied());
            for (index, hash) in hashes.into_iter().enumerate() {
                burst.begin(index, hash)?;
                burst.begin_reads()?;
            }
        }
        while let Some(done) = burst.next_read() {
            burst.end_read(done)?;
            burst.begin_reads()?;
        }
        Ok(burst.tally)
    }

    /// Hashes a burst of keys and asks the processor for the table lines that they will need.
    pub(crate) fn hash_and_prefetch<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
    ) -> Vec<KeyHash> {
        let is_burst = keys.len() > 1;
        keys.map(|key| {
            let hash = self.ground.hash(key);
            if is_burst {
                self.partitions.partition_of(hash).read().active.prefetch(hash);
            }
            hash
        })
        .collect()
    }

    /// What a change of `key` changes.
    pub(crate) fn seen(&self, key: &[u8]) -> Seen {
        let hash = self.ground.hash(key);
        let stores = self.partitions.partition_of(hash).read();
        let log = &self.journal.log;
        log.with_segments(|segments| match stores.find_in_log(segments, log.end(), hash, key) {
            Some(found) => Seen::InMemory(found.at),
            None => Seen::Elsewhere(stores.version.epoch),
        })
    }

    /// Calls `then` with the entry of `frame`, its value fetched from the value log if it is
    /// there. Where the value was moved meanwhile, the entry is the newest of its key; false where
    /// that is gone.
    pub(crate) fn with_value(
        &self,
        frame: &Frame<'_>,
        then: &mut dyn FnMut(EntryRef<'_>),
    ) -> Result<bool> {
        let (expires_unix_ms, user_bits) = (frame.expires_unix_ms, frame.user_bits);
        if !frame.is_pointer() {
            then(EntryRef { value: frame.value, expires_unix_ms, user_bits });
            return Ok(true);
        }
        if let Some(value) = self.journal.load_value(frame)? {
            then(EntryRef { value: &value, expires_unix_ms, user_bits });
            return Ok(true);
        }
        // A segment goes only after everything live in it is elsewhere.
        let Some(newest) = self.newest_frame(frame.key)? else { return Ok(false) };
        let (newest, _) = Frame::decode(&newest).expect("it was just encoded");
        if newest.is_tombstone() || self.ground.is_expired(&newest) {
            return Ok(false);
        }
        if newest.is_pointer() && newest.value == frame.value {
            let number = Pointer::of(frame)?.segment;
            let message = format!("an entry points into value-log segment {number}, which is gone");
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        self.with_value(&newest, then)
    }

    fn count_reads(&self, keys: usize, tally: &Tally) {
        let mine = self.ground.metrics.gets.mine();
        mine.add(|gets| &gets.gets, keys as u64);
        mine.add(|gets| &gets.hits_log, tally.log);
        mine.add(|gets| &gets.hits_hash, tally.hash);
        mine.add(|gets| &gets.hits_sorted, tally.sorted);
        mine.add(|gets| &gets.reads, tally.reads);
        mine.add(|gets| &gets.false_positives, tally.false_positives);
    }

    /// Reports `frame`, which is the newest of its key; true where the key exists.
    fn report(&self, index: usize, frame: &Frame<'_>, sink: &mut dyn GetSink) -> Result<bool> {
        if frame.is_tombstone() || self.ground.is_expired(frame) {
            return Ok(false);
        }
        if frame.is_pointer() {
            let bytes = Pointer::of(frame)?.record_bytes() as usize;
            if !sink.wants(index, bytes) {
                return Ok(true);
            }
        }
        self.with_value(frame, &mut |entry| sink.found(index, entry))
    }
}

/// A copy that outlives the log.
fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frame.encoded_len());
    frame.encode(&mut bytes);
    bytes
}

/// The keys of a burst that are not decided, and what they share. Where it ends early, the reads
/// in flight are waited for.
struct Burst<'b, 'f, D: Device, W> {
    store: &'b Reads<D>,
    keys: &'b [&'b [u8]],
    found: &'b mut OnFrame<'f>,
    watch: W,
    reads: ReadWindow<'b, D, Lookup<D>>,
    /// Found while the window was full.
    planned: Vec<(Lookup<D>, Extent)>,
    tally: Tally,
}

impl<D: Device, W: StageWatch> Burst<'_, '_, D, W> {
    /// Waits for a read in flight.
    #[inline]
    fn next_read(&mut self) -> Option<ReadDone<Lookup<D>>> {
        self.watch.enter(Stage::Device);
        let done = self.reads.pop();
        self.watch.enter(Stage::Other);
        done
    }

    /// Looks for a key in the log stores, and begins with the other stores where it is not there.
    fn begin(&mut self, index: usize, hash: KeyHash) -> Result<()> {
        self.watch.enter(Stage::Memory);
        let stores = self.store.partitions.partition_of(hash).read();
        let stores = match stores.may_be_in_log(hash) {
            true => self.answer_from_log(index, hash, stores)?,
            false => Some(stores),
        };
        let Some(stores) = stores else { return Ok(()) };
        let Some((asked, candidates)) = ask(&stores.version, hash, &mut self.watch)? else {
            self.watch.enter(Stage::Other);
            return Ok(());
        };
        // Counted, on a line that all readers write, only where the device is read.
        let version = Arc::clone(&stores.version);
        drop(stores);
        self.go_on(Lookup { index, hash, version, asked, candidates, searched: 0, index_reads: 0 })
    }

    /// Answers a key that is in the log stores; hands `stores` back if it is not.
    fn answer_from_log<'s>(
        &mut self,
        index: usize,
        hash: KeyHash,
        stores: BiasedRead<'s, Stores<D>>,
    ) -> Result<Option<BiasedRead<'s, Stores<D>>>> {
        let log = &self.store.journal.log;
        let mut apart = None;
        // Under the partition's lock: no segment that its tables point at is missing.
        let stores = log.with_segments(|segments| {
            let newest = stores.find_in_log(segments, log.end(), hash, self.keys[index]);
            let Some(newest) = newest else { return Ok(Some(stores)) };
            drop(stores);
            self.watch.enter(Stage::Other);
            if newest.frame.is_pointer() {
                // Its value may have to be read: nobody is to wait for that.
                apart = Some(encoded(&newest.frame));
            } else {
                self.tally.log += u64::from((self.found)(index, &newest.frame)?);
            }
            Ok::<_, Error>(None)
        })?;
        if let Some(bytes) = apart {
            let (frame, _) = Frame::decode(&bytes).expect("it was just encoded");
            self.tally.log += u64::from((self.found)(index, &frame)?);
        }
        Ok(stores)
    }

    /// Plans the next read of a lookup, where it needs one.
    fn go_on(&mut self, mut lookup: Lookup<D>) -> Result<()> {
        let step = lookup.step(&mut self.watch)?;
        self.watch.enter(Stage::Other);
        self.tally.reads += take(&mut lookup.index_reads);
        match step {
            Step::Absent => Ok(()),
            Step::Search => self.search_unindexed(&lookup),
            Step::Read(extent) => {
                self.planned.push((lookup, extent));
                Ok(())
            }
        }
    }

    /// Begins the reads that are planned. Where the window is full, each takes the place of one
    /// that ended before that one is searched: the device never waits for the processor.
    fn begin_reads(&mut self) -> Result<()> {
        while let Some((lookup, extent)) = self.planned.pop() {
            self.watch.enter(Stage::Device);
            let done = self.reads.make_room();
            self.tally.reads += 1;
            self.watch.enter(Stage::Queue);
            self.reads.push(lookup, extent.offset(), extent.bytes());
            if let Some(done) = done {
                self.end_read(done)?;
            }
        }
        Ok(())
    }

    /// Answers a key whose sorted store has no index in memory.
    fn search_unindexed(&mut self, lookup: &Lookup<D>) -> Result<()> {
        let store = lookup.sorted_store();
        let counters = self.store.ground.device.counters();
        let reads_before = counters.snapshot().reads;
        let mut buf = AlignedBuf::zeroed(0);
        self.watch.enter(Stage::Device);
        let newest = store.lookup(lookup.hash, self.keys[lookup.index], &mut buf)?;
        self.tally.reads += counters.snapshot().reads - reads_before;
        if let Some(frame) = newest {
            self.tally.sorted += u64::from((self.found)(lookup.index, &frame)?);
        }
        Ok(())
    }

    /// Searches what a read brought, and goes on with its key.
    fn end_read(&mut self, (read, filled): ReadDone<Lookup<D>>) -> Result<()> {
        let Read { of: lookup, offset, mut buf } = read;
        let filled = filled?;
        if filled < buf.len() {
            let at = offset + filled as u64;
            return Err(Error::corruption(lookup.reader().name(), at, "the file ends early"));
        }
        let undecided = self.search(lookup, &mut buf)?;
        self.reads.keep(buf);
        undecided.map_or(Ok(()), |lookup| self.go_on(lookup))
    }

    /// Looks for the key in what was read; hands the lookup back where it is not decided.
    fn search(&mut self, mut lookup: Lookup<D>, buf: &mut [u8]) -> Result<Option<Lookup<D>>> {
        let index = lookup.index;
        self.watch.enter(Stage::Search);
        match lookup.find(buf, self.keys[index])? {
            Found::Entry(frame) => {
                self.watch.enter(Stage::Other);
                let there = u64::from((self.found)(index, &frame)?);
                let in_hash_store = lookup.hash_store().is_some();
                *(if in_hash_store { &mut self.tally.hash } else { &mut self.tally.sorted }) +=
                    there;
                return Ok(None);
            }
            Found::Absent => {
                self.tally.false_positives += u64::from(lookup.hash_store().is_some());
                lookup.searched += 1;
            }
            Found::More(extent) => lookup.candidates.replace(lookup.searched, extent),
        }
        Ok(Some(lookup))
    }
}

/// How far a lookup comes by what is in memory: how many stores were asked, and where the last one
/// may have the key; `None` if no store has it.
#[inline]
fn ask<D: Device>(
    version: &Version<D>,
    hash: KeyHash,
    watch: &mut impl StageWatch,
) -> Result<Option<(usize, Candidates)>> {
    let mut candidates = Candidates::new();
    for (number, store) in version.hash_stores.iter().enumerate() {
        watch.enter(Stage::Filter);
        if !store.candidates_in_memory(hash, &mut candidates)? {
            return Ok(Some((number, candidates)));
        }
        if !candidates.extents().is_empty() {
            return Ok(Some((number + 1, candidates)));
        }
    }
    let Some(store) = &version.sorted_store else { return Ok(None) };
    watch.enter(Stage::Index);
    let number = version.hash_stores.len();
    Ok(match store.plan(hash) {
        Plan::Absent => None,
        Plan::Read(extent) => Some((number + 1, Candidates::one(extent))),
        Plan::Search => Some((number, candidates)),
    })
}

impl<D: Device> Lookup<D> {
    /// Finds out what comes next.
    fn step(&mut self, watch: &mut impl StageWatch) -> Result<Step> {
        loop {
            if let Some(extent) = self.candidates.extents().get(self.searched) {
                return Ok(Step::Read(*extent));
            }
            self.searched = 0;
            self.candidates.clear();
            let store = self.asked;
            self.asked += 1;
            if let Some(store) = self.version.hash_stores.get(store) {
                watch.enter(Stage::Filter);
                self.index_reads += store.candidates(self.hash, &mut self.candidates)?;
            } else if store > self.version.hash_stores.len() {
                return Ok(Step::Absent);
            } else if let Some(store) = &self.version.sorted_store {
                watch.enter(Stage::Index);
                match store.plan(self.hash) {
                    Plan::Read(extent) => self.candidates = Candidates::one(extent),
                    Plan::Absent => {}
                    Plan::Search => return Ok(Step::Search),
                }
            }
        }
    }

    /// The store in hand, where it is a hash store.
    fn hash_store(&self) -> Option<&HashStore<D::File>> {
        self.version.hash_stores.get(self.asked - 1).map(|store| &**store)
    }

    /// The store in hand, where it is none.
    fn sorted_store(&self) -> &SortedStore<D::File> {
        self.version.sorted_store.as_ref().expect("no other store is left")
    }

    fn reader(&self) -> &PackedReader<D::File> {
        self.hash_store().map_or_else(|| self.sorted_store().reader(), HashStore::reader)
    }

    /// Searches what was read.
    fn find<'b>(&self, buf: &'b mut [u8], key: &[u8]) -> Result<Found<'b>> {
        let extent = self.candidates.extents()[self.searched];
        match self.hash_store() {
            Some(store) => store.find(buf, extent, key),
            None => self.sorted_store().find(buf, extent, self.hash, key),
        }
    }
}

impl<D: Device> AsRef<D::File> for Lookup<D> {
    fn as_ref(&self) -> &D::File {
        self.reader().file()
    }
}
