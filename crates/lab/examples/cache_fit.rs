//! The free parameters of the papers' workloads, which DIDACache's chapter does not name: runs
//! Table 2.1, or Figure 2.11, for each combination.
//!
//!     cargo run --release -p silica-lab --example cache_fit -- \
//!         table|hits SCALE DATA_GB,… WIDTH_MILLIONS,… DRIFT,… CLEAN_MS

use silica_base::Result;
use silica_lab::figures::didacache::{Setup, Workload, figure_2_11, table_2_1};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, scale, data, width, drift, clean] = &args[..] else {
        panic!("usage: cache_fit table|hits SCALE DATA_GB,… WIDTH_M,… DRIFT,… CLEAN_MS");
    };
    let list = |text: &str| -> Vec<f64> {
        text.split(',').map(|part| part.parse().expect("a number")).collect()
    };
    let clean_ms: f64 = clean.parse().expect("a number");
    let clean_ns = (clean_ms * 1e6) as u64;
    for data in list(data) {
        for width in list(width) {
            for drift in list(drift) {
                let workload =
                    Workload { data_bytes: data * 1e9, width: width * 1e6, drift, clean_ns };
                let plain = Setup::new(scale.parse().expect("a number"), 1)?;
                let setup = Setup { collection: workload, hits: workload, ..plain };
                let rows = if what == "table" { table_2_1(&setup)? } else { figure_2_11(&setup)? };
                println!("data {data} GB, width {width} million keys, drift {drift}");
                for row in rows.iter().filter(|row| row.paper.is_some_and(|paper| paper > 0.0)) {
                    let paper = row.paper.unwrap_or(0.0);
                    println!(
                        "  {:20} {:32} {:10.3} {paper:10.3}",
                        row.scheme, row.metric, row.value
                    );
                }
            }
        }
    }
    Ok(())
}
