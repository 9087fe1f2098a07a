// Which functions of SQLite have ours in front of them, and how both are compiled. Build scripts
// include this file: of silica-sql, whose public names have a prefix, and of the shared library.

use silica_sqlite_source::{Front, HEADER, OPTIONS, translation_unit};
use std::path::Path;

const BTREE: &[&str] = &[
    "sqlite3BtreeOpen",
    "sqlite3BtreeClose",
    "sqlite3BtreeGetFilename",
    "sqlite3BtreeGetJournalname",
    "sqlite3BtreeIsReadonly",
    "sqlite3BtreeSetPagerFlags",
    "sqlite3BtreeSetPageSize",
    "sqlite3BtreeLastPage",
    "sqlite3BtreeMaxPageCount",
    "sqlite3BtreeSetMmapLimit",
    "sqlite3BtreeSetAutoVacuum",
    "sqlite3BtreeIncrVacuum",
    "sqlite3BtreeSetVersion",
    "sqlite3BtreeNewDb",
    "sqlite3BtreeCheckpoint",
    "sqlite3BtreeBeginTrans",
    "sqlite3BtreeCommitPhaseOne",
    "sqlite3BtreeCommitPhaseTwo",
    "sqlite3BtreeCommit",
    "sqlite3BtreeTripAllCursors",
    "sqlite3BtreeRollback",
    "sqlite3BtreeBeginStmt",
    "sqlite3BtreeSavepoint",
    "sqlite3BtreeGetMeta",
    "sqlite3BtreeUpdateMeta",
    "sqlite3BtreeCreateTable",
    "sqlite3BtreeDropTable",
    "sqlite3BtreeClearTable",
    "sqlite3BtreeClearTableOfCursor",
    "sqlite3BtreeCursor",
    "sqlite3BtreeCloseCursor",
    "sqlite3BtreeClearCursor",
    "sqlite3BtreeCursorRestore",
    "sqlite3BtreeFirst",
    "sqlite3BtreeIsEmpty",
    "sqlite3BtreeLast",
    "sqlite3BtreeNext",
    "sqlite3BtreePrevious",
    "sqlite3BtreeEof",
    "sqlite3BtreeTableMoveto",
    "sqlite3BtreeIndexMoveto",
    "sqlite3BtreeIntegerKey",
    "sqlite3BtreeOffset",
    "sqlite3BtreePayloadFetch",
    "sqlite3BtreePayloadSize",
    "sqlite3BtreeMaxRecordSize",
    "sqlite3BtreePayload",
    "sqlite3BtreePayloadChecked",
    "sqlite3BtreePutData",
    "sqlite3BtreeTransferRow",
    "sqlite3BtreeInsert",
    "sqlite3BtreeDelete",
    "sqlite3BtreeCount",
    "sqlite3BtreeRowCountEst",
    "sqlite3BtreeIntegrityCheck",
    "sqlite3BtreeClearCache",
];

const BACKUP: &[&str] =
    &["sqlite3BtreeCopyFile", "sqlite3_backup_step", "sqlite3_backup_finish"];

const VACUUM: &[&str] = &["sqlite3RunVacuum"];

/// What is in front of it stands behind main.c, which knows our databases.
const MEMDB: &[&str] = &["sqlite3_serialize"];

const STATEMENTS: &[&str] =
    &["sqlite3VdbeDelete", "sqlite3VdbeReset", "sqlite3ExpirePreparedStatements"];

const STEP: &[&str] = &["sqlite3_step"];

const BUILD: &[&str] = &["sqlite3EndTable"];

const PREPARE: &[&str] = &["sqlite3_prepare_v2", "sqlite3_prepare_v3", "sqlite3Reprepare"];

const MAIN: &[&str] =
    &["sqlite3ErrStr", "sqlite3_close", "sqlite3_close_v2", "sqlite3_file_control"];

/// The files of the shim that stand behind btree.c, in their order.
const BTREE_TEXTS: [&str; 3] = ["handle.c", "cursor.c", "write.c"];

const PAGER: &[&str] = &[
    "sqlite3PagerGetJournalMode",
    "sqlite3PagerSetJournalMode",
    "sqlite3PagerOkToChangeJournalMode",
    "sqlite3PagerIsMemdb",
    "sqlite3PagerExclusiveLock",
    "sqlite3PagerLockingMode",
];

