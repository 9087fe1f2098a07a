//! What `fsync` and `rename` promised outlives the death of `silica mount`, and what is left behind
//! is named with the way out.
//!
//! Reaches the process layer, as `kill.rs` does: SIGKILL loses what the process held. Power cuts
//! are the part of `crates/lfs/tests/all/crash.rs`.

use crate::kill::seed;
use crate::support::{arg, said, scratch, silica, silica_ok};
use silica_base::{Prng, test_size};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 2;
/// Files that a writer replaces and unlinks.
const FILES: u64 = 12;
const FILE_BYTES_MAX: u64 = 60_000;
const RECORD_BYTES: usize = 100;
/// Small enough that segments are collected while the test runs.
const IMAGE: &str = "40MiB";
/// Longest time for a mount, and for writers to get on.
const LIMIT: Duration = Duration::from_secs(60);

/// A `silica mount` as a child process; dropping it leaves no mount behind.
struct Mount {
    child: Child,
    at: PathBuf,
}

impl Mount {
    fn spawn(image: &Path, at: &Path) -> Mount {
        let mut command = silica(&["mount", arg(image), arg(at)]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Mount { child: child.expect("the binary starts"), at: at.to_path_buf() }
    }

    /// Waits until the kernel knows the mount; what the program said if it ended before.
    fn wait(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let outside = fs::metadata(self.at.parent().expect("a parent")).expect("there").dev();
        while fs::metadata(&self.at).map_or(true, |inside| inside.dev() == outside) {
            if self.child.try_wait().expect("own child").is_some() {
                let mut text = String::new();
                let errors = self.child.stderr.as_mut().expect("piped");
                let _ = io::Read::read_to_string(errors, &mut text);
                return Err(text);
            }
            assert!(start.elapsed() < LIMIT, "the mount does not come");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn kill(&mut self) {
        // Both fail only if the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it in order.
    fn end(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "the mount died before it was told to end");
        let ended = self.child.wait().expect("own child");
        assert!(ended.success(), "a mount that was told to end: {ended}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.kill();
        free(&self.at);
    }
}

/// Takes away a mount point whose process has ended, as the message of `silica mount` says.
fn free(at: &Path) {
    let by_root = Command::new("umount").args(["-l", arg(at)]).stderr(Stdio::null()).status();
    if !by_root.is_ok_and(|status| status.success()) {
        let mut helper = Command::new("fusermount3");
        let _ = helper.args(["-u", "-z", arg(at)]).stderr(Stdio::null()).status();
    }
}

/// Files of one writer by number with their version, and how many records its log has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tree {
    files: BTreeMap<u64, u64>,
    records: u64,
}

/// One thread that writes into a directory of its own.
struct Writer {
    number: u64,
    prng: Prng,
    next: u64,
    /// States of the directory, oldest first. The first is durable; a later one may be found if
    /// none before it was.
    states: VecDeque<Tree>,
}

impl Writer {
    fn new(number: u64, seed: u64) -> Self {
        let states = VecDeque::from([Tree::default()]);
        Writer { number, prng: Prng::new(seed ^ (number << 40)), next: 1, states }
    }

    fn directory(&self, root: &Path) -> PathBuf {
        root.join(format!("w{}", self.number))
    }

    /// Writes until the file system is gone. `syncs` counts what was promised.
    fn write(&mut self, root: &Path, syncs: &AtomicU64) {
        let directory = self.directory(root);
        while self.step(&directory, syncs).is_ok() {}
    }

    fn step(&mut self, directory: &Path, syncs: &AtomicU64) -> io::Result<()> {
        let (number, is_synced) = (self.prng.below(FILES), self.prng.one_in(2));
        let name = directory.join(format!("f{number}"));
        let mut after = self.states.back().expect("never empty").clone();
        match self.prng.below(8) {
            0 if after.files.remove(&number).is_some() => {
                self.states.push_back(after);
                fs::remove_file(name)?;
            }
            0..=2 => {
                let record = record(self.number, after.records);
                after.records += 1;
                self.states.push_back(after);
                let mut options = OpenOptions::new();
                let mut log = options.append(true).create(true).open(directory.join("log"))?;
                log.write_all(&record)?;
            }
            _ => {
                let version = self.next;
                self.next += 1;
                let temporary = directory.join("temporary");
                let mut file = File::create(&temporary)?;
                file.write_all(&contents(self.number, number, version))?;
                file.sync_all()?;
                self.promised(syncs);
                after.files.insert(number, version);
                self.states.push_back(after);
                fs::rename(temporary, name)?;
            }
        }
        if is_synced {
            File::open(directory)?.sync_all()?;
            self.promised(syncs);
        }
        Ok(())
    }

    /// A sync returned: all that was done before is durable.
    fn promised(&mut self, syncs: &AtomicU64) {
        self.states.drain(..self.states.len() - 1);
        syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Compares what is there with the states that may be.
    fn check(&mut self, root: &Path, context: &str) {
        let found = self.found(root, context);
        let is_allowed = self.states.contains(&found);
        assert!(is_allowed, "{context}, writer {}: {found:?} of {:?}", self.number, self.states);
        self.states = VecDeque::from([found]);
    }

    fn found(&self, root: &Path, context: &str) -> Tree {
        let mut tree = Tree::default();
        for entry in fs::read_dir(self.directory(root)).expect("the directory was synced") {
            let path = entry.expect("listed").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_string();
            let bytes = fs::read(&path).expect("what is listed can be read");
            if let Some(number) = name.strip_prefix('f') {
                let number = number.parse().expect("a number");
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
                let version = text.split(':').nth(2).and_then(|word| word.parse().ok());
                let version = version.unwrap_or_else(|| panic!("{context}: {name} is {text:?}"));
                let is_whole = bytes == contents(self.number, number, version);
                assert!(is_whole, "{context}: {name}, {} bytes of {text}", bytes.len());
                tree.files.insert(number, version);
            } else if name == "log" {
                tree.records = (bytes.len() / RECORD_BYTES) as u64;
                let all: Vec<u8> =
                    (0..tree.records).flat_map(|at| record(self.number, at)).collect();
                assert!(bytes == all, "{context}: a log of {} bytes", bytes.len());
            }
        }
        tree
    }
}

fn contents(writer: u64, number: u64, version: u64) -> Vec<u8> {
    let mut bytes = format!("{writer}:{number}:{version}:").into_bytes();
    let mut prng = Prng::new(version << 8 | number);
    let len = bytes.len() as u64 + prng.below(FILE_BYTES_MAX);
    bytes.resize_with(len as usize, || prng.below(256) as u8);
    bytes
}

fn record(writer: u64, at: u64) -> Vec<u8> {
    let mut bytes = format!("{writer} has record {at}").into_bytes();
    bytes.resize(RECORD_BYTES, b'.');
    bytes
}

/// Kills the mount after `syncs_min` promises while all writers are at work.
fn write_and_kill(mount: &mut Mount, writers: &mut [Writer], syncs_min: u64) -> u64 {
    let (syncs, root) = (AtomicU64::new(0), mount.at.clone());
    std::thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| writer.write(&root, &syncs));
        }
        let start = Instant::now();
        while syncs.load(Ordering::Relaxed) < syncs_min && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_micros(100));
        }
        mount.kill();
    });
    let syncs = syncs.into_inner();
    assert!(syncs >= syncs_min, "{syncs} syncs of {syncs_min} in {LIMIT:?}");
    syncs
}

