//! What processes and the machine hold in memory.

use std::path::PathBuf;

/// A process that the kernel is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The one that asks.
    This,
    /// Another, by its number.
    Other(u32),
}

impl Process {
    /// The file `name` that the kernel shows of the process.
    pub fn file(self, name: &str) -> PathBuf {
        match self {
            Process::This => PathBuf::from(format!("/proc/self/{name}")),
            Process::Other(pid) => PathBuf::from(format!("/proc/{pid}/{name}")),
        }
    }

    /// Starts a new measurement of the process's largest resident size, where the kernel allows it.
    pub fn reset_peak(self) {
        // Without it the peak is the one since the process began, which is only larger.
        let _ = std::fs::write(self.file("clear_refs"), "5");
    }

    /// Largest resident size since it began or [`Process::reset_peak`], in bytes; 0 where the
    /// process is gone.
    pub fn peak_bytes(self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// Resident bytes now.
    pub fn resident_bytes(self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Resident bytes that are not pages of files: what the process itself allocated.
    pub fn anonymous_bytes(self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    fn status_bytes(self, field: &str) -> u64 {
        let status = std::fs::read_to_string(self.file("status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix(field));
        let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok());
        kib.unwrap_or(0u64) * 1024
    }
}

/// Empties the kernel's page cache; false where that takes rights that the process has not.
/// Reads of tables bypass the cache anyway.
pub fn drop_page_cache() -> bool {
    std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_a_peak_above_the_anonymous_part() {
        let block = vec![1u8; 32 << 20];
        let this = Process::This;
        let anonymous = this.anonymous_bytes();
        assert!(anonymous > 16 << 20, "{anonymous} bytes, {}", block[77]);
        assert!(this.peak_bytes() >= anonymous && this.resident_bytes() >= 16 << 20);
    }

    #[test]
    fn a_process_is_told_of_by_its_number() {
        let block = vec![1u8; 8 << 20];
        let own = Process::Other(std::process::id());
        assert!(own.peak_bytes() > 4 << 20, "{} bytes, {}", own.peak_bytes(), block[77]);
        assert_eq!(Process::Other(u32::MAX).peak_bytes(), 0);
    }
}
