//! What only real directories do: locks, refusals, errors of the operating system.

use silica_base::{AlignedBuf, ErrorKind};
use silica_device::{
    Device, DeviceFile, DeviceOptions, FileDevice, IoChoice, Lifetime, LogFile, Mode, PlainFile,
    Read, ReadQueue, Transfer,
};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn kind<T>(result: silica_base::Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

fn text<T>(result: silica_base::Result<T>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn open(path: &Path) -> silica_base::Result<FileDevice> {
    FileDevice::open(path, DeviceOptions::default())
}

/// Log lines that this thread wrote.
struct Lines;

static LINES: Mutex<Vec<(std::thread::ThreadId, String)>> = Mutex::new(Vec::new());

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = (std::thread::current().id(), record.args().to_string());
        LINES.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}

/// Lines that `run` logs.
fn lines_of(run: impl FnOnce()) -> Vec<String> {
    let _ = log::set_logger(&Lines);
    log::set_max_level(log::LevelFilter::Info);
    let here = std::thread::current().id();
    LINES.lock().unwrap().retain(|(thread, _)| *thread != here);
    run();
    let lines = LINES.lock().unwrap();
    lines.iter().filter(|(thread, _)| *thread == here).map(|(_, line)| line.clone()).collect()
}

#[test]
fn one_process_at_a_time() {
    let dir = tempdir();
    let device = open(dir.path()).unwrap();
    let second = open(dir.path());
    assert_eq!(kind(second), ErrorKind::Locked);
    let pid = format!("in use by process {}; stop it", std::process::id());
    assert!(text(open(dir.path())).contains(&pid));

    // Any file keeps the lock, and so does a subdirectory.
    let file = device.create("f", Mode::Buffered).unwrap();
    let sub = device.subdirectory("s").unwrap();
    drop(device);
    assert_eq!(kind(open(dir.path())), ErrorKind::Locked);
    drop(file);
    assert_eq!(kind(open(dir.path())), ErrorKind::Locked);
    drop(sub);
    std::fs::write(dir.path().join("LOCK"), "a note that stayed behind, longer than a pid")
        .unwrap();
    let again = open(dir.path()).unwrap();
    assert!(text(open(dir.path())).contains(&pid));
    assert_eq!(again.list().unwrap(), ["f"]);
}

#[test]
fn a_lock_that_is_removed_or_replaced_still_holds() {
    let dir = tempdir();
    let device = open(dir.path()).unwrap();
    let lock = dir.path().join("LOCK");
    std::fs::remove_file(&lock).unwrap();
    for _ in 0..2 {
        let refused = open(dir.path());
        assert!(text(refused).contains("is in use by another process; stop it"));
    }
    std::fs::write(dir.path().join("other"), "4711").unwrap();
    std::fs::rename(dir.path().join("other"), &lock).unwrap();
    assert_eq!(kind(open(dir.path())), ErrorKind::Locked);
    drop(device);
    open(dir.path()).unwrap();
}

#[test]
fn errors_name_the_path_and_the_fix() {
    let dir = tempdir();
    let missing = dir.path().join("missing");
    let options = DeviceOptions { create: false, io: IoChoice::Auto, ..DeviceOptions::default() };
    let error = FileDevice::open(&missing, options);
    assert!(text(error).contains("missing"));
    assert_eq!(kind(FileDevice::open(&missing, options)), ErrorKind::NotFound);
    std::fs::write(&missing, "a file").unwrap();
    assert!(text(open(&missing)).contains("missing"));
}

#[test]
fn refused_permission_names_the_fix() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write everywhere");
        return;
    }
    let error = text(open(Path::new("/proc/1/store")));
    assert!(error.contains("/proc/1") && error.contains("needs read and write access"), "{error}");
}

