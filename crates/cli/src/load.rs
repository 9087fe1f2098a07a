//! `silica load`: a file of records into a keyspace, resumable.
//!
//! Every so many bytes what was loaded is synced, and only then the position is remembered (in
//! the store, beside its catalog). After an interruption the load goes on there; the records
//! behind it are put a second time, with the same values. Some keys are remembered too: where most
//! of them are gone, the keyspace was cleared, and the load begins at the start.

use crate::args::{FileFormat, Global, LoadArgs};
use crate::output::{Output, has_terminal};
use crate::session::Session;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use silica::{Durability, Error, ErrorKind, Keyspace, Result, WriteBatch};
use silica_base::HashSeed;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Records and bytes of one batch, at most; a single larger record is a batch of its own.
const BATCH_RECORDS: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;
/// Bytes asked of the file at a time.
const READ_BYTES: usize = 4 << 20;
/// A record that does not fit in this has no end.
const RECORD_BYTES_MAX: usize = 1 << 30;
/// Keys remembered with the position, and the longest one worth remembering.
const SAMPLES_MAX: usize = 16;
const SAMPLE_BYTES_MAX: usize = 1 << 10;
const LP_HEADER_BYTES: usize = 8;
/// Time between two log lines where there is no terminal.
const LOG_PERIOD: Duration = Duration::from_secs(5);

/// Loads the file.
pub(crate) fn run(global: &Global, args: &LoadArgs, output: &mut Output) -> Result<()> {
    let source = Source::open(&args.file)?;
    let session = Session::open(global, true)?;
    let mut load = Load::new(&session, args, source)?;
    load.resume(session.keyspace()?, args.restart)?;
    load.run(session.keyspace()?)?;
    load.report(output)?;
    session.close()
}

/// Where records come from.
struct Source {
    name: String,
    reader: Box<dyn Read>,
    /// What tells the file from others and from later versions of itself; `None` for a stream.
    identity: Option<Value>,
    path: Option<PathBuf>,
    bytes: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let reader = Box::new(std::io::stdin().lock());
            let name = "standard input".to_string();
            return Ok(Source { name, reader, identity: None, path: None, bytes: 0 });
        }
        let name = path.display().to_string();
        let failed = |e| Error::io(format!("cannot read {name}; check the path of the file"), e);
        let path = path.canonicalize().map_err(failed)?;
        let file = File::open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Ok(Source {
                name,
                reader: Box::new(file),
                identity: None,
                path: None,
                bytes: 0,
            });
        }
        let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let identity = json!({
            "file": name,
            "file_bytes": metadata.len(),
            "modified_unix_ns": modified.map(|d| d.as_nanos() as u64),
        });
        let bytes = metadata.len();
        Ok(Source {
            name,
            reader: Box::new(file),
            identity: Some(identity),
            path: Some(path),
            bytes,
        })
    }

    fn skip_to(&mut self, offset: u64) -> Result<()> {
        let path = self.path.as_ref().expect("only files are resumed");
        let failed = |e| Error::io(format!("reading {}", self.name), e);
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        self.reader = Box::new(file);
        Ok(())
    }
}

/// A record inside a buffer.
struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
    /// Bytes of the file that it takes.
    bytes: usize,
}

/// What stands at the start of a buffer.
enum Parsed<'a> {
    Record(Record<'a>),
    /// Bytes to skip.
    Nothing(usize),
    /// The rest of it is not in the buffer.
    Cut,
    Bad(&'static str),
}

fn parse(format: FileFormat, bytes: &[u8], at_end: bool) -> Parsed<'_> {
    match format {
        FileFormat::Tsv => parse_tsv(bytes, at_end),
        FileFormat::Lp => parse_lp(bytes),
    }
}

fn parse_tsv(bytes: &[u8], at_end: bool) -> Parsed<'_> {
    let (line, taken) = match bytes.iter().position(|b| *b == b'\n') {
        Some(end) => (&bytes[..end], end + 1),
        None if at_end => (bytes, bytes.len()),
        None => return Parsed::Cut,
    };
    if line.is_empty() {
        return Parsed::Nothing(taken);
    }
    match line.iter().position(|b| *b == b'\t') {
        Some(tab) => {
            Parsed::Record(Record { key: &line[..tab], value: &line[tab + 1..], bytes: taken })
        }
        None => {
            Parsed::Bad("the line has no TAB between key and value; binary data needs --format lp")
        }
    }
}

