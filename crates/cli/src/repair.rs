//! `silica repair`: salvages what is intact of a damaged store.

use crate::args::Global;
use crate::output::Output;
use serde_json::json;
use silica::{KeyspaceRepair, Result};
use std::path::PathBuf;

/// Repairs the store in `directory`, or in --path.
pub(crate) fn run(global: &Global, directory: Option<PathBuf>, output: &mut Output) -> Result<()> {
    let path = directory.unwrap_or_else(|| global.directory());
    let done = silica::repair(&path, global.open_options())?;
    let mut keyspaces = Vec::new();
    let mut failed = None;
    for KeyspaceRepair { name, engine, outcome } in done {
        let mut object = json!({ "name": name, "engine": engine, "ok": outcome.is_ok() });
        match outcome {
            Ok(done) => {
                object["entries"] = done.entries.into();
                object["damage"] = done.findings.clone().into();
                object["aside"] = done.aside.clone().into();
                let Some(aside) = done.aside else {
                    output.line(format!("keyspace '{name}': all well, nothing changed"))?;
                    keyspaces.push(object);
                    continue;
                };
                output.line(format!(
                    "keyspace '{name}': {} entries are intact and there; the files that were there \
                     are in its directory {aside}",
                    done.entries
                ))?;
                done.findings.iter().try_for_each(|what| output.line(format!("  {what}")))?;
            }
            Err(error) => {
                object["error"] = error.to_string().into();
                output.line(format!("keyspace '{name}': {error}"))?;
                failed = Some(error);
            }
        }
        keyspaces.push(object);
    }
    output.object().insert("path".into(), path.display().to_string().into());
    output.object().insert("ok".into(), failed.is_none().into());
    output.object().insert("keyspaces".into(), keyspaces.into());
    failed.map_or(Ok(()), Err)
}