#[test]
fn a_full_disk_and_a_failed_sync_are_told() {
    let dir = tempdir();
    symlink("/dev/full", dir.path().join("full")).unwrap();
    let device = open(dir.path()).unwrap();
    let file = device.open("full", Mode::Buffered).unwrap();
    assert_eq!(kind(file.write_at(0, b"x")), ErrorKind::Full);
    assert!(text(file.write_at(0, b"x")).contains("free some space"));

    // That device cannot be synced, so this is a real failed sync. It stays failed.
    assert_eq!(kind(file.sync()), ErrorKind::Io);
    assert_eq!(kind(file.sync()), ErrorKind::Poisoned);
    let again = device.open("full", Mode::Buffered).unwrap();
    assert_eq!(kind(again.sync()), ErrorKind::Poisoned);
    assert_eq!(device.counters().snapshot().syncs, 0);
    assert_eq!(device.counters().snapshot().writes, 0);
}

#[test]
fn a_transfer_that_fails_says_so_and_gives_its_buffer_back() {
    let dir = tempdir();
    symlink("/dev/full", dir.path().join("full")).unwrap();
    // Nothing is mapped at the beginning of a process's memory.
    symlink("/proc/self/mem", dir.path().join("mem")).unwrap();
    let device = open(dir.path()).unwrap();
    let before = device.counters().snapshot();
    let filled = || {
        let mut buf = AlignedBuf::zeroed(8192);
        buf.fill(7);
        buf
    };
    let full = device.open("full", Mode::Buffered).unwrap();
    let (buf, written) = full.begin_write(0, filled()).wait();
    assert_eq!(buf[..], [7; 8192]);
    assert!(text(written).contains("free some space"));
    drop(full.begin_write(0, filled()));
    let memory = device.open("mem", Mode::Buffered).unwrap();
    let (buf, read) = memory.begin_read(0, filled()).wait();
    assert_eq!((buf.len(), kind(read)), (8192, ErrorKind::Io));
    // What did not happen is not counted, and others go on.
    let after = device.counters().snapshot();
    assert_eq!((after.writes, after.reads), (before.writes, before.reads));
    // What was to become durable and did not is final, whoever asks.
    let (buf, synced) = full.begin_write_and_sync(0, filled()).wait();
    assert_eq!(buf[..], [7; 8192]);
    assert!(text(synced).contains("cannot write and sync"));
    assert_eq!(kind(full.sync()), ErrorKind::Poisoned);
    let (_, synced) = full.begin_write_and_sync(0, AlignedBuf::zeroed(0)).wait();
    assert_eq!(kind(synced), ErrorKind::Poisoned);
    let good = device.create("good", Mode::Buffered).unwrap();
    let (_, written) = good.begin_write(8192, filled()).wait();
    assert_eq!((written.unwrap(), good.len().unwrap()), (8192, 16384));
}

/// Blocks of the first `bytes` of a file that are in the page cache.
fn cached_blocks(path: &Path, bytes: usize) -> usize {
    let file = std::fs::File::open(path).unwrap();
    let map = memmap2::MmapOptions::new().len(bytes).map_raw_read_only(&file).unwrap();
    let mut found = vec![0; bytes.div_ceil(4096)];
    // SAFETY: the range is mapped, and there is a byte for each of its pages.
    let result = unsafe { libc::mincore(map.as_mut_ptr().cast(), bytes, found.as_mut_ptr()) };
    assert_eq!(result, 0);
    found.iter().filter(|page| **page & 1 == 1).count()
}

#[test]
fn a_log_that_wakes_is_read_into_the_page_cache() {
    const BYTES: usize = 5 << 20;
    let dir = tempdir();
    let device = open(dir.path()).unwrap();
    let log = device.create_log("LOG-1", BYTES as u64).unwrap();
    log.append(&[&vec![9; BYTES]]).unwrap();
    log.sync().unwrap();
    drop(log);
    let log = device.open_log("LOG-1").unwrap();
    let path = dir.path().join("LOG-1");
    let advice = rustix::fs::Advice::DontNeed;
    rustix::fs::fadvise(std::fs::File::open(&path).unwrap(), 0, None, advice).unwrap();
    if cached_blocks(&path, BYTES) > 0 {
        println!("skipped: this file system keeps all files in memory");
        return;
    }
    log.wake();
    // The device's threads end what they were asked for before it is gone.
    drop(log);
    drop(device);
    assert_eq!(cached_blocks(&path, BYTES), BYTES / 4096);
}

