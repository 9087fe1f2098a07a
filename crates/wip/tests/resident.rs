//! Promise 7: under load the store stays within the memory number that it was given, plus 10 %.
//! Alone in its process, because it looks at the whole process.
#![cfg(target_os = "linux")]

mod resident_load;

use resident_load::assert_resident_bytes_stay_within_the_number;
use silica_base::test_size;

#[test]
fn resident_memory_stays_within_the_number_set() {
    assert_resident_bytes_stay_within_the_number(test_size(80_000, 250_000, 20_000_000), 4);
}
