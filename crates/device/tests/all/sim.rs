//! What only the simulated device does: power cuts, faults, damage.

use silica_base::{AlignedBuf, ErrorKind};
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, LogFile, Mode, Read, ReadQueue, Transfer};
use std::collections::BTreeSet;
use std::sync::Arc;

fn kind<T>(result: silica_base::Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

fn device(seed: u64) -> SimDevice {
    SimDevice::new(seed, SimOptions::default())
}

/// All states of file "f" that `seeds` cuts after `run` leave.
fn outcomes(seeds: u64, run: impl Fn(&SimDevice)) -> BTreeSet<Option<Vec<u8>>> {
    (0..seeds)
        .map(|seed| {
            let device = device(seed);
            run(&device);
            device.power_cut();
            device.reopen().peek("f")
        })
        .collect()
}

#[test]
fn synced_bytes_and_names_survive() {
    let states = outcomes(50, |device| {
        let file = device.create("f", Mode::Buffered).unwrap();
        file.write_at(0, &[1; 3000]).unwrap();
        file.sync().unwrap();
        device.sync_dir().unwrap();
    });
    assert_eq!(states, BTreeSet::from([Some(vec![1; 3000])]));
}

#[test]
fn unsynced_names_may_vanish() {
    let states = outcomes(50, |device| {
        device.create("f", Mode::Buffered).unwrap().sync().unwrap();
    });
    assert_eq!(states, BTreeSet::from([None, Some(vec![])]));
}

#[test]
fn each_sector_keeps_one_of_its_versions() {
    let states = outcomes(3000, |device| {
        let file = device.create("f", Mode::Buffered).unwrap();
        file.write_at(0, &[1; 1024]).unwrap();
        file.sync().unwrap();
        device.sync_dir().unwrap();
        file.write_at(0, &[2; 1024]).unwrap();
        file.write_at(0, &[3; 512]).unwrap();
    });
    let mut seen = BTreeSet::new();
    for state in states {
        let state = state.unwrap();
        assert_eq!(state.len(), 1024);
        assert!(state[..512].iter().all(|b| *b == state[0]), "a sector is whole");
        assert!(state[512..].iter().all(|b| *b == state[512]), "a sector is whole");
        seen.insert((state[0], state[512]));
    }
    let all = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)];
    assert_eq!(seen, BTreeSet::from(all));
}

#[test]
fn unsynced_growth_may_be_short_or_zero() {
    let states = outcomes(3000, |device| {
        let file = device.create("f", Mode::Buffered).unwrap();
        device.sync_dir().unwrap();
        file.write_at(0, &[1; 600]).unwrap();
        file.write_at(600, &[2; 600]).unwrap();
    });
    let lengths: BTreeSet<usize> = states.iter().map(|s| s.as_ref().unwrap().len()).collect();
    assert_eq!(lengths, BTreeSet::from([0, 600, 1200]));
    let holes = |s: &Option<Vec<u8>>| s.as_ref().is_some_and(|s| s.len() == 1200 && s[0] == 0);
    assert!(states.iter().any(holes), "a hole before bytes that were kept");
}

#[test]
fn truncation_may_be_undone() {
    let states = outcomes(200, |device| {
        let file = device.create("f", Mode::Buffered).unwrap();
        file.write_at(0, &[1; 700]).unwrap();
        file.sync().unwrap();
        device.sync_dir().unwrap();
        file.truncate(0).unwrap();
    });
    assert!(states.contains(&Some(vec![])) && states.contains(&Some(vec![1; 700])));
    assert!(states.iter().flatten().flatten().all(|b| *b < 2));
}

#[test]
fn a_rename_is_whole() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let device = device(seed);
        for (name, byte) in [("f", b"1"), ("new", b"2")] {
            let file = device.create(name, Mode::Buffered).unwrap();
            file.write_at(0, byte).unwrap();
            file.sync().unwrap();
            if name == "f" {
                device.sync_dir().unwrap();
            }
        }
        device.rename("new", "f").unwrap();
        device.power_cut();
        let device = device.reopen();
        seen.insert((device.peek("f").unwrap()[0], device.peek("new").is_some()));
    }
    let all = [(b'1', false), (b'1', true), (b'2', false)];
    assert_eq!(seen, BTreeSet::from(all));
}

