//! What is refused before it is planned: what no server does, and what another one has to do.

use crate::agreement::Need;
use crate::burst::Args;
use crate::service::Service;
use crate::table::{Command, Run, Trait};

/// Commands whose outcome members of a group would not share.
const LOCAL: [&str; 5] =
    ["function|load", "function|delete", "function|flush", "function|restore", "silica.migrate"];

/// Refuses what another member of a group has to do, or what members do not share.
pub(super) fn refuse_apart(
    service: &Service,
    command: &Command,
    args: Args<'_>,
) -> Result<(), String> {
    let Some(agreement) = &service.options.agreement else { return Ok(()) };
    let is_script = matches!(command.run, Run::Script(..));
    if matches!(command.run, Run::Sql(..)) || LOCAL.contains(&command.name) {
        let name = command.name;
        return Err(format!("ERR '{name}' is not replicated, and refused by members of a group"));
    }
    let need = match () {
        () if command.has("write") || is_script || command.is(Trait::Watches) => Need::Write,
        () if command.has("readonly") => Need::Read,
        () => return Ok(()),
    };
    agreement.refuse(need, command.keys(args).next()).map_or(Ok(()), Err)
}
