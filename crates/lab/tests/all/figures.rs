//! Each paper's figures at toy size: relations that hold at any size, and answers that the runs
//! check by themselves. Rates mean nothing here.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// The rows of a paper.
struct Rows(Vec<Value>);

impl Rows {
    /// Runs `silica bench figures PAPER` with these arguments. The rows on standard output, those
    /// of `results.json` and those of `results.md` are the same; all charts are there.
    fn of(paper: &str, arguments: &[&str]) -> Rows {
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_silica-lab"));
        command.args(["bench", "figures", paper, "--json", "--out"]).arg(out.path());
        let output = command.args(arguments).env_remove("RUST_LOG").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{paper}: {errors}{:?}", output.stdout);
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        let read = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
        let written: Value = serde_json::from_str(&read("results.json")).unwrap();
        assert_eq!(written["rows"], object["rows"], "{paper}");
        assert!(written["machine"]["cores"].as_u64().unwrap() > 0, "{paper}");
        let rows = object["rows"].as_array().unwrap().clone();
        assert_eq!(read("results.md").lines().count(), rows.len() + 2, "{paper}");
        for file in object["files"].as_array().unwrap() {
            let file = std::path::Path::new(file.as_str().unwrap());
            assert!(std::fs::metadata(file).unwrap().len() > 0, "{}", file.display());
        }
        for row in &rows {
            // What is compared in percent may be less.
            let may_be_less = row["metric"].as_str().unwrap().contains("% more");
            let is_right = |value: f64| value.is_finite() && (value >= 0.0 || may_be_less);
            assert!(row["value"].as_f64().is_some_and(is_right), "{row}");
        }
        let left: Vec<_> = std::fs::read_dir(out.path()).unwrap().flatten().collect();
        assert!(left.iter().all(|entry| entry.path().is_file()), "a store was left: {left:?}");
        Rows(rows)
    }

    /// Values of a figure's rows of this scheme, or of all that begin so where a star ends it, with
    /// these words in the metric; in their order.
    fn values(&self, figure: &str, scheme: &str, metric: &str) -> Vec<f64> {
        let is_scheme = |name: &str| match scheme.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == scheme,
        };
        let is_it = |row: &&Value| {
            let text = |field: &str| row[field].as_str().unwrap();
            row["figure"] == figure && is_scheme(text("scheme")) && text("metric").contains(metric)
        };
        self.0.iter().filter(is_it).map(|row| row["value"].as_f64().unwrap()).collect()
    }

    /// The only such value.
    fn value(&self, figure: &str, scheme: &str, metric: &str) -> f64 {
        let values = self.values(figure, scheme, metric);
        assert_eq!(values.len(), 1, "{figure}, {scheme}, {metric}: {values:?}");
        values[0]
    }

    fn figures(&self) -> BTreeSet<&str> {
        self.0.iter().map(|row| row["figure"].as_str().unwrap()).collect()
    }

    fn schemes(&self, figure: &str) -> BTreeSet<&str> {
        let of = self.0.iter().filter(|row| row["figure"] == figure);
        of.map(|row| row["scheme"].as_str().unwrap()).collect()
    }
}

#[test]
fn silt_sustains_no_more_than_it_reaches_and_each_kind_of_store_answers() {
    let rows = Rows::of("silt", &["--scale", "0.0002", "--memory", "1MiB"]);
    let combinations = ["log store only", "log and sorted", "log and hash", "all three"];
    for stores in combinations {
        assert!(rows.value("figure-10", stores, "bytes of index a key") > 0.0);
    }
    assert_eq!(rows.value("table-7", "LogStore", "share of the hits"), 1.0);
    assert_eq!(rows.values("table-7", "*", "gets/s").len(), 6);
    let unpaced = rows.value("section-6.1", "silt", "unpaced");
    assert!(rows.value("section-6.1", "silt", "merging sustains") <= unpaced);
    // The log has every byte once; merging comes to it.
    for load in ["zipfian", "uniform"] {
        let of = |metric: &str| rows.value("section-4.5", load, metric);
        assert!(of("bytes written") > 1.0, "{load}");
        assert!(of("a key, mean") <= of("a key, most"), "{load}");
    }
    for load in ["50/50 of 64 B", "10/90 of 1 KiB"] {
        let metric = format!("{load}: requests/s");
        assert!(rows.value("section-6.1", "silica:silt", &metric) > 0.0);
    }
    let all = rows.value("figure-11", "all", "median");
    assert!(all <= rows.value("figure-11", "all", "99 %"), "{all}");
}

