//! Promise 7: under load the store stays within the memory number that it was given, plus 10 %.
//! Alone in its process, because it looks at the whole process. Here buckets are as large as they
//! are by themselves, and of small entries: it is their number that takes memory when filters are
//! made.
#![cfg(target_os = "linux")]

mod resident_load;

use resident_load::{Load, assert_resident_bytes_stay_within_the_number};
use silica_base::test_size;

#[test]
fn resident_memory_of_buckets_of_small_entries_stays_within_the_number_set() {
    let entries = test_size(300_000, 2_000_000, 20_000_000);
    let load =
        Load { memory_bytes: 64 << 20, bucket_bytes_max: 0, entries, step: 0, only_writes: false };
    assert_resident_bytes_stay_within_the_number(&load);
}
