//! `silica probe`: what this machine can do.

use crate::args::ProbeArgs;
use crate::text::object_of;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use silica::device::blocks::QueueLimits;
use silica::tune::{Machine, Survival};
use silica::{Error, ErrorKind, ProbeOptions, Result};
use silica_console::{Global, Output, has_terminal};
use std::path::Path;

/// Where the kernel lists block devices by name.
const BLOCK_DEVICES: &str = "/sys/block";
/// Steps of the bar.
const STEPS: u64 = 1000;

pub(crate) fn run(global: &Global, args: &ProbeArgs, output: &mut Output) -> Result<()> {
    let path = global.directory();
    let machine = if args.show {
        silica::kept_probe(&path)?.ok_or_else(|| {
            let message = format!(
                "nothing was probed in {} yet; run `silica probe --path {}`",
                path.display(),
                path.display()
            );
            Error::new(ErrorKind::NotFound, message)
        })?
    } else {
        let machine = measure(global, args)?;
        silica::keep_probe(&path, &machine)?;
        machine
    };
    show(&machine, output)?;
    show_drives(&path, output)?;
    output.object().insert("path".into(), path.display().to_string().into());
    Ok(())
}

fn measure(global: &Global, args: &ProbeArgs) -> Result<Machine> {
    let defaults = ProbeOptions::default();
    let options = ProbeOptions {
        file_bytes: args.size,
        // As for every command, --memory is what this one may take.
        memory_bytes: global.memory.unwrap_or(defaults.memory_bytes),
        seconds: args.seconds,
        endurance_bytes: args.endurance,
    };
    let bar = has_terminal().then(|| {
        let style = ProgressStyle::with_template("{wide_bar} {percent}% {msg}");
        ProgressBar::new(STEPS).with_style(style.expect("the template is well formed"))
    });
    let machine = silica::probe(global.directory(), &options, |what, share| {
        if let Some(bar) = &bar {
            bar.set_position((share * STEPS as f64) as u64);
            bar.set_message(what.to_string());
        }
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    machine
}

fn survived(survival: Survival) -> &'static str {
    match survival {
        Survival::Disk => "a clean stop only (a disk)",
        Survival::Process => "the process, no power cut (memory)",
        Survival::Power => "a power cut (persistent memory)",
    }
}

/// Drives with zones, and write streams of the device below the directory.
fn show_drives(directory: &Path, output: &mut Output) -> Result<()> {
    let streams = QueueLimits::below(directory).and_then(|limits| limits.write_streams());
    let words = match streams {
        None => "the kernel does not tell".to_string(),
        Some(0) => "none".to_string(),
        Some(streams) => streams.to_string(),
    };
    output.line(format!("  write streams        {words}"))?;
    let mut drives = Vec::new();
    for (name, limits) in QueueLimits::of_all(BLOCK_DEVICES.as_ref()) {
        if !limits.is_zoned() {
            continue;
        }
        let number = |limit: &str| limits.number(limit).unwrap_or(0);
        let (zones, mib) = (number("nr_zones"), number("chunk_sectors") >> 11);
        let (open, active) = (number("max_open_zones"), number("max_active_zones"));
        let limit = |max: u64| if max == 0 { "any number".to_string() } else { max.to_string() };
        output.line(format!(
            "zones of /dev/{name:<12} {zones} of {mib} MiB; open {}, active {}",
            limit(open),
            limit(active)
        ))?;
        drives.push(json!({
            "device": format!("/dev/{name}"),
            "zones": zones,
            "zone_bytes": number("chunk_sectors") << 9,
            "open_max": open,
            "active_max": active,
        }));
    }
    output.object().insert("write_streams".into(), json!(streams));
    output.object().insert("zoned".into(), drives.into());
    Ok(())
}

fn show(machine: &Machine, output: &mut Output) -> Result<()> {
    let Machine { cores, memory, device, survival, processor } = machine;
    let mib = f64::from(1 << 20);
    let curve = |points: &[(f64, f64)]| -> Value {
        object_of(points.iter().map(|(x, y)| (x.to_string(), json!(y)))).into()
    };
    output.line(format!("cores                  {cores}"))?;
    output.line(format!("memory                 {:.0} MiB free", memory.bytes as f64 / mib))?;
    output.line(format!("  dependent reads      {:.1} ns each", 1e9 / memory.dependent_reads))?;
    output.line(format!("  copied               {:.0} MiB/s", memory.copy_bytes / mib))?;
    let gib = device.capacity_bytes as f64 / f64::from(1 << 30);
    output.line(format!("device                 {gib:.0} GiB"))?;
    match device.endurance_bytes {
        Some(bytes) => output.line(format!("  endurance            {:.0} TB", bytes / 1e12))?,
        None => output.line("  endurance            unknown; say it with --endurance")?,
    }
    for (depth, rate) in &device.reads {
        output.line(format!("  random reads, {depth:>4}   {rate:>9.0}/s of 4 KiB"))?;
    }
    let streams = [("read in", &device.read_bandwidth), ("written in", &device.write_bandwidth)];
    for (what, points) in streams {
        for (block, rate) in points {
            let (kib, rate) = (block / 1024.0, rate / mib);
            output.line(format!("  {what:<10} {kib:>4} KiB  {rate:>9.0} MiB/s"))?;
        }
    }
    for (waiters, rate) in &device.syncs {
        output.line(format!("  syncs, waiting {waiters:>3}   {rate:>9.0}/s"))?;
    }
    output.line(format!("mapped bytes survive   {}", survived(*survival)))?;
    let mut times = Map::new();
    for (engine, mut of) in processor.engines() {
        let [get, miss, put, rewrite] = [of.hit, of.miss, of.put, of.rewrite].map(f64::round);
        output.line(format!(
            "engine {engine:<14}  get {get} ns, miss {miss} ns, put {put} ns, rewrite {rewrite} ns"
        ))?;
        let fields = of.fields().map(|(name, ns)| (name.to_string(), json!(*ns)));
        times.insert(engine.into(), object_of(fields).into());
    }
    let object = output.object();
    object.insert("processor_ns".into(), times.into());
    object.insert("cores".into(), json!(cores));
    object.insert("survival".into(), json!(survival.to_string()));
    object.insert(
        "memory".into(),
        json!({
            "bytes": memory.bytes,
            "dependent_reads": memory.dependent_reads,
            "copy_bytes": memory.copy_bytes,
        }),
    );
    object.insert(
        "device".into(),
        json!({
            "capacity_bytes": device.capacity_bytes,
            "endurance_bytes": device.endurance_bytes,
            "reads": curve(&device.reads),
            "read_bandwidth": curve(&device.read_bandwidth),
            "write_bandwidth": curve(&device.write_bandwidth),
            "syncs": curve(&device.syncs),
        }),
    );
    Ok(())
}
