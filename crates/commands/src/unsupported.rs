//! Commands of Redis that Silica does not have.

/// Every command of Redis up to 7.4 that no table here has.
const OTHERS: &[&str] = &["bgrewriteaof"];

/// True for the name of a command or subcommand that Redis has and Silica has not: rules about it
/// may stand in lists that were written for Redis.
pub(crate) fn is_known(name: &str) -> bool {
    let command = name.split_once('|').map_or(name, |(container, _)| container);
    OTHERS.contains(&command)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_command_that_is_there_is_among_them() {
        for command in crate::table::COMMANDS.iter() {
            assert!(!super::OTHERS.contains(&command.name), "{} is there", command.name);
        }
    }
}
