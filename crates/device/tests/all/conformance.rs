//! One suite for every device: real ones by back end and file system, and the simulated twin.

use silica_base::{AlignedBuf, ErrorKind};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{
    Device, DeviceFile, DeviceOptions, FileDevice, IoChoice, LogFile, Mode, READS_MAX, Read,
    ReadQueue, Transfer,
};
use std::path::Path;
use std::sync::Arc;

fn block(fill: u8) -> AlignedBuf {
    blocks(fill, 1)
}

fn blocks(fill: u8, count: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(count * 4096);
    buf.fill(fill);
    buf
}

fn kind<T>(result: silica_base::Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

fn positions_and_growth<D: Device>(device: &D) {
    let file = device.create("a", Mode::Buffered).unwrap();
    assert!(file.is_empty().unwrap());
    file.write_at(10, b"hello").unwrap();
    assert_eq!(file.len().unwrap(), 15);
    let mut buf = [9; 20];
    assert_eq!(file.read_at(0, &mut buf).unwrap(), 15);
    assert_eq!(&buf[..15], b"\0\0\0\0\0\0\0\0\0\0hello");
    file.write_at(12, b"LLO and more").unwrap();
    let mut buf = [0; 14];
    assert_eq!(file.read_at(10, &mut buf).unwrap(), 14);
    assert_eq!(&buf, b"heLLO and more");
    assert_eq!(file.read_at(24, &mut buf).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut buf).unwrap(), 0);
    let again = device.open("a", Mode::Buffered).unwrap();
    assert_eq!(again.read_at(22, &mut buf).unwrap(), 2);
    file.write_at(3, b"").unwrap();
    file.sync().unwrap();
    assert_eq!(again.len().unwrap(), 24);
}

fn truncation_and_allocation<D: Device>(device: &D) {
    let file = device.create("t", Mode::Buffered).unwrap();
    file.allocate(100_000).unwrap();
    file.allocate(0).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    file.write_at(0, &[7; 5000]).unwrap();
    file.truncate(10).unwrap();
    assert_eq!(file.len().unwrap(), 10);
    file.truncate(20).unwrap();
    let mut buf = [1; 30];
    assert_eq!(file.read_at(0, &mut buf).unwrap(), 20);
    assert_eq!(buf[..10], [7; 10]);
    assert_eq!(buf[10..20], [0; 10]);
}

fn direct_blocks<D: Device>(device: &D) {
    let file = device.create("d", Mode::Direct).unwrap();
    file.write_at(0, &blocks(1, 300)).unwrap();
    file.write_at(4096, &block(2)).unwrap();
    file.write_at(400 * 4096, &block(3)).unwrap();
    assert_eq!(file.len().unwrap(), 401 * 4096);
    let mut two = blocks(9, 2);
    assert_eq!(file.read_at(0, &mut two).unwrap(), 8192);
    assert_eq!((two[4095], two[4096]), (1, 2));
    assert_eq!(file.read_at(400 * 4096, &mut two).unwrap(), 4096);
    assert_eq!((two[0], two[4095]), (3, 3));
    file.sync().unwrap();
    // An end inside a block: the last read is cut short there.
    file.truncate(4096 + 100).unwrap();
    assert_eq!(file.read_at(0, &mut two).unwrap(), 4196);
    assert_eq!(file.read_at(4096, &mut two).unwrap(), 100);
    assert_eq!(two[..100], [2; 100]);
}

fn unaligned_direct_is_our_bug<D: Device>(device: &D) {
    let file = device.create("u", Mode::Direct).unwrap();
    let buf = block(0);
    for (offset, bytes) in [(1, &buf[..]), (0, &buf[..100]), (0, &buf[100..])] {
        let write = std::panic::AssertUnwindSafe(|| file.write_at(offset, bytes));
        assert!(std::panic::catch_unwind(write).is_err());
    }
    for (offset, bytes) in [(1, 4096), (0, 100)] {
        let buf = || AlignedBuf::zeroed(bytes);
        let write = std::panic::AssertUnwindSafe(|| file.begin_write(offset, buf()));
        assert!(std::panic::catch_unwind(write).is_err());
        let read = std::panic::AssertUnwindSafe(|| file.begin_read(offset, buf()));
        assert!(std::panic::catch_unwind(read).is_err());
    }
}

