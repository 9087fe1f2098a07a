//! An emulated machine with the kernel's drivers of drives with zones, for the test of
//! `silica-device` that runs its suite on them and stops the machine.

use crate::machine::Machine;
use crate::setup::is_there;
use crate::step::{Steps, cargo};
use std::path::Path;
use std::time::Duration;

/// The usual kernel: the one for emulated machines lacks two of the drivers. The checksums are what
/// other modules ask for by name only.
const MACHINE: Machine = Machine {
    programs: &[
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("mkfs.ext4", "e2fsprogs"),
        ("dpkg-deb", "dpkg"),
    ],
    kernel: "linux-image-amd64",
    modules: &[
        "crct10dif_generic",
        "crc64_rocksoft_generic",
        "crc32c_generic",
        "null_blk",
        "nvme",
        "sd_mod",
        "scsi_debug",
        "ext4",
    ],
};

/// Programs of the guest beside the tests: crates and their examples.
const GUESTS: [(&str, &str); 2] =
    [("silica-device", "zone_manners"), ("silica-dida", "zoned_guest")];

const NAME: &str = "drives with zones in an emulated machine";

/// Three boots, the suite on three drives and eight runs of a cache take a minute on an idle
/// machine; the long run boots eleven times.
const LIMIT: Duration = Duration::from_secs(1800);

/// The step alone.
pub fn run(root: &Path) -> bool {
    let mut steps = Steps::new(root);
    step(&mut steps);
    steps.close()
}

/// The step of the checks that main must pass: skipped if it would have to install the emulator.
pub fn step_if_there(steps: &mut Steps) {
    let missing = MACHINE.programs.iter().find(|(program, _)| !is_there(program));
    match missing {
        Some((program, _)) => {
            steps.skip(NAME, &format!("{program} is missing: `cargo xtask zoned` installs it"));
        }
        None => step(steps),
    }
}

/// Flash and a cache on the kernel's drivers; skipped if the packages cannot be had.
pub fn step(steps: &mut Steps) {
    let vm = steps.target().join("xtask/zoned");
    if let Err(why) = MACHINE.prepare(&vm) {
        return steps.skip(NAME, &why);
    }
    for (of, example) in GUESTS {
        let guest = ["build", "-p", of, "--example", example];
        if !steps.command(&format!("build of {example}"), &mut cargo(&guest), LIMIT) {
            return;
        }
    }
    let filter = "blocks::drivers::";
    let mut test = cargo(&["test", "-p", "silica-device", filter, "--", "--nocapture"]);
    test.env("SILICA_ZONED_VM", vm.canonicalize().unwrap_or(vm));
    steps.tests(NAME, &mut test, LIMIT);
}
