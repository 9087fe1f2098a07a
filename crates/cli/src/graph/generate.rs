//! Edge lists of random graphs.

use flate2::Compression;
use flate2::write::GzEncoder;
use silica::{Error, ErrorKind, Result};
use silica_console::Output;
use silica_graph::{Rmat, edge_file::EdgeWriter};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Makes the edge list.
pub(super) fn run(
    scale: u32,
    edges: u64,
    seed: u64,
    out: &Path,
    output: &mut Output,
) -> Result<()> {
    silica::refuse_within_store(out, "the edge list")?;
    let mut rmat = Rmat::new(scale, seed)?;
    let file = File::create_new(out).map_err(|e| failed(out, e))?;
    let written = write(&mut rmat, edges, out, file);
    if written.is_err() {
        // A list that ends early would pass for a smaller graph.
        let _ = std::fs::remove_file(out);
    }
    written?;
    output.line(format!(
        "wrote {edges} edges among 2^{scale} vertices (R-MAT, seed {seed}) to {}",
        out.display()
    ))?;
    let object = output.object();
    object.insert("edges".into(), edges.into());
    object.insert("scale".into(), scale.into());
    object.insert("seed".into(), seed.into());
    Ok(())
}

fn write(rmat: &mut Rmat, edges: u64, path: &Path, file: File) -> Result<()> {
    let out = BufWriter::with_capacity(1 << 20, file);
    let ends = |end: &str| path.extension().is_some_and(|extension| extension == end);
    let file = if ends("gz") {
        let mut packed = GzEncoder::new(out, Compression::fast());
        text(rmat, edges, &mut packed).map_err(|e| failed(path, e))?;
        packed.finish().map_err(|e| failed(path, e))?
    } else if ends("txt") || ends("tsv") {
        let mut out = out;
        text(rmat, edges, &mut out).map_err(|e| failed(path, e))?;
        out
    } else {
        let mut writer = EdgeWriter::new(out)?;
        for _ in 0..edges {
            let (source, target) = rmat.edge();
            writer.push(source, target)?;
        }
        writer.finish()?
    };
    let file = file.into_inner().map_err(|e| failed(path, e.into_error()))?;
    file.sync_all().map_err(|e| failed(path, e))
}

fn text(rmat: &mut Rmat, edges: u64, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "# R-MAT, {edges} edges; source and target")?;
    for _ in 0..edges {
        let (source, target) = rmat.edge();
        writeln!(out, "{source}\t{target}")?;
    }
    Ok(())
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::AlreadyExists {
        let message = format!("{} is there already; choose another name", path.display());
        return Error::new(ErrorKind::Config, message);
    }
    Error::io(format!("writing {}", path.display()), error)
}
