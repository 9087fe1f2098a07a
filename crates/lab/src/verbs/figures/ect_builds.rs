//! Builds of a dictionary with its index (Figures 3.7, 3.8, 3.9 and 3.12 of the chapter on ECT): an
//! external sort, the sorted items written to a file, the index built from the stream.

use super::job::Job;
use super::sheet::Sheet;
use silica::{Error, Result};
use silica_base::Prng;
use silica_device::{DeviceOptions, FileDevice};
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams, bulk};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of the paper's items, of a hashed key and a value, and of its small ones.
const ITEM: usize = 1024;
const SMALL: usize = 16;
/// Items of 1 KiB for each small one.
const ITEM_SHARE: u64 = 16;
/// Sort buffers, as shares of what is sorted.
const BUFFER_SHARES: [u64; 5] = [64, 16, 8, 4, 2];
const BUFFER_MIN: u64 = 256 << 10;
/// Shares of the items, of Figure 3.8.
const PARTS: [u64; 4] = [8, 4, 2, 1];
/// Batches of Figure 3.9, the first included.
const BATCHES: u64 = 6;
const FILE_BUFFER: usize = 1 << 20;

fn on_threads(jobs: bulk::Jobs<'_>) {
    std::thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
}

/// What builds share.
struct Builds {
    device: FileDevice,
    directory: PathBuf,
    workers: usize,
    seed: u64,
}

/// All four figures, with `keys` small items and a sixteenth of that of 1 KiB.
pub(super) fn add(job: &Job<'_>, keys: u64, sheet: &mut Sheet) -> Result<()> {
    let directory = job.scratch();
    let device = FileDevice::open(&directory, DeviceOptions::default())?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let builds = Builds { device, directory: directory.clone(), workers, seed: job.seed() };
    let items = keys / ITEM_SHARE;
    let outcome = builds
        .by_buffer::<ITEM>(items, ("figure-3.7", 138_000.0, 151_000.0), sheet)
        .and_then(|()| builds.by_items(items, sheet))
        .and_then(|()| builds.by_batches(items / BATCHES, sheet))
        .and_then(|()| {
            builds.by_buffer::<SMALL>(keys, ("figure-3.12", 455_000.0, 591_000.0), sheet)
        });
    drop(builds);
    let _ = std::fs::remove_dir_all(directory);
    outcome
}

