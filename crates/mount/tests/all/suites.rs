//! Test suites and benchmarks of others on a mount. Where one is not installed its test skips, in
//! words; `cargo xtask soak` installs them.

use super::Mount;
use super::others::{run, run_with};
use silica_base::test_size;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// True if the tests may take long.
fn is_long() -> bool {
    test_size(0, 0, 1) > 0
}

/// The POSIX calls, each with its errors, as root and as other users.
#[test]
fn pjdfstest_finds_no_failure_that_is_not_listed() {
    let Some(mount) = Mount::new(256) else { return };
    if super::user().0 != 0 {
        return eprintln!("skipped: pjdfstest changes users, which takes root");
    }
    // Other users have to reach the mount.
    let Some(mount) = mount.open_to_others() else { return };
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pjdfstest.toml");
    let path = mount.path();
    let arguments = ["-c", settings.to_str().unwrap(), "-p", path.to_str().unwrap()];
    if let Some(said) = run("pjdfstest", &arguments, &path) {
        let summary = said.lines().rev().find(|line| line.contains("total")).unwrap_or_default();
        eprintln!("{summary}");
        assert!(!said.contains(" 0 total"), "no test was run: {said}");
    }
    mount.end();
}

/// Small files made, read, appended to and deleted in turns, as a mail server does.
#[test]
fn postmark_leaves_nothing_behind() {
    let Some(mount) = Mount::new(256) else { return };
    let (files, transactions) = (test_size(200, 1000, 20_000), test_size(500, 3000, 100_000));
    let script = format!(
        "set location {}\nset number {files}\nset transactions {transactions}\n\
         set size 500 20000\nset subdirectories 10\nset seed 7\nrun\nquit\n",
        mount.path().display()
    );
    if let Some(said) = run_with("postmark", &[], &mount.path(), &script) {
        assert!(!said.contains("Error") && said.contains("deleted"), "{said}");
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0, "{said}");
    }
    mount.end();
}

/// Files that are synced one by one are all there after a remount.
#[test]
fn fs_mark_finds_its_synced_files_again() {
    let Some(mut mount) = Mount::new(256) else { return };
    let (at, count) = (mount.path(), test_size(100, 300, 5000));
    let (directory, number) = (at.join("files"), count.to_string());
    fs::create_dir(&directory).unwrap();
    let to = directory.to_str().unwrap();
    let arguments = ["-d", to, "-n", &number, "-s", "10240", "-S", "1", "-t", "2", "-k"];
    if run("fs_mark", &arguments, &at).is_some() {
        mount.unmount();
        mount.mount().unwrap();
        let sizes = fs::read_dir(&directory).unwrap().map(|of| of.unwrap().metadata().unwrap());
        let sizes: Vec<u64> = sizes.map(|of| of.len()).collect();
        assert_eq!(sizes.len() as u64, 2 * count);
        assert!(sizes.iter().all(|size| *size == 10_240));
    }
    mount.end();
}

/// What a C compiler and `ar` make of sources on the mount is what they make of them elsewhere.
#[test]
fn a_build_makes_the_same_library_as_elsewhere() {
    let Some(mount) = Mount::new(512) else { return };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let elsewhere = tempfile::tempdir().unwrap();
    let mut libraries = Vec::new();
    for at in [mount.path(), elsewhere.path().to_path_buf()] {
        let built = match is_long() {
            true => build(&crates.join("sqlite-source"), None, &at),
            false => build(&crates.join("capi/examples"), Some(&crates.join("capi/include")), &at),
        };
        let Some(built) = built else { return mount.end() };
        libraries.push(fs::read(built).unwrap());
    }
    assert!(!libraries[0].is_empty() && libraries[0] == libraries[1]);
    drop(libraries);
    mount.end();
}

