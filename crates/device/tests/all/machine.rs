//! An emulated machine: its first file system, its start, what it says, its end.
//!
//! Kernel, modules and busybox lie in a directory that `cargo xtask dax` or `cargo xtask zoned`
//! filled. The machine is always emulated in software: whether the host has more is not asked.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What kernels of guests are told. The kernel counts the timer's interrupts while it turns in a
/// loop, and stops if there are too few: on a busy host an emulator in software gives so few.
pub(crate) const KERNEL_PARAMETERS: &str = "console=ttyS0 quiet panic=-1 no_timer_check";

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

/// Libraries of a program, by their paths.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().expect("ldd runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    listed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

/// The guest's first file system: what `vm` has, the script `init` and programs with their
/// libraries.
pub(crate) fn first_files(vm: &Path, init: &str, programs: &[(&str, PathBuf)]) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut put = |name: &str, mode: u32, bytes: &[u8]| {
        push_entry(&mut archive, name, mode, bytes);
    };
    let mut libraries: Vec<PathBuf> =
        programs.iter().flat_map(|(_, program)| libraries(program)).collect();
    libraries.sort_unstable();
    libraries.dedup();
    let mut directories: Vec<PathBuf> =
        ["bin", "proc", "sys", "dev", "mnt", "tmp", "modules"].map(PathBuf::from).into();
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
    put("init", 0o100_755, init.as_bytes());
    put("bin/busybox", 0o100_755, &fs::read(vm.join("busybox")).expect("busybox is there"));
    for (name, program) in programs {
        let bytes = fs::read(program).expect("the guest's program is built");
        put(&format!("bin/{name}"), 0o100_755, &bytes);
    }
    for library in &libraries {
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

/// A machine that runs. Dropping it cuts its power.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    step_limit: Duration,
}

impl Running {
    /// Starts a machine whose first serial line is the emulator's output.
    pub(crate) fn start(mut qemu: Command, step_limit: Duration) -> Self {
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
        Running { child, lines, said: Vec::new(), step_limit }
    }

    /// Everything that the guest has said.
    pub(crate) fn said(&self) -> &[String] {
        &self.said
    }

    /// What the guest says after one of these words. A guest that says nothing at all for as long
    /// as the limit hangs; one that goes on saying other things is slow.
    pub(crate) fn wait_for(&mut self, words: &[&str]) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(self.step_limit) else {
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

/// An example of this crate, which lies beside the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("a process knows its program");
    let profile = tests.parent().and_then(Path::parent).expect("tests lie in deps");
    profile.join("examples").join(name)
}
