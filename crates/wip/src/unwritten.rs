//! Whether what a transaction read is as it was: keys one by one, ranges by what memtables and
//! tables have of them that is younger than the snapshot, and then by the log.
//!
//! 1. A range is searched without a lock, up to a place of the log that was taken first, with the
//!    writer locked: all records before it are in the memtables then.
//! 2. What is written meanwhile is behind that place. Its frames are gone through without a lock
//!    until few are left ([`Quiet::catch_up`]), and the last of them with the writer locked
//!    ([`Quiet::holds`]): so the answer is that of the moment of the commit.
//! 3. If a record behind the place is not in the log any more, nothing is known, and the search
//!    begins anew.

use crate::contents::Contents;
use crate::deleted::{deleted_at, within};
use crate::run_cursor::RunCursor;
use crate::sorted::{Is, Listed, Sorted};
use crate::view::{View, view_at};
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::KeyRange;
use silica_engine::optimistic::{Condition, Seen};
use silica_parts::frame::{Frame, RANGE};
use silica_parts::wal::POSITION_BYTES;

/// Bytes of the log that are left to be gone through with the writer locked.
const LOCKED_BYTES_MAX: u64 = 16 << 10;

/// Bytes that the search of a table reads at once.
const READ_AHEAD_BYTES: usize = 128 << 10;

/// What must still hold of `keys` for none of them to have been written since `position`;
/// `None` where one was already.
pub(crate) fn unwritten_since<'k, D: Device>(
    contents: &Contents<D>,
    position: u64,
    keys: &[&'k [u8]],
) -> Result<Option<Vec<Condition<'k>>>> {
    let mut conditions = Vec::with_capacity(keys.len());
    for key in keys {
        // Taken first: whatever changes the key from here on changes it.
        let seen = contents.seen(key);
        let is_written = match seen {
            Seen::InMemory(newest) => newest >= position,
            // Everything in tables is older.
            Seen::Elsewhere(ceiling) if ceiling <= position => false,
            Seen::Elsewhere(_) => is_in_tables_since(contents, position, key)?,
        };
        if is_written {
            return Ok(None);
        }
        conditions.push(Condition { key, seen });
    }
    Ok(Some(conditions))
}

/// True where a table has a version of `key` that was written since `position`. The snapshot
/// at `position` is held, so that tables tell newer versions from older ones.
fn is_in_tables_since<D: Device>(
    contents: &Contents<D>,
    position: u64,
    key: &[u8],
) -> Result<bool> {
    let version = contents.buckets().of(key).read().version.clone();
    if deleted_at(&version.deleted, key, u64::MAX) >= position {
        return Ok(true);
    }
    let hash = contents.seed.low(key);
    for part in version.parts_with(key, hash) {
        let table = &part.table.table;
        if table.footer().sequence_max < position {
            continue;
        }
        let mut cursor = table.cursor_through(&contents.tables.cache, 0);
        if cursor.seek(key, u64::MAX)? && cursor.version().key == key {
            return Ok(cursor.version().sequence >= position);
        }
    }
    Ok(false)
}

/// Ranges, from a key on and before another one, that nobody had written since a snapshot when the
/// log ended at `until`. Without ranges it holds always.
#[derive(Default)]
pub(crate) struct Quiet {
    ranges: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    until: u64,
}

