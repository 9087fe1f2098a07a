//! How many files the process may have open.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_allowed_as_may_be() {
        allow_many_descriptors();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