/// Copies the C files of a directory to `at` and makes a library of them.
fn build(sources: &Path, include: Option<&Path>, at: &Path) -> Option<PathBuf> {
    let out = at.join("build");
    fs::create_dir(&out).unwrap();
    let mut objects = Vec::new();
    for file in fs::read_dir(sources).unwrap().map(|file| file.unwrap().path()) {
        let is_source = file.extension().is_some_and(|kind| kind == "c" || kind == "h");
        if !is_source {
            continue;
        }
        let name = file.file_name().unwrap().to_str().unwrap().to_string();
        fs::copy(&file, out.join(&name)).unwrap();
        if let Some(stem) = name.strip_suffix(".c") {
            objects.push((name.clone(), format!("{stem}.o")));
        }
    }
    objects.sort();
    let include = include.map(|path| format!("-I{}", path.display()));
    for (source, object) in &objects {
        let mut arguments = vec!["-O0", "-c", source, "-o", object];
        arguments.extend(include.as_deref());
        run("cc", &arguments, &out)?;
    }
    let mut arguments = vec!["rcsD", "library.a"];
    arguments.extend(objects.iter().map(|(_, object)| object.as_str()));
    run("ar", &arguments, &out)?;
    Some(out.join("library.a"))
}

/// SQLite's own shell: transactions in both kinds of journal, and a process that dies in between.
#[test]
fn databases_of_the_sqlite_shell_stay_whole() {
    let Some(mount) = Mount::new(256) else { return };
    let (at, rounds) = (mount.path(), test_size(2, 4, 40));
    for mode in ["delete", "wal", "truncate"] {
        let database = format!("{mode}.db");
        let begin = format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c INT);\n\
             CREATE INDEX i ON t (b);\n"
        );
        if run_with("sqlite3", &[&database], &at, &begin).is_none() {
            return mount.end();
        }
        for round in 0..rounds {
            let count = interrupted(&at, &database, round);
            let asked =
                "PRAGMA integrity_check; SELECT count(*) % 10, ifnull(min(c) = max(c), 1) FROM t;";
            let said = run("sqlite3", &[&database, asked], &at).unwrap();
            // Transactions are whole: each put ten rows and counted up all of them.
            assert_eq!(said, "ok\n0|1\n", "{mode}, round {round}, killed after {count:?}");
        }
    }
    mount.end();
}

/// Transactions until the shell is killed.
fn interrupted(at: &Path, database: &str, round: u64) -> Duration {
    let mut shell = Command::new("sqlite3");
    shell.arg(database).current_dir(at).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut shell = shell.spawn().unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let script: String = (0..2000)
        .map(|i| {
            format!(
                "BEGIN; WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < \
                 10) INSERT INTO t (b, c) SELECT hex(randomblob(50)), (SELECT coalesce(max(c), 0) \
                 FROM t) FROM n; UPDATE t SET c = c + 1; COMMIT; -- {i}\n"
            )
        })
        .collect();
    let writing = std::thread::spawn(move || {
        use std::io::Write;
        // It is killed before it has read everything.
        let _ = stdin.write_all(script.as_bytes());
    });
    let after = Duration::from_millis(50 + 37 * (round % 7));
    std::thread::sleep(after);
    shell.kill().unwrap();
    let status = shell.wait().unwrap();
    writing.join().unwrap();
    assert!(status.success() || status.signal() == Some(9), "the shell ended with {status}");
    after
}

/// There are no access control lists, and who sets one is told so.
#[test]
fn an_access_control_list_is_refused_and_not_kept_unheeded() {
    let Some(mount) = Mount::new(64) else { return };
    fs::write(mount.path().join("a"), b"a").unwrap();
    let mut set = Command::new("setfacl");
    match set.args(["-m", "u:1:rwx", "a"]).current_dir(mount.path()).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("not supported"), "{said}");
            let listed = run("getfacl", &["-cE", "a"], &mount.path()).unwrap();
            assert!(listed.starts_with("user::rw-\n") && !listed.contains("user:1"), "{listed}");
        }
        Err(error) => eprintln!("skipped: setfacl cannot be started: {error}"),
    }
    mount.end();
}
