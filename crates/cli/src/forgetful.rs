//! Keyspaces in memory that keep no image: what a command writes to one goes when it ends.

use silica::{Error, ErrorKind, Keyspace, Registry, Result};
use silica_console::Global;

/// Refuses to create such a keyspace for a command that writes, before anything is created.
pub(crate) fn check_new(global: &Global) -> Result<()> {
    let Some(engine) = global.engine.as_deref().filter(|engine| *engine != silica::AUTO) else {
        return Ok(());
    };
    let set = global.set.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    if global.forget_at_exit || global.is_at_hand() || !Registry::builtin().forgets(engine, set)? {
        return Ok(());
    }
    let is_new = !global.directory().join("silica").exists() || {
        let store = global.open_options().create(false).open(global.directory())?;
        let is_new = store.existing(&global.keyspace)?.is_none();
        store.close()?;
        is_new
    };
    if is_new { Err(refusal(&global.keyspace, engine)) } else { Ok(()) }
}

/// Why a command does not write to such a keyspace.
pub(crate) fn refusal(keyspace: &str, engine: &str) -> Error {
    let message = format!(
        "keyspace '{keyspace}' is in memory (engine {engine}) and keeps no image, so what is \
         written would be forgotten when this command ends; give --set warm_restart=on, which \
         keeps an image at a clean stop, another --engine or --keyspace, or --forget-at-exit"
    );
    Error::new(ErrorKind::Config, message)
}

/// Says of such a keyspace, where a prompt turns to it, how long it lasts.
pub(crate) fn warn(keyspace: &Keyspace) {
    if !keyspace.is_kept_at_close() {
        eprintln!(
            "silica: keyspace '{}' is in memory and keeps no image: it is forgotten when this \
             process ends",
            keyspace.name()
        );
    }
}
