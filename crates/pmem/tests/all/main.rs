//! Tests of the engines in a region.

mod golden;
mod header;
mod repair;
mod space;
mod sptree;
mod support;
mod turbo;
