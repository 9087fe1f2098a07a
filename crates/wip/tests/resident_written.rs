//! Promise 7 where a store is written faster than it is maintained: the log, which is memory, too,
//! does not grow past its part. Alone in its process, because it looks at the whole process.
#![cfg(target_os = "linux")]

mod resident_load;

use resident_load::{Load, assert_resident_bytes_stay_within_the_number};
use silica_base::test_size;

#[test]
fn resident_memory_stays_within_the_number_while_much_is_written() {
    let entries = test_size(1_000_000, 3_000_000, 10_000_000);
    let (memory_bytes, bucket_bytes_max) = (64 << 20, 0);
    let load = Load { memory_bytes, bucket_bytes_max, entries, step: 1, only_writes: true };
    assert_resident_bytes_stay_within_the_number(&load);
}
