//! `libsqlite3.so.0` from the crate `sqlite3`.

use crate::step::{cargo, target};

include!("../../crates/sqlite3/link.rs");

/// Makes the library, optimised, and returns its path.
pub fn run(root: &Path) -> Result<PathBuf, String> {
    let mut build = cargo(&["build", "--release", "--package", "sqlite3"]);
    let status = build.current_dir(root).status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("cargo build fails".to_string());
    }
    let archive = target(root).join("release/libsqlite3.a");
    link(&archive, &root.join("crates/sqlite3/libsqlite3.map"), &target(root).join("sqlite"))
}
