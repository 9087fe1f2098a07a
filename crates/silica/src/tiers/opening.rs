//! A cache of two tiers in a directory.

use super::databases::{FILE, FlashDatabases, Kept as KeptDatabases};
use super::{Admission, Tiers};
use crate::kept::Kept;
use crate::{CACHE_ENGINE, OpenOptions};
use silica_base::HashSeed;
use silica_device::FileDevice;
use silica_device::blocks::{AnyFlash, FlashDevice, FlashDrive, FlashImageOptions, Geometry};
use silica_dida::{Dida, RawFlash, Startup};
use silica_engine::{Engine, Error, ErrorKind, OptionValues, Result};
use std::path::Path;
use std::sync::Arc;

/// The flash in the directory.
const DRIVE: &str = "flash";
/// Flash that a cache has if nobody says how much.
const FLASH_BYTES_USUAL: u64 = 4 << 30;
/// Blocks at least: the marks of the collector need some.
const BLOCKS_MIN: u64 = 16;
/// Bytes of a block: as many as make so many blocks, within these limits. A value of 1 MiB fits
/// the smallest.
const BLOCKS_USUAL: u64 = 1024;
const BLOCK_BYTES: [u64; 2] = [2 << 20, 8 << 20];
const PAGE_BYTES: u64 = 4096;
/// Channels and LUNs of the drive: as many reads go on side by side.
const CHANNELS: u32 = 4;
const LUNS: u32 = 2;
/// Slabs in memory.
const MEMORY_SLABS: u64 = 6;
/// Bytes of the usual entry, and of memory that the index has for each.
const ENTRY_BYTES: u64 = 300;
const INDEX_BYTES_OF_ENTRY: u64 = 12;
/// Of what slabs leave, the index has this part at most.
const INDEX_PART_MAX: (u64, u64) = (3, 4);
/// What blocks are taken to endure, for the years that are told: flash of three bits a cell.
const ENDURANCE: u64 = 3000;

/// Flash behind the memory of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlashCacheOptions {
    /// Bytes of flash; of a cache that is there, what it has if `None`, else 4 GiB.
    pub flash_bytes: Option<u64>,
    /// Times that all of the flash may be written in a day; any number if `None`.
    pub writes_per_day: Option<f64>,
    /// After a loss of power what was on flash is kept, for which every delete and overwrite waits
    /// for a sync; else the cache is empty then.
    pub keeps_after_power_loss: bool,
}

/// How the memory is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Division {
    front: u64,
    back: u64,
}

