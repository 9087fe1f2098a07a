//! Tests of the engines in a region.

mod golden;
mod space;
mod sptree;
mod support;
mod turbo;