#[test]
fn ordered_names_survive_as_a_prefix() {
    for seed in 0..200 {
        let device =
            SimDevice::new(seed, SimOptions { names_in_order: true, ..Default::default() });
        for name in ["a", "b", "c", "d"] {
            device.create(name, Mode::Buffered).unwrap();
        }
        device.power_cut();
        let left = device.reopen().list().unwrap();
        assert_eq!(left, ["a", "b", "c", "d"][..left.len()]);
    }
}

#[test]
fn log_tail_may_tear_but_synced_bytes_stay() {
    let states = outcomes(500, |device| {
        let log = device.create_log("f", 4096).unwrap();
        log.append(&[&[1; 700]]).unwrap();
        log.sync().unwrap();
        device.sync_dir().unwrap();
        log.append(&[&[2; 1000]]).unwrap();
    });
    let mut kept = BTreeSet::new();
    for state in states.iter().flatten() {
        assert_eq!(state.len(), 4096);
        assert_eq!(state[..700], [1; 700]);
        assert!(state[700..1700].iter().all(|b| [0, 2].contains(b)));
        assert!(state[1700..].iter().all(|b| *b == 0));
        kept.insert((state[700], state[1024], state[1699]));
    }
    assert!(kept.contains(&(0, 0, 0)) && kept.contains(&(2, 2, 2)));
    assert!(kept.contains(&(2, 2, 0)) && kept.contains(&(0, 2, 2)), "{kept:?}");
}

#[test]
fn a_log_that_is_used_again_has_old_bytes_where_new_ones_are_lost() {
    let states = outcomes(500, |device| {
        let log = device.create_log("g", 4096).unwrap();
        log.append(&[&[1; 3000]]).unwrap();
        log.sync().unwrap();
        let log = device.reuse_log(log, "g", "f").unwrap();
        log.append(&[&[2; 700]]).unwrap();
        log.sync().unwrap();
        device.sync_dir().unwrap();
        log.append(&[&[3; 1000]]).unwrap();
    });
    let mut kept = BTreeSet::new();
    for state in states.iter().flatten() {
        assert_eq!(state.len(), 4096);
        assert_eq!(state[..700], [2; 700]);
        assert!(state[700..1700].iter().all(|b| [1, 3].contains(b)));
        assert!(state[1700..3000].iter().all(|b| *b == 1));
        assert!(state[3000..].iter().all(|b| *b == 0));
        kept.insert((state[700], state[1024], state[1699]));
    }
    assert!(kept.contains(&(1, 1, 1)) && kept.contains(&(3, 3, 3)));
    assert!(kept.contains(&(3, 3, 1)) && kept.contains(&(1, 3, 3)), "{kept:?}");
}

#[test]
fn unsynced_log_may_be_empty_or_full_length() {
    let states = outcomes(60, |device| {
        device.create_log("f", 512).unwrap();
        device.sync_dir().unwrap();
    });
    assert_eq!(states, BTreeSet::from([Some(vec![]), Some(vec![0; 512])]));
}

#[test]
fn garbage_only_where_asked_for() {
    let garbage = |garble| {
        (0..300).any(|seed| {
            let device = SimDevice::new(seed, SimOptions { garble, ..Default::default() });
            let file = device.create("f", Mode::Buffered).unwrap();
            device.sync_dir().unwrap();
            file.write_at(0, &[1; 4096]).unwrap();
            device.power_cut();
            device.reopen().peek("f").unwrap().iter().any(|b| *b > 1)
        })
    };
    assert!(garbage(true));
    assert!(!garbage(false));
}

#[test]
fn old_handles_are_closed_and_borrowed_bytes_stay() {
    let device = device(1);
    let file = device.create("a", Mode::Buffered).unwrap();
    let log = device.create_log("l", 4096).unwrap();
    log.append(&[b"borrowed"]).unwrap();
    let borrowed = log.bytes(0, 8);
    device.power_cut();
    assert!(device.is_cut());
    for _ in 0..2 {
        assert_eq!(kind(file.write_at(0, b"x")), ErrorKind::Closed);
        assert_eq!(kind(file.read_at(0, &mut [0])), ErrorKind::Closed);
        assert_eq!(kind(file.sync()), ErrorKind::Closed);
        assert_eq!(kind(log.append(&[b"x"])), ErrorKind::Closed);
        assert_eq!(kind(log.sync()), ErrorKind::Closed);
        assert_eq!(kind(device.list()), ErrorKind::Closed);
        assert_eq!(kind(device.create("b", Mode::Buffered)), ErrorKind::Closed);
        device.reopen();
    }
    assert_eq!(borrowed, b"borrowed");
}

