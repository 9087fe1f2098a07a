//! Checking every invariant of an open store.

use crate::bucket::LogEntries;
use crate::contents::Contents;
use crate::iterator::Iter;
use crate::memtable::{Entries, sorted};
use crate::run::{Numbered, Part, Run};
use crate::snapshot::Held;
use crate::state::StoreState;
use crate::view::{View, view_at};
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::{EntryIter, Intent, IterateOptions, KeyRange};
use silica_parts::value_log;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that a table is read ahead.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// Tables that were met, by their numbers.
pub(crate) type Tables<D> = BTreeMap<u64, Numbered<D>>;

/// Checks that buckets follow one another without a gap; that runs lie in them; that memtables
/// hold positions of entries that belong there; that the manifest names files that are there;
/// and every block of every table, and every value that lies apart.
pub(crate) fn verify_all<D: Device>(contents: &Contents<D>) -> Result<()> {
    let _kept = contents.tables.keep_files();
    let mut tables = Tables::new();
    let mut next = Some(Vec::new());
    while let Some(lower) = next {
        next = verify_bucket(contents, &lower, &mut tables)?;
    }
    verify_names(contents)?;
    tables.values().try_for_each(|table| verify_table(contents, table))?;
    verify_values(contents)
}

/// Checks the bucket of the key `lower`, at which the one before ended, and notes its tables; where
/// it ends itself. Buckets split and join meanwhile: what has joined with the one before begins
/// before `lower`, and is checked whole.
pub(crate) fn verify_bucket<D: Device>(
    contents: &Contents<D>,
    lower: &[u8],
    tables: &mut Tables<D>,
) -> Result<Option<Vec<u8>>> {
    let view = view_at(contents, Some(lower), false);
    if *view.lower > *lower || view.upper.as_ref().is_some_and(|upper| **upper <= *lower) {
        return Err(impossible(format!(
            "a bucket begins at '{}', after one that ends at '{}'",
            view.lower.escape_ascii(),
            lower.escape_ascii()
        )));
    }
    verify_memtables(&view)?;
    for run in &view.version.runs {
        verify_run(&view, run)?;
        tables.extend(run.iter().map(|part| (part.table.number, part.table.clone())));
    }
    Ok(view.upper)
}

/// Every value that lies apart and that somebody may ask for is there and checks.
fn verify_values<D: Device>(contents: &Contents<D>) -> Result<()> {
    if contents.values.segments().is_empty() {
        return Ok(());
    }
    let options = IterateOptions { intent: Intent::Background, ..IterateOptions::default() };
    let mut iter = Iter::with(Arc::new(Held::new(contents)), &KeyRange::ALL, options);
    let mut is_there = iter.seek_to_first()?;
    while is_there {
        is_there = iter.next()?;
    }
    Ok(())
}

fn verify_names<D: Device>(contents: &Contents<D>) -> Result<()> {
    let (names, state) = {
        // What is named now is there now, since nothing is removed meanwhile.
        let look = |state: &StoreState| contents.device.list().map(|list| (list, state.clone()));
        contents.with_state(look)?
    };
    let tables = state.tables().into_iter().map(crate::names::table_name);
    let values = state.values.segments.iter().map(|number| value_log::name(*number));
    match tables.chain(values).find(|name| !names.contains(name)) {
        Some(name) => Err(Error::corruption(name, 0, "the manifest names it; it is missing")),
        None => Ok(()),
    }
}

fn verify_memtables<D: Device>(view: &View<D>) -> Result<()> {
    let entries = LogEntries(&view.segments);
    for slice in &view.memtables {
        for position in slice.positions() {
            let key = entries.entry(*position).key;
            if !view.has(key) {
                return Err(impossible(format!(
                    "the memtable from '{}' on has key '{}'",
                    view.lower.escape_ascii(),
                    key.escape_ascii()
                )));
            }
        }
        if sorted(slice.positions().to_vec(), &entries) != slice.positions() {
            return Err(impossible("a memtable is not in the order of its keys".into()));
        }
    }
    Ok(())
}

/// Every version checks and is in order, the filter lets its key pass, and as many are there as
/// the footer says.
fn verify_table<D: Device>(contents: &Contents<D>, numbered: &Numbered<D>) -> Result<()> {
    let table = &numbered.table;
    let damaged = |detail: &str| Error::corruption(table.name(), 0, detail);
    let mut cursor = table.cursor(READ_AHEAD_BYTES);
    let mut more = cursor.seek_to_first()?;
    let (mut count, mut last) = (0, None);
    while more {
        let found = cursor.version();
        let here = (found.key.to_vec(), Reverse(found.sequence));
        if last.as_ref().is_some_and(|last| *last >= here) {
            return Err(damaged("versions are not in order"));
        }
        if !table.may_contain(contents.seed.low(found.key)) {
            return Err(damaged("the filter does not know a key of the table"));
        }
        last = Some(here);
        count += 1;
        more = cursor.advance()?;
    }
    if count == table.footer().versions {
        return Ok(());
    }
    Err(damaged("there are not as many versions as the footer says"))
}

/// Parts lie in the bucket, and follow one another.
fn verify_run<D: Device>(view: &View<D>, run: &Run<D>) -> Result<()> {
    let is_within = |part: &Part<D>| {
        let (lower, upper) = (&view.lower, view.upper.as_deref());
        // Parts may be wider than their bucket as long as nobody else's keys are in them.
        part.upper.as_ref().is_none_or(|upper| *upper > *lower)
            && upper.is_none_or(|upper| *part.lower < *upper)
    };
    let follow = |pair: &[Part<D>]| pair[0].upper.as_ref().is_some_and(|u| *u <= pair[1].lower);
    if run.iter().all(is_within) && run.windows(2).all(follow) {
        return Ok(());
    }
    let message = format!("a run of the bucket from '{}' on", view.lower.escape_ascii());
    Err(impossible(format!("{message} has parts that are elsewhere, or that meet")))
}

fn impossible(what: String) -> Error {
    Error::new(ErrorKind::Corruption, format!("{what}; restore the store from a backup"))
}
