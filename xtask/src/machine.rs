//! Emulated machines: Debian's kernel, modules of it and busybox in one directory, for tests of
//! `silica-device` that stop or kill the machine.

use crate::setup::{install, is_there};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a machine is made of.
pub struct Machine {
    /// Programs of this machine, and the Debian packages that have them.
    pub programs: &'static [(&'static str, &'static str)],
    /// The package that depends on the newest kernel.
    pub kernel: &'static str,
    /// Modules of the kernel that the guest loads. Those that they need come with them.
    pub modules: &'static [&'static str],
}

impl Machine {
    /// Fills the directory with `vmlinuz`, `modules/*.ko`, `modules/order` (one name a line, what
    /// a module needs before it) and `busybox`; why it cannot be filled otherwise.
    pub fn prepare(&self, vm: &Path) -> Result<(), String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("the guest's kernel is for x86-64".into());
        }
        for (program, package) in self.programs.iter().filter(|wanted| !is_there(wanted.0)) {
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
        unpack_kernel(self.kernel, vm, &unpacked)?;
        let files = files_below(&unpacked);
        let is_kernel = |file: &&PathBuf| name_of(file).starts_with("vmlinuz-");
        let kernel = files.iter().find(is_kernel).ok_or("the package has no kernel")?;
        copy(kernel, &vm.join("vmlinuz"))?;
        self.copy_modules(&files, &vm.join("modules"))?;
        let _ = fs::remove_dir_all(&unpacked);
        // The last one: with it the directory is whole.
        copy(&program("busybox").ok_or("busybox is missing")?, &vm.join("busybox"))
    }

    fn copy_modules(&self, files: &[PathBuf], to: &Path) -> Result<(), String> {
        fs::create_dir(to).map_err(|e| e.to_string())?;
        let mut order = Vec::new();
        for module in self.modules {
            copy_module(module, files, to, &mut order)?;
        }
        fs::write(to.join("order"), order.join("\n") + "\n").map_err(|e| e.to_string())
    }
}

/// Copies a module behind those that it needs.
fn copy_module(
    name: &str,
    files: &[PathBuf],
    to: &Path,
    order: &mut Vec<String>,
) -> Result<(), String> {
    let name = name.replace('-', "_");
    if order.contains(&name) {
        return Ok(());
    }
    let is_it = |file: &&PathBuf| {
        let file = name_of(file);
        file.split_once(".ko").is_some_and(|(stem, _)| stem.replace('-', "_") == name)
    };
    let from = files.iter().find(is_it);
    let from = from.ok_or_else(|| format!("the kernel's package has no module {name}"))?;
    let copied = to.join(format!("{name}.ko"));
    copy(from, &copied)?;
    let bytes = fs::read(&copied).map_err(|e| e.to_string())?;
    for needed in needs(&bytes) {
        copy_module(&needed, files, to, order)?;
    }
    order.push(name);
    Ok(())
}

/// Modules that a module needs, as its own words `depends=` say.
fn needs(module: &[u8]) -> Vec<String> {
    let words = module.split(|byte| *byte == 0);
    let depends = words.filter_map(|word| word.strip_prefix(b"depends="));
    let names = depends.flat_map(|names| names.split(|byte| *byte == b','));
    names.map(|name| String::from_utf8_lossy(name).into_owned()).filter(|n| !n.is_empty()).collect()
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Gets the kernel's package and unpacks it.
fn unpack_kernel(kernel: &str, vm: &Path, unpacked: &Path) -> Result<(), String> {
    let missing = |_| format!("the package {kernel} cannot be had");
    let depends = output(Command::new("apt-cache").args(["depends", kernel])).map_err(missing)?;
    let image = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with("linux-image-"))
        .ok_or_else(|| format!("the package {kernel} cannot be had; run `apt-get update`"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_say_what_they_need() {
        let module = b"\x7fELF\0license=GPL\0depends=scsi_mod,crc-t10dif\0intree=Y\0";
        assert_eq!(needs(module), ["scsi_mod", "crc-t10dif"]);
        assert!(needs(b"depends=\0intree=Y\0").is_empty());
    }

    #[test]
    fn a_module_comes_behind_those_that_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let module = |name: &str, words: &str| {
            let path = dir.path().join(name);
            fs::write(&path, words).unwrap();
            path
        };
        let files = [
            module("nvme-core.ko", "\0depends=t10-pi\0"),
            module("t10_pi.ko", "\0depends=\0"),
            module("nvme.ko", "\0depends=nvme-core\0"),
        ];
        let machine =
            Machine { programs: &[], kernel: "", modules: &["nvme", "t10-pi", "nvme_core"] };
        let to = dir.path().join("modules");
        machine.copy_modules(&files, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("order")).unwrap(), "t10_pi\nnvme_core\nnvme\n");
        let missing = Machine { modules: &["xfs"], ..machine };
        let said = missing.copy_modules(&files, &dir.path().join("other")).unwrap_err();
        assert!(said.contains("no module xfs"), "{said}");
    }
}
