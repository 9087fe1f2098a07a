//! Merging a bucket's runs into one.

use crate::bucket::{Bucket, Version};
use crate::run::Part;
use crate::wip::Wip;
use silica_base::{Error, Result};
use silica_device::Device;
use silica_parts::frame::TOMBSTONE;
use silica_parts::table::Cursor;
use std::sync::Arc;

/// Bytes that each run is read ahead.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// A run that is being merged.
struct Source<D: Device> {
    /// The parts that are left, the next one last.
    parts: Vec<Part<D>>,
    cursor: Option<Cursor<D::File>>,
}

impl<D: Device> Source<D> {
    fn new(run: &[Part<D>]) -> Result<Self> {
        let mut source = Source { parts: run.to_vec(), cursor: None };
        source.parts.reverse();
        source.enter()?;
        Ok(source)
    }

    /// Goes to the first version of the next part that has one.
    fn enter(&mut self) -> Result<()> {
        self.cursor = None;
        while let Some(part) = self.parts.last() {
            let mut cursor = part.table.table.cursor(READ_AHEAD_BYTES);
            if cursor.seek(&part.lower, u64::MAX)? && part.has(cursor.version().key) {
                self.cursor = Some(cursor);
                return Ok(());
            }
            self.parts.pop();
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        let (Some(cursor), Some(part)) = (&mut self.cursor, self.parts.last()) else {
            return Ok(());
        };
        if !cursor.advance()? || !part.has(cursor.version().key) {
            self.parts.pop();
            self.enter()?;
        }
        Ok(())
    }

    fn key(&self) -> Option<&[u8]> {
        self.cursor.as_ref().map(|cursor| cursor.version().key)
    }
}

impl<D: Device> Wip<D> {
    /// Merges all runs of a bucket into one; the bytes written.
    pub(crate) fn compact(&self, bucket: &Arc<Bucket<D>>) -> Result<u64> {
        let before = bucket.read().version.clone();
        let now_ms = self.clock.unix_ms();
        let mut sources: Vec<Source<D>> =
            before.runs.iter().map(|run| Source::new(run)).collect::<Result<_>>()?;
        let written = self.write_table(1, &mut |builder| {
            let mut last: Option<Vec<u8>> = None;
            loop {
                // Of equal keys the newest run's comes first.
                let with_key =
                    |(at, source): (usize, &Source<D>)| Some((source.key()?.to_vec(), at));
                let Some((key, at)) = sources.iter().enumerate().filter_map(with_key).min() else {
                    return Ok(());
                };
                let is_newest = last.as_ref() != Some(&key);
                if is_newest {
                    let cursor = sources[at].cursor.as_ref().expect("it has a key");
                    let mut version = cursor.version();
                    let has_expired =
                        version.expires_unix_ms != 0 && version.expires_unix_ms <= now_ms;
                    if version.flags & TOMBSTONE == 0 && !has_expired {
                        version.sequence = 0;
                        builder.add(&version)?;
                    }
                    last = Some(key);
                }
                sources[at].advance()?;
            }
        })?;
        let (run, bytes) = match written {
            Some((table, bytes)) => {
                (vec![vec![Part { table, lower: Vec::new(), upper: None }]], bytes)
            }
            None => (Vec::new(), 0),
        };
        self.install(bucket, Version { runs: run, floor: before.floor }, |_| ())?;
        Ok(bytes)
    }

    /// Every version of every table of a bucket checks and is in order, and every position of its
    /// memtables is of an entry that belongs here.
    pub(crate) fn verify_bucket(&self, bucket: &Bucket<D>) -> Result<()> {
        let version = bucket.read().version.clone();
        for part in version.runs.iter().flatten() {
            let table = &part.table.table;
            let mut cursor = table.cursor(READ_AHEAD_BYTES);
            let mut more = cursor.seek_to_first()?;
            let (mut count, mut last) = (0, None);
            while more {
                let found = cursor.version();
                let here = (found.key.to_vec(), std::cmp::Reverse(found.sequence));
                if last.as_ref().is_some_and(|last| *last >= here) {
                    return Err(Error::corruption(table.name(), 0, "versions are not in order"));
                }
                last = Some(here);
                count += 1;
                more = cursor.advance()?;
            }
            if count != table.footer().versions {
                return Err(Error::corruption(table.name(), 0, "versions are missing"));
            }
        }
        Ok(())
    }
}
