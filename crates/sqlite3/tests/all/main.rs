//! Programs of other people on the shared library.

mod faults;
mod programs;
mod tcl;

use std::sync::OnceLock;

include!("../../link.rs");

/// The shared library of this build.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let own = std::env::current_exe().expect("a test knows its binary");
        let deps = own.parent().expect("a directory");
        let files = std::fs::read_dir(deps).expect("a directory").filter_map(|file| file.ok());
        let is_archive = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libsqlite3") && name.ends_with(".a")
        };
        let archives = files.map(|file| file.path()).filter(is_archive);
        let newest = archives.max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok());
        let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("libsqlite3.map");
        let out = deps.join("../sqlite");
        link(&newest.expect("cargo builds the static library"), &map, &out).expect("linked")
    })
}

/// A Python that has its own tests.
fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let found = Command::new(python).args(["-c", "import test.test_sqlite3"]).output();
        found.is_ok_and(|output| output.status.success())
    })
}

fn run_cpython(how: &str) {
    let Some(python) = python() else {
        println!("left out: no Python here has its tests (Debian: libpython3-testsuite)");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/cpython.py");
    let mut command = Command::new(python);
    command.arg(script).arg(how).env("LD_PRELOAD", library());
    let output = command.output().expect("Python starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!("{said}");
    assert!(output.status.success(), "{said}");
    assert!(said.contains("SQLite 3.54.1"), "another library was loaded: {said}");
}

#[test]
fn cpythons_tests_pass() {
    run_cpython("as_they_are");
}

#[test]
fn cpythons_tests_pass_on_silica_databases() {
    run_cpython("in_files");
}

#[test]
fn the_library_exports_what_its_header_declares_and_nothing_else() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output();
    let listed = String::from_utf8(output.expect("nm starts").stdout).expect("text");
    let exported: Vec<&str> =
        listed.lines().filter_map(|line| line.split(' ').next_back()).collect();
    for name in ["sqlite3_open_v2", "sqlite3_step", "sqlite3session_create", "sqlite3_version"] {
        assert!(exported.contains(&name), "{name} is missing");
    }
    let foreign: Vec<_> = exported.iter().filter(|name| !name.starts_with("sqlite3")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
