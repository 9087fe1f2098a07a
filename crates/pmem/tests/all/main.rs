//! Tests of the engines in a region.

mod space;
mod sptree;
mod support;
mod turbo;
