//! A small disk of its own for a test, in memory, and others for files that fill it.

use std::path::Path;
use std::process::Command;

/// Tells a process of a test that its directory is on such a disk.
const SMALL_DISK: &str = "SILICA_TEST_SMALL_DISK";

/// Runs `what` with the directory of a disk of 256 MiB, in another process of the test `name`,
/// where this system lets one be mounted.
pub(crate) fn on_a_small_disk(name: &str, what: impl FnOnce(&Path)) {
    if let Ok(directory) = std::env::var(SMALL_DISK) {
        return what(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let (path, program) = (directory.path(), std::env::current_exe().unwrap());
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]);
        command.arg(&program).arg(path).args(["--exact", name, "--nocapture"]);
        command.env(SMALL_DISK, path).output()
    };
    let mount = "mount -t tmpfs -o size=256m none \"$1\"";
    if !in_namespace(mount).is_ok_and(|output| output.status.success()) {
        println!("skipped: no file system can be mounted here without privileges");
        return;
    }
    let output = in_namespace(&format!("{mount} && shift && exec \"$0\" \"$@\"")).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