/// Who asks for a read.
struct Of<F> {
    file: Arc<F>,
    number: usize,
}

impl<F> AsRef<F> for Of<F> {
    fn as_ref(&self) -> &F {
        &self.file
    }
}

type Ended<F> = (Read<Of<F>>, silica_base::Result<usize>);

/// Performs `count` reads with `depth` of them in flight; in the order in which they ended.
fn window<D: Device>(
    device: &D,
    depth: usize,
    count: usize,
    read: impl Fn(usize) -> (Arc<D::File>, u64, AlignedBuf),
) -> Vec<Ended<D::File>> {
    let mut reads = device.reads(depth);
    let mut ended = Vec::new();
    for number in 0..count {
        if reads.is_full() {
            ended.push(reads.pop().unwrap());
        }
        let (file, offset, buf) = read(number);
        reads.push(Read { of: Of { file, number }, offset, buf });
        assert_eq!(reads.len(), depth.min(number + 1));
    }
    while let Some(read) = reads.pop() {
        ended.push(read);
    }
    assert!(reads.is_empty() && reads.pop().is_none());
    ended
}

fn bursts<D: Device>(device: &D) {
    // Two files of 50 blocks, each filled with a number of its own.
    let files: Vec<_> = ["b1", "b2"]
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let file = device.create(name, Mode::Direct).unwrap();
            for n in 0..50 {
                file.write_at(n * 4096, &block(100 * i as u8 + n as u8)).unwrap();
            }
            Arc::new(file)
        })
        .collect();
    // More reads than any queue has room for, ends of files included.
    for (depth, count) in [(1, 60), (2, 60), (32, 700), (READS_MAX, 700)] {
        let before = device.counters().snapshot();
        let ended = window(device, depth, count, |i| {
            (files[i % 2].clone(), (i as u64 * 7 % 52) * 4096, blocks(255, 2))
        });
        let mut seen = vec![false; count];
        for (read, filled) in ended {
            let i = read.of.number;
            assert!(!std::mem::replace(&mut seen[i], true), "read {i} ended twice");
            let n = i * 7 % 52;
            let want = 4096 * 50usize.saturating_sub(n).min(2);
            assert_eq!(filled.unwrap(), want, "read {i}");
            assert_eq!((read.offset, read.buf.len()), (n as u64 * 4096, 8192));
            if want > 0 {
                assert_eq!(read.buf[0], (100 * (i % 2) + n) as u8, "read {i}");
                assert_eq!(read.buf[want - 1], read.buf[0] + (want / 4096 - 1) as u8);
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        let after = device.counters().snapshot();
        assert_eq!(after.reads - before.reads, count as u64);
    }
}

fn queues_are_bounded_and_may_be_dropped<D: Device>(device: &D) {
    let file = device.create("q", Mode::Direct).unwrap();
    for n in 0..64 {
        file.write_at(n * 4096, &block(n as u8)).unwrap();
    }
    let file = Arc::new(file);
    let read = |n: usize| {
        let of = Of { file: file.clone(), number: n };
        Read { of, offset: n as u64 * 4096, buf: block(255) }
    };
    for popped in [0, 1, 20] {
        let mut reads = device.reads(20);
        (0..20).for_each(|n| reads.push(read(n)));
        // One inside the other, as where a reader calls back into the engine.
        let inner = window(device, 8, 40, |n| (file.clone(), n as u64 * 4096, block(255)));
        assert!(inner.iter().all(|(r, _)| r.buf.iter().all(|b| usize::from(*b) == r.of.number)));
        for _ in 0..popped {
            let (read, filled) = reads.pop().unwrap();
            assert_eq!(filled.unwrap(), 4096);
            assert!(read.buf.iter().all(|b| usize::from(*b) == read.of.number));
        }
    }
    for (asked, room) in [(0, 1), (1, 1), (5, 5), (10_000, READS_MAX)] {
        let mut reads = device.reads(asked);
        for n in 0..room {
            assert!(!reads.is_full());
            reads.push(read(n % 64));
        }
        assert!(reads.is_full());
        let push = std::panic::AssertUnwindSafe(|| reads.push(read(0)));
        assert!(std::panic::catch_unwind(push).is_err());
        assert_eq!(reads.len(), room);
    }
}

/// Threads with bursts of their own do not get each other's bytes.
fn bursts_at_once<D: Device>(device: &D) {
    let file = device.create("b", Mode::Direct).unwrap();
    for n in 0..64 {
        file.write_at(n * 4096, &block(n as u8)).unwrap();
    }
    let file = &Arc::new(file);
    let check = |first: u64| {
        for round in 0..20 {
            let at = |i: usize| (first + round * 5 + 11 * i as u64) % 64;
            let ended = window(device, 32, 50, |i| (file.clone(), at(i) * 4096, block(255)));
            for (read, filled) in ended {
                assert_eq!(filled.unwrap(), 4096);
                assert!(read.buf.iter().all(|b| u64::from(*b) == at(read.of.number)));
            }
        }
    };
    std::thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || check(first));
        }
    });
}

