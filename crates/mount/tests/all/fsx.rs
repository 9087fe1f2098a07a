//! Random calls on one file beside its contents in memory, after Apple's `fsx`: reads, writes,
//! truncation, holes, promises, and a look at every byte.

use super::Mount;
use silica_base::{Prng, test_size};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;

const FILE_BYTES: u64 = 256 << 10;
const CALL_BYTES: u64 = 64 << 10;

struct Fsx {
    file: File,
    path: std::path::PathBuf,
    expected: Vec<u8>,
    prng: Prng,
}

impl Fsx {
    fn range(&mut self) -> (u64, usize) {
        let offset = self.prng.below(FILE_BYTES);
        (offset, (1 + self.prng.below(CALL_BYTES.min(FILE_BYTES - offset))) as usize)
    }

    fn look(&self, offset: u64, len: usize, step: u64) {
        let mut bytes = vec![1; len];
        let read = self.file.read_at(&mut bytes, offset).unwrap();
        let from = (offset as usize).min(self.expected.len());
        let to = (from + len).min(self.expected.len());
        assert_eq!(read, to - from, "step {step}: bytes read at {offset}");
        assert!(bytes[..read] == self.expected[from..to], "step {step}: bytes at {offset}");
    }

    fn call(&mut self, step: u64) {
        let (offset, len) = self.range();
        let (from, to) = (offset as usize, offset as usize + len);
        match self.prng.below(10) {
            0..=3 => {
                let mut bytes = vec![0; len];
                self.prng.fill(&mut bytes);
                self.file.write_all_at(&bytes, offset).unwrap();
                let grown = self.expected.len().max(to);
                self.expected.resize(grown, 0);
                self.expected[from..to].copy_from_slice(&bytes);
            }
            4..=6 => self.look(offset, len, step),
            7 => {
                self.file.set_len(offset).unwrap();
                self.expected.resize(from, 0);
            }
            8 => self.fallocate(&["--punch-hole", "--keep-size"], offset, len, |expected| {
                let end = expected.len();
                expected[from.min(end)..to.min(end)].fill(0);
            }),
            _ => self.file.sync_all().unwrap(),
        }
        if step.is_multiple_of(100) {
            self.fallocate(&[], offset, len, |expected| {
                let grown = expected.len().max(to);
                expected.resize(grown, 0);
            });
            self.look(0, FILE_BYTES as usize, step);
        }
    }

    /// Calls the program: the standard library has no such call. It may be missing.
    fn fallocate(
        &mut self,
        how: &[&str],
        offset: u64,
        len: usize,
        change: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut command = Command::new("fallocate");
        command.args(how).args(["--offset", &offset.to_string(), "--length", &len.to_string()]);
        if command.arg(&self.path).status().is_ok_and(|status| status.success()) {
            change(&mut self.expected);
        }
    }
}

#[test]
fn one_file_is_what_was_written_to_it() {
    let Some(mut mount) = Mount::new(64) else { return };
    for seed in 0..test_size(1, 2, 20) {
        let path = mount.path().join(format!("file{seed}"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).unwrap();
        let mut fsx = Fsx { file, path, expected: Vec::new(), prng: Prng::new(seed) };
        for step in 0..test_size(1000, 3000, 20_000) {
            fsx.call(step);
        }
        let Fsx { file, path, expected, .. } = fsx;
        drop(file);
        mount.unmount();
        mount.mount().unwrap();
        assert!(std::fs::read(&path).unwrap() == expected, "after a remount");
        std::fs::remove_file(&path).unwrap();
    }
    mount.end();
}
