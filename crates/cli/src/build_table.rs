//! `silica build-table`: table files of any number of records, or an index over any number of keys,
//! by external sort in bounded memory.

use crate::args::{BuildTableArgs, KeyFormat};
use crate::load::each_entry;
use crate::records::FileFormat;
use indicatif::{ProgressBar, ProgressStyle};
use silica::{DeviceOptions, Error, ErrorKind, FileDevice, Result, TableFiles};
use silica_base::HashSeed;
use silica_console::{Global, Output, has_terminal};
use silica_parts::ect::bulk::{Jobs, Options, Phase, Progress, Sorted, Sorter};
use silica_parts::ect::{DenseBuilder, EctParams, SparseBuilder};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A record is a 128-bit hash, little-endian.
const RECORD_BYTES: usize = 16;
/// Records from one report of the progress to the next.
const REPORT_EVERY: u64 = 4096;
/// Seed of the hash where keys are given as text; it is part of what the index means.
const SEED: HashSeed = HashSeed([0; 16]);

/// Builds what the input's format says.
pub(crate) fn run(global: &Global, args: &BuildTableArgs, output: &mut Output) -> Result<()> {
    match args.format {
        KeyFormat::Tsv => tables(global, args, FileFormat::Tsv, output),
        KeyFormat::Plain => tables(global, args, FileFormat::Plain, output),
        KeyFormat::Lp => tables(global, args, FileFormat::Lp, output),
        KeyFormat::Lines | KeyFormat::Hashes => index(global, args, output),
    }
}

/// Builds table files. Until they are complete, nothing has their names.
fn tables(
    global: &Global,
    args: &BuildTableArgs,
    format: FileFormat,
    output: &mut Output,
) -> Result<()> {
    let started = Instant::now();
    let memory_bytes = global.memory.unwrap_or(silica::DEFAULT_MEMORY_BYTES);
    let mut files = TableFiles::create_with(&args.out, memory_bytes, args.file_bytes)?;
    let mut bar = Bar::new(output);
    let mut count = 0u64;
    let records = each_entry(&args.input, format, |entry, (done, all)| {
        count += 1;
        if count.is_multiple_of(REPORT_EVERY) {
            bar.show("reading", done, all);
        }
        if entry.expires_unix_ms != 0 || entry.user_bits != 0 {
            let message = "tables have keys and values alone; `silica import` takes expiry and \
                           user bits";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        files.put(&entry.key, &entry.value)
    })?;
    let (paths, entries) = files.finish_with(|done, all| bar.show("merging", done, all))?;
    let seconds = started.elapsed().as_secs_f64();
    let sizes = paths.iter().map(|path| std::fs::metadata(path).map(|file| file.len()));
    let sizes: std::io::Result<Vec<u64>> = sizes.collect();
    let bytes: u64 = sizes.map_err(|e| failed("reading", &args.out, e))?.iter().sum();
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let rate = records as f64 / seconds;
    output.line(format!(
        "made tables of {entries} entries from {records} records in {seconds:.2} s ({rate:.0} \
         records/s): {bytes} bytes, in {}",
        if names.is_empty() { "no file".to_string() } else { names.join(" ") }
    ))?;
    let object = output.object();
    object.insert("records".into(), records.into());
    object.insert("entries".into(), entries.into());
    object.insert("files".into(), names.into());
    object.insert("file_bytes".into(), bytes.into());
    object.insert("seconds".into(), seconds.into());
    Ok(())
}

/// Builds the index.
fn index(global: &Global, args: &BuildTableArgs, output: &mut Output) -> Result<()> {
    let started = Instant::now();
    let spill = SpillDirectory::beside(&args.out);
    let device = FileDevice::open(&spill.0, DeviceOptions::default())?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let memory_bytes = global.memory.unwrap_or(silica::DEFAULT_MEMORY_BYTES) as usize;
    let workers = if args.threads == 0 { cores } else { args.threads };
    let options = Options { memory_bytes, workers, ..Options::default() };
    let mut watch = watcher(output);
    let mut sorter = Sorter::<RECORD_BYTES, _>::new(&device, options, &on_threads)?;
    each_hash(&args.input, args.format, &mut |record| sorter.push(record, &mut watch))?;
    let keys = sorter.len();
    let mut sorted = sorter.finish(&mut watch)?;
    let mut copy = args.sorted.as_deref().map(create).transpose()?;
    let index = build(args, &mut sorted, &mut copy, &mut watch)?;
    if let (Some(copy), Some(path)) = (copy, &args.sorted) {
        finish(copy, path)?;
    }
    let mut file = create(&args.out)?;
    file.write_all(&index.encoded).map_err(|e| failed("writing", &args.out, e))?;
    finish(file, &args.out)?;
    report(args, keys, &index, started.elapsed().as_secs_f64(), output)
}

/// A finished index.
struct Index {
    encoded: Vec<u8>,
    /// Memory that it takes when it is used.
    bytes: usize,
}

fn build(
    args: &BuildTableArgs,
    sorted: &mut Sorted<'_, RECORD_BYTES, FileDevice>,
    copy: &mut Option<BufWriter<File>>,
    watch: &mut dyn FnMut(Progress),
) -> Result<Index> {
    let params = EctParams { group: args.group, hmax: args.hmax };
    let mut keep = |record: &[u8]| match copy {
        Some(file) => file.write_all(record).map_err(|e| Error::io("writing the sorted hashes", e)),
        None => Ok(()),
    };
    let upper = |record: &[u8; RECORD_BYTES]| (u128::from_le_bytes(*record) >> 64) as u64;
    let mut encoded = Vec::new();
    let Some(per_chunk) = args.per_chunk else {
        let mut builder = DenseBuilder::new(params, sorted.len());
        sorted.for_each(watch, |record| {
            builder.push(upper(record));
            keep(record)
        })?;
        let index = builder.finish();
        index.encode(&mut encoded);
        return Ok(Index { encoded, bytes: index.bytes() });
    };
    let mut builder = SparseBuilder::new(params, sorted.len().div_ceil(per_chunk));
    let (mut rank, mut last) = (0u64, 0);
    sorted.for_each(watch, |record| {
        let key = upper(record);
        if rank > 0 && rank.is_multiple_of(per_chunk) {
            builder.push_boundary(last, key);
        }
        (rank, last) = (rank + 1, key);
        keep(record)
    })?;
    let index = builder.finish();
    index.encode(&mut encoded);
    Ok(Index { encoded, bytes: index.bytes() })
}

fn report(
    args: &BuildTableArgs,
    keys: u64,
    index: &Index,
    seconds: f64,
    output: &mut Output,
) -> Result<()> {
    let bits = index.bytes as f64 * 8.0 / keys.max(1) as f64;
    let rate = keys as f64 / seconds;
    output.line(format!(
        "indexed {keys} keys in {seconds:.2} s ({rate:.0} keys/s): {bits:.3} bits per key, in {}",
        args.out.display()
    ))?;
    let object = output.object();
    object.insert("keys".into(), keys.into());
    object.insert("bits_per_key".into(), bits.into());
    object.insert("index_bytes".into(), index.bytes.into());
    object.insert("file_bytes".into(), index.encoded.len().into());
    object.insert("seconds".into(), seconds.into());
    object.insert("keys_per_second".into(), rate.into());
    Ok(())
}

/// Hands every hash of the input to `take`.
fn each_hash(
    path: &Path,
    format: KeyFormat,
    take: &mut dyn FnMut(&[u8; RECORD_BYTES]) -> Result<()>,
) -> Result<()> {
    let file = File::open(path).map_err(|e| failed("reading", path, e))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    match format {
        KeyFormat::Tsv | KeyFormat::Plain | KeyFormat::Lp => {
            unreachable!("tables are made of records")
        }
        KeyFormat::Hashes => {
            let mut record = [0; RECORD_BYTES];
            while fill(&mut reader, &mut record).map_err(|e| failed("reading", path, e))? {
                take(&record)?;
            }
        }
        KeyFormat::Lines => {
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).map_err(|e| failed("reading", path, e))? > 0 {
                let key = line.strip_suffix(b"\n").unwrap_or(&line);
                take(&SEED.hash(key).0.to_le_bytes())?;
                line.clear();
            }
        }
    }
    Ok(())
}