fn transfers<D: Device>(device: &D) {
    let file = device.create("t", Mode::Direct).unwrap();
    let before = device.counters().snapshot();
    // More than there are threads for them.
    let writes: Vec<_> =
        (0..20u8).map(|n| file.begin_write(u64::from(n) * 8192, blocks(n + 1, 2))).collect();
    for (n, write) in writes.into_iter().enumerate() {
        let (buf, written) = write.wait();
        assert_eq!((written.unwrap(), buf[0]), (8192, n as u8 + 1));
    }
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), 20 * 8192);
    let reads: Vec<_> = (0..21).map(|n| file.begin_read(n * 8192, blocks(99, 2))).collect();
    for (n, read) in reads.into_iter().enumerate() {
        let (buf, filled) = read.wait();
        match filled.unwrap() {
            0 => assert_eq!(n, 20, "behind the end"),
            filled => assert_eq!((filled, buf[8191]), (8192, n as u8 + 1)),
        }
    }
    let after = device.counters().snapshot();
    assert_eq!((after.writes - before.writes, after.reads - before.reads), (20, 21));
    assert_eq!(after.bytes_written - before.bytes_written, 20 * 8192);
    assert_eq!(after.bytes_read - before.bytes_read, 20 * 8192);
    // At the file's end there is a part of what is asked for.
    file.truncate(20 * 8192 - 4096).unwrap();
    let (buf, filled) = file.begin_read(19 * 8192, blocks(99, 2)).wait();
    assert_eq!((filled.unwrap(), &buf[..4096]), (4096, &blocks(20, 1)[..]));
    let odd = device.create("odd", Mode::Buffered).unwrap();
    odd.write_at(0, &[3; 5000]).unwrap();
    let (buf, filled) = odd.begin_read(4096, blocks(99, 1)).wait();
    assert_eq!((filled.unwrap(), &buf[..904]), (904, &[3; 904][..]));
    // Several become durable side by side.
    let before = device.counters().snapshot();
    let names = ["a", "b", "c", "d", "e", "f"];
    let files = names.map(|name| device.create(name, Mode::Direct).unwrap());
    let ends = [0, 1, 2, 3, 4, 5].map(|n: u8| {
        files[usize::from(n)].write_at(0, &block(n)).unwrap();
        files[usize::from(n)].begin_write_and_sync(4096, blocks(n + 1, 1))
    });
    for (end, file) in ends.into_iter().zip(&files) {
        let (buf, written) = end.wait();
        let mut found = block(99);
        file.read_at(4096, &mut found).unwrap();
        assert_eq!((written.unwrap(), &buf[..]), (4096, &found[..]));
    }
    let after = device.counters().snapshot();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (12, 6));
    // Dropped is not given up.
    for n in 0..20 {
        drop(file.begin_write(n * 4096, blocks(77, 1)));
        let mut buf = block(0);
        file.read_at(n * 4096, &mut buf).unwrap();
        assert_eq!(buf[..], block(77)[..]);
    }
}

