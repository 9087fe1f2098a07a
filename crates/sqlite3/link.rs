// Links the shared library; `cargo xtask sqlite` and the tests of this crate include this file.

use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "libsqlite3.so.0";

/// Makes the library in `out` of the static one, and returns its path.
fn link(archive: &Path, map: &Path, out: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let library = out.join(NAME);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-o"]).arg(&library);
    cc.arg(format!("-Wl,-soname,{NAME}"));
    cc.arg(format!("-Wl,--version-script={}", map.display()));
    cc.args(["-Wl,--gc-sections", "-Wl,--whole-archive"]).arg(archive);
    cc.args(["-Wl,--no-whole-archive", "-lgcc_s", "-lpthread", "-ldl", "-lm"]);
    let output = cc.output().map_err(|e| format!("cc does not start: {e}"))?;
    if !output.status.success() {
        return Err(format!("cc -shared: {}", String::from_utf8_lossy(&output.stderr)));
    }
    // The name that linkers look for.
    let plain = out.join("libsqlite3.so");
    if std::fs::symlink_metadata(&plain).is_err() {
        let linked = std::os::unix::fs::symlink(NAME, &plain);
        linked.map_err(|e| format!("{}: {e}", plain.display()))?;
    }
    Ok(library)
}
