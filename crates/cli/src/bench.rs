//! `silica bench`.

use crate::args::{BenchArgs, BenchSpecial, Global, RunArgs};
use crate::output::{Output, has_terminal};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use silica::Result;
use silica_bench::{Config, Distribution, EctConfig, Plan, Shape, WORKLOADS};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Steps of a progress bar.
const STEPS: u64 = 1000;

/// Says so where the last line of a trace has no line feed.
fn tell_if_cut(trace: &Path) {
    let last = || -> std::io::Result<u8> {
        let mut file = std::fs::File::open(trace)?;
        let mut byte = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut byte)?;
        Ok(byte[0])
    };
    // What cannot be read is told when it is replayed.
    if last().is_ok_and(|byte| byte != b'\n') {
        eprintln!("silica: the last line of {} is cut off and left out", trace.display());
    }
}

/// Runs what is asked for.
pub(crate) fn run(global: &Global, args: BenchArgs, output: &mut Output) -> Result<()> {
    match args.special {
        Some(BenchSpecial::Ect { keys, group, hmax, per_chunk }) => {
            let report = silica_bench::ect(EctConfig { keys, group, hmax, per_chunk })?;
            output.line(format!(
                "{:.3} bits per key, {:.0} ns per lookup, {:.1} M keys/s built",
                report.bits_per_key,
                report.lookup_ns,
                report.build_keys_per_second / 1e6
            ))?;
            *output.object() = silica_bench::json_object(&report)?;
            Ok(())
        }
        Some(BenchSpecial::Cuckoo { keys, slots, tag_bits }) => {
            let report = silica_bench::cuckoo(keys, slots, tag_bits)?;
            output.line(format!(
                "{} tables, {:.2} % occupied; {:.1} M inserts/s, {:.1} M lookups/s in bursts, \
                 {:.1} M/s one by one",
                report.tables,
                100.0 * report.occupancy,
                report.inserts_per_second / 1e6,
                report.lookups_per_second / 1e6,
                report.lookups_single_per_second / 1e6
            ))?;
            *output.object() = silica_bench::json_object(&report)?;
            Ok(())
        }
        Some(BenchSpecial::Device { size, seconds }) => {
            let path = global.path.as_deref().unwrap_or(Path::new("."));
            let report = silica_bench::device(path, size, seconds)?;
            output.raw(report.text().as_bytes())?;
            *output.object() = silica_bench::json_object(&report)?;
            Ok(())
        }
        Some(BenchSpecial::Replay { trace, timed, threads, batch, durability }) => {
            let plan = Plan { threads, batch, durability: durability.into(), ..Plan::of_trace(0) };
            let (path, open) = (global.path.clone(), global.open_options());
            let config = Config { plan, path, cold: false, settle: false, open };
            tell_if_cut(&trace);
            let report = silica_bench::run_trace(&config, &trace, timed, &mut observer(output))?;
            output.raw(report.text().as_bytes())?;
            *output.object() = silica_bench::json_object(&report)?;
            Ok(())
        }
        Some(BenchSpecial::Generator { operations }) => {
            let report = silica_bench::overhead(operations)?;
            output.raw(report.text().as_bytes())?;
            *output.object() = silica_bench::json_object(&report)?;
            Ok(())
        }
        Some(BenchSpecial::List) => list(output),
        #[cfg(feature = "compare")]
        Some(BenchSpecial::Compare(args)) => crate::compare::run(global, &args, output),
        #[cfg(feature = "compare")]
        Some(BenchSpecial::CompareCell) => silica_bench_compare::serve_cell(),
        #[cfg(feature = "compare")]
        Some(BenchSpecial::Datagrams { out, keys, seconds }) => {
            let size = silica_bench_compare::DatagramsSize { keys, seconds };
            let report = silica_bench_compare::datagrams(&size, &out)?;
            output.raw(report.text().as_bytes())?;
            *output.object() = silica_bench::json_object(&report)?;
            Ok(())
        }
        #[cfg(feature = "compare")]
        Some(BenchSpecial::Models(args)) => crate::measured::run(global, &args, output),
        Some(BenchSpecial::Figures { out, run }) => figures(global, &out, &run, output),
        None => workload(global, &args.workload.expect("clap asks for it"), &args.run, output),
    }
}

