//! SQLite's amalgamation, unmodified, and what is made of it when it is compiled: one translation
//! unit in which other functions stand before chosen ones of SQLite.
//!
//! The amalgamation is one file, in which comments mark where each of SQLite's own files begins
//! and ends. A function is *fronted* if the file that defines it is compiled with the function
//! under another name, and a function of ours takes the name: it may call the other one. So the
//! functions stay static, and no line of SQLite changes.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod unit;

pub use unit::{
    EXTENSION_HEADER, Front, HEADER, OPTIONS, SOURCE, VERSION, prefixes, public_names,
    translation_unit,
};
