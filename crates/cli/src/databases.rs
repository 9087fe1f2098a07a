//! Which engine the numbered databases of a server have.

use crate::args::{AfterPowerLoss, DatabaseArg, ServeArgs};
use silica::{
    CACHE_ENGINE, CacheDatabases, Engine, Error, ErrorKind, FlashDatabases, HeldClock, OpenOptions,
    Result, Silica,
};
use silica_console::Global;
use silica_server::{Config, Databases, Mode, keyspace_name};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The least that the databases without a number of their own share.
const SHARED_BYTES_MIN: u64 = 1 << 20;

impl DatabaseArg {
    /// The options as pairs.
    pub(crate) fn pairs(&self) -> Vec<(&str, &str)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn memory_bytes(&self) -> Option<u64> {
        let given = self.options.iter().rev().find(|(name, _)| name == "memory_bytes");
        given.and_then(|(_, value)| silica::parse_size(value))
    }
}

/// Opens the databases that are `wanted`, and creates those that are missing.
pub(crate) fn prepare(store: &Silica, wanted: &[DatabaseArg], memory_bytes: u64) -> Result<()> {
    for database in wanted {
        let opened = store.keyspace(&keyspace_name(database.index));
        opened.map_err(|e| e.within(format_args!("--database {}", database.index)))?;
    }
    let reserved = store.memory_reserved()?;
    if reserved.saturating_add(SHARED_BYTES_MIN) > memory_bytes {
        let message = format!(
            "keyspaces have {} MiB of the memory of their own, and all stores together {} MiB; \
             give more --memory, or less of it by --keyspace-memory NAME=SIZE",
            reserved.div_ceil(1 << 20),
            memory_bytes >> 20
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

/// What the line that scripts wait for says of databases beside the first.
pub(crate) fn words(engines: impl Iterator<Item = (u32, Arc<dyn Engine>)>) -> Result<String> {
    let mut words = String::new();
    for (index, engine) in engines.filter(|(index, _)| *index > 0) {
        let descriptor = engine.descriptor();
        words += &format!("; database {index}: engine {}", descriptor.name);
        if !descriptor.capabilities.durable {
            let count = engine.as_admin().map(|admin| admin.count(false)).transpose()?;
            let entries = count.map_or(0, |count| count.estimate);
            words += &format!(", in memory, {entries} entries");
        }
    }
    Ok(words)
}

/// Opens the databases of a cache whose flash is in a directory or on a block device.
fn open_flash_databases(
    options: OpenOptions,
    path: &Path,
    args: &ServeArgs,
) -> Result<FlashDatabases> {
    let flash = silica::FlashCacheOptions {
        flash_bytes: args.flash_size,
        writes_per_day: args.flash_writes_per_day,
        keeps_after_power_loss: args.after_power_loss == AfterPowerLoss::Keep,
    };
    let place = path.display();
    let message = match (&args.flash_files, is_block_device(path)) {
        (Some(files), true) => return options.open_flash_databases_on(path, files, &flash),
        (None, false) => return options.open_flash_databases(path, &flash),
        (None, true) => format!(
            "{place} is a block device; give a directory for the files beside the flash \
             (--flash-files DIR)"
        ),
        (Some(_), false) => format!(
            "{place} is no block device, and has the files beside the flash itself; leave \
             --flash-files out"
        ),
    };
    Err(Error::new(ErrorKind::Config, message))
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Databases that share memory.
enum Shared {
    InMemory(CacheDatabases),
    OnFlash(FlashDatabases),
}

impl Shared {
    fn database(&self, number: usize) -> Result<Arc<dyn Engine>> {
        match self {
            Shared::InMemory(all) => all.database(number),
            Shared::OnFlash(all) => all.database(number),
        }
    }

    fn swap(&self, one: usize, other: usize) -> Result<()> {
        match self {
            Shared::InMemory(all) => all.swap(one, other),
            Shared::OnFlash(all) => all.swap(one, other),
        }
    }

    fn count(&self) -> usize {
        match self {
            Shared::InMemory(_) => CacheDatabases::COUNT,
            Shared::OnFlash(all) => all.count(),
        }
    }

    /// False if database `number` is empty, as far as can be told without reading flash.
    fn may_hold(&self, number: usize) -> bool {
        match self {
            Shared::InMemory(all) => all.database(number).is_ok_and(|one| holds_something(&*one)),
            Shared::OnFlash(all) => all.was_written(number),
        }
    }
}

/// The databases of a server without a directory.
pub(crate) struct InMemory {
    /// Those with memory of their own, by number.
    own: Mutex<BTreeMap<u32, Arc<dyn Engine>>>,
    /// The others, which share the rest of the memory.
    shared: Option<Shared>,
    count: u32,
    /// By it the entries of all of them expire.
    clock: Arc<HeldClock>,
    /// A clean stop leaves an image.
    is_kept: bool,
}

impl InMemory {
    /// Databases as `args` say, for a server with `config`; those without memory of their own share
    /// what is left of `memory_bytes`, as `global` says.
    pub(crate) fn open(
        global: &Global,
        args: &ServeArgs,
        config: &Config,
        memory_bytes: u64,
    ) -> Result<Self> {
        let clock = Arc::<HeldClock>::default();
        if let Some(path) = &args.flash {
            let options = global.open_options().memory_bytes(memory_bytes);
            let options = options.cache_clock(Arc::clone(&clock));
            refuse_owners(config.mode)?;
            let all = open_flash_databases(options, path, args)?;
            let count = args.databases.min(all.count() as u32);
            let shared = Some(Shared::OnFlash(all));
            let own = Mutex::default();
            return Ok(InMemory { own, shared, count, clock, is_kept: false });
        }
        let wanted = silica_base::compact_map(
            args.database.iter().map(|database| (database.index, database)),
        );
        refuse_wanted(&wanted, args.databases, memory_bytes)?;
        let reserved = wanted.values().filter_map(|database| database.memory_bytes()).sum::<u64>();
        let sharing = wanted.values().filter(|database| database.memory_bytes().is_none()).count();
        let has_shared = wanted.len() < args.databases as usize;
        let share = (memory_bytes - reserved) / (sharing + usize::from(has_shared)).max(1) as u64;
        let with = |options: OpenOptions, given: &[(String, String)], index: u32| {
            let mut options = options.memory_bytes(share).cache_clock(Arc::clone(&clock));
            if config.mode != Mode::Crcw && !given.iter().any(|(name, _)| name == "partitions") {
                // As many as there are loops to own them, or the next power of two.
                let count = config.loops.next_power_of_two().min(64);
                options = options.set("partitions", count.to_string());
            }
            match (&args.image, index) {
                (None, _) => options,
                (Some(directory), 0) => options.image(directory),
                (Some(directory), _) => options.image(directory.join(keyspace_name(index))),
            }
        };
        let mut own = BTreeMap::new();
        for (index, database) in &wanted {
            let set = |set: OpenOptions, (name, value)| set.set(name, value);
            let options = database.pairs().into_iter().fold(OpenOptions::new(), set);
            own.insert(*index, with(options, &database.options, *index).open_cache()?);
        }
        // The image of the others is that of the first of them.
        let first = (0..args.databases).find(|index| !wanted.contains_key(index));
        let open = |first| with(global.open_options(), &global.set, first).open_cache_databases();
        let shared = first.map(open).transpose()?.map(Shared::InMemory);
        let (own, is_kept) = (Mutex::new(own), args.image.is_some());
        Ok(InMemory { own, shared, count: args.databases, clock, is_kept })
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<dyn Engine>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Those with memory of their own, by number.
    pub(crate) fn apart(&self) -> Vec<(u32, Arc<dyn Engine>)> {
        self.own().iter().map(|(index, engine)| (*index, Arc::clone(engine))).collect()
    }

    /// All that has to be closed.
    pub(crate) fn to_close(&self) -> Result<Vec<Arc<dyn Engine>>> {
        let mut all: Vec<_> = self.own().values().map(Arc::clone).collect();
        if let Some(shared) = &self.shared {
            for number in 0..shared.count() {
                all.push(shared.database(number)?);
            }
        }
        Ok(all)
    }
}

/// Refuses loops that own partitions of a cache on flash.
fn refuse_owners(mode: Mode) -> Result<()> {
    if mode == Mode::Crcw {
        return Ok(());
    }
    let message = "in the modes crew and erew a loop answers for its partitions without waiting, \
                   and a get from flash waits for the flash; use --mode crcw (the default) with \
                   --flash, or leave --flash out";
    Err(Error::new(ErrorKind::Config, message))
}

/// Refuses databases with memory of their own that cannot be.
fn refuse_wanted(
    wanted: &BTreeMap<u32, &DatabaseArg>,
    count: u32,
    memory_bytes: u64,
) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
    if let Some(other) = wanted.values().find(|database| database.engine != CACHE_ENGINE) {
        return refuse(format!(
            "database {} would have engine {}, which needs a directory: serve one, or leave \
             the database out",
            other.index, other.engine
        ));
    }
    if let Some(index) = wanted.keys().find(|index| **index >= count) {
        return refuse(format!(
            "there is no database {index}; set --databases to {} or more",
            index + 1
        ));
    }
    let own = wanted.values().filter_map(|database| database.memory_bytes());
    let reserved = own.fold(0, |sum: u64, bytes| sum.saturating_add(bytes));
    let sharing = wanted.values().filter(|database| database.memory_bytes().is_none()).count();
    let sharing = sharing as u64 + u64::from(wanted.len() < count as usize);
    if reserved.saturating_add(SHARED_BYTES_MIN * sharing) > memory_bytes {
        return refuse(format!(
            "the databases have {} MiB of the memory of their own, and all together {} MiB; \
             give a larger --cache, or less to them",
            reserved.div_ceil(1 << 20),
            memory_bytes >> 20
        ));
    }
    Ok(())
}

fn holds_something(engine: &dyn Engine) -> bool {
    let count = engine.as_admin().map(|admin| admin.count(false));
    count.is_none_or(|count| count.map_or(true, |count| count.high > 0))
}

impl Databases for InMemory {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        if let Some(engine) = self.own().get(&index) {
            return Ok(Arc::clone(engine));
        }
        let none = || Error::new(ErrorKind::Config, format!("there is no database {index}"));
        self.shared.as_ref().ok_or_else(none)?.database(index as usize)
    }

    fn clock(&self) -> Option<Arc<HeldClock>> {
        Some(Arc::clone(&self.clock))
    }

    fn listed(&self) -> Vec<u32> {
        (0..self.count).filter(|index| *index == 0 || self.exists(*index)).collect()
    }

    fn exists(&self, index: u32) -> bool {
        let own = self.own().get(&index).map(Arc::clone);
        match (own, &self.shared) {
            (Some(engine), _) => holds_something(&*engine),
            (None, shared) => shared.as_ref().is_some_and(|all| all.may_hold(index as usize)),
        }
    }

    fn swap(&self, index: u32, other: u32) -> Result<()> {
        let mut own = self.own();
        let (one, two) = (own.remove(&index), own.remove(&other));
        let is_mixed = one.is_some() != two.is_some();
        let (one, two) = if self.is_kept && is_mixed { (two, one) } else { (one, two) };
        one.into_iter().for_each(|engine| drop(own.insert(other, engine)));
        two.into_iter().for_each(|engine| drop(own.insert(index, engine)));
        if self.is_kept && is_mixed {
            let message = "a database with memory of its own keeps its number if a stop leaves an \
                           image";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let shared = self.shared.as_ref();
        shared.map_or(Ok(()), |shared| shared.swap(index as usize, other as usize))
    }
}
