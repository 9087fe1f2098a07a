//! Engines for persistent memory, on simulated regions.

mod space;
mod sptree;
mod support;
