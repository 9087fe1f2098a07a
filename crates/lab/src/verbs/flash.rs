//! `silica flash simulate`: what a cache on flash would do, without a device.

use super::simulate::progress;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use silica::device::blocks::Geometry;
use silica::device::sim::FlashProfile;
use silica::tune::Workload;
use silica::tune::recommend::describe;
use silica::tune::trace::TraceReader;
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, Output};
use silica_lab::simulate::flash::{
    Counted, FlashDrive, FlashShape, Operations, Plan, Scheme, run_cache,
};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Items on flash, and keys, that are simulated if nobody says how many: seconds for a scheme.
const ITEMS: f64 = 300_000.0;
const KEYS: f64 = 3e6;
/// Requests that are counted are as many as put everything on flash so often.
const ROUNDS: f64 = 2.0;
/// Puts by requests are at least so many, in that: misses put, too.
const PUTS_MIN: f64 = 0.05;
/// Times of a drive that only a geometry describes.
const USUAL: &str = "tlc";
/// Share of a trace's operations that settle the cache.
const SETTLES: u64 = 2;

#[derive(Subcommand)]
pub(crate) enum FlashCommand {
    /// What a cache on flash would do with a workload: hits, writes, erases, years of life.
    Simulate(SimulateArgs),
}

#[derive(Args)]
pub(crate) struct SimulateArgs {
    /// A drive that is known: paper, small, tlc, qlc; tlc if nothing is given.
    #[arg(long, value_name = "NAME", conflicts_with = "geometry")]
    profile: Option<String>,
    /// Channels, LUNs of each, blocks of each, pages of each and their size, such as
    /// 4x4x64x64x16KiB; with the times of tlc.
    #[arg(long, value_name = "CxLxBxPxSIZE")]
    geometry: Option<Geometry>,
    /// Bytes of the drive that the cache has: all if nothing is given.
    #[arg(long, value_name = "SIZE", value_parser = silica_console::values::size)]
    flash_size: Option<u64>,
    /// Erases that a block takes, instead of those of the profile.
    #[arg(long, value_name = "ERASES")]
    endurance: Option<u32>,
    /// Caches to simulate: dida, dida-space, dida-locality, fatcache, fatcache-greedy,
    /// fatcache-kick, fatcache-fifo.
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "dida,fatcache")]
    scheme: Vec<Scheme>,
    /// Operations of this trace, instead of a workload that --describe has in words.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// A get that misses is not followed by a put.
    #[arg(long)]
    no_fill: bool,
    /// Operations that are counted [default: what writes the flash twice; half of a trace].
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Operations before them [default: as many].
    #[arg(long, value_name = "N")]
    settle: Option<u64>,
    /// Share of the drive and of the keys that is simulated [default: what takes seconds; for a
    /// trace the share of the keys that it holds].
    #[arg(long, value_name = "F")]
    scale: Option<f64>,
    /// Seed of all that is drawn; the same seed gives the same figures.
    #[arg(long, value_name = "K", default_value_t = 1)]
    seed: u64,
}

/// Simulates all schemes.
pub(crate) fn run(global: &Global, command: &FlashCommand, output: &mut Output) -> Result<()> {
    let FlashCommand::Simulate(args) = command;
    let (drive, endurance) = drive(args)?;
    let asked = match &args.trace {
        Some(file) => recorded(global, args, &drive, file)?,
        None => described(global, args, &drive)?,
    };
    let mut show_progress = progress(output);
    let run = |scheme: &Scheme| {
        run_cache(*scheme, &asked.shape, &asked.operations, &asked.plan, &mut show_progress)
    };
    let counted: Vec<Counted> = args.scheme.iter().map(run).collect::<Result<_>>()?;
    show(&drive, &asked, endurance, &counted, output)
}

/// What is simulated.
struct Asked {
    shape: FlashShape,
    operations: Operations,
    plan: Plan,
}

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, text)
}

