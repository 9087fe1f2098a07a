//! The machine, as `environment.json` names it.

use crate::results::Machine;
use crate::usage;
use silica::{Error, Result};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine, and the device under `directory`.
pub fn describe(directory: &Path) -> Machine {
    let (file_system, device) = mount(directory);
    Machine {
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory_field("MemTotal"),
        kernel: format!(
            "{} {}",
            line("/proc/sys/kernel/ostype"),
            line("/proc/sys/kernel/osrelease")
        ),
        file_system,
        device,
        directory: directory.display().to_string(),
        memory_limit: String::new(),
    }
}

/// Reads through mappings and the page cache fetch so much around what is asked for.
const READ_AHEAD_KIB_USUAL: u64 = 128;

/// What a reader must know of the device under `directory`.
pub(crate) fn warning(directory: &Path) -> Option<String> {
    let (major, minor) = usage::device_of(directory)?;
    let path = format!("/sys/dev/block/{major}:{minor}/queue/read_ahead_kb");
    read_ahead_warning(line(&path).parse().ok()?)
}

fn read_ahead_warning(kib: u64) -> Option<String> {
    (kib > READ_AHEAD_KIB_USUAL).then(|| {
        format!(
            "the device reads ahead {kib} KiB, usual are {READ_AHEAD_KIB_USUAL}: stores that read \
             through mappings fetch as much for each miss; set queue/read_ahead_kb lower to \
             compare them as they usually run"
        )
    })
}

/// Memory that can be had without pushing others out.
pub(crate) fn memory_available() -> u64 {
    memory_field("MemAvailable")
}

/// Bytes that can be written below `directory`.
pub(crate) fn disk_available(directory: &Path) -> Result<u64> {
    let space = rustix::fs::statvfs(directory).map_err(|e| {
        Error::io(format!("asking for the free space at {}", directory.display()), e.into())
    })?;
    Ok(space.f_bavail * space.f_frsize)
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

/// The value of the first line `name : value`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn memory_field(name: &str) -> u64 {
    let value = field("/proc/meminfo", name).unwrap_or_default();
    let kib = value.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Type of the file system that holds `directory`, and what it lies on.
fn mount(directory: &Path) -> (String, String) {
    let unknown = || ("unknown".to_string(), "unknown".to_string());
    let Some((major, minor)) = usage::device_of(directory) else { return unknown() };
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let number = format!("{major}:{minor}");
    let found = text.lines().find(|line| line.split(' ').nth(2) == Some(&number));
    let Some((_, behind)) = found.and_then(|line| line.split_once(" - ")) else {
        return unknown();
    };
    let mut fields = behind.split(' ');
    let kind = fields.next().unwrap_or("unknown").to_string();
    let source = fields.next().unwrap_or("unknown");
    let model = line(&format!("/sys/dev/block/{number}/device/model"));
    let model = if model.is_empty() { String::new() } else { format!(" ({model})") };
    (kind, format!("{source}{model}, {number}"))
}

/// Now, in UTC: `2026-01-31 12:00:00`.
pub fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    date_of(now)
}

fn date_of(unix_seconds: u64) -> String {
    let (days, rest) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years begin in March here, so that the leap day is the last one.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(date_of(0), "1970-01-01 00:00:00");
        assert_eq!(date_of(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date_of(951_868_800), "2000-03-01 00:00:00");
        assert_eq!(date_of(1_709_251_199), "2024-02-29 23:59:59");
        assert_eq!(date_of(4_102_444_800), "2100-01-01 00:00:00");
    }

    #[test]
    fn long_read_ahead_is_told() {
        assert_eq!(read_ahead_warning(128), None);
        assert!(read_ahead_warning(8192).unwrap().contains("8192 KiB"));
    }

    #[test]
    fn the_machine_is_known() {
        let machine = describe(Path::new("."));
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(machine.kernel.len() > 3 && !machine.cpu.is_empty(), "{machine:?}");
        assert!(disk_available(Path::new(".")).unwrap() > 0 && memory_available() > 0);
    }
}
