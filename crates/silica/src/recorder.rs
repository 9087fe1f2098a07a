//! What is recorded, between the threads that call and the one that writes.
//!
//! A caller appends its operation to one of some buffers, mostly its own, under a lock that is
//! never held while anything waits. Memory is fixed: where it is used up, operations are dropped
//! and counted. Invariants:
//!
//! 1. Within a buffer times rise, because each is taken under the buffer's lock.
//! 2. So what has a time before a moment lies in a buffer whose lock is had after that moment, and
//!    [`Recorder::drain`] gives operations in the order of their times, over all buffers and calls.

use silica_base::{HashSeed, KeyHash};
use silica_engine::{Error, ErrorKind, Result};
use silica_tune::trace::{Event, TraceKind, TraceWriter};
use std::cell::Cell;
use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Buffers, of which threads share one where there are more.
const SHARDS: usize = 16;
/// Memory is taken in such pieces.
const CHUNK_BYTES: usize = 32 << 10;
/// Bytes of a key, at most: a line of a trace holds it with every byte escaped.
const KEY_BYTES_MAX: usize = 128 << 10;
/// Nanoseconds, operation, size, bytes of the caller's key, bytes that follow.
const HEADER_BYTES: usize = 8 + 1 + 4 + 4 + 4;
/// Bytes of the line that ends a trace, at most.
const END_BYTES_MAX: u64 = 160;
/// The least that a trace may be limited to.
const BYTES_MAX_MIN: u64 = 1 << 10;
/// A full recorder that nobody has read for so long is forgotten.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);
/// What stands for a key has at least so many letters, of 6 bits each.
const STAND_IN_BYTES_MIN: usize = 8;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How a keyspace is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Keys as they are. Else each is replaced by letters of its hash under a secret of this
    /// recording: as long as the key (at least 8 letters), the same wherever the key comes, in no
    /// order. Values are never recorded, only their sizes.
    pub real_keys: bool,
    /// Records one key in so many, chosen by hash, with all operations on it, so that how often
    /// and how far apart a key is asked for stays right.
    pub one_key_in: u64,
    /// Bytes of memory for what was not written yet (at least 1 MiB; about twice as much while it
    /// is written). Operations that come while it is used up are dropped and counted: nobody waits
    /// for a recording.
    pub buffer_bytes: usize,
    /// The trace never has more bytes (at least 1 KiB): the recording ends by itself before.
    pub bytes_max: Option<u64>,
}

impl Default for RecordOptions {
    fn default() -> Self {
        RecordOptions { real_keys: false, one_key_in: 1, buffer_bytes: 8 << 20, bytes_max: None }
    }
}

/// What a recording came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordReport {
    /// Lines of the trace.
    pub operations: u64,
    /// Operations that came faster than they could be written.
    pub dropped: u64,
    /// Operations that traces do not have: ranges removed, walks in an engine's own order.
    pub unrecorded: u64,
    /// Bytes of the trace.
    pub bytes: u64,
    /// From its beginning to its end.
    pub time: Duration,
}

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The number of this thread among those that recorded something.
fn number_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Shard {
    full: Vec<Vec<u8>>,
    now: Vec<u8>,
    dropped: u64,
    unrecorded: u64,
    is_closed: bool,
}

struct Out {
    text: TraceWriter<Vec<u8>>,
    /// Operations that came while the buffers were emptied one after the other.
    carried: Vec<u8>,
    report: RecordReport,
    /// The trace's bytes without its last line, at most.
    bytes_max: u64,
    /// A line came that had no room.
    is_full: bool,
}

impl Out {
    /// Appends lines, unless the trace is full, or would be.
    fn append(
        &mut self,
        lines: impl FnOnce(&mut TraceWriter<Vec<u8>>) -> Result<()>,
    ) -> Result<()> {
        if self.is_full {
            return Ok(());
        }
        let before = self.text.get_mut().len();
        lines(&mut self.text)?;
        let text = self.text.get_mut();
        if self.report.bytes + text.len() as u64 > self.bytes_max {
            text.truncate(before);
            self.is_full = true;
        }
        Ok(())
    }

    /// Appends what lies in `chunks` in the order of its times; what has none before `horizon` is
    /// carried to the next time.
    fn append_in_order(&mut self, chunks: &[Vec<u8>], horizon: u64, real_keys: bool) -> Result<()> {
        let mut order = Vec::new();
        for (number, chunk) in chunks.iter().enumerate() {
            let mut at = 0;
            while let Some(noted) = Noted::read(chunk, at) {
                order.push((noted.nanos, number, at));
                at += HEADER_BYTES + noted.bytes.len();
            }
        }
        silica_base::compact_sort_by_key(&mut order, |(nanos, ..)| *nanos);
        let mut key = Vec::new();
        for (nanos, number, at) in order {
            let Some(noted) = Noted::read(&chunks[number], at) else { continue };
            if nanos >= horizon {
                let end = at + HEADER_BYTES + noted.bytes.len();
                self.carried.extend_from_slice(&chunks[number][at..end]);
                continue;
            }
            key.clear();
            match real_keys {
                true => key.extend_from_slice(noted.bytes),
                false => stand_in(noted.bytes, noted.key_bytes, &mut key),
            }
            let time = Duration::from_nanos(nanos);
            self.append(|text| text.record(&Event { time, kind: noted.kind, key: &key }))?;
            if self.is_full {
                break;
            }
            self.report.operations += 1;
        }
        Ok(())
    }
}