fn parse_lp(bytes: &[u8]) -> Parsed<'_> {
    let Some(header) = bytes.get(..LP_HEADER_BYTES) else { return Parsed::Cut };
    let len =
        |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes")) as usize;
    let key_end = LP_HEADER_BYTES + len(0);
    let end = key_end + len(4);
    if end > RECORD_BYTES_MAX {
        return Parsed::Bad("the record claims more than 1 GiB; is this really --format lp?");
    }
    match bytes.get(..end) {
        Some(all) => {
            let (key, value) = (&all[LP_HEADER_BYTES..key_end], &all[key_end..]);
            Parsed::Record(Record { key, value, bytes: end })
        }
        None => Parsed::Cut,
    }
}

/// Records that are read one after the other.
struct Input {
    source: Source,
    format: FileFormat,
    /// Bytes read and not yet taken: `buffer[at..]`.
    buffer: Vec<u8>,
    at: usize,
    at_end: bool,
    /// Position in the file of `buffer[at]`.
    offset: u64,
}

impl Input {
    fn new(source: Source, format: FileFormat) -> Self {
        Input { source, format, buffer: Vec::new(), at: 0, at_end: false, offset: 0 }
    }

    /// What is wrong with record `number`, at `at` of the buffer.
    fn bad_record(&self, at: usize, number: u64, why: &str) -> Error {
        let position = self.offset + (at - self.at) as u64;
        let name = &self.source.name;
        let message = format!("{name} at byte {position}, record {number}: {why}");
        Error::new(ErrorKind::Config, message)
    }

    fn read_more(&mut self, number: u64) -> Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        if self.buffer.len() >= RECORD_BYTES_MAX {
            return Err(self.bad_record(0, number, "the record has no end within 1 GiB"));
        }
        let old = self.buffer.len();
        let want = READ_BYTES.max(old);
        let read = (&mut self.source.reader)
            .take(want as u64)
            .read_to_end(&mut self.buffer)
            .map_err(|e| Error::io(format!("reading {}", self.source.name), e))?;
        self.at_end = read < want;
        Ok(())
    }
}

/// Hands every record of a file to `take`: its key, its value, and how many bytes of the file are
/// done and there are in all. Returns how many there are.
pub(crate) fn each_record(
    path: &Path,
    format: FileFormat,
    mut take: impl FnMut(&[u8], &[u8], (u64, u64)) -> Result<()>,
) -> Result<u64> {
    let mut input = Input::new(Source::open(path)?, format);
    let mut records = 0;
    loop {
        if input.at_end && input.at == input.buffer.len() {
            return Ok(records);
        }
        let rest = &input.buffer[input.at..];
        let bytes = match parse(format, rest, input.at_end) {
            Parsed::Record(record) => {
                let done = (input.offset, input.source.bytes);
                let taken = take(record.key, record.value, done);
                taken.map_err(|e| {
                    let name = &input.source.name;
                    e.within(format_args!("{name} at byte {}", input.offset))
                })?;
                records += 1;
                record.bytes
            }
            Parsed::Nothing(bytes) => bytes,
            Parsed::Bad(why) => return Err(input.bad_record(input.at, records + 1, why)),
            Parsed::Cut if input.at_end => {
                let why = "the last record is cut short";
                return Err(input.bad_record(input.at, records + 1, why));
            }
            Parsed::Cut => {
                input.read_more(records + 1)?;
                continue;
            }
        };
        input.at += bytes;
        input.offset += bytes as u64;
    }
}

struct Load {
    input: Input,
    sync_every: u64,
    /// Where the position is remembered.
    progress_path: Option<PathBuf>,
    keyspace: String,
    records: u64,
    resumed_at: u64,
    records_before: u64,
    samples: Samples,
    started: Instant,
    progress: Progress,
}

impl Load {
    fn new(session: &Session, args: &LoadArgs, source: Source) -> Result<Self> {
        let progress_path = source.path.as_ref().map(|path| {
            let hash = HashSeed([0; 16]).hash(path.as_os_str().as_bytes()).high();
            session.store.path().join(format!("load-{hash:016x}"))
        });
        Ok(Load {
            progress: Progress::new(source.bytes),
            input: Input::new(source, args.format),
            sync_every: args.sync_every.max(1),
            progress_path,
            keyspace: session.keyspace()?.name().to_string(),
            records: 0,
            resumed_at: 0,
            records_before: 0,
            samples: Samples::default(),
            started: Instant::now(),
        })
    }

    /// What is remembered: the input's identity, and the position.
    fn position(&self) -> Option<Value> {
        let mut position = self.input.source.identity.clone()?;
        position["format"] = if self.input.format == FileFormat::Tsv { "tsv" } else { "lp" }.into();
        position["keyspace"] = self.keyspace.as_str().into();
        position["offset"] = self.input.offset.into();
        position["samples"] = self.samples.keys.iter().map(|key| hex(key)).collect();
        position["records"] = (self.records_before + self.records).into();
        Some(position)
    }

