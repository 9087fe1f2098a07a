//! Papers whose figures come from simulators and emulated devices: DIDACache, Prism, TurboHash,
//! SPTree.

use super::bars::{self, Bar, Bars};
use super::in_place::InPlace;
use super::job::Job;
use super::packages::packages;
use super::sheet::{Drawing, Sheet, drawing};
use crate::verbs::simulate::progress;
use silica::{Error, Result};
use silica_base::SystemClock;
use silica_console::Output;
use silica_console::signals::interruption;
use silica_lab::figures::graph::{Input, rows};
use silica_lab::figures::{Row, didacache, lfs, pmem};

const DIDACACHE: [Drawing; 2] = [
    drawing(
        "figure-2.11",
        "Hit ratio by cache size (figures 2.11, 3.4)",
        "% of the data",
        "hit ratio",
    ),
    drawing("figure-2.12", "SETs by size (figure 2.12), virtual time", "bytes", "SETs a second"),
];
const TURBOHASH: [Drawing; 3] = [
    Drawing {
        metric: "load factor before growth",
        ..drawing("figure-3.1", "Load factor before each growth (figure 3.1)", "growth", "load")
    },
    Drawing {
        file: "figure-3.1-misses",
        metric: "buckets of a miss before growth",
        ..drawing("figure-3.1", "Buckets of a miss before each growth", "growth", "buckets")
    },
    Drawing {
        metric: "when a shard grows",
        ..drawing(
            "figure-3.11",
            "Lines of 256 bytes written by a growth (figure 3.11)",
            "buckets after it",
            "lines",
        )
    },
];
const SPTREE: [Drawing; 1] = [drawing(
    "figure-4.8",
    "Media bytes read before the first answer (figure 4.8)",
    "keys",
    "of the leaves' bytes",
)];

const WRITTEN: &str = "media bytes written for each ";
const READ: &str = "media bytes read for each ";
const BYTES: &str = "bytes for each operation";
/// TurboHash's operations; throughput, which the paper draws, is on the benchmark page.
const FIGURE_3_4: Bars = Bars {
    figure: "figure-3.4",
    panels: &[
        Bar {
            title: "Bytes that the medium writes (figure 3.4)",
            y: BYTES,
            metrics: (WRITTEN, &["insert", "update", "delete"]),
        },
        Bar {
            title: "Bytes that the medium reads",
            y: BYTES,
            metrics: (READ, &["positive read", "negative read"]),
        },
    ],
};
/// SPTree's operations, as above.
const FIGURE_4_6: Bars = Bars {
    figure: "figure-4.6",
    panels: &[
        Bar {
            title: "Bytes that the medium writes for an insert (figure 4.6)",
            y: BYTES,
            metrics: (WRITTEN, &["insert"]),
        },
        Bar {
            title: "Bytes that it reads for a positive read",
            y: BYTES,
            metrics: (READ, &["positive read"]),
        },
        Bar {
            title: "Bytes that it reads for a negative read",
            y: BYTES,
            metrics: (READ, &["negative read"]),
        },
        Bar {
            title: "Bytes that it reads for a range of 100",
            y: BYTES,
            metrics: (READ, &["range of 100"]),
        },
    ],
};
const LFS: [Drawing; 3] = [
    Drawing {
        metric: "varmail: operations a second",
        ..drawing("figure-3.9", "Varmail (figure 3.9), virtual time", "", "operations a second")
    },
    Drawing {
        file: "table-3.2-copies",
        metric: "varmail: flash copies",
        ..drawing("table-3.2", "Varmail: flash copies (table 3.2)", "", "for each page written")
    },
    Drawing {
        file: "table-3.2-erases",
        metric: "varmail: erases, of",
        ..drawing("table-3.2", "Varmail: erases (table 3.2)", "", "of those of ULFS-SSD")
    },
];