/// The file may be gone before the transfer's end, and the device.
fn transfers_outlive_their_file<D: Device>(device: D) {
    let file = device.create("t", Mode::Direct).unwrap();
    let write = file.begin_write(0, blocks(5, 64));
    device.remove("t").unwrap();
    drop(file);
    drop(device);
    let (buf, written) = write.wait();
    assert_eq!((written.unwrap(), buf.len()), (64 * 4096, 64 * 4096));
}

fn names<D: Device>(device: &D) {
    for name in ["z", "m", "a"] {
        device.create(name, Mode::Buffered).unwrap().write_at(0, name.as_bytes()).unwrap();
    }
    assert_eq!(device.list().unwrap(), ["a", "m", "z"]);
    assert_eq!(kind(device.create("a", Mode::Buffered)), ErrorKind::Io);
    assert_eq!(kind(device.open("q", Mode::Buffered)), ErrorKind::NotFound);
    assert_eq!(kind(device.rename("q", "a")), ErrorKind::NotFound);
    assert_eq!(kind(device.remove("q")), ErrorKind::NotFound);
    assert_eq!(kind(device.create("../a", Mode::Buffered)), ErrorKind::Config);
    assert_eq!(kind(device.create("LOCK", Mode::Buffered)), ErrorKind::Config);

    let replaced = device.open("a", Mode::Buffered).unwrap();
    device.rename("z", "a").unwrap();
    assert_eq!(device.list().unwrap(), ["a", "m"]);
    let mut buf = [0; 1];
    device.open("a", Mode::Buffered).unwrap().read_at(0, &mut buf).unwrap();
    assert_eq!(&buf, b"z");
    replaced.read_at(0, &mut buf).unwrap();
    assert_eq!(&buf, b"a", "a replaced file stays readable while it is open");

    device.remove("m").unwrap();
    device.sync_dir().unwrap();
    assert_eq!(device.list().unwrap(), ["a"]);
}

fn subdirectories<D: Device>(device: &D) {
    let sub = device.subdirectory("part").unwrap();
    sub.create("f", Mode::Buffered).unwrap().write_at(0, b"x").unwrap();
    device.create("f2", Mode::Buffered).unwrap();
    assert_eq!(device.list().unwrap(), ["f2"]);
    assert_eq!(device.subdirectories().unwrap(), ["part"]);
    assert_eq!(device.subdirectory("part").unwrap().list().unwrap(), ["f"]);
    assert_eq!(device.counters().snapshot().writes, 1);
    assert!(device.free_bytes().unwrap() > 0);
}

fn links<D: Device>(device: &D, other: &D) {
    let sub = device.subdirectory("s").unwrap();
    device.create("x", Mode::Buffered).unwrap().write_at(0, b"linked").unwrap();
    for target in [device, &sub, other] {
        device.link_into("x", target, "y").unwrap();
        assert_eq!(kind(device.link_into("x", target, "y")), ErrorKind::Io);
        target.sync_dir().unwrap();
    }
    device.remove("x").unwrap();
    for target in [device, &sub, other] {
        let mut buf = [0; 6];
        target.open("y", Mode::Buffered).unwrap().read_at(0, &mut buf).unwrap();
        assert_eq!(&buf, b"linked");
    }
    assert_eq!(kind(device.link_into("x", other, "z")), ErrorKind::NotFound);
}

