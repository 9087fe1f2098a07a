//! `silica scan`: pages in the engine's own order by cursor, or a range where keys are in order.

use crate::args::ScanArgs;
use crate::text;
use serde_json::{Map, Value};
use silica::{Error, ErrorKind, KeyRange, Keyspace, Result};
use silica_console::Output;
use std::ops::Bound;

/// Entries that are fetched, and lines that are printed, at a time.
const SCAN_BATCH: usize = 256;

/// Lists what `args` say.
pub(crate) fn run(args: &ScanArgs, keyspace: &Keyspace, output: &mut Output) -> Result<()> {
    let range = range(args)?;
    let is_ordered = keyspace.engine().descriptor().capabilities.ordered;
    let mut page = Page { args, entries: Vec::new(), lines: String::new(), seen: 0 };
    match range {
        Some(range) => page.range(keyspace, &range, output),
        None if is_ordered && args.cursor == 0 => page.range(keyspace, &KeyRange::ALL, output),
        None => page.cursor(keyspace, output),
    }?;
    output.object().insert("entries".into(), page.entries.into());
    Ok(())
}

/// The range that was asked for, if one was.
pub(crate) fn range(args: &ScanArgs) -> Result<Option<KeyRange>> {
    let parse = |text: &Option<_>| text.as_deref().map(|t| text::parse(t, args.form.hex));
    let (from, to) = (parse(&args.from).transpose()?, parse(&args.to).transpose()?);
    let Some(prefix) = parse(&args.prefix).transpose()? else {
        if from.is_none() && to.is_none() && !args.reverse {
            return Ok(None);
        }
        let lower = from.map_or(Bound::Unbounded, Bound::Included);
        return Ok(Some(KeyRange { lower, upper: to.map_or(Bound::Unbounded, Bound::Excluded) }));
    };
    // The bounds of a page that goes on lie within the prefix.
    let mut range = KeyRange::prefix(&prefix);
    if let Some(from) = from.filter(|from| !range.is_below(from)) {
        range.lower = Bound::Included(from);
    }
    if let Some(to) = to.filter(|to| !range.is_above(to)) {
        range.upper = Bound::Excluded(to);
    }
    Ok(Some(range))
}

struct Page<'a> {
    args: &'a ScanArgs,
    entries: Vec<Value>,
    lines: String,
    seen: usize,
}

impl Page<'_> {
    fn is_full(&self) -> bool {
        self.args.limit != 0 && self.seen >= self.args.limit
    }

    fn show(&mut self, key: &[u8], value: &[u8], is_json: bool) {
        self.seen += 1;
        if is_json {
            self.entries.push(self.object(key, value));
        } else {
            self.line(key, value);
        }
    }

    fn flush(&mut self, output: &mut Output) -> Result<()> {
        let lines = std::mem::take(&mut self.lines);
        if lines.is_empty() { Ok(()) } else { output.raw(lines.as_bytes()) }
    }

    /// In the order of the keys, or against it.
    fn range(&mut self, keyspace: &Keyspace, range: &KeyRange, output: &mut Output) -> Result<()> {
        let reverse = self.args.reverse;
        let mut iterator = keyspace.iterator(range)?;
        if reverse {
            iterator.seek_to_last()?
        } else {
            iterator.seek_to_first()?
        };
        let mut last = Vec::new();
        while let (Some(key), Some(value)) = (iterator.key(), iterator.value())
            && !self.is_full()
        {
            self.show(key, value, output.is_json());
            if reverse && self.is_full() {
                last = key.to_vec();
            }
            if self.seen.is_multiple_of(SCAN_BATCH) {
                self.flush(output)?;
            }
            if reverse {
                iterator.prev()?
            } else {
                iterator.next()?
            };
        }
        self.flush(output)?;
        // The key to begin with next time, or the one to end before.
        let next = iterator.key().map(|key| if reverse { last } else { key.to_vec() });
        let (flag, name) = if reverse { ("--to", "next_to") } else { ("--from", "next_from") };
        match next {
            Some(key) => {
                let shown = text::show(&key, self.args.form.hex);
                self.tell(output, &format!("{flag} '{shown}'"));
                text::insert_bytes(output.object(), name, &key, self.args.form.hex);
            }
            None => drop(output.object().insert(name.into(), Value::Null)),
        }
        Ok(())
    }

    /// In the engine's own order.
    fn cursor(&mut self, keyspace: &Keyspace, output: &mut Output) -> Result<()> {
        let unsupported = || {
            let message = "this engine has no cursors; leave --cursor out, or use --from";
            Error::new(ErrorKind::Unsupported, message)
        };
        let scan = keyspace.engine().as_scan().ok_or_else(unsupported)?;
        let mut next = Some(self.args.cursor);
        while let Some(cursor) = next
            && !self.is_full()
        {
            let left = if self.args.limit == 0 { SCAN_BATCH } else { self.args.limit - self.seen };
            let is_json = output.is_json();
            next = scan.scan(cursor, left.min(SCAN_BATCH), &mut |key, entry| {
                self.show(key, entry.value, is_json);
            })?;
            self.flush(output)?;
        }
        if let Some(cursor) = next {
            self.tell(output, &format!("--cursor {cursor}"));
        }
        output.object().insert("cursor".into(), next.into());
        Ok(())
    }

    fn tell(&self, output: &Output, flag: &str) {
        if !output.is_json() {
            eprintln!("silica: there is more; go on with {flag}, or --limit 0 for all");
        }
    }

    fn line(&mut self, key: &[u8], value: &[u8]) {
        let hex = self.args.form.hex;
        self.lines.push_str(&text::show(key, hex));
        if !self.args.keys_only {
            self.lines.push('\t');
            self.lines.push_str(&text::show(value, hex));
        }
        self.lines.push('\n');
    }

    fn object(&self, key: &[u8], value: &[u8]) -> Value {
        let mut entry = Map::new();
        text::insert_bytes(&mut entry, "key", key, self.args.form.hex);
        if !self.args.keys_only {
            text::insert_bytes(&mut entry, "value", value, self.args.form.hex);
        }
        Value::Object(entry)
    }
}
