//! Statements and results that are kept: programs see nothing of it.

use silica_base::{Prng, test_size};
use silica_sql::sql::{Sql, SqlError, Value};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

fn open(directory: &Path, options: &str) -> Sql {
    let uri = format!("file:{}?{options}", directory.join("app.db").display());
    let mut sql = Sql::open(uri).expect("opens");
    sql.run("PRAGMA synchronous = OFF").expect("a pragma");
    sql
}

fn filled(directory: &Path) -> Sql {
    let mut sql = open(directory, "");
    sql.run("CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, b BLOB)").expect("made");
    for n in 0..50 {
        let text = format!("INSERT INTO t VALUES ('k{n}', {n}, x'{n:04x}')");
        sql.run(&text).expect("filled");
    }
    sql
}

fn one(sql: &mut Sql, text: &str) -> Value {
    let mut rows = sql.query(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(rows.len(), 1, "{text}");
    rows.remove(0).remove(0)
}

#[test]
fn texts_that_differ_in_literals_are_compiled_once() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = filled(scratch.path());
    let before = sql.counts();
    assert!(before.taken >= 49, "{before:?}");
    for n in 0..50 {
        let found = one(&mut sql, &format!("SELECT n FROM t WHERE k = 'k{n}'"));
        assert_eq!(found, Value::Integer(n));
        sql.run(&format!("UPDATE t SET n = {} WHERE k='k{n}' AND n = {n};", -n)).expect("updated");
        assert_eq!(sql.changes(), 1);
    }
    let after = sql.counts();
    assert_eq!((after.compiled - before.compiled, after.taken - before.taken), (2, 98));
    assert_eq!(one(&mut sql, "SELECT sum(n) FROM t"), Value::Integer(-1225));
}

/// Texts between which a careless reader would see no difference, or one where there is none.
const TEXTS: &[&str] = &[
    "SELECT n, typeof(n) FROM t WHERE k = 'k1'",
    "SELECT n, typeof(n) FROM t WHERE k = 'k2'",
    "SELECT n, typeof(n) FROM t WHERE k = 7",
    "SELECT n FROM t WHERE k = -7 OR n = -7",
    "SELECT n FROM t WHERE n = - 7",
    "SELECT n FROM t WHERE n = 1.0",
    "SELECT n FROM t WHERE n = 1e0 AND k = 'k1'",
    "SELECT n FROM t WHERE n = '1'",
    "SELECT n FROM t WHERE n = x'31'",
    "SELECT n FROM t WHERE b = x'0001'",
    "SELECT n FROM t WHERE b = X'0A0b'",
    "SELECT n FROM t WHERE b = ''",
    "SELECT n FROM t WHERE k = 'k1' COLLATE NOCASE",
    "SELECT n FROM t WHERE k = 'K1' COLLATE NOCASE",
    "SELECT n FROM t WHERE k = 'it''s'",
    "SELECT n FROM t WHERE k = \"k1\"",
    "SELECT n, 'k1', 5 FROM t WHERE k = 'k1'",
    "SELECT n, 'k2', 6 FROM t WHERE k = 'k1'",
    "SELECT n = 5 FROM t WHERE n = 5",
    "SELECT n = 6 FROM t WHERE n = 6",
    "SELECT n FROM t WHERE n < 5 ORDER BY n = 3, n LIMIT 2",
    "SELECT n FROM t WHERE n < 5 ORDER BY n = 2, n LIMIT 3",
    "SELECT n FROM t WHERE n = 5 + 1",
    "SELECT n FROM t WHERE n = (5)",
    "SELECT n FROM t WHERE (n = 5)",
    "SELECT n FROM t WHERE n >= 48 AND n <> 49",
    "SELECT n FROM t WHERE n != 5 AND n == 6",
    "SELECT n FROM t WHERE n = 9223372036854775807",
    "SELECT n FROM t WHERE n = 9223372036854775808",
    "SELECT n FROM t WHERE n = 0x10",
    "SELECT n FROM t WHERE n = 1_0",
    "SELECT n FROM t WHERE n = .5",
    "SELECT n FROM t WHERE n = 5.",
    "SELECT count(*) FROM t WHERE n > 9e999",
    "SELECT n FROM t WHERE n IN (1, 2) AND n = 2",
    "SELECT n FROM t WHERE n BETWEEN 3 AND 4 AND n = 4",
    "SELECT n FROM t WHERE n = 1 UNION SELECT n FROM t WHERE n = 2",
    "SELECT b->>'$' FROM t WHERE n = 1 AND k -> 'x' = 'y'",
    "SELECT n FROM t WHERE n = 1; SELECT n FROM t WHERE n = 2",
    "  SELECT n FROM t WHERE n = 1 ;  ",
    "SELECT n FROM t WHERE n = 1 -- the first",
    "SELECT n /* in between */ FROM t WHERE n = 1",
    "SELECT n FROM t WHERE n = 1 AND",
    "SELECT n FROM t WHERE n = 1)",
    "SELECT n FROM missing WHERE n = 1",
    "SELECT missing FROM t WHERE n = 1",
    "SELECT n FROM t WHERE n = 'open",
    "INSERT INTO t VALUES ('k1', 1, x'00')",
    "INSERT INTO t VALUES ('new', 1, x'00'), ('newer', -2, 'text')",
    "INSERT INTO t VALUES ('new', 1)",
    "INSERT INTO t VALUES (max('a', 'b'), 1 + 1, NULL) RETURNING k, n = 2",
    "INSERT INTO t VALUES (max('a', 'b'), 1 + 1, NULL) ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES ('k1', 5, 6) ON CONFLICT (k) DO UPDATE SET n = 70 WHERE n = 1",
    "INSERT OR REPLACE INTO t (n, k) VALUES (7, 'k7')",
    "REPLACE INTO t VALUES ('k8', 8.5, 'x')",
    "UPDATE t SET n = 5, b = x'00' WHERE k = 'k5' RETURNING n = 5, b",
    "UPDATE t SET n = n + 5 WHERE k = 'k6'",
    "UPDATE t SET (n, b) = (1, 2) WHERE k = 'k6'",
    "DELETE FROM t WHERE k = 'k9' RETURNING *",
    "DELETE FROM t WHERE n >= 49",
    "SELECT * FROM t ORDER BY k",
];