fn logs<D: Device>(device: &D) {
    let log = device.create_log("log", 10_000).unwrap();
    assert_eq!((log.capacity(), log.len(), log.is_empty()), (10_000, 0, true));
    assert_eq!(log.append(&[b"one", b"", b"two"]).unwrap(), 0);
    let first = log.bytes(0, 6);
    assert_eq!(log.append(&[b"three"]).unwrap(), 6);
    assert_eq!((first, log.bytes(6, 5)), (&b"onetwo"[..], &b"three"[..]));
    assert_eq!(kind(log.append(&[&[0; 10_000]])), ErrorKind::Full);
    assert_eq!(log.len(), 11);
    log.sync().unwrap();
    assert_eq!(log.append(&[&[7; 9_989]]).unwrap(), 11);
    assert_eq!(kind(log.append(&[b"x"])), ErrorKind::Full);
    assert_eq!(log.append(&[]).unwrap(), 10_000);
    log.sync().unwrap();

    // While it is appended to, a reader gets what is there; afterwards too.
    for _ in 0..2 {
        let read = device.open_log("log").unwrap();
        assert_eq!((read.len(), read.capacity()), (10_000, 10_000));
        assert_eq!(read.bytes(0, 12), b"onetwothree\x07");
        assert_eq!(kind(read.append(&[b"x"])), ErrorKind::Unsupported);
        read.sync().unwrap();
    }
    assert_eq!(kind(device.create_log("log", 1)), ErrorKind::Io);
    assert_eq!(kind(device.open_log("none")), ErrorKind::NotFound);
    let beyond = std::panic::AssertUnwindSafe(|| log.bytes(9_999, 2).len());
    assert!(std::panic::catch_unwind(beyond).is_err());
}

fn logs_reopened<D: Device>(device: &D) {
    let log = device.create_log("short", 8192).unwrap();
    log.append(&[b"abc"]).unwrap();
    let live = device.open_log("short").unwrap();
    log.append(&[b"def"]).unwrap();
    assert_eq!(live.bytes(0, 8), b"abc\0\0\0\0\0");
    drop(log);
    let read = device.open_log("short").unwrap();
    assert_eq!(read.bytes(0, 8), b"abcdef\0\0");
    assert!(read.bytes(8, 8184).iter().all(|b| *b == 0));
    // As a file it has its full length, and a file can be read as a log.
    assert_eq!(device.open("short", Mode::Buffered).unwrap().len().unwrap(), 8192);
    device.create("copy", Mode::Buffered).unwrap().write_at(0, b"abc").unwrap();
    assert_eq!(device.open_log("copy").unwrap().bytes(0, 3), b"abc");
    device.create("empty", Mode::Buffered).unwrap();
    assert!(device.open_log("empty").unwrap().is_empty());
}

