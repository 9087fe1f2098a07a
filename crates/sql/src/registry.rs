//! The databases that this process has open: a directory is opened once, however many connections
//! there are.

use crate::database::{Database, spill_bytes_of};
use crate::failure::{Failure, Result, code};
use crate::results::{RESULTS_BYTES_MIN, Results};
use log::warn;
use silica::{DEFAULT_ENGINE, DeviceOptions, IoChoice, OpenOptions, parse_size};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The keyspace of a database.
pub const KEYSPACE: &str = "sql";

/// Memory of a database for which none is given: eight times what SQLite takes for its cache,
/// since filters and indexes of tables are in it, too.
pub const DEFAULT_MEMORY_BYTES: u64 = 16 << 20;

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A missing or empty directory becomes a new store.
    pub creates: bool,
    /// Nothing is written.
    pub is_read_only: bool,
    /// Memory of the store, unless another connection has it open already.
    pub memory_bytes: u64,
    /// Bytes of that memory which kept results take; 0 for none, `None` for a sixteenth, if that is
    /// enough for a cache.
    pub results_bytes: Option<u64>,
    /// Bytes that a transaction has in memory of what it writes; the rest is put aside on the
    /// device. `None` for a quarter of the memory, from 256 KiB to 16 MiB.
    pub transaction_bytes: Option<u64>,
    /// Which way its reads and writes take, unless another connection has it open already. What
    /// does not fit into so little memory as usual is to be in the page cache, where SQLite has
    /// its databases, too: a read from there takes 1 us, one of the device 50.
    pub io: IoChoice,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            creates: true,
            is_read_only: false,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            results_bytes: None,
            transaction_bytes: None,
            io: IoChoice::Buffered,
        }
    }
}

impl Options {
    /// Changes what `text` says: `name=value`, several joined by `&`. There are `memory_bytes`,
    /// `results_bytes` and `transaction_bytes`, numbers, also as `64MiB`, and `io`, which is
    /// `buffered` or `direct`.
    ///
    /// # Errors
    /// `CANTOPEN` for what is not known.
    pub fn read(&mut self, text: &str) -> Result<()> {
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (name, value, parse_size(value)) {
                ("memory_bytes", _, Some(bytes)) => self.memory_bytes = bytes,
                ("results_bytes", _, Some(bytes)) => self.results_bytes = Some(bytes),
                ("transaction_bytes", _, Some(bytes)) => self.transaction_bytes = Some(bytes),
                ("io", "buffered", _) => self.io = IoChoice::Buffered,
                ("io", "direct", _) => self.io = IoChoice::Auto,
                _ => {
                    let words = format!(
                        "no option '{pair}'; there are memory_bytes=64MiB, say, \
                         results_bytes=1MiB, transaction_bytes=4MiB, io=buffered and io=direct"
                    );
                    return Err(Failure::new(code::CANTOPEN, words));
                }
            }
        }
        Ok(())
    }
}

impl Options {
    /// Memory for results of statements, out of the database's.
    fn results(&self) -> Result<u64> {
        let bytes = match self.results_bytes {
            None => match self.memory_bytes / 16 {
                bytes if bytes < RESULTS_BYTES_MIN => 0,
                bytes => bytes,
            },
            Some(bytes) => bytes,
        };
        let may_be = RESULTS_BYTES_MIN..=self.memory_bytes / 2;
        if bytes == 0 || may_be.contains(&bytes) {
            return Ok(bytes);
        }
        let words = format!(
            "results_bytes={bytes} has to be 0, or from {RESULTS_BYTES_MIN} to half of \
             memory_bytes, which is {}",
            self.memory_bytes
        );
        Err(Failure::new(code::CANTOPEN, words))
    }
}

type Open = BTreeMap<PathBuf, Weak<Database>>;

static OPEN: Mutex<Open> = Mutex::new(BTreeMap::new());

pub(crate) fn open_ones() -> MutexGuard<'static, Open> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The database in `directory`, which is opened if no connection of this process has it open.
///
/// # Errors
/// `BUSY` if another process has it open, or this one for less than is asked for; `CANTOPEN` if it
/// is no database, or one of a newer release.
fn open(directory: &Path, options: Options) -> Result<Arc<Database>> {
    let mut open = open_ones();
    open.retain(|_, database| database.strong_count() > 0);
    let there = directory.canonicalize().ok();
    if let Some(database) = there.and_then(|path| open.get(&path)).and_then(Weak::upgrade) {
        if database.is_read_only && !options.is_read_only {
            let words = format!(
                "{} is open in this process to be read only; close those connections first",
                directory.display()
            );
            return Err(Failure::new(code::BUSY, words));
        }
        return Ok(database);
    }
    let database = open_store(directory, options)?;
    match directory.canonicalize() {
        Ok(path) => drop(open.insert(path, Arc::downgrade(&database))),
        // Another connection meets the lock of the directory, and is refused.
        Err(error) => warn!("{} has no path of its own: {error}", directory.display()),
    }
    Ok(database)
}