fn divide(memory_bytes: u64, geometry: &Geometry) -> Result<Division> {
    let slabs = MEMORY_SLABS * geometry.block_bytes();
    let entries = geometry.capacity_bytes() / ENTRY_BYTES;
    let left = memory_bytes.saturating_sub(slabs);
    let (part, of) = INDEX_PART_MAX;
    let index = (entries * INDEX_BYTES_OF_ENTRY).min(left / of * part);
    if left < slabs / 2 {
        let message = format!(
            "a cache with {} MiB of flash needs {} MiB of memory for what is on its way to flash, \
             and as much for the rest; give it more than {} MiB",
            geometry.capacity_bytes() >> 20,
            slabs >> 20,
            memory_bytes >> 20
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let management = u64::from(geometry.block_count()) * 64;
    let back = slabs + index + management;
    Ok(Division { front: memory_bytes.saturating_sub(back).max(1 << 20), back })
}

/// The geometry of flash of `bytes` bytes, or a little less.
fn geometry_of(bytes: u64) -> Result<Geometry> {
    let [least, most] = BLOCK_BYTES;
    let block = (bytes / BLOCKS_USUAL).next_power_of_two().clamp(least, most);
    let luns = u64::from(CHANNELS * LUNS);
    let blocks = bytes / block / luns;
    if blocks * luns < BLOCKS_MIN {
        let message = format!(
            "{} MiB of flash are too few for a cache; give it {} MiB at least (--flash-size)",
            bytes >> 20,
            (BLOCKS_MIN * least) >> 20
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let geometry = Geometry {
        channels: CHANNELS,
        luns: LUNS,
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        pages: (block / PAGE_BYTES) as u32,
        page_bytes: PAGE_BYTES as u32,
        spare_bytes: 0,
    };
    geometry.check().map_err(|e| e.within("the size of the flash (--flash-size)"))?;
    Ok(geometry)
}

/// A number of this run of the machine.
fn boot_number() -> Result<u64> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::io(format!("reading {path}, which tells runs of the machine apart"), e)
    })?;
    Ok(HashSeed([0; 16]).low(text.trim().as_bytes()))
}

impl OpenOptions {
    /// Opens a cache in memory with flash behind it, in `directory`, which is created where it is
    /// missing: the cache is as large as the flash, and is there again after a restart, what is
    /// deleted or overwritten excepted. After a loss of power it is empty, or as
    /// [`FlashCacheOptions::keeps_after_power_loss`] says.
    ///
    /// Values may vanish. They are never wrong, never another key's, and never back after a delete
    /// or an overwrite that was acknowledged.
    ///
    /// ```
    /// use silica::{Durability, EngineExt, FlashCacheOptions, OpenOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let flash = FlashCacheOptions { flash_bytes: Some(64 << 20), ..Default::default() };
    /// let options = || OpenOptions::new().memory_bytes(48 << 20);
    /// let cache = options().open_flash_cache(directory, &flash)?;
    /// cache.put(b"key", b"value", Durability::Buffered)?;
    /// drop(cache);
    /// let cache = options().open_flash_cache(directory, &flash)?;
    /// assert_eq!(cache.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Config` for too little memory or flash, a directory with something else in it, or another
    /// size than the cache was made with; `Locked` if another process has it; `Full` if the file
    /// system has no room for the flash; `Io`.
    pub fn open_flash_cache(
        self,
        directory: &Path,
        flash: &FlashCacheOptions,
    ) -> Result<Arc<dyn Engine>> {
        self.open_flash_databases(directory, flash)?.database(0)
    }

    /// Opens the numbered databases of a cache in memory with flash behind it, which share all of
    /// both, as [`OpenOptions::open_flash_cache`] opens the first of them.
    ///
    /// # Errors
    /// As [`OpenOptions::open_flash_cache`].
    pub fn open_flash_databases(
        self,
        directory: &Path,
        flash: &FlashCacheOptions,
    ) -> Result<FlashDatabases> {
        self.open_cache_on(directory, flash, || Ok(()))
    }

    /// Opens a cache whose flash is a block device, which `silica flash create` made flash: a drive
    /// with zones, or another one. `directory` has the cache's other files; it is created where it
    /// is missing, and belongs to this device from then on.
    ///
    /// ```no_run
    /// use silica::{FlashCacheOptions, OpenOptions};
    ///
    /// let options = OpenOptions::new().memory_bytes(4 << 30);
    /// let (device, files) = ("/dev/nvme0n2".as_ref(), "/var/lib/cache".as_ref());
    /// let cache = options.open_flash_cache_on(device, files, &FlashCacheOptions::default())?;
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenOptions::open_flash_cache`]; `Config` if the device is no flash, or the directory
    /// belongs to another one.
    pub fn open_flash_cache_on(
        self,
        device: &Path,
        directory: &Path,
        flash: &FlashCacheOptions,
    ) -> Result<Arc<dyn Engine>> {
        self.open_flash_databases_on(device, directory, flash)?.database(0)
    }

    /// Opens the numbered databases of a cache whose flash is a block device, as
    /// [`OpenOptions::open_flash_cache_on`] opens the first of them.
    ///
    /// # Errors
    /// As [`OpenOptions::open_flash_cache_on`].
    pub fn open_flash_databases_on(
        self,
        device: &Path,
        directory: &Path,
        flash: &FlashCacheOptions,
    ) -> Result<FlashDatabases> {
        // Before anything is written beside it.
        drop(AnyFlash::open(device)?);
        self.open_cache_on(directory, flash, || link_device(directory, device))
    }

    /// Opens a cache in `directory`, with the flash that `place` put there.
    fn open_cache_on(
        self,
        directory: &Path,
        flash: &FlashCacheOptions,
        place: impl FnOnce() -> Result<()>,
    ) -> Result<FlashDatabases> {
        crate::options::check_memory_bytes("memory", self.memory_bytes)?;
        crate::refuse_within_store(directory, "the flash cache")?;
        refuse_strange(directory)?;
        let environment = self.environment_of_cache()?;
        let seed = environment.seed;
        let files = FileDevice::open(directory, self.device)?;
        let databases = databases_in(directory)?;
        place()?;
        let drive = open_drive(directory, flash, &seed)?;
        let geometry = *drive.geometry();
        let division = divide(self.memory_bytes, &geometry)?;
        let mut back_options = OptionValues::default();
        back_options.set_memory_bytes(division.back).set("memory_slabs", MEMORY_SLABS);
        back_options.set("after_power_loss", u64::from(flash.keeps_after_power_loss));
        let startup = Startup { boot: boot_number()? };
        let raw = RawFlash::new(drive)?;
        let back = Arc::new(Dida::open(raw, files, &back_options, &environment, startup)?);
        let kept = match databases {
            Found::Kept(kept) => Some(kept),
            Found::One => None,
            Found::Damaged => {
                back.as_admin().map_or(Ok(()), |admin| admin.clear())?;
                Some(KeptDatabases::create(directory)?)
            }
        };
        let pairs = self.set.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let mut front_options = OptionValues::parse(silica_mica::OPTIONS, pairs)?;
        front_options.set_memory_bytes(division.front);
        crate::options::check_fits(CACHE_ENGINE, &front_options)?;
        let front = Arc::new(silica_mica::Mica::open(&front_options, &environment)?);
        let counted = Arc::clone(&back);
        let admission = Admission::new(
            Arc::clone(&environment.clock),
            Box::new(move || counted.flash_bytes_written()),
            geometry.capacity_bytes(),
            ENDURANCE,
            flash.writes_per_day,
        );
        let tiers = Tiers::new(front, back, admission, seed);
        let engine: Arc<dyn Engine> = match self.background_threads {
            0 => Arc::new(tiers),
            _ => Arc::new(Kept::new_on_flash(tiers, self.background_bytes_per_second)),
        };
        Ok(FlashDatabases::new(engine, environment.clock, directory, kept))
    }
}

/// What a directory says of the databases of its cache.
enum Found {
    Kept(KeptDatabases),
    /// An older release made the cache, with one database.
    One,
    /// Nobody knows whose the entries are.
    Damaged,
}

/// The databases of the cache in `directory`; of one that is about to be made, new ones.
fn databases_in(directory: &Path) -> Result<Found> {
    match KeptDatabases::read(directory) {
        Ok(Some(kept)) => Ok(Found::Kept(kept)),
        Ok(None) if std::fs::symlink_metadata(directory.join(DRIVE)).is_ok() => {
            log::warn!(
                "release 0.2 made the cache in {}, with one database; for more, begin a cache in a \
                 new directory",
                directory.display()
            );
            Ok(Found::One)
        }
        // Before there is flash: what is there without this is of an older release.
        Ok(None) => KeptDatabases::create(directory).map(Found::Kept),
        Err(error) if error.kind() == ErrorKind::Corruption => {
            log::error!("the flash cache starts empty: {error}");
            Ok(Found::Damaged)
        }
        Err(error) => Err(error),
    }
}

/// Refuses a directory that has something else in it.
fn refuse_strange(directory: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => {
            let what = format!("reading {}, the directory of the flash cache", directory.display());
            return Err(Error::io(what, e));
        }
    };
    if std::fs::symlink_metadata(directory.join(DRIVE)).is_ok() {
        return Ok(());
    }
    for entry in entries.filter_map(std::result::Result::ok) {
        let name = entry.file_name();
        let begins = |with: &str| name.to_string_lossy().starts_with(with);
        let is_own = name == "LOCK" || begins(FILE) || begins(silica_device::LOG_PREFIX);
        if !is_own {
            let message = format!(
                "{} has {name:?} in it and no flash cache; give the cache an empty directory, or a \
                 new one",
                directory.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
    }
    Ok(())
}

/// Makes the flash of a directory be a block device.
fn link_device(directory: &Path, device: &Path) -> Result<()> {
    let link = directory.join(DRIVE);
    let failed = |e| Error::io(format!("noting in {} where its flash is", directory.display()), e);
    let device = device.canonicalize().map_err(failed)?;
    match std::fs::read_link(&link) {
        Ok(there) if there == device => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            std::os::unix::fs::symlink(&device, &link).map_err(failed)
        }
        other => {
            let there =
                other.map_or("a file of its own".into(), |there| there.display().to_string());
            let message = format!(
                "{} has the files of a cache whose flash is {there}, not {}; give that, or another \
                 directory",
                directory.display(),
                device.display()
            );
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}

fn open_drive(directory: &Path, flash: &FlashCacheOptions, seed: &HashSeed) -> Result<AnyFlash> {
    let path = directory.join(DRIVE);
    let wanted = flash.flash_bytes.map(geometry_of).transpose()?;
    if std::fs::symlink_metadata(&path).is_err() {
        let geometry = wanted.map_or_else(|| geometry_of(FLASH_BYTES_USUAL), Ok)?;
        let options = FlashImageOptions { id: seed.low(b"flash drive"), endurance: None };
        let created = FlashDrive::create(&path, geometry, options);
        let created = created.map(|drive| AnyFlash::Drive(Box::new(drive)));
        return created.map_err(|error| match error.kind() {
            ErrorKind::Full => error.within(format!(
                "a flash cache takes {} MiB at its creation; give it less (--flash-size)",
                geometry.capacity_bytes() >> 20
            )),
            _ => error,
        });
    }
    let drive = AnyFlash::open(&path)?;
    let has = *drive.geometry();
    if path.is_symlink() {
        if flash.flash_bytes.is_some() {
            let message = "a device's size is its own; leave --flash-size out";
            return Err(Error::new(ErrorKind::Config, message));
        }
        return Ok(drive);
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted != has) {
        let message = format!(
            "the flash cache in {} was made with {} MiB of flash, not {}; leave the size out \
             (--flash-size), or remove the directory to begin an empty one",
            directory.display(),
            has.capacity_bytes() >> 20,
            wanted.capacity_bytes() >> 20
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(drive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_a_device_belong_to_it() {
        let place = tempfile::tempdir().unwrap();
        let device = |name: &str| {
            let path = place.path().join(name);
            let options = FlashImageOptions { id: 1, endurance: None };
            drop(FlashDrive::create(&path, geometry_of(64 << 20).unwrap(), options).unwrap());
            path
        };
        let (one, other, files) = (device("one"), device("other"), place.path().join("files"));
        let open = |device: &Path, flash_bytes| {
            let flash = FlashCacheOptions {
                flash_bytes,
                keeps_after_power_loss: true,
                ..FlashCacheOptions::default()
            };
            let options = OpenOptions::new().memory_bytes(48 << 20);
            options.open_flash_cache_on(device, &files, &flash)
        };
        let said = |result: Result<Arc<dyn Engine>>| {
            let error = result.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            error.to_string()
        };
        let missing = open(&place.path().join("none"), None).map(drop).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(!files.exists(), "nothing is made for a device that is none");
        drop(open(&one, None).unwrap());
        drop(open(&one, None).unwrap());
        assert!(said(open(&other, None)).contains("give that, or another directory"));
        assert!(said(open(&one, Some(64 << 20))).contains("leave --flash-size out"));
    }

    #[test]
    fn memory_and_flash_are_divided_as_they_are_said_to_be() {
        let geometry = geometry_of(64 << 30).unwrap();
        assert_eq!((geometry.block_bytes(), geometry.block_count()), (8 << 20, 8192));
        let Division { front, back } = divide(4 << 30, &geometry).unwrap();
        assert!(front + back <= 4 << 30);
        assert!(back > 2 << 30 && front > 1 << 30, "{front} {back}");
        let small = geometry_of(64 << 20).unwrap();
        assert_eq!(small.block_bytes(), 2 << 20);
        assert!(divide(12 << 20, &small).unwrap_err().to_string().contains("memory"));
        assert!(geometry_of(8 << 20).unwrap_err().to_string().contains("--flash-size"));
    }
}
