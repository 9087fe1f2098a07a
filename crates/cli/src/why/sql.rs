//! `silica why --sql`: what a statement asks the engine for, and what that costs by its model.
//!
//! The statement is run, and nothing of it is kept. What SQLite's own machine takes is in no model:
//! how long the statement took here stands beside.

use super::parse;
use crate::tune::{Asked, prediction_json};
use serde_json::{Value, json};
use silica::tune::recommend::{Measured, Prediction, why};
use silica::tune::{Mix, Sizes};
use silica::{DEFAULT_KEYSPACE, Error, ErrorKind, Keyspace, Result, Silica};
use silica_console::{Global, Output};
use silica_sql::marker::{Place, PlaceOptions, place};
use silica_sql::{Asked as Calls, DEFAULT_MEMORY_BYTES, KEYSPACE, Keyspaces, Rehearsal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A statement, what it asked for, and what that comes to.
struct Told {
    text: String,
    plan: Vec<String>,
    calls: Calls,
    cost: Option<Cost>,
    milliseconds: f64,
}

/// What the calls of a statement cost by the model.
struct Cost {
    microseconds: f64,
    device_reads: f64,
    device_bytes_written: f64,
    prediction: Prediction,
}

fn sql_failed(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Config, error.to_string())
}

/// The directory of the store, and the keyspace, that `target` is: a database, or a store.
fn database_of(global: &Global, target: Option<&str>) -> Result<(PathBuf, String)> {
    let name = match global.keyspace.as_str() {
        DEFAULT_KEYSPACE => KEYSPACE.to_string(),
        other => other.to_string(),
    };
    let Some(path) = target.map(Path::new) else { return Ok((global.directory(), name)) };
    if path.is_dir() {
        return Ok((path.to_path_buf(), name));
    }
    let options = PlaceOptions { is_read_only: true, ..PlaceOptions::default() };
    match place(path, options)? {
        Place::Store { directory, .. } => Ok((directory, name)),
        Place::Stock => {
            let message = format!(
                "{} is a file of SQLite's, which no model of ours is about; name a database that \
                 `silica sql` has made",
                path.display()
            );
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}

/// Explains the statements in `text`, each by itself.
pub(super) fn run(
    global: &Global,
    target: Option<&str>,
    text: &str,
    output: &mut Output,
) -> Result<()> {
    let (directory, name) = database_of(global, target)?;
    let mut asked = Asked::new(global, Some(&directory))?;
    let is_at_path = target.is_some_and(|target| !Path::new(target).is_dir());
    // A database at a path has so much, if nobody says another number.
    let memory = global.memory.or(is_at_path.then_some(DEFAULT_MEMORY_BYTES));
    let here = Global { engine: None, describe: None, read_only: true, memory, ..global.clone() };
    let store = here.open_at(&directory, false)?;
    let keyspace = store.existing(&name)?.ok_or_else(|| {
        let message = format!("{} has no database '{name}'; say --keyspace", directory.display());
        Error::new(ErrorKind::NotFound, message)
    })?;
    // Of the operations everything is known.
    let notes = asked.notes.clone();
    asked.measured(&here, &keyspace)?;
    asked.notes = notes;
    let shared = store.share();
    let told = rehearse(&keyspace, &shared, text, &asked);
    let engine = keyspace.engine().descriptor().name;
    drop((keyspace, shared));
    let shown = told.and_then(|told| show(&name, engine, &told, &asked, output));
    shown.and(store.close())
}

fn rehearse(
    keyspace: &Keyspace,
    store: &Arc<Silica>,
    mut text: &str,
    asked: &Asked,
) -> Result<Vec<Told>> {
    let mut all = Vec::new();
    while !text.trim().is_empty() {
        let keyspaces = Arc::clone(store) as Arc<dyn Keyspaces>;
        let mut rehearsal = Rehearsal::on(keyspace, keyspaces).map_err(sql_failed)?;
        // So that the schema is no part of what is counted.
        rehearsal.sql.query("SELECT count(*) FROM sqlite_schema", &[]).map_err(sql_failed)?;
        let (used, measured) = measure(&rehearsal, text)?;
        if let Some((calls, milliseconds)) = measured {
            let text = text[..used].trim().to_string();
            let plan = plan_of(&mut rehearsal, &text);
            let cost = cost_of(keyspace, store, &calls, asked)?;
            all.push(Told { text, plan, calls, cost, milliseconds });
        }
        text = &text[used..];
    }
    Ok(all)
}

/// Runs the first statement of `text`: the bytes of it, what it asked for, and its milliseconds.
fn measure(rehearsal: &Rehearsal, text: &str) -> Result<(usize, Option<(Calls, f64)>)> {
    let (statement, used) = rehearsal.sql.prepare_first(text).map_err(sql_failed)?;
    let Some(mut statement) = statement else { return Ok((used, None)) };
    let (before, start) = (rehearsal.asked(), Instant::now());
    while statement.step().map_err(sql_failed)? {}
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    Ok((used, Some((rehearsal.asked().since(&before), milliseconds))))
}

/// SQLite's plan, a line for each step; none of a statement that has no plan.
fn plan_of(rehearsal: &mut Rehearsal, text: &str) -> Vec<String> {
    let rows = rehearsal.sql.query(&format!("EXPLAIN QUERY PLAN {text}"), &[]).unwrap_or_default();
    rows.iter().filter_map(|row| row.last()).map(ToString::to_string).collect()
}

/// What `calls` cost by the model of the keyspace's engine; `None` for no calls.
fn cost_of(
    keyspace: &Keyspace,
    store: &Silica,
    calls: &Calls,
    asked: &Asked,
) -> Result<Option<Cost>> {
    let (misses, deletes) = (calls.gets - calls.hits, calls.deletes + calls.ranges);
    let operations = calls.gets + calls.seeks + calls.puts + deletes;
    if operations == 0 {
        return Ok(None);
    }
    let writes = (calls.puts + deletes) as f64;
    let mut workload = asked.workload.clone();
    workload.keys = workload.keys.max(1);
    workload.mix = Mix {
        get_hits: calls.hits as f64,
        get_misses: misses as f64,
        inserts: 0.0,
        overwrites: calls.puts as f64,
        deletes: deletes as f64,
        scans: calls.seeks as f64,
        modifies: 0.0,
    };
    workload.burst = 1.0;
    workload.threads = 1;
    workload.rate = None;
    // A commit syncs once, however much it writes.
    workload.synced = if writes > 0.0 { (calls.commits as f64 / writes).min(1.0) } else { 0.0 };
    let each = calls.entries as f64 / calls.seeks.max(1) as f64;
    workload.scan_entries = Sizes::constant(each.max(1.0));
    let info = store.keyspaces()?.into_iter().find(|info| info.name == keyspace.name());
    let options = parse(
        keyspace.engine().descriptor().name,
        &info.map(|info| info.options).unwrap_or_default(),
    )?;
    let mut by_this = asked.clone();
    by_this.workload = workload;
    let engine = keyspace.engine().descriptor().name;
    let answer = why(&by_this.question(), engine, &options, &Measured::new())?;
    let prediction = answer.prediction;
    let seconds: f64 = prediction.caller.iter().map(|(_, seconds)| seconds).sum();
    let cost = &prediction.cost;
    Ok(Some(Cost {
        microseconds: seconds * 1e6 * operations as f64,
        device_reads: calls.hits as f64 * cost.reads_per_hit
            + misses as f64 * cost.reads_per_miss
            + calls.seeks as f64 * cost.reads_per_scan,
        device_bytes_written: calls.bytes_written as f64 * prediction.written(),
        prediction,
    }))
}

fn show(name: &str, engine: &str, all: &[Told], asked: &Asked, output: &mut Output) -> Result<()> {
    output.line(format!("database '{name}', engine {engine}"))?;
    for Told { text, plan, calls, cost, milliseconds } in all {
        output.line(text)?;
        plan.iter().try_for_each(|step| output.line(format!("  plan: {step}")))?;
        output.line(format!(
            "  reads: {} gets ({} found), {} seeks, {} entries, {} bytes",
            calls.gets, calls.hits, calls.seeks, calls.entries, calls.bytes_read
        ))?;
        let writes = calls.puts + calls.deletes + calls.ranges > 0;
        let written = format!(
            "  writes: {} puts, {} deletes, {} ranges deleted, {} bytes, {} commits",
            calls.puts, calls.deletes, calls.ranges, calls.bytes_written, calls.commits
        );
        writes.then_some(written).map_or(Ok(()), |line| output.line(line))?;
        match cost {
            None => output.line("  model: nothing is asked of the engine")?,
            Some(cost) => {
                let written = format!(
                    ", {:.0} bytes written to the device ({:.2} for each byte)",
                    cost.device_bytes_written,
                    cost.prediction.written()
                );
                output.line(format!(
                    "  model: {:.1} us, {:.3} device reads{}, in {:.1} MiB of memory",
                    cost.microseconds,
                    cost.device_reads,
                    if writes { &written } else { "" },
                    cost.prediction.memory_bytes / 1_048_576.0
                ))?;
            }
        }
        output
            .line(format!("  here: {milliseconds:.3} ms, with SQLite's own work, nothing kept"))?;
    }
    asked.notes.iter().try_for_each(|note| output.line(format!("note: {note}")))?;
    let object = output.object();
    object.insert("database".into(), name.into());
    object.insert("engine".into(), engine.into());
    object.insert("statements".into(), all.iter().map(json_of).collect());
    object.insert("notes".into(), asked.notes.clone().into());
    Ok(())
}

fn json_of(told: &Told) -> Value {
    let Calls {
        gets,
        hits,
        seeks,
        entries,
        bytes_read,
        puts,
        deletes,
        ranges,
        bytes_written,
        commits,
    } = told.calls;
    let cost = told.cost.as_ref().map(|cost| {
        json!({
            "microseconds": cost.microseconds,
            "device_reads": cost.device_reads,
            "device_bytes_written": cost.device_bytes_written,
            "model": prediction_json(&cost.prediction),
        })
    });
    json!({
        "sql": told.text,
        "plan": told.plan,
        "asked": {
            "gets": gets, "hits": hits, "seeks": seeks, "entries": entries,
            "bytes_read": bytes_read, "puts": puts, "deletes": deletes, "ranges": ranges,
            "bytes_written": bytes_written, "commits": commits,
        },
        "predicted": cost,
        "milliseconds_here": told.milliseconds,
    })
}