    /// Goes to where an earlier load of the same file stood.
    fn resume(&mut self, keyspace: &Keyspace, restart: bool) -> Result<()> {
        let Some(path) = &self.progress_path else { return Ok(()) };
        let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
        let remembered: Value = serde_json::from_str(&text).unwrap_or_default();
        let now = self.position().unwrap_or_default();
        let same = ["file_bytes", "modified_unix_ns", "format", "keyspace"]
            .iter()
            .all(|field| remembered[*field] == now[*field] && !now[*field].is_null());
        let (Some(offset), Some(records)) =
            (remembered["offset"].as_u64(), remembered["records"].as_u64())
        else {
            return Ok(());
        };
        if restart || !same || offset > self.input.source.bytes {
            return Ok(());
        }
        let samples = Samples::remembered(&remembered["samples"]);
        if !samples.are_there(keyspace)? {
            eprintln!(
                "silica: keyspace '{}' was cleared since it was loaded from {}: beginning at the \
                 start",
                self.keyspace, self.input.source.name
            );
            return Ok(());
        }
        self.samples = samples;
        self.input.source.skip_to(offset)?;
        (self.input.offset, self.resumed_at, self.records_before) = (offset, offset, records);
        eprintln!(
            "silica: going on at byte {offset} of {}, after {records} records (--restart begins \
             at the start)",
            self.input.source.name
        );
        Ok(())
    }

    fn run(&mut self, keyspace: &Keyspace) -> Result<()> {
        let mut synced = self.input.offset;
        while self.put_batch(keyspace)? {
            if self.input.offset - synced >= self.sync_every {
                keyspace.sync()?;
                self.remember()?;
                synced = self.input.offset;
            }
            self.progress.show(self.input.offset, self.records, self.started);
        }
        keyspace.sync()?;
        self.progress.finish();
        if let Some(path) = &self.progress_path
            && path.exists()
        {
            std::fs::remove_file(path)
                .map_err(|e| Error::io(format!("removing {}", path.display()), e))?;
        }
        Ok(())
    }

    /// Puts the next batch; false at the end of the input.
    fn put_batch(&mut self, keyspace: &Keyspace) -> Result<bool> {
        let mut batch = WriteBatch::new();
        let mut at = self.input.at;
        while batch.len() < BATCH_RECORDS
            && at - self.input.at < BATCH_BYTES
            && at < self.input.buffer.len()
        {
            match parse(self.input.format, &self.input.buffer[at..], self.input.at_end) {
                Parsed::Record(record) => {
                    batch.put(record.key, record.value);
                    at += record.bytes;
                }
                Parsed::Nothing(bytes) => at += bytes,
                Parsed::Cut => break,
                // What stands before it is put first.
                Parsed::Bad(_) if !batch.is_empty() => break,
                Parsed::Bad(why) => return Err(self.input.bad_record(at, self.next_number(), why)),
            }
        }
        if at == self.input.at {
            if !self.input.at_end {
                self.input.read_more(self.next_number())?;
                return Ok(true);
            }
            if at < self.input.buffer.len() {
                return Err(self.input.bad_record(
                    at,
                    self.next_number(),
                    "the last record is cut short",
                ));
            }
            return Ok(false);
        }
        if !batch.is_empty() {
            let within = |e: Error| e.within(format_args!("at byte {}", self.input.offset));
            keyspace.write_with(&batch, Durability::Buffered).map_err(within)?;
            self.samples.offer(batch.ops().last().map_or(&[], |op| op.key));
        }
        self.records += batch.len() as u64;
        self.input.offset += (at - self.input.at) as u64;
        self.input.at = at;
        Ok(true)
    }

    /// The number in the file of the record that comes next.
    fn next_number(&self) -> u64 {
        self.records_before + self.records + 1
    }

    /// Writes down the position. What stands before it was synced.
    fn remember(&self) -> Result<()> {
        let (Some(path), Some(position)) = (&self.progress_path, self.position()) else {
            return Ok(());
        };
        let new = path.with_extension("new");
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(position.to_string().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, path)
        };
        write().map_err(|e| Error::io(format!("writing {}", path.display()), e))
    }

    fn report(&self, output: &mut Output) -> Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.records as f64 / seconds;
        let bytes = self.input.offset - self.resumed_at;
        output.line(format!(
            "loaded {} records, {bytes} bytes, in {seconds:.2} s: {rate:.0} records/s",
            self.records
        ))?;
        let object = output.object();
        object.insert("records".into(), self.records.into());
        object.insert("records_total".into(), (self.records_before + self.records).into());
        object.insert("bytes".into(), bytes.into());
        object.insert("seconds".into(), seconds.into());
        object.insert("records_per_second".into(), rate.into());
        object.insert("resumed_at_byte".into(), self.resumed_at.into());
        Ok(())
    }
}

