//! SQL through the connection of this crate: what programs see of a Silica database.

use silica_sql::sql::{Sql, Value, ValueRef};
use std::path::Path;
use std::time::Duration;

fn table(path: &Path) -> Sql {
    let mut sql = Sql::open(path).expect("opens");
    sql.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").expect("made");
    sql
}

fn count(sql: &mut Sql) -> i64 {
    match sql.query("SELECT count(*) FROM t", &[]).expect("counted")[0][0] {
        Value::Integer(count) => count,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    let mut sql = table(&path);
    sql.execute("INSERT INTO t VALUES (1, 'one'), (2, NULL)", &[]).expect("written");
    sql.run("BEGIN; INSERT INTO t VALUES (3, 'three')").expect("written");
    drop(sql);
    assert!(path.is_file() && scratch.path().join("app.db-silica/store").is_dir());
    let mut sql = Sql::open(&path).expect("opens again");
    let rows = sql.query("SELECT a, b FROM t ORDER BY a", &[]).expect("read");
    let expected = [[Value::from(1), Value::from("one")], [Value::from(2), Value::Null]];
    assert_eq!(rows, expected);
}

#[test]
fn readers_see_one_moment_and_one_writes_at_a_time() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    let mut one = table(&path);
    let mut other = Sql::open(&path).expect("opens beside");
    other.run("BEGIN").expect("begun");
    assert_eq!(count(&mut other), 0);
    one.run("BEGIN IMMEDIATE; INSERT INTO t VALUES (1, 'x')").expect("written");
    assert_eq!((count(&mut one), count(&mut other)), (1, 0));
    let mut third = Sql::open(&path).expect("opens beside");
    let error = third.run("INSERT INTO t VALUES (2, 'y')").expect_err("another one writes");
    assert_eq!((error.code, &*error.message), (5, "database is locked"));
    one.run("COMMIT").expect("committed");
    assert_eq!(count(&mut other), 0);
    // What it read is not the newest: it cannot go on to write.
    let error = other.run("INSERT INTO t VALUES (3, 'z')").expect_err("too old");
    assert_eq!(error.code, 5 | 2 << 8);
    other.run("ROLLBACK; INSERT INTO t VALUES (3, 'z')").expect("begun anew");
    assert_eq!(count(&mut one), 2);
}

#[test]
fn a_writer_that_waits_gets_its_turn() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("app.db");
    drop(table(&path));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut sql = Sql::open(path).expect("opens");
                sql.set_busy_timeout(Duration::from_secs(60));
                for n in 0..50 {
                    let row = [Value::from(thread * 1000 + n), Value::from("x")];
                    sql.execute("INSERT INTO t VALUES (?, ?)", &row).expect("in its turn");
                }
            });
        }
    });
    assert_eq!(count(&mut Sql::open(&path).expect("opens")), 200);
}

#[test]
fn data_moves_between_our_databases_and_sqlites_files() {
    let scratch = tempfile::tempdir().expect("a directory");
    let [ours, file, copy] = ["app.db", "old.db", "copy.db"].map(|name| scratch.path().join(name));
    let mut old = Sql::open(format!("file:{}?storage=sqlite", file.display())).expect("opens");
    old.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").expect("made");
    old.run("CREATE INDEX i ON t (b)").expect("made");
    let series = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT 500) \
                  INSERT INTO t SELECT n, 'v' || n FROM s";
    old.run(series).expect("filled");
    drop(old);
    let head = std::fs::read(&file).expect("a file");
    assert!(head.starts_with(b"SQLite format 3\0"));
    let mut sql = table(&ours);
    let attach = format!("ATTACH '{}' AS old", file.display());
    sql.run(&attach).expect("attached");
    sql.run("INSERT INTO main.t SELECT * FROM old.t").expect("moved");
    assert_eq!(count(&mut sql), 500);
    sql.run("INSERT INTO old.t SELECT a + 1000, b FROM main.t").expect("moved back");
    sql.run("DETACH old").expect("detached");
    sql.execute("VACUUM INTO ?", &[Value::from(copy.to_str().expect("text"))]).expect("written");
    let head = std::fs::read(&copy).expect("a file");
    assert!(head.starts_with(b"SQLite format 3\0"));
    assert_eq!(count(&mut Sql::open(&copy).expect("opens")), 500);
    let check = Sql::open(&file).expect("opens").query("SELECT count(*) FROM t", &[]);
    assert_eq!(check.expect("counted"), [[Value::from(1000)]]);
    sql.run("VACUUM").expect("compacted");
    assert_eq!(count(&mut sql), 500);
}

