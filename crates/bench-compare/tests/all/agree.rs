//! Every store answers the same questions the same way: peers are oracles for one another.

use silica_bench::{Plan, Shape, WORKLOADS, Workload, drive, fill};
use silica_bench_compare::{Setup, all};

fn plan(workload: &str) -> Plan {
    Plan {
        keys: 400,
        operations: 800,
        shape: Shape { key_bytes: 16, value_bytes: 40 },
        batch: 5,
        ..Plan::new(workload).unwrap()
    }
}

/// The fingerprint of what `store` answered to `workload`, and the keys it found; nothing where
/// it cannot do what the workload does.
fn answers(store: &dyn silica_bench_compare::Peer, workload: &str) -> Option<(u64, u64)> {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(workload);
    let setup = Setup {
        directory: directory.path().to_path_buf(),
        memory_bytes: 64 << 20,
        level_bytes: Vec::new(),
        compaction_priority: None,
        server_threads: None,
        set: Vec::new(),
        plan: plan.clone(),
    };
    let target = store.open(&setup).unwrap();
    if let Err(unable) = plan.workload.check_abilities(target.abilities()) {
        eprintln!("{} takes no part: {unable}", store.name());
        return None;
    }
    if !plan.workload.is_fill() {
        fill(&plan, &*target, &mut |_, _| {}).unwrap();
    }
    let run = drive(&plan, &*target, workload, &mut |_, _| {}).unwrap();
    Some((run.tally.result_hash(), run.tally.hits))
}

/// The workloads that one thread runs alone.
fn workloads() -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().filter(|workload| !workload.split_roles)
}

#[test]
fn all_stores_that_are_installed_give_the_same_answers() {
    let mut stores = all();
    stores.retain(|store| match store.version() {
        Ok(_) => true,
        Err(missing) => {
            eprintln!("{} takes no part: {missing}", store.name());
            false
        }
    });
    // Stores wait for devices and servers most of the time, so they go side by side.
    let of_all: Vec<Vec<_>> = std::thread::scope(|scope| {
        let run = |store| move || workloads().map(|w| answers(store, w.name)).collect();
        let threads: Vec<_> = stores.iter().map(|&store| scope.spawn(run(store))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (i, workload) in workloads().enumerate() {
        let mut first = None;
        for (store, of_store) in stores.iter().zip(&of_all) {
            let Some(answers) = of_store[i] else { continue };
            let (name, expected) = first.get_or_insert((store.name(), answers));
            assert_eq!(answers, *expected, "{} and {name}, {}", store.name(), workload.name);
        }
        assert!(first.is_some() || workload.scans > 0, "somebody does {}", workload.name);
    }
}
