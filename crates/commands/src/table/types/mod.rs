//! Commands on objects, type by type.

mod geo;
mod hash;
mod hyperloglog;
mod list;
mod set;
mod stream;
mod zset;

use super::Command;

/// The commands of each type, sorted by name.
pub(super) static ALL: &[&[Command]] = &[
    geo::COMMANDS,
    hash::COMMANDS,
    hyperloglog::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    stream::COMMANDS,
    zset::COMMANDS,
];
