//! Bulk builds: order, bounded memory, spilled runs that fail.

use silica_base::{ErrorKind, Prng};
use silica_device::Device;
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_parts::ect::{EctParams, bulk};

type Record = [u8; 24];

fn here(jobs: bulk::Jobs<'_>) {
    jobs.into_iter().for_each(|job| job());
}

fn on_threads(jobs: bulk::Jobs<'_>) {
    std::thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
}

fn records(seed: u64, count: u64) -> Vec<Record> {
    let mut prng = Prng::new(seed);
    (0..count)
        .map(|number| {
            let mut record = [0; 24];
            let high = if prng.one_in(10) { 7 } else { prng.next_u64() };
            record[8..16].copy_from_slice(&high.to_le_bytes());
            record[16..].copy_from_slice(&number.to_le_bytes());
            record
        })
        .collect()
}

fn options(memory_bytes: usize, workers: usize) -> bulk::Options {
    bulk::Options { memory_bytes, workers, ..Default::default() }
}

fn sort(
    device: &SimDevice,
    options: bulk::Options,
    execute: bulk::Executor<'_>,
    records: &[Record],
) -> silica_base::Result<(Vec<Record>, Vec<bulk::Progress>)> {
    let mut seen = Vec::new();
    let mut sorter = bulk::Sorter::new(device, options, execute)?;
    for record in records {
        sorter.push(record, &mut |progress| seen.push(progress))?;
    }
    assert_eq!(sorter.len(), records.len() as u64);
    let mut sorted = sorter.finish(&mut |progress| seen.push(progress))?;
    let mut out = Vec::new();
    sorted.for_each(&mut |progress| seen.push(progress), |record| {
        out.push(*record);
        Ok(())
    })?;
    Ok((out, seen))
}

#[test]
fn the_order_depends_on_the_records_alone() {
    for count in [0, 1, 2, 1000, 30_000] {
        let unsorted = records(count, count);
        let mut want = unsorted.clone();
        want.sort_by_key(|record| (bulk::key(record), record[16..].to_vec()));
        for (memory, workers) in [(1, 1), (40_000, 1), (100_000, 3), (200_000, 2), (1 << 22, 4)] {
            let device = SimDevice::new(1, SimOptions::default());
            let execute: bulk::Executor<'_> = if workers == 2 { &on_threads } else { &here };
            if memory == 1 && count > 2000 {
                continue;
            }
            let (out, seen) = sort(&device, options(memory, workers), execute, &unsorted).unwrap();
            assert!(out == want, "{count} records, {memory} bytes, {workers} workers");
            assert!(device.list().unwrap().is_empty(), "runs are removed");
            assert!(seen.iter().all(|progress| progress.done <= progress.total));
            let spilled = seen.iter().any(|progress| progress.phase == bulk::Phase::Sorting);
            let bytes = count as usize * 24;
            assert!(spilled || bytes <= memory.max(24), "{count} in {memory}");
            assert!(!spilled || 2 * bytes > memory, "{count} in {memory}");
        }
    }
}

#[test]
fn leftover_runs_are_removed_and_others_kept() {
    let device = SimDevice::new(2, SimOptions::default());
    for name in ["sort-run-000000", "sort-run-000009", "table"] {
        drop(device.create(name, silica_device::Mode::Buffered).unwrap());
    }
    sort(&device, options(50_000, 1), &here, &records(3, 5000)).unwrap();
    assert_eq!(device.list().unwrap(), ["table"]);
}

#[test]
fn every_failing_call_is_reported_and_leaves_no_runs() {
    let unsorted = records(4, 10_000);
    for kind in [FaultKind::Eio, FaultKind::ShortWrite, FaultKind::ReadEio] {
        let mut passed = false;
        for nth in 1..2000 {
            let device = SimDevice::new(nth, SimOptions::default());
            device.fail_at(kind, nth);
            let outcome = sort(&device, options(40_000, 2), &here, &unsorted);
            passed = device.faults_pending();
            let removal = outcome.is_ok() && kind == FaultKind::Eio;
            assert!(outcome.is_ok() == passed || removal, "{kind:?} {nth}");
            device.clear_faults();
            drop(bulk::Sorter::<24, _>::new(&device, options(40_000, 2), &here));
            assert!(device.list().unwrap().is_empty());
            if passed {
                break;
            }
        }
        assert!(passed, "a run without a failure");
    }
}

#[test]
fn a_full_device_is_named() {
    let device = SimDevice::new(5, SimOptions::default());
    device.set_capacity(100_000);
    let error = sort(&device, options(40_000, 1), &here, &records(6, 10_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
}

#[test]
fn an_executor_that_drops_jobs_is_an_error() {
    let device = SimDevice::new(6, SimOptions::default());
    let lazy = |jobs: bulk::Jobs<'_>| drop(jobs);
    let error = sort(&device, options(1 << 20, 2), &lazy, &records(7, 100)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn a_changed_run_is_found() {
    let device = SimDevice::new(7, SimOptions::default());
    let mut sorter = bulk::Sorter::<24, _>::new(&device, options(40_000, 1), &here).unwrap();
    records(8, 5000).iter().for_each(|record| sorter.push(record, &mut |_| ()).unwrap());
    let name = device.list().unwrap().remove(0);
    device.poke(&name, 5000, &[0xEE]);
    let outcome =
        sorter.finish(&mut |_| ()).and_then(|mut sorted| sorted.for_each(&mut |_| (), |_| Ok(())));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn bulk_index_finds_every_key() {
    let device = SimDevice::new(8, SimOptions::default());
    let mut sorter = bulk::Sorter::<24, _>::new(&device, options(100_000, 2), &here).unwrap();
    let mut keys = records(9, 20_000);
    keys.iter().for_each(|record| sorter.push(record, &mut |_| ()).unwrap());
    let mut sorted = sorter.finish(&mut |_| ()).unwrap();
    let index = bulk::dense(&mut sorted, EctParams::default(), &mut |_| ()).unwrap();
    keys.sort_by_key(bulk::key);
    for (rank, record) in keys.iter().enumerate() {
        let position = (bulk::key(record) >> 64) as u64;
        let found = index.rank(position) as usize;
        assert!(found <= rank && bulk::key(&keys[found]) == bulk::key(record));
    }
}
