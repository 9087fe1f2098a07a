// Links the shared library; `cargo xtask c` and the tests of this crate include this file.

use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "libsilica.so.0";
/// System libraries that Rust's standard library needs.
const SYSTEM: [&str; 4] = ["-lgcc_s", "-lpthread", "-ldl", "-lm"];

/// Puts the library as `libsilica.so.0`, `libsilica.so` and `libsilica.a`, `silica.h` and
/// `silica.pc` into `out`, and returns the path of the first. `own` is this crate's directory.
fn link(archive: &Path, own: &Path, out: &Path) -> Result<PathBuf, String> {
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(out).map_err(|e| failed(out, e))?;
    let library = out.join(NAME);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-o"]).arg(&library);
    cc.arg(format!("-Wl,-soname,{NAME}"));
    cc.arg(format!("-Wl,--version-script={}", own.join("silica.map").display()));
    cc.args(["-Wl,--gc-sections", "-Wl,--whole-archive"]).arg(archive);
    cc.arg("-Wl,--no-whole-archive").args(SYSTEM);
    let output = cc.output().map_err(|e| format!("cc does not start: {e}"))?;
    if !output.status.success() {
        return Err(format!("cc -shared: {}", String::from_utf8_lossy(&output.stderr)));
    }
    // The name that linkers look for.
    let plain = out.join("libsilica.so");
    if std::fs::symlink_metadata(&plain).is_err() {
        std::os::unix::fs::symlink(NAME, &plain).map_err(|e| failed(&plain, e))?;
    }
    for (from, name) in [(archive, "libsilica.a"), (&own.join("include/silica.h"), "silica.h")] {
        std::fs::copy(from, out.join(name)).map_err(|e| failed(from, e))?;
    }
    let config = out.join("silica.pc");
    std::fs::write(&config, package_config(out)).map_err(|e| failed(&config, e))?;
    Ok(library)
}

/// What `pkg-config` is told.
fn package_config(out: &Path) -> String {
    format!(
        "prefix={}\nName: silica\nDescription: A key-value store in a directory\nVersion: {}\n\
         Libs: -L${{prefix}} -lsilica\nLibs.private: {}\nCflags: -I${{prefix}}\n",
        out.display(),
        env!("CARGO_PKG_VERSION"),
        SYSTEM.join(" ")
    )
}
