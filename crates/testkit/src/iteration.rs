//! Whole stores, entry by entry: reopening and iterating.

use super::differential::caught;
use super::harness::Harness;
use super::session::{Outcome, Session, compare_scan};
use super::workload::{Mix, Step, Steps};
use silica_engine::{Durability, Engine, EntryRef};

/// Closes and opens a store again and again while it grows, and compares everything each time.
///
/// # Panics
///
/// Where something is missing or different afterwards.
pub fn reopen<H: Harness>(harness: &mut H, seed: u64, times: u64) {
    let workload = harness.workload();
    let run = || {
        let mut session = Session::fresh(harness, workload.keys)?;
        if !session.is_durable() {
            return Ok(());
        }
        let mut steps = Steps::new(seed, workload, workload.keys, Mix::DIFFERENTIAL);
        for time in 0..times {
            let count = [0, 1, 40, 1500][time as usize % 4];
            for step in steps.by_ref().take(count).filter(|step| *step != Step::Clear) {
                session.step(&step)?;
            }
            session.step(if time % 3 == 0 { &Step::Kill } else { &Step::Reopen })?;
            session.check_all()?;
        }
        Ok(())
    };
    if let Err(stop) = caught(run) {
        panic!("reopen(harness, {seed}, {times}) fails: {stop}");
    }
}

/// Whole scans against the model, with every kind of limit; cursors that outlive the engine; and
/// iterations amid writes, which must visit whatever is there all the time.
///
/// # Panics
///
/// Where an iteration misses, invents or changes an entry.
pub fn iteration<H: Harness>(harness: &mut H, seed: u64, entries: u32) {
    let run = || {
        let workload = harness.workload();
        let mut session = Session::fresh(harness, entries)?;
        if session.engine().as_scan().is_none() {
            return Ok(());
        }
        compare_scan(session.engine(), &session.keys, &session.model, 1)?;
        let mut steps = Steps::new(seed, workload, entries, Mix::DIFFERENTIAL);
        for key in 0..entries {
            session.write(&[(key, Some(steps.value(key)))], Durability::Buffered)?;
            if key % 64 == 0 {
                session.step(&Step::Maintain(workload.maintain_bytes_max))?;
            }
        }
        for limit in [0, 1, 2, 10, 1000, usize::MAX] {
            compare_scan(session.engine(), &session.keys, &session.model, limit)?;
        }
        check_call_sizes(session.engine(), u64::from(entries));
        check_cursors(session.engine());
        amid_writes(&mut session, &mut steps)?;
        session.check_all()
    };
    if let Err(stop) = caught(run) {
        panic!("iteration(harness, {seed}, {entries}) fails: {stop}");
    }
}

/// The cursor of a key is the last one from which on it is visited, and it is so at once.
fn check_cursors(engine: &impl Engine) {
    let Some(scan) = engine.as_scan() else { return };
    let mut keys = Vec::new();
    let next = scan.scan(0, 300, &mut |key, _| keys.push(key.to_vec()));
    next.expect("scan of a sound store");
    for key in keys {
        let cursor = scan.cursor_of(&key);
        for (from, is_visited) in [(cursor, true), (cursor + 1, false)] {
            let mut found = false;
            let visit = &mut |other: &[u8], _: EntryRef<'_>| found |= other == key;
            scan.scan(from, 1 + 20 * usize::from(!is_visited), visit).expect("scan");
            assert_eq!(found, is_visited, "from {from}, key '{}'", key.escape_ascii());
        }
    }
}

/// A call visits about as many entries as it was asked for.
fn check_call_sizes(engine: &impl Engine, entries: u64) {
    let Some(scan) = engine.as_scan() else { return };
    let (mut cursor, mut calls, mut visited) = (Some(0), 0, 0);
    while let Some(from) = cursor {
        cursor = scan.scan(from, 10, &mut |_, _| visited += 1).expect("scan of a sound store");
        assert!(cursor.is_none_or(|cursor| cursor <= i64::MAX as u64), "a cursor of {cursor:?}");
        calls += 1;
    }
    assert!(visited <= entries + entries / 10, "{visited} visits to {entries} entries");
    assert!(calls >= entries / 100, "{calls} calls for 10 entries each visited {visited}");
}

/// Iterates with overwrites, deletes, maintenance and reopening between the calls.
fn amid_writes<H: Harness>(session: &mut Session<'_, H>, steps: &mut Steps) -> Outcome {
    for round in 0..4 {
        for call in 0..session.keys.count() / 8 + 2 {
            session.step(&Step::ScanOn(8))?;
            for step in steps.by_ref().take(6) {
                if !matches!(step, Step::Clear | Step::ScanOn(_) | Step::Reopen | Step::Kill) {
                    session.step(&step)?;
                }
            }
            if call % 50 == round {
                session.step(&Step::Reopen)?;
            }
        }
        while session.is_iterating() {
            session.step(&Step::ScanOn(usize::MAX))?;
        }
    }
    Ok(())
}
