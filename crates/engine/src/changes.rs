//! The stream of committed batches, as far back as it is kept.

use crate::histories::Histories;
use crate::{EntryRef, Op, OpKind, Snapshot, WriteBatch};
use silica_base::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// A place in a stream of changes: behind all batches that a reader has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangePoint {
    /// Which stream: another one begins when the store is opened, and when its contents change
    /// otherwise than by batches. The store knows which streams go on in later ones, and up to
    /// which number; to others, numbers of different streams say nothing of each other.
    pub history: u64,
    /// That of [`Snapshot::sequence`]: a snapshot has the batches up to it, and no later one.
    pub sequence: u64,
}

/// Committed batches since a point: for replicas, audits and subscribers.
///
/// ```text
/// writer:  append b1 ── visible ── append b2 ── visible ── sync ── b2 returns (Synced)
/// stream:            b1 is there             b2 is there
/// reader:  begin: snapshot S, point P ─── read(P): all of b1, b2 that S has not, each once
/// ```
///
/// - Batches come in the order of their commits, whole, with their operations in order. A batch is
///   in the stream from the moment on that a snapshot may see it: before its sync. So a reader may
///   have what a power cut takes back; the stream that begins afterwards has another history.
/// - A store that remembers its histories goes on behind an opening: a point of an earlier history
///   is good if all batches before it survived, and if those behind it are still kept. A reader
///   that has seen a batch which did not survive is never told to go on.
/// - What is kept is bounded in bytes. A reader that comes too late, or with a point that is not
///   good, gets [`ErrorKind::TooLate`] and begins anew. No batch is ever left out in silence.
/// - A failed read has passed on nothing.
pub trait Changes: Send + Sync {
    /// A snapshot, and the point at which the stream goes on from it: no gap, and nothing twice.
    fn begin(self: Arc<Self>) -> Result<(Arc<dyn Snapshot>, ChangePoint)>;

    /// The point behind the last batch.
    fn now(&self) -> ChangePoint;

