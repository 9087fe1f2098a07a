//! How many entries expire, by a sample: nobody counts them.

use super::Keyspace;
use super::whole::PAGES_END;
use crate::database_set::metric_of;
use silica::engine::{Engine, EntryRef, KeyRange, Near, Ordered, Result};
use silica_types::is_inner;
use std::sync::Arc;

/// Entries that are looked at; of a store that has no more, all.
const SAMPLE: usize = 32;
/// Bytes of an index that may be gone through for that.
const WALK_BYTES_MAX: f64 = (8 << 20) as f64;

/// What a sample says of the entries that expire.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Expiring {
    /// Their part of all entries.
    pub(crate) share: f64,
    /// Milliseconds that they have to live on average.
    pub(crate) ttl_ms: u64,
}

/// The sum of a sample.
#[derive(Default)]
struct Sum {
    now_ms: u64,
    seen: u64,
    expiring: u64,
    ttl_ms: u64,
}

impl Sum {
    fn add(&mut self, entry: EntryRef<'_>) {
        self.seen += 1;
        if entry.expires_unix_ms != 0 {
            self.expiring += 1;
            self.ttl_ms += entry.expires_unix_ms.saturating_sub(self.now_ms);
        }
    }

    fn result(&self) -> Expiring {
        let share = self.expiring as f64 / self.seen.max(1) as f64;
        Expiring { share, ttl_ms: self.ttl_ms.checked_div(self.expiring).unwrap_or(0) }
    }
}

/// Looks at some entries of a database, `whole`, that has about `entries` of them.
pub(crate) fn sample(
    keys: &Keyspace<'_>,
    whole: Option<&Arc<dyn Engine>>,
    entries: u64,
) -> Result<Expiring> {
    let mut sum = Sum { now_ms: keys.service.unix_ms(), ..Sum::default() };
    let is_small = entries <= SAMPLE as u64;
    match whole.and_then(|engine| Arc::clone(engine).as_ordered()) {
        Some(ordered) => sum_in_order(keys, ordered, is_small, &mut sum)?,
        None if is_sparse(keys.engine, entries) => {}
        None => sum_by_position(keys, is_small, &mut sum)?,
    }
    Ok(sum.result())
}

/// True if an engine whose entries lie in an index in memory has so few that looking for some of
/// them means going through much of that. Then none counts as expiring.
fn is_sparse(engine: &dyn Engine, entries: u64) -> bool {
    let index_bytes = metric_of(engine, "index_bytes").unwrap_or(0);
    let part = (SAMPLE as f64 / entries.max(1) as f64).min(1.0);
    index_bytes as f64 * part > WALK_BYTES_MAX
}

fn sum_by_position(keys: &Keyspace<'_>, is_small: bool, sum: &mut Sum) -> Result<()> {
    let Some(engine) = keys.engine.as_scan() else { return Ok(()) };
    // Entries lie in no order that has to do with their expiry. Behind the last comes the first.
    let random = keys.service.random() >> 1;
    for start in if is_small { [None, Some(0)] } else { [Some(random), Some(0)] } {
        let mut next = start;
        while let Some(cursor) = next
            && sum.seen < SAMPLE as u64
        {
            next = engine.scan(cursor, SAMPLE, &mut |key, entry| {
                if !is_inner(key) {
                    sum.add(entry);
                }
            })?;
        }
    }
    Ok(())
}

fn sum_in_order(
    keys: &Keyspace<'_>,
    ordered: Arc<dyn Ordered>,
    is_small: bool,
    sum: &mut Sum,
) -> Result<()> {
    let mut iterator = Arc::clone(&ordered).snapshot()?.iterate(&KeyRange::ALL)?;
    let mut is_there = is_small && iterator.seek_to_first()?;
    while is_there && sum.seen < SAMPLE as u64 {
        if is_inner(iterator.key()) {
            is_there = iterator.seek(&PAGES_END)?;
            continue;
        }
        sum.add(iterator.entry());
        is_there = iterator.next()?;
    }
    for _ in 0..if is_small { 0 } else { SAMPLE } {
        let Some(Near { key, .. }) = ordered.near(keys.service.random()) else { break };
        let is_there = iterator.seek(&key)? || iterator.seek_to_first()?;
        if is_there && !is_inner(iterator.key()) {
            sum.add(iterator.entry());
        }
    }
    Ok(())
}
