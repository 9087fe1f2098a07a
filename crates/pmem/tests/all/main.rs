//! Tests of the engines in a region.

mod turbo;
