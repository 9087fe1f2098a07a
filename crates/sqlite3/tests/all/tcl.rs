//! SQLite's own tests, as Debian's source package has them, run by Tcl on the library: a case that
//! passes on SQLite's storage passes on ours, or stands in `tcl_differences.txt` with the reason.

use crate::library;
use crate::programs::{fetched, say, source};
use silica_base::test_size;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The version whose tests are taken: Debian's, which the binding to Tcl is of as well.
const VERSION: &str = "3.40.1";

/// What no run looks at: tests of SQLite's files, of its pager and of commands that only SQLite's
/// own test program has, and those that take minutes.
const LEFT_OUT: &[&str] = &[
    "all",
    "quick",
    "full",
    "extraquick",
    "soak",
    "speed",
    "permutations",
    "memsubsys",
    "valgrind",
    "rbu",
    "recover",
    "mallocAll",
    "savepoint_stress",
    "fuzz",
    "corrupt",
    "crash",
    "fts3corrupt",
    "wthread",
    "thread",
    "bigfile",
    "sidedelete",
    "mmap",
    "pagesize",
    "pager",
    "wal",
    "memleak",
    "async",
    "zerodamage",
    "vacuum5",
    "shell",
    "tt3",
    "multiplex",
    "quota",
    "win32",
    "nolock",
    "lock_proxy",
    "superlock",
    "syscall",
    "sqllog",
    "zipfile",
    "session",
    "exclusive",
    "veryquick",
];

/// Gets the source package and keeps its tests.
fn tests_of_sqlite(place: &Path) -> Result<(), String> {
    let script = format!(
        "mkdir -p lists/partial \
         && echo 'deb-src http://deb.debian.org/debian bookworm main' > list \
         && apt='apt-get -q -o Dir::Etc::sourcelist='$PWD'/list \
         -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists='$PWD'/lists' \
         && $apt update && $apt source --download-only sqlite3 \
         && tar -xJf sqlite3_{VERSION}.orig.tar.xz --strip-components=1 --wildcards '*/test/*' \
         && rm -rf lists *.tar.xz *.dsc"
    );
    say(Command::new("sh").current_dir(place).args(["-c", &script])).map(drop)
}

/// The cases of one file that passed.
struct Passed(BTreeSet<String>);

impl Passed {
    /// Runs `file` with databases that become `storage`, in a directory of their own.
    fn of(place: &Path, file: &str, storage: &str) -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let linked = library().parent().expect("a directory");
        let mut tcl = Command::new("timeout");
        tcl.args(["120", "tclsh"]).arg(source("tests/all/tcl_tests.tcl"));
        tcl.arg(place.join("test")).arg(file).current_dir(scratch.path());
        tcl.env("LD_LIBRARY_PATH", linked).env("SILICA_SQL_STORAGE", storage);
        let output = tcl.output().expect("timeout starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // A name that comes twice passed if it did each time.
        let failed: BTreeSet<&str> = said.lines().filter_map(failed).collect();
        let passed = said.lines().filter_map(|line| line.split_once("... Ok"));
        let passed = passed.map(|(name, _)| name).filter(|name| !failed.contains(name));
        Passed(passed.map(String::from).collect())
    }
}

/// The case that a line tells the failure of.
fn failed(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("! ")?.split_once(' ')?;
    rest.starts_with("expected").then_some(name)
}

/// Differences that are known, as beginnings of names. A line in brackets is the reason of those
/// that follow.
fn differences() -> Vec<String> {
    let text = include_str!("tcl_differences.txt");
    // Reasons and comments have words; a name has none.
    let names = text.lines().filter(|line| !line.is_empty() && !line.contains([' ', '#']));
    names.map(String::from).collect()
}

fn is_known(known: &[String], case: &str) -> bool {
    known
        .iter()
        .any(|begin| case == begin || begin.strip_suffix('*').is_some_and(|b| case.starts_with(b)))
}

/// Files that each run takes; the long run takes all.
const EACH_RUN: &[&str] = &[
    "select1",
    "select3",
    "insert",
    "update",
    "delete",
    "join",
    "trigger1",
    "conflict3",
    "index",
    "savepoint",
    "e_delete",
    "intpkey",
    "unique",
    "without_rowid1",
    "upsert1",
    "returning1",
];

fn files(place: &Path) -> Vec<String> {
    if test_size(0, 0, 1) == 0 {
        return EACH_RUN.iter().map(|name| format!("{name}.test")).collect();
    }
    let all = std::fs::read_dir(place.join("test")).expect("a directory").flatten();
    let names = all.map(|file| file.file_name().to_string_lossy().into_owned());
    let is_left_out = |name: &str| {
        LEFT_OUT.iter().any(|begin| name.starts_with(begin))
            || ["fault", "malloc", "ioerr", "crash"].iter().any(|part| name.contains(part))
    };
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".test") && !is_left_out(name)).collect();
    names.sort();
    names
}

#[test]
fn sqlites_own_tests_pass() {
    let binding = Path::new("/usr/lib/tcltk/sqlite3/libtclsqlite3.so");
    if !binding.exists()
        || Command::new("tclsh").stdin(std::process::Stdio::null()).output().is_err()
    {
        println!("left out: no Tcl here with a binding to SQLite (Debian: tcl, libsqlite3-tcl)");
        return;
    }
    let Some(place) = fetched("sqlite-tests", tests_of_sqlite) else { return };
    let known = differences();
    let (mut passed, mut missing) = (0, BTreeMap::new());
    for file in files(&place) {
        let expected = Passed::of(&place, &file, "sqlite").0;
        let ours = Passed::of(&place, &file, "silica").0;
        passed += ours.intersection(&expected).count();
        let new: Vec<String> =
            expected.difference(&ours).filter(|case| !is_known(&known, case)).cloned().collect();
        if !new.is_empty() {
            missing.insert(file, new);
        }
    }
    println!("{passed} cases pass on both storages");
    assert!(missing.is_empty(), "pass on SQLite's storage only: {missing:#?}");
    assert!(passed >= if test_size(0, 0, 1) == 0 { 1000 } else { 20_000 }, "only {passed} cases");
}
