//! Numbered databases in a cache with flash behind it.
//!
//! All of them lie in both tiers together, told apart by what stands before their keys
//! ([`silica_parts::spaces`]). Which database is which space, the generations of spaces, and which
//! spaces were ever written to, is kept in a file beside the flash (docs/formats/flash-cache.md).
//!
//! 1. The file has a generation, an order or a written space before anybody can see it in the
//!    cache: what was cleared or swapped stays so, whatever happens to the process or the machine.
//! 2. Writers hold the gate while they write, and who clears a database has it alone. So no write
//!    of an older generation comes later, and no first write of a database is lost by the clearing
//!    of all.

use super::numbered::Numbered;
use crate::sealed::Kind;
use silica_base::{Biased, Clock, Format, Prng};
use silica_engine::{Count, Engine, Error, ErrorKind, MetricsMap, Result};
use silica_parts::spaces::{Family, KeptFamily, Naming, SPACES_MAX};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file of databases, beside the flash.
pub(super) const FILE: &str = "DATABASES";
const KIND: Kind = Kind(Format {
    name: "databases of a flash cache",
    magic: b"SILFDBS\n",
    version_bytes: 4,
    version: 1,
    steps: &[],
});
/// Order, spaces that were written to, generations.
const BODY_BYTES: usize = 8 + 4 + 4 * SPACES_MAX;
/// Entries that are looked at to tell how many of all are of one kind: the share of a kind that has
/// half of them is told within 5 points.
pub(super) const SAMPLED: usize = 512;
/// Bytes of an index that may be gone through to count few entries: some 10 ms.
const WALKED_BYTES_MAX: u64 = 64 << 20;
/// How long a sample is believed: each reads flash some hundred times.
pub(super) const BELIEVED_NS: u64 = 5_000_000_000;

/// Databases of a cache with flash behind it, numbered from 0 on. None of them has a part of memory
/// or flash of its own: what was not used for the longest time goes, whose it may be. Cheap to
/// clone.
///
/// ```
/// use silica::{Durability, EngineExt, FlashCacheOptions, OpenOptions};
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path();
/// let flash = FlashCacheOptions { flash_bytes: Some(64 << 20), ..Default::default() };
/// let open = || OpenOptions::new().memory_bytes(48 << 20).open_flash_databases(directory, &flash);
/// let all = open()?;
/// all.database(1)?.put(b"key", b"of the second", Durability::Buffered)?;
/// all.swap(0, 1)?;
/// drop(all);
/// let all = open()?;
/// assert_eq!(all.database(0)?.get(b"key")?.as_deref(), Some(&b"of the second"[..]));
/// assert_eq!(all.database(1)?.get(b"key")?, None);
/// # Ok::<(), silica::Error>(())
/// ```
#[derive(Clone)]
pub struct FlashDatabases(Arc<All>);

/// What the databases share.
pub(super) struct All {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) family: Arc<Family>,
    /// Held by who writes; alone by who clears.
    pub(super) gate: Biased<()>,
    clock: Arc<dyn Clock>,
    /// The spaces that were written to since they were cleared, one bit each.
    written: AtomicU32,
    /// The file; `None` if the cache has one database, which an older release made.
    file: Mutex<Option<PathBuf>>,
    sample: Mutex<Sample>,
}

/// Whose the entries are that were looked at.
#[derive(Default)]
struct Sample {
    taken_ns: Option<u64>,
    /// By the number of the space.
    of: [u64; SPACES_MAX],
    /// All of them, those of cleared databases included.
    seen: u64,
}

/// What the file has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kept {
    family: KeptFamily,
    written: u32,
}

