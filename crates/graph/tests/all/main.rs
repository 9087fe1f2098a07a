//! Tests of the graph engine.

mod answers;
mod damage;
mod interruption;
mod media;
mod numbers;
mod reference;
mod support;