/// A recording under way.
pub(crate) struct Recorder {
    seed: HashSeed,
    real_keys: bool,
    one_key_in: u64,
    started: Instant,
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes of memory that may still be taken.
    room: AtomicUsize,
    /// Nanoseconds when it was drained last.
    drained: AtomicU64,
    is_abandoned: AtomicBool,
    /// The trace has its last line.
    has_ended: AtomicBool,
    /// The thread that writes, which is told when there is something.
    writer: OnceLock<Thread>,
    out: Mutex<Out>,
}

impl Recorder {
    /// Begins; keys are hashed under `seed`, which nobody else knows.
    ///
    /// # Errors
    /// `Config` where the trace is to have fewer bytes than its first and last lines.
    pub(crate) fn new(options: &RecordOptions, seed: HashSeed) -> Result<Self> {
        let bytes_max = options.bytes_max.unwrap_or(u64::MAX);
        if bytes_max < BYTES_MAX_MIN {
            let message = format!(
                "a trace of at most {bytes_max} bytes has no room for anything; allow it \
                 {BYTES_MAX_MIN} or more"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut text = TraceWriter::new(Vec::new())?;
        if options.one_key_in > 1 {
            text.one_key_in(options.one_key_in)?;
        }
        text.comment(match options.real_keys {
            true => "keys are real",
            false => "keys are replaced by hashes",
        })?;
        Ok(Recorder {
            seed,
            real_keys: options.real_keys,
            one_key_in: options.one_key_in.max(1),
            started: Instant::now(),
            shards: Default::default(),
            room: AtomicUsize::new(options.buffer_bytes.max(2 * SHARDS * CHUNK_BYTES)),
            drained: AtomicU64::new(0),
            is_abandoned: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            writer: OnceLock::new(),
            out: Mutex::new(Out {
                text,
                carried: Vec::new(),
                report: RecordReport::default(),
                bytes_max: bytes_max - END_BYTES_MAX,
                is_full: false,
            }),
        })
    }

    /// Who is woken where a piece of memory is full.
    pub(crate) fn wakes(&self, writer: Thread) {
        let _ = self.writer.set(writer);
    }

    /// True where it was full for a while and nobody came.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }

    /// Since it was drained last.
    pub(crate) fn idle(&self) -> Duration {
        let drained = self.drained.load(Ordering::Relaxed);
        Duration::from_nanos(self.nanos().saturating_sub(drained))
    }

    fn nanos(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Operations that one call came to.
    pub(crate) fn record<'k>(&self, operations: impl Iterator<Item = (TraceKind, &'k [u8])>) {
        let mut shard = lock(&self.shards[number_of_thread() % SHARDS]);
        if shard.is_closed {
            return;
        }
        let nanos = self.nanos();
        operations.for_each(|(kind, key)| self.push(&mut shard, nanos, kind, key));
    }

    /// An operation that traces have no line for.
    pub(crate) fn cannot_record(&self) {
        let mut shard = lock(&self.shards[number_of_thread() % SHARDS]);
        shard.unrecorded += u64::from(!shard.is_closed);
    }

    fn push(&self, shard: &mut Shard, nanos: u64, kind: TraceKind, key: &[u8]) {
        let needs_hash = !self.real_keys || self.one_key_in > 1;
        let hash = if needs_hash { self.seed.hash(key) } else { KeyHash(0) };
        if !is_one_in(hash, self.one_key_in) {
            return;
        }
        if key.len() > KEY_BYTES_MAX || (self.real_keys && key.is_empty()) {
            shard.unrecorded += 1;
            return;
        }
        let hashed = hash.0.to_le_bytes();
        let bytes = if self.real_keys { key } else { &hashed[..] };
        let needed = HEADER_BYTES + bytes.len();
        if shard.now.capacity() - shard.now.len() < needed && !self.make_room(shard, needed) {
            shard.dropped += 1;
            return;
        }
        let (operation, size) = match kind {
            TraceKind::Get => (0, 0),
            TraceKind::Put { value_bytes } => (1, value_bytes),
            TraceKind::Delete => (2, 0),
            TraceKind::Scan { entries } => (3, entries),
        };
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let now = &mut shard.now;
        now.extend_from_slice(&nanos.to_le_bytes());
        now.push(operation);
        now.extend_from_slice(&number(size));
        now.extend_from_slice(&number(key.len()));
        now.extend_from_slice(&number(bytes.len()));
        now.extend_from_slice(bytes);
    }

    /// Takes a piece of memory where there is one.
    #[cold]
    fn make_room(&self, shard: &mut Shard, needed: usize) -> bool {
        let bytes = needed.max(CHUNK_BYTES);
        let take_of = |room: usize| room.checked_sub(bytes);
        let took = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_of).is_ok();
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
        if took {
            let full = std::mem::replace(&mut shard.now, Vec::with_capacity(bytes));
            if full.capacity() > 0 {
                shard.full.push(full);
            }
        } else {
            let is_abandoned = self.idle() > ABANDONED_AFTER;
            self.is_abandoned.fetch_or(is_abandoned, Ordering::Relaxed);
        }
        took
    }

