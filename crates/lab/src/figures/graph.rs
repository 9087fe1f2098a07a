//! Figure 3.10 of Shen's chapter on Prism-SSD: preprocessing and execution of PageRank, on the
//! policy level's block-mapped ranges, on a conventional drive, and on plain files.
//!
//! The first two run on the emulated drive of the paper, whose clock has the times of flash and
//! nothing else; the paper's gain came from the host's I/O stack, which the emulator does not have.
//! Wall times are those of a flash image and of files on this machine.

use super::Row;
use silica_base::{Clock, Result};
use silica_device::blocks::{FlashDevice, FlashImage, FlashImageOptions, Geometry};
use silica_device::files::{DeviceOptions, FileDevice};
use silica_device::sim::{FlashProfile, FlashTiming, SimFlash, SimFlashOptions};
use silica_graph::{
    BuildOptions, ConventionalStorage, Edges, FileStorage, Graph, Memory, PageRank, PolicyStorage,
    Rmat, RunOptions, Storage,
};
use std::path::Path;

/// Iterations of PageRank; GraphChi's papers run a few.
const ITERATIONS: u64 = 10;
/// Edges at full scale: those of R-MAT with an average degree of Graph500, 2^20 vertices.
const EDGES: f64 = (16 << 20) as f64;
/// Bytes of an edge in the list that GraphChi would read: the memory number is a tenth.
const EDGE_BYTES: u64 = 8;
/// Memory at least: buffers of a page each and the mapping of the flash.
const MEMORY_MIN: u64 = 512 << 10;
/// Pages of a block of the emulated drive: the paper's blocks are too large for small graphs.
const BLOCK_PAGES: u32 = 32;
/// How often the flash is written before the round that is measured: drives are used.
const WRITTEN_BEFORE: u64 = 2;
/// Share of the flash that the conventional drive keeps, in percent (003…, 2.5.3).
const OVER_PROVISIONING: u32 = 25;
/// Blocks of each LUN beyond those of the edges, for what both storages keep in spare: of a small
/// graph that is a large part.
const SPARE_BLOCKS: u32 = 3;
/// Bytes of flash for an edge: 16 while it is sorted, in the 70 % that are for shards, with the
/// quarter that a conventional drive keeps.
const FLASH_PER_EDGE: u64 = 36;

/// A graph: its name, and its edges as text.
pub struct Input {
    /// As the rows have it.
    pub name: String,
    /// An edge list.
    pub text: Vec<u8>,
    /// Edges of it.
    pub edges: u64,
}

impl Input {
    /// An R-MAT graph of a share of 16 million edges.
    ///
    /// # Errors
    /// None for a scale from 0 to 16.
    pub fn rmat(scale: f64, seed: u64) -> Result<Input> {
        let edges = (EDGES * scale.clamp(0.0, 16.0)).max(4096.0) as u64;
        let vertices_log2 = (edges / 16).max(2).ilog2();
        let mut rmat = Rmat::new(vertices_log2, seed)?;
        let mut text = Vec::new();
        for _ in 0..edges {
            let (source, target) = rmat.edge();
            text.extend_from_slice(format!("{source}\t{target}\n").as_bytes());
        }
        Ok(Input { name: format!("R-MAT 2^{vertices_log2}"), text, edges })
    }

    /// The dependencies in a list of Debian's packages (dpkg's status, `apt-cache dumpavail`): a
    /// vertex for each name, an edge for each name that a package depends on, recommends or
    /// suggests.
    pub fn packages(list: &str) -> Input {
        let mut numbers = std::collections::BTreeMap::new();
        let mut number = |name: &str| {
            let next = numbers.len();
            *numbers.entry(name.to_string()).or_insert(next)
        };
        let (mut text, mut edges, mut package) = (Vec::new(), 0, 0);
        for line in list.lines() {
            let Some((field, value)) = line.split_once(": ") else { continue };
            match field {
                "Package" => package = number(value.trim()),
                "Depends" | "Pre-Depends" | "Recommends" | "Suggests" => {
                    for other in value.split([',', '|']) {
                        let end = other.trim().split([' ', ':', '(']).next();
                        let Some(name) = end.filter(|name| !name.is_empty()) else { continue };
                        let line = format!("{package}\t{}\n", number(name));
                        text.extend_from_slice(line.as_bytes());
                        edges += 1;
                    }
                }
                _ => {}
            }
        }
        Input { name: "packages".to_string(), text, edges }
    }

    fn memory_bytes(&self) -> u64 {
        (self.edges * EDGE_BYTES / 10).max(MEMORY_MIN)
    }
}

/// What a storage took.
struct Taken {
    build: f64,
    run: f64,
}

/// Everything. `scratch` is a directory for files, which stay there; `progress` is told how many of
/// how many parts are done.
///
/// # Errors
/// `Full` if the disk is full; `Io`.
pub fn rows(
    inputs: &[Input],
    scratch: &Path,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let parts = inputs.len() as u64 * 4;
    for (number, input) in inputs.iter().enumerate() {
        let done = number as u64 * 4;
        let flash = emulated(input)?;
        let ours = PolicyStorage::format(flash.clone())?;
        let on_policy = on_used(input, &ours, &flash)?;
        let did = ours.statistics();
        let moved = [did.pages_copied, did.pages_of_mapping];
        rows.extend(work(input, "policy level", &flash, moved));
        progress(done + 1, parts);
        let flash = emulated(input)?;
        let drive = ConventionalStorage::format(flash.clone(), OVER_PROVISIONING)?;
        let on_drive = on_used(input, &drive, &flash)?;
        let did = drive.statistics();
        let moved = [did.pages_copied, did.pages_of_mapping];
        rows.extend(work(input, "conventional drive", &flash, moved));
        progress(done + 2, parts);
        rows.extend(times(input, "emulator's clock", "conventional drive", &on_policy, &on_drive));

        let image = image(input, &scratch.join(format!("image-{number}")))?;
        let on_image = measure(input, &PolicyStorage::format(image)?, 2, &|| clock.monotonic_ns())?;
        progress(done + 3, parts);
        let path = scratch.join(format!("files-{number}"));
        let files = FileStorage::create(FileDevice::open(&path, DeviceOptions::default())?)?;
        let on_files = measure(input, &files, 2, &|| clock.monotonic_ns())?;
        progress(done + 4, parts);
        rows.extend(times(input, "wall time", "plain files", &on_image, &on_files));
    }
    Ok(rows)
}

