//! How to open a store.

use crate::cache_databases::CacheDatabases;
use crate::kept::Kept;
use crate::{HeldClock, Registry, Silica};
use silica_base::HashSeed;
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::MEMORY_OPTION;
use silica_engine::{Durability, Engine, Environment, Error, ErrorKind, OptionValues, Result};
use silica_tune::recommend::model_of;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The engine of keyspaces that are created without naming one.
pub const DEFAULT_ENGINE: &str = "wip";
/// The engine of caches, which keeps its entries in memory.
pub const CACHE_ENGINE: &str = "mica";

/// Memory of a store where no number is given.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

/// Least memory of a store or of a keyspace's part of it.
pub const MEMORY_BYTES_MIN: u64 = 64 << 10;
/// Most memory of a store.
pub const MEMORY_BYTES_MAX: u64 = 1 << 44;

/// Refuses memory that no store can have; `what` says whose it is.
///
/// # Errors
/// `Config`, with the range.
pub fn check_memory_bytes(what: &str, bytes: u64) -> Result<()> {
    if (MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    let message = format!(
        "{what} of {bytes} bytes is out of range: use 64KiB to 16TiB, such as 256MiB or 4GiB"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// Refuses more memory than the machine has to an engine that takes all of it at once.
pub(crate) fn check_fits(engine: &str, values: &OptionValues) -> Result<()> {
    let takes_all = model_of(engine).is_some_and(|model| !model.offer().durable);
    let wanted = values.memory_bytes().filter(|_| takes_all);
    match (wanted, machine_memory_bytes()) {
        (Some(wanted), Some(there)) if wanted > there => {
            let message = format!(
                "engine {engine} takes all of its memory at once, and {wanted} bytes are more than \
                 the {there} of this machine; give it less"
            );
            Err(Error::new(ErrorKind::Config, message))
        }
        _ => Ok(()),
    }
}

/// Memory of the machine, where the system tells it.
fn machine_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// What a keyspace is to be, whether it exists or is created.
#[derive(Clone)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) engine: String,
    pub(crate) options: Vec<(String, String)>,
}

impl Declared {
    /// The options as pairs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The keyspace's own part of the memory, where it has one.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let given = self.pairs().filter(|(name, _)| *name == MEMORY_OPTION).last();
        given.and_then(|(_, value)| silica_engine::parse_size(value))
    }
}

/// Settings for opening a store.
///
/// Everything has a default; see [`crate::open`] for the short way.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("silica-doc-options-{}", std::process::id()));
/// use silica::{Durability, OpenOptions};
///
/// let store = OpenOptions::new()
///     .memory_bytes(64 << 20)
///     .durability(Durability::Buffered)
///     .set("filter_bits", "10")
///     .open(&path)?;
/// store.keyspace("small")?.put("key", "value")?;
/// let big = store.create_keyspace("big", "silt", &[("partitions", "16")])?;
/// assert_eq!(big.metrics()?.get("partitions"), 16.0);
/// # drop((big, store));
/// # std::fs::remove_dir_all(&path).ok();
/// # Ok::<(), silica::Error>(())
/// ```
#[derive(Clone)]
pub struct OpenOptions {
    pub(crate) create: bool,
    pub(crate) memory_bytes: u64,
    pub(crate) keyspace_memory: Vec<(String, u64)>,
    pub(crate) declared: Vec<Declared>,
    pub(crate) engine: String,
    pub(crate) workload: Option<String>,
    pub(crate) background_threads: usize,
    pub(crate) background_bytes_per_second: u64,
    pub(crate) log_path: Option<PathBuf>,
    /// Where nobody said: as much as the engine can give.
    pub(crate) durability: Option<Durability>,
    pub(crate) set: Vec<(String, String)>,
    pub(crate) registry: Registry,
    pub(crate) seed: Option<[u8; 16]>,
    pub(crate) device: DeviceOptions,
    pub(crate) image: Option<PathBuf>,
    pub(crate) holds_expiry: bool,
    pub(crate) cache_clock: Option<Arc<HeldClock>>,
}

/// Threads for background work where nothing else is said: one for four processors, so that those
/// who read and write have the others, and at least one.
fn usual_background_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| (processors.get() / 4).max(1))
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: true,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            keyspace_memory: Vec::new(),
            declared: Vec::new(),
            engine: DEFAULT_ENGINE.to_string(),
            workload: None,
            background_threads: usual_background_threads(),
            background_bytes_per_second: 0,
            log_path: None,
            durability: None,
            set: Vec::new(),
            registry: Registry::builtin(),
            seed: None,
            device: DeviceOptions::default(),
            image: None,
            holds_expiry: false,
            cache_clock: None,
        }
    }
}