#[test]
fn errors_of_opening_have_words() {
    let scratch = tempfile::tempdir().expect("a directory");
    let [path, copy] = ["app.db", "copy.db"].map(|name| scratch.path().join(name));
    drop(table(&path));
    std::fs::copy(&path, &copy).expect("copied");
    let error = Sql::open(&copy).err().expect("refused");
    assert_eq!(error.code, 14);
    assert!(error.message.contains("copy of a database's marker"), "{error}");
    let error = Sql::open_read_only(scratch.path().join("none.db")).err().expect("refused");
    assert_eq!(error.code, 14);
    assert!(!scratch.path().join("none.db-silica").exists());
    let mut sql = Sql::open_read_only(&path).expect("opens");
    assert_eq!(count(&mut sql), 0);
    let error = sql.run("INSERT INTO t VALUES (1, 'x')").expect_err("refused");
    assert_eq!(error.code & 0xff, 8, "{error}");
}

#[test]
fn an_index_by_a_collation_of_the_programs_is_refused_in_words() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = table(&scratch.path().join("app.db"));
    // A collation that nobody has defined is SQLite's own error.
    let error = sql.run("CREATE INDEX i ON t (b COLLATE mine)").expect_err("refused");
    assert!(error.message.contains("no such collation sequence: mine"), "{error}");
}

#[test]
fn a_statement_ends_when_it_is_interrupted() {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = table(&scratch.path().join("app.db"));
    sql.set_interruption(Arc::new(AtomicBool::new(true)));
    let endless = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) \
                   SELECT count(*) FROM s";
    assert_eq!(sql.query(endless, &[]).expect_err("ended").code, 9);
}

#[test]
fn large_rows_and_deep_expressions_pass() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = table(&scratch.path().join("app.db"));
    let large = "x".repeat(3 << 20);
    sql.execute("INSERT INTO t VALUES (1, ?)", &[large.as_str().into()]).expect("written");
    let found = sql.query("SELECT b FROM t WHERE a = 1", &[]).expect("read");
    assert_eq!(found, [[Value::from(large)]]);
    let deep = format!("SELECT {}1{}", "(".repeat(90), ")".repeat(90));
    assert_eq!(sql.query(&deep, &[]).expect("parsed"), [[Value::from(1)]]);
    let wide = format!("SELECT {}", vec!["1"; 900].join("+"));
    assert_eq!(sql.query(&wide, &[]).expect("parsed"), [[Value::from(900)]]);
}

#[test]
fn a_checkpoint_of_all_databases_passes_over_those_that_are_not_there() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = table(&scratch.path().join("app.db"));
    for text in ["PRAGMA wal_checkpoint", "PRAGMA wal_checkpoint(TRUNCATE)"] {
        let rows = sql.query(text, &[]).expect("the temporary database was never opened");
        assert_eq!(rows, [[Value::from(0), Value::from(0), Value::from(0)]], "{text}");
    }
}

#[test]
fn a_database_is_copied_into_another() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut from = table(&scratch.path().join("from.db"));
    from.run("CREATE INDEX i ON t (b)").expect("made");
    from.prepare("INSERT INTO t VALUES (7, 'seven')").and_then(|mut s| s.step()).expect("written");
    let plain = format!("file:{}?storage=sqlite", scratch.path().join("to.db").display());
    for to in [plain.as_str(), ":memory:"] {
        let mut to = Sql::open(to).expect("opens");
        to.run("CREATE TABLE other (x)").expect("made");
        from.copy_into(&mut to).expect("copied");
        assert_eq!(to.query("PRAGMA integrity_check", &[]).expect("checked"), [["ok".into()]]);
        assert_eq!(to.query("SELECT * FROM t", &[]).expect("read"), [[7.into(), "seven".into()]]);
        assert!(to.query("SELECT * FROM other", &[]).is_err());
        to.run("BEGIN IMMEDIATE").expect("begun");
        assert!(from.copy_into(&mut to).is_err(), "a transaction is open there");
    }
}

