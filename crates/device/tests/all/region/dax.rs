//! Persistent memory behind a file system with DAX, in an emulated machine that is killed.
//!
//! The emulator has a module of persistent memory (NVDIMM) whose bytes are a file of ours. A guest
//! with Debian's kernel mounts a file system on it, maps a file, stores, flushes and fences; then
//! the emulator is killed and the guest started again. What was only in the guest's memory is gone.
//! An emulated processor has no cache that loses lines, so a missing flush is not found here but by
//! the twin of the region.
//!
//! `cargo xtask dax` prepares a directory with kernel, modules and busybox, and runs this with
//! `SILICA_DAX_VM` as its name. Without it the test says so and ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A guest that takes longer to do its step hangs: an idle machine boots it in 10 seconds.
const STEP_LIMIT: Duration = Duration::from_secs(180);
/// Bytes of the module. XFS wants more than 300 MiB.
const MODULE_BYTES: u64 = 400 << 20;
/// Where a module's blocks begin, behind what the kernel keeps about it.
const BLOCKS_AT: u64 = 2 << 20;

/// The guest's first program.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
for to in "proc /proc" "sysfs /sys" "devtmpfs /dev"; do
    set -- $to
    busybox mount -t $1 none $2
done
for module in libcrc32c libnvdimm nd_btt nd_pmem nfit xfs; do
    busybox insmod /modules/$module.ko
done
devices=/sys/bus/nd/devices
driver=/sys/bus/nd/drivers/nd_pmem
if [ -e $driver/namespace0.0 ]; then
    # A module that nobody used: its file systems get DAX from here on.
    echo namespace0.0 > $driver/unbind
    echo ram > $devices/pfn0.0/mode
    echo 2097152 > $devices/pfn0.0/align
    echo 6f9c3f6e-0d0c-4e3f-8f1b-5c1c5f7f0001 > $devices/pfn0.0/uuid
    echo namespace0.0 > $devices/pfn0.0/namespace
    echo pfn0.0 > $driver/bind
fi
set -- $(busybox sed 's/.*silica=//' /proc/cmdline | busybox tr , ' ')
if [ $1 = prepare ]; then
    echo SILICA PREPARED $(busybox cat /sys/block/pmem0/queue/dax)
else
    busybox mount -t $2 -o $3 /dev/pmem0 /mnt && /bin/dax_guest $1 /mnt
fi
echo SILICA END
busybox sleep 600
"#;