/// Fills `record`; false at the end of the input, an error inside a record.
fn fill(reader: &mut impl Read, record: &mut [u8; RECORD_BYTES]) -> std::io::Result<bool> {
    let mut filled = 0;
    while filled < RECORD_BYTES {
        match reader.read(&mut record[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => {
                let message = "the last hash is cut short; hashes have 16 bytes each";
                return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, message));
            }
            n => filled += n,
        }
    }
    Ok(true)
}

/// One thread for each job.
fn on_threads(jobs: Jobs<'_>) {
    std::thread::scope(|scope| {
        for job in jobs {
            scope.spawn(job);
        }
    });
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    silica::refuse_within_store(path, "the index")?;
    File::create(path).map(BufWriter::new).map_err(|e| failed("creating", path, e))
}

fn finish(file: BufWriter<File>, path: &Path) -> Result<()> {
    let synced = file.into_inner().map_err(|e| e.into_error()).and_then(|f| f.sync_all());
    synced.map_err(|e| failed("writing", path, e))
}

fn failed(what: &str, path: &Path, e: std::io::Error) -> Error {
    if e.kind() == std::io::ErrorKind::UnexpectedEof {
        return Error::new(ErrorKind::Config, format!("{}: {e}", path.display()));
    }
    Error::io(format!("{what} {}", path.display()), e)
}

/// Where runs go that do not fit in memory; it goes when the build ends.
struct SpillDirectory(PathBuf);

impl SpillDirectory {
    fn beside(out: &Path) -> Self {
        let mut name = out.file_name().unwrap_or_default().to_os_string();
        name.push(".spill");
        SpillDirectory(out.with_file_name(name))
    }
}

impl Drop for SpillDirectory {
    fn drop(&mut self) {
        // Nothing in it is of use any more; one that stays is only untidy.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A bar per phase on a terminal, nothing elsewhere.
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    phase: &'static str,
}

impl Bar {
    pub(crate) fn new(output: &Output) -> Self {
        let bar = (has_terminal() && !output.is_json()).then(|| {
            let style = ProgressStyle::with_template(
                "{msg:>8} {bar:40} {human_pos}/{human_len}, {eta} left",
            );
            ProgressBar::new(0).with_style(style.expect("the template is well formed"))
        });
        Bar { bar, phase: "" }
    }

    pub(crate) fn show(&mut self, phase: &'static str, done: u64, all: u64) {
        let Some(bar) = &self.bar else { return };
        if self.phase != phase {
            self.phase = phase;
            bar.reset();
            bar.set_message(phase);
        }
        bar.set_length(all);
        bar.set_position(done);
    }
}

fn watcher(output: &Output) -> impl FnMut(Progress) + use<> {
    let mut bar = Bar::new(output);
    move |progress| {
        let phase = match progress.phase {
            Phase::Sorting => "sorting",
            Phase::Merging => "merging",
            Phase::Output => "indexing",
        };
        bar.show(phase, progress.done, progress.total);
    }
}