/// Keys that were put, spread over the part of the file that was loaded.
#[derive(Default)]
struct Samples {
    keys: Vec<Vec<u8>>,
    /// One of so many keys offered is kept, as a power of two.
    stride_log2: u32,
    offered: u64,
}

impl Samples {
    fn remembered(samples: &Value) -> Self {
        let keys = samples.as_array().into_iter().flatten();
        let keys = keys.filter_map(|key| unhex(key.as_str()?)).collect();
        Samples { keys, ..Samples::default() }
    }

    fn offer(&mut self, key: &[u8]) {
        self.offered += 1;
        if key.len() > SAMPLE_BYTES_MAX || !self.offered.is_multiple_of(1 << self.stride_log2) {
            return;
        }
        self.keys.push(key.to_vec());
        if self.keys.len() > SAMPLES_MAX {
            let mut index = 0;
            self.keys.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.stride_log2 += 1;
        }
    }

    /// True where most keys are in the keyspace. A few may have been removed one by one.
    fn are_there(&self, keyspace: &Keyspace) -> Result<bool> {
        let mut there = 0;
        for key in &self.keys {
            there += usize::from(keyspace.get(key)?.is_some());
        }
        Ok(2 * there > self.keys.len())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// A bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    bytes: u64,
    logged: Instant,
}

impl Progress {
    fn new(bytes: u64) -> Self {
        let style = "{bar:40} {bytes}/{total_bytes}, {bytes_per_sec}, {msg}, {eta} left";
        let bar = (has_terminal() && bytes > 0).then(|| {
            let style = ProgressStyle::with_template(style).expect("the template is well formed");
            ProgressBar::new(bytes).with_style(style)
        });
        Progress { bar, bytes, logged: Instant::now() }
    }

    fn show(&mut self, offset: u64, records: u64, started: Instant) {
        if let Some(bar) = &self.bar {
            bar.set_position(offset);
            bar.set_message(format!("{records} records"));
        } else if self.logged.elapsed() >= LOG_PERIOD {
            self.logged = Instant::now();
            let rate = records as f64 / started.elapsed().as_secs_f64();
            let share = 100.0 * offset as f64 / self.bytes.max(offset) as f64;
            eprintln!("silica: {records} records, {share:.0} %, {rate:.0} records/s");
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(parsed: Parsed<'_>) -> (Vec<u8>, Vec<u8>, usize) {
        match parsed {
            Parsed::Record(r) => (r.key.to_vec(), r.value.to_vec(), r.bytes),
            _ => panic!("not a record"),
        }
    }

    #[test]
    fn tsv_takes_the_first_tab_and_the_line_without_end() {
        let parsed = record(parse_tsv(b"k\tv\tw\nnext", false));
        assert_eq!(parsed, (b"k".to_vec(), b"v\tw".to_vec(), 6));
        assert!(matches!(parse_tsv(b"k\tv", false), Parsed::Cut));
        assert_eq!(record(parse_tsv(b"k\t", true)), (b"k".to_vec(), vec![], 2));
        assert!(matches!(parse_tsv(b"\nk", false), Parsed::Nothing(1)));
        assert!(matches!(parse_tsv(b"no tab\n", false), Parsed::Bad(_)));
    }

    #[test]
    fn samples_stay_few_and_spread() {
        let mut samples = Samples::default();
        (0..10_000u32).for_each(|n| samples.offer(&n.to_le_bytes()));
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&samples.keys.len()));
        let number = |key: &Vec<u8>| u32::from_le_bytes(key[..].try_into().unwrap());
        assert!(samples.keys.iter().any(|key| number(key) < 2_500));
        assert!(samples.keys.iter().any(|key| number(key) > 7_500));
        let text: Value = samples.keys.iter().map(|key| hex(key)).collect();
        assert_eq!(Samples::remembered(&text).keys, samples.keys);
        assert_eq!(Samples::remembered(&Value::Null).keys.len(), 0);
        assert_eq!(unhex("zz"), None);
    }

    #[test]
    fn lp_is_cut_at_every_length_but_the_last() {
        let mut bytes = vec![1, 0, 0, 0, 3, 0, 0, 0];
        bytes.extend_from_slice(b"kval");
        assert_eq!(record(parse_lp(&bytes)), (b"k".to_vec(), b"val".to_vec(), 12));
        assert!((0..bytes.len()).all(|n| matches!(parse_lp(&bytes[..n]), Parsed::Cut)));
        assert!(matches!(parse_lp(&[0xff; 8]), Parsed::Bad(_)));
    }
}
