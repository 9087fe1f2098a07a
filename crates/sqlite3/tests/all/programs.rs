//! Libraries and frameworks of other people: rusqlite, better-sqlite3, Django, SQLAlchemy. Each is
//! fetched once from its registry, into the build directory, and left out in words if that fails.

use crate::{library, python};
use silica_base::test_size;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DJANGO: &str = "5.2.19";
const SQLALCHEMY: &str = "2.1.9";
const PYTEST: &str = "9.2.0";
const BETTER_SQLITE3: &str = "12.11.1";

/// Labels of Django's tests: in each run, and those that the long run adds.
const DJANGO_LABELS: [&str; 4] = ["basic", "transactions", "queries", "delete"];
const DJANGO_LABELS_LONG: [&str; 26] = [
    "backends",
    "model_fields",
    "aggregation",
    "expressions",
    "bulk_create",
    "update",
    "lookup",
    "annotations",
    "aggregation_regress",
    "expressions_window",
    "constraints",
    "indexes",
    "schema",
    "migrations",
    "introspection",
    "get_or_create",
    "prefetch_related",
    "many_to_many",
    "ordering",
    "db_functions",
    "select_for_update",
    "fixtures",
    "inspectdb",
    "savepoints",
    "m2m_regress",
    "datetimes",
];

pub(crate) fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The directory of something that `fetch` gets into an empty one, once; `None`, and why, if it
/// cannot be had.
pub(crate) fn fetched(
    name: &str,
    fetch: impl FnOnce(&Path) -> Result<(), String>,
) -> Option<PathBuf> {
    let place = library().with_file_name("programs").join(name);
    if place.join("complete").exists() {
        return Some(place);
    }
    fs::remove_dir_all(&place).ok();
    fs::create_dir_all(&place).expect("the build directory takes a directory");
    match fetch(&place) {
        Ok(()) => {
            fs::write(place.join("complete"), "").expect("written");
            Some(place)
        }
        Err(why) => {
            println!("left out: {name} cannot be had here: {why}");
            None
        }
    }
}

/// Runs a command to its end, and returns what it said, also if it fails.
pub(crate) fn say(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?} does not start: {e}"))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// Whether a directory has a store of ours, which shows that the program's databases were.
fn has_store(directory: &Path) -> bool {
    let files = fs::read_dir(directory).expect("a directory").filter_map(|file| file.ok());
    files.map(|file| file.path()).any(|path| {
        path.to_string_lossy().ends_with("-silica") && path.join("store/keyspace-0").is_dir()
    })
}

#[test]
fn rusqlite_does_real_work() {
    let linked = library().parent().expect("a directory").to_path_buf();
    let place = linked.join("programs/rusqlite");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--manifest-path"]);
    build.arg(source("tests/rusqlite/Cargo.toml")).arg("--target-dir").arg(&place);
    build.env("SQLITE3_LIB_DIR", &linked).env_remove("RUSTFLAGS");
    match say(&mut build) {
        Err(why) if why.contains("download") || why.contains("registry") => {
            println!("left out: rusqlite cannot be had here: {why}");
            return;
        }
        built => drop(built.expect("it builds")),
    }
    let mut program = Command::new(place.join("debug/work-through-rusqlite"));
    let said = say(program.env("LD_LIBRARY_PATH", &linked)).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.contains("rusqlite: passed"), "{said}");
}

/// better-sqlite3, built as its authors say for another SQLite: of that it gets the header here,
/// and an empty source, since the functions are the library's.
fn better_sqlite3(place: &Path) -> Result<(), String> {
    let stub = place.join("sqlite");
    fs::create_dir(&stub).map_err(|e| e.to_string())?;
    fs::copy(source("../sqlite-source/sqlite3.h"), stub.join("sqlite3.h"))
        .map_err(|e| e.to_string())?;
    fs::write(stub.join("sqlite3.c"), "/* The functions are in libsqlite3.so.0. */\n")
        .map_err(|e| e.to_string())?;
    fs::write(place.join("package.json"), "{\"private\": true}\n").map_err(|e| e.to_string())?;
    let node = say(Command::new("node").args(["-p", "process.execPath"]))?;
    let prefix = Path::new(node.trim()).parent().and_then(Path::parent);
    let prefix = prefix.filter(|prefix| prefix.join("include/node/node.h").exists());
    let prefix = prefix.ok_or("the headers of Node.js are not beside it")?;
    let mut npm = Command::new("npm");
    npm.current_dir(place).args(["install", "--no-audit", "--no-fund", "--build-from-source"]);
    npm.arg(format!("--sqlite3={}", stub.display()));
    npm.arg(format!("--nodedir={}", prefix.display()));
    say(npm.arg(format!("better-sqlite3@{BETTER_SQLITE3}"))).map(drop)
}