#[test]
fn process_death_keeps_what_was_written_but_not_durably() {
    let mut lost = 0;
    for seed in 0..50 {
        let old = device(seed);
        let file = old.create("f", Mode::Buffered).unwrap();
        let log = old.create_log("l", 4096).unwrap();
        old.sync_dir().unwrap();
        file.write_at(0, b"x").unwrap();
        log.append(&[b"y"]).unwrap();
        let device = old.reopen();
        assert_eq!(kind(file.write_at(0, b"z")), ErrorKind::Closed);
        assert_eq!(kind(log.append(&[b"z"])), ErrorKind::Closed);
        assert_eq!(device.peek("f").unwrap(), b"x");
        assert_eq!(device.open_log("l").unwrap().bytes(0, 2), b"y\0");
        device.power_cut();
        lost += usize::from(device.reopen().peek("f").unwrap() != b"x");
    }
    assert!(lost > 5);
}

#[test]
fn faults_strike_at_their_call() {
    let device = device(1);
    let file = device.create("f", Mode::Buffered).unwrap();
    device.fail_at(FaultKind::Eio, 2);
    file.write_at(0, b"1").unwrap();
    assert_eq!(kind(file.write_at(0, b"2")), ErrorKind::Io);
    file.write_at(1, b"3").unwrap();
    assert_eq!(device.peek("f").unwrap(), b"13");

    device.fail_from(FaultKind::Enospc, 1);
    assert_eq!(kind(file.write_at(0, b"2")), ErrorKind::Full);
    assert_eq!(kind(device.create("g", Mode::Buffered)), ErrorKind::Full);
    assert_eq!(kind(device.create_log("g", 100)), ErrorKind::Full);
    device.clear_faults();
    file.write_at(0, b"2").unwrap();

    device.fail_at(FaultKind::ReadEio, 1);
    assert_eq!(kind(file.read_at(0, &mut [0])), ErrorKind::Io);
    assert_eq!(file.read_at(0, &mut [0]).unwrap(), 1);

    device.fail_at(FaultKind::ShortWrite, 1);
    let before = device.peek("f").unwrap();
    assert_eq!(kind(file.write_at(0, &[9; 4096])), ErrorKind::Io);
    let after = device.peek("f").unwrap();
    assert!(after.len() < 4096 && (after == before || after.iter().all(|b| *b == 9)));
}

#[test]
fn faults_strike_transfers_and_a_read_that_fails_leaves_nothing_to_rely_on() {
    for seed in 0..8 {
        let device = device(seed);
        let file = device.create("f", Mode::Buffered).unwrap();
        file.write_at(0, &[1; 4096]).unwrap();
        let filled = |fill: u8| {
            let mut buf = AlignedBuf::zeroed(4096);
            buf.fill(fill);
            buf
        };
        device.fail_at(FaultKind::Eio, 1);
        let (buf, written) = file.begin_write(0, filled(2)).wait();
        assert_eq!((kind(written), buf[0]), (ErrorKind::Io, 2));
        device.fail_at(FaultKind::ReadEio, 1);
        let (buf, read) = file.begin_read(0, filled(3)).wait();
        assert_eq!(kind(read), ErrorKind::Io);
        // Neither what was in the buffer nor what is in the file.
        assert!(!buf.contains(&3) && !buf.contains(&1), "seed {seed}");
        let (buf, read) = file.begin_read(0, filled(3)).wait();
        assert_eq!((read.unwrap(), &buf[..]), (4096, &[1; 4096][..]));
    }
}

#[test]
fn what_was_written_and_synced_in_one_survives_a_power_cut_or_is_final() {
    for seed in 0..8 {
        let device = device(seed);
        let file = device.create("f", Mode::Buffered).unwrap();
        device.sync_dir().unwrap();
        file.write_at(0, &[1; 4096]).unwrap();
        let filled = || {
            let mut buf = AlignedBuf::zeroed(4096);
            buf.fill(2);
            buf
        };
        let (_, written) = file.begin_write_and_sync(4096, filled()).wait();
        assert_eq!(written.unwrap(), 4096);
        device.power_cut();
        let device = device.reopen();
        let durable = [[1; 4096], [2; 4096]].concat();
        assert_eq!(device.peek("f").unwrap(), durable, "seed {seed}");
        let file = device.open("f", Mode::Buffered).unwrap();
        device.fail_at(FaultKind::FailedSync, 1);
        let (buf, written) = file.begin_write_and_sync(0, filled()).wait();
        assert_eq!((kind(written), buf[0]), (ErrorKind::Io, 2), "seed {seed}");
        assert_eq!(kind(file.sync()), ErrorKind::Poisoned);
    }
}

