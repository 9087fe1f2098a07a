//! A full disk: nothing is lost, deletes go on and make room.

use super::differential::caught;
use super::harness::DeviceHarness;
use super::session::{Outcome, Session, Stop, compare_gets, ensure};
use super::workload::{Keys, Mix, Step, Steps, Value};
use silica_engine::{Durability, ErrorKind};

/// How often a client tries again that is refused.
const RETRIES: u64 = 20;

/// What the full-disk test saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FullDiskReport {
    /// Writes until the disk was full.
    pub writes: u64,
    /// Writes that were accepted after that, until it was full as often as a client tries again.
    pub retries_accepted: u64,
    /// True where the store opened while the disk was full.
    pub opens_when_full: bool,
    /// Overwrites of a quarter of the keys by values that are no longer that were refused.
    pub overwrites_refused: u64,
    /// Deletes of half of the keys that were refused.
    pub deletes_refused: u64,
    /// Puts out of as many as half of the deletes that were accepted afterwards.
    pub puts_again: u64,
    /// True where all of these puts were accepted.
    pub deletes_make_room: bool,
    /// Writes until the disk was full again after all keys were deleted.
    pub writes_again: u64,
}

/// Fills a device of `capacity` bytes until the engine says `Full`, and checks that reads go on,
/// that nothing is lost, that the store opens again at the latest when it gets room, and that
/// writes then go on.
///
/// # Panics
///
/// Where the store breaks a promise.
pub fn full_disk<H: DeviceHarness>(harness: &mut H, seed: u64, capacity: u64) -> FullDiskReport {
    let mut report = FullDiskReport::default();
    match caught(|| full_disk_run(harness, seed, capacity, &mut report)) {
        Ok(()) => report,
        Err(stop) => panic!("full_disk(harness, {seed}, {capacity}) fails: {stop}"),
    }
}

fn full_disk_run<H: DeviceHarness>(
    harness: &mut H,
    seed: u64,
    capacity: u64,
    report: &mut FullDiskReport,
) -> Outcome {
    let workload = harness.workload();
    harness.wipe();
    harness.set_capacity(Some(capacity));
    // Twice as many keys as could fit if entries were as short as they get.
    let count = (capacity / 16).min(1 << 20) as u32;
    let keys = Keys::new(&workload, count);
    let mut session = Session::open(harness, keys, vec![None; count as usize])?;
    let mut steps = Steps::new(seed, workload, count, Mix::DIFFERENTIAL);
    report.writes = fill(&mut session, &mut steps)?;
    // A client that is refused tries again and again; of some puts the room is there.
    for _ in 0..RETRIES {
        report.retries_accepted += fill(&mut session, &mut steps)?;
    }
    compare_gets(session.engine(), &session.keys, &session.model)?;
    overwrite_quarter(&mut session, &mut steps, report)?;
    delete_half(&mut session, &mut steps, report)?;
    compare_gets(session.engine(), &session.keys, &session.model)?;
    report.opens_when_full = match session.reopen() {
        Ok(()) => true,
        Err(e) => {
            ensure(e.kind() == ErrorKind::Full, || format!("opening when full: {e}"))?;
            false
        }
    };
    if report.opens_when_full {
        delete_all(&mut session, report)?;
        report.writes_again = fill(&mut session, &mut steps)?;
        // A put that is refused asks for all the room that can be made.
        maintain(&mut session)?;
        report.writes_again += fill(&mut session, &mut steps)?;
        compare_gets(session.engine(), &session.keys, &session.model)?;
    }
    session.harness.set_capacity(Some(8 * capacity));
    session.reopen()?;
    session.check_all()?;
    for key in 0..100.min(count) {
        session.write(&[(key, Some(steps.value(key)))], Durability::Synced)?;
    }
    session.harness.power_cut(seed);
    session.reopen()?;
    session.check_all()
}

