//! Memory that is refused: SQLite's allocator fails at the Nth call, for each N.

use silica_base::{in_own_process, test_size};
use silica_sql::sql::{Sql, SqlError, Value};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// `sqlite3_mem_methods`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Methods {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
    round_up: unsafe extern "C" fn(c_int) -> c_int,
    init: unsafe extern "C" fn(*mut c_void) -> c_int,
    shutdown: unsafe extern "C" fn(*mut c_void),
    data: usize,
}

unsafe extern "C" {
    fn silica_sqlite3_config(option: c_int, ...) -> c_int;
    fn silica_sqlite3_memory_used() -> i64;
}

const CONFIG_MALLOC: c_int = 4;
const CONFIG_GETMALLOC: c_int = 5;

static STOCK: OnceLock<Methods> = OnceLock::new();
/// Calls until one fails; below 0 none does.
static LEFT: AtomicI64 = AtomicI64::new(-1);
/// All later ones fail, too.
static IS_LASTING: AtomicBool = AtomicBool::new(false);

fn is_refused() -> bool {
    let left = LEFT.load(Ordering::Relaxed);
    match left {
        ..0 => false,
        0 => {
            let stays = IS_LASTING.load(Ordering::Relaxed);
            LEFT.store(if stays { 0 } else { -2 }, Ordering::Relaxed);
            true
        }
        _ => {
            LEFT.store(left - 1, Ordering::Relaxed);
            false
        }
    }
}

unsafe extern "C" fn malloc(bytes: c_int) -> *mut c_void {
    let stock = STOCK.get().expect("set before");
    // SAFETY: SQLite's own allocator, as SQLite calls it.
    if is_refused() { std::ptr::null_mut() } else { unsafe { (stock.malloc)(bytes) } }
}

unsafe extern "C" fn realloc(old: *mut c_void, bytes: c_int) -> *mut c_void {
    let stock = STOCK.get().expect("set before");
    // SAFETY: SQLite's own allocator, as SQLite calls it.
    if is_refused() { std::ptr::null_mut() } else { unsafe { (stock.realloc)(old, bytes) } }
}

fn use_the_failing_allocator() {
    let mut methods = std::mem::MaybeUninit::<Methods>::uninit();
    // SAFETY: nothing of SQLite runs yet; it fills the methods, and keeps a copy of ours.
    unsafe {
        assert_eq!(silica_sqlite3_config(CONFIG_GETMALLOC, methods.as_mut_ptr()), 0);
        let stock = STOCK.get_or_init(|| methods.assume_init());
        let mut ours = Methods { malloc, realloc, ..*stock };
        assert_eq!(silica_sqlite3_config(CONFIG_MALLOC, &raw mut ours), 0);
    }
}

fn used() -> i64 {
    // SAFETY: it only reads a counter.
    unsafe { silica_sqlite3_memory_used() }
}

/// What is done; each transaction adds 1 to `progress` and 10 rows to `t`.
const SCRIPT: [&str; 12] = [
    "BEGIN; CREATE TABLE progress (n INTEGER); INSERT INTO progress VALUES (1);
     CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB); CREATE INDEX i ON t (b, c DESC);
     INSERT INTO t WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT 10)
         SELECT n, 'b' || n, zeroblob(n * 100) FROM s; COMMIT",
    "SELECT a, b FROM t WHERE b > 'b3' ORDER BY c, b DESC",
    "BEGIN; UPDATE progress SET n = n + 1; INSERT INTO t (b, c) SELECT b || 'x', c FROM t; COMMIT",
    "SELECT group_concat(b), count(*) FROM t GROUP BY length(c) HAVING count(*) > 1",
    "BEGIN; UPDATE progress SET n = n + 1; SAVEPOINT one; DELETE FROM t; ROLLBACK TO one;
     INSERT INTO t (b, c) SELECT b || 'y', randomblob(2000) FROM t LIMIT 10; COMMIT",
    "CREATE TABLE u (x TEXT PRIMARY KEY COLLATE NOCASE, y) WITHOUT ROWID",
    "INSERT INTO u SELECT b, a FROM t; REPLACE INTO u SELECT b, 1 FROM t WHERE a % 2",
    "UPDATE t SET b = b || 'z' WHERE a IN (SELECT y FROM u WHERE x LIKE 'B1%')",
    "ALTER TABLE u ADD COLUMN z DEFAULT 7; CREATE INDEX j ON u (z, y) WHERE y > 2",
    "CREATE TRIGGER r AFTER DELETE ON u BEGIN UPDATE u SET z = z + 1 WHERE x < old.x; END;
     DELETE FROM u WHERE y > 25",
    "BEGIN; UPDATE progress SET n = n + 1; DELETE FROM t WHERE a <= 10;
     INSERT INTO t (b) SELECT x FROM u UNION SELECT b FROM t LIMIT 20; COMMIT",
    "PRAGMA integrity_check; ANALYZE; DROP TABLE u; VACUUM",
];

fn run(path: &Path) -> Result<(), SqlError> {
    let mut sql = Sql::open(path)?;
    sql.run("PRAGMA synchronous = OFF")?;
    SCRIPT.iter().try_for_each(|statements| sql.run(statements))
}

/// Runs the script with its Nth allocation refused; false if it has no so many.
fn is_met(path: &Path, n: i64, is_lasting: bool) -> bool {
    IS_LASTING.store(is_lasting, Ordering::Relaxed);
    LEFT.store(n, Ordering::Relaxed);
    let done = run(path);
    let left = LEFT.swap(-1, Ordering::Relaxed);
    if left > 0 {
        done.expect("nothing was refused");
        return false;
    }
    // What is refused may be something that can be done without.
    if let Err(error) = done {
        assert!(error.code & 0xff == 7 || error.code == 10 | 12 << 8, "allocation {n}: {error}");
    }
    true
}

#[test]
fn refused_memory_is_an_error_and_leaves_the_database_whole() {
    in_own_process("memory::refused_memory_is_an_error_and_leaves_the_database_whole", || {
        use_the_failing_allocator();
        let scratch = tempfile::tempdir().expect("a directory");
        let path = |n: i64| scratch.path().join(format!("{n}.db"));
        run(&path(-1)).expect("the script runs");
        let before = used();
        let step = test_size(53, 11, 1) as i64;
        let (mut n, mut met) = (0, true);
        while met {
            for is_lasting in [false, true] {
                let path = path(2 * n + i64::from(is_lasting));
                met = is_met(&path, n, is_lasting);
                assert_eq!(used(), before, "allocation {n} of the script leaks");
                let mut sql = Sql::open(&path).expect("opens again");
                let check = sql.query("PRAGMA integrity_check", &[]).expect("checked");
                assert_eq!(check, [[Value::from("ok")]], "allocation {n}");
                let count = "SELECT (SELECT n FROM progress), (SELECT count(*) FROM t)";
                if let Ok(rows) = sql.query(count, &[]) {
                    let [Value::Integer(progress), Value::Integer(rows)] = rows[0][..] else {
                        panic!("{rows:?}")
                    };
                    let expected = [0, 10, 20, 30, 40][progress as usize];
                    assert_eq!(rows, expected, "allocation {n}, after {progress} transactions");
                }
            }
            n += step;
        }
        println!("{n} allocations, in steps of {step}");
        assert!(n > 800, "{n}");
    });
}