/// Offsets of ten reads that are under way together, in the order in which they end; none where
/// the read failed.
fn order_of_reads(device: &SimDevice) -> Vec<Option<u64>> {
    let file = Arc::new(device.open("f", Mode::Buffered).unwrap());
    let mut reads = device.reads(10);
    for offset in 0..10 {
        reads.push(Read { of: file.clone(), offset, buf: AlignedBuf::zeroed(1) });
    }
    let ended = std::iter::from_fn(|| reads.pop());
    ended.map(|(read, filled)| filled.ok().map(|_| read.offset)).collect()
}

#[test]
fn the_seed_decides_the_order_of_reads() {
    let fresh = |seed| {
        let device = device(seed);
        device.create("f", Mode::Buffered).unwrap().write_at(0, &[1; 10]).unwrap();
        device
    };
    let orders: BTreeSet<_> = (0..20).map(|seed| order_of_reads(&fresh(seed))).collect();
    assert!(orders.len() > 15);
    assert_eq!(order_of_reads(&fresh(3)), order_of_reads(&fresh(3)));

    let device = fresh(3);
    device.fail_at(FaultKind::ReadEio, 4);
    let order = order_of_reads(&device);
    assert_eq!(order.iter().position(Option::is_none), Some(3));
    assert_eq!(order.iter().flatten().count(), 9);
}

#[test]
fn a_failed_sync_is_final_and_promises_nothing() {
    let mut lost = 0;
    for seed in 0..50 {
        let device = device(seed);
        let file = device.create("f", Mode::Buffered).unwrap();
        let log = device.create_log("l", 4096).unwrap();
        device.sync_dir().unwrap();
        file.write_at(0, b"x").unwrap();
        log.append(&[b"y"]).unwrap();
        device.fail_from(FaultKind::FailedSync, 1);
        assert_eq!(kind(file.sync()), ErrorKind::Io);
        assert_eq!(kind(log.sync()), ErrorKind::Io);
        assert_eq!(kind(device.sync_dir()), ErrorKind::Io);
        device.clear_faults();
        assert_eq!(kind(file.sync()), ErrorKind::Poisoned);
        assert_eq!(kind(log.sync()), ErrorKind::Poisoned);
        assert_eq!(kind(device.sync_dir()), ErrorKind::Poisoned);
        assert_eq!(kind(device.open("f", Mode::Buffered).unwrap().sync()), ErrorKind::Poisoned);
        device.power_cut();
        let device = device.reopen();
        lost += usize::from(device.peek("f").unwrap() != b"x");
        device.open("f", Mode::Buffered).unwrap().sync().unwrap();
    }
    assert!(lost > 5);
}

#[test]
fn space_runs_out_and_comes_back() {
    let device = device(1);
    device.set_capacity(16 << 10);
    let file = device.create("f", Mode::Buffered).unwrap();
    file.write_at(0, &[1; 8192]).unwrap();
    let log = device.create_log("l", 4096).unwrap();
    assert_eq!(device.free_bytes().unwrap(), 4096);
    assert_eq!(kind(device.create_log("m", 8192)), ErrorKind::Full);
    assert_eq!(kind(file.allocate(16384)), ErrorKind::Full);
    log.append(&[&[1; 4096]]).unwrap();
    file.truncate(4096).unwrap();
    assert_eq!(device.free_bytes().unwrap(), 8192);
    device.remove("l").unwrap();
    assert_eq!(device.free_bytes().unwrap(), 12288);
    device.link_into("f", &device, "g").unwrap();
    device.remove("f").unwrap();
    assert_eq!(device.free_bytes().unwrap(), 12288);
    device.sync_dir().unwrap();
    file.sync().unwrap();
    device.power_cut();
    assert_eq!(device.reopen().free_bytes().unwrap(), 12288);
}

#[test]
fn a_write_that_runs_out_of_space_may_leave_a_part() {
    let lengths: BTreeSet<u64> = (0..20)
        .map(|seed| {
            let device = device(seed);
            device.set_capacity(12 << 10);
            let file = device.create("f", Mode::Buffered).unwrap();
            file.write_at(0, &[1; 5000]).unwrap();
            assert_eq!(kind(file.write_at(5000, &[2; 9000])), ErrorKind::Full);
            file.len().unwrap()
        })
        .collect();
    assert_eq!(lengths, BTreeSet::from([5000, 9096]));
}

