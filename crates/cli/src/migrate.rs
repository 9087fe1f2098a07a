//! `silica migrate`.

use indicatif::{ProgressBar, ProgressStyle};
use silica::{DEFAULT_ENGINE, Error, ErrorKind, MigrateProgress, Result, Silica};
use silica_console::{Global, Output, has_terminal};

/// Moves the keyspace `name` to the engine `to`.
pub(crate) fn run(global: &Global, name: &str, to: &str, output: &mut Output) -> Result<()> {
    // What is set is for the new engine.
    let here = Global { set: Vec::new(), engine: None, ..global.clone() };
    let store = here.open(false)?;
    refuse_sql(&store, name, to)?;
    let forget = global.forget_at_exit.then_some((silica::FORGET_AT_EXIT, "on"));
    let set: Vec<(&str, &str)> = global.pairs().into_iter().chain(forget).collect();
    migrate(&store, name, to, &set, output)?;
    store.close()
}

/// Refuses to take the order from an SQL database, which nobody could open then.
fn refuse_sql(store: &Silica, name: &str, to: &str) -> Result<()> {
    let keyspace = store.existing(name)?;
    let is_sql = keyspace.map(|keyspace| silica_sql::is_database(&**keyspace.engine()));
    if is_sql.transpose()? != Some(true) || to == DEFAULT_ENGINE {
        return Ok(());
    }
    let message = format!(
        "keyspace '{name}' is an SQL database, which needs an engine that keeps an order, and {to} \
         keeps none; leave it with {DEFAULT_ENGINE}"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// Does it with a bar, where there is a terminal, and reports.
pub(crate) fn migrate(
    store: &Silica,
    name: &str,
    to: &str,
    set: &[(&str, &str)],
    output: &mut Output,
) -> Result<()> {
    let bar = (has_terminal() && !output.is_json()).then(|| {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} entries, {msg}, {eta} left");
        ProgressBar::new(0).with_style(style.expect("the template is well formed"))
    });
    let mut progress = |at: MigrateProgress| {
        if let Some(bar) = &bar {
            bar.set_length(at.entries_estimate.max(at.entries));
            bar.set_position(at.entries);
            bar.set_message(at.phase);
        }
        Ok(())
    };
    let outcome = store.migrate(name, to, set, &mut progress);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let report = outcome?;
    output.line(format!(
        "keyspace '{name}' has engine {to} now: {} entries compared, {} copied, checksum {:016x}",
        report.entries, report.copied, report.checksum
    ))?;
    let object = output.object();
    object.insert("ok".into(), true.into());
    object.insert("keyspace".into(), name.into());
    object.insert("engine".into(), to.into());
    object.insert("entries".into(), report.entries.into());
    object.insert("bytes".into(), report.bytes.into());
    object.insert("copied".into(), report.copied.into());
    object.insert("checksum".into(), format!("{:016x}", report.checksum).into());
    object.insert("resumed".into(), report.resumed.into());
    Ok(())
}