#[test]
fn parameters_have_names() {
    let sql = Sql::open(":memory:").expect("opens");
    let statement = sql.prepare("SELECT :a, @b, ?, ?9").expect("prepared");
    let names: Vec<_> = [1, 2, 3, 9, 10].map(|at| statement.parameter_name(at)).into();
    let expected = [Some(":a"), Some("@b"), None, Some("?9"), None];
    assert_eq!(names, expected.map(|name| name.map(str::to_string)));
}

#[test]
fn pragmas_that_frameworks_send_are_answered_as_by_sqlite() {
    let scratch = tempfile::tempdir().expect("a directory");
    let open = |storage: &str| {
        let path = scratch.path().join(format!("{storage}.db"));
        Sql::open(format!("file:{}?storage={storage}", path.display())).expect("opens")
    };
    let (mut ours, mut theirs) = (open("silica"), open("sqlite"));
    for text in [
        "journal_mode = WAL",
        "journal_mode",
        "foreign_keys = ON",
        "foreign_keys",
        "busy_timeout = 5000",
        "synchronous = NORMAL",
        "synchronous",
        "temp_store = MEMORY",
        "temp_store",
        "cache_size = -20000",
        "cache_size",
        "wal_autocheckpoint = 1000",
        "journal_size_limit = 67108864",
        "optimize",
        "optimize = 0x10002",
        "quick_check",
        "user_version = 7",
        "user_version",
        "application_id = 99",
        "application_id",
        "page_size",
        "encoding",
        "auto_vacuum",
        "incremental_vacuum",
        "locking_mode",
        "locking_mode = EXCLUSIVE",
        "locking_mode",
        "locking_mode = NORMAL",
        "locking_mode",
        "secure_delete",
        "recursive_triggers = ON",
        "defer_foreign_keys = ON",
        "query_only",
        "table_list",
        "foreign_key_check",
        "freelist_count",
        "mmap_size",
        "mmap_size = 1000000",
        "mmap_size",
        "mmap_size = -1",
        "mmap_size = 9999999999999",
        "main.mmap_size = 0",
        "max_page_count",
        "max_page_count = 1000000",
        "max_page_count",
        "max_page_count = 5000000000",
    ] {
        let ask = |sql: &mut Sql| sql.query(&format!("PRAGMA {text}"), &[]);
        let (ours, theirs) = (ask(&mut ours), ask(&mut theirs));
        assert_eq!(ours, theirs, "PRAGMA {text}");
    }
}

#[test]
fn the_data_version_grows_where_commits_of_others_are_seen_as_in_sqlite() {
    let scratch = tempfile::tempdir().expect("a directory");
    let versions = |storage: &str| {
        let path = scratch.path().join(format!("{storage}.db"));
        let open = || Sql::open(format!("file:{}?storage={storage}", path.display()));
        let ask = |sql: &mut Sql| sql.query("PRAGMA data_version", &[]).expect("asked").remove(0);
        let mut one = open().expect("opens");
        let mut found = vec![ask(&mut one)];
        one.run("CREATE TABLE t (a)").expect("made");
        found.push(ask(&mut one));
        let mut other = open().expect("opens");
        found.push(ask(&mut other));
        for _ in 0..3 {
            other.execute("INSERT INTO t VALUES (1)", &[]).expect("written");
        }
        found.extend([ask(&mut one), ask(&mut other)]);
        one.execute("INSERT INTO t VALUES (2)", &[]).expect("written");
        found.extend([ask(&mut one), ask(&mut other)]);
        other.run("BEGIN").expect("begun");
        found.push(ask(&mut other));
        other.run("COMMIT").expect("ended");
        one.run("BEGIN IMMEDIATE; INSERT INTO t VALUES (3); ROLLBACK").expect("rolled back");
        found.extend([ask(&mut one), ask(&mut other)]);
        found
    };
    assert_eq!(versions("silica"), versions("sqlite"));
}

