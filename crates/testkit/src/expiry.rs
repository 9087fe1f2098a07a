//! Entries whose time is over.

use super::harness::Harness;
use silica_base::{Clock, ManualClock};
use silica_engine::{Budget, Durability, Engine, EngineExt, EntryRef, Update, WriteBatch};

const NOW: Durability = Durability::Buffered;
const KEYS: u32 = 600;
const STEP_MS: u64 = 1000;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// When key `n` expires: a third of them never, a third at a time, a third a step later.
fn expires(n: u32, start_ms: u64) -> u64 {
    match n % 3 {
        0 => 0,
        kind => start_ms + u64::from(kind) * STEP_MS,
    }
}

/// Checks that an entry is there for every kind of read until the millisecond of its expiry and
/// for none from then on, wherever in the engine it lies, over a restart too, and that what is
/// written in its place is new. The harness's engines must take their time from `clock`.
pub fn expiry<H: Harness>(harness: &mut H, clock: &ManualClock) {
    harness.wipe();
    clock.advance_ns(STEP_MS * 1_000_000);
    let start_ms = clock.unix_ms();
    let engine = harness.open().expect("an empty device opens");
    for n in 0..KEYS {
        let (key, value) = (key(n), [b'v'; 40]);
        let expires_unix_ms = expires(n, start_ms);
        let entry = EntryRef { value: &value, expires_unix_ms, user_bits: 0 };
        engine.write(WriteBatch::new().put_entry(&key, entry), NOW).expect("written");
    }
    check(&engine, clock.unix_ms(), start_ms);
    for advance_ms in [STEP_MS - 1, 1, STEP_MS - 1] {
        clock.advance_ns(advance_ms * 1_000_000);
        check(&engine, clock.unix_ms(), start_ms);
    }
    drop(engine);
    harness.kill();
    let engine = harness.open().expect("it opens again");
    check(&engine, clock.unix_ms(), start_ms);
    clock.advance_ns(1_000_000);
    check(&engine, clock.unix_ms(), start_ms);
    while engine.maintain(Budget::of(1 << 20)).expect("maintained").more {}
    check(&engine, clock.unix_ms(), start_ms);
    updates(&engine);
    engine.verify().expect("verified");
}

fn check(engine: &impl Engine, now_ms: u64, start_ms: u64) {
    let lives = |n: u32| expires(n, start_ms) == 0 || expires(n, start_ms) > now_ms;
    for n in 0..KEYS {
        let found = engine.get(&key(n)).expect("read").is_some();
        assert_eq!(found, lives(n), "key {n}, {} ms after the start", now_ms - start_ms);
    }
    let expected: Vec<u32> = (0..KEYS).filter(|n| lives(*n)).collect();
    if let Some(scan) = engine.as_scan() {
        let (mut seen, mut cursor) = (Vec::new(), Some(0));
        while let Some(at) = cursor {
            let mut visit = |key: &[u8], _: EntryRef<'_>| {
                seen.push(u32::from_be_bytes(key.try_into().expect("one of our keys")));
            };
            cursor = scan.scan(at, 50, &mut visit).expect("scanned");
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, expected, "a scan {} ms after the start", now_ms - start_ms);
    }
    if let Some(admin) = engine.as_admin() {
        let count = admin.count(true).expect("counted");
        assert_eq!(count.estimate, expected.len() as u64, "an exact count");
    }
}

/// An update finds nothing in the place of an entry whose time is over.
fn updates(engine: &impl Engine) {
    let Some(atomic) = engine.as_atomic() else { return };
    let (live, over, again) = (key(0), key(1), key(2));
    let put = |old: Option<EntryRef<'_>>, seen: &mut Vec<bool>| {
        seen.push(old.is_some());
        Update::put(b"new".to_vec())
    };
    let mut seen = Vec::new();
    atomic.update(&over, NOW, &mut |old| put(old, &mut seen)).expect("updated");
    assert_eq!(seen.last(), Some(&false), "update finds an entry whose time is over");
    assert_eq!(engine.get(&over).expect("read").as_deref(), Some(&b"new"[..]));
    let mut done = 0;
    let keys = [&live[..], &again];
    let mut found = [false; 2];
    while done < keys.len() {
        done += atomic
            .update_many(&keys[done..], NOW, &mut |index, old| {
                found[done + index] = old.is_some();
                Update::Keep
            })
            .expect("updated");
    }
    assert_eq!(found, [true, false], "update_many finds an entry whose time is over");
    let mut all = Vec::new();
    let decide = &mut |old: &[Option<EntryRef<'_>>]| {
        all = old.iter().map(Option::is_some).collect();
        vec![Update::Keep; old.len()]
    };
    atomic.update_all(&keys, NOW, decide).expect("updated");
    assert_eq!(all, [true, false], "update_all finds an entry whose time is over");
}