#[test]
fn pages_of_a_log_are_there_a_little_ahead_of_what_is_appended() {
    const CAPACITY: usize = 16 << 20;
    let dir = tempdir();
    let device = open(dir.path()).unwrap();
    let log = device.create_log("LOG-1", CAPACITY as u64).unwrap();
    let path = dir.path().join("LOG-1");
    let there = || cached_blocks(&path, CAPACITY);
    if there() > 0 {
        println!("skipped: this file system makes pages when it reserves space");
        return;
    }
    // Little was appended, so that a sync finds no pages that it need not write.
    log.append(&[&[1; 100]]).unwrap();
    assert_eq!(there(), 1);
    // Of much more, a part is there before anybody asks, and appends find it.
    log.append(&[&vec![2; 1 << 20]]).unwrap();
    let (used, ahead) = (256 + 1, there());
    assert!(ahead >= used + 30 && ahead <= used + 64, "{ahead} of {used} used");
    for n in 0..30 {
        assert_eq!(there(), ahead, "after {n} more");
        log.append(&[&[3; 4096]]).unwrap();
    }
    assert_eq!(log.bytes(100 + (1 << 20) + 29 * 4096, 4096), [3; 4096]);
}

#[test]
fn space_that_is_not_there_is_not_reserved() {
    let dir = tempdir();
    let device = open(dir.path()).unwrap();
    let too_much = device.free_bytes().unwrap() + (1 << 40);
    assert_eq!(kind(device.create_log("l", too_much)), ErrorKind::Full);
    assert!(device.list().unwrap().is_empty(), "a log that failed leaves no file");
    let file = device.create("f", Mode::Buffered).unwrap();
    assert_eq!(kind(file.allocate(too_much)), ErrorKind::Full);
    file.write_at(0, b"still fine").unwrap();
}

#[test]
fn refused_direct_io_falls_back_with_one_line() {
    let dir = tempdir();
    for name in ["a", "b"] {
        // A file system that knows no direct I/O.
        symlink("/proc/self/comm", dir.path().join(name)).unwrap();
    }
    let lines = lines_of(|| {
        let device = open(dir.path()).unwrap();
        for name in ["a", "b"] {
            let file = device.open(name, Mode::Direct).unwrap();
            let mut buf = AlignedBuf::zeroed(4096);
            assert!(file.read_at(0, &mut buf).unwrap() > 0);
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("refuses direct I/O"));
}

#[test]
fn links_cross_file_systems() {
    if !Path::new("/dev/shm").is_dir() {
        println!("skipped: there is no /dev/shm here");
        return;
    }
    let (disk, memory) = (tempdir(), tempfile::tempdir_in("/dev/shm").unwrap());
    let (disk, memory) = (open(disk.path()).unwrap(), open(memory.path()).unwrap());
    let file = disk.create("f", Mode::Buffered).unwrap();
    file.write_at(0, &[5; 100_000]).unwrap();
    disk.link_into("f", &memory, "g").unwrap();
    let copy = memory.open("g", Mode::Buffered).unwrap();
    let mut bytes = vec![0; 100_001];
    assert_eq!(copy.read_at(0, &mut bytes).unwrap(), 100_000);
    assert!(bytes[..100_000].iter().all(|b| *b == 5));
    assert_eq!(kind(disk.link_into("f", &memory, "g")), ErrorKind::Io);
    assert_eq!(copy.len().unwrap(), 100_000, "a refused copy leaves the file alone");
}

#[test]
fn a_log_is_readable_after_the_device_was_opened_anew() {
    let dir = tempdir();
    let device = open(dir.path()).unwrap();
    let log = device.create_log("l", 1 << 20).unwrap();
    for n in 0..1000u32 {
        log.append(&[&n.to_le_bytes(), &[9; 96]]).unwrap();
    }
    drop((log, device));
    let log = open(dir.path()).unwrap().open_log("l").unwrap();
    for n in 0..1000 {
        assert_eq!(log.bytes(n * 100, 4), (n as u32).to_le_bytes());
    }
    assert_eq!(log.bytes(100_000, 8), [0; 8]);
}

/// The directory in which a child of this test process dies, if this is such a child.
const DYING: &str = "SILICA_TEST_DYING_IN";

#[test]
fn appended_bytes_outlive_the_process() {
    if let Some(path) = std::env::var_os(DYING) {
        let device = open(Path::new(&path)).unwrap();
        let log = device.create_log("l", 1 << 20).unwrap();
        let file = device.create("f", Mode::Direct).unwrap();
        for n in 0..5000u32 {
            log.append(&[&n.to_le_bytes(), &[9; 96]]).unwrap();
        }
        let mut block = AlignedBuf::zeroed(4096);
        block.fill(3);
        file.write_at(0, &block).unwrap();
        // As with kill -9: no destructor runs, nothing is synced.
        std::process::abort();
    }
    let dir = tempdir();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "file::appended_bytes_outlive_the_process"]).env(DYING, dir.path());
    assert!(!child.output().unwrap().status.success());
    let device = open(dir.path()).expect("the lock dies with its process");
    let log = device.open_log("l").unwrap();
    for n in 0..5000 {
        assert_eq!(log.bytes(n * 100, 4), (n as u32).to_le_bytes());
    }
    let mut block = AlignedBuf::zeroed(4096);
    device.open("f", Mode::Direct).unwrap().read_at(0, &mut block).unwrap();
    assert!(block.iter().all(|b| *b == 3));
}