impl Builds {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Items number `from` to `to`, each with the same bytes whenever it is made.
    fn items<const RECORD: usize>(
        &self,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = [u8; RECORD]> + use<RECORD> {
        let seed = self.seed;
        (from..to).map(move |n| {
            let mut record = [0; RECORD];
            Prng::new(seed.wrapping_add(n).wrapping_mul(0x9E37_79B9_7F4A_7C15))
                .fill(&mut record[..SMALL]);
            record
        })
    }

    /// Sorts items number `from` to `to` in so much memory, and hands them to `take` in order.
    fn sorted<const RECORD: usize>(
        &self,
        (from, to): (u64, u64),
        (memory_bytes, workers): (u64, usize),
        take: impl FnMut(&[u8; RECORD]) -> Result<()>,
    ) -> Result<()> {
        let memory_bytes = memory_bytes.max(BUFFER_MIN) as usize;
        let options = bulk::Options { memory_bytes, workers, ..Default::default() };
        let mut sorter = bulk::Sorter::<RECORD, _>::new(&self.device, options, &on_threads)?;
        for record in self.items::<RECORD>(from, to) {
            sorter.push(&record, &mut |_| ())?;
        }
        sorter.finish(&mut |_| ())?.for_each(&mut |_| (), take)
    }

    /// A dictionary of `items` items from nothing; the seconds.
    fn build<const RECORD: usize>(
        &self,
        items: u64,
        sort: (u64, usize),
        name: &str,
    ) -> Result<f64> {
        let started = Instant::now();
        let mut dictionary = Dictionary::create(&self.path(name), items)?;
        self.sorted::<RECORD>((0, items), sort, |record| dictionary.push(record))?;
        dictionary.finish()?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Figures 3.7 and 3.12: by the memory of the sort, with one worker and with all.
    fn by_buffer<const RECORD: usize>(
        &self,
        items: u64,
        (figure, paper_one, paper_all): (&'static str, f64, f64),
        sheet: &mut Sheet,
    ) -> Result<()> {
        for (scheme, workers, paper) in
            [("1 worker", 1, paper_one), ("all workers", self.workers, paper_all)]
        {
            for share in BUFFER_SHARES {
                let memory = (items * RECORD as u64 / share).max(BUFFER_MIN);
                let seconds = self.build::<RECORD>(items, (memory, workers), "dictionary")?;
                let metric = format!("{} KiB: items/s", memory >> 10);
                // The paper names the rate of the best buffer, a quarter of its memory.
                let paper = (share == BUFFER_SHARES[3]).then_some(paper);
                sheet.add(figure, scheme, metric, items as f64 / seconds, paper);
            }
        }
        Ok(())
    }

    /// Figure 3.8: by the number of items of 1 KiB.
    fn by_items(&self, items: u64, sheet: &mut Sheet) -> Result<()> {
        let memory = items * ITEM as u64 / BUFFER_SHARES[2];
        for part in PARTS {
            let items = items / part;
            let seconds = self.build::<ITEM>(items, (memory, self.workers), "dictionary")?;
            let metric = format!("{items} items: items/s");
            sheet.add("figure-3.8", "ECT", metric, items as f64 / seconds, None);
        }
        Ok(())
    }

    /// Figure 3.9: batches that are added one after the other, merged into the sorted file or
    /// sorted with all items from nothing.
    fn by_batches(&self, items: u64, sheet: &mut Sheet) -> Result<()> {
        let sort = (items * ITEM as u64 / BUFFER_SHARES[3], self.workers);
        let mut merged = self.build::<ITEM>(items, sort, "merged-0")?;
        let mut rebuilt = merged;
        for batch in 1..BATCHES {
            let (from, to) = (batch * items, (batch + 1) * items);
            merged += self.merge(batch, (from, to), sort)?;
            rebuilt += self.build::<ITEM>(to, sort, "rebuilt")?;
            sheet.add("figure-3.9", "merge", format!("{batch} batches: seconds"), merged, None);
            sheet.add("figure-3.9", "rebuild", format!("{batch} batches: seconds"), rebuilt, None);
        }
        let same =
            same_bytes(&self.path(&format!("merged-{}", BATCHES - 1)), &self.path("rebuilt"))?;
        if !same {
            let text = "the merged dictionary has other items than the one that was built anew";
            return Err(Error::new(silica::ErrorKind::Corruption, text));
        }
        // The paper: "more than 20 % with 5 updates".
        sheet.add("figure-3.9", "merge", "of the time of rebuilds, in all", merged / rebuilt, 0.8);
        Ok(())
    }

    /// Sorts the new items and merges them with the last batch's file; the seconds.
    fn merge(&self, batch: u64, (from, to): (u64, u64), sort: (u64, usize)) -> Result<f64> {
        let started = Instant::now();
        let mut old = Stream::open(&self.path(&format!("merged-{}", batch - 1)))?;
        let mut dictionary = Dictionary::create(&self.path(&format!("merged-{batch}")), to)?;
        self.sorted::<ITEM>((from, to), sort, |record| {
            let before = |old: &[u8; ITEM]| bulk::key(old) < bulk::key(record);
            while let Some(item) = old.next_if(before)? {
                dictionary.push(&item)?;
            }
            dictionary.push(record)
        })?;
        while let Some(item) = old.next_if(|_| true)? {
            dictionary.push(&item)?;
        }
        dictionary.finish()?;
        let seconds = started.elapsed().as_secs_f64();
        let _ = std::fs::remove_file(self.path(&format!("merged-{}", batch - 1)));
        Ok(seconds)
    }
}

fn failed(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("{what} {}", path.display()), e)
}

/// Items in order, in a file and in an index.
struct Dictionary {
    path: PathBuf,
    file: BufWriter<File>,
    index: DenseBuilder,
}

impl Dictionary {
    fn create(path: &Path, items: u64) -> Result<Self> {
        let file = File::create(path).map_err(|e| failed("creating", path, e))?;
        let file = BufWriter::with_capacity(FILE_BUFFER, file);
        let index = DenseBuilder::new(EctParams::default(), items);
        Ok(Dictionary { path: path.to_path_buf(), file, index })
    }

    fn push<const RECORD: usize>(&mut self, record: &[u8; RECORD]) -> Result<()> {
        self.index.push((bulk::key(record) >> 64) as u64);
        self.file.write_all(record).map_err(|e| failed("writing", &self.path, e))
    }

    fn finish(mut self) -> Result<DenseIndex> {
        self.file.flush().map_err(|e| failed("writing", &self.path, e))?;
        self.file.get_ref().sync_data().map_err(|e| failed("syncing", &self.path, e))?;
        Ok(self.index.finish())
    }
}

/// Items of a file, in their order.
struct Stream {
    path: PathBuf,
    file: BufReader<File>,
    next: Option<[u8; ITEM]>,
}

impl Stream {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| failed("opening", path, e))?;
        let file = BufReader::with_capacity(FILE_BUFFER, file);
        let mut stream = Stream { path: path.to_path_buf(), file, next: None };
        stream.read()?;
        Ok(stream)
    }

    fn read(&mut self) -> Result<()> {
        let mut item = [0; ITEM];
        self.next = match self.file.read_exact(&mut item) {
            Ok(()) => Some(item),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Err(e) => return Err(failed("reading", &self.path, e)),
        };
        Ok(())
    }

    /// Takes the next item, if there is one that `is_wanted`.
    fn next_if(&mut self, is_wanted: impl Fn(&[u8; ITEM]) -> bool) -> Result<Option<[u8; ITEM]>> {
        let taken = self.next.filter(|item| is_wanted(item));
        if taken.is_some() {
            self.read()?;
        }
        Ok(taken)
    }
}

/// True if two files of items have the same.
fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let (mut one, mut other) = (Stream::open(one)?, Stream::open(other)?);
    loop {
        match (one.next_if(|_| true)?, other.next_if(|_| true)?) {
            (None, None) => return Ok(true),
            (a, b) if a == b => {}
            _ => return Ok(false),
        }
    }
}
