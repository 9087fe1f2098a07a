//! Commands that administer the store: jobs, saves, what engines say of themselves, and entries as
//! they are.

use super::{Keyspace, NOT_INTEGER, SYNTAX, wrong_number};
use crate::burst::Args;
use crate::jobs::{self, BackupJob, Job, KINDS};
use silica::engine::{EntryRef, Error, ErrorKind, KeyRange, MetricsMap, Result};
use silica_proto::rdb::{Entry, FileWriter};
use silica_proto::{Reply, parse_i64};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Entries that one reply has at most, and bytes after which it ends.
const ENTRIES_MAX: usize = 10_000;
const ENTRIES_BYTES_MAX: usize = 1 << 20;
/// Entries that an engine without order is asked for at a time.
const STEP: usize = 16;

/// `SILICA.JOB BACKUP DIR [FROM DIR | UPDATE]`, `VERIFY`, `COMPACT`; `STATE KIND`, `CANCEL KIND`.
pub(crate) fn job(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let jobs = &keys.service.databases.jobs;
    let kind = || KINDS.into_iter().find(|kind| args.len() == 3 && args.is(2, kind));
    if args.is(1, "state") || args.is(1, "cancel") {
        let Some(kind) = kind() else {
            reply.error("ERR give one of the kinds backup, verify, compact and save");
            return Ok(());
        };
        if args.is(1, "cancel") {
            reply.integer(jobs.cancel(kind).into());
        } else {
            reply.bulk(jobs.state(kind).as_deref().unwrap_or("none").as_bytes());
        }
        return Ok(());
    }
    let path = |index: usize| PathBuf::from(OsStr::from_bytes(args.get(index)));
    let job = match args.len() {
        3 if args.is(1, "backup") => {
            BackupJob { target: path(2), from: None, update: false }.into()
        }
        4 if args.is(1, "backup") && args.is(3, "update") => {
            BackupJob { target: path(2), from: None, update: true }.into()
        }
        5 if args.is(1, "backup") && args.is(3, "from") => {
            BackupJob { target: path(2), from: Some(path(4)), update: false }.into()
        }
        2 if args.is(1, "verify") => Job::Verify,
        2 if args.is(1, "compact") => Job::Compact,
        _ => {
            reply.error(SYNTAX);
            return Ok(());
        }
    };
    keys.service.databases.start_job(job)?;
    reply.ok();
    Ok(())
}

impl From<BackupJob> for Job {
    fn from(job: BackupJob) -> Self {
        Job::Backup(job)
    }
}

/// `SAVE`: returns when everything that is served survives the process.
pub(crate) fn save(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let databases = &keys.service.databases;
    if databases.jobs.is_running("save") {
        reply.error("ERR Background save already in progress");
        return Ok(());
    }
    let engines = (0..databases.count()).filter_map(|db| databases.opened(db));
    jobs::save(engines, &mut |_| keys.service.refuse_when_stopping())?;
    databases.jobs.note_save(keys.service.unix_ms());
    reply.ok();
    Ok(())
}

/// `BGSAVE [SCHEDULE]`: the same, without waiting for its end.
pub(crate) fn bgsave(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "schedule")) {
        reply.error(SYNTAX);
        return Ok(());
    }
    let databases = &keys.service.databases;
    if databases.jobs.is_running("save") {
        reply.error("ERR Background save already in progress");
        return Ok(());
    }
    let engines: Vec<_> =
        (0..databases.count()).filter_map(|db| databases.whole(db).cloned()).collect();
    let (saves, clock) = (databases.jobs.saves(), silica_base::SystemClock::default());
    databases.jobs.start(&Job::Save, move |tell| {
        let saved = jobs::save(engines.iter().map(|engine| &**engine), tell)?;
        saves.store(silica_base::Clock::unix_ms(&clock), Relaxed);
        Ok(format!("{} databases saved", saved.kept))
    })?;
    reply.simple("Background saving started");
    Ok(())
}

/// `LASTSAVE`: the Unix time of the last save, or of the start.
pub(crate) fn lastsave(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let service = keys.service;
    let at = service.databases.jobs.saved_unix_ms().unwrap_or(service.started_ms);
    reply.integer((at / 1000) as i64);
    Ok(())
}

/// `SILICA.INSPECT`: databases, their engines and structures, for people.
pub(crate) fn inspect(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let (databases, mut text) = (&keys.service.databases, String::new());
    for db in 0..databases.count() {
        let Some(engine) = databases.opened(db) else { continue };
        text += &format!("database {db}\n  engine: {}\n", engine.descriptor().name);
        let structure = engine.as_admin().map(|admin| admin.inspect()).transpose()?;
        structure.iter().flat_map(|text| text.lines()).for_each(|line| {
            text += &format!("  {line}\n");
        });
    }
    reply.bulk(text.as_bytes());
    Ok(())
}