/// What a program can see of a text: names of columns, parameters, what was left of it, rows,
/// changes, or the error.
fn seen(sql: &mut Sql, text: &str) -> String {
    let (mut rest, mut said) = (text, String::new());
    loop {
        let outcome = sql.prepare_first(rest).and_then(|(statement, used)| {
            let Some(mut statement) = statement else { return Ok(None) };
            let mut rows = Vec::new();
            while statement.step()? {
                rows.push(statement.row());
            }
            let (columns, count) = (statement.columns(), statement.parameters());
            Ok(Some((format!("{columns:?} {count} {used} {rows:?}"), used)))
        });
        match outcome {
            Ok(Some((outcome, used))) => {
                said += &format!("{outcome} {}\n", sql.changes());
                rest = &rest[used..];
            }
            Ok(None) => return said,
            Err(error) => return format!("{said}{error:?}"),
        }
    }
}

#[test]
fn programs_see_what_they_see_of_sqlite() {
    let directories = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    drop(filled(directories[0].path()));
    drop(filled(directories[1].path()));
    let mut kept = open(directories[0].path(), "results_bytes=1MiB");
    let mut plain = open(directories[1].path(), "keep_statements=0&results_bytes=0");
    let mut stock = open(directories[2].path(), "storage=sqlite");
    let script = "CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, b BLOB);
        ATTACH 'FILE' AS other; INSERT INTO t SELECT * FROM other.t; DETACH other";
    let other = directories[1].path().join("app.db").display().to_string();
    stock.run(&script.replace("FILE", &other)).expect("filled");
    for sql in [&mut kept, &mut plain, &mut stock] {
        // What each has changed last.
        sql.run("UPDATE t SET n = n").expect("updated");
    }
    let mut random = Prng::new(7);
    for n in 0..test_size(600, 2_000, 50_000) {
        let text = TEXTS[random.below(TEXTS.len() as u64) as usize];
        let expected = seen(&mut stock, text);
        assert_eq!(seen(&mut kept, text), expected, "kept, {n}: {text}");
        assert_eq!(seen(&mut plain, text), expected, "plain, {n}: {text}");
    }
    assert!(kept.counts().taken > 100 && kept.counts().served > 10, "{:?}", kept.counts());
    assert_eq!(plain.counts(), Default::default());
}

