//! Loads of file servers: our own generator after Filebench's published personalities
//! (`fileserver.f`, `webserver.f`, `varmail.f`: mean sizes, threads, order of operations; sizes are
//! gamma-distributed with shape 1.5). Contents are zeroes. Reads go through a page cache that
//! forgets what was used least recently.

use super::files::{Files, ROOT};
use silica_base::{Prng, Result};
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
    by_page: BTreeMap<(u64, u64), u64>,
    by_use: BTreeMap<u64, (u64, u64)>,
    uses: u64,
    pages_max: usize,
}

impl PageCache {
    /// True if the page is there; it is from now on.
    fn use_page(&mut self, file: u64, page: u64) -> bool {
        self.uses += 1;
        let old = self.by_page.insert((file, page), self.uses);
        if let Some(old) = old {
            self.by_use.remove(&old);
        }
        self.by_use.insert(self.uses, (file, page));
        if self.by_page.len() > self.pages_max
            && let Some((_, page)) = self.by_use.pop_first()
        {
            self.by_page.remove(&page);
        }
        old.is_some()
    }
}

/// A load on a file system.
pub(super) struct Load<'f> {
    pub(super) on: Box<dyn Files + 'f>,
    personality: Personality,
    prng: Prng,
    cache: PageCache,
    directories: Vec<u64>,
    /// Files that exist: directory and number in its name.
    files: Vec<(u64, u64, u64)>,
    log: u64,
    next: u64,
    /// Operations so far, as Filebench counts them: each step of a client is one.
    pub(super) operations: u64,
}

impl<'f> Load<'f> {
    /// Fills the file system to a share of what it holds.
    pub(super) fn new(
        on: Box<dyn Files + 'f>,
        personality: Personality,
        fill: f64,
        cached: f64,
        seed: u64,
    ) -> Result<Self> {
        let pages = on.usage()?.pages as f64;
        let cache = PageCache {
            by_page: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            pages_max: (pages * cached) as usize,
        };
        let mut load = Load {
            on,
            personality,
            prng: Prng::new(seed),
            cache,
            directories: Vec::new(),
            files: Vec::new(),
            log: 0,
            next: 0,
            operations: 0,
        };
        load.log = load.on.make(ROOT, "log", false)?;
        while (load.on.usage()?.free_pages as f64) > pages * (1.0 - fill) {
            load.create()?;
        }
        load.on.sync()?;
        Ok(load)
    }

    /// Bytes drawn from the gamma distribution of shape 1.5 with this mean.
    fn bytes(&mut self, mean: f64) -> u64 {
        let exponential = -(1.0 - self.prng.unit()).ln();
        let normal = (-2.0 * (1.0 - self.prng.unit()).ln()).sqrt()
            * (std::f64::consts::TAU * self.prng.unit()).cos();
        ((exponential + normal * normal / 2.0) * mean / 1.5).max(1.0) as u64
    }

    fn append(&mut self, file: u64, bytes: u64) -> Result<()> {
        let begin = self.on.append(file, bytes)?;
        let page_bytes = self.on.page_bytes();
        for page in begin / page_bytes..=(begin + bytes - 1) / page_bytes {
            self.cache.use_page(file, page);
        }
        Ok(())
    }

    fn create(&mut self) -> Result<u64> {
        let number = self.next;
        self.next += 1;
        if (self.directories.len() as u64) * WIDTH <= self.files.len() as u64 {
            let name = format!("d{}", self.directories.len());
            let directory = self.on.make(ROOT, &name, true)?;
            self.directories.push(directory);
        }
        let directory = self.directories[self.prng.below(self.directories.len() as u64) as usize];
        let file = self.on.make(directory, &number.to_string(), false)?;
        let bytes = self.bytes(self.personality.file_bytes());
        self.files.push((directory, number, file));
        self.append(file, bytes)?;
        Ok(file)
    }

    fn any(&mut self) -> u64 {
        self.files[self.prng.below(self.files.len() as u64) as usize].2
    }

    fn delete(&mut self) -> Result<()> {
        let at = self.prng.below(self.files.len() as u64) as usize;
        let (directory, number, file) = self.files.swap_remove(at);
        self.on.unlink(directory, &number.to_string(), file)
    }

    fn read(&mut self, file: u64) -> Result<()> {
        let size = self.on.bytes(file)?;
        let page_bytes = self.on.page_bytes();
        let mut missed: Option<(u64, u64)> = None;
        for page in 0..size.div_ceil(page_bytes) {
            if !self.cache.use_page(file, page) {
                let (first, _) = missed.unwrap_or((page, page));
                missed = Some((first, page + 1));
            }
        }
        if let Some((first, end)) = missed {
            let end = size.min(end * page_bytes);
            self.on.read(file, first * page_bytes, end - first * page_bytes)?;
        }
        Ok(())
    }

    /// Deletes until a fifth of the file system is free: appends make files longer, and a load does
    /// not run on a full one. These deletes do not count.
    fn keep_room(&mut self) -> Result<()> {
        let wanted = self.on.usage()?.pages / 5;
        while self.on.usage()?.free_pages < wanted {
            self.delete()?;
        }
        Ok(())
    }

    /// Lets every client do its list of operations once. Clients that sync do it at the same time,
    /// as threads do that wait for each other's sync.
    pub(super) fn round(&mut self) -> Result<()> {
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
                if self.on.bytes(self.log)? > 512 * self.on.page_bytes() {
                    self.on.empty(self.log)?;
                }
            }
            Personality::Varmail => {
                for _ in 0..clients {
                    self.keep_room()?;
                    self.delete()?;
                    self.create()?;
                }
                self.on.sync()?;
                for _ in 0..clients {
                    let file = self.any();
                    self.read(file)?;
                    let bytes = self.bytes(APPEND_BYTES as f64);
                    self.append(file, bytes)?;
                }
                self.on.sync()?;
                for _ in 0..clients {
                    let file = self.any();
                    self.read(file)?;
                }
                self.operations += 13 * clients as u64;
            }
        }
        self.on.end_round()
    }
}
