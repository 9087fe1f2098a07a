//! What comes of a program: the top, a file, a keyspace.

use super::GraphArgs;
use super::work::Opened;
use crate::session::Session;
use serde_json::{Value, json};
use silica::{Error, Result, WriteBatch};
use silica_console::{Global, Output};
use silica_graph::{Neighbours, Number, Outcome, VertexProgram};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Results that are put by one write.
const BATCH: usize = 1024;

/// Shows the first results, and writes all of them where the command line says.
pub(super) fn show<P: VertexProgram>(
    global: &Global,
    args: &GraphArgs,
    graph: &Opened<'_>,
    program: &P,
    outcome: &Outcome,
    output: &mut Output,
) -> Result<()> {
    if program.counts_edges() {
        top(args, graph, program, outcome, output)?;
    } else {
        groups(args, graph, program, outcome, output)?;
    }
    if let Some(path) = &args.out {
        let count = write(path, graph, program, outcome)?;
        output.line(format!("wrote {count} results to {}", path.display()))?;
        output.object().insert("written".into(), count.into());
    }
    if let Some(keyspace) = &args.to {
        let global = Global { keyspace: keyspace.clone(), ..global.clone() };
        let count = put(&global, graph, program, outcome)?;
        output.line(format!("put {count} results into keyspace '{keyspace}'"))?;
        output.object().insert("put".into(), count.into());
    }
    Ok(())
}

fn top<P: VertexProgram>(
    args: &GraphArgs,
    graph: &Opened<'_>,
    program: &P,
    outcome: &Outcome,
    output: &mut Output,
) -> Result<()> {
    let top = graph.top(program, outcome, args.top)?;
    for (id, number) in &top {
        output.line(format!("{id}\t{number}"))?;
    }
    let top: Vec<Value> =
        top.iter().map(|(id, number)| json!({ "vertex": id, "value": value(*number) })).collect();
    output.object().insert("top".into(), top.into());
    Ok(())
}

/// Components, the largest first, or levels, the nearest first.
fn groups<P: VertexProgram>(
    args: &GraphArgs,
    graph: &Opened<'_>,
    program: &P,
    outcome: &Outcome,
    output: &mut Output,
) -> Result<()> {
    let is_component = program.name() == silica_graph::Components.name();
    debug_assert!(!is_component || program.neighbours() == Neighbours::Both);
    let groups = graph.groups(program, outcome, args.top, is_component)?;
    let what = if is_component { "components" } else { "levels" };
    output.line(format!("{} {what}; {} vertices are in none", groups.count, groups.without))?;
    for (result, size) in &groups.first {
        output.line(format!("{result}\t{size} vertices"))?;
    }
    let first: Vec<Value> = groups
        .first
        .iter()
        .map(|(result, size)| json!({ "value": result, "vertices": size }))
        .collect();
    let object = output.object();
    object.insert(what.into(), groups.count.into());
    object.insert("without".into(), groups.without.into());
    object.insert("first".into(), first.into());
    Ok(())
}

fn value(number: Number) -> Value {
    match number {
        Number::Real(number) => number.into(),
        Number::Whole(number) => number.into(),
        Number::None => Value::Null,
    }
}

fn write<P: VertexProgram>(
    path: &Path,
    graph: &Opened<'_>,
    program: &P,
    outcome: &Outcome,
) -> Result<u64> {
    silica::refuse_within_store(path, "the table of results")?;
    let failed = |e| Error::io(format!("writing {}", path.display()), e);
    let mut out = BufWriter::new(File::create(path).map_err(failed)?);
    let mut count = 0;
    graph.each_result(program, outcome, &mut |id, number| {
        count += 1;
        writeln!(out, "{id}\t{number}").map_err(failed)
    })?;
    let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
    file.sync_all().map_err(failed)?;
    Ok(count)
}

/// Puts results; vertices without one get no entry.
fn put<P: VertexProgram>(
    global: &Global,
    graph: &Opened<'_>,
    program: &P,
    outcome: &Outcome,
) -> Result<u64> {
    let session = Session::open_to_write(global)?;
    let keyspace = session.keyspace()?;
    let mut waiting: Vec<(String, String)> = Vec::with_capacity(BATCH);
    let mut count = 0;
    let put_all = |waiting: &mut Vec<(String, String)>| {
        let mut batch = WriteBatch::new();
        for (key, value) in waiting.iter() {
            batch.put(key.as_bytes(), value.as_bytes());
        }
        let written = keyspace.write(&batch);
        drop(batch);
        waiting.clear();
        written
    };
    graph.each_result(program, outcome, &mut |id, number| {
        if number == Number::None {
            return Ok(());
        }
        count += 1;
        waiting.push((id.to_string(), number.to_string()));
        if waiting.len() == BATCH { put_all(&mut waiting) } else { Ok(()) }
    })?;
    put_all(&mut waiting)?;
    session.close()?;
    Ok(count)
}