fn sheet(rows: Vec<Row>, drawings: &[Drawing]) -> Sheet {
    Sheet { rows, drawings: drawings.to_vec(), ..Sheet::default() }
}

/// Tables and figures of DIDACache from simulators.
pub(super) fn didacache(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    let rows = didacache::rows(job.scale, job.seed(), &mut progress(output))?;
    Ok(sheet(rows, &DIDACACHE))
}

/// Both engines on simulated persistent memory.
pub(super) fn pmem(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    region(job, output, pmem::Of::Both, &[&TURBOHASH[..], &SPTREE].concat())
}

/// Figures of chapter 3, TurboHash.
pub(super) fn turbohash(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    region(job, output, pmem::Of::TurboHash, &TURBOHASH)
}

/// Figures of chapter 4, Spot-on and SPTree.
pub(super) fn sptree(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    region(job, output, pmem::Of::SpTree, &SPTREE)
}

fn region(job: &Job<'_>, output: &Output, of: pmem::Of, drawings: &[Drawing]) -> Result<Sheet> {
    let rows = pmem::rows(of, job.scale, job.seed(), &mut progress(output))?;
    let mut sheet = sheet(rows, drawings);
    for bars in [FIGURE_3_4, FIGURE_4_6] {
        sheet.files.extend(bars::draw(&sheet.rows, &bars, job.out)?);
    }
    Ok(sheet)
}

/// The paper's file system on flash and on a conventional drive, and one that writes in place, on
/// the emulator's clock.
pub(super) fn lfs(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    let (mut missing, mut number) = (None, 0);
    let stop = interruption()?;
    let mut in_place = |design, shape| {
        let scratch = job.scratch().join(number.to_string());
        number += 1;
        let made = InPlace::new(design, shape, &scratch, &stop)?;
        Ok(made.map_err(|told| missing = Some(told)).ok().map(|files| Box::new(files) as _))
    };
    let found = lfs::rows(job.scale, job.seed(), &mut in_place, &mut progress(output));
    // What stays behind is only untidy, and shows.
    let _ = std::fs::remove_dir_all(job.scratch());
    let remark = missing.map(|told| format!("MIT-XMP: {told}"));
    Ok(Sheet { remarks: remark.into_iter().collect(), ..sheet(found?, &LFS) })
}

/// PageRank on the policy level, a conventional drive and plain files: an R-MAT graph, and the
/// packages of this machine.
pub(super) fn graph(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    page_rank(job, packages().map(|list| Input::packages(&list)), output)
}

fn page_rank(job: &Job<'_>, packages: Option<Input>, output: &Output) -> Result<Sheet> {
    let scratch = job.out.join("scratch");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).map_err(|e| Error::io("creating a scratch directory", e))?;
    let mut inputs = vec![Input::rmat(job.scale, job.seed())?];
    inputs.extend(packages);
    let found = rows(&inputs, &scratch, &SystemClock::default(), &mut progress(output));
    let removed = std::fs::remove_dir_all(&scratch);
    let found = found?;
    removed.map_err(|e| Error::io("removing the scratch directory", e))?;
    Ok(sheet(found, &[]))
}

/// All three case studies of Prism-SSD: the cache (table 3.1, figure 3.4), the file system
/// (figure 3.9, table 3.2) and the graph engine (figure 3.10).
pub(super) fn prism(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    let mut rows = didacache::prism_rows(job.scale, job.seed(), &mut progress(output))?;
    // It takes the kernel's mounts.
    let remark = "MIT-XMP: `silica bench figures lfs` has it".to_string();
    rows.extend(lfs::rows(job.scale, job.seed(), &mut |_, _| Ok(None), &mut progress(output))?);
    // The packages' graph has one size: `figures graph` has it.
    rows.extend(page_rank(job, None, output)?.rows);
    Ok(Sheet { remarks: vec![remark], ..sheet(rows, &[&DIDACACHE[..1], &LFS].concat()) })
}
