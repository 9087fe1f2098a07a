//! Taking in sorted files, and making them.

use crate::{Keyspace, Registry};
use silica_base::HashSeed;
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{
    EntryRef, Error, ErrorKind, INGESTED, Ingested, Result, SortedFile, SortedFiles,
    SortedFilesOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files that were put into keyspaces' directories so far.
static PLACED: AtomicU64 = AtomicU64::new(0);

/// A file in a keyspace's directory, which goes with this.
struct Placed(PathBuf);

impl Drop for Placed {
    fn drop(&mut self) {
        // One that stays is removed when the store is opened.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Keyspace {
    /// Puts the entries of table files into the keyspace, as [`TableFiles`] or
    /// `silica build-table` make them: durably and in one step, newer than all that is there. After
    /// a crash all of them are there or none. The files may come in any order and must not
    /// overlap; they are checked before anything changes, copied, and stay as they are. Reads and
    /// writes go on meanwhile; writes may have to wait for a moment at the end.
    ///
    /// ```
    /// # let name = format!("silica-doc-ingest-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # std::fs::create_dir_all(&path).unwrap();
    /// # let store = silica::open(path.join("store"))?;
    /// let users = store.keyspace("users")?;
    /// let mut table = silica::TableFiles::create(path.join("users.table"))?;
    /// table.put("bob", "red")?;
    /// table.put("ann", "blue")?;
    /// let files = table.finish()?;
    /// assert_eq!(users.ingest(&files)?.entries, 2);
    /// assert_eq!(users.get("ann")?, Some(b"blue".to_vec()));
    /// # drop((users, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` where the engine keeps no order, where a file is of a newer version or a
    /// store's own; `Corruption` where one is damaged or none; `Config` where files overlap.
    pub fn ingest<P: AsRef<Path>>(&self, paths: &[P]) -> Result<Ingested> {
        self.ingest_with(paths, |_, _| {})
    }

    /// Ingests as [`Keyspace::ingest`] does; `progress` is told of bytes done and of all of them.
    pub fn ingest_with<P: AsRef<Path>>(
        &self,
        paths: &[P],
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Ingested> {
        self.switch().refuse_if_read_only()?;
        let ordered = self.ordered()?;
        let directory = self.root().join(self.directory());
        let (mut placed, mut files) = (Vec::new(), Vec::new());
        for path in paths {
            let shown = path.as_ref().display().to_string();
            let name = format!("{INGESTED}{:08}", PLACED.fetch_add(1, Ordering::Relaxed));
            let target = directory.join(&name);
            placed.push(Placed(target.clone()));
            place(path.as_ref(), &target).map_err(|e| {
                Error::io(format!("ingesting {shown}: check the path of the file"), e)
            })?;
            files.push(SortedFile { name, shown });
        }
        let ingested = ordered.ingest(&files, &mut progress)?;
        drop(placed);
        self.wake();
        Ok(ingested)
    }
}

/// Gives a file a second name, or copies it where that cannot be.
fn place(path: &Path, target: &Path) -> std::io::Result<()> {
    // What is left there is of another process, which is gone.
    let _ = std::fs::remove_file(target);
    // Engines open their files for writing, too.
    let is_read_only = std::fs::metadata(path)?.permissions().readonly();
    if !is_read_only && std::fs::hard_link(path.canonicalize()?, target).is_ok() {
        return Ok(());
    }
    let mut copy = std::fs::File::create(target)?;
    std::io::copy(&mut std::fs::File::open(path)?, &mut copy)?;
    copy.sync_all()
}

/// Makes table files for [`Keyspace::ingest`] of entries in any order: sorted in bounded memory,
/// with what does not fit in a directory beside the first file, which goes in the end.
pub struct TableFiles {
    /// `None` once it is finished.
    files: Option<Box<dyn SortedFiles>>,
    path: PathBuf,
    directory: PathBuf,
}

impl TableFiles {
    /// Makes the file `path`, and `path.2` and so on where there is much.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Self::create_with(path, crate::DEFAULT_MEMORY_BYTES, 1 << 30)
    }

    /// Makes the file `path`, sorting in `memory_bytes`; after `file_bytes` another file begins.
    pub fn create_with(path: impl AsRef<Path>, memory_bytes: u64, file_bytes: u64) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let directory = with_ending(&path, ".spill");
        if path.file_name().is_none() || path.is_dir() {
            let message = format!("{} is no name for a file; give another", path.display());
            return Err(Error::new(ErrorKind::Config, message));
        }
        crate::refuse_within_store(&path, "the table")?;
        // Of an earlier one that was interrupted; unless it is still at work.
        let device = FileDevice::open(&directory, DeviceOptions::default())?;
        for name in silica_device::Device::list(&device)? {
            silica_device::Device::remove(&device, &name)?;
        }
        let seed = HashSeed(crate::OpenOptions::new().new_seed()?);
        let id = seed.hash(path.as_os_str().as_encoded_bytes()).high();
        let options = SortedFilesOptions { memory_bytes, file_bytes, id };
        let files = Registry::builtin().ingest()?(Arc::new(device), &options);
        Ok(TableFiles { files: Some(files), path, directory })
    }

    /// Adds an entry; of several with one key the last counts.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let files = self.files.as_mut().expect("it is not finished");
        files.put(key.as_ref(), EntryRef::new(value.as_ref()))
    }

    /// Makes the files; their paths, none where there is no entry.
    pub fn finish(self) -> Result<Vec<PathBuf>> {
        self.finish_with(|_, _| {}).map(|(paths, _)| paths)
    }

    /// Makes the files; their paths, and the number of entries in them. `progress` is told of
    /// entries done and of all of them.
    pub fn finish_with(
        mut self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(Vec<PathBuf>, u64)> {
        let made = self.files.take().expect("it is not finished").finish(&mut progress)?;
        let mut paths = Vec::new();
        for (at, name) in made.names.iter().enumerate() {
            let path = match at {
                0 => self.path.clone(),
                _ => with_ending(&self.path, &format!(".{}", at + 1)),
            };
            let moved = std::fs::rename(self.directory.join(name), &path);
            moved.map_err(|e| Error::io(format!("creating {}", path.display()), e))?;
            paths.push(path);
        }
        Ok((paths, made.entries))
    }
}

impl Drop for TableFiles {
    fn drop(&mut self) {
        self.files = None;
        // Nothing in it is of use any more; one that stays is only untidy.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(ending);
    path.with_file_name(name)
}
