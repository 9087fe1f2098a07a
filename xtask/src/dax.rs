//! An emulated machine with persistent memory, for the test of `silica-device` that kills it.

use crate::machine::Machine;
use crate::step::{Steps, cargo};
use std::path::Path;
use std::time::Duration;

/// The kernel is the one for emulated machines.
const MACHINE: Machine = Machine {
    programs: &[
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("mkfs.ext4", "e2fsprogs"),
        ("mkfs.xfs", "xfsprogs"),
        ("dpkg-deb", "dpkg"),
    ],
    kernel: "linux-image-cloud-amd64",
    modules: &["libcrc32c", "libnvdimm", "nd_btt", "nd_pmem", "nfit", "xfs"],
};

/// Four file systems of two boots each and their preparation take 2 minutes on an idle machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// The step alone.
pub fn run(root: &Path) -> bool {
    let mut steps = Steps::new(root);
    step(&mut steps);
    steps.close()
}

/// What was fenced on persistent memory survives a machine; skipped if the packages cannot be had.
pub fn step(steps: &mut Steps) {
    let name = "persistent memory with DAX in an emulated machine";
    let vm = steps.target().join("xtask/dax");
    match MACHINE.prepare(&vm) {
        Err(why) => steps.skip(name, &why),
        Ok(()) => {
            let guest = ["build", "-p", "silica-device", "--example", "dax_guest"];
            if !steps.command("build of the guest's program", &mut cargo(&guest), LIMIT) {
                return;
            }
            let filter = "region::dax::";
            let mut test = cargo(&["test", "-p", "silica-device", filter, "--", "--nocapture"]);
            test.env("SILICA_DAX_VM", vm.canonicalize().unwrap_or(vm));
            steps.tests(name, &mut test, LIMIT);
        }
    }
}