#[test]
fn tries_are_as_small_as_their_paper_says_and_merging_gives_what_a_rebuild_gives() {
    // The command itself compares the merged file with the one that was built anew.
    let rows = Rows::of("ect", &["--scale", "0.001"]);
    let bits = rows.value("section-3.3.3", "ECT", "bits per key");
    assert!((2.3..2.6).contains(&bits), "{bits}");
    assert!(bits < rows.value("section-3.3.3", "FMPH", "bits per key").max(2.6));
    let entropy = rows.value("figure-3.3", "entropy", "bits");
    let codes = rows.values("figure-3.3", "Huffman*", "bits");
    assert!(codes.iter().all(|bits| *bits > entropy), "{entropy} {codes:?}");
    let by_group = rows.values("figure-3.10", "ECT", "bits per key");
    assert!(by_group.windows(2).all(|pair| pair[1] < pair[0]), "{by_group:?}");
    let by_hmax = rows.values("figure-3.11", "ECT", "bits per key");
    assert!(by_hmax.windows(2).all(|pair| pair[1] <= pair[0] * 1.01), "{by_hmax:?}");
    let sparse = rows.values("figure-3.6", "ECT", "bits per key");
    assert!(sparse.len() == 4 && sparse[1] < 1.0 && sparse[3] < sparse[0], "{sparse:?}");
    for scheme in ["merge", "rebuild"] {
        let seconds = rows.values("figure-3.9", scheme, "seconds");
        assert!(seconds.len() == 5 && seconds.windows(2).all(|pair| pair[0] < pair[1]));
    }
    // A lookup that finds another item fails the run.
    assert_eq!(rows.values("table-3.4", "*", "lookups/s").len(), 3);
    assert_eq!(rows.values("figure-3.7", "*", "items/s").len(), 10);
    let streamed = |metric: &str| rows.values("section-3.3.3", "ECT, keys made*", metric);
    assert_eq!(streamed("wrong ranks"), [0.0, 0.0, 0.0]);
    assert!(streamed("bits per key").iter().all(|bits| (2.3..2.6).contains(bits)));
    assert_eq!(streamed("1000000 keys: bits per key").len(), 1);
}

#[test]
fn models_have_the_papers_numbers_and_optimised_levels_write_less() {
    let rows = Rows::of("models", &["--scale", "0.0002"]);
    // The analysis keeps its proportions at every size.
    let plain = rows.value("table-4.1", "analysis", "total");
    assert!((plain - 25.82).abs() < 0.2, "{plain}");
    for (scheme, metric, paper) in
        [("analysis, optimised", "total", 23.67), ("analysis, optimised", "level 0 to 1", 3.85)]
    {
        let found = rows.value("table-4.1", scheme, metric);
        assert!((found / paper - 1.0).abs() < 0.02, "{scheme}, {metric}: {found}");
    }
    for popularity in ["uniform", "zipf"] {
        let of = |scheme: &str| rows.values("figure-4.12", scheme, popularity);
        let (plain, optimised) = (of("LevelDB-ana"), of("LevelDB-ana-opt"));
        assert_eq!((plain.len(), optimised.len()), (3, 3));
        let are_less = plain.iter().zip(&optimised).all(|(plain, best)| best < plain);
        assert!(are_less, "{popularity}: {plain:?}, optimised {optimised:?}");
    }
    // Where the stores are installed: every byte is at least in the log and in a table.
    for figure in ["figure-4.3", "figure-4.13", "figure-4.17"] {
        let written = rows.values(figure, "*", "bytes written for each byte put");
        assert!(written.iter().all(|bytes| *bytes > 1.0), "{figure}: {written:?}");
    }
    if !rows.schemes("figure-4.17").is_empty() {
        assert!(rows.schemes("figure-4.17").len() >= 4, "{:?}", rows.schemes("figure-4.17"));
    }
}