impl OpenOptions {
    /// The defaults: create where missing, 256 MiB, engine `wip`, one background thread, synced
    /// writes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a missing or empty directory becomes a new store.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the store to read it and writes nothing to its directory, which may be on a read-only
    /// file system or belong to somebody else. What an opening has to recover is recovered in
    /// memory. Several may read a store so at the same time, but nobody while a process has it open
    /// for writing: that is an error of kind [`ErrorKind::Locked`].
    ///
    /// Nothing is created, dropped or changed, and there is no background work. Whatever writes
    /// fails with [`ErrorKind::ReadOnly`].
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("silica-doc-read-{}", std::process::id()));
    /// use silica::{ErrorKind, OpenOptions};
    ///
    /// silica::open(&path)?.keyspace("default")?.put("key", "value")?;
    /// let store = OpenOptions::new().read_only(true).open(&path)?;
    /// let keyspace = store.keyspace("default")?;
    /// assert_eq!(keyspace.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(keyspace.put("key", "other").unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # drop((keyspace, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.device.read_only = read_only;
        self
    }

    /// Whether the store is opened with its clock held back ([`Silica::clock`]): for the data of a
    /// replica, which goes on behind what its primary did before keys expired.
    #[must_use]
    pub fn hold_expiry(mut self, hold: bool) -> Self {
        self.holds_expiry = hold;
        self
    }

    /// True where the store is to be read only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.device.read_only
    }

    /// Memory for all keyspaces together, in bytes.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The part of the memory that the keyspace `name` gets while the store is open, instead of
    /// what it was created with. Keyspaces without a number of their own share the rest equally.
    #[must_use]
    pub fn keyspace_memory(mut self, name: impl Into<String>, bytes: u64) -> Self {
        let name = name.into();
        self.keyspace_memory.retain(|(other, _)| *other != name);
        self.keyspace_memory.push((name, bytes));
        self
    }

    /// Says what the keyspace `name` is to be: where it is missing it is created with this engine
    /// and these options when it is first used; where it exists it must have this engine, and the
    /// options that are not fixed hold while the store is open. What is set for all keyspaces
    /// ([`OpenOptions::set`]) holds for it where its engine is theirs.
    ///
    /// ```
    /// # let name = format!("silica-doc-declare-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// let cache = [("memory_bytes", "16MiB")];
    /// let store = silica::OpenOptions::new().declare("hot", "mica", &cache).open(&path)?;
    /// assert_eq!(store.keyspace("hot")?.engine().descriptor().name, "mica");
    /// assert_eq!(store.keyspace("all")?.engine().descriptor().name, "wip");
    /// # drop(store);
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    #[must_use]
    pub fn declare(
        mut self,
        name: impl Into<String>,
        engine: impl Into<String>,
        options: &[(&str, &str)],
    ) -> Self {
        let (name, engine) = (name.into(), engine.into());
        self.declared.retain(|other| other.name != name);
        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.declared.push(Declared { name, engine, options: options.collect() });
        self
    }

    /// What the keyspace `name` is to be, where that was said.
    pub(crate) fn declared(&self, name: &str) -> Option<&Declared> {
        self.declared.iter().find(|declared| declared.name == name)
    }

    /// The part of the memory that was given to the keyspace `name`.
    pub(crate) fn memory_of(&self, name: &str) -> Option<u64> {
        let part = self.keyspace_memory.iter().find(|(other, _)| other == name);
        part.map(|(_, bytes)| *bytes)
            .or_else(|| self.declared(name).and_then(Declared::memory_bytes))
    }

    /// Refuses memory out of range, and parts of it that are more than the whole.
    pub(crate) fn check_memory(&self) -> Result<()> {
        check_memory_bytes("memory", self.memory_bytes)?;
        for (name, bytes) in &self.keyspace_memory {
            check_memory_bytes(&format!("the memory of keyspace '{name}'"), *bytes)?;
        }
        let parts = self.keyspace_memory.iter().map(|(name, _)| name);
        let declared = self.declared.iter().map(|declared| &declared.name);
        let names: std::collections::BTreeSet<&String> = parts.chain(declared).collect();
        let parts = names.into_iter().filter_map(|name| self.memory_of(name));
        let sum = parts.fold(0, u64::saturating_add);
        if sum <= self.memory_bytes {
            return Ok(());
        }
        let message = format!(
            "the keyspaces' parts of the memory are {sum} bytes, the whole is {} bytes; give more \
             memory or smaller parts",
            self.memory_bytes
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    /// The engine of keyspaces that are created without naming one. [`AUTO`](crate::AUTO) is for
    /// the one that the models predict to be best, for what is said of the
    /// [workload](OpenOptions::workload) and what a probe said of the machine; a keyspace that
    /// exists is moved to another where that is predicted to be much better, time and again.
    ///
    /// ```
    /// # let name = format!("silica-doc-auto-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// let words = "keys=100M value=200 gets=95 puts=5 memory=64MiB";
    /// let store = silica::OpenOptions::new().engine(silica::AUTO).workload(words).open(&path)?;
    /// println!("{}", store.keyspace("users")?.engine().descriptor().name);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    #[must_use]
    pub fn engine(mut self, name: impl Into<String>) -> Self {
        self.engine = name.into();
        self
    }

    /// What will be asked of keyspaces, in the words of
    /// [`describe`](silica_tune::recommend::describe): `keys=100M value=100 gets=90 puts=10`. It
    /// counts where the engine is chosen.
    #[must_use]
    pub fn workload(mut self, words: impl Into<String>) -> Self {
        self.workload = Some(words.into());
        self
    }

    /// Threads that convert, merge and collect in the background: where nothing is set, one for
    /// four processors, and at least one. With 0 the program must call
    /// [`crate::Keyspace::settle`] or [`silica_engine::Engine::maintain`] itself.
    #[must_use]
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = threads;
        self
    }

    /// Limits the bytes that background work reads and writes each second; 0 means no limit.
    #[must_use]
    pub fn background_bytes_per_second(mut self, bytes: u64) -> Self {
        self.background_bytes_per_second = bytes;
        self
    }

    /// Has the write-ahead logs of keyspaces that are created in a directory of each below `path`,
    /// on another device most likely: then a synced write does not wait for flushes and
    /// compactions. `path` is for this store alone. Later openings find the logs without this.
    #[must_use]
    pub fn log_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.log_path = Some(path.into());
        self
    }

    /// What writes survive where a call does not say. Without this they survive as much as the
    /// engine can give: a power cut, or the death of the process where its medium does not survive
    /// a power cut.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets an engine option for keyspaces that are created, and, where it is not fixed at
    /// creation, for those that exist.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.push((name.into(), value.into()));
        self
    }

    /// The engines to choose from.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Hash seed for keyspaces that are created; random where none is given. For tests and
    /// benchmarks that must repeat exactly.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 16]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How the device is driven.
    #[must_use]
    pub fn device(mut self, device: DeviceOptions) -> Self {
        self.device = device;
        self
    }

    /// The clock by which the entries of a cache expire, in memory or on flash; the machine's if
    /// none is given. A store has its own ([`Silica::clock`](crate::Silica::clock)).
    #[must_use]
    pub fn cache_clock(mut self, clock: Arc<HeldClock>) -> Self {
        self.cache_clock = Some(clock);
        self
    }

    /// Directory for the memory image of [`OpenOptions::open_cache`], which is created where it is
    /// missing: [`close`](silica_engine::Admin::close) leaves there what the cache holds, and the
    /// next opening takes it back, once. A process that dies leaves nothing.
    #[must_use]
    pub fn image(mut self, directory: impl Into<PathBuf>) -> Self {
        self.image = Some(directory.into());
        self
    }

    /// The seed given, or a random one.
    pub(crate) fn new_seed(&self) -> Result<[u8; 16]> {
        if let Some(seed) = self.seed {
            return Ok(seed);
        }
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).map_err(|e| Error::io("taking a random seed", e.into()))?;
        Ok(seed)
    }

    /// Opens a cache that is in memory only and has no directory: the engine `mica` with all of
    /// the memory, whatever engine keyspaces are created with. A full cache drops entries, and
    /// nothing outlives the process but an [image](OpenOptions::image). With the option `eviction`
    /// set to `none` it is a store: what does not fit is refused with `Full`. A thread removes what
    /// has expired, until the cache is dropped (unless there are to be no background threads).
    ///
    /// ```
    /// use silica::{Durability, EngineExt, OpenOptions};
    ///
    /// let cache = OpenOptions::new().memory_bytes(16 << 20).open_cache()?;
    /// cache.put(b"key", b"value", Durability::Buffered)?;
    /// assert_eq!(cache.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Config` for an unknown option, or memory that the engine cannot have; of an image, `Locked`
    /// where another process has its directory, `Io` where the image cannot be taken away from it,
    /// and `Full` where it does not fit a store. An image that is damaged is no error: the cache is
    /// empty, and the log says why.
    pub fn open_cache(self) -> Result<Arc<dyn Engine>> {
        let (values, environment) = self.of_cache()?;
        let mica = match self.image_device()? {
            Some(device) => silica_mica::Mica::open_on(device, &values, &environment)?,
            None => silica_mica::Mica::open(&values, &environment)?,
        };
        Ok(match self.background_threads {
            0 => Arc::new(mica),
            _ => Arc::new(Kept::new(mica, self.background_bytes_per_second)),
        })
    }

    /// Opens a cache as [`OpenOptions::open_cache`] does, whose memory several numbered databases
    /// share. Database 0 takes back the image of a cache with one.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open_cache`].
    pub fn open_cache_databases(self) -> Result<CacheDatabases> {
        let (values, environment) = self.of_cache()?;
        let all = match self.image_device()? {
            Some(device) => silica_mica::MicaDatabases::open_on(device, &values, &environment)?,
            None => silica_mica::MicaDatabases::open(&values, &environment)?,
        };
        Ok(CacheDatabases::new(all, self.background_threads, self.background_bytes_per_second))
    }

    /// The options of a cache's engine, and what it works with.
    fn of_cache(&self) -> Result<(OptionValues, Environment)> {
        check_memory_bytes("memory", self.memory_bytes)?;
        let pairs = self.set.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let mut values = OptionValues::parse(silica_mica::OPTIONS, pairs)?;
        if values.memory_bytes().is_none() {
            values.set_memory_bytes(self.memory_bytes);
        }
        check_fits(CACHE_ENGINE, &values)?;
        if self.image.is_some() {
            values.set("warm_restart", 1);
        }
        Ok((values, self.environment_of_cache()?))
    }

    /// What the engine of a cache is opened with.
    pub(crate) fn environment_of_cache(&self) -> Result<Environment> {
        match &self.cache_clock {
            Some(clock) => clock.environment(self),
            None => Ok(Environment::new(HashSeed(self.new_seed()?))),
        }
    }

    /// Where a cache's image is left, if it is to be.
    fn image_device(&self) -> Result<Option<FileDevice>> {
        let Some(directory) = &self.image else { return Ok(None) };
        crate::refuse_within_store(directory, "the memory image")?;
        FileDevice::open(directory, self.device).map(Some)
    }

    /// Opens the store in the directory `path`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Silica> {
        Silica::open(path.as_ref(), self)
    }
}
