//! What huge pages cost in resident memory; one test, alone in its process.
#![cfg(target_os = "linux")]

use silica_base::HugeVec;

const TABLE_BYTES: u64 = 768 << 10;
const MIB: u64 = 1 << 20;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|l| l.starts_with("RssAnon:")).expect("a field of the file");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

fn table() -> HugeVec<u64> {
    let mut table = HugeVec::zeroed(TABLE_BYTES as usize / 8);
    table.fill(1);
    table
}

#[test]
fn memory_in_use_is_resident_and_the_rest_goes_back() {
    let before = resident_bytes();
    let now = || resident_bytes().saturating_sub(before);
    let spare = MIB / 4;

    // Few tables are in plain pages: not even a huge page more than they need.
    let few: Vec<_> = (0..5).map(|_| table()).collect();
    assert!((5 * TABLE_BYTES..5 * TABLE_BYTES + spare).contains(&now()), "{} for 5", now());
    let mut many: Vec<_> = (0..200).map(|_| table()).collect();
    let expected = 205 * TABLE_BYTES;
    assert!((expected..expected + 2 * MIB + spare).contains(&now()), "{} for 205", now());

    // Freed ranges are taken again before new ones.
    many.drain(50..100);
    many.extend((0..50).map(|_| table()));
    assert!(now() < expected + 2 * MIB + spare, "{} for 205 again", now());
    many.truncate(20);
    let expected = 25 * TABLE_BYTES;
    assert!(now() < expected + 4 * MIB + spare, "{} for the 25 left", now());
    drop(many);
    drop(few);
    assert!(now() < spare, "{} with none left", now());

    // A large vector holds what of it is used, and nothing beyond its end.
    let mut large = HugeVec::<u8>::zeroed(5 << 30);
    assert!(now() < spare, "{} for memory that nobody used", now());
    large[4 << 30] = 1;
    assert!(now() <= 2 * MIB + spare, "{} for one page", now());
    drop(large);
    let mut odd = HugeVec::<u8>::zeroed(2 * MIB as usize + 5000);
    odd.fill(1);
    assert!(now() <= 2 * MIB + 8192 + spare, "{} for 2 MiB and 5000 bytes", now());
}
