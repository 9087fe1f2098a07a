//! Entries as large as the engine of ordered keys takes them.

mod limits_load;

#[test]
fn entries_of_the_largest_sizes_round_trip_and_larger_ones_are_refused() {
    limits_load::round_trip("wip");
}
