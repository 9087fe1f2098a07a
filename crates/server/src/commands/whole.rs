//! Commands on the store as a whole.

use super::{Keyspace, NOT_INTEGER, SYNTAX, error_text, info as sections};
use crate::burst::Args;
use crate::glob;
use silica::engine::{Admin, Error, ErrorKind, Result, Scan};
use silica_proto::{Reply, append_u64, parse_i64};

/// Entries that one SCAN visits at most, whatever COUNT says.
const SCAN_COUNT_MAX: usize = 10_000;
/// Entries that a walk visits in one engine call.
const STEP: usize = 1024;
/// Bytes of keys after which SCAN returns early, and which KEYS may return.
const SCAN_BYTES_MAX: usize = 1 << 20;
const KEYS_BYTES_MAX: usize = 64 << 20;

impl Keyspace<'_> {
    fn scan(&self) -> Result<&dyn Scan> {
        self.engine.as_scan().ok_or_else(|| self.lacks("iteration"))
    }

    fn admin(&self) -> Result<&dyn Admin> {
        self.engine.as_admin().ok_or_else(|| self.lacks("whole-store operations"))
    }

    fn lacks(&self, what: &str) -> Error {
        let name = self.engine.descriptor().name;
        let message = format!("engine '{name}' has no {what}, which this command needs");
        Error::new(ErrorKind::Unsupported, message)
    }
}

/// Keys one after another in one allocation.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ranges: Vec<(usize, usize)>,
}

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.ranges.push((self.bytes.len(), self.bytes.len() + key.len()));
        self.bytes.extend_from_slice(key);
    }

    fn held_bytes(&self) -> usize {
        self.bytes.len() + self.ranges.len() * size_of::<(usize, usize)>()
    }

    /// Sorts and drops what was visited twice.
    fn dedup(&mut self) {
        let bytes = &self.bytes;
        self.ranges.sort_unstable_by_key(|(start, end)| &bytes[*start..*end]);
        self.ranges.dedup_by_key(|(start, end)| &bytes[*start..*end]);
    }

    fn write(&self, reply: &mut Reply<'_>) {
        reply.array(self.ranges.len());
        self.ranges.iter().for_each(|(start, end)| reply.bulk(&self.bytes[*start..*end]));
    }
}

struct ScanOptions<'a> {
    cursor: u64,
    count: usize,
    pattern: Option<&'a [u8]>,
    /// Only strings exist; another type matches nothing.
    strings: bool,
}

fn scan_options<'a>(args: Args<'a>) -> Result<ScanOptions<'a>, &'static str> {
    let cursor = std::str::from_utf8(args.get(1)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let mut options = ScanOptions { cursor, count: 10, pattern: None, strings: true };
    let mut index = 2;
    while index < args.len() {
        if index + 1 == args.len() {
            return Err(SYNTAX);
        }
        let value = args.get(index + 1);
        if args.is(index, "count") {
            let count = parse_i64(value).ok_or(NOT_INTEGER)?;
            options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(SYNTAX)?;
        } else if args.is(index, "match") {
            options.pattern = Some(value);
        } else if args.is(index, "type") {
            options.strings = value.eq_ignore_ascii_case(b"string");
        } else {
            return Err(SYNTAX);
        }
        index += 2;
    }
    Ok(options)
}

pub(crate) fn scan(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let options = match scan_options(args) {
        Ok(options) => options,
        Err(text) => {
            reply.error(text);
            return Ok(());
        }
    };
    let engine = keys.scan()?;
    let mut left = options.count.min(SCAN_COUNT_MAX);
    let mut next = Some(options.cursor);
    let mut found = Keys::default();
    while let Some(cursor) = next
        && left > 0
        && found.held_bytes() < SCAN_BYTES_MAX
    {
        let step = left.min(STEP);
        left -= step;
        next = engine.scan(cursor, step, &mut |key, _| {
            if options.strings && options.pattern.is_none_or(|p| glob::matches(p, key)) {
                found.push(key);
            }
        })?;
    }
    reply.array(2);
    let mut digits = Vec::with_capacity(20);
    append_u64(&mut digits, next.unwrap_or(0));
    reply.bulk(&digits);
    found.write(reply);
    Ok(())
}

pub(crate) fn keys(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let engine = keys.scan()?;
    let pattern = args.get(1);
    let mut found = Keys::default();
    let mut next = Some(0);
    while let Some(cursor) = next {
        keys.shared.refuse_when_stopping()?;
        next = engine.scan(cursor, STEP, &mut |key, _| {
            if glob::matches(pattern, key) {
                found.push(key);
            }
        })?;
        if found.held_bytes() > KEYS_BYTES_MAX {
            found.dedup();
        }
        if found.held_bytes() > KEYS_BYTES_MAX {
            reply.error("ERR KEYS would return more than 64 MiB; use SCAN");
            return Ok(());
        }
    }
    found.dedup();
    found.write(reply);
    Ok(())
}

pub(crate) fn randomkey(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let engine = keys.scan()?;
    let mut found = Keys::default();
    // From a random place to the end, and where nothing is there from the start.
    for start in [keys.shared.random() >> 1, 0] {
        let mut next = Some(start);
        while let Some(cursor) = next
            && found.ranges.is_empty()
        {
            next = engine.scan(cursor, 8, &mut |key, _| found.push(key))?;
        }
    }
    match found.ranges.len() {
        0 => reply.null(),
        n => {
            let (start, end) = found.ranges[keys.shared.random() as usize % n];
            reply.bulk(&found.bytes[start..end]);
        }
    }
    Ok(())
}

pub(crate) fn dbsize(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.integer(keys.admin()?.count(true)?.estimate as i64);
    Ok(())
}

/// True where the arguments of a FLUSH are fine: nothing, SYNC or ASYNC.
fn flush_args(args: Args<'_>) -> bool {
    args.len() == 1 || (args.len() == 2 && (args.is(1, "sync") || args.is(1, "async")))
}

pub(crate) fn flushdb(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if !flush_args(args) {
        reply.error(SYNTAX);
        return Ok(());
    }
    keys.admin()?.clear()?;
    reply.ok();
    Ok(())
}

pub(crate) fn flushall(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if !flush_args(args) {
        reply.error(SYNTAX);
        return Ok(());
    }
    let store = &keys.shared.store;
    for db in (0..store.count()).filter(|db| store.may_hold(*db)) {
        let engine = store.engine(db)?;
        Keyspace { shared: keys.shared, engine }.admin()?.clear()?;
    }
    reply.ok();
    Ok(())
}

pub(crate) fn info(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    match sections::text(keys, args) {
        Ok(text) => reply.verbatim(text.as_bytes()),
        Err(error) => reply.error(&error_text(&error)),
    }
    Ok(())
}