/// The drive, and the erases that a block takes.
fn drive(args: &SimulateArgs) -> Result<(FlashDrive, Option<u32>)> {
    let profile = FlashProfile::find(args.profile.as_deref().unwrap_or(USUAL))?;
    let geometry = args.geometry.unwrap_or(profile.geometry);
    let drive = FlashDrive { geometry, timing: profile.timing, bytes: args.flash_size };
    Ok((drive, args.endurance.or(profile.endurance)))
}

/// A workload in words.
fn described(global: &Global, args: &SimulateArgs, drive: &FlashDrive) -> Result<Asked> {
    let words = global.describe.as_deref().ok_or_else(|| {
        wrong(
            "say what is asked of the cache: --describe \"keys=100M value=300 gets=90 puts=10 \
             zipf=0.9 rate=50000\", or --trace FILE",
        )
    })?;
    let (workload, _) = describe(words)?;
    let scale = args.scale.unwrap_or_else(|| usual_scale(&workload, drive));
    // What an item takes does not depend on the share that is simulated.
    let probe = Operations::drawn(&workload, f64::MIN_POSITIVE, 0, args.seed)?;
    let shape = drive.shape(scale, u64::from(probe.item_bytes_max()))?;
    let mix = workload.mix.normalised();
    let puts = (mix.inserts + mix.overwrites + mix.modifies).max(PUTS_MIN);
    let items = shape.bytes() as f64 / probe.item_bytes_mean();
    let requests = args.requests.unwrap_or((ROUNDS * items / puts) as u64);
    let settle = args.settle.unwrap_or(requests);
    let operations = Operations::drawn(&workload, shape.scale, settle + requests, args.seed)?;
    let plan = Plan { settle, requests, fills: !args.no_fill, rate: workload.rate };
    Ok(Asked { shape, operations, plan })
}

/// The share that takes seconds.
fn usual_scale(workload: &Workload, drive: &FlashDrive) -> f64 {
    let items = drive.bytes() as f64 / workload.entry_bytes().max(1.0);
    (ITEMS / items).min(KEYS / workload.keys as f64).min(1.0)
}

/// A recorded trace.
fn recorded(
    global: &Global,
    args: &SimulateArgs,
    drive: &FlashDrive,
    file: &Path,
) -> Result<Asked> {
    let name = file.display().to_string();
    let failed = |e| Error::io(format!("cannot read {name}; check the trace's path"), e);
    let input = BufReader::new(File::open(file).map_err(failed)?);
    let mut reader = TraceReader::new(input, &name)?.up_to_cut();
    let described = global.describe.as_deref().map(describe).transpose()?;
    let value_bytes = described.as_ref().map(|(workload, _)| workload.value_bytes.mean() as u64);
    let read = Operations::recorded(&mut reader, value_bytes);
    let (operations, seconds) = read.map_err(|e| e.within(format_args!("trace {name}")))?;
    let part = 1.0 / reader.one_key_in() as f64;
    let shape = drive.shape(args.scale.unwrap_or(part), u64::from(operations.item_bytes_max()))?;
    let all = operations.recorded_count().unwrap_or(0);
    let settle = args.settle.unwrap_or(all / SETTLES).min(all);
    let requests = args.requests.unwrap_or(all - settle);
    // The trace has a part of what comes to the drive.
    let recorded = (seconds > 0.0).then(|| all as f64 / seconds / shape.scale);
    let rate = described.and_then(|(workload, _)| workload.rate).or(recorded);
    let plan = Plan { settle, requests, fills: !args.no_fill, rate };
    Ok(Asked { shape, operations, plan })
}