/// Live bytes of a range bucket of a database at least, whatever its memory is. A bucket takes some
/// 4 KiB of memory, and by half of a small memory there would be thousands of them: 1 GB in 2 MiB
/// took 30 MiB for 6,800 buckets.
const BUCKET_BYTES_MIN: u64 = 16 << 20;
/// But no more than one part in so many of what the database may take on its disk: the store keeps
/// enough of it free to write the largest bucket anew. And at least so much of a tiny disk.
const BUCKET_ROOM_PART: u64 = 20;
const BUCKET_BYTES_LEAST: u64 = 256 << 10;

/// Bytes of a range bucket of a database with little memory in `directory`.
fn bucket_bytes(directory: &Path) -> u64 {
    // A relative path ends in an empty one, which is this directory.
    let parent = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    // A disk that does not tell is taken to have room: it will say when it has not.
    let space = rustix::fs::statvfs(parent).ok();
    let free = space.map_or(u64::MAX, |space| space.f_bavail.saturating_mul(space.f_frsize));
    if free >= BUCKET_BYTES_MIN * BUCKET_ROOM_PART {
        return BUCKET_BYTES_MIN;
    }
    let room = free.saturating_add(bytes_of_files(directory));
    (room / BUCKET_ROOM_PART).clamp(BUCKET_BYTES_LEAST, BUCKET_BYTES_MIN)
}

/// Bytes of the files in `directory` and below it, as far as they can be seen.
fn bytes_of_files(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of_files(&entry.path()),
        metadata => metadata.map_or(0, |metadata| metadata.len()),
    });
    bytes.sum()
}

fn open_store(directory: &Path, options: Options) -> Result<Arc<Database>> {
    let results_bytes = options.results()?;
    // Else a new store would come to be where a renamed one was.
    if directory.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        let words =
            format!("{} is gone, or was renamed; open the database again", directory.display());
        return Err(Failure::new(code::CANTOPEN, words));
    }
    let bucket_bytes = bucket_bytes(directory).to_string();
    let given = [("bucket_bytes_max", &*bucket_bytes)];
    let is_small = options.memory_bytes / 2 < BUCKET_BYTES_MIN;
    let engine_options = if is_small { &given[..] } else { &[] };
    let opening = OpenOptions::new()
        .create(options.creates && !options.is_read_only)
        .device(DeviceOptions { io: options.io, ..DeviceOptions::default() })
        .read_only(options.is_read_only)
        .memory_bytes(options.memory_bytes - results_bytes)
        .declare(KEYSPACE, DEFAULT_ENGINE, engine_options);
    let store = opening.open(directory).map_err(|error| Failure::of_opening(&error))?;
    let keyspace = match options.creates && !options.is_read_only {
        true => store.keyspace(KEYSPACE).map(Some),
        false => store.existing(KEYSPACE),
    };
    match keyspace.map_err(|error| Failure::of_opening(&error))? {
        Some(keyspace) => {
            let results = if results_bytes > 0 { Some(Results::new(results_bytes)?) } else { None };
            let spill_bytes = match options.transaction_bytes {
                Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
                None => spill_bytes_of(options.memory_bytes - results_bytes),
            };
            Database::new(keyspace, store, options.is_read_only, results, spill_bytes)
        }
        None => {
            let words = format!(
                "{} is a store without the keyspace '{KEYSPACE}', so no SQL database",
                directory.display()
            );
            Err(Failure::new(code::CANTOPEN, words))
        }
    }
}

/// A database, for as long as a connection has it.
pub(crate) struct Handle(Option<Arc<Database>>);

impl Handle {
    /// The database in `directory`; see [`open`].
    pub(crate) fn open(directory: &Path, options: Options) -> Result<Self> {
        open(directory, options).map(Handle::of)
    }

    pub(crate) fn of(database: Arc<Database>) -> Self {
        Handle(Some(database))
    }
}

impl Deref for Handle {
    type Target = Arc<Database>;

    #[inline]
    fn deref(&self) -> &Arc<Database> {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // With the lock: whoever opens the directory next waits until it is closed.
        let open = open_ones();
        drop(self.0.take());
        drop(open);
    }
}