/// Makes io_uring fail with EPERM for the calling thread and its children, as sandboxes do.
fn forbid_uring() {
    let statement =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, ret) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        statement(load, 0, 0, 0),
        statement(equal, libc::SYS_io_uring_setup as u32, 0, 1),
        statement(ret, refuse, 0, 0),
        statement(ret, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls only change this thread; `program` and `filter` outlive the second.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

/// A burst of 40 reads, all of which must succeed.
fn burst(device: &FileDevice, file: &Arc<PlainFile>) {
    let mut reads = device.reads(20);
    let end = |filled: silica_base::Result<usize>| assert_eq!(filled.unwrap(), 4096);
    for n in 0..40 {
        if reads.is_full() {
            end(reads.pop().unwrap().1);
        }
        let buf = AlignedBuf::zeroed(4096);
        reads.push(Read { of: file.clone(), offset: n * 4096, buf });
    }
    while let Some((_, filled)) = reads.pop() {
        end(filled);
    }
}

#[test]
fn an_error_in_the_middle_of_a_burst_stays_with_its_read() {
    for io in [IoChoice::Auto, IoChoice::Threads, IoChoice::Buffered] {
        let dir = tempdir();
        let device = FileDevice::open(
            dir.path(),
            DeviceOptions { create: true, io, ..DeviceOptions::default() },
        )
        .unwrap();
        // No page of this process is at address 0, so reading it fails.
        symlink("/proc/self/mem", dir.path().join("bad")).unwrap();
        let bad = Arc::new(device.open("bad", Mode::Buffered).unwrap());
        let good = Arc::new(device.create("good", Mode::Buffered).unwrap());
        good.write_at(0, &[7; 100]).unwrap();
        let mut reads = device.reads(9);
        for n in 0..9 {
            let of = if n == 4 { bad.clone() } else { good.clone() };
            reads.push(Read { of, offset: 0, buf: AlignedBuf::zeroed(200) });
        }
        let mut failed = 0;
        while let Some((read, filled)) = reads.pop() {
            if Arc::ptr_eq(&read.of, &bad) {
                let error = filled.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io);
                assert!(error.to_string().contains("bad"), "{error}");
                failed += 1;
            } else {
                assert_eq!(filled.unwrap(), 100);
                assert_eq!(read.buf[..100], [7; 100]);
            }
        }
        assert_eq!(failed, 1, "{io:?}");
    }
}

