//! A small disk of its own for a test, in memory, and others for files that fill it.

use std::path::Path;
use std::process::Command;

/// Tells a process of a test that its directory is on such a disk.
const SMALL_DISK: &str = "SILICA_TEST_SMALL_DISK";

/// Runs `what` with the directory of a disk of 256 MiB, in another process of the test `name`,
/// if this system lets one be mounted.
pub(crate) fn on_a_small_disk(name: &str, what: impl FnOnce(&Path)) {
    on_a_disk(name, "mount -t tmpfs -o size=256m none \"$1\"", what);
}

/// Runs `what` with the directory of a disk of 64 MiB, in another process of the test `name`: ext4
/// if that may be mounted, which takes a part of it for itself, else a disk in memory.
pub(crate) fn on_a_disk_of_64_mib(name: &str, what: impl FnOnce(&Path)) {
    let script = "(truncate -s 64M \"$1.image\" && mkfs.ext4 -q \"$1.image\" && \
                  mount -o loop \"$1.image\" \"$1\" && rm \"$1.image\") 2>/dev/null || \
                  (rm -f \"$1.image\"; mount -t tmpfs -o size=53m none \"$1\")";
    on_a_disk(name, script, what);
}

/// Runs `what` with a directory that the shell script `mount` makes a disk, which it finds in $1.
fn on_a_disk(name: &str, mount: &str, what: impl FnOnce(&Path)) {
    if let Ok(directory) = std::env::var(SMALL_DISK) {
        return what(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    std::fs::create_dir(&path).unwrap();
    let program = std::env::current_exe().unwrap();
    let in_namespace = |script: &str| {
        // Who is root already may mount more than the root of a new namespace of users.
        let mut command = Command::new("unshare");
        if is_root() {
            command.args(["--mount", "sh", "-c", script]);
        } else {
            command.args(["--map-root-user", "--mount", "sh", "-c", script]);
        }
        command.arg(&program).arg(&path).args(["--exact", name, "--nocapture"]);
        command.env(SMALL_DISK, &path).output()
    };
    if !in_namespace(mount).is_ok_and(|output| output.status.success()) {
        println!("skipped: no file system can be mounted here without privileges");
        return;
    }
    let script = format!("({mount}) && shift && exec \"$0\" \"$@\"");
    let output = in_namespace(&script).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    print!("{}", text(&output.stdout));
}

/// True where this process is root's.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}
