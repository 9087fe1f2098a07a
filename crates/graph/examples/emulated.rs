//! Where the time of PageRank goes on emulated flash: on the policy level, and on a conventional
//! drive of the same flash.
//!
//! `emulated EDGES` takes an R-MAT graph of so many edges, `emulated FILE` an edge list. Memory is
//! a tenth of 8 bytes an edge, as in `silica bench figures graph`, whose drive this is. The clock
//! is the emulator's, which has no host.

use silica_base::Result;
use silica_device::blocks::{FlashCounts, FlashDevice, Geometry};
use silica_device::sim::{FlashProfile, FlashTiming, SimFlash, SimFlashOptions};
use silica_flash::policy::PolicyStatistics;
use silica_graph::{
    BuildOptions, ConventionalStorage, Edges, Graph, Memory, PageRank, PolicyStorage, Rmat,
    RunOptions, Storage,
};

/// Pages of a block; an erase takes as long a byte as the paper's.
const BLOCK_PAGES: u32 = 32;

fn main() -> Result<()> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1048576".to_string());
    let text = match argument.parse() {
        Ok(edges) => rmat(edges)?,
        Err(_) => std::fs::read(&argument)
            .map_err(|e| silica_base::Error::io(format!("reading {argument}"), e))?,
    };
    let edges = text.iter().filter(|byte| **byte == b'\n').count() as u64;
    let flash = emulated(edges)?;
    let storage = PolicyStorage::format(flash.clone())?;
    let ours = on_used(&text, edges, &storage, &flash, &|| storage.statistics())?;
    let flash = emulated(edges)?;
    let storage = ConventionalStorage::format(flash.clone(), 25)?;
    let drive = on_used(&text, edges, &storage, &flash, &|| storage.statistics())?;
    let mut sums = [0; 2];
    for (part, (ours, drive)) in ["preprocessing", "execution"].iter().zip(ours.iter().zip(&drive))
    {
        ours.print(part, "policy level");
        drive.print(part, "conventional drive");
        println!("{part}: {:.4}", ours.ns as f64 / drive.ns as f64);
        sums = [sums[0] + ours.ns, sums[1] + drive.ns];
    }
    println!("both: {:.4}", sums[0] as f64 / sums[1] as f64);
    Ok(())
}

fn rmat(edges: u64) -> Result<Vec<u8>> {
    let mut rmat = Rmat::new((edges / 16).max(2).ilog2(), 1)?;
    let mut text = Vec::new();
    for _ in 0..edges {
        let (source, target) = rmat.edge();
        text.extend_from_slice(format!("{source}\t{target}\n").as_bytes());
    }
    Ok(text)
}

/// The drive of the figure.
fn emulated(edges: u64) -> Result<SimFlash> {
    let profile = FlashProfile::find("paper")?;
    let geometry =
        Geometry { channels: 4, luns: 4, pages: BLOCK_PAGES, spare_bytes: 64, ..profile.geometry };
    let pages = u64::from(profile.geometry.pages);
    let erase_ns = profile.timing.erase_ns * u64::from(BLOCK_PAGES) / pages;
    let timing = FlashTiming { erase_ns, ..profile.timing };
    let of_all = Geometry { blocks: 1, ..geometry }.capacity_bytes();
    let geometry = Geometry { blocks: (edges * 36).div_ceil(of_all) as u32 + 3, ..geometry };
    let options = SimFlashOptions { timing, is_sparse: true, ..SimFlashOptions::flash(geometry) };
    Ok(SimFlash::new(1, options))
}

/// What a part took.
struct Work {
    ns: u64,
    reads: u64,
    programs: u64,
    erases: u64,
    of_mapping: u64,
    copied: u64,
}

impl Work {
    fn print(&self, part: &str, storage: &str) {
        let Work { reads, programs, erases, of_mapping, copied, .. } = self;
        let seconds = self.ns as f64 / 1e9;
        println!(
            "{part} on the {storage}: {seconds:.4} s, {reads} pages read, {programs} programmed \
             ({of_mapping} of the mapping, {copied} copies), {erases} erases"
        );
    }
}

/// Builds and runs until the flash was written twice over; what the round after that took.
fn on_used(
    text: &[u8],
    edges: u64,
    storage: &impl Storage,
    flash: &SimFlash,
    statistics: &dyn Fn() -> PolicyStatistics,
) -> Result<[Work; 2]> {
    let geometry = flash.geometry();
    let pages = u64::from(geometry.block_count()) * u64::from(geometry.pages);
    while flash.counters().total().programs < 2 * pages {
        round(text, edges, storage, flash, statistics)?;
    }
    round(text, edges, storage, flash, statistics)
}

fn round(
    text: &[u8],
    edges: u64,
    storage: &impl Storage,
    flash: &SimFlash,
    statistics: &dyn Fn() -> PolicyStatistics,
) -> Result<[Work; 2]> {
    let memory = Memory::new(storage.memory_bytes() + (edges * 8 / 10).max(512 << 10));
    let seen = || (flash.now_ns(), flash.counters().total(), statistics());
    let work = |from: (u64, _, PolicyStatistics), to: (u64, _, PolicyStatistics)| {
        let (before, after): (FlashCounts, FlashCounts) = (from.1, to.1);
        Work {
            ns: to.0 - from.0,
            reads: after.reads - before.reads,
            programs: after.programs - before.programs,
            erases: after.erases - before.erases,
            of_mapping: to.2.pages_of_mapping - from.2.pages_of_mapping,
            copied: to.2.pages_copied - from.2.pages_copied,
        }
    };
    let begun = seen();
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    silica_graph::build(storage, &memory, &mut Edges::new(text), &options, &mut |_| Ok(()))?;
    let built = seen();
    let graph = Graph::open(storage, &memory)?;
    let options = RunOptions { iterations_max: 10, threads: 1, goes_on: false };
    graph.run(&PageRank::default(), &options, &mut |_| Ok(()))?;
    Ok([work(begun, built), work(built, seen())])
}