/// A device with a ring and a pipe in it, which gives its bytes when they are written.
fn pipe() -> Option<(tempfile::TempDir, FileDevice, Arc<PlainFile>)> {
    let dir = tempdir();
    let options = DeviceOptions { create: true, io: IoChoice::Uring, ..DeviceOptions::default() };
    let Ok(device) = FileDevice::open(dir.path(), options) else {
        println!("skipped: io_uring is refused here");
        return None;
    };
    let path = std::ffi::CString::new(dir.path().join("pipe").to_str().unwrap()).unwrap();
    // SAFETY: the path is a string that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let file = Arc::new(device.open("pipe", Mode::Buffered).unwrap());
    Some((dir, device, file))
}

#[test]
fn short_reads_of_a_ring_go_on() {
    let Some((dir, device, file)) = pipe() else { return };
    let mut reads = device.reads(2);
    for _ in 0..2 {
        reads.push(Read { of: file.clone(), offset: 0, buf: AlignedBuf::zeroed(4) });
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in 0..8 {
                std::fs::write(dir.path().join("pipe"), [byte]).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let mut seen = Vec::new();
        while let Some((read, filled)) = reads.pop() {
            assert_eq!(filled.unwrap(), 4);
            seen.extend_from_slice(&read.buf);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn a_dropped_queue_waits_for_what_the_kernel_may_still_write_to() {
    let Some((dir, device, file)) = pipe() else { return };
    let written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut reads = device.reads(20);
        for _ in 0..20 {
            reads.push(Read { of: file.clone(), offset: 0, buf: AlignedBuf::zeroed(1) });
        }
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            written.store(true, Ordering::Release);
            std::fs::write(dir.path().join("pipe"), [1; 20]).unwrap();
        });
        drop(reads);
        assert!(written.load(Ordering::Acquire), "the reads could not have ended before");
    });
    // The ring is as good as new.
    let good = device.create("good", Mode::Buffered).unwrap();
    good.write_at(0, &[0; 40 * 4096]).unwrap();
    burst(&device, &Arc::new(good));
}

