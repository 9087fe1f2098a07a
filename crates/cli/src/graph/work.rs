//! Building a graph if it is not there yet, and running a program on it.

use super::place::{self, Place, failed, fingerprint};
use super::results;
use crate::args::GraphArgs;
use crate::build_table::Bar;
use silica::{Error, ErrorKind, Result};
use silica_console::signals::interruption;
use silica_console::{Global, Output};
use silica_graph::{
    BuildOptions, BuildProgress, BuildStage, Edges, Graph, Memory, Outcome, RunOptions, Storage,
    VertexProgram,
};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A graph on whichever medium.
pub(super) type Opened<'a> = Graph<'a, Box<dyn Storage>>;

/// Runs a program for vertices.
pub(super) fn vertices<P: VertexProgram>(
    global: &Global,
    args: &GraphArgs,
    iterations: u64,
    program: impl FnOnce(&Opened<'_>) -> Result<P>,
    output: &mut Output,
) -> Result<()> {
    with_graph(global, args, output, |graph, stop, output| {
        let program = program(graph)?;
        let options = RunOptions {
            iterations_max: args.iterations.unwrap_or(iterations),
            threads: args.threads,
            goes_on: !args.anew,
        };
        let mut bar = Bar::new(output);
        let started = Instant::now();
        let outcome = graph.run(&program, &options, &mut |progress| {
            bar.show("running", progress.shards_done as u64, progress.shards as u64);
            check(stop, || {
                format!("after iteration {}; run it again to go on there", progress.iteration)
            })
        })?;
        drop(bar);
        say_run(&outcome, started.elapsed().as_secs_f64(), output)?;
        results::show(global, args, graph, &program, &outcome, output)
    })
}

fn say_run(outcome: &Outcome, seconds: f64, output: &mut Output) -> Result<()> {
    let rate = outcome.edges_gathered as f64 / seconds.max(1e-9);
    let done = outcome.iterations - outcome.resumed;
    let resumed = match outcome.resumed {
        0 => String::new(),
        before => format!(" ({before} were done before)"),
    };
    output.line(format!(
        "{done} iterations{resumed} in {seconds:.2} s: {rate:.0} edges/s; the last changed {} \
         values",
        outcome.changed
    ))?;
    let object = output.object();
    object.insert("iterations".into(), outcome.iterations.into());
    object.insert("resumed".into(), outcome.resumed.into());
    object.insert("finished".into(), outcome.is_finished.into());
    object.insert("changed".into(), outcome.changed.into());
    object.insert("run_seconds".into(), seconds.into());
    object.insert("edges_per_second".into(), rate.into());
    Ok(())
}

/// Counts triangles.
pub(super) fn triangles(global: &Global, args: &GraphArgs, output: &mut Output) -> Result<()> {
    if args.to.is_some() || args.out.is_some() {
        let message =
            "triangles have one result and none for each vertex; leave --to and --out out";
        return Err(Error::new(ErrorKind::Config, message));
    }
    with_graph(global, args, output, |graph, stop, output| {
        let mut bar = Bar::new(output);
        let started = Instant::now();
        let count = silica_graph::triangles(graph, &mut |progress| {
            let all = progress.passes * progress.pairs;
            bar.show("counting", progress.pass * progress.pairs + progress.pairs_done, all);
            check(stop, || "while triangles were counted; run it again".to_string())
        })?;
        drop(bar);
        let seconds = started.elapsed().as_secs_f64();
        output.line(format!("{count} triangles in {seconds:.2} s"))?;
        output.object().insert("triangles".into(), count.into());
        output.object().insert("run_seconds".into(), seconds.into());
        Ok(())
    })
}

/// The vertex to start at.
pub(super) fn start_of(graph: &Opened<'_>, wanted: Option<u32>) -> Result<u32> {
    match wanted {
        None => Ok(graph.hub()?.unwrap_or_default()),
        Some(id) if graph.has(id)? => Ok(id),
        Some(id) => {
            let message = format!("no edge has the vertex {id}; choose another --start");
            Err(Error::new(ErrorKind::NotFound, message))
        }
    }
}

/// Opens or builds the graph, does `work`, and removes the image beside the edge list if that is
/// done.
fn with_graph(
    global: &Global,
    args: &GraphArgs,
    output: &mut Output,
    work: impl FnOnce(&Opened<'_>, &AtomicBool, &mut Output) -> Result<()>,
) -> Result<()> {
    let input = fingerprint(&args.edges, args.skip_bad)?;
    let stop = interruption()?;
    let place = place::open(args)?;
    let memory = Memory::new(global.memory.unwrap_or(silica::DEFAULT_MEMORY_BYTES));
    let graph = match found(&place, &memory, input)? {
        Some(graph) => {
            output.line(format!("the shards of this edge list are there, on {}", place.name))?;
            output.object().insert("reused".into(), true.into());
            graph
        }
        None => build(args, &place, &memory, input, &stop, output).inspect_err(|_| {
            // Nothing of it can be gone on with. What stays behind is only untidy.
            let _ = place.temporary.as_ref().map(std::fs::remove_file);
        })?,
    };
    say_graph(&graph, &place, output)?;
    work(&graph, &stop, output)?;
    drop(graph);
    let counters = place.storage.counters();
    let object = output.object();
    object.insert("bytes_read".into(), counters.bytes_read().into());
    object.insert("bytes_written".into(), counters.bytes_written().into());
    object.insert("memory_bytes".into(), memory.limit_bytes().into());
    object.insert("memory_peak_bytes".into(), memory.peak_bytes().into());
    let Place { storage, temporary, .. } = place;
    drop(storage);
    if let Some(path) = temporary {
        std::fs::remove_file(&path)
            .map_err(|e| Error::io(format!("removing {}", path.display()), e))?;
    }
    Ok(())
}

/// The graph that is there, if it is that of the edge list.
fn found<'a>(place: &'a Place, memory: &'a Memory, input: u64) -> Result<Option<Opened<'a>>> {
    match Graph::open(&place.storage, memory) {
        Ok(graph) if graph.input() == input => Ok(Some(graph)),
        Ok(_) => Ok(None),
        // What is damaged is built again of the edge list.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corruption) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn build<'a>(
    args: &GraphArgs,
    place: &'a Place,
    memory: &'a Memory,
    input: u64,
    stop: &Arc<AtomicBool>,
    output: &mut Output,
) -> Result<Opened<'a>> {
    let started = Instant::now();
    let file = File::open(&args.edges).map_err(|e| failed(&args.edges, e))?;
    let mut edges = Edges::new(file).skip_bad(args.skip_bad);
    let options = BuildOptions { input, threads: args.threads };
    let mut bar = Bar::new(output);
    let mut watch = |progress: BuildProgress| {
        let stage = match progress.stage {
            BuildStage::Reading => "reading",
            BuildStage::Sorting => "sorting",
            BuildStage::Writing => "writing",
        };
        bar.show(stage, progress.done, progress.of.unwrap_or(progress.done));
        check(stop, || "while the graph was built; run it again".to_string())
    };
    let report = silica_graph::build(&place.storage, memory, &mut edges, &options, &mut watch)
        .map_err(|error| error.within(args.edges.display()))?;
    drop(bar);
    let seconds = started.elapsed().as_secs_f64();
    for bad in &report.bad_lines {
        output.line(format!("skipped line {}: {}", bad.line, bad.reason))?;
    }
    let more = report.bad.saturating_sub(report.bad_lines.len() as u64);
    if more > 0 {
        output.line(format!("skipped {more} more lines"))?;
    }
    output.line(format!(
        "built {} shards in {seconds:.2} s ({:.0} edges/s)",
        report.shards,
        report.edges as f64 / seconds.max(1e-9)
    ))?;
    let object = output.object();
    object.insert("reused".into(), false.into());
    object.insert("build_seconds".into(), seconds.into());
    Graph::open(&place.storage, memory)
}

fn say_graph(graph: &Opened<'_>, place: &Place, output: &mut Output) -> Result<()> {
    output.line(format!(
        "{} vertices, {} edges, {} shards of {} bytes in all, on {}",
        graph.vertices(),
        graph.edges(),
        graph.shards(),
        graph.shard_bytes(),
        place.name
    ))?;
    let object = output.object();
    object.insert("vertices".into(), graph.vertices().into());
    object.insert("edges".into(), graph.edges().into());
    object.insert("skipped".into(), graph.skipped().into());
    object.insert("shards".into(), graph.shards().into());
    object.insert("shard_bytes".into(), graph.shard_bytes().into());
    Ok(())
}

/// Ends the work if a signal asked for it.
fn check(stop: &AtomicBool, when: impl FnOnce() -> String) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::new(ErrorKind::Closed, format!("interrupted {}", when())));
    }
    Ok(())
}