/// Puts until the disk is full; how many.
fn fill<H: DeviceHarness>(session: &mut Session<'_, H>, steps: &mut Steps) -> Outcome<u64> {
    let count = session.keys.count();
    for n in 0..64 * u64::from(count) {
        let key = (n % u64::from(count)) as u32;
        let written = session.write(&[(key, Some(steps.value(key)))], Durability::Buffered);
        let maintained = match n % 16 {
            0 => session.step(&Step::Maintain(4096)),
            _ => Ok(()),
        };
        for result in [written, maintained] {
            match result {
                Ok(()) => {}
                Err(Stop::Failed(e)) if e.kind() == ErrorKind::Full => return Ok(n),
                Err(stop) => return Err(stop),
            }
        }
    }
    Err(Stop::Wrong("the disk never becomes full".into()))
}

/// True for success, false where the disk is full.
fn unless_full(result: Outcome) -> Outcome<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(Stop::Failed(e)) if e.kind() == ErrorKind::Full => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Overwrites every fourth key by what takes no more, and maintains now and then.
fn overwrite_quarter<H: DeviceHarness>(
    session: &mut Session<'_, H>,
    steps: &mut Steps,
    report: &mut FullDiskReport,
) -> Outcome {
    for key in (0..session.keys.count()).step_by(4) {
        let Some(old) = session.model[key as usize] else { continue };
        let new = steps.value(key);
        let new = Value { len: new.len.min(old.len), meta: old.meta, ..new };
        let put = session.write(&[(key, Some(new))], Durability::Buffered);
        report.overwrites_refused += u64::from(!unless_full(put)?);
        if key % 64 == 0 {
            unless_full(session.step(&Step::Maintain(4096)))?;
        }
    }
    compare_gets(session.engine(), &session.keys, &session.model)
}

/// Deletes every key, and maintains now and then and at the end.
fn delete_all<H: DeviceHarness>(
    session: &mut Session<'_, H>,
    report: &mut FullDiskReport,
) -> Outcome {
    for key in 0..session.keys.count() {
        if session.model[key as usize].is_some() {
            let done = unless_full(session.write(&[(key, None)], Durability::Buffered))?;
            report.deletes_refused += u64::from(!done);
        }
        // Deletes of tiny entries alone would take the room that is kept for merges.
        if key % 64 == 0 {
            unless_full(session.step(&Step::Maintain(4096)))?;
        }
    }
    maintain(session)?;
    compare_gets(session.engine(), &session.keys, &session.model)
}

/// Maintains until nothing is left to do.
fn maintain<H: DeviceHarness>(session: &mut Session<'_, H>) -> Outcome {
    for _ in 0..1000 {
        unless_full(session.step(&Step::Maintain(1 << 16)))?;
    }
    Ok(())
}

/// Deletes every other key, maintains, and puts half of them again.
fn delete_half<H: DeviceHarness>(
    session: &mut Session<'_, H>,
    steps: &mut Steps,
    report: &mut FullDiskReport,
) -> Outcome {
    let there = |key: &u32| session.model[*key as usize].is_some();
    let deleted: Vec<u32> = (0..session.keys.count()).filter(there).step_by(2).collect();
    for (n, key) in deleted.iter().enumerate() {
        if n % 16 == 0 {
            unless_full(session.step(&Step::Maintain(4096)))?;
        }
        let done = unless_full(session.write(&[(*key, None)], Durability::Buffered))?;
        report.deletes_refused += u64::from(!done);
    }
    compare_gets(session.engine(), &session.keys, &session.model)?;
    for _ in 0..1000 {
        unless_full(session.step(&Step::Maintain(1 << 16)))?;
    }
    compare_gets(session.engine(), &session.keys, &session.model)?;
    let again = deleted.iter().step_by(2);
    report.deletes_make_room = true;
    for (n, key) in again.enumerate() {
        let put = session.write(&[(*key, Some(steps.value(*key)))], Durability::Buffered);
        let accepted = unless_full(put)?;
        report.puts_again += u64::from(accepted);
        report.deletes_make_room &= accepted;
        if n % 16 == 0 {
            unless_full(session.step(&Step::Maintain(4096)))?;
        }
    }
    Ok(())
}
