//! `silica load` and `silica import`: a file of records into a keyspace, resumable.
//!
//! Every so many bytes what was loaded is synced, and only then the position is remembered (in
//! the store, beside its catalog). After an interruption the load goes on there; the records
//! behind it are put a second time, with the same values. Some keys are remembered too: where most
//! of them are gone, the keyspace was cleared, and the load begins at the start.

use crate::args::LoadArgs;
use crate::records::{Decoder, Entry, FileFormat, Parsed, RECORD_BYTES_MAX};
use crate::session::Session;
use crate::targets::Targets;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use silica::{Durability, EntryRef, Error, ErrorKind, Keyspace, Result, WriteBatch};
use silica_base::HashSeed;
use silica_console::{Global, Output, has_terminal};
use silica_types::is_inner;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Records and bytes of one batch, at most; a single larger record is a batch of its own.
const BATCH_RECORDS: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;
/// Bytes asked of the file at a time.
const READ_BYTES: usize = 4 << 20;
/// Keys remembered with the position, and the longest one worth remembering.
const SAMPLES_MAX: usize = 16;
const SAMPLE_BYTES_MAX: usize = 1 << 10;
/// Time between two log lines where there is no terminal.
const LOG_PERIOD: Duration = Duration::from_secs(5);

/// What is to be loaded, and how.
pub(crate) struct Plan<'a> {
    pub(crate) file: &'a Path,
    pub(crate) format: FileFormat,
    /// Go on where an earlier load of the file stood.
    pub(crate) resume: bool,
    pub(crate) sync_every: u64,
    /// The numbered database whose entries are taken, if not all.
    pub(crate) database: Option<u64>,
    /// What is done, in the past: `loaded`.
    pub(crate) done: &'static str,
}

/// Loads the file.
pub(crate) fn run(global: &Global, args: &LoadArgs, output: &mut Output) -> Result<()> {
    let plan = Plan {
        file: &args.file,
        format: args.format,
        resume: !args.restart,
        sync_every: args.sync_every,
        database: None,
        done: "loaded",
    };
    run_plan(global, &plan, output)
}

