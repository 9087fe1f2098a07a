//! Promise 7: under load the store stays within the memory number that it was given, plus 10 %.
//! Alone in its process, because it looks at the whole process.
#![cfg(target_os = "linux")]

mod resident_load;

use resident_load::{Load, assert_resident_bytes_stay_within_the_number};
use silica_base::test_size;

#[test]
fn resident_memory_stays_within_the_number_set() {
    let entries = test_size(80_000, 250_000, 20_000_000);
    let load = Load {
        memory_bytes: 64 << 20,
        bucket_bytes_max: 4 << 20,
        entries,
        step: 4,
        only_writes: false,
    };
    assert_resident_bytes_stay_within_the_number(&load);
}
