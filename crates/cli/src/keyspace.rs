//! `silica keyspace`.

use crate::args::KeyspaceCommand;
use serde_json::json;
use silica::{DEFAULT_ENGINE, Result};
use silica_console::{Global, Output};
use std::collections::BTreeMap;

/// Creates, drops or lists keyspaces.
pub(crate) fn run(global: &Global, command: &KeyspaceCommand, output: &mut Output) -> Result<()> {
    let creates = matches!(command, KeyspaceCommand::Create { .. });
    let store = global.open(creates)?;
    match command {
        KeyspaceCommand::Create { name } => {
            let engine = global.engine.as_deref().unwrap_or(DEFAULT_ENGINE);
            // Else the store was opened with these.
            let set = if global.is_at_hand() { global.pairs() } else { Vec::new() };
            let keyspace = store.create_keyspace(name, engine, &set)?;
            output.line(format!("created keyspace '{name}' with engine {engine}"))?;
            let is_kept = keyspace.is_kept_at_close();
            if !is_kept && !global.forget_at_exit {
                eprintln!(
                    "silica: keyspace '{name}' is in memory and keeps no image: each process that \
                     opens it finds it empty; drop it and create it with --set warm_restart=on \
                     to keep it at a clean stop"
                );
            }
            output.object().insert("kept_at_close".into(), is_kept.into());
            output.object().insert("created".into(), name.as_str().into());
        }
        KeyspaceCommand::Drop { name } => {
            store.drop_keyspace(name)?;
            output.line(format!("dropped keyspace '{name}' and what was in it"))?;
            output.object().insert("dropped".into(), name.as_str().into());
        }
        KeyspaceCommand::List => {
            let mut keyspaces = Vec::new();
            for info in store.keyspaces()? {
                let options = info.options.iter().map(|(name, value)| format!("{name}={value}"));
                let options = options.collect::<Vec<_>>().join(",");
                output.line(format!("{}\t{}\t{options}", info.name, info.engine))?;
                keyspaces.push(json!({
                    "name": info.name,
                    "engine": info.engine,
                    "options": info.options.into_iter().collect::<BTreeMap<_, _>>(),
                }));
            }
            output.object().insert("keyspaces".into(), keyspaces.into());
        }
    }
    store.close()
}
