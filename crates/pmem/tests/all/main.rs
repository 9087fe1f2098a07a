//! Engines for persistent memory, on simulated regions.

mod space;
mod support;