    /// Calls `each` with the batches behind `from`, each with the point behind it, until they have
    /// about `bytes_max` bytes: one at least, if there is one. The point to go on with, which is of
    /// the newest history: `from` as it is if there was none.
    ///
    /// # Errors
    /// [`ErrorKind::TooLate`] if a batch behind `from` is not kept any more.
    fn read(
        &self,
        from: ChangePoint,
        bytes_max: usize,
        each: &mut dyn FnMut(ChangePoint, &WriteBatch<'_>),
    ) -> Result<ChangePoint>;
}

/// Bytes that a kept batch and an operation take beside keys and values.
const BATCH_BYTES: usize = 96;
const OP_BYTES: usize = size_of::<KeptOp>();

enum KeptKind {
    Put { value: Range<usize>, expires_unix_ms: u64, user_bits: u32 },
    Delete,
    DeleteRange(Option<Range<usize>>),
}

struct KeptOp {
    key: Range<usize>,
    kind: KeptKind,
}

/// A batch of its own.
struct Kept {
    /// The sequence behind it.
    sequence: u64,
    bytes: Vec<u8>,
    ops: Vec<KeptOp>,
}

fn copy(bytes: &mut Vec<u8>, from: &[u8]) -> Range<usize> {
    let start = bytes.len();
    bytes.extend_from_slice(from);
    start..bytes.len()
}

fn bytes_of(ops: &[Op<'_>]) -> usize {
    let of = |op: &Op<'_>| match op.kind {
        OpKind::Put(entry) => entry.value.len(),
        OpKind::Delete => 0,
        OpKind::DeleteRange(upper) => upper.map_or(0, <[u8]>::len),
    };
    ops.iter().map(|op| op.key.len() + of(op) + OP_BYTES).sum::<usize>() + BATCH_BYTES
}

impl Kept {
    fn new(sequence: u64, batch: &[Op<'_>]) -> Self {
        let room = bytes_of(batch) - BATCH_BYTES - batch.len() * OP_BYTES;
        let (mut bytes, mut ops) = (Vec::with_capacity(room), Vec::with_capacity(batch.len()));
        for op in batch {
            let key = copy(&mut bytes, op.key);
            let kind = match op.kind {
                OpKind::Put(EntryRef { value, expires_unix_ms, user_bits }) => {
                    KeptKind::Put { value: copy(&mut bytes, value), expires_unix_ms, user_bits }
                }
                OpKind::Delete => KeptKind::Delete,
                OpKind::DeleteRange(upper) => {
                    KeptKind::DeleteRange(upper.map(|upper| copy(&mut bytes, upper)))
                }
            };
            ops.push(KeptOp { key, kind });
        }
        Kept { sequence, bytes, ops }
    }

    fn bytes(&self) -> usize {
        self.bytes.len() + self.ops.len() * OP_BYTES + BATCH_BYTES
    }

    fn batch(&self) -> WriteBatch<'_> {
        let mut batch = WriteBatch::new();
        let part = |range: &Range<usize>| &self.bytes[range.clone()];
        for KeptOp { key, kind } in &self.ops {
            let kind = match kind {
                KeptKind::Put { value, expires_unix_ms, user_bits } => OpKind::Put(EntryRef {
                    value: part(value),
                    expires_unix_ms: *expires_unix_ms,
                    user_bits: *user_bits,
                }),
                KeptKind::Delete => OpKind::Delete,
                KeptKind::DeleteRange(upper) => OpKind::DeleteRange(upper.as_ref().map(part)),
            };
            batch.push(Op { key: part(key), kind });
        }
        batch
    }
}

struct Ring {
    histories: Histories,
    /// Whoever is before this has missed something.
    oldest: u64,
    kept: VecDeque<Arc<Kept>>,
    bytes: usize,
}

/// The last batches of a store, in memory: what engines implement [`Changes`] with. Its owner
/// calls [`ChangeRing::record`] and [`ChangeRing::begin_history`] in the order of the commits.
pub struct ChangeRing {
    bytes_max: usize,
    ring: Mutex<Ring>,
}

impl ChangeRing {
    /// An empty ring that keeps batches of up to `bytes_max` bytes, of the last of `histories`.
    pub fn new(bytes_max: usize, histories: Histories) -> Self {
        let oldest = histories.newest().first;
        let ring = Ring { histories, oldest, kept: VecDeque::new(), bytes: 0 };
        ChangeRing { bytes_max, ring: Mutex::new(ring) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no panic while held")
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.ring().bytes as u64
    }

    /// Bytes that it takes at most.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Which stream it is.
    pub fn history(&self) -> u64 {
        self.ring().histories.newest().history
    }

    /// Keeps the operations of a batch, behind which snapshots have at least `sequence`. Costs a
    /// copy of them.
    pub fn record(&self, sequence: u64, batch: &[Op<'_>]) {
        let kept =
            (bytes_of(batch) <= self.bytes_max).then(|| Arc::new(Kept::new(sequence, batch)));
        let mut ring = self.ring();
        let room = self.bytes_max - kept.as_ref().map_or(0, |kept| kept.bytes());
        while ring.bytes > room || kept.is_none() && !ring.kept.is_empty() {
            let old = ring.kept.pop_front().expect("it has bytes");
            ring.bytes -= old.bytes();
            ring.oldest = old.sequence;
        }
        match kept {
            Some(kept) => {
                ring.bytes += kept.bytes();
                ring.kept.push_back(kept);
            }
            None => ring.oldest = sequence,
        }
    }

    /// Goes on in the last of `histories`, and keeps nothing yet: whoever is before `oldest` has
    /// missed something.
    pub fn resume(&self, histories: Histories, oldest: u64) {
        let mut ring = self.ring();
        ring.histories = histories;
        (ring.oldest, ring.bytes) = (oldest, 0);
        ring.kept.clear();
    }

    /// Forgets all batches, of which the last ends at `sequence`.
    pub fn forget(&self, sequence: u64) {
        let mut ring = self.ring();
        (ring.oldest, ring.bytes) = (sequence, 0);
        ring.kept.clear();
    }

    /// Begins the stream `history` at `sequence`: the contents have changed otherwise than by a
    /// batch, so no other one goes on in it.
    pub fn begin_history(&self, history: u64, sequence: u64) {
        self.resume(Histories::new(history, sequence), sequence);
    }

    /// Where a stream goes on from a snapshot that `take` takes.
    pub fn begin(
        &self,
        take: &mut dyn FnMut() -> Result<Arc<dyn Snapshot>>,
    ) -> Result<(Arc<dyn Snapshot>, ChangePoint)> {
        loop {
            let history = self.history();
            let snapshot = take()?;
            if self.history() == history {
                let sequence = snapshot.sequence();
                return Ok((snapshot, ChangePoint { history, sequence }));
            }
        }
    }

    /// As [`Changes::now`].
    pub fn now(&self) -> ChangePoint {
        let ring = self.ring();
        let sequence = ring.kept.back().map_or(ring.oldest, |kept| kept.sequence);
        ChangePoint { history: ring.histories.newest().history, sequence }
    }

    /// As [`Changes::read`].
    pub fn read(
        &self,
        from: ChangePoint,
        bytes_max: usize,
        each: &mut dyn FnMut(ChangePoint, &WriteBatch<'_>),
    ) -> Result<ChangePoint> {
        let ring = self.ring();
        let place = ring.histories.place_of(from).filter(|place| *place >= ring.oldest);
        let Some(place) = place else {
            let message = "the changes since then are not kept any more; begin with a snapshot";
            return Err(Error::new(ErrorKind::TooLate, message));
        };
        let first = ring.kept.partition_point(|kept| kept.sequence <= place);
        let mut bytes = 0;
        let new = ring.kept.range(first..).take_while(|kept| {
            let is_room = bytes < bytes_max.max(1);
            bytes += kept.bytes();
            is_room
        });
        let new: Vec<Arc<Kept>> = new.cloned().collect();
        let history = ring.histories.newest().history;
        drop(ring);
        let mut point = from;
        for kept in new {
            point = ChangePoint { history, sequence: kept.sequence };
            each(point, &kept.batch());
        }
        Ok(point)
    }
}
