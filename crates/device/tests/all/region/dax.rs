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

use crate::machine::{KERNEL_PARAMETERS, Running, example, first_files};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A guest that is silent for longer hangs: an idle machine boots it in 10 seconds.
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

/// A machine whose module of persistent memory is the file `module`.
struct Machine<'a> {
    vm: &'a Path,
    files: &'a Path,
    module: &'a Path,
    /// How far the platform's energy reaches: `mem-ctrl`, or `cpu` for its caches, too.
    domain: &'a str,
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
        qemu.arg("-append").arg(format!("{KERNEL_PARAMETERS} silica={step}"));
        qemu.args(["-object", &memory, "-device", "nvdimm,memdev=m0,id=n0"]);
        Running::start(qemu, STEP_LIMIT)
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
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
    let guest = ("dax_guest", example("dax_guest"));
    fs::write(&files, first_files(&vm, INIT, &[guest])).unwrap();
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
