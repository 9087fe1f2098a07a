//! For engines in which several databases share one store, whose keys tell them apart: what the
//! view of one database needs whatever the store is.

use crate::{EntryRef, MetricVisitor, Op, Result, Scan};

/// Entries of all databases that a scan visits before it goes on later.
const VISITS_MAX: usize = 4096;

/// Scans the entries of one database of a store, as [`Scan::scan`] does: `key_of` makes its keys of
/// stored ones, and `None` of those of other databases. Ends early, with a cursor, if many entries
/// are of others, so that no caller waits for a walk through the whole store.
///
/// # Errors
/// Those of `store`.
pub fn scan_own(
    store: &dyn Scan,
    cursor: u64,
    limit: usize,
    key_of: impl for<'k> Fn(&'k [u8]) -> Option<&'k [u8]>,
    visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
) -> Result<Option<u64>> {
    let (mut found, mut visits, mut next) = (0, 0, Some(cursor));
    while let Some(cursor) = next
        && found < limit.max(1)
        && (visits < VISITS_MAX || limit > VISITS_MAX)
    {
        next = store.scan(cursor, limit.max(1) - found, &mut |stored, entry| {
            visits += 1;
            if let Some(key) = key_of(stored) {
                found += 1;
                visit(key, entry);
            }
        })?;
    }
    Ok(next)
}

impl<'a> Op<'a> {
    /// The operations `ops` on `keys`, one for each.
    pub fn on_keys(ops: &[Op<'a>], keys: &[&'a [u8]]) -> Vec<Op<'a>> {
        keys.iter().zip(ops).map(|(key, op)| Op { key, kind: op.kind }).collect()
    }
}

/// Passes on the metrics of a whole store, but for the number of entries, which is that of one
/// database.
pub struct OwnEntries<'v> {
    /// Where they go.
    pub visitor: &'v mut dyn MetricVisitor,
    /// Entries of the database.
    pub entries: u64,
}

impl MetricVisitor for OwnEntries<'_> {
    fn metric(&mut self, name: &'static str, value: f64) {
        let is_own = name == "entries_estimate";
        self.visitor.metric(name, if is_own { self.entries as f64 } else { value });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries with the keys 0, 1, 2, …, one for each cursor.
    struct Numbers(u8);

    impl Scan for Numbers {
        fn scan(
            &self,
            cursor: u64,
            limit: usize,
            visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
        ) -> Result<Option<u64>> {
            let end = u64::from(self.0).min(cursor + limit as u64);
            (cursor..end).for_each(|n| visit(&[n as u8], EntryRef::new(b"")));
            Ok((end < u64::from(self.0)).then_some(end))
        }

        fn cursor_of(&self, key: &[u8]) -> u64 {
            u64::from(key[0])
        }
    }

    #[test]
    fn a_scan_finds_what_is_its_own_and_no_more_than_was_asked_for() {
        fn even(key: &[u8]) -> Option<&[u8]> {
            key[0].is_multiple_of(2).then_some(key)
        }
        let (mut cursor, mut found, mut calls) = (Some(0), Vec::new(), 0);
        while let Some(from) = cursor {
            let before = found.len();
            let mut visit = |key: &[u8], _: EntryRef<'_>| found.push(key[0]);
            cursor = scan_own(&Numbers(100), from, 7, even, &mut visit).unwrap();
            assert!(found.len() - before <= 7);
            calls += 1;
        }
        assert_eq!(found, Vec::from_iter((0..100).step_by(2)));
        assert!(calls >= 7, "{calls} calls for 50 entries");
    }
}