impl Quiet {
    /// True where it holds always.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, if nobody has written them since `position`, the snapshot of which is held.
    pub(crate) fn since<D: Device>(
        wip: &Wip<D>,
        position: u64,
        ranges: &[KeyRange],
    ) -> Result<Option<Self>> {
        if ranges.is_empty() {
            return Ok(Some(Quiet::default()));
        }
        // Not between the mark of an ingest and its tables. Who has writes wait may ask, too.
        let writer = wip.writer.lock();
        let until = wip.log.end();
        drop(writer);
        let ranges: Vec<_> = ranges.iter().map(KeyRange::half_open).collect();
        if until / POSITION_BYTES > position {
            for (lower, upper) in &ranges {
                if is_range_written(wip.contents(), position, lower, upper.as_deref())? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(Quiet { ranges, until }))
    }

    /// Looks at what was written meanwhile, until few bytes are left; false if that met a range,
    /// or is not known.
    pub(crate) fn catch_up<D: Device>(&mut self, contents: &Contents<D>) -> bool {
        while !self.ranges.is_empty() && contents.log.end() - self.until > LOCKED_BYTES_MAX {
            let end = contents.log.end();
            if !self.holds_until(contents, end) {
                return false;
            }
            self.until = end;
        }
        true
    }

    /// True if nobody has written the ranges by now. With the writer locked, that stays so.
    #[inline]
    pub(crate) fn holds<D: Device>(&self, contents: &Contents<D>) -> bool {
        self.ranges.is_empty() || self.holds_until(contents, contents.log.end())
    }

    fn holds_until<D: Device>(&self, contents: &Contents<D>, end: u64) -> bool {
        let is_met = |frame: &Frame<'_>| self.ranges.iter().any(|range| meets(frame, range));
        contents.log.segments().frames_between(self.until, end, &mut |frame| !is_met(frame))
    }
}

/// True if what a frame of the log writes is in a range.
fn meets(frame: &Frame<'_>, (lower, upper): &(Vec<u8>, Option<Vec<u8>>)) -> bool {
    let is_before_upper = upper.as_ref().is_none_or(|upper| *frame.key < **upper);
    if frame.flags & RANGE == 0 {
        return is_before_upper && **lower <= *frame.key;
    }
    // The mark of an ingest says nothing of what came with it.
    let is_mark = frame.key == frame.value;
    is_mark || is_before_upper && (frame.value.is_empty() || **lower < *frame.value)
}

/// True if anything from `lower` on and before `upper` was written since `position`.
fn is_range_written<D: Device>(
    contents: &Contents<D>,
    position: u64,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<bool> {
    let mut from = lower.to_vec();
    loop {
        if upper.is_some_and(|upper| *upper <= *from) {
            return Ok(false);
        }
        let (next, may_be) = contents.with_stores(&from, |next, stores| {
            let ends = stores.frozen.iter().map(|frozen| frozen.end);
            let newest = ends.max().unwrap_or(0).max(stores.version.ceiling);
            let deleted = stores.deleted.iter().map(|range| range.position);
            let newest = deleted.fold(newest, u64::max);
            let may_be = newest >= position || !stores.active.is_empty();
            (next.map(<[u8]>::to_vec), may_be)
        });
        if may_be {
            let view = view_at(contents, Some(&from), false);
            let Some(is_written) = is_written_in(contents, &view, position, &from, upper)? else {
                // The memtable became another one.
                continue;
            };
            if is_written {
                return Ok(true);
            }
            let Some(next) = view.upper else { return Ok(false) };
            from = next;
            continue;
        }
        let Some(next) = next else { return Ok(false) };
        from = next;
    }
}

/// True if a key of the bucket from `lower` on and before `upper` was written at `position` or
/// later; `None` if the bucket's list has become another memtable meanwhile.
fn is_written_in<D: Device>(
    contents: &Contents<D>,
    view: &View<D>,
    position: u64,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<Option<bool>> {
    if within(&view.deleted, lower, upper).iter().any(|range| range.position >= position) {
        return Ok(Some(true));
    }
    if view.memtables.iter().any(|slice| slice.has_since(position, lower, upper, &view.segments)) {
        return Ok(Some(true));
    }
    let is_before_upper = |key: &[u8]| upper.is_none_or(|upper| key < upper);
    if let Some(list) = &view.list {
        let mut list = Sorted::List(Listed::new(list, view, u64::MAX));
        if list.seek(contents, lower)? == Is::Stale {
            return Ok(None);
        }
        while let Some(version) = list.version().filter(|version| is_before_upper(version.key)) {
            if version.sequence >= position {
                return Ok(Some(true));
            }
            list.advance()?;
        }
    }
    for run in &view.version.runs {
        let is_young = |sequence_max: u64| sequence_max >= position;
        if !run.iter().any(|part| is_young(part.table.table.footer().sequence_max)) {
            continue;
        }
        let mut cursor = RunCursor::new(run.clone(), READ_AHEAD_BYTES);
        cursor = cursor.through(&contents.tables.cache);
        let mut is_there = cursor.seek(lower, u64::MAX)?;
        while is_there && is_before_upper(cursor.key()) {
            if cursor.version().sequence >= position {
                return Ok(Some(true));
            }
            is_there = cursor.advance()?;
        }
    }
    Ok(Some(false))
}
