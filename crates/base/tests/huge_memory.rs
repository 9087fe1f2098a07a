//! What huge pages cost in resident memory; one test, alone in its process.
#![cfg(target_os = "linux")]

use silica_base::HugeVec;

const TABLE_BYTES: u64 = 768 << 10;
const MIB: u64 = 1 << 20;

fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|l| l.starts_with(field)).expect("a field of the file");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

fn resident_bytes() -> u64 {
    status_bytes("RssAnon:")
}

/// Pages of 2 MiB that the system has reserved and nobody has yet.
fn pages_left() -> u64 {
    let read = |file| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{file}_hugepages");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    read("free") - read("resv")
}

/// Whether the system has reserved pages or not: what is said of them is what it says itself.
fn reserved_pages_are_held_and_the_rest_is_as_always() {
    let bytes = 5 * MIB + 5000;
    for huge in [4 * MIB, 8 << 30] {
        let is_there = pages_left() >= huge / (2 * MIB);
        let mut vec = HugeVec::<u8>::reserved((huge - 4 * MIB + bytes) as usize);
        let reserved = vec.reserved_bytes() as u64;
        assert_eq!((reserved, is_there), (if is_there { huge } else { 0 }, reserved > 0));
        assert_eq!(status_bytes("HugetlbPages:"), reserved);
        for at in (0..5 * MIB as usize).step_by(4096) {
            assert_eq!(std::mem::replace(&mut vec[at], 1), 0);
        }
        let last = vec.len() - 1;
        vec[last] = 2;
        // SAFETY: nobody has a reference to an element.
        let is_given_back = unsafe { vec.give_back(0..5 << 20) };
        assert_eq!(is_given_back, reserved == 0);
        let kept = u8::from(reserved > 0);
        assert_eq!((vec[0], vec[4 << 20], vec[last]), (kept, 1, 2));
    }
    assert_eq!((status_bytes("HugetlbPages:"), resident_bytes() >> 22), (0, 0));
}

fn table() -> HugeVec<u64> {
    let mut table = HugeVec::zeroed(TABLE_BYTES as usize / 8);
    table.fill(1);
    table
}

#[test]
fn memory_in_use_is_resident_and_the_rest_goes_back() {
    reserved_pages_are_held_and_the_rest_is_as_always();
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
