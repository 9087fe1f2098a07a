//! `silica bench`.

use crate::args::{BenchArgs, BenchSpecial};
use serde_json::json;
use silica::Result;
use silica_bench::{Config, Distribution, EctConfig, Plan, WORKLOADS};
use silica_console::{Global, Output, RunArgs, config, observer};
use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

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
pub(crate) fn run(
    global: &Global,
    args: BenchArgs,
    words: &[OsString],
    output: &mut Output,
) -> Result<()> {
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
            let config = Config { plan, path, cold: false, settle: false, sql: None, open };
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
        Some(BenchSpecial::Lab(_)) => crate::door::enter(global, words),
        None => workload(global, &args.workload.expect("clap asks for it"), &args.run, output),
    }
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
