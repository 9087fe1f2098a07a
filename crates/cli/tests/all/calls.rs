//! Each call whose instructions are counted (`cargo xtask calls`) can be made, and answers right.

#[allow(dead_code)] // Its `main` is the example's.
#[path = "../../examples/calls.rs"]
mod calls;

#[test]
fn every_counted_call_can_be_made() {
    let names = calls::names();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        calls::call(&name, 3).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}
