//! Silica for C, and for every language that calls C.
//!
//! `cargo xtask c` links `libsilica.so.0` and `libsilica.a` of this crate and puts them beside
//! `silica.h`, which `cbindgen` makes of these sources. `docs/c.md` is the manual.
//!
//! Invariants:
//!
//! 1. No panic leaves an exported function: each runs inside `error::call`, which turns a panic
//!    into `SILICA_INTERNAL`.
//! 2. A handle begins with a tag of its type. A null pointer and a handle of another type are
//!    answered with `SILICA_CONFIG`; a handle that was freed is the caller's fault and cannot be
//!    known for sure.
//! 3. What a call hands out in memory is allocated by C's `malloc`, so that `silica_free` needs no
//!    length.
//! 4. All unsafe blocks stand in `raw.rs`. The exported functions are unsafe because they pass on
//!    to it what their callers promise: pointers are null or good for the lengths given.
#![allow(non_camel_case_types)] // Names as C has them.
#![allow(clippy::missing_safety_doc)] // Invariant 4 is the contract of all of them.
#![allow(clippy::too_many_arguments)] // A key and a value are two arguments each in C.

pub mod batch;
pub mod cache;
pub mod error;
pub mod expiry;
pub mod iterator;
pub mod keyspace;
mod raw;
pub mod snapshot;
pub mod store;
pub mod transaction;
mod values;