#[test]
fn better_sqlite3_does_real_work() {
    let Some(place) = fetched("better-sqlite3", better_sqlite3) else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let script = place.join("app.js");
    fs::copy(source("tests/all/better_sqlite3.js"), &script).expect("copied");
    let mut node = Command::new("node");
    node.arg(script).arg(scratch.path()).env("LD_PRELOAD", library());
    let said = say(&mut node).unwrap_or_else(|why| panic!("{why}"));
    assert!(said.contains("better-sqlite3: passed") && has_store(scratch.path()), "{said}");
}

/// Packages of Python in `place`/site, and the source of one with its tests in `place`/source.
fn packages(place: &Path, wanted: &[String]) -> Result<(), String> {
    let python = python().ok_or("there is no Python that has its tests")?;
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(python);
        pip.current_dir(place).args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        say(pip.args(arguments)).map(drop)
    };
    let all: Vec<&str> = wanted.iter().map(String::as_str).collect();
    pip(&[&["install", "--target", "site"], &all[..]].concat())?;
    pip(&["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", all[0]])
        .or_else(|_| pip(&["download", "--no-deps", "--no-binary", named(all[0]), all[0]]))?;
    let unpack = "mkdir source && tar -xzf *.tar.gz -C source --strip-components=1 && rm *.tar.gz";
    say(Command::new("sh").current_dir(place).args(["-c", unpack])).map(drop)
}

/// The name of a package with its version.
fn named(package: &str) -> &str {
    package.split("==").next().unwrap_or(package)
}

/// Python with packages of `place`, on the library.
fn python_on_the_library(place: &Path) -> Command {
    let mut command = Command::new(python().expect("it installed the packages"));
    command.env("PYTHONPATH", place.join("site")).env("LD_PRELOAD", library());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("SILICA_SQL_STORAGE");
    command
}

#[test]
fn djangos_database_tests_pass() {
    let wanted = [format!("django=={DJANGO}")];
    let Some(place) = fetched("django", |place| packages(place, &wanted)) else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let settings = place.join("source/tests/silica_settings.py");
    fs::copy(source("tests/all/django_settings.py"), settings).expect("copied");
    let mut run = python_on_the_library(&place);
    run.current_dir(place.join("source/tests")).env("SCRATCH", scratch.path());
    run.args(["runtests.py", "--settings=silica_settings", "--parallel=1"]).args(DJANGO_LABELS);
    let is_long = test_size(0, 0, 1) == 1;
    let there = |label: &&str| place.join("source/tests").join(label).is_dir();
    run.args(DJANGO_LABELS_LONG.iter().filter(|label| is_long && there(label)));
    let said = say(&mut run).unwrap_or_else(|why| panic!("{why}"));
    println!("{}", said.lines().rev().take(8).collect::<Vec<_>>().join("\n"));
    let tests = said.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next());
    let tests: u32 = tests.and_then(|tests| tests.parse().ok()).expect("it says how many");
    assert!(tests >= if is_long { 3500 } else { 600 } && has_store(scratch.path()), "{said}");
}

#[test]
fn sqlalchemys_dialect_tests_pass() {
    let wanted = [format!("sqlalchemy=={SQLALCHEMY}"), format!("pytest=={PYTEST}")];
    let Some(place) = fetched("sqlalchemy", |place| packages(place, &wanted)) else { return };
    // Its databases are files of the current directory.
    let source = place.join("source");
    let scratch = tempfile::tempdir().expect("a directory");
    for name in ["test", "lib", "setup.cfg", "pyproject.toml"] {
        std::os::unix::fs::symlink(source.join(name), scratch.path().join(name)).expect("linked");
    }
    let mut run = python_on_the_library(&place);
    run.current_dir(scratch.path()).args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    run.args(["-W", "ignore", "-r", "fE", "--db", "sqlite_file", "test/dialect/sqlite"]);
    let is_long = test_size(0, 0, 1) == 1;
    if is_long {
        run.arg("test/dialect/test_suite.py");
    }
    let said = say(&mut run).unwrap_or_else(|why| panic!("{why}"));
    let last = said.lines().rev().find(|line| line.contains(" passed")).expect("it says so");
    println!("{last}");
    let words: Vec<&str> = last.split(' ').collect();
    let passed = words.iter().position(|word| word.starts_with("passed")).expect("it is there");
    let passed: u32 = words[passed - 1].parse().expect("a number");
    assert!(passed >= if is_long { 1800 } else { 300 } && has_store(scratch.path()), "{said}");
}
