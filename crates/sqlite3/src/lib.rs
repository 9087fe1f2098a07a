//! `libsqlite3.so.0`: SQLite's shared library with Silica's storage below, for programs that are
//! not changed. `cargo xtask sqlite` makes it in `target/sqlite`: this crate as a static library,
//! linked by the C compiler, since the names that a Rust linker exports are not SQLite's.
#![forbid(unsafe_code)]

// Its C functions are what SQLite calls.
pub use silica_sql;
