//! The places of all commands and subcommands in one list, by which their calls are counted.

use super::{COMMANDS, Command, find};
use crate::calls::CommandList;
use std::sync::LazyLock;

/// Every command and subcommand; the commands first, in the table's order.
static ALL: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let subs = COMMANDS.iter().flat_map(|command| command.subs);
    COMMANDS.iter().chain(subs).map(|command| command.name).collect()
});

/// The commands whose calls are counted.
pub(crate) static LIST: LazyLock<CommandList> =
    LazyLock::new(|| CommandList { names: ALL.as_slice(), place_of: place });

/// The place of the command called `name`.
pub(crate) fn place(name: &str) -> Option<usize> {
    let first = COMMANDS.as_ptr().addr();
    match find(name.as_bytes()) {
        Some(found) => Some((std::ptr::from_ref(found).addr() - first) / size_of::<Command>()),
        None => ALL.iter().position(|known| *known == name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_place_of_its_own() {
        for (index, name) in ALL.iter().enumerate() {
            assert_eq!(place(name), Some(index), "{name}");
        }
        assert_eq!(place("none"), None);
    }
}
