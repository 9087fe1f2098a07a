//! SPTree on simulated regions.

mod buffers;
mod conformance;
mod copy;
mod crash;
mod harness;
mod images;
mod media;
mod threads;
