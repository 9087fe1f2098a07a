//! Silica's laboratory: models of stores' designs, simulators that judge them, and searches for
//! the best parameters. The program of the same name puts stores of other people beside ours.
//!
//! [`model`] predicts what a design writes, from a popularity of keys and the design's parameters,
//! in microseconds.
//!
//! [`simulate`] runs designs in memory and counts what they write: the judge of the models.
//!
//! [`figures`] draws tables and figures of papers from simulators.
//!
//! [`optimise`] finds the parameters of the lowest cost.
//!
//! Invariant: these modules do no I/O, read no clock and start no threads.
#![forbid(unsafe_code)]

pub mod figures;
pub mod model;
pub mod optimise;
pub mod simulate;
