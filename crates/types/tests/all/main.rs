//! Tests of silica-types.

mod check;
mod exchange;
mod hash;
mod set;
mod stream;
mod tree;
mod zset;