#[test]
fn a_changed_schema_is_seen() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = filled(scratch.path());
    let mut other = open(scratch.path(), "");
    let text = "SELECT * FROM t WHERE k = 'k3'";
    let row = |sql: &mut Sql| sql.query(text, &[]).map(|rows| rows[0].len());
    assert_eq!([row(&mut sql), row(&mut other)], [Ok(3), Ok(3)]);
    other.run("ALTER TABLE t ADD COLUMN more DEFAULT 9").expect("altered");
    assert_eq!([row(&mut sql), row(&mut other)], [Ok(4), Ok(4)]);
    other.run("ALTER TABLE t RENAME COLUMN more TO less").expect("altered");
    let mut statement = sql.prepare(text).expect("prepared");
    assert!(statement.step().expect("a row"));
    assert_eq!(statement.columns()[3], "less");
    drop(statement);
    sql.run("CREATE TEMP TABLE t (k, only)").expect("made");
    assert_eq!(sql.query(text, &[]).expect("of the temporary table"), Vec::<Vec<Value>>::new());
    assert_eq!(row(&mut other), Ok(4));
    sql.run("DROP TABLE temp.t").expect("dropped");
    assert_eq!(row(&mut sql), Ok(4));
    other.run("DROP TABLE t").expect("dropped");
    for sql in [&mut sql, &mut other] {
        let error = sql.query(text, &[]).expect_err("it is gone");
        assert!(error.message.contains("no such table"), "{error}");
    }
}

#[test]
fn hidden_parameters_are_none_of_the_programs() {
    let scratch = tempfile::tempdir().expect("a directory");
    let sql = filled(scratch.path());
    for _ in 0..2 {
        let mut statement = sql.prepare("SELECT n FROM t WHERE k = 'k4'").expect("prepared");
        assert_eq!(statement.parameters(), 0);
        let error = statement.bind_one(1, Value::from("k5").as_ref()).expect_err("there is none");
        assert_eq!(error.code, 25);
        statement.clear();
        assert!(statement.step().expect("a row"));
        assert_eq!(statement.row(), [Value::Integer(4)]);
        // Left amid its rows, and prepared again while it is there.
        let mut second = sql.prepare("SELECT n FROM t WHERE k = 'k6'").expect("prepared");
        assert!(second.step().expect("a row"));
        assert_eq!((second.row(), statement.row()), (vec![6.into()], vec![4.into()]));
    }
}

#[test]
fn literals_and_parameters_of_one_text_are_not_mixed_up() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = filled(scratch.path());
    let (own, text) = ("SELECT n FROM t WHERE k = ?", "SELECT n FROM t WHERE k = 'k2'");
    for _ in 0..3 {
        assert_eq!(sql.query(own, &["k1".into()]).expect("found"), [[Value::Integer(1)]]);
        assert_eq!(one(&mut sql, text), Value::Integer(2));
        assert_eq!(sql.prepare(own).expect("prepared").parameters(), 1);
        assert_eq!(sql.prepare(text).expect("prepared").parameters(), 0);
    }
    assert_eq!(sql.query(own, &[]).expect("none"), Vec::<Vec<Value>>::new());
}

#[test]
fn parameters_of_a_kept_statement_are_empty() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = filled(scratch.path());
    let text = "SELECT n, ? FROM t WHERE k = ?";
    let found = sql.query(text, &["x".into(), "k1".into()]).expect("found");
    assert_eq!(found, [[Value::Integer(1), "x".into()]]);
    assert_eq!(sql.query(text, &[]).expect("none"), Vec::<Vec<Value>>::new());
    let before = sql.counts().taken;
    let found = sql.query(text, &[Value::Null, "k2".into()]).expect("found");
    assert_eq!(found, [[Value::Integer(2), Value::Null]]);
    assert_eq!(sql.counts().taken, before + 1);
}

