//! What the process and the machine hold in memory.

/// Starts a new measurement of the process's largest resident size, where the kernel allows it.
pub fn reset_peak() {
    // Without it the peak is the one since the process began, which is only larger.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Largest resident size of the process since it began or [`reset_peak`], in bytes.
pub fn peak_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// Resident bytes that are not pages of files: what the process itself allocated.
pub fn anonymous_bytes() -> u64 {
    status_bytes("RssAnon:")
}

fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(field));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
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
        assert!(anonymous_bytes() > 16 << 20, "{} bytes, {}", anonymous_bytes(), block[77]);
        assert!(peak_bytes() >= anonymous_bytes());
    }
}
