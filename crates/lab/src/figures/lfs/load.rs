//! Loads of file servers: our own generator after Filebench's published personalities
//! (`fileserver.f`, `webserver.f`, `varmail.f`: mean sizes, threads, order of operations; sizes are
//! gamma-distributed with shape 1.5). Contents are zeroes. Reads go through a page cache that
//! forgets what was used least recently.

use silica_base::{Error, ErrorKind, Prng, Result};
use silica_lfs::{Fault, Ground, Ino, Kind, Lfs, LfsResult, Make, ROOT, Time};
use std::collections::BTreeMap;

/// A personality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Personality {
    Fileserver,
    Webserver,
    Varmail,
}

impl Personality {
    pub(super) const ALL: [Personality; 3] =
        [Personality::Fileserver, Personality::Webserver, Personality::Varmail];

    pub(super) fn name(self) -> &'static str {
        match self {
            Personality::Fileserver => "fileserver",
            Personality::Webserver => "webserver",
            Personality::Varmail => "varmail",
        }
    }

    /// Mean bytes of a file.
    fn file_bytes(self) -> f64 {
        match self {
            Personality::Fileserver => 128.0 * 1024.0,
            Personality::Webserver | Personality::Varmail => 16.0 * 1024.0,
        }
    }

    /// Clients at a time.
    fn clients(self) -> usize {
        match self {
            Personality::Fileserver => 50,
            Personality::Webserver => 100,
            Personality::Varmail => 16,
        }
    }
}

/// Mean bytes of an append, of all three.
const APPEND_BYTES: u64 = 16 << 10;
/// Files of a directory.
const WIDTH: u64 = 20;

/// Pages that the kernel would keep.
struct PageCache {
    by_page: BTreeMap<(Ino, u64), u64>,
    by_use: BTreeMap<u64, (Ino, u64)>,
    uses: u64,
    pages_max: usize,
}

impl PageCache {
    /// True if the page is there; it is from now on.
    fn use_page(&mut self, ino: Ino, page: u64) -> bool {
        self.uses += 1;
        let old = self.by_page.insert((ino, page), self.uses);
        if let Some(old) = old {
            self.by_use.remove(&old);
        }
        self.by_use.insert(self.uses, (ino, page));
        if self.by_page.len() > self.pages_max
            && let Some((_, page)) = self.by_use.pop_first()
        {
            self.by_page.remove(&page);
        }
        old.is_some()
    }
}

/// A load on a file system.
pub(super) struct Load<'l, G> {
    lfs: &'l Lfs<G>,
    personality: Personality,
    prng: Prng,
    cache: PageCache,
    directories: Vec<Ino>,
    /// Files that exist: directory and number in its name.
    files: Vec<(Ino, u64, Ino)>,
    log: Ino,
    next: u64,
    /// Operations so far, as Filebench counts them: each step of a client is one.
    pub(super) operations: u64,
}

fn failed(fault: Fault) -> Error {
    match fault {
        Fault::Store(error) => error,
        fault => Error::new(ErrorKind::Full, format!("the load does not fit: {fault}")),
    }
}

const NOW: Time = Time { seconds: 0, nanoseconds: 0 };

impl<'l, G: Ground> Load<'l, G> {
    /// Fills the file system to a share of what it holds.
    pub(super) fn new(
        lfs: &'l Lfs<G>,
        personality: Personality,
        fill: f64,
        cached: f64,
        seed: u64,
    ) -> Result<Self> {
        let pages = lfs.usage().pages as f64;
        let cache = PageCache {
            by_page: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            pages_max: (pages * cached) as usize,
        };
        let mut load = Load {
            lfs,
            personality,
            prng: Prng::new(seed),
            cache,
            directories: Vec::new(),
            files: Vec::new(),
            log: 0,
            next: 0,
            operations: 0,
        };
        load.log = load.make(ROOT, b"log", Kind::File).map_err(failed)?;
        while (lfs.usage().free_pages as f64) > pages * (1.0 - fill) {
            load.create().map_err(failed)?;
        }
        lfs.sync().map_err(failed)?;
        Ok(load)
    }

    fn make(&self, parent: Ino, name: &[u8], kind: Kind) -> LfsResult<Ino> {
        let what = Make { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, target: b"" };
        self.lfs.make(parent, name, &what, NOW)
    }

    /// Bytes drawn from the gamma distribution of shape 1.5 with this mean.
    fn bytes(&mut self, mean: f64) -> u64 {
        let exponential = -(1.0 - self.prng.unit()).ln();
        let normal = (-2.0 * (1.0 - self.prng.unit()).ln()).sqrt()
            * (std::f64::consts::TAU * self.prng.unit()).cos();
        ((exponential + normal * normal / 2.0) * mean / 1.5).max(1.0) as u64
    }

