//! What the system lets the process take: open files, and space of addresses.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open descriptors as far as this user may: stores keep their tables open, a
/// connection takes one, too, and many systems start programs with a limit of 1024.
pub fn allow_many_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => log::debug!("descriptors: {current:?} were allowed, now {maximum:?}"),
        Err(error) => log::warn!("no more than {current:?} descriptors are allowed: {error}"),
    }
}

/// Descriptors that the process may still open; `None` if nothing limits them.
pub fn descriptors_left() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile).current?;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    Some(limit.saturating_sub(open))
}

/// Bytes of addresses that the process may still map; `None` if nothing limits them.
pub fn address_space_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mapped = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kib: u64 = mapped.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(limit.saturating_sub(kib << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_allowed_as_may_be() {
        allow_many_descriptors();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        let left = descriptors_left();
        assert!(left < current || current.is_none(), "some are open: {left:?} of {current:?}");
    }
}
