//! Histories of clients while members fail: each must have an order.

use super::clients::Follower;
use super::faults::{FAULTS, Fault};
use super::group::Group;
use super::porcupine::Porcupine;
use super::proxy::Weather;
use silica_base::{Prng, test_size};
use silica_testkit::histories::{Answer, Load, Memory, record};
use std::time::Duration;

pub(super) fn load(calls: u64) -> Load {
    Load {
        threads: 5,
        calls,
        keys: 3,
        counters: 1,
        recurring: 1,
        watches: true,
        value_bytes_max: 200,
        updates: true,
    }
}

/// One fault, and clients at work from before it to after it; how many calls were answered.
fn one(
    group: &mut Group,
    second: &mut Porcupine,
    fault: Fault,
    (seed, round): (u64, u64),
) -> usize {
    let mut prng = Prng::new(seed);
    // Mostly the leader: that is what hurts.
    let at = if prng.below(3) > 0 { group.leader() } else { prng.below(3) as usize };
    let last = Duration::from_millis(500 + prng.below(1500));
    let ports: Vec<u16> = group.members.iter().map(|member| member.port).collect();
    let history = std::thread::scope(|scope| {
        let clients = scope.spawn(move || {
            let connect = |number: u64| Follower::new(&ports, number as usize);
            record(load(60), seed, &format!("{round}/"), connect)
        });
        std::thread::sleep(Duration::from_millis(200));
        fault.befall(group, at, last, &mut prng);
        clients.join().expect("clients")
    });
    let answered = |answer: &Answer| !matches!(answer, Answer::Refused | Answer::Unknown);
    if let Err(piece) = history.check(Memory::Keeps) {
        panic!("round {round}, {fault:?} at member {at}, seed {seed}: {piece}");
    }
    if let Some(Err(found)) = second.check(&history) {
        panic!("round {round}, {fault:?} at member {at}, seed {seed}: porcupine: {found}");
    }
    history.operations.iter().filter(|operation| answered(&operation.answer)).count()
}

#[test]
fn clients_see_one_order_whatever_befalls_members() {
    let seed = std::env::var("SILICA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(40);
    let mut group = Group::start("agreement-histories", 3, &[]);
    let rounds = test_size(2, 7, 500);
    let (mut prng, mut answered) = (Prng::new(seed), 0);
    let mut second = Porcupine::of_soak();
    for round in 0..rounds {
        let fault = FAULTS[(round % FAULTS.len() as u64) as usize];
        answered += one(&mut group, &mut second, fault, (prng.next_u64(), round));
        group.leader();
    }
    assert!(answered as u64 > 100 * rounds, "only {answered} calls were answered");
    println!("{rounds} faults, {answered} calls answered, each in one order");
}

/// The checker is worth something: where a member that is cut off answers reads, it says so.
#[test]
fn stale_reads_are_found() {
    let group = Group::start("agreement-stale", 3, &["--stale-reads"]);
    let leader = group.leader();
    let stale = (leader + 1) % 3;
    let own = &group.members[stale].address;
    for other in (0..3).filter(|other| *other != stale) {
        group.links.set(&group.members[other].address, own, Weather::Lost);
    }
    let ports: Vec<u16> = group.members.iter().map(|member| member.port).collect();
    let connect = |number: u64| {
        let mut client = Follower::new(&ports, leader);
        client.reads_at = (number == 0).then_some(stale);
        client
    };
    let quick = Load { threads: 2, calls: 60, ..load(60) };
    let history = record(quick, 7, "stale/", connect);
    let found = history.check(Memory::Keeps).expect_err("stale reads have no order");
    let second = Porcupine::of_soak().check(&history);
    assert!(!matches!(second, Some(Ok(()))), "the second checker finds an order");
    println!("{found}");
}