fn config(global: &Global, name: &str, args: &RunArgs) -> Result<Config> {
    let default = Config::new(name)?;
    let plan = Plan {
        keys: args.keys,
        shape: Shape {
            key_bytes: args.key_size.unwrap_or(default.plan.shape.key_bytes),
            value_bytes: args.value_size.unwrap_or(default.plan.shape.value_bytes),
        },
        threads: args.threads,
        durability: args.durability.into(),
        distribution: args.distribution.unwrap_or(default.plan.distribution),
        operations: args.operations.unwrap_or(args.keys),
        batch: args.batch,
        rate: args.rate.unwrap_or(default.plan.rate),
        seed: args.seed,
        ..default.plan
    };
    Ok(Config {
        plan,
        path: global.path.clone(),
        cold: args.cold,
        settle: !args.no_settle,
        open: global.open_options(),
    })
}

fn workload(global: &Global, name: &str, args: &RunArgs, output: &mut Output) -> Result<()> {
    let config = config(global, name, args)?;
    let report = silica_bench::run(&config, &mut observer(output))?;
    if let Some(directory) = &args.charts {
        silica_bench::charts::of_run(&report, directory)?;
    }
    output.raw(report.text().as_bytes())?;
    *output.object() = silica_bench::json_object(&report)?;
    Ok(())
}

fn list(output: &mut Output) -> Result<()> {
    let mut objects = Vec::new();
    for w in WORKLOADS {
        let names = [&[w.name], w.aliases].concat().join(", ");
        let sizes = format!("{} + {} B", w.shape.key_bytes, w.shape.value_bytes);
        output.line(format!(
            "{names}\n    {}; {}, {sizes}; {}",
            w.doc,
            w.distribution.name(),
            w.source
        ))?;
        objects.push(json!({
            "name": w.name,
            "aliases": w.aliases,
            "doc": w.doc,
            "source": w.source,
            "distribution": w.distribution.name(),
            "key_bytes": w.shape.key_bytes,
            "value_bytes": w.shape.value_bytes,
        }));
    }
    output.object().insert("workloads".into(), objects.into());
    let mut objects = Vec::new();
    output.line("distributions (--distribution)")?;
    for d in Distribution::ALL {
        output.line(format!("{}\n    {}; {}", d.name(), d.doc(), d.source()))?;
        objects.push(json!({ "name": d.name(), "doc": d.doc(), "source": d.source() }));
    }
    output.object().insert("distributions".into(), objects.into());
    Ok(())
}

fn figures(global: &Global, out: &Path, args: &RunArgs, output: &mut Output) -> Result<()> {
    let config = config(global, "timeline", args)?;
    let files = silica_bench::figures::draw(&config, out, &mut observer(output))?;
    let names: Vec<Value> = files.iter().map(|f| f.display().to_string().into()).collect();
    for file in &files {
        output.line(format!("wrote {}", file.display()))?;
    }
    output.object().insert("files".into(), names.into());
    Ok(())
}

/// A bar per phase on a terminal, nothing elsewhere.
fn observer(output: &Output) -> impl FnMut(&str, f64) + use<> {
    let bar = (has_terminal() && !output.is_json()).then(|| {
        let style = ProgressStyle::with_template("{msg:>12} {bar:40} {percent} %, {eta} left");
        ProgressBar::new(STEPS).with_style(style.expect("the template is well formed"))
    });
    let mut phase_before = String::new();
    move |phase, share| {
        let Some(bar) = &bar else { return };
        if phase != phase_before {
            phase_before = phase.to_string();
            bar.reset();
            bar.set_message(phase_before.clone());
        }
        bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }
}