#[test]
fn a_partial_index_is_used_for_its_literal() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = filled(scratch.path());
    sql.run("CREATE INDEX i ON t (b) WHERE n = 5").expect("made");
    for _ in 0..3 {
        // Only with the index it finds nothing: the row is there without one.
        let text = "SELECT count(*) FROM t INDEXED BY i WHERE n = 5 AND b = x'0005'";
        assert_eq!(one(&mut sql, text), Value::Integer(1));
        let error = sql.query(&text.replace("n = 5", "n = 6"), &[]).expect_err("no use");
        assert!(error.message.contains("no query solution"), "{error}");
    }
}

#[test]
fn a_failed_statement_is_as_good_as_new() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = filled(scratch.path());
    for n in 0..10 {
        let insert = |key: &str| format!("INSERT INTO t VALUES ('{key}', {n}, NULL)");
        let error = sql.run(&insert("k1")).expect_err("it is there");
        assert_eq!(error.code, 1555, "{error}");
        sql.run(&insert(&format!("new{n}"))).expect("inserted");
    }
    assert_eq!(one(&mut sql, "SELECT count(*) FROM t"), Value::Integer(60));
}

/// What is read anew, once in eight times by a walk through the table.
fn read(sql: &mut Sql, random: &mut Prng) -> Result<(usize, i64), SqlError> {
    let (at, text) = match random.below(8) {
        0 => (8, "SELECT total FROM sums WHERE id = 1".to_string()),
        1 => (8, "SELECT sum(v) FROM c".to_string()),
        2 => (8, "SELECT sum(v) FROM c WHERE k >= 'c0'".to_string()),
        n => (n as usize, format!("SELECT v FROM c WHERE k = 'c{n}'")),
    };
    match sql.query(&text, &[])?[0][0] {
        Value::Integer(value) => Ok((at, value)),
        ref other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn no_result_is_older_than_what_was_committed() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = open(scratch.path(), "results_bytes=1MiB");
    sql.run(
        "CREATE TABLE c (k TEXT PRIMARY KEY, v INT); CREATE TABLE sums (id INTEGER PRIMARY KEY, \
         total); INSERT INTO sums VALUES (1, 0)",
    )
    .expect("made");
    for n in 0..8 {
        sql.run(&format!("INSERT INTO c VALUES ('c{n}', 0)")).expect("filled");
    }
    // What each counter, and their sum, was at least when somebody last looked.
    let committed: [AtomicI64; 9] = Default::default();
    let (is_over, served) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let mut sql = open(scratch.path(), "results_bytes=1MiB");
            let (committed, is_over, served) = (&committed, &is_over, &served);
            scope.spawn(move || {
                let mut random = Prng::new(100 + reader);
                while !is_over.load(Ordering::SeqCst) {
                    let least: Vec<i64> =
                        committed.iter().map(|value| value.load(Ordering::SeqCst)).collect();
                    let (at, value) = read(&mut sql, &mut random).expect("read");
                    assert!(value >= least[at], "{at}: {value} after {}", least[at]);
                    committed[at].fetch_max(value, Ordering::SeqCst);
                }
                served.fetch_add(sql.counts().served as i64, Ordering::SeqCst);
            });
        }
        let mut random = Prng::new(5);
        for round in 0..test_size(500, 3_000, 100_000) as i64 {
            let at = 3 + random.below(5);
            sql.transaction(|sql| {
                sql.run(&format!("UPDATE c SET v = v + 1 WHERE k = 'c{at}'"))?;
                sql.run("UPDATE sums SET total = total + 1 WHERE id = 1")
            })
            .expect("written");
            committed[8].fetch_max(round + 1, Ordering::SeqCst);
            if round % 3 == 0 {
                let least = committed.each_ref().map(|value| value.load(Ordering::SeqCst));
                let (at, value) = read(&mut sql, &mut random).expect("read");
                assert!(value >= least[at], "{at}: {value} after {}", least[at]);
            }
            if round % 16 == 0 {
                std::thread::yield_now();
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(served.load(Ordering::SeqCst) > 0, "results were served");
}
