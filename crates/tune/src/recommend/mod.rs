//! Which engine, and with which options: the least cost over everything the models predict.
//!
//! There is no rule here that says when to take which engine. Each engine has a [`Model`] that says
//! what a setting of its options costs for a workload; a [`Prediction`] turns that into throughput
//! (the least that any resource of the [`Machine`](crate::Machine) allows), life and money; and
//! [`recommend`] takes the setting of the lowest cost among those that keep to the bounds. The
//! search is over the tunable options of each engine's own table, is bounded, and repeats.

mod describe;
mod engines;
mod explain;
mod flash_cache;
mod goal;
mod hysteresis;
mod prediction;
mod processor;
mod search;
#[cfg(test)]
mod tests;
mod why;
mod why_flash;
mod why_region;
mod work;

pub use describe::{WORDS, describe};
pub use engines::{Axis, Candidate, Cost, Media, Model, Offer, Settings, model_of};
pub use flash_cache::{FlashAdvice, flash_cache};
pub use goal::{Bounds, Broken, Goal, Prices};
pub use hysteresis::{Hysteresis, Verdict, Wish};
pub use prediction::{Prediction, Resource};
pub use processor::{BURST, Calibration, ENTRY_BYTES, Nanoseconds};
pub use search::{Choice, Excluded, Question, Recommendation, predict, recommend};
pub use why::{Figure, Measured, Stall, WHY_METRICS, WhatIf, Why, why, workload_of};
pub use why_flash::{FlashWhy, OtherSize, why_flash_cache};
pub use work::{Needs, Work};