#[test]
fn refused_uring_falls_back_to_threads_with_one_line() {
    let dir = tempdir();
    let uring = DeviceOptions { create: true, io: IoChoice::Uring, ..DeviceOptions::default() };
    let rings = FileDevice::open(&dir.path().join("probe"), uring).is_ok();
    let before = open(&dir.path().join("before")).unwrap();
    let file = Arc::new(before.create("f", Mode::Direct).unwrap());
    file.write_at(0, &AlignedBuf::zeroed(40 * 4096)).unwrap();
    // The filter holds for one thread only.
    let refused = || {
        forbid_uring();
        let path = dir.path().join("after");
        assert_eq!(kind(FileDevice::open(&path, uring)), ErrorKind::Unsupported);
        let lines = lines_of(|| {
            let after = open(&path).unwrap();
            let file = Arc::new(after.create("f", Mode::Direct).unwrap());
            file.write_at(0, &AlignedBuf::zeroed(40 * 4096)).unwrap();
            burst(&after, &file);
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("io_uring is refused"), "{lines:?}");

        // A device that found a ring earlier, used by a thread that gets none.
        let lines = lines_of(|| {
            burst(&before, &file);
            burst(&before, &file);
        });
        assert_eq!(lines.len(), usize::from(rings), "{lines:?}");
    };
    std::thread::scope(|scope| scope.spawn(refused).join().unwrap());
}

#[test]
fn logs_may_lie_in_another_directory() {
    let dir = tempdir();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let create = |device: &FileDevice, name: &str| {
        let log = device.create_log(name, 4096).unwrap();
        log.append(&[b"record"]).unwrap();
        log.sync().unwrap();
        device.sync_dir().unwrap();
    };
    let device = open(&here).unwrap().put_logs(&there).unwrap();
    create(&device, "LOG-1");
    device.create("TABLE-1", Mode::Buffered).unwrap();
    assert!(there.join("LOG-1").exists() && here.join("TABLE-1").exists());
    assert!(!here.join("LOG-1").exists());
    assert_eq!(device.list().unwrap(), ["LOG-1", "TABLE-1"]);
    assert!(device.subdirectories().unwrap().is_empty());
    drop(device);

    // Found again, also where the directory was moved.
    let moved = dir.path().join("moved");
    std::fs::rename(&here, &moved).unwrap();
    let device = open(&moved).unwrap();
    assert_eq!(device.open_log("LOG-1").unwrap().bytes(0, 6), b"record");
    device.remove("LOG-1").unwrap();
    create(&device, "LOG-2");
    assert_eq!(device.list().unwrap(), ["LOG-2", "TABLE-1"]);
    assert!(text(device.put_logs(&there)).contains("has files already"));

    // Not for a copy, not for another one, and not where the device is missing.
    let copied = std::process::Command::new("cp").arg("-a").args([&moved, &here]).status();
    assert!(copied.unwrap().success());
    assert!(text(open(&here)).contains("copy a store with `silica backup`"));
    let other = open(&dir.path().join("other")).unwrap();
    assert!(text(other.put_logs(&there)).contains("logs need a directory of their own"));
    let away = dir.path().join("away");
    std::fs::rename(&there, &away).unwrap();
    assert!(text(open(&moved)).contains("which is not there; mount its device"));
    std::fs::rename(&away, &there).unwrap();

    std::fs::write(there.join("notes"), "of somebody").unwrap();
    assert!(silica_device::remove_directory(&moved).is_err(), "what is not ours stays");
    std::fs::remove_file(there.join("notes")).unwrap();
    silica_device::remove_directory(&moved).unwrap();
    assert!(!moved.exists() && !there.exists());
}

/// The kernel's hint for a file.
fn hint(path: &Path) -> std::io::Result<u64> {
    use std::os::fd::AsRawFd;
    const F_GET_RW_HINT: libc::c_int = 1024 + 11;
    let file = std::fs::File::open(path)?;
    let mut hint = u64::MAX;
    // SAFETY: the descriptor is open, and the kernel writes eight bytes to `hint`.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &raw mut hint) };
    if result == 0 { Ok(hint) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn the_kernel_is_told_how_long_files_stay() {
    let dir = tempdir();
    let device = open(dir.path()).unwrap();
    if !device.takes_lifetimes() {
        eprintln!("skipped: this kernel takes no hints");
        return;
    }
    let plain = device.create("plain", Mode::Buffered).unwrap();
    plain.write_at(0, &[1; 100]).unwrap();
    let mut expected = [0; 3];
    for (lifetime, told) in Lifetime::ALL.into_iter().zip([2, 3, 5]) {
        let name = format!("{told}");
        let file = device.create(&name, Mode::Buffered).unwrap().with_lifetime(lifetime);
        file.write_at(0, &[2; 1000]).unwrap();
        let more = file.begin_write(1000, AlignedBuf::zeroed(told * 10));
        more.wait().1.unwrap();
        expected[lifetime as usize] = 1000 + told as u64 * 10;
        assert_eq!(hint(&dir.path().join(name)).unwrap(), told as u64);
    }
    let log = device.create_log("LOG-1", 1 << 16).unwrap();
    log.append(&[&[3; 50]]).unwrap();
    expected[Lifetime::Short as usize] += 50;
    assert_eq!(hint(&dir.path().join("LOG-1")).unwrap(), 2);
    let log = device.reuse_log(log, "LOG-1", "LOG-2").unwrap();
    log.append(&[&[4; 7]]).unwrap();
    expected[Lifetime::Short as usize] += 7;
    assert_eq!(hint(&dir.path().join("LOG-2")).unwrap(), 2);
    assert_eq!(hint(&dir.path().join("plain")).unwrap(), 0);
    let counted = device.counters().snapshot();
    assert_eq!(counted.bytes_of_lifetime, expected);
    assert_eq!(counted.bytes_written, 100 + expected.iter().sum::<u64>());
    drop((plain, log, device));
    let only_read = DeviceOptions { read_only: true, ..DeviceOptions::default() };
    assert!(!FileDevice::open(dir.path(), only_read).unwrap().takes_lifetimes());
}
