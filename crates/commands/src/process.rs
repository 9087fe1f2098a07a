//! What the process uses, as the system tells it.

/// Open descriptors; 0 where the system does not tell.
pub(crate) fn open_descriptors() -> usize {
    // The listing itself has one open.
    std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count().saturating_sub(1))
}

/// Resident memory in bytes, now and at its peak; 0 where the system does not tell.
pub(crate) fn resident_bytes() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name| kib_of(&status, name) * 1024;
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

/// Memory of the process and of the system, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Taken by the process for itself: resident memory without pages of files, and memory in huge
    /// pages that the system had reserved.
    pub(crate) used: u64,
    /// Resident, files included; such huge pages too.
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    pub(crate) of_system: u64,
}

/// Memory, as the system tells it; 0 where it does not.
pub(crate) fn memory() -> Memory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let own = |name| kib_of(&status, name) * 1024;
    let huge = own("HugetlbPages:");
    Memory {
        used: own("RssAnon:") + own("RssShmem:") + huge,
        resident: own("VmRSS:") + huge,
        peak: own("VmHWM:") + huge,
        of_system: kib_of(&info, "MemTotal:") * 1024,
    }
}

/// The number of KiB behind `name` in a text of the system; 0 where there is none.
fn kib_of(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok());
    kib.unwrap_or(0)
}

/// The system's name, release and machine.
pub(crate) fn system() -> String {
    let part = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    let [name, release] = ["ostype", "osrelease"].map(|name| part(name).unwrap_or_default());
    format!("{} {} {}", name.trim(), release.trim(), std::env::consts::ARCH)
}

/// Seconds of the processors that the process took for itself and in the kernel; 0 where the
/// system does not tell.
pub(crate) fn cpu_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before the last parenthesis may have spaces; user and system time are the 14th and
    // the 15th field.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks = after.split_ascii_whitespace().skip(11).map(|field| field.parse().ok());
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut seconds = || ticks.next().flatten().map_or(0.0, |ticks: f64| ticks / per_second);
    (seconds(), seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells() {
        let before = open_descriptors();
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        // Other tests open and close some, too.
        assert!((3..100_000).contains(&before) && open_descriptors() > 3, "{file:?}");
        let (now, peak) = resident_bytes();
        assert!(0 < now && now <= peak + (1 << 20), "{now} {peak}");
        let Memory { used, resident, of_system, .. } = memory();
        assert!(0 < used && used < resident && resident < of_system, "{used} {resident}");
        assert_eq!(system().split(' ').count(), 3, "{}", system());
        let (mut sum, start) = (0_u64, cpu_seconds().0);
        while cpu_seconds().0 - start < 0.05 {
            sum = (0..100_000).fold(sum, |sum: u64, n| sum.wrapping_mul(31) ^ n);
        }
        assert_ne!(sum, 1);
    }
}