impl Kept {
    /// Of a new cache.
    fn new() -> Self {
        Kept { family: Family::default().kept(), written: 0 }
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = self.family.order.to_le_bytes().to_vec();
        body.extend_from_slice(&self.written.to_le_bytes());
        self.family.generations.iter().for_each(|n| body.extend_from_slice(&n.to_le_bytes()));
        body
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; BODY_BYTES] = body.try_into().ok()?;
        let (order, rest) = body.split_first_chunk::<8>()?;
        let mut words = rest
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("it has four bytes")));
        let written = words.next()?;
        let mut generations = [0; SPACES_MAX];
        generations.iter_mut().zip(words).for_each(|(to, from)| *to = from);
        let family = KeptFamily { order: u64::from_le_bytes(*order), generations };
        (family.is_plausible() && written >> SPACES_MAX == 0).then_some(Kept { family, written })
    }

    /// The one in `directory`; `None` if there is none, an error of kind `Corruption` if it is
    /// damaged.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>> {
        let Some(body) = KIND.read(&directory.join(FILE))? else { return Ok(None) };
        let damaged = || Error::corruption(FILE, 16, "its order is none");
        Self::decode(&body).ok_or_else(damaged).map(Some)
    }

    /// Begins anew in `directory`.
    pub(super) fn create(directory: &Path) -> Result<Self> {
        let kept = Self::new();
        KIND.write(&directory.join(FILE), &kept.encode())?;
        Ok(kept)
    }
}

impl FlashDatabases {
    /// The databases in `engine`, whose file is in `directory` and has `kept`; one database if
    /// there is none.
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        directory: &Path,
        kept: Option<Kept>,
    ) -> Self {
        let family = Arc::<Family>::default();
        kept.iter().for_each(|kept| family.take_over(&kept.family));
        FlashDatabases(Arc::new(All {
            engine,
            family,
            gate: Biased::new(()),
            clock,
            written: AtomicU32::new(kept.map_or(0, |kept| kept.written)),
            file: Mutex::new(kept.map(|_| directory.join(FILE))),
            sample: Mutex::default(),
        }))
    }

    /// Databases that there are: 16, or one in a cache that release 0.2 made.
    pub fn count(&self) -> usize {
        if self.0.file().is_some() { SPACES_MAX } else { 1 }
    }

    /// Database `number`, for as long as it is wanted. Closing one closes all.
    ///
    /// # Errors
    /// `Config` if there is no such database.
    pub fn database(&self, number: usize) -> Result<Arc<dyn Engine>> {
        self.check(number)?;
        if self.count() == 1 {
            return Ok(Arc::clone(&self.0.engine));
        }
        let naming = Naming::new(&self.0.family, self.0.family.space_of(number));
        Ok(Arc::new(Numbered::new(&self.0, naming)))
    }

    /// Swaps two databases for who asks for them from now on, after a restart, too. Costs a sync.
    ///
    /// # Errors
    /// `Config` if there is no such database; `Io`, and nothing is swapped.
    pub fn swap(&self, one: usize, other: usize) -> Result<()> {
        self.check(one).and_then(|()| self.check(other))?;
        let file = self.0.file();
        let mut kept = self.0.kept();
        kept.family.swap(one, other);
        self.0.keep(&file, &kept)
    }

    /// True if something was put into database `number` since it was cleared.
    pub fn was_written(&self, number: usize) -> bool {
        self.count() == 1 || self.0.is_written(self.0.family.space_of(number))
    }

    fn check(&self, number: usize) -> Result<()> {
        let count = self.count();
        if number < count {
            return Ok(());
        }
        let message = match count {
            1 => format!(
                "there is no database {number}: release 0.2 made the cache, with one database; \
                 begin one in a new directory"
            ),
            _ => format!("there is no database {number}; a cache has {count}, from 0 on"),
        };
        Err(Error::new(ErrorKind::Config, message))
    }
}

impl std::fmt::Debug for FlashDatabases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FlashDatabases({})", self.count())
    }
}

