//! The wheel, built and installed, and the tests in Python on it.

include!("../../wheel.rs");

mod sqlite {
    include!("../../../sqlite3/link.rs");

    /// Links the shared library in `out` of the newest static one in `deps`, if there is one.
    pub(super) fn linked(deps: &Path, map: &Path, out: &Path) -> Option<PathBuf> {
        let files = std::fs::read_dir(deps).expect("a directory").filter_map(|file| file.ok());
        let is_archive = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libsqlite3") && name.ends_with(".a")
        };
        let archives = files.map(|file| file.path()).filter(is_archive);
        let newest = archives.max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())?;
        Some(link(&newest, map, out).expect("linked"))
    }
}

/// The checker of types that the stubs are checked with.
const MYPY: &str = "mypy==2.4.1";

/// Stores of other people that ours is measured beside.
const PEERS: [&str; 2] = ["lmdb==3.0.0", "rocksdict==0.3.29"];

/// This crate's directory.
fn own() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of this build.
fn built() -> PathBuf {
    let binary = std::env::current_exe().expect("a test knows its binary");
    binary.parent().and_then(Path::parent).expect("deps lie in the build's directory").to_path_buf()
}

/// The command line of this build.
fn program() -> PathBuf {
    let program = built().join("silica");
    if !program.exists() {
        // A build of the workspace has made it.
        let args = ["build", "--quiet", "--package", "silica-cli", "--bin", "silica"];
        run(Command::new("cargo").args(args).current_dir(own())).expect("the command line builds");
    }
    program
}

/// SQLite's library of this build.
fn sqlite_library() -> PathBuf {
    let (deps, out) = (built().join("deps"), built().join("python/sqlite"));
    let map = own().join("../sqlite3/libsqlite3.map");
    sqlite::linked(&deps, &map, &out).unwrap_or_else(|| {
        // A build of the workspace has made it.
        let args = ["build", "--quiet", "--package", "sqlite3"];
        run(Command::new("cargo").args(args).current_dir(own())).expect("the library builds");
        sqlite::linked(&built(), &map, &out).expect("cargo builds the static library")
    })
}

/// A Python with the wheel in it; `None`, and a printed reason, if it cannot be made here.
fn installed() -> Option<PathBuf> {
    let built = built();
    let out = built.join("python");
    let python = environment(&out.join("environment"))
        .inspect_err(|why| println!("left out: no virtual environment with {MATURIN}: {why}"))
        .ok()?;
    let parts = Parts {
        own: own(),
        maturin: &python.with_file_name("maturin"),
        program: &program(),
        sqlite: &sqlite_library(),
        profile: "dev",
        target: built.parent().expect("a target directory"),
        out: &out,
    };
    let made = wheel(&parts).expect("the wheel builds");
    let name = made.file_name().expect("a file").to_string_lossy().into_owned();
    assert!(name.contains("-cp311-abi3-manylinux_"), "{name}");
    let args = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall"];
    run(Command::new(&python).args(args).arg(&made)).expect("the wheel installs");
    Some(python)
}

#[test]
fn the_tests_in_python_pass() {
    let Some(python) = installed() else { return };
    let tests = own().join("tests/python");
    let modules = [
        "test_mapping",
        "test_store",
        "test_aio",
        "test_dbm_cpython",
        "test_refused",
        "test_sqlite",
    ];
    let mut command = Command::new(&python);
    // Files that the tests make go where they do not matter.
    let directory = built().join("python/run");
    emptied(&directory).expect("a directory");
    command.args(["-B", "-W", "error", "-m", "unittest", "--quiet"]).args(modules);
    command.current_dir(&directory).env("PYTHONPATH", &tests);
    let said = run(&mut command).unwrap_or_else(|said| panic!("{said}"));
    println!("{said}");
    assert!(said.contains("\nOK"), "{said}");
    types_are_right(&python);
    examples_run(&python);
    benchmark_runs(&python);
}

/// The package passes a strict check of its types, if the checker can be had.
fn types_are_right(python: &Path) {
    let has = run(Command::new(python).args(["-c", "import mypy"])).is_ok()
        || run(Command::new(python).args(["-m", "pip", "install", "--quiet", MYPY])).is_ok();
    if !has {
        println!("left out: {MYPY} cannot be installed here");
        return;
    }
    let mut mypy = Command::new(python);
    mypy.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(built().join("python/mypy"));
    mypy.args(["--package", "silica"]).current_dir(built().join("python/stage/python"));
    run(&mut mypy).unwrap_or_else(|said| panic!("{said}"));
}

/// The blocks of Python in the manual do what they say.
fn examples_run(python: &Path) {
    let page = own().join("../../docs/python.md");
    let text = std::fs::read_to_string(&page).expect("the manual is there");
    let blocks = text.split("```python\n").skip(1).map(|rest| rest.split("```").next());
    let directory = built().join("python/manual");
    emptied(&directory).expect("a directory");
    let mut count = 0;
    for block in blocks.flatten() {
        let mut command = Command::new(python);
        command.args(["-B", "-c", block]).current_dir(&directory);
        run(&mut command).unwrap_or_else(|said| panic!("{block}\n{said}"));
        count += 1;
    }
    assert!(count >= 4, "{count} blocks");
}

/// The benchmark works, at toy size, if the stores beside ours can be had.
fn benchmark_runs(python: &Path) {
    let has = run(Command::new(python).args(["-c", "import lmdb, rocksdict"])).is_ok()
        || run(Command::new(python).args(["-m", "pip", "install", "--quiet"]).args(PEERS)).is_ok();
    if !has {
        println!("left out: {PEERS:?} cannot be installed here");
        return;
    }
    let mut compare = Command::new(python);
    compare.arg("-B").arg(own().join("bench/compare.py")).arg("500");
    let said = run(&mut compare).unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(said.lines().filter(|line| line.starts_with("| ")).count(), 6, "{said}");
}
