//! Every store answers the same questions the same way: peers are oracles for one another.

use silica_bench::{Plan, Shape, WORKLOADS, drive, fill};
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

#[test]
fn all_stores_that_are_installed_give_the_same_answers() {
    for workload in WORKLOADS.iter().filter(|w| !w.split_roles) {
        let mut first = None;
        for store in all() {
            if let Err(missing) = store.version() {
                eprintln!("{} takes no part: {missing}", store.name());
                continue;
            }
            let Some(answers) = answers(store, workload.name) else { continue };
            let (name, expected) = first.get_or_insert((store.name(), answers));
            assert_eq!(answers, *expected, "{} and {name}, {}", store.name(), workload.name);
        }
        assert!(first.is_some() || workload.scans > 0, "somebody does {}", workload.name);
    }
}
