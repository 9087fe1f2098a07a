//! Tests of the file system.

mod calls;
mod crash;
mod model;
mod random;
mod repair;
mod space;
mod spread;
mod threads;
