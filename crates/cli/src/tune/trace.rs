//! The workload of a trace's file.

use silica::tune::Workload;
use silica::tune::trace::TraceReader;
use silica::{Error, Result};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The workload of `file`, with the rest as in `base`.
pub(super) fn workload(file: &Path, base: &Workload) -> Result<Workload> {
    let name = file.display().to_string();
    let failed = |e| Error::io(format!("cannot read {name}; check the trace's path"), e);
    let input = BufReader::new(File::open(file).map_err(failed)?);
    let mut reader = TraceReader::new(input, &name)?.up_to_cut();
    let workload = Workload::from_trace(&mut reader, base);
    let workload = workload.map_err(|e| e.within(format_args!("trace {name}")))?;
    if let Some(line) = reader.cut_line() {
        eprintln!("silica: line {line} of {name} is cut off; the workload is what comes before");
    }
    Ok(workload)
}
