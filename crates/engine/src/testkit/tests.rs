//! The suite on the reference engine, and the suite against engines that are broken on purpose.

use super::*;

#[test]
fn reference_differential() {
    differential(&mut ReferenceHarness::default(), 1, 200_000);
}

#[test]
fn reference_crash_random() {
    let report = crash_random(&mut ReferenceHarness::default(), 1, 5_000);
    println!("{report:?}");
}

#[test]
fn reference_crash_every_op() {
    let report = crash_every_op(&mut ReferenceHarness::default(), 1, 2_000, 7, 1);
    println!("{report:?}");
}