#[test]
fn mica_and_every_table_do_the_whole_matrix() {
    // Answers are checked by the driver: a wrong one fails the run.
    let rows = Rows::of("mica", &["--scale", "0.0001"]);
    for scheme in ["silica:mica", "silica:mica-store", "hashbrown", "dashmap", "papaya", "scc"] {
        for dataset in ["tiny", "small", "large"] {
            for skew in ["uniform", "skewed"] {
                for gets in [50, 95] {
                    let metric = format!("{dataset}, {skew}, {gets} % gets");
                    let rates = rows.values("figure-5.12", scheme, &metric);
                    assert!(!rates.is_empty() && rates.iter().all(|rate| *rate > 0.0));
                }
            }
        }
    }
    for scheme in rows.schemes("figure-5.13") {
        let of = |part: &str| rows.values("figure-5.13", scheme, part);
        let (low, high) = (of("us, 5 %"), of("us, 95 %"));
        assert!(low.len() == 4 && low.iter().zip(&high).all(|(low, high)| low <= high));
    }
    for gets in ["50", "95"] {
        let rate = |scheme: &str| rows.value("table-5.2", scheme, &format!("{gets} % gets, "));
        let share = rows.value("table-5.2", "partitioned hashbrown", &format!("{gets} % gets: of"));
        let found = rate("partitioned hashbrown") / rate("silica:mica, owners");
        assert!((share - found).abs() < 1e-6 * share, "{share} {found}");
    }
}

#[test]
fn wipdb_writes_less_than_its_bound_at_every_moment() {
    let rows = Rows::of("wipdb", &["--scale", "0.0006"]);
    let written = rows.values("figure-2.6", "silica:wip", "bytes written for each byte put");
    let bound = rows.values("figure-2.6", "bound", "bytes written");
    assert!(!bound.is_empty() && written.iter().all(|bytes| *bytes <= bound[0]), "{written:?}");
    let tables = rows.value("figure-2.6", "silica:wip", "most bytes of tables");
    assert!(tables <= bound[0] - 1.0, "{tables}");
    let buckets = rows.values("figure-2.7", "silica:wip", "buckets");
    assert!(buckets.first() == Some(&1.0) && buckets.windows(2).all(|pair| pair[0] <= pair[1]));
    for load in ["uniform", "exponential"] {
        for scheme in ["silica:wip", "wip without the read-aware rule"] {
            for metric in ["gets/s", "puts/s", "get, 99 %"] {
                let metric = format!("{load}: {metric}");
                assert!(rows.value("table-2.1", scheme, &metric) > 0.0, "{scheme}, {metric}");
            }
        }
    }
    let logs = rows.values("figure-2.9", "silica:wip", "MiB of log");
    assert!(logs.len() == 5 && logs.iter().all(|mib| *mib > 0.0), "{logs:?}");
    for load in "ABCDEF".chars() {
        assert!(rows.value("table-2.2", "silica:wip", &format!("YCSB-{load}")) > 0.0);
    }
    assert!(rows.values("figure-2.11", "silica:wip", "files").iter().sum::<f64>() > 1.0);
}

#[test]
fn turbohash_and_sptree_have_their_own_chapter_each() {
    let (turbo, sptree) =
        (Rows::of("turbohash", &["--scale", "0.004"]), Rows::of("sptree", &["--scale", "0.004"]));
    assert!(turbo.figures().iter().all(|figure| figure.starts_with("figure-3.")));
    assert!(sptree.figures().iter().all(|figure| figure.starts_with("figure-4.")));
    let both = Rows::of("pmem", &["--scale", "0.004"]);
    assert_eq!([turbo.0, sptree.0].concat(), both.0, "counts do not depend on the machine");
}

#[test]
fn prism_has_all_three_cases_and_flash_copies_nothing_below_the_file_system() {
    let rows = Rows::of("prism", &["--scale", "0.0005"]);
    let figures = rows.figures();
    for figure in ["table-3.1", "figure-3.10"] {
        assert!(figures.contains(figure), "{figures:?}");
    }
    for load in ["fileserver", "webserver", "varmail"] {
        let is_of = |row: &&Value| row["metric"].as_str().unwrap().starts_with(load);
        assert_eq!(rows.0.iter().filter(is_of).count(), 15, "{load}");
    }
    let copies: Vec<f64> = rows
        .0
        .iter()
        .filter(|row| row["metric"].as_str().unwrap().contains("flash copies"))
        .filter(|row| row["scheme"] == "ULFS-Prism")
        .map(|row| row["value"].as_f64().unwrap())
        .collect();
    assert!(!copies.is_empty() && copies.iter().all(|pages| *pages == 0.0), "{copies:?}");
}