/// Loads what `plan` says.
pub(crate) fn run_plan(global: &Global, plan: &Plan<'_>, output: &mut Output) -> Result<()> {
    let source = Source::open(plan.file)?;
    if Decoder::new(plan.format).has_end() && source.path.is_some() {
        // Nothing is written of a file that is damaged.
        each_entry(plan.file, plan.format, |_, _| Ok(()))?;
    }
    let session = Session::open_to_write(global)?;
    let mut load = Load::new(&session, plan, source)?;
    load.resume(session.keyspace()?, plan.resume)?;
    let mut targets = Targets::new(&session, global, plan.database);
    load.run(&mut targets)?;
    load.report(plan.done, output)?;
    drop(targets);
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

/// Records that are read one after the other.
struct Input {
    source: Source,
    format: FileFormat,
    decoder: Decoder,
    /// Bytes read and not yet taken: `buffer[at..]`.
    buffer: Vec<u8>,
    at: usize,
    at_end: bool,
    /// Its own mark of the end was read.
    is_over: bool,
    /// Position in the file of `buffer[at]`.
    offset: u64,
}

impl Input {
    fn new(source: Source, format: FileFormat) -> Self {
        Input {
            source,
            format,
            decoder: Decoder::new(format),
            buffer: Vec::new(),
            at: 0,
            at_end: false,
            is_over: false,
            offset: 0,
        }
    }

    /// Everything was taken.
    fn is_done(&self) -> bool {
        self.is_over || (self.at_end && self.at == self.buffer.len() && !self.decoder.has_end())
    }

    fn take(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }

    /// Passes over what stands before `offset`, for a format that needs to have seen it.
    fn advance_to(&mut self, offset: u64) -> Result<()> {
        while self.offset < offset {
            let taken = match self.decoder.next(&self.buffer[self.at..], self.at_end) {
                Parsed::Entry(_, taken)
                | Parsed::Entries(_, taken)
                | Parsed::Nothing(taken)
                | Parsed::Other(_, taken) => taken,
                Parsed::Cut if !self.at_end => {
                    self.read_more(0)?;
                    continue;
                }
                // Who goes on from here says what is wrong.
                _ => return Ok(()),
            };
            self.take(taken);
        }
        Ok(())
    }

    /// What is wrong with record `number`, which begins at `at` of the buffer.
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

/// Why a file that ends too early is refused.
const CUT: &str = "the file is cut short: it ends within a record, or before its end";

/// Hands every entry of a file to `take`, and how many bytes of the file are done and there are in
/// all. Returns how many entries there are.
pub(crate) fn each_entry(
    path: &Path,
    format: FileFormat,
    mut take: impl FnMut(&Entry<'_>, (u64, u64)) -> Result<()>,
) -> Result<u64> {
    let mut input = Input::new(Source::open(path)?, format);
    let mut entries = 0;
    while !input.is_done() {
        let bytes = match input.decoder.next(&input.buffer[input.at..], input.at_end) {
            Parsed::Entry(entry, bytes) => {
                let done = (input.offset, input.source.bytes);
                take(&entry, done).map_err(|e| {
                    let name = &input.source.name;
                    e.within(format_args!("{name} at byte {}", input.offset))
                })?;
                entries += 1;
                bytes
            }
            Parsed::Entries(list, bytes) => {
                let done = (input.offset, input.source.bytes);
                list.iter().try_for_each(|entry| take(entry, done))?;
                entries += 1;
                bytes
            }
            Parsed::Nothing(bytes) | Parsed::Other(_, bytes) => bytes,
            Parsed::End(bytes) => {
                input.is_over = true;
                bytes
            }
            Parsed::Bad(why) => return Err(input.bad_record(input.at, entries + 1, &why)),
            Parsed::Cut if input.at_end => {
                return Err(input.bad_record(input.at, entries + 1, CUT));
            }
            Parsed::Cut => {
                input.read_more(entries + 1)?;
                continue;
            }
        };
        input.take(bytes);
    }
    Ok(entries)
}

/// What was met in a file and not put.
#[derive(Default)]
struct Left {
    /// Had expired.
    expired: u64,
    /// Are of databases that were not asked for.
    elsewhere: u64,
    /// Are of types that are not stored, by these.
    others: BTreeMap<&'static str, u64>,
}

struct Load {
    input: Input,
    sync_every: u64,
    /// Where the position is remembered.
    progress_path: Option<PathBuf>,
    keyspace: String,
    records: u64,
    /// Pages of objects that are lines of their own, which are no records.
    pages: u64,
    resumed_at: u64,
    records_before: u64,
    pages_before: u64,
    left: Left,
    samples: Samples,
    started: Instant,
    progress: Progress,
}

impl Load {
    fn new(session: &Session, plan: &Plan<'_>, source: Source) -> Result<Self> {
        let progress_path = source.path.as_ref().map(|path| {
            let hash = HashSeed([0; 16]).hash(path.as_os_str().as_bytes()).high();
            session.store.path().join(format!("load-{hash:016x}"))
        });
        Ok(Load {
            progress: Progress::new(source.bytes),
            input: Input::new(source, plan.format),
            sync_every: plan.sync_every.max(1),
            progress_path,
            keyspace: session.keyspace()?.name().to_string(),
            records: 0,
            pages: 0,
            resumed_at: 0,
            records_before: 0,
            pages_before: 0,
            left: Left::default(),
            samples: Samples::default(),
            started: Instant::now(),
        })
    }

    /// What is remembered: the input's identity, and the position.
    fn position(&self) -> Option<Value> {
        let mut position = self.input.source.identity.clone()?;
        position["format"] = self.input.format.name().into();
        position["keyspace"] = self.keyspace.as_str().into();
        position["offset"] = self.input.offset.into();
        position["samples"] = self.samples.keys.iter().map(|key| hex(key)).collect();
        position["records"] = (self.records_before + self.records).into();
        position["pages"] = (self.pages_before + self.pages).into();
        Some(position)
    }

    /// Goes to where an earlier load of the same file stood.
    fn resume(&mut self, keyspace: &Keyspace, wanted: bool) -> Result<()> {
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
        if !wanted || !same || offset > self.input.source.bytes {
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
        if self.input.decoder.needs_start() {
            self.input.advance_to(offset)?;
        } else {
            self.input.source.skip_to(offset)?;
            self.input.offset = offset;
        }
        (self.resumed_at, self.records_before) = (offset, records);
        self.pages_before = remembered["pages"].as_u64().unwrap_or(0);
        eprintln!(
            "silica: going on at byte {offset} of {}, after {records} records (--restart begins \
             at the start)",
            self.input.source.name
        );
        Ok(())
    }

    fn run(&mut self, targets: &mut Targets<'_>) -> Result<()> {
        let mut synced = self.input.offset;
        while self.put_batch(targets)? {
            if self.input.offset - synced >= self.sync_every {
                targets.sync()?;
                self.remember()?;
                synced = self.input.offset;
            }
            self.progress.show(self.input.offset, self.records, self.started);
        }
        targets.sync()?;
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
    fn put_batch(&mut self, targets: &mut Targets<'_>) -> Result<bool> {
        let now_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        let next_number = self.next_number();
        let Input { decoder, buffer, at: start, at_end, is_over, .. } = &mut self.input;
        let (start, at_end) = (*start, *at_end);
        let (mut at, mut entries) = (start, Vec::<Entry<'_>>::new());
        let mut bad = None;
        while entries.len() < BATCH_RECORDS && at - start < BATCH_BYTES && at < buffer.len() {
            match decoder.next(&buffer[at..], at_end) {
                Parsed::Entry(entry, bytes) => {
                    at += bytes;
                    let is_live = entry.is_live(now_ms);
                    self.pages += u64::from(is_inner(&entry.key));
                    entries.extend(is_live.then_some(entry));
                    self.left.expired += u64::from(!is_live);
                }
                Parsed::Entries(list, bytes) => {
                    at += bytes;
                    let is_live = list.last().is_some_and(|entry| entry.is_live(now_ms));
                    entries.extend(list.into_iter().filter(|_| is_live));
                    self.left.expired += u64::from(!is_live);
                }
                Parsed::Nothing(bytes) => at += bytes,
                Parsed::Other(name, bytes) => {
                    *self.left.others.entry(name).or_default() += 1;
                    at += bytes;
                }
                Parsed::End(bytes) => {
                    *is_over = true;
                    at += bytes;
                    break;
                }
                Parsed::Cut => break,
                // What stands before it is put first.
                Parsed::Bad(_) if at > start => break,
                Parsed::Bad(why) => {
                    bad = Some(why);
                    break;
                }
            }
        }
        let mut put = Ok(0);
        for group in entries.chunk_by(|one, other| one.database == other.database) {
            put = put.and_then(|sum| Ok(sum + put_all(targets, group, &mut self.left)?));
        }
        if let Some(entry) = entries.last() {
            self.samples.offer(&entry.key);
        }
        drop(entries);
        let within = |e: Error| e.within(format_args!("at byte {}", self.input.offset));
        self.records += put.map_err(within)?;
        if let Some(why) = bad {
            return Err(self.input.bad_record(at, next_number, &why));
        }
        if at > start {
            self.input.take(at - start);
            return Ok(!self.input.is_done());
        }
        if !self.input.at_end {
            self.input.read_more(next_number)?;
            return Ok(true);
        }
        match self.input.is_done() {
            true => Ok(false),
            false => Err(self.input.bad_record(at, next_number, CUT)),
        }
    }

    /// The number in the file of the record that comes next.
    fn next_number(&self) -> u64 {
        self.records_before + self.records + self.pages_before + self.pages + 1
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

    fn report(&self, done: &str, output: &mut Output) -> Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.records as f64 / seconds;
        let bytes = self.input.offset - self.resumed_at;
        output.line(format!(
            "{done} {} records, {bytes} bytes, in {seconds:.2} s: {rate:.0} records/s",
            self.records
        ))?;
        let Left { expired, elsewhere, others } = &self.left;
        if *expired > 0 {
            output.line(format!("left out {expired} entries that have expired"))?;
        }
        if *elsewhere > 0 {
            output.line(format!("left out {elsewhere} entries of other databases"))?;
        }
        for (name, count) in others {
            output.line(format!("left out {count} of type {name}, which Silica does not know"))?;
        }
        let object = output.object();
        object.insert("expired".into(), (*expired).into());
        object.insert("elsewhere".into(), (*elsewhere).into());
        object.insert("left_out".into(), json!(others));
        object.insert("records".into(), self.records.into());
        object.insert("records_total".into(), (self.records_before + self.records).into());
        object.insert("bytes".into(), bytes.into());
        object.insert("seconds".into(), seconds.into());
        object.insert("records_per_second".into(), rate.into());
        object.insert("resumed_at_byte".into(), self.resumed_at.into());
        Ok(())
    }
}

/// How many of `entries` are no pages of objects.
fn records_of(entries: &[Entry<'_>]) -> u64 {
    entries.iter().filter(|entry| !is_inner(&entry.key)).count() as u64
}

/// Puts entries of one database; how many records they are.
fn put_all(targets: &mut Targets<'_>, entries: &[Entry<'_>], left: &mut Left) -> Result<u64> {
    let database = entries.first().map_or(0, |entry| entry.database);
    let Some(keyspace) = targets.of(database)? else {
        left.elsewhere += records_of(entries);
        return Ok(0);
    };
    let mut batch = WriteBatch::new();
    for Entry { key, value, expires_unix_ms, user_bits, .. } in entries {
        let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
        batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits });
    }
    keyspace.write_with(&batch, Durability::Buffered)?;
    Ok(records_of(entries))
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
}
