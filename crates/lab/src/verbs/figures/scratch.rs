//! Where figures that compare our own engines put their stores, and what they do with rounds.

use super::job::Job;
use silica::{Error, Result, is_writable};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// Memory that outlives the process, as a directory.
const MEMORY: &str = "/dev/shm";

/// Counters of bytes that engines write.
pub(super) const WRITTEN: [&str; 6] = [
    "log_bytes_written",
    "flush_bytes_written",
    "compaction_bytes_written",
    "conversion_bytes_written",
    "merge_bytes_written",
    "value_log_bytes_written",
];

/// A directory for stores, which goes with this.
pub(super) struct Scratch {
    path: PathBuf,
    is_in_memory: bool,
    next: Cell<u64>,
}

impl Scratch {
    /// Below the command's directory, or, if it is to be and can be, in memory.
    ///
    /// # Errors
    /// `Io` if the directory cannot be made.
    pub(super) fn new(job: &Job<'_>, in_memory: bool) -> Result<Scratch> {
        let is_in_memory = in_memory && is_writable(Path::new(MEMORY));
        let name = format!("silica-figures-{}", std::process::id());
        let path = if is_in_memory { Path::new(MEMORY).join(name) } else { job.scratch() };
        std::fs::create_dir_all(&path)
            .map_err(|e| Error::io(format!("creating {}", path.display()), e))?;
        Ok(Scratch { path, is_in_memory, next: Cell::new(0) })
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A directory that is not there yet.
    pub(super) fn next(&self) -> PathBuf {
        let number = self.next.get();
        self.next.set(number + 1);
        self.path.join(number.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is only untidy, and shows.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The median; 0 of none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median([3.0, 1.0, 9.0, 4.0]), 3.5);
        assert_eq!(median([]), 0.0);
    }
}
