//! Compiles SQLite's amalgamation with our storage in front of its own.

include!("shim/fronts.rs");

fn main() {
    compile(Path::new("shim"), "silica_sqlite", Some("silica_"));
}
