//! What stores that are crates have in common: versions that were linked, and counters.

use silica::{Error, ErrorKind, Result};

const LOCK: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));

/// The version of the crate `name` that this crate was built with.
pub(crate) fn version(name: &str) -> Result<String> {
    locked(LOCK, env!("CARGO_PKG_NAME"), name).map(str::to_string).ok_or_else(|| {
        let message = format!("Cargo.lock does not tell the version of {name}; run cargo check");
        Error::new(ErrorKind::NotFound, message)
    })
}

/// The version of `name` that `user` depends on, by the text of a lock file.
fn locked<'a>(lock: &'a str, user: &str, name: &str) -> Option<&'a str> {
    let package = |wanted: &str| {
        let head = format!("name = \"{wanted}\"");
        lock.split("[[package]]").find(|package| package.lines().any(|line| line == head))
    };
    // A name that stands for several versions is followed by the one that is meant.
    let quoted = package(user)?.lines().map(|line| line.trim().trim_matches(['"', ',']));
    let mut words = quoted.map(|line| line.split(' '));
    let mut dependency =
        words.find_map(|mut words| (words.next() == Some(name)).then_some(words))?;
    match dependency.next() {
        Some(version) => Some(version),
        None => {
            let line = package(name)?.lines().find_map(|line| line.strip_prefix("version = "))?;
            Some(line.trim_matches('"'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"user\"\nversion = \"9.9.9\"\n\
                    dependencies = [\n \"a\",\n \"b 2.0.0\",\n]\n\n\
                    [[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        assert_eq!(locked(lock, "user", "a"), Some("1.0.0"));
        assert_eq!(locked(lock, "user", "b"), Some("2.0.0"));
        assert_eq!(locked(lock, "user", "c"), None);
        assert_eq!(locked(lock, "nobody", "a"), None);
        assert!(version("redb").unwrap().starts_with("4."));
        assert!(version("no-such-crate").is_err());
    }
}
