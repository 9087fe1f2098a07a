//! Expired entries of a cache go without anything being put in their place.

use crate::support::{
    MIB, NOW, advance_ms, maintain, metric, metrics, open, options, put_until, sharded,
};
use silica_base::Clock;
use silica_engine::{Admin, Budget, Engine, EngineExt, WriteBatch};
use silica_mica::Mica;

const POLICIES: [&str; 5] = ["fifo", "lru", "approximate-lru", "second-chance", "s3-fifo"];

fn entries(mica: &Mica) -> f64 {
    metric(mica, "entries_estimate")
}

fn has(mica: &Mica, n: u32) -> bool {
    mica.get(&n.to_le_bytes()).expect("a get").is_some()
}

/// Even numbers stay, of the others every second one expires later.
fn expiry_of(n: u32) -> u64 {
    [0, 5000, 0, 9000][n as usize % 4]
}

#[test]
fn what_has_expired_leaves_a_cache_in_which_nothing_moves() {
    for eviction in POLICIES {
        let (mica, clock) = open(&options(4 * MIB, 2, eviction));
        // Far more than it holds, so that both logs of s3-fifo are full.
        (0..60_000).for_each(|n| put_until(&mica, n, expiry_of(n)).expect("a put"));
        let here: Vec<u32> = (0..60_000).filter(|n| has(&mica, *n)).collect();
        let before = metrics(&mica);
        assert!(before.get("evictions") > 1000.0 && before.get("expirations") == 0.0);
        let staying = |at_ms: u64| {
            let stays = move |n: &&u32| expiry_of(**n) == 0 || expiry_of(**n) > at_ms;
            here.iter().filter(stays).count() as f64
        };
        assert_eq!((maintain(&mica), entries(&mica)), (0, staying(0)), "nothing is due");
        for (ms, at_ms) in [(5000, 5000), (4000, 9000)] {
            advance_ms(&clock, ms);
            assert!(maintain(&mica) > 10, "a bit at a time");
            assert_eq!(entries(&mica), staying(at_ms), "{eviction} after {at_ms} ms");
            assert_eq!(mica.count(false).expect("a count").estimate as f64, staying(at_ms));
            mica.verify().expect("every invariant");
        }
        let after = metrics(&mica);
        let change = |name| after.get(name) - before.get(name);
        assert_eq!(change("expirations"), staying(0) - staying(9000), "each is counted once");
        assert_eq!(["evictions", "log_bytes_written"].map(change), [0.0; 2]);
        let freed = change("dead_bytes");
        assert!(freed == -change("live_bytes") && freed > 100.0 * change("expirations"));
        assert!(here.iter().all(|n| has(&mica, *n) == (expiry_of(*n) == 0)));
        // The places are passed over later, and nothing is counted again.
        (60_000..120_000).for_each(|n| put_until(&mica, n, 0).expect("a put"));
        assert_eq!(metric(&mica, "expirations"), after.get("expirations"));
        mica.verify().expect("every invariant");
    }
}

#[test]
fn nothing_is_looked_for_where_nothing_expires_and_a_budget_bounds_what_is() {
    let (mica, clock) = open(&options(4 * MIB, 2, "s3-fifo"));
    (0..10_000).for_each(|n| put_until(&mica, n, 0).expect("a put"));
    advance_ms(&clock, 1 << 40);
    let progress = mica.maintain(Budget::of(MIB)).expect("maintained");
    assert_eq!((progress.bytes, progress.more), (0, false));
    let now = clock.unix_ms();
    (0..10_000).for_each(|n| put_until(&mica, n, now + 1).expect("a put"));
    advance_ms(&clock, 1);
    let progress = mica.maintain(Budget::of(1)).expect("maintained");
    assert!(progress.more && entries(&mica) > 9000.0, "{} are left", entries(&mica));
    maintain(&mica);
    assert_eq!(entries(&mica), 0.0);
    // The next pass waits for its time.
    put_until(&mica, 1, now + 2).expect("a put");
    advance_ms(&clock, 500);
    assert_eq!((maintain(&mica), entries(&mica)), (0, 1.0));
    advance_ms(&clock, 501);
    maintain(&mica);
    assert_eq!(entries(&mica), 0.0);
}

#[test]
fn a_pass_that_took_long_is_followed_by_a_longer_pause() {
    let (mica, clock) = open(&options(4 * MIB, 1, "s3-fifo"));
    (0..10_000).for_each(|n| put_until(&mica, n, 1).expect("a put"));
    advance_ms(&clock, 1);
    while mica.maintain(Budget::of(1)).expect("maintained").more {
        advance_ms(&clock, 100);
    }
    let now = clock.unix_ms();
    assert!(now > 1000 && entries(&mica) == 0.0, "it took {now} ms");
    put_until(&mica, 1, now + 1).expect("a put");
    for (ms, left) in [(8 * now, 1.0), (now, 0.0)] {
        advance_ms(&clock, ms);
        maintain(&mica);
        assert_eq!(entries(&mica), left, "{ms} ms later");
    }
}

#[test]
fn the_owner_of_a_partition_sees_to_it_in_passing() {
    let (mica, clock) = open(&options(4 * MIB, 1, "s3-fifo"));
    (0..10_000).for_each(|n| put_until(&mica, n, 1000).expect("a put"));
    let mut shard = sharded(&mica).take(0).expect("nobody's");
    advance_ms(&clock, 1000);
    maintain(&mica);
    assert_eq!(entries(&mica), 10_000.0, "it is the owner's");
    for n in 0..20_000_u32 {
        let key = (n % 8).to_le_bytes();
        shard.write(WriteBatch::new().put(&key, b"stays"), NOW).expect("a put");
    }
    assert_eq!(entries(&mica), 8.0);
    drop(shard);
    mica.verify().expect("every invariant");
}

#[test]
fn a_cleared_cache_begins_anew() {
    let (mica, clock) = open(&options(4 * MIB, 1, "s3-fifo"));
    (0..10_000).for_each(|n| put_until(&mica, n, 1000).expect("a put"));
    advance_ms(&clock, 1000);
    assert!(mica.maintain(Budget::of(1)).expect("maintained").more);
    mica.clear().expect("a clear");
    assert_eq!((maintain(&mica), entries(&mica)), (0, 0.0));
    (0..100).for_each(|n| put_until(&mica, n, 5000).expect("a put"));
    advance_ms(&clock, 4000);
    maintain(&mica);
    assert_eq!(entries(&mica), 0.0);
    mica.verify().expect("every invariant");
}
