//! Which engine the numbered databases of a server have.

use crate::args::{AfterPowerLoss, DatabaseArg, ServeArgs};
use silica::{CACHE_ENGINE, Engine, Error, ErrorKind, OpenOptions, Result, Silica};
use silica_console::Global;
use silica_server::{Config, Databases, Mode, keyspace_name};
use std::path::Path;
use std::sync::Arc;

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

/// Opens a cache whose flash is in a directory or on a block device.
fn open_flash_cache(
    options: OpenOptions,
    path: &Path,
    args: &ServeArgs,
) -> Result<Arc<dyn Engine>> {
    let flash = silica::FlashCacheOptions {
        flash_bytes: args.flash_size,
        writes_per_day: args.flash_writes_per_day,
        keeps_after_power_loss: args.after_power_loss == AfterPowerLoss::Keep,
    };
    let place = path.display();
    let message = match (&args.flash_files, is_block_device(path)) {
        (Some(files), true) => return options.open_flash_cache_on(path, files, &flash),
        (None, false) => return options.open_flash_cache(path, &flash),
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

/// The databases of a server without a directory.
pub(crate) struct InMemory(Vec<Arc<dyn Engine>>);

impl InMemory {
    /// Database 0 as `global` says, others as `args` say, for a server with `config`; those without
    /// a number of their own share what is left of `memory_bytes`.
    pub(crate) fn open(
        global: &Global,
        args: &ServeArgs,
        config: &Config,
        memory_bytes: u64,
    ) -> Result<Self> {
        if let Some(path) = &args.flash {
            let options = global.open_options().memory_bytes(memory_bytes);
            return Ok(InMemory(vec![open_flash_cache(options, path, args)?]));
        }
        let wanted = &args.database;
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if let Some(other) = wanted.iter().find(|database| database.engine != CACHE_ENGINE) {
            return refuse(format!(
                "database {} would have engine {}, which needs a directory: serve one, or leave \
                 the database out",
                other.index, other.engine
            ));
        }
        let of = |index: u32| wanted.iter().rev().find(|database| database.index == index);
        let count = wanted.iter().map(|database| database.index + 1).max().unwrap_or(1);
        if let Some(missing) = (1..count).find(|index| of(*index).is_none()) {
            return refuse(format!("there is no database {missing}; number them without gaps"));
        }
        let own: Vec<_> = (0..count).map(|n| of(n).and_then(DatabaseArg::memory_bytes)).collect();
        let reserved = own.iter().flatten().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let sharing = own.iter().filter(|bytes| bytes.is_none()).count() as u64;
        if reserved.saturating_add(SHARED_BYTES_MIN * sharing) > memory_bytes {
            return refuse(format!(
                "the databases have {} MiB of the memory of their own, and all together {} MiB; \
                 give a larger --cache, or less to them",
                reserved.div_ceil(1 << 20),
                memory_bytes >> 20
            ));
        }
        let share = (memory_bytes - reserved) / sharing.max(1);
        let open = |index: u32| {
            let options = match of(index) {
                None => global.open_options(),
                Some(database) => {
                    let set = silica::OpenOptions::new();
                    database.pairs().iter().fold(set, |set, (name, value)| set.set(*name, *value))
                }
            };
            let given = of(index).map_or(&global.set, |database| &database.options);
            let mut options = options.memory_bytes(share);
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
            .open_cache()
        };
        Ok(InMemory((0..count).map(open).collect::<Result<_>>()?))
    }

    /// Every database by its number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Arc<dyn Engine>)> + '_ {
        (0..).zip(self.0.iter().map(Arc::clone))
    }
}

impl Databases for InMemory {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0[index as usize]))
    }

    fn listed(&self) -> Vec<u32> {
        self.all().map(|(index, _)| index).collect()
    }
}