#[test]
fn a_database_with_a_page_limit_is_full_and_takes_deletes() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = table(&scratch.path().join("app.db"));
    sql.query("PRAGMA max_page_count = 1", &[]).expect("set");
    let limit = sql.query("PRAGMA max_page_count = 100", &[]).expect("set");
    let large = "x".repeat(64 << 10);
    let mut wrote = 0;
    let error = loop {
        match sql.execute("INSERT INTO t VALUES (?, ?)", &[wrote.into(), large.as_str().into()]) {
            Ok(_) => wrote += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(limit, [[Value::from(100)]]);
    assert!(error.to_string().contains("database or disk is full"), "{error}");
    assert!((1..7).contains(&wrote), "{wrote} rows of 16 pages");
    sql.execute("DELETE FROM t WHERE a = 0", &[]).expect("deletes make room");
    sql.query("PRAGMA max_page_count = 100000", &[]).expect("set");
    sql.execute("INSERT INTO t VALUES (0, ?)", &[large.into()]).expect("there is room");
}

#[test]
fn a_copy_calls_no_function_of_the_schema() {
    let scratch = tempfile::tempdir().expect("a directory");
    for storage in ["silica", "sqlite"] {
        let path = |name: &str| scratch.path().join(format!("{name}-{storage}.db"));
        let uri = format!("file:{}?storage={storage}", path("from").display());
        let with_function = |uri: &str| {
            let mut sql = Sql::open(uri).expect("opens");
            let twice = |values: &[ValueRef<'_>]| match values {
                [ValueRef::Integer(number)] => Ok(Value::Integer(2 * number)),
                _ => Err("a number is wanted".to_string()),
            };
            sql.define_deterministic("twice", Some(1), twice).expect("defined");
            sql
        };
        let text = "CREATE TABLE t (a INTEGER PRIMARY KEY, b); CREATE INDEX i ON t (twice(b));
            CREATE TABLE w (a PRIMARY KEY, b, c AS (twice(b)) STORED, CHECK (twice(b) > 0))
              WITHOUT ROWID;
            CREATE INDEX j ON w (c, twice(a)) WHERE twice(b) > 2;
            INSERT INTO t VALUES (1, 5), (2, 6); INSERT INTO w VALUES (1, 5), (2, 6);
            PRAGMA user_version = 9";
        with_function(&uri).run(text).expect("made");
        let from = Sql::open(&uri).expect("opens");
        let mut copies = vec![];
        for to in ["silica", "sqlite"] {
            let to = format!("file:{}?storage={to}", path(&format!("copy-{to}")).display());
            from.copy_into(&mut Sql::open(&to).expect("opens")).expect("copied");
            copies.push(to);
        }
        drop(from);
        if storage == "silica" {
            let mut from = Sql::open(&uri).expect("opens");
            let into = path("into").display().to_string();
            from.execute("VACUUM INTO ?", &[into.as_str().into()]).expect("copied");
            let again = from.execute("VACUUM INTO ?", &[into.as_str().into()]).unwrap_err();
            assert!(again.to_string().contains("output file already exists"), "{again}");
            let head = std::fs::read(&into).expect("a file");
            assert!(head.starts_with(b"SQLite format 3"));
            copies.push(into);
        }
        for copy in copies {
            let mut sql = with_function(&copy);
            let mut ask = |text: &str| sql.query(text, &[]).expect("answered");
            assert_eq!(ask("PRAGMA integrity_check"), [["ok".into()]], "{copy}");
            assert_eq!(ask("SELECT a FROM t INDEXED BY i WHERE twice(b) = 12"), [[2.into()]]);
            assert_eq!(ask("SELECT a FROM w WHERE c = 10"), [[1.into()]]);
            assert_eq!(ask("PRAGMA user_version"), [[9.into()]]);
        }
    }
}
