//! Every benchmark at toy size.

use crate::step::Steps;

/// Runs them; nothing to run yet.
pub fn run(steps: &mut Steps) {
    steps.skip("toy benchmarks", "the bench command has not landed");
}
