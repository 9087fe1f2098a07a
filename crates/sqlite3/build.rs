//! Compiles SQLite with our storage once more, under SQLite's own names, for the shared library.

include!("../sql/shim/fronts.rs");

fn main() {
    compile(Path::new("../sql/shim"), "stock_sqlite", None);
}
