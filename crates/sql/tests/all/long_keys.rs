//! Keys of indexes that are longer than the engine's.

use silica_base::{Prng, test_size};
use silica_sql::sql::{Sql, SqlError, Value};
use std::path::Path;

fn open(directory: &Path, storage: &str, options: &str) -> Sql {
    let path = directory.join(format!("{storage}.db"));
    Sql::open(format!("file:{}?storage={storage}{options}", path.display())).expect("opens")
}

/// A long text of one of a few beginnings, some of which are longer than what a stored key has, and
/// one of a few ends.
fn text(prng: &mut Prng) -> String {
    let letter = ["a", "b", "B"][prng.below(3) as usize];
    let repeats = [10, 16_370, 16_374, 16_375, 16_376, 16_377, 16_380, 20_000, 70_000];
    let repeats = repeats[prng.below(repeats.len() as u64) as usize];
    let ends = ["", "0", "1", "a", "A", "ab", " ", "zz"];
    format!("{}{}", letter.repeat(repeats), ends[prng.below(ends.len() as u64) as usize])
}

fn statement(prng: &mut Prng) -> (String, Vec<Value>) {
    let table = ["t", "u"][prng.below(2) as usize];
    let number = Value::Integer(prng.below(5) as i64);
    let [first, second] = [(); 2].map(|()| Value::Text(text(prng)));
    // Long texts are shown by what tells them apart.
    let shown = "n, length(b), substr(b, -3), substr(b, 1, 1)";
    let order = ["b, n", "b DESC, n", "n, b"][prng.below(3) as usize];
    match prng.below(12) {
        0..5 => {
            let or = ["", " OR REPLACE", " OR IGNORE"][prng.below(3) as usize];
            (format!("INSERT{or} INTO {table} (b, n) VALUES (?, ?)"), vec![first, number])
        }
        5 => (format!("DELETE FROM {table} WHERE b = ? AND n > ?"), vec![first, number]),
        6 => (format!("UPDATE OR IGNORE {table} SET b = ? WHERE b >= ?"), vec![first, second]),
        7 => (format!("SELECT {shown} FROM {table} WHERE b = ? ORDER BY n"), vec![first]),
        8 => {
            let text =
                format!("SELECT {shown} FROM {table} WHERE b BETWEEN ? AND ? ORDER BY {order}");
            (text, vec![first, second])
        }
        9 => (
            format!("SELECT {shown} FROM {table} WHERE b < ? ORDER BY {order} LIMIT 3"),
            vec![first],
        ),
        10 => {
            let what = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"];
            (what[prng.below(6) as usize].to_string(), Vec::new())
        }
        _ => (format!("SELECT {shown} FROM {table} ORDER BY {order}"), Vec::new()),
    }
}

fn outcome(sql: &mut Sql, (text, values): &(String, Vec<Value>)) -> Outcome {
    let rows = sql.query(text, values);
    (rows, sql.changes(), sql.is_in_transaction())
}

type Outcome = (Result<Vec<Vec<Value>>, SqlError>, i64, bool);

#[test]
fn long_keys_do_what_they_do_on_sqlites_storage() {
    for seed in 0..test_size(2, 4, 100) {
        let scratch = tempfile::tempdir().expect("a directory");
        let options = if seed % 2 == 1 { "&transaction_bytes=100KiB" } else { "" };
        let mut both = ["silica", "sqlite"].map(|name| open(scratch.path(), name, options));
        for sql in &mut both {
            sql.run(
                "PRAGMA synchronous = OFF;
                 CREATE TABLE t (n, b TEXT UNIQUE);
                 CREATE INDEX i ON t (b COLLATE NOCASE DESC, n);
                 CREATE TABLE u (b TEXT, n, PRIMARY KEY (b, n DESC)) WITHOUT ROWID",
            )
            .expect("made");
        }
        let mut prng = Prng::new(seed);
        for n in 0..test_size(400, 700, 5_000) {
            let statement = statement(&mut prng);
            let [ours, theirs] = both.each_mut().map(|sql| outcome(sql, &statement));
            assert!(
                ours == theirs,
                "seed {seed}, statement {n}: {}\nours: {ours:?}\nSQLite's: {theirs:?}",
                statement.0
            );
        }
        let ours = &mut both[0];
        if ours.is_in_transaction() {
            ours.run("COMMIT").expect("committed");
        }
        let check = ours.query("PRAGMA integrity_check", &[]).expect("checked");
        assert_eq!(check, [[Value::from("ok")]]);
    }
}

#[test]
fn keys_of_a_megabyte_are_unique_and_in_order() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut sql = open(scratch.path(), "silica", "");
    sql.run("CREATE TABLE t (a TEXT UNIQUE, b INTEGER)").expect("made");
    let key = |last: &str| Value::Text("k".repeat(1 << 20) + last);
    let insert = "INSERT INTO t VALUES (?, ?)";
    for (n, last) in ["c", "a", "d", "b"].iter().enumerate() {
        sql.query(insert, &[key(last), Value::Integer(n as i64)]).expect("inserted");
    }
    let error = sql.query(insert, &[key("a"), Value::Null]).expect_err("refused");
    assert_eq!(error.message, "UNIQUE constraint failed: t.a");
    let rows = |sql: &mut Sql, text: &str, values: &[Value]| -> Vec<String> {
        let rows = sql.query(text, values).expect("read");
        rows.into_iter().map(|row| format!("{:?}", row[0])).collect()
    };
    let all = rows(&mut sql, "SELECT substr(a, -1) FROM t ORDER BY a", &[]);
    assert_eq!(all.join(""), r#"Text("a")Text("b")Text("c")Text("d")"#);
    let behind = "SELECT substr(a, -1) FROM t WHERE a > ? ORDER BY a LIMIT 1";
    assert_eq!(rows(&mut sql, behind, &[key("b")]), [r#"Text("c")"#]);
    assert_eq!(rows(&mut sql, "SELECT b FROM t WHERE a = ?", &[key("d")]), ["Integer(2)"]);
    assert!(rows(&mut sql, "SELECT b FROM t WHERE a = ?", &[key("")]).is_empty());
    assert_eq!(rows(&mut sql, "PRAGMA integrity_check", &[]), [r#"Text("ok")"#]);
}