/// A file of the guest's first file system, as `cpio` has it (format "newc").
fn push_entry(archive: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]) {
    let is_directory = mode & 0o040_000 != 0;
    let fields = [1, mode, 0, 0, 1 + u32::from(is_directory), 0, bytes.len() as u32, 0, 0, 0, 0];
    archive.extend(b"070701");
    for field in fields.into_iter().chain([name.len() as u32 + 1, 0]) {
        archive.extend(format!("{field:08X}").bytes());
    }
    archive.extend(name.bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(bytes);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// The guest's first file system: what `vm` has, and a program with its libraries.
fn first_files(vm: &Path, program: &Path) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut put = |name: &str, mode: u32, bytes: &[u8]| {
        push_entry(&mut archive, name, mode, bytes);
    };
    let listed = Command::new("ldd").arg(program).output().expect("ldd runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let libraries: Vec<&Path> = libraries.map(Path::new).collect();
    let mut directories: Vec<PathBuf> =
        ["bin", "proc", "sys", "dev", "mnt", "modules"].map(PathBuf::from).into();
    for library in &libraries {
        let above = library.parent().expect("a library lies in a directory");
        let above = above.strip_prefix("/").expect("paths of libraries are absolute");
        directories.extend(above.ancestors().map(Path::to_path_buf));
    }
    directories.retain(|directory| !directory.as_os_str().is_empty());
    directories.sort_unstable();
    directories.dedup();
    for directory in directories {
        put(&directory.to_string_lossy(), 0o040_755, &[]);
    }
    put("init", 0o100_755, INIT.as_bytes());
    put("bin/busybox", 0o100_755, &fs::read(vm.join("busybox")).expect("busybox is there"));
    put("bin/dax_guest", 0o100_755, &fs::read(program).expect("the guest's program is built"));
    for library in libraries {
        let name = library.to_string_lossy();
        put(&name[1..], 0o100_755, &fs::read(library).expect("a library is there"));
    }
    for module in fs::read_dir(vm.join("modules")).expect("modules are there") {
        let module = module.expect("modules are there");
        let name = format!("modules/{}", module.file_name().to_string_lossy());
        put(&name, 0o100_644, &fs::read(module.path()).expect("a module is there"));
    }
    put("TRAILER!!!", 0, &[]);
    archive
}

/// A machine whose module of persistent memory is the file `module`.
struct Machine<'a> {
    vm: &'a Path,
    files: &'a Path,
    module: &'a Path,
    /// How far the platform's energy reaches: `mem-ctrl`, or `cpu` for its caches, too.
    domain: &'a str,
}

/// A machine that runs. Dropping it cuts its power.
struct Running {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Machine<'_> {
    fn start(&self, step: &str) -> Running {
        let module = self.module.display();
        let memory =
            format!("memory-backend-file,id=m0,share=on,mem-path={module},size={MODULE_BYTES}");
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg", "-cpu", "max", "-m", "512M,slots=2,maxmem=2G"]);
        qemu.arg("-machine").arg(format!("pc,nvdimm=on,nvdimm-persistence={}", self.domain));
        qemu.args(["-nographic", "-no-reboot", "-net", "none"]);
        qemu.arg("-kernel").arg(self.vm.join("vmlinuz")).arg("-initrd").arg(self.files);
        qemu.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 silica={step}"));
        qemu.args(["-object", &memory, "-device", "nvdimm,memdev=m0,id=n0"]);
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = qemu.spawn().expect("qemu starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_string();
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Running { child, lines, said: Vec::new() }
    }
}

impl Running {
    /// What the guest says after one of these words.
    fn wait_for(&mut self, words: &[&str]) -> String {
        let end = Instant::now() + STEP_LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("the guest said none of {words:?}, but {:#?}", self.said);
            };
            let found = words.iter().find(|word| line.contains(&format!("SILICA {word}")));
            self.said.push(line.clone());
            if let Some(word) = found {
                return line.split_once(*word).expect("it was found").1.trim().to_string();
            }
            let has_failed = ["SILICA FAILED", "SILICA END"].iter().any(|end| line.contains(end));
            assert!(!has_failed, "the guest said none of {words:?}, but {:#?}", self.said);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// The program that runs in the guest, beside the tests.
fn guest_program() -> PathBuf {
    let tests = std::env::current_exe().expect("a process knows its program");
    let profile = tests.parent().and_then(Path::parent).expect("tests lie in deps");
    profile.join("examples/dax_guest")
}

/// Makes a module with an empty file system.
fn format_module(machine: &Machine, kind: &str, options: &[&str]) {
    fs::File::create(machine.module).unwrap().set_len(MODULE_BYTES).unwrap();
    let has_dax = machine.start("prepare").wait_for(&["PREPARED"]);
    assert_eq!(has_dax, "1", "the kernel gives the module DAX");
    let blocks = machine.module.with_extension("blocks");
    fs::File::create(&blocks).unwrap().set_len(MODULE_BYTES - BLOCKS_AT).unwrap();
    run(Command::new(format!("mkfs.{kind}")).args(options).arg("-q").arg(&blocks));
    let mut copy = Command::new("dd");
    copy.arg(format!("if={}", blocks.display())).arg(format!("of={}", machine.module.display()));
    run(copy.args(["bs=2M", "seek=1", "conv=notrunc,sparse"]));
    fs::remove_file(blocks).unwrap();
}

/// Stores in a guest that is killed, and says what it said of the class, and what was left.
fn store_and_kill(machine: &Machine, mount: &str) -> (String, String) {
    let mut guest = machine.start(&format!("write,{mount}"));
    let class = guest.wait_for(&["CLASS"]);
    guest.wait_for(&["READY"]);
    drop(guest);
    let mut guest = machine.start(&format!("check,{mount}"));
    let left = guest.wait_for(&["WHOLE", "LOST"]);
    (class, left)
}

#[test]
fn what_was_fenced_on_persistent_memory_survives_a_machine() {
    let Some(vm) = std::env::var_os("SILICA_DAX_VM").map(PathBuf::from) else {
        eprintln!("skipped: no emulated machine with persistent memory; `cargo xtask dax` has one");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (files, module) = (dir.path().join("files"), dir.path().join("module"));
    fs::write(&files, first_files(&vm, &guest_program())).unwrap();
    let machine = |domain| Machine { vm: &vm, files: &files, module: &module, domain };
    let cases = [
        ("ext4", "dax=always", &["-b", "4096"][..], "mem-ctrl", "power writes lines back: true"),
        ("xfs", "dax=always", &["-m", "reflink=0"], "mem-ctrl", "power writes lines back: true"),
        ("ext4", "dax=always", &["-b", "4096"], "cpu", "power writes lines back: false"),
        // What shows that a killed machine loses what was not on its module.
        ("ext4", "dax=never", &["-b", "4096"], "mem-ctrl", "buffered writes lines back: false"),
    ];
    for (kind, option, format, domain, class) in cases {
        let machine = machine(domain);
        format_module(&machine, kind, format);
        let (found, left) = store_and_kill(&machine, &format!("{kind},{option}"));
        eprintln!("{kind}, {option}, {domain}: {found}; left: {left:?}");
        assert_eq!(found, format!("{class}, told before: true"));
        assert_eq!(left.is_empty(), option == "dax=always", "lost: {left}");
    }
}