/// `SILICA.STATS`: the engine of the database, and its metrics, a line each.
pub(crate) fn stats(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut metrics = MetricsMap::default();
    keys.engine.metrics(&mut metrics);
    let mut text = format!("engine {}\n", keys.engine.descriptor().name);
    for metric in silica::metrics() {
        if let Some(value) = metrics.0.get(metric.name) {
            text += &format!("{} {value}\n", metric.name);
        }
    }
    reply.bulk(text.as_bytes());
    Ok(())
}

/// `SILICA.COUNT [EXACT]`: at least, about and at most so many entries.
pub(crate) fn count(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let is_exact = args.len() == 2 && args.is(1, "exact");
    if args.len() > 2 || (args.len() == 2 && !is_exact) {
        reply.error(SYNTAX);
        return Ok(());
    }
    let admin = keys.engine.as_admin().ok_or_else(|| lacks(keys, "be counted"))?;
    let count = admin.count(is_exact)?;
    reply.array(3);
    [count.low, count.estimate, count.high].iter().for_each(|n| reply.integer(*n as i64));
    Ok(())
}

fn lacks(keys: &Keyspace<'_>, what: &str) -> Error {
    let message = format!("engine '{}' cannot {what}", keys.engine.descriptor().name);
    Error::new(ErrorKind::Unsupported, message)
}

/// Entries of a reply.
struct Found {
    writer: FileWriter,
    database: u64,
    bytes: Vec<u8>,
}

impl Found {
    fn push(&mut self, key: &[u8], entry: &EntryRef<'_>) {
        let EntryRef { value, expires_unix_ms, user_bits } = *entry;
        let (key, value, database) = (key.into(), value.into(), self.database);
        let entry = Entry { database, key, value, expires_unix_ms, user_bits };
        self.writer.entry(&entry, &mut self.bytes);
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= ENTRIES_BYTES_MAX
    }
}

/// `SILICA.ENTRIES CURSOR [COUNT N]`: the cursor to go on with (8 bytes, little-endian, 0 at the
/// end) and entries with all that belongs to them, as an RDB file, in one string.
pub(crate) fn entries(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let cursor = std::str::from_utf8(args.get(1)).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(cursor) = cursor else {
        reply.error("ERR invalid cursor");
        return Ok(());
    };
    let count = match args.len() {
        2 => Some(1000),
        4 if args.is(2, "count") => parse_i64(args.get(3)).and_then(|n| usize::try_from(n).ok()),
        _ => {
            reply.error(&wrong_number("silica.entries"));
            return Ok(());
        }
    };
    let Some(count) = count.filter(|count| *count > 0) else {
        reply.error(NOT_INTEGER);
        return Ok(());
    };
    let count = count.min(ENTRIES_MAX);
    let mut bytes = vec![0; 8];
    let writer = FileWriter::begin(&mut bytes);
    let mut found = Found { writer, database: keys.db as u64, bytes };
    let ordered = keys.whole.and_then(|engine| Arc::clone(engine).as_ordered());
    let next = match ordered {
        Some(ordered) => {
            let mut range = KeyRange::ALL;
            let cursors = &keys.service.cursors;
            if cursor != 0 {
                range.lower = cursors.lower(cursor);
            }
            let mut iterator = ordered.snapshot()?.iterate(&range)?;
            let (mut is_there, mut left, mut last) = (iterator.seek_to_first()?, count, None);
            while is_there && left > 0 && !found.is_full() {
                found.push(iterator.key(), &iterator.entry());
                left -= 1;
                last = Some(iterator.key().to_vec());
                is_there = iterator.next()?;
            }
            let last: Option<Vec<u8>> = last.filter(|_| is_there);
            last.map_or(0, |key| cursors.after(keys.db, &key))
        }
        None => {
            let scan = keys.engine.as_scan().ok_or_else(|| lacks(keys, "list its entries"))?;
            let (mut next, mut left) = (Some(cursor), count);
            while let Some(at) = next
                && left > 0
                && !found.is_full()
            {
                let step = left.min(STEP);
                left -= step;
                next = scan.scan(at, step, &mut |key, entry| found.push(key, &entry))?;
            }
            next.unwrap_or(0)
        }
    };
    let Found { writer, mut bytes, .. } = found;
    writer.end(&mut bytes);
    bytes[..8].copy_from_slice(&next.to_le_bytes());
    reply.bulk(&bytes);
    Ok(())
}
