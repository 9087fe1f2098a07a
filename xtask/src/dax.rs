//! An emulated machine with persistent memory: Debian's kernel, its modules and busybox in one
//! directory, for the test of `silica-device` that kills the machine.

use crate::setup::{install, is_there};
use crate::step::{Steps, cargo};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Programs of this machine, and the Debian packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("dpkg-deb", "dpkg"),
];

/// The package that depends on the newest kernel for emulated machines.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Modules of the kernel that the guest loads.
const MODULES: &[&str] = &["libcrc32c", "libnvdimm", "nd_btt", "nd_pmem", "nfit", "xfs"];

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
    match prepare(&vm) {
        Err(why) => steps.skip(name, &why),
        Ok(()) => {
            let filter = "region::dax::";
            // Without `--test`, cargo builds the program of the guest, too, which is an example.
            let mut test = cargo(&["test", "-p", "silica-device", filter, "--", "--nocapture"]);
            test.env("SILICA_DAX_VM", vm.canonicalize().unwrap_or(vm));
            steps.tests(name, &mut test, LIMIT);
        }
    }
}

/// Fills the directory; why it cannot be filled otherwise.
fn prepare(vm: &Path) -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the guest's kernel is for x86-64".into());
    }
    for (program, package) in PROGRAMS.iter().filter(|wanted| !is_there(wanted.0)) {
        install(&[package]);
        if !is_there(program) {
            return Err(format!("{program} is missing: install the package {package}"));
        }
    }
    if vm.join("busybox").is_file() {
        return Ok(());
    }
    let unpacked = vm.join("unpacked");
    let _ = fs::remove_dir_all(vm);
    fs::create_dir_all(&unpacked).map_err(|e| e.to_string())?;
    unpack_kernel(vm, &unpacked)?;
    fs::create_dir(vm.join("modules")).map_err(|e| e.to_string())?;
    let files = files_below(&unpacked);
    let found = |start: &str| {
        let named = |file: &&PathBuf| {
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
        };
        files.iter().find(named).ok_or_else(|| format!("the kernel's package has no {start}"))
    };
    copy(found("vmlinuz-")?, &vm.join("vmlinuz"))?;
    for module in MODULES {
        let to = vm.join("modules").join(format!("{module}.ko"));
        copy(found(&format!("{module}.ko"))?, &to)?;
    }
    let _ = fs::remove_dir_all(&unpacked);
    // The last one: with it the directory is whole.
    copy(&program("busybox").ok_or("busybox is missing")?, &vm.join("busybox"))
}

/// Gets the kernel's package and unpacks it.
fn unpack_kernel(vm: &Path, unpacked: &Path) -> Result<(), String> {
    let missing = |_| format!("the package {KERNEL} cannot be had");
    let depends = output(Command::new("apt-cache").args(["depends", KERNEL])).map_err(missing)?;
    let image = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with("linux-image-"))
        .ok_or_else(|| format!("the package {KERNEL} cannot be had; run `apt-get update`"))?;
    let mut download = Command::new("apt-get");
    download.args(["download", image]).current_dir(vm);
    output(&mut download).map_err(|_| format!("the package {image} cannot be had"))?;
    let is_package = |file: &&PathBuf| file.extension().is_some_and(|end| end == "deb");
    let files = files_below(vm);
    let package = files.iter().find(is_package).ok_or("apt-get download left nothing")?;
    output(Command::new("dpkg-deb").arg("-x").arg(package).arg(unpacked))?;
    fs::remove_file(package).map_err(|e| e.to_string())
}

/// All files of a directory and below.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

/// Copies a file; a module that is compressed is expanded.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |why: String| format!("{}: {why}", from.display());
    fs::copy(from, to).map_err(|e| failed(e.to_string()))?;
    if from.extension().is_some_and(|end| end == "xz") {
        let expanded = Command::new("xz").arg("-dc").arg(from).output();
        let expanded = expanded.map_err(|e| failed(e.to_string()))?;
        fs::write(to, expanded.stdout).map_err(|e| failed(e.to_string()))?;
    }
    Ok(())
}

/// Where a program lies.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