/// What is neither static nor public in a build with assertions.
const DEBUG_NAMES: &[&str] = &[
    "corruptPageError",
    "print_pager_state",
    "sqlite3PrintMem",
    "sqlite3_fts3_may_be_corrupt",
    "sqlite3_fts5_may_be_corrupt",
    "unixFileMutexHeld",
    "unixFileMutexNotheld",
];

/// What `-fsanitize` of the C compiler gets: `address,undefined`, say, for a test.
const SANITIZERS: &str = "SILICA_SQLITE_SANITIZE";

/// Compiles SQLite with our storage as the static library `name`; with a `prefix` before each
/// public name it links beside another SQLite.
fn compile(shim: &Path, name: &str, prefix: Option<&str>) {
    println!("cargo::rerun-if-changed={}", shim.display());
    println!("cargo::rerun-if-changed=build.rs");
    let read = |name: &str| std::fs::read_to_string(shim.join(name)).expect("a file of the shim");
    let (pager, backup) = (read("pager.c"), read("backup.c"));
    let statements = [read("statements.c"), read("results.c")].concat();
    let (step, prepare) = (read("step.c"), read("prepare.c"));
    let (build, vacuum) = (read("build.c"), read("vacuum.c"));
    let words = ["main.c", "keyspace.c", "objects.c", "series.c"].map(read).concat();
    let btree = BTREE_TEXTS.map(read).concat();
    let fronts = [
        Front { file: "memdb.c", functions: MEMDB, is_for_itself: true, text: "" },
        Front { file: "pager.c", functions: PAGER, is_for_itself: false, text: &pager },
        Front { file: "btree.c", functions: BTREE, is_for_itself: false, text: &btree },
        Front { file: "backup.c", functions: BACKUP, is_for_itself: true, text: &backup },
        Front { file: "vdbeaux.c", functions: STATEMENTS, is_for_itself: true, text: &statements },
        Front { file: "vdbeapi.c", functions: STEP, is_for_itself: true, text: &step },
        Front { file: "build.c", functions: BUILD, is_for_itself: false, text: &build },
        Front { file: "prepare.c", functions: PREPARE, is_for_itself: true, text: &prepare },
        Front { file: "vacuum.c", functions: VACUUM, is_for_itself: false, text: &vacuum },
        Front { file: "main.c", functions: MAIN, is_for_itself: true, text: &words },
    ];
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    let unit = translation_unit(&fronts, prefix).expect("the amalgamation is as it was");
    let path = out.join("silica_sqlite.c");
    std::fs::write(&path, unit).expect("the build directory takes a file");
    std::fs::write(out.join("sqlite3.h"), HEADER).expect("the build directory takes a file");
    let mut build = cc::Build::new();
    build.file(&path).include(shim).include(out).warnings(false);
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level == "3") {
        // As SQLite's makers compile it: more makes it larger, and no faster.
        build.opt_level(2);
    }
    for (name, value) in OPTIONS {
        build.define(name, *value);
    }
    build.define("SQLITE_THREAD_LOCAL", "__thread");
    if prefix.is_some() {
        build.define("SILICA_IS_PREFIXED", None);
    }
    // The library that is linked beside has the others.
    let own = prefix.unwrap_or("plain_");
    build.define("SQLITE_EXTRA_AUTOEXT", format!("{own}sql_add_modules").as_str());
    build.define("SILICA_WRITTEN_BY", format!("{own}sql_written_by").as_str());
    build.define("SILICA_ADD_SERIES", format!("{own}sql_add_series").as_str());
    // SQLite's own assertions stand where Rust's do.
    if std::env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_some() {
        build.define("SQLITE_DEBUG", None);
        // The shared library has both compilations in it.
        for name in DEBUG_NAMES.iter().filter(|_| prefix.is_some()) {
            build.define(name, &*format!("{}{name}", prefix.unwrap_or_default()));
        }
    }
    println!("cargo::rerun-if-env-changed={SANITIZERS}");
    if let Ok(sanitizers) = std::env::var(SANITIZERS) {
        build.flag(format!("-fsanitize={sanitizers}")).flag("-fno-omit-frame-pointer");
        build.flag("-fno-sanitize-recover=undefined");
        for sanitizer in sanitizers.split(',') {
            let library = if sanitizer == "undefined" { "ubsan" } else { "asan" };
            println!("cargo::rustc-link-lib=dylib={library}");
        }
    }
    build.compile(name);
}
