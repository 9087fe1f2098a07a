//! `silica ingest`: table files into a keyspace, in one step.

use crate::build_table::Bar;
use crate::session::Session;
use silica::Result;
use silica_console::{Global, Output};
use std::path::PathBuf;
use std::time::Instant;

/// Ingests the files.
pub(crate) fn run(global: &Global, files: &[PathBuf], output: &mut Output) -> Result<()> {
    let started = Instant::now();
    let session = Session::open_to_write(global)?;
    let mut bar = Bar::new(output);
    let keyspace = session.keyspace()?;
    let done = keyspace.ingest_with(files, |done, all| bar.show("copying", done, all))?;
    let seconds = started.elapsed().as_secs_f64();
    output.line(format!(
        "ingested {} entries, {} bytes, of {} files into keyspace '{}' in {seconds:.2} s",
        done.entries,
        done.bytes,
        done.files,
        keyspace.name()
    ))?;
    let object = output.object();
    object.insert("entries".into(), done.entries.into());
    object.insert("bytes".into(), done.bytes.into());
    object.insert("files".into(), done.files.into());
    object.insert("seconds".into(), seconds.into());
    session.close()
}