fn logs_reused<D: Device>(device: &D) {
    const BYTES: usize = 1 << 20;
    let log = device.create_log("old", BYTES as u64).unwrap();
    log.append(&[&[1; BYTES]]).unwrap();
    log.sync().unwrap();
    log.rest();
    assert_eq!(log.bytes(0, BYTES), [1; BYTES]);
    let log = device.reuse_log(log, "old", "new").unwrap();
    assert_eq!(device.list().unwrap(), ["new"]);
    assert_eq!((log.capacity(), log.len()), (BYTES as u64, 0));
    log.append(&[b"abc"]).unwrap();
    log.append(&[&[2; 5000]]).unwrap();
    let before = device.counters().snapshot().syncs;
    log.sync().unwrap();
    assert_eq!(device.counters().snapshot().syncs, before + 1, "more was synced, but not this");
    device.sync_dir().unwrap();
    // While it is appended to and after, behind the new bytes are old ones, or zeroes.
    let check = |read: D::Log| {
        assert_eq!((read.bytes(0, 3), read.bytes(3, 5000)), (&b"abc"[..], &[2; 5000][..]));
        let behind = read.bytes(5003, BYTES - 5003);
        assert!(behind.iter().all(|byte| *byte < 2) && behind.contains(&1));
    };
    check(device.open_log("new").unwrap());
    log.append(&[&vec![3; BYTES - 5003]]).unwrap();
    assert_eq!(kind(log.append(&[b"x"])), ErrorKind::Full);
    log.sync().unwrap();
    assert_eq!(log.bytes(5003, BYTES - 5003), vec![3; BYTES - 5003]);
    drop(log);
    assert_eq!(device.open_log("new").unwrap().bytes(BYTES as u64 - 1, 1), [3]);

    // Only one that is appended to, and by its own name; where it is refused nothing changes.
    let read = device.open_log("new").unwrap();
    assert_eq!(kind(device.reuse_log(read, "new", "newer")), ErrorKind::Unsupported);
    let other = device.create_log("other", 4096).unwrap();
    assert_eq!(kind(device.reuse_log(other, "new", "newer")), ErrorKind::Unsupported);
    let other = device.create_log("another", 4096).unwrap();
    assert!(device.reuse_log(other, "none", "newer").is_err());
    assert_eq!(device.list().unwrap(), ["another", "new", "other"]);
}

fn counters<D: Device>(device: &D) {
    let file = device.create("c", Mode::Buffered).unwrap();
    let log = device.create_log("l", 4096).unwrap();
    let before = device.counters().snapshot();
    file.write_at(0, b"12345").unwrap();
    file.read_at(0, &mut [0; 10]).unwrap();
    log.append(&[b"123", b"4"]).unwrap();
    file.sync().unwrap();
    log.sync().unwrap();
    log.sync().unwrap();
    device.sync_dir().unwrap();
    let after = device.counters().snapshot();
    assert_eq!((after.reads - before.reads, after.bytes_read - before.bytes_read), (1, 5));
    assert_eq!((after.writes - before.writes, after.bytes_written - before.bytes_written), (2, 9));
    assert_eq!(after.syncs - before.syncs, 3, "a log sync with nothing new does nothing");
}

/// Threads reserve room and publish it, some later than those behind them, while others read.
fn appends_that_meet_leave_no_gap<D: Device>(device: &D) {
    const THREADS: u64 = 4;
    const RECORDS: u64 = 3000;
    let log = device.create_log("met", THREADS * RECORDS * 24 + 10).unwrap();
    let is_whole = |record: &[u8]| {
        let ordinal = u64::from_le_bytes(record[..8].try_into().unwrap());
        record[8..16] == (!ordinal).to_le_bytes() && record[16..] == [ordinal as u8; 8]
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for n in 0..RECORDS {
                    let mut reserved = log.reserve(24).unwrap().expect("there is room");
                    let ordinal = reserved.ordinal();
                    assert_eq!(reserved.offset(), ordinal * 24);
                    let bytes = reserved.bytes();
                    bytes[..8].copy_from_slice(&ordinal.to_le_bytes());
                    bytes[8..16].copy_from_slice(&(!ordinal).to_le_bytes());
                    if (n + thread).is_multiple_of(64) {
                        std::thread::yield_now();
                    }
                    bytes[16..].fill(ordinal as u8);
                    reserved.publish();
                    assert!(log.len() >= (ordinal + 1) * 24 && log.appends() > ordinal);
                }
            });
        }
        scope.spawn(|| {
            let mut seen = 0;
            while seen < THREADS * RECORDS {
                let len = log.len() / 24;
                assert!((seen..len).all(|n| is_whole(log.bytes(n * 24, 24))));
                seen = len;
            }
        });
    });
    assert_eq!(log.appends(), THREADS * RECORDS);
    assert!(log.reserve(11).unwrap().is_none(), "ten bytes are left");
    log.reserve(10).unwrap().expect("there is room").publish();
    log.sync().unwrap();
    let read = device.open_log("met").unwrap();
    assert_eq!((read.len(), read.appends()), (log.capacity(), 0));
    assert!(is_whole(read.bytes(THREADS * RECORDS * 24 - 24, 24)));
    assert_eq!(kind(read.reserve(1).map(|_| ())), ErrorKind::Unsupported);
}