    fn append(&mut self, ino: Ino, bytes: u64) -> LfsResult<()> {
        let begin = self.lfs.write(ino, None, &vec![0; bytes as usize], NOW)?;
        let page_bytes = self.lfs.page_bytes() as u64;
        for page in begin / page_bytes..=(begin + bytes - 1) / page_bytes {
            self.cache.use_page(ino, page);
        }
        Ok(())
    }

    fn create(&mut self) -> LfsResult<Ino> {
        let number = self.next;
        self.next += 1;
        if (self.directories.len() as u64) * WIDTH <= self.files.len() as u64 {
            let name = format!("d{}", self.directories.len());
            let directory = self.make(ROOT, name.as_bytes(), Kind::Directory)?;
            self.directories.push(directory);
        }
        let directory = self.directories[self.prng.below(self.directories.len() as u64) as usize];
        let ino = self.make(directory, number.to_string().as_bytes(), Kind::File)?;
        let bytes = self.bytes(self.personality.file_bytes());
        self.files.push((directory, number, ino));
        self.append(ino, bytes)?;
        Ok(ino)
    }

    fn any(&mut self) -> Ino {
        self.files[self.prng.below(self.files.len() as u64) as usize].2
    }

    fn delete(&mut self) -> LfsResult<()> {
        let at = self.prng.below(self.files.len() as u64) as usize;
        let (directory, number, _) = self.files.swap_remove(at);
        self.lfs.unlink(directory, number.to_string().as_bytes(), NOW)
    }

    fn read(&mut self, ino: Ino) -> LfsResult<()> {
        let size = self.lfs.attributes(ino)?.0.size;
        let page_bytes = self.lfs.page_bytes() as u64;
        let mut missed: Option<(u64, u64)> = None;
        for page in 0..size.div_ceil(page_bytes) {
            if !self.cache.use_page(ino, page) {
                let (first, _) = missed.unwrap_or((page, page));
                missed = Some((first, page + 1));
            }
        }
        if let Some((first, end)) = missed {
            let mut bytes = vec![0; ((end - first) * page_bytes) as usize];
            self.lfs.read(ino, first * page_bytes, &mut bytes)?;
        }
        Ok(())
    }

    /// Deletes until a fifth of the file system is free: appends make files longer, and a load does
    /// not run on a full one. These deletes do not count.
    fn keep_room(&mut self) -> LfsResult<()> {
        let wanted = self.lfs.usage().pages / 5;
        while self.lfs.usage().free_pages < wanted {
            self.delete()?;
        }
        Ok(())
    }

    /// Lets every client do its list of operations once. Clients that sync do it at the same time,
    /// as threads do that wait for each other's sync.
    pub(super) fn round(&mut self) -> Result<()> {
        self.try_round().map_err(failed)
    }

    fn try_round(&mut self) -> LfsResult<()> {
        let clients = self.personality.clients();
        match self.personality {
            Personality::Fileserver => {
                for _ in 0..clients {
                    self.keep_room()?;
                    self.create()?;
                    let file = self.any();
                    let bytes = self.bytes(APPEND_BYTES as f64);
                    self.append(file, bytes)?;
                    let file = self.any();
                    self.read(file)?;
                    self.delete()?;
                    self.operations += 11;
                }
            }
            Personality::Webserver => {
                for _ in 0..clients {
                    for _ in 0..10 {
                        let file = self.any();
                        self.read(file)?;
                    }
                    self.append(self.log, APPEND_BYTES)?;
                    self.operations += 31;
                }
                let page_bytes = self.lfs.page_bytes() as u64;
                if self.lfs.attributes(self.log)?.0.size > 512 * page_bytes {
                    self.lfs.truncate(self.log, 0, NOW)?;
                }
            }
            Personality::Varmail => {
                for _ in 0..clients {
                    self.keep_room()?;
                    self.delete()?;
                    self.create()?;
                }
                self.lfs.sync()?;
                for _ in 0..clients {
                    let file = self.any();
                    self.read(file)?;
                    let bytes = self.bytes(APPEND_BYTES as f64);
                    self.append(file, bytes)?;
                }
                self.lfs.sync()?;
                for _ in 0..clients {
                    let file = self.any();
                    self.read(file)?;
                }
                self.operations += 13 * clients as u64;
            }
        }
        Ok(())
    }
}