impl All {
    fn file(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> Kept {
        Kept { family: self.family.kept(), written: self.written.load(Ordering::Acquire) }
    }

    /// Writes the file, then lets everybody see what is in it.
    fn keep(&self, file: &Option<PathBuf>, kept: &Kept) -> Result<()> {
        if let Some(path) = file {
            KIND.write(path, &kept.encode())?;
        }
        self.family.take_over(&kept.family);
        self.written.store(kept.written, Ordering::Release);
        self.sample().taken_ns = None;
        Ok(())
    }

    fn sample(&self) -> MutexGuard<'_, Sample> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if `space` was written to since it was cleared.
    pub(super) fn is_written(&self, space: usize) -> bool {
        self.written.load(Ordering::Acquire) >> space & 1 == 1
    }

    /// Notes that `space` is written to, for who holds the gate.
    pub(super) fn note_written(&self, space: usize) -> Result<()> {
        if self.is_written(space) {
            return Ok(());
        }
        let file = self.file();
        let mut kept = self.kept();
        kept.written |= 1 << space;
        self.keep(&file, &kept)
    }

    /// Removes all entries of `space`. Costs a sync.
    pub(super) fn clear(&self, space: usize) -> Result<()> {
        let _alone = self.gate.write();
        let file = self.file();
        let mut kept = self.kept();
        kept.written &= !(1 << space);
        if kept.written != 0 {
            kept.family.begin_anew(space)?;
            return self.keep(&file, &kept);
        }
        let admin = self.engine.as_admin().expect("a cache of two tiers has this view");
        admin.clear()?;
        self.keep(&file, &kept)
    }

    /// How many entries `space` has; expired ones are among them.
    pub(super) fn count(&self, space: usize) -> Result<Count> {
        if !self.is_written(space) {
            return Ok(Count { low: 0, estimate: 0, high: 0 });
        }
        let admin = self.engine.as_admin().expect("a cache of two tiers has this view");
        let Count { low, estimate, high } = admin.estimate()?;
        if self.written.load(Ordering::Acquire) == 1 << space && self.has_no_dead() {
            return Ok(Count { low, estimate, high });
        }
        if high <= SAMPLED as u64 && self.index_bytes() <= WALKED_BYTES_MAX {
            let mut own = 0;
            let scan = self.engine.as_scan().expect("a cache of two tiers has this view");
            scan.scan(0, usize::MAX, &mut |stored, _| {
                own += u64::from(self.family.key_of(space, stored).is_some());
            })?;
            return Ok(Count { low: own, estimate: own, high: own });
        }
        let mut sample = self.sample();
        let now_ns = self.clock.monotonic_ns();
        if sample.taken_ns.is_none_or(|taken_ns| now_ns.saturating_sub(taken_ns) > BELIEVED_NS) {
            *sample = self.look(now_ns)?;
        }
        let share = sample.of[space] as f64 / sample.seen.max(1) as f64;
        // One that was written to is not told to be empty because the sample has none of it.
        let own = ((estimate as f64 * share).round() as u64).clamp(u64::from(high > 0), high);
        Ok(Count { low: 0, estimate: own, high })
    }

    /// Bytes of memory that the indexes of both tiers have.
    fn index_bytes(&self) -> u64 {
        let mut metrics = MetricsMap::default();
        self.engine.metrics(&mut metrics);
        metrics.get("index_bytes") as u64
    }

    /// True if no space was ever cleared for itself.
    fn has_no_dead(&self) -> bool {
        self.family.kept().generations == [0; SPACES_MAX]
    }

    /// Looks at some entries from a place on that is chosen by the time: keys are hashed, so they
    /// are a fair sample.
    fn look(&self, now_ns: u64) -> Result<Sample> {
        let scan = self.engine.as_scan().expect("a cache of two tiers has this view");
        let mut sample = Sample { taken_ns: Some(now_ns), ..Sample::default() };
        let mut look = |from: u64| -> Result<bool> {
            let left = SAMPLED.saturating_sub(sample.seen as usize).max(1);
            let next = scan.scan(from, left, &mut |stored, _| {
                sample.seen += 1;
                let whose = |space: &usize| self.family.key_of(*space, stored).is_some();
                let whose = (0..SPACES_MAX).find(whose);
                whose.into_iter().for_each(|space| sample.of[space] += 1);
            })?;
            Ok(next.is_some())
        };
        // Behind the end it goes on at the begin.
        let from = Prng::new(now_ns).next_u64();
        if !look(scan.cursor_of(&from.to_le_bytes()))? {
            look(0)?;
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_what_its_page_says() {
        let mut kept = Kept::new();
        kept.family.swap(0, 3);
        kept.family.begin_anew(2).unwrap();
        kept.written = 0b101;
        let body = kept.encode();
        assert_eq!(body[..8], 0xFEDC_BA98_7654_0213_u64.to_le_bytes());
        assert_eq!(body[8..12], [5, 0, 0, 0]);
        assert_eq!(body[12..24], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!((body.len(), Kept::decode(&body)), (76, Some(kept)));
        assert_eq!(Kept::decode(&body[1..]), None);
        assert_eq!(Kept::decode(&[0; 76]), None, "no order");
    }
}
