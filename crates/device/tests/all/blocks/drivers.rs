//! The kernel's drivers of drives with zones, in an emulated machine: NVMe with zoned namespaces,
//! `null_blk` and `scsi_debug`.
//!
//! On each the whole suite runs, and a cache that is killed and has to be right. On the NVMe drive
//! the machine itself is stopped at once (as by its reset button): the emulator keeps the drive,
//! everything else of the machine is gone. The other two drives live in the machine's memory, so
//! there the process is killed.
//!
//! `cargo xtask zoned` prepares a directory with kernel, modules and busybox, and runs this with
//! `SILICA_ZONED_VM` as its name. Without it the test says so and ends.

use crate::machine::{KERNEL_PARAMETERS, Running, example, first_files};
use silica_base::test_size;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A guest that is silent for longer hangs.
const STEP_LIMIT: Duration = Duration::from_secs(240);
/// Bytes of a drive. Its zones have 1 MiB.
const DRIVE_BYTES: u64 = 32 << 20;
/// Bytes of the disk whose files outlive the machine.
const DISK_BYTES: u64 = 64 << 20;

/// The guest's first program.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in $(cat /modules/order); do
    case $module in
        null_blk) parameters="nr_devices=0" ;;
        scsi_debug)
            parameters="zbc=host-managed dev_size_mb=32 delay=0"
            parameters="$parameters zone_size_mb=1 zone_nr_conv=2 zone_max_open=4"
            ;;
        *) parameters= ;;
    esac
    insmod /modules/$module.ko $parameters || echo SILICA FAILED module $module
