//! Every workload at toy size, twice: the second run asks and answers the same.

use silica::{
    Engine, EngineSpec, Environment, FileDevice, OpenOptions, OptionValues, Registry, Result,
};
use silica_bench::{Config, Distribution, Plan, Shape, WORKLOADS, run};
use silica_testkit::Reference;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn build(_: FileDevice, _: &OptionValues, _: &Environment) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Reference::new()))
}

fn config(name: &str, threads: usize) -> Config {
    let reference = EngineSpec::new("reference", "", &[], build);
    let registry = Registry::empty().with(reference);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = format!("silica-bench-test-{}-{number}", std::process::id());
    let plan = Plan {
        keys: 500,
        operations: 1000,
        shape: Shape { key_bytes: 12, value_bytes: 40 },
        threads,
        ..Plan::new(name).unwrap()
    };
    Config {
        plan,
        path: Some(std::env::temp_dir().join(directory)),
        open: OpenOptions::new().engine("reference").registry(registry),
        ..Config::new(name).unwrap()
    }
}

/// The run of [`config`] with its plan changed.
fn changed(name: &str, threads: usize, change: impl FnOnce(&mut Plan)) -> Config {
    let mut config = config(name, threads);
    change(&mut config.plan);
    config
}

fn run_and_remove(config: &Config) -> silica_bench::Report {
    let report = run(config, &mut |_, _| {});
    let _ = std::fs::remove_dir_all(config.path.as_ref().unwrap());
    report.unwrap()
}

#[test]
fn every_workload_repeats_itself() {
    for workload in WORKLOADS {
        for (threads, batch) in [(1, 1), (2, 7)] {
            // What a scan meets of another thread's inserts is a matter of luck.
            let by_luck = workload.scans > 0 && workload.inserts > 0 && threads > 1;
            if workload.split_roles && threads < 2 || by_luck {
                continue;
            }
            let config = changed(workload.name, threads, |plan| plan.batch = batch);
            let first = run_and_remove(&config);
            let second = run_and_remove(&config);
            if !workload.split_roles {
                assert_eq!(first.result_hash, second.result_hash, "{}", workload.name);
                assert_eq!(first.operations, 1000);
            }
            assert!(first.throughput_ops > 0.0 && first.p999_us >= first.p50_us);
        }
    }
}

#[test]
fn the_result_hash_sees_a_difference() {
    let first = run_and_remove(&config("read", 1));
    let other_seed = run_and_remove(&changed("read", 1, |plan| plan.seed = 2));
    assert_ne!(first.result_hash, other_seed.result_hash);
    assert_eq!((first.reads, first.hits), (1000, 1000));
}

#[test]
fn distributions_ask_differently_and_find_everything() {
    let mut hashes = Vec::new();
    for distribution in Distribution::ALL {
        let report = run_and_remove(&changed("read", 2, |plan| plan.distribution = distribution));
        assert_eq!(report.hits, report.reads);
        hashes.push(report.result_hash);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), Distribution::ALL.len());
}

#[test]
fn a_rate_is_kept() {
    let report = run_and_remove(&changed("mixed", 2, |plan| plan.rate = 4000));
    assert!(report.seconds >= 0.2, "1000 operations at 4000 a second took {}", report.seconds);
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let mut small = config("fill", 1);
    small.plan.shape.key_bytes = 4;
    let error = run(&small, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("--key-size must be at least 8"), "{error}");
    assert!(Config::new("fil").err().unwrap().to_string().contains("known are fill"));
    let mut scan = config("seekrandom", 1);
    scan.open = OpenOptions::new().engine("silt");
    let mut phases = 0;
    let error = run(&scan, &mut |_, _| phases += 1).unwrap_err().to_string();
    let _ = std::fs::remove_dir_all(scan.path.as_ref().unwrap());
    assert!(error.contains("seekrandom scans") && phases == 0, "{error} after {phases}");
    let alone = run(&config("timeline", 1), &mut |_, _| {}).unwrap_err().to_string();
    assert!(alone.contains("--threads 2"), "{alone}");
}

#[test]
fn figures_are_drawn_from_real_runs() {
    let open = OpenOptions::new().set("partitions", "2").set("log_store_blocks", "1");
    let out = std::env::temp_dir().join(format!("silica-bench-figures-{}", std::process::id()));
    let path = Some(out.join("store"));
    // A second, so that there are rates to draw.
    let sized = |plan: &mut Plan| {
        (plan.keys, plan.operations, plan.rate) = (20_000, 20_000, 20_000);
    };
    let config = Config { path, open, ..changed("timeline", 2, sized) };
    let files = silica_bench::figures::draw(&config, &out, &mut |_, _| {}).unwrap();
    let texts: Vec<_> = files.1.iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    let _ = std::fs::remove_dir_all(&out);
    assert_eq!(texts.len(), 3);
    // Gets, puts, conversions and merges over the time of a run.
    let lines = lines_of(&texts[0]);
    assert!(lines.len() == 4 && lines.iter().all(|line| line.len() >= 3), "{lines:?}");
    assert!(lines[..3].iter().all(|line| rises(line)), "{lines:?}");
    // Four kinds of memory in each of four stores, and bytes for each key of these.
    let lines = lines_of(&texts[1]);
    assert_eq!(lines.len(), 4 * 4 + 4);
    assert!(lines[16..].iter().all(|line| rises(line)), "{:?}", &lines[16..]);
    // The gets of all stores together are all gets.
    let counts = gets_by_label(&texts[2]);
    assert_eq!(counts.len(), 8, "two panels of three stores and all: {counts:?}");
    for panel in counts.chunks(4) {
        assert_eq!(panel[..3].iter().sum::<u64>(), panel[3], "{counts:?}");
        // So few keys are not merged yet.
        assert!(panel[3] == 20_000 && panel[..2].iter().all(|gets| *gets > 0), "{counts:?}");
    }
}

/// Points of each line that is drawn in a colour, as `(x, y)` in pixels.
fn lines_of(svg: &str) -> Vec<Vec<(i64, i64)>> {
    let lines = svg.split("<polyline ").skip(1).filter_map(|rest| rest.split("/>").next());
    let lines = lines.filter(|line| !line.contains("stroke=\"#000000\""));
    let point = |text: &str| {
        let (x, y) = text.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let points = |line: &str| {
        let text = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        let points = text.expect("a line has points").split_whitespace();
        points.map(|text| point(text).expect("a point is two numbers")).collect()
    };
    lines.map(points).collect()
}

/// True if a line is not the same number everywhere.
fn rises(line: &[(i64, i64)]) -> bool {
    line.iter().any(|point| point.1 != line[0].1)
}

/// The numbers before `gets)` in a drawing's labels, in their order.
fn gets_by_label(svg: &str) -> Vec<u64> {
    let labels = svg.split(" gets)").map(|text| text.rsplit('(').next().unwrap_or_default());
    labels.filter_map(|count| count.parse().ok()).collect()
}