    /// True where the trace has its last line: it is as large as it may be, or was drained for the
    /// last time.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The lines of what was recorded since the last time; at the `last` time all that is left.
    /// From then on, or once the trace is as large as it may be, nothing is recorded, and there are
    /// no more lines.
    pub(crate) fn drain(&self, last: bool) -> Result<Vec<u8>> {
        let mut guard = lock(&self.out);
        let out = &mut *guard;
        // Before the first lock: see the second invariant.
        let now = self.nanos();
        let horizon = if last { u64::MAX } else { now };
        self.drained.store(now, Ordering::Relaxed);
        if self.has_ended() {
            return Ok(Vec::new());
        }
        let mut chunks = vec![take(&mut out.carried)];
        let mut dropped = 0;
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.is_closed |= last;
            chunks.append(&mut shard.full);
            if !shard.now.is_empty() {
                chunks.push(take(&mut shard.now));
            }
            dropped += take(&mut shard.dropped);
            out.report.unrecorded += take(&mut shard.unrecorded);
        }
        let room = chunks.iter().skip(1).map(Vec::capacity).sum::<usize>();
        if dropped > 0 {
            let comment = format!("{dropped} operations were dropped about here");
            out.append(|text| text.comment(&comment))?;
            out.report.dropped += dropped;
        }
        out.append_in_order(&chunks, horizon, self.real_keys)?;
        drop(chunks);
        self.room.fetch_add(room, Ordering::Relaxed);
        if last || out.is_full {
            self.end(out)?;
        }
        out.report.time = Duration::from_nanos(now);
        let text = take(out.text.get_mut());
        out.report.bytes += text.len() as u64;
        Ok(text)
    }

    /// Ends the trace with a line that says so, for which there is room.
    fn end(&self, out: &mut Out) -> Result<()> {
        for shard in &self.shards {
            *lock(shard) = Shard { is_closed: true, ..Shard::default() };
        }
        out.carried = Vec::new();
        let RecordReport { operations, dropped, unrecorded, .. } = out.report;
        out.text.comment(&format!(
            "the end: {operations} operations, {dropped} dropped, {unrecorded} that traces do not \
             have"
        ))?;
        self.has_ended.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What was drained so far.
    pub(crate) fn report(&self) -> RecordReport {
        lock(&self.out).report
    }
}

/// Keys by their hash, one in so many.
fn is_one_in(hash: KeyHash, keys: u64) -> bool {
    keys <= 1 || (u128::from(hash.high()) * u128::from(keys)) >> 64 == 0
}

/// Letters of a hash, as many as the key has bytes, but enough to tell keys apart.
fn stand_in(hash: &[u8], key_bytes: usize, out: &mut Vec<u8>) {
    let mut rest = hash.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
    for _ in 0..key_bytes.max(STAND_IN_BYTES_MIN) {
        out.push(LETTERS[(rest & 63) as usize]);
        rest >>= 6;
    }
}

/// An operation in a buffer.
struct Noted<'a> {
    nanos: u64,
    kind: TraceKind,
    /// Of the caller's key.
    key_bytes: usize,
    /// The key, or its hash.
    bytes: &'a [u8],
}

impl<'a> Noted<'a> {
    fn read(chunk: &'a [u8], at: usize) -> Option<Self> {
        let (nanos, rest) = chunk.get(at..)?.split_first_chunk()?;
        let ([operation], rest) = rest.split_first_chunk()?;
        let (numbers, rest) = rest.split_at_checked(12)?;
        let numbers = numbers.as_chunks::<4>().0;
        let number = |at: usize| u32::from_le_bytes(numbers[at]) as usize;
        let kind = match operation {
            0 => TraceKind::Get,
            1 => TraceKind::Put { value_bytes: number(0) },
            2 => TraceKind::Delete,
            _ => TraceKind::Scan { entries: number(0) },
        };
        let bytes = rest.get(..number(2))?;
        Some(Noted { nanos: u64::from_le_bytes(*nanos), kind, key_bytes: number(1), bytes })
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
