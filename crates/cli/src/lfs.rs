//! `silica lfs` and `silica mount`: a file system on flash.

use crate::args::{LfsCommand, MountArgs};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use silica::{Error, ErrorKind, Result};
use silica_console::Output;
use silica_mount::{
    Collection, LfsOptions, MountOptions, Mounted, Shape, Volume, check_mount_point,
};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// Bytes of a new file if nobody says how many.
const SIZE: u64 = 1 << 30;
/// Problems that are listed one by one.
const LISTED_MAX: usize = 50;
/// How often a mount looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a command on a file system that is not mounted.
///
/// # Errors
/// Those of the device; `Corruption` if a check finds something.
pub(crate) fn run(command: &LfsCommand, output: &mut Output) -> Result<()> {
    match command {
        LfsCommand::Create { path, size, geometry, over_provisioning } => {
            let shape = match geometry {
                Some(geometry) => Shape::Image(*geometry),
                None => Shape::Drive(size_of(path, *size)?),
            };
            create(path, shape, *over_provisioning, output)
        }
        LfsCommand::Check { path, repair } => check(path, *repair, output),
        LfsCommand::Info { path } => {
            let volume = Volume::open(path, LfsOptions::default())?;
            info(path, &volume, output)?;
            volume.close()
        }
    }
}

/// Bytes of a block device, or those that a new file is to have.
fn size_of(path: &Path, size: Option<u64>) -> Result<u64> {
    let is_device = std::fs::metadata(path).is_ok_and(|of| of.file_type().is_block_device());
    match size {
        None if is_device => std::fs::File::open(path)
            .and_then(|mut file| file.seek(SeekFrom::End(0)))
            .map_err(|error| Error::io(format!("looking at {}", path.display()), error)),
        size => Ok(size.unwrap_or(SIZE)),
    }
}

fn create(path: &Path, shape: Shape, over: u32, output: &mut Output) -> Result<()> {
    if over > 90 {
        let message = "--over-provisioning is a share in percent, 90 at most";
        return Err(Error::new(ErrorKind::Config, message));
    }
    // The root directory is that of the user who makes it.
    let user = std::fs::metadata("/proc/self").map(|of| (of.uid(), of.gid())).unwrap_or((0, 0));
    let volume = Volume::create(path, shape, over, user, silica_mount::now())?;
    output.line(format!("made a file system on {}", path.display()))?;
    info(path, &volume, output)?;
    volume.close()
}

fn info(path: &Path, volume: &Volume, output: &mut Output) -> Result<()> {
    let (usage, page_bytes) = volume.usage();
    let mib = |pages: u64| (pages * page_bytes as u64) >> 20;
    output.line(format!(
        "{}: {} MiB, {} MiB free, {} inodes, pages of {page_bytes} bytes",
        path.display(),
        mib(usage.pages),
        mib(usage.free_pages),
        usage.inodes
    ))?;
    output.line(format!(
        "{} segments, {} free, {} of these kept back for collection",
        usage.segments, usage.free_segments, usage.over_provisioned
    ))?;
    output.object().extend([
        ("bytes".into(), json!(usage.pages * page_bytes as u64)),
        ("free_bytes".into(), json!(usage.free_pages * page_bytes as u64)),
        ("inodes".into(), json!(usage.inodes)),
        ("page_bytes".into(), json!(page_bytes)),
        ("segments".into(), json!(usage.segments)),
        ("free_segments".into(), json!(usage.free_segments)),
        ("over_provisioned".into(), json!(usage.over_provisioned)),
    ]);
    Ok(())
}

fn check(path: &Path, repairs: bool, output: &mut Output) -> Result<()> {
    let volume = Volume::open(path, LfsOptions::default())?;
    let problems = volume.check(repairs)?;
    for problem in problems.iter().take(LISTED_MAX) {
        output.line(problem.to_string())?;
    }
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    output.object().insert("problems".into(), json!(texts));
    let left = if repairs { volume.check(false)?.len() } else { problems.len() };
    volume.close()?;
    match left {
        0 if problems.is_empty() => output.line("all names, places and pages are right"),
        0 => output.line(format!("{} problems were put right", problems.len())),
        left => {
            let what = format!("{} has {left} problems", path.display());
            let fix = if repairs { "copy what is left" } else { "put them right with --repair" };
            Err(Error::new(ErrorKind::Corruption, format!("{what}; {fix}")))
        }
    }
}

/// Mounts until the mount or the process is ended.
///
/// # Errors
/// Those of the device and of the kernel.
pub(crate) fn mount(args: &MountArgs, output: &mut Output) -> Result<()> {
    // Before the device, whose roll-forward may take a while.
    check_mount_point(&args.directory)?;
    let collection = if args.greedy { Collection::Greedy } else { Collection::CostBenefit };
    let options = LfsOptions { collection, ..LfsOptions::default() };
    let volume = Volume::open(&args.device, options)?;
    let mounting = MountOptions {
        name: args.device.display().to_string(),
        is_read_only: args.read_only,
        allows_others: !args.private,
        threads: args.threads,
        sync_every: Duration::from_secs(args.sync_every.max(1)),
    };
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| Error::io("waiting for signals", error))?;
    let mounted = Mounted::new(volume, &args.directory, &mounting)?;
    output.line(format!("{} is on {}", args.device.display(), args.directory.display()))?;
    silica::device::return_start_pages();
    let is_asked = loop {
        if mounted.is_ended() {
            break false;
        }
        if signals.pending().next().is_some() {
            break true;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    // The mount is gone when its library unmounts once more, and it would warn of that.
    log::set_max_level(log::LevelFilter::Error);
    if is_asked { mounted.unmount() } else { mounted.wait() }
}
