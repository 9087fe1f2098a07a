//! The libraries for C, and the wheel for Python.

use crate::step::{cargo, target};
use std::path::{Path, PathBuf};

mod c {
    include!("../../crates/capi/link.rs");

    pub fn libraries(archive: &Path, own: &Path, out: &Path) -> Result<PathBuf, String> {
        link(archive, own, out)
    }
}

mod wheel {
    include!("../../crates/python/wheel.rs");

    /// Builds the wheel of the workspace in `root`, optimised, around `program`.
    pub fn optimised(root: &Path, target: &Path, program: &Path) -> Result<PathBuf, String> {
        let out = target.join("wheel");
        let python = environment(&out.join("environment"))?;
        wheel(&Parts {
            own: &root.join("crates/python"),
            maturin: &python.with_file_name("maturin"),
            program,
            sqlite: &crate::sqlite::run(root)?,
            profile: "release",
            target,
            out: &out,
        })
    }
}

fn build(root: &Path, package: &str) -> Result<(), String> {
    let mut build = cargo(&["build", "--release", "--package", package]);
    let status = build.current_dir(root).status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err("cargo build fails".to_string()) }
}

/// Makes the libraries for C, optimised, and returns the path of the shared one.
pub fn c(root: &Path) -> Result<PathBuf, String> {
    build(root, "silica-capi")?;
    let archive = target(root).join("release/libsilica_capi.a");
    c::libraries(&archive, &root.join("crates/capi"), &target(root).join("c"))
}

/// Makes the wheel, optimised, and returns its path.
pub fn wheel(root: &Path) -> Result<PathBuf, String> {
    build(root, "silica-cli")?;
    python(root, &target(root).join("release/silica"))
}

/// Makes the wheel around `program`, optimised, and returns its path.
pub fn python(root: &Path, program: &Path) -> Result<PathBuf, String> {
    wheel::optimised(root, &target(root), program)
}
