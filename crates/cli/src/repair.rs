//! `silica repair`: salvages what is intact of a damaged store.

use serde_json::{Value, json};
use silica::{KeyspaceRepair, Loss, Repaired, Result};
use silica_console::{Global, Output};
use std::path::PathBuf;

/// Exit status where the store is whole again, and something is lost or older than it was.
pub(crate) const LOST: u8 = 6;

/// Repairs the store in `directory`, or in --path.
pub(crate) fn run(global: &Global, directory: Option<PathBuf>, output: &mut Output) -> Result<()> {
    let path = directory.unwrap_or_else(|| global.directory());
    let done = silica::repair(&path, global.open_options())?;
    for finding in &done.findings {
        output.line(finding)?;
    }
    let mut is_whole = done.findings.is_empty();
    let (mut keyspaces, mut failed) = (Vec::new(), None);
    for KeyspaceRepair { name, engine, outcome } in done.keyspaces {
        let mut object = json!({ "name": name, "engine": engine, "ok": outcome.is_ok() });
        match outcome {
            Ok(repaired) => {
                is_whole &= repaired.findings.is_empty();
                show(&name, &repaired, &mut object, output)?;
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
    output.object().insert("damage".into(), done.findings.into());
    output.object().insert("keyspaces".into(), keyspaces.into());
    if !is_whole {
        output.set_exit_code(LOST);
    }
    failed.map_or(Ok(()), Err)
}

fn show(name: &str, done: &Repaired, object: &mut Value, output: &mut Output) -> Result<()> {
    object["entries"] = done.entries.into();
    object["damage"] = done.findings.clone().into();
    object["aside"] = done.aside.clone().into();
    object["lost_at_most"] = match done.lost {
        Loss::Nothing => 0.into(),
        Loss::AtMost(lost) => lost.into(),
        Loss::Unknown => Value::Null,
    };
    object["may_be_older"] = done.may_be_older.into();
    if done.findings.is_empty() {
        return output.line(format!("keyspace '{name}': all well, nothing changed"));
    }
    let aside = done.aside.as_ref().map_or_else(String::new, |aside| {
        format!("; the files that were there are in its directory {aside}")
    });
    output
        .line(format!("keyspace '{name}': {} entries are intact and there{aside}", done.entries))?;
    done.findings.iter().try_for_each(|what| output.line(format!("  {what}")))?;
    let lost = match done.lost {
        Loss::Nothing => "no entry is known to be lost".to_string(),
        Loss::AtMost(lost) => format!("at most {lost} entries are lost"),
        Loss::Unknown => "nobody can tell how many entries are lost".to_string(),
    };
    let older = match done.may_be_older {
        true => "; older versions of some may be back, and some that were deleted",
        false => "",
    };
    output.line(format!("  {lost}{older}"))?;
    if name == silica_sql::KEYSPACE {
        output.line(
            "  of an SQL database rows and index entries are lost each by itself: REINDEX makes \
             the indexes anew of the rows, and PRAGMA integrity_check says whether that is all",
        )?;
    }
    Ok(())
}