/// Many readers borrow while one thread appends.
fn readers_see_whole_records<D: Device>(device: &D) {
    const RECORDS: u64 = 20_000;
    let log = device.create_log("shared", RECORDS * 16).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < RECORDS {
                    let len = log.len() / 16;
                    for n in seen..len {
                        let record = log.bytes(n * 16, 16);
                        assert_eq!(record[..8], n.to_le_bytes());
                        assert_eq!(record[8..], (!n).to_le_bytes());
                    }
                    seen = len;
                }
            });
        }
        for n in 0..RECORDS {
            log.append(&[&n.to_le_bytes(), &(!n).to_le_bytes()]).unwrap();
            if n % 5000 == 0 {
                log.sync().unwrap();
            }
        }
    });
}

fn suite<D: Device>(mut fresh: impl FnMut() -> D) {
    positions_and_growth(&fresh());
    truncation_and_allocation(&fresh());
    direct_blocks(&fresh());
    unaligned_direct_is_our_bug(&fresh());
    bursts(&fresh());
    bursts_at_once(&fresh());
    queues_are_bounded_and_may_be_dropped(&fresh());
    transfers(&fresh());
    transfers_outlive_their_file(fresh());
    names(&fresh());
    subdirectories(&fresh());
    links(&fresh(), &fresh());
    logs(&fresh());
    logs_reopened(&fresh());
    logs_reused(&fresh());
    counters(&fresh());
    readers_see_whole_records(&fresh());
    appends_that_meet_leave_no_gap(&fresh());
}

fn file_suite(parent: &Path, io: IoChoice) {
    let root = tempfile::tempdir_in(parent).unwrap();
    let mut count = 0;
    suite(|| {
        count += 1;
        let path = root.path().join(count.to_string());
        FileDevice::open(&path, DeviceOptions { create: true, io, ..DeviceOptions::default() })
            .unwrap()
    });
}

fn on_disk(io: IoChoice) {
    file_suite(Path::new(env!("CARGO_TARGET_TMPDIR")), io);
}

fn in_memory(io: IoChoice) {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        file_suite(shm, io);
    } else {
        println!("skipped: there is no /dev/shm here");
    }
}

#[test]
fn simulated() {
    suite(|| SimDevice::new(1, SimOptions::default()));
}

#[test]
fn auto_on_disk() {
    on_disk(IoChoice::Auto);
}

/// False, with a printed reason, where the kernel refuses io_uring.
fn has_uring() -> bool {
    let root = tempfile::tempdir().unwrap();
    let options = DeviceOptions { create: true, io: IoChoice::Uring, ..DeviceOptions::default() };
    match FileDevice::open(root.path(), options) {
        Ok(_) => true,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            println!("skipped: {e}");
            false
        }
    }
}

#[test]
fn uring_on_disk() {
    if has_uring() {
        on_disk(IoChoice::Uring);
    }
}

#[test]
fn uring_in_memory() {
    if has_uring() {
        in_memory(IoChoice::Uring);
    }
}

#[test]
fn threads_on_disk() {
    on_disk(IoChoice::Threads);
}

#[test]
fn buffered_on_disk() {
    on_disk(IoChoice::Buffered);
}

#[test]
fn auto_in_memory() {
    in_memory(IoChoice::Auto);
}

#[test]
fn threads_in_memory() {
    in_memory(IoChoice::Threads);
}

#[test]
fn buffered_in_memory() {
    in_memory(IoChoice::Buffered);
}