done
mount -t configfs none /sys/kernel/config
null=/sys/kernel/config/nullb/nullb0
mkdir $null
settings="size=32 blocksize=512 memory_backed=1 zoned=1"
for setting in $settings zone_size=1 zone_nr_conv=2 zone_max_open=4 power=1; do
    echo ${setting#*=} > $null/${setting%=*}
done
while [ -z "$(grep -l host-managed /sys/block/sd*/queue/zoned 2>/dev/null)" ]; do sleep 1; done
scsi=$(basename $(dirname $(dirname $(grep -l host-managed /sys/block/sd*/queue/zoned))))
mount -t ext4 /dev/nvme0n3 /mnt || echo SILICA FAILED mount
stops=$(cat /mnt/stops 2>/dev/null || echo 0)
echo SILICA BOOT $stops
mkdir -p /mnt/crash/files

# What is said of a drive, the suite on it, a process that is killed on it.
suite() {
    zone_manners /dev/$1
    SILICA_TESTS=ci SILICA_ZONED_DEVICE=/dev/$1 tests $2 --ignored --test-threads=1
    echo SILICA SUITE $1 $?
}
# A cache in the background, once it found what it has to find.
begun() {
    rm -f /tmp/said
    zoned_guest /dev/$1 $2 600 > /tmp/said 2>&1 &
    guest=$!
    until grep -qs WHOLE /tmp/said; do
        kill -0 $guest || break
        sleep 0.2
    done
    cat /tmp/said
}
killed() {
    mkdir -p /tmp/$1/files
    for round in KILLS; do
        begun $1 /tmp/$1
        sleep $round
        kill -9 $guest
        wait $guest
    done
    zoned_guest /dev/$1 /tmp/$1 1
    echo SILICA KILLED $1 $?
}
if [ $stops = 0 ]; then
    suite nvme0n2 kernel_zones_are_closed
    for drive in nullb0 $scsi nvme0n1; do
        suite $drive kernel_zones
    done
    killed nullb0
    killed $scsi
fi
if [ $stops -lt STOPS ]; then
    echo $((stops + 1)) > /mnt/stops
    sync
    begun nvme0n1 /mnt/crash
    sleep $((stops + 2))
    echo SILICA STOP $stops
    echo b > /proc/sysrq-trigger
    sleep 600
fi
zoned_guest /dev/nvme0n1 /mnt/crash 1
echo SILICA KILLED nvme0n1 $?
echo SILICA END
sleep 600
"#;

/// A drive of the emulator, whose bytes are a file.
fn drive(qemu: &mut Command, id: &str, file: &Path, bytes: u64) {
    if !file.exists() {
        fs::File::create(file).unwrap().set_len(bytes).unwrap();
    }
    qemu.arg("-drive").arg(format!("file={},id={id},format=raw,if=none", file.display()));
}

fn machine(vm: &Path, dir: &Path, files: &Path) -> Command {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1G"]);
    qemu.args(["-nographic", "-net", "none"]);
    qemu.arg("-kernel").arg(vm.join("vmlinuz")).arg("-initrd").arg(files);
    qemu.args(["-append", KERNEL_PARAMETERS]);
    qemu.args(["-device", "nvme,id=nvme0,serial=silica"]);
    let zones = "zoned=true,zoned.zone_size=1M,logical_block_size=512,physical_block_size=512";
    drive(&mut qemu, "many", &dir.join("many"), DRIVE_BYTES);
    let many = "zoned.zone_capacity=768K,zoned.max_open=4,zoned.max_active=30";
    qemu.arg("-device").arg(format!("nvme-ns,drive=many,bus=nvme0,nsid=1,{zones},{many}"));
    drive(&mut qemu, "few", &dir.join("few"), DRIVE_BYTES);
    let few = "zoned.max_open=3,zoned.max_active=5";
    qemu.arg("-device").arg(format!("nvme-ns,drive=few,bus=nvme0,nsid=2,{zones},{few}"));
    drive(&mut qemu, "disk", &dir.join("disk"), DISK_BYTES);
    qemu.args(["-device", "nvme-ns,drive=disk,bus=nvme0,nsid=3"]);
    qemu
}

/// The programs of the guest: those of this crate, and the cache that is killed.
fn programs() -> Vec<(&'static str, PathBuf)> {
    vec![
        ("tests", std::env::current_exe().expect("a process knows its program")),
        ("zone_manners", example("zone_manners")),
        ("zoned_guest", example("zoned_guest")),
    ]
}

#[test]
fn the_suite_and_a_killed_cache_pass_on_the_kernels_drivers() {
    let Some(vm) = std::env::var_os("SILICA_ZONED_VM").map(PathBuf::from) else {
        eprintln!("skipped: no emulated machine with zones; `cargo xtask zoned` has one");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("files");
    // Times that the machine is stopped, and seconds after which a process is killed.
    let stops = test_size(2, 2, 10);
    let kills = test_size(1, 1, 10);
    let seconds: Vec<_> = (2..2 + kills).map(|seconds| seconds.to_string()).collect();
    let init = INIT.replace("STOPS", &stops.to_string()).replace("KILLS", &seconds.join(" "));
    fs::write(&files, first_files(&vm, &init, &programs())).unwrap();
    let disk = dir.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(DISK_BYTES).unwrap();
    let made = Command::new("mkfs.ext4").arg("-q").arg(&disk).output().expect("mkfs.ext4 starts");
    assert!(made.status.success(), "{made:?}");
    let mut guest = Running::start(machine(&vm, dir.path(), &files), STEP_LIMIT);
    let mut passed = 0;
    let words = ["SUITE", "KILLED", "BOOT", "STOP"];
    while passed < 4 + 3 {
        let said = guest.wait_for(&words);
        if let Some((drive, code)) = said.split_once(' ') {
            assert_eq!(code, "0", "{drive}: {:#?}", guest.said());
            passed += 1;
        }
    }
    let said = |word: &str| guest.said().iter().filter(|line| line.contains(word)).count() as u64;
    assert_eq!((said("SILICA BOOT"), said("CRASH END")), (1 + stops, 3));
    assert_eq!(said("CRASH WHOLE"), 2 * (1 + kills) + 1 + stops, "{:#?}", guest.said());
    for line in guest.said() {
        if ["MANNERS", "CRASH", "test result"].iter().any(|word| line.contains(word)) {
            eprintln!("{line}");
        }
    }
}