#[test]
fn what_a_capability_costs_is_its_semantics_and_our_design() {
    let rows = Rows::of("order", &["--scale", "0.0005"]);
    for family in ["on the device", "in memory"] {
        assert_eq!(rows.values("ladder", family, "gets: operations/s").len(), 9, "{family}");
        assert_eq!(rows.values("ladder", family, "scans: operations/s").len(), 6, "{family}");
        let of = |metric: &str| rows.values("loss", family, metric);
        let (lost, design) = (of("% more time an operation"), of("% more by our design"));
        let semantics = of("% more by the semantics");
        // Eight steps over their bases, under three loads.
        assert_eq!((lost.len(), semantics.len(), design.len()), (24, 24, 24), "{family}");
        for (lost, (semantics, design)) in lost.iter().zip(semantics.iter().zip(&design)) {
            assert!((lost - semantics - design).abs() < 1e-6 * lost.abs().max(1.0));
            assert!((0.0..=lost.max(0.0) + 1e-9).contains(semantics), "{lost} {semantics}");
        }
        // Nothing that a snapshot promises takes time of a get.
        assert_eq!(rows.value("loss", family, "a snapshot held, gets: % more by the sem"), 0.0);
    }
    let written = rows.values("ladder", "on the device", "bytes written for each byte put");
    assert!(written.len() == 9 && written.iter().all(|bytes| *bytes >= 1.0), "{written:?}");
    for map in ["hash table", "ordered tree"] {
        let nanos = rows.values("floor", map, "ns an operation");
        assert!(nanos.len() == 3 && nanos.iter().all(|nanos| *nanos > 0.0), "{nanos:?}");
    }
}

#[test]
fn each_level_between_a_caller_and_an_engine_is_measured_and_lines_are_counted() {
    let rows = Rows::of("modularity", &["--scale", "0.001"]);
    assert_eq!(rows.schemes("levels").len(), 6);
    for engine in ["mica", "wip"] {
        for kind in ["gets", "puts"] {
            let of = |level: &str, burst: u32| {
                rows.value("levels", level, &format!("{burst} keys, {engine}, {kind}: ns"))
            };
            for level in ["server, TCP", "server, unix socket"] {
                // A system call and a wake-up for each key, or for 32 of them.
                assert!(of(level, 32) < of(level, 1), "{engine}, {kind}, {level}");
                assert!(of(level, 1) > of("own type", 1), "{engine}, {kind}, {level}");
            }
        }
    }
    let counted = rows.schemes("instructions");
    if !counted.is_empty() {
        let of = |level: &str| rows.value("instructions", level, "8 keys, mica, gets");
        assert!(of("own type") > 20.0 && of("own type") < of("facade, borrowed"), "{counted:?}");
    }
    assert_eq!(rows.values("lines", "*", "lines of tests").len(), 6);
    let all = |metric: &str| rows.value("lines", "all engines", metric);
    assert!(all("lines, if each had its own") > all("below the boundary, once"));
}

#[test]
fn the_models_choose_for_every_workload_and_a_search_judges_them() {
    let rows = Rows::of("auto", &["--scale", "0.002"]);
    let workloads = rows.schemes("choices").len();
    assert!(workloads >= 3, "{workloads}");
    for scheme in ["tune", "auto"] {
        let shares = rows.values("choices", "*", &format!("{scheme} chose"));
        assert!(shares.iter().all(|share| *share > 0.0 && *share <= 1.0), "{shares:?}");
        let good = shares.iter().filter(|share| **share >= 0.9).count() as f64;
        assert_eq!(rows.value("summary", scheme, "all: within 10 %"), good);
        assert_eq!(rows.value("summary", scheme, "all: workloads"), workloads as f64);
        assert_eq!(rows.values("choices-sorted", scheme, "th").len(), workloads);
    }
    // Engines as they come and options at both ends, as far as an engine can do the workload.
    let measured = rows.values("choices", "*", "settings measured");
    assert!(measured.iter().all(|settings| *settings >= 4.0), "{measured:?}");
}

#[test]
fn a_scale_of_nothing_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silica-lab"));
    let command = command.args(["bench", "figures", "ect", "--scale", "0", "--out", "nowhere"]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("--scale"), "{errors}");
    assert!(!std::path::Path::new("nowhere").exists());
}