fn show(
    drive: &FlashDrive,
    asked: &Asked,
    endurance: Option<u32>,
    counted: &[Counted],
    output: &mut Output,
) -> Result<()> {
    let shape = &asked.shape;
    output.line(format!(
        "flash of {} MiB on {} channels; simulated: a share of {:.4}, {} blocks of {} KiB, {} \
         operations",
        drive.bytes() >> 20,
        shape.channels,
        shape.scale,
        shape.blocks,
        shape.block_bytes() >> 10,
        counted.first().map_or(0, |counted| counted.operations)
    ))?;
    output.line(format!(
        "{:<16}{:>8}{:>10}{:>10}{:>12}{:>18}{:>12}{:>9}",
        "scheme",
        "hits",
        "written",
        "copied",
        "erases/M",
        "erases of blocks",
        "drives/day",
        "years"
    ))?;
    for counted in counted {
        output.line(line(shape, counted, endurance))?;
    }
    for note in notes(asked, endurance, counted) {
        output.line(note)?;
    }
    let rows: Vec<Value> = counted.iter().map(|c| row(shape, c, endurance)).collect();
    let object = output.object();
    object.insert("flash_bytes".into(), drive.bytes().into());
    object.insert("scale".into(), shape.scale.into());
    object.insert("blocks".into(), shape.blocks.into());
    object.insert("block_bytes".into(), shape.block_bytes().into());
    object.insert("endurance".into(), endurance.into());
    object.insert("rate".into(), asked.plan.rate.into());
    object.insert("schemes".into(), rows.into());
    Ok(())
}

/// Bytes of items that were copied by the cache, and of pages by a drive, for each byte put.
fn copied(shape: &FlashShape, counted: &Counted) -> f64 {
    let pages = counted.counts.page_copies * u64::from(shape.page_bytes);
    (counted.counts.copied_bytes + pages) as f64 / counted.user_bytes.max(1) as f64
}

/// Blocks of the drive that a million operations erase.
fn erases_a_million(shape: &FlashShape, counted: &Counted) -> f64 {
    // A block of the drive is as many times larger as it is slower.
    counted.counts.erases as f64 / shape.slower * 1e6 / counted.operations.max(1) as f64
}

fn line(shape: &FlashShape, counted: &Counted, endurance: Option<u32>) -> String {
    let (least, mean, most) = counted.erases();
    let show = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.2}"));
    let years = endurance.and_then(|endurance| counted.years(endurance));
    format!(
        "{:<16}{:>8.4}{:>10.3}{:>10.3}{:>12.2}{:>18}{:>12}{:>9}",
        counted.scheme.name(),
        counted.counts.hit_ratio(),
        counted.write_amplification(),
        copied(shape, counted),
        erases_a_million(shape, counted),
        format!("{least} - {mean:.1} - {most}"),
        show(counted.drive_writes_per_day()),
        show(years)
    )
}

fn row(shape: &FlashShape, counted: &Counted, endurance: Option<u32>) -> Value {
    let (least, mean, most) = counted.erases();
    json!({
        "scheme": counted.scheme.name(),
        "operations": counted.operations,
        "gets": counted.counts.gets,
        "hit_ratio": counted.counts.hit_ratio(),
        "user_bytes": counted.user_bytes,
        "flash_bytes": counted.flash_bytes,
        "write_amplification": counted.write_amplification(),
        "copied_item_bytes": counted.counts.copied_bytes,
        "copied_page_bytes": counted.counts.page_copies * u64::from(shape.page_bytes),
        "dropped_items": counted.counts.dropped,
        "erases": counted.counts.erases,
        "erases_per_million": erases_a_million(shape, counted),
        "block_erases": { "least": least, "mean": mean, "most": most },
        "drive_writes_per_day": counted.drive_writes_per_day(),
        "years": endurance.and_then(|endurance| counted.years(endurance)),
    })
}

/// What the figures do not say, and how they would.
fn notes(asked: &Asked, endurance: Option<u32>, counted: &[Counted]) -> Vec<String> {
    let mut notes = vec![
        "written, copied: bytes for each byte put; erases/M: blocks of the drive for a million \
         operations; erases of blocks: least, mean, most"
            .to_string(),
    ];
    if asked.plan.rate.is_none() {
        notes.push("drive writes a day and years need a rate: add rate=OPERATIONS a second".into());
    } else if endurance.is_none() {
        notes.push("years need what a block endures: add --endurance ERASES".into());
    }
    if counted.iter().any(|counted| counted.filled < 1.0) {
        notes.push(
            "the flash was not full when the count began: what is erased is still to come".into(),
        );
    }
    notes
}
