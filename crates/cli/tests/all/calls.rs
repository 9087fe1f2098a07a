//! Each call whose instructions are counted (`cargo xtask calls`) can be made, and answers right.

#[allow(dead_code)] // Its `main` is the example's.
#[path = "../../examples/calls.rs"]
mod counted;

#[test]
fn every_counted_call_can_be_made() {
    let names = counted::names();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        counted::call(&name, 3).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}