/// A fixed script; returns how many of its steps were acknowledged.
fn script(device: &SimDevice) -> usize {
    let steps: [&dyn Fn() -> silica_base::Result<()>; 5] = [
        &|| device.create("f", Mode::Buffered).map(drop),
        &|| device.sync_dir(),
        &|| device.open("f", Mode::Buffered)?.write_at(0, b"x"),
        &|| device.open("f", Mode::Buffered)?.sync(),
        &|| device.rename("f", "g"),
    ];
    steps.iter().take_while(|step| step().is_ok()).count()
}

#[test]
fn power_can_fail_at_every_operation() {
    for n in 1..=5 {
        let device = device(n);
        device.cut_at_op(n);
        assert_eq!(script(&device), n as usize - 1);
        assert!(device.is_cut());
        assert_eq!(device.op_count(), n);
        let device = device.reopen();
        let (f, g) = (device.peek("f"), device.peek("g"));
        assert!(n < 3 || f.is_some() || g.is_some(), "the synced name is there");
        assert!(n < 5 || f.or(g).unwrap() == b"x", "the synced byte is there");
        device.create("free", Mode::Buffered).unwrap();
    }
    let device = device(9);
    device.cut_at_op(6);
    assert_eq!(script(&device), 5);
    assert_eq!(device.op_count(), 5);
}

#[test]
fn the_same_seed_replays() {
    let state = |seed| {
        let device = device(seed);
        let file = device.create("f", Mode::Buffered).unwrap();
        device.sync_dir().unwrap();
        for i in 0..100u64 {
            file.write_at(i * 97 % 5000, &[i as u8; 300]).unwrap();
        }
        device.power_cut();
        device.reopen().peek("f")
    };
    assert_eq!(state(3), state(3));
    assert!((4..10).any(|seed| state(seed) != state(3)));
}

#[test]
fn forks_have_futures_of_their_own() {
    let device = device(1);
    let file = device.create("f", Mode::Buffered).unwrap();
    let log = device.create_log("l", 512).unwrap();
    device.link_into("f", &device, "g").unwrap();
    device.sync_dir().unwrap();
    file.write_at(0, b"x").unwrap();
    log.append(&[b"y"]).unwrap();
    let futures: BTreeSet<_> = (0..40)
        .map(|seed| {
            let fork = device.fork(seed);
            fork.power_cut();
            let fork = fork.reopen();
            assert_eq!(fork.peek("f"), fork.peek("g"));
            (fork.peek("f"), fork.peek("l"))
        })
        .collect();
    assert!(futures.len() >= 4);
    file.sync().unwrap();
    assert_eq!(log.append(&[b"z"]).unwrap(), 1);
}

#[test]
fn damage_is_done_to_files_at_rest() {
    let device = device(1);
    let file = device.create("f", Mode::Buffered).unwrap();
    file.write_at(0, b"aabbccdd").unwrap();
    device.poke("f", 6, b"XYZ");
    device.swap_blocks("f", 2, 0, 1);
    device.zero_block("f", 2, 2);
    assert_eq!(device.peek("f").unwrap(), b"bbaa\0\0XY");
    device.cut_file("f", 3);
    assert_eq!(device.peek("f").unwrap(), b"bba");
    let log = device.create_log("l", 8).unwrap();
    log.append(&[b"12345678"]).unwrap();
    device.poke("l", 2, b"!");
    assert_eq!(device.open_log("l").unwrap().bytes(0, 4), b"12!4");
    assert_eq!(device.peek("none"), None);
}

/// The time that this thread has had a processor: others' work on the machine does not count.
fn thread_nanos() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_cut_is_fast() {
    let start = thread_nanos();
    for seed in 0..500 {
        let device = device(seed);
        let log = device.create_log("l", 1 << 20).unwrap();
        let file = device.create("f", Mode::Buffered).unwrap();
        device.sync_dir().unwrap();
        for i in 0..300u64 {
            log.append(&[&[1; 60]]).unwrap();
            file.write_at(i * 64, &[1; 64]).unwrap();
            if i % 10 == 0 {
                log.sync().unwrap();
            }
        }
        device.power_cut();
        device.reopen().open_log("l").unwrap();
    }
    // 20,000 of these must fit a test run; the bound leaves room for slow machines.
    let took = std::time::Duration::from_nanos(thread_nanos() - start);
    assert!(took.as_secs() < 5, "500 cuts took {took:?}");
}