/// What `silica mount` says of a mount point whose process has ended.
fn refused_at_stale_point(image: &Path, at: &Path) {
    let output = silica(&["mount", arg(image), arg(at)]).output().expect("it runs");
    let told = said(&output);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("umount -l") && told.contains("has ended"), "{told}");
}

#[test]
fn what_was_synced_outlives_the_process_of_a_mount() {
    let directory = scratch("mount-kill");
    let (image, at) = (directory.join("image"), directory.join("mount"));
    // One that an earlier run left behind.
    free(&at);
    fs::create_dir_all(&at).expect("made");
    silica_ok(&["lfs", "create", arg(&image), "--size", IMAGE]);
    let mut first = Mount::spawn(&image, &at);
    if let Err(told) = first.wait() {
        eprintln!("skipped: no mount by FUSE here: {told}");
        return;
    }
    let seed = seed();
    let mut writers: Vec<Writer> = (0..WRITERS).map(|n| Writer::new(n, seed)).collect();
    for writer in &writers {
        fs::create_dir(writer.directory(&at)).expect("made");
    }
    File::open(&at).and_then(|root| root.sync_all()).expect("synced");
    first.end();

    let (mut prng, mut promised) = (Prng::new(seed), 0);
    let cycles = test_size(2, 4, 40);
    for cycle in 0..cycles {
        let context = format!("cycle {cycle} (SILICA_SEED={seed})");
        if prng.one_in(3) {
            // Opening is interrupted, too.
            let _mount = Mount::spawn(&image, &at);
            std::thread::sleep(Duration::from_micros(prng.below(30_000)));
        }
        let mut mount = Mount::spawn(&image, &at);
        mount.wait().unwrap_or_else(|told| panic!("{context}: {told}"));
        writers.iter_mut().for_each(|writer| writer.check(&at, &context));
        promised += write_and_kill(&mut mount, &mut writers, 20 + prng.below(200));
        if cycle == 0 {
            refused_at_stale_point(&image, &at);
        }
        drop(mount);
        let checked = silica(&["lfs", "check", arg(&image)]).output().expect("it runs");
        assert!(checked.status.success(), "{context}: {}", said(&checked));
    }
    let mut mount = Mount::spawn(&image, &at);
    mount.wait().expect("it mounts");
    writers.iter_mut().for_each(|writer| writer.check(&at, "at the end"));
    mount.end();
    silica_ok(&["lfs", "check", arg(&image)]);
    println!("{cycles} kills, {promised} syncs that returned");
    let _ = fs::remove_dir_all(&directory);
}