fn bytes_of_flash(input: &Input) -> u64 {
    input.edges * FLASH_PER_EDGE
}

/// The paper's drive, with as many blocks as the graph needs.
fn emulated(input: &Input) -> Result<SimFlash> {
    let profile = FlashProfile::find("paper")?;
    let pages = profile.geometry.pages;
    let geometry =
        Geometry { channels: 4, luns: 4, pages: BLOCK_PAGES, spare_bytes: 64, ..profile.geometry };
    // Erasing a byte takes as long as on the paper's drive.
    let erase_ns = profile.timing.erase_ns * u64::from(BLOCK_PAGES) / u64::from(pages);
    let timing = FlashTiming { erase_ns, ..profile.timing };
    let of_all = Geometry { blocks: 1, ..geometry }.capacity_bytes();
    let blocks = bytes_of_flash(input).div_ceil(of_all) as u32 + SPARE_BLOCKS;
    let geometry = Geometry { blocks, ..geometry };
    let options = SimFlashOptions { timing, is_sparse: true, ..SimFlashOptions::flash(geometry) };
    Ok(SimFlash::new(1, options))
}

fn image(input: &Input, path: &Path) -> Result<FlashImage> {
    let geometry =
        Geometry { channels: 4, luns: 4, blocks: 1, pages: 64, page_bytes: 16384, spare_bytes: 64 };
    let blocks = bytes_of_flash(input).div_ceil(geometry.capacity_bytes()) as u32 + SPARE_BLOCKS;
    let options = FlashImageOptions { id: 1, endurance: None };
    FlashImage::create(path, Geometry { blocks, ..geometry }, options)
}

/// Builds and runs until the flash was written all over, and measures the round after that.
fn on_used(input: &Input, storage: &impl Storage, flash: &SimFlash) -> Result<Taken> {
    let geometry = flash.geometry();
    let pages = u64::from(geometry.block_count()) * u64::from(geometry.pages);
    while flash.counters().total().programs < WRITTEN_BEFORE * pages {
        measure(input, storage, 1, &|| flash.now_ns())?;
    }
    measure(input, storage, 1, &|| flash.now_ns())
}

fn measure(
    input: &Input,
    storage: &impl Storage,
    threads: usize,
    now_ns: &dyn Fn() -> u64,
) -> Result<Taken> {
    let memory = Memory::new(storage.memory_bytes() + input.memory_bytes());
    let begin = now_ns();
    let mut edges = Edges::new(&input.text[..]);
    let options = BuildOptions { threads, ..BuildOptions::default() };
    silica_graph::build(storage, &memory, &mut edges, &options, &mut |_| Ok(()))?;
    let built = now_ns();
    let graph = Graph::open(storage, &memory)?;
    let options = RunOptions { iterations_max: ITERATIONS, threads, goes_on: false };
    graph.run(&PageRank::default(), &options, &mut |_| Ok(()))?;
    let seconds = |ns: u64| ns as f64 / 1e9;
    Ok(Taken { build: seconds(built - begin), run: seconds(now_ns() - built) })
}

/// What a scheme wrote on the emulated flash, of which pages were copied or are of the mapping.
fn work(input: &Input, scheme: &str, flash: &SimFlash, moved: [u64; 2]) -> [Row; 4] {
    let total = flash.counters().total();
    let row = |metric: &str, value: f64| Row {
        figure: "figure-3.10",
        scheme: format!("{scheme}, {}", input.name),
        metric: metric.to_string(),
        value,
        paper: None,
    };
    [
        row("pages copied", moved[0] as f64),
        row("pages of the mapping", moved[1] as f64),
        row("erases", total.erases as f64),
        row("pages programmed", total.programs as f64),
    ]
}

/// Times of ours and of the baseline, and the former over the latter.
fn times(input: &Input, clock: &str, baseline: &str, ours: &Taken, base: &Taken) -> Vec<Row> {
    // The paper's figures are those of its social graph: -5.2 %, -7.6 % and -5.7 % in all.
    let parts = [
        ("preprocessing", ours.build, base.build, 0.948),
        ("execution", ours.run, base.run, 0.924),
        ("both", ours.build + ours.run, base.build + base.run, 0.943),
    ];
    let mut rows = Vec::new();
    for (part, ours, base, paper) in parts {
        let row = |scheme: &str, metric: String, value, paper| Row {
            figure: "figure-3.10",
            scheme: format!("{scheme}, {}", input.name),
            metric,
            value,
            paper,
        };
        rows.push(row("policy level", format!("{part}, {clock}, seconds"), ours, None));
        rows.push(row(baseline, format!("{part}, {clock}, seconds"), base, None));
        let ratio = format!("{part}, {clock}, over {baseline}");
        rows.push(row("policy level", ratio, ours / base.max(1e-9), Some(paper)));
    }
    rows
}
