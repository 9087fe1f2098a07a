//! Statements that come back to the same places of a tree, forwards and backwards, on our storage
//! and on SQLite's own: the answers are the same.

use silica_base::{Prng, test_size};
use silica_sql::sql::{Sql, Value};
use std::path::Path;

const SCHEMA: &str = "
CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b TEXT, c BLOB);
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (b COLLATE NOCASE DESC, a);
CREATE TABLE w (x INT, y TEXT, z INT, PRIMARY KEY (x, y)) WITHOUT ROWID;
CREATE TABLE small (n INTEGER PRIMARY KEY, word TEXT);
CREATE TABLE probe (p INTEGER PRIMARY KEY, q INT, r TEXT);
CREATE TABLE empty (e INTEGER PRIMARY KEY);
CREATE TABLE log (l INTEGER PRIMARY KEY, m INT);
";

/// Statements with an inner part that is searched for each row of the outer one: by rowid, by parts
/// and the whole of a key, from both ends, with ranges, and in vain.
const QUERIES: &[&str] = &[
    "SELECT p, t.a, length(c) FROM probe CROSS JOIN t ON t.id = q ORDER BY p",
    "SELECT p, t.id FROM probe CROSS JOIN t ON t.a = q ORDER BY p, t.id",
    "SELECT p, t.id, t.a FROM probe CROSS JOIN t INDEXED BY t_b ON t.b = r COLLATE NOCASE
     ORDER BY p, t.id",
    "SELECT p, y, z FROM probe CROSS JOIN w ON x = q % 40 ORDER BY p, y",
    "SELECT p, z FROM probe CROSS JOIN w ON x = q % 40 AND y = r ORDER BY p",
    "SELECT p, word FROM probe LEFT JOIN small ON n = q % 9 ORDER BY p",
    "SELECT p, count(small.n), (SELECT count(*) FROM empty) FROM probe JOIN small ON n > q % 7
     GROUP BY p ORDER BY p",
    "SELECT p, (SELECT max(id) FROM t WHERE id < q), (SELECT min(id) FROM t WHERE id > q)
     FROM probe ORDER BY p",
    "SELECT p, (SELECT max(a) FROM t WHERE a <= q), (SELECT min(a) FROM t WHERE a >= q)
     FROM probe ORDER BY p",
    "SELECT p, (SELECT group_concat(id) FROM (SELECT id FROM t WHERE id BETWEEN q AND q + 40))
     FROM probe ORDER BY p",
    "SELECT p, (SELECT group_concat(id) FROM (SELECT id FROM t WHERE id <= q ORDER BY id DESC
     LIMIT 20)) FROM probe ORDER BY p",
    "SELECT p, (SELECT group_concat(a) FROM (SELECT a FROM t WHERE a > q ORDER BY a LIMIT 30))
     FROM probe ORDER BY p",
    "SELECT p FROM probe WHERE EXISTS (SELECT * FROM t WHERE a = q AND c IS NOT NULL) ORDER BY p",
    "SELECT p FROM probe WHERE NOT EXISTS (SELECT * FROM w WHERE x = q % 40 AND z > p) ORDER BY p",
    "SELECT count(*), sum(t.a) FROM probe, t WHERE t.id IN (q, q + 1, q + 2, p)",
    "SELECT id, a, b FROM t ORDER BY id DESC",
    "SELECT a, id FROM t INDEXED BY t_a ORDER BY a DESC, id DESC",
    "SELECT b, a FROM t ORDER BY b COLLATE NOCASE DESC, a",
    "SELECT x, y FROM w ORDER BY x DESC, y DESC",
];

fn open(directory: &Path, storage: &str) -> Sql {
    let path = directory.join(format!("{storage}.db"));
    let uri = format!("file:{}?storage={storage}&memory_bytes=1048576", path.display());
    let mut sql = Sql::open(uri).expect("opens");
    sql.run("PRAGMA synchronous = OFF").expect("a pragma");
    sql.run(SCHEMA).expect("tables");
    sql
}

/// Some text, mostly short, sometimes longer than a page or than a key may be.
fn text(prng: &mut Prng) -> String {
    let word = ["alpha", "Beta", "BETA", "gamma", "delta"][prng.below(5) as usize];
    match prng.below(60) {
        0 => word.repeat(4_000),
        1 => word.repeat(1_500),
        2..20 => word.into(),
        _ => format!("{word}{}", prng.below(300)),
    }
}

/// The next write, for both storages.
fn write(prng: &mut Prng, rows: u64) -> (&'static str, Vec<Value>) {
    let mut number = |below: u64| Value::from(prng.below(below) as i64);
    let [id, a, x, kind] = [rows, rows / 2, 40, 3].map(&mut number);
    let word = Value::from(text(prng).as_str());
    let blob = match prng.below(50) {
        0 => Value::Blob(vec![7; 20_000]),
        1..10 => Value::Null,
        _ => Value::Blob(vec![1; prng.below(200) as usize]),
    };
    match prng.below(10) {
        0 => ("DELETE FROM t WHERE id BETWEEN ?1 AND ?1 + ?2", vec![id, kind]),
        1 => ("UPDATE t SET a = ?2, b = ?3 WHERE id = ?1", vec![id, a, word]),
        2 => ("DELETE FROM w WHERE x = ?1 AND z % 3 = ?2", vec![x, kind]),
        3..6 => ("INSERT OR REPLACE INTO w VALUES (?1, ?2, ?3)", vec![x, word, a]),
        _ => ("INSERT OR REPLACE INTO t VALUES (?1, ?2, ?3, ?4)", vec![id, a, word, blob]),
    }
}

fn fill(prng: &mut Prng, both: &mut [Sql; 2], writes: u64, rows: u64) {
    both.iter_mut().for_each(|sql| sql.run("BEGIN").expect("begun"));
    for _ in 0..writes {
        let (statement, values) = write(prng, rows);
        both.iter_mut().for_each(|sql| _ = sql.execute(statement, &values).expect("written"));
    }
    both.iter_mut().for_each(|sql| sql.run("COMMIT").expect("committed"));
}

#[test]
fn searches_that_come_back_find_what_sqlite_finds() {
    for seed in 0..test_size(2, 3, 60) {
        let mut prng = Prng::new(seed);
        let scratch = tempfile::tempdir().expect("a directory");
        let mut both = ["silica", "sqlite"].map(|storage| open(scratch.path(), storage));
        let rows = 400 + prng.below(1_200);
        for n in 0..7_i64 {
            let row = [Value::from(n), Value::from(format!("word {n}").as_str())];
            let insert = "INSERT INTO small VALUES (?1, ?2)";
            both.iter_mut().for_each(|sql| _ = sql.execute(insert, &row).expect("written"));
        }
        for _ in 0..500 {
            let word = text(&mut prng);
            let row = [Value::from(prng.below(rows) as i64), Value::from(word.as_str())];
            let insert = "INSERT INTO probe VALUES (NULL, ?1, ?2)";
            both.iter_mut().for_each(|sql| _ = sql.execute(insert, &row).expect("written"));
        }
        for round in 0..4 {
            fill(&mut prng, &mut both, rows, rows);
            if round == 2 {
                both.iter_mut().for_each(|sql| sql.run("VACUUM").expect("compacted"));
            }
            let is_one = prng.one_in(2);
            both.iter_mut().for_each(|sql| sql.run(if is_one { "BEGIN" } else { "" }).expect("?"));
            for query in QUERIES {
                let [ours, theirs] = [0, 1].map(|at| both[at].query(query, &[]).expect("a query"));
                assert!(ours == theirs, "seed {seed}, round {round}: {query}");
            }
            both.iter_mut().for_each(|sql| sql.run(if is_one { "END" } else { "" }).expect("?"));
        }
    }
}

/// Rows of a join while the connection writes: to other tables, and to rows that were passed.
fn join_and_write(sql: &Sql, query: &str) -> Vec<(i64, i64)> {
    let mut select = sql.prepare(query).expect("prepared");
    let mut found = Vec::new();
    while select.step().expect("a step") {
        let number = |at| match select.value(at) {
            silica_sql::sql::ValueRef::Integer(value) => value,
            _ => -1,
        };
        found.push((number(0), number(1)));
        if found.len() % 50 == 30 {
            let (p, id) = found[found.len() - 1];
            let mut insert = sql.prepare("INSERT INTO log VALUES (NULL, ?1)").expect("prepared");
            insert.bind(&[Value::from(id)]).expect("bound");
            while insert.step().expect("inserted") {}
            let mut update = sql.prepare("UPDATE probe SET r = 'seen' WHERE p = ?1 - 1");
            let update = update.as_mut().expect("prepared");
            update.bind(&[Value::from(p)]).expect("bound");
            while update.step().expect("updated") {}
        }
    }
    found
}

#[test]
fn a_statement_that_reads_goes_on_when_its_connection_writes() {
    let mut prng = Prng::new(5);
    let scratch = tempfile::tempdir().expect("a directory");
    let mut both = ["silica", "sqlite"].map(|storage| open(scratch.path(), storage));
    fill(&mut prng, &mut both, 900, 500);
    for _ in 0..500 {
        let row = [Value::from(prng.below(500) as i64)];
        let insert = "INSERT INTO probe VALUES (NULL, ?1, 'not yet')";
        both.iter_mut().for_each(|sql| _ = sql.execute(insert, &row).expect("written"));
    }
    for query in [
        "SELECT p, t.id FROM probe CROSS JOIN t ON t.a = q",
        "SELECT p, t.a FROM probe CROSS JOIN t ON t.id = q",
        "SELECT p, z FROM probe CROSS JOIN w ON x = q % 40",
        "SELECT p, t.id FROM (SELECT p, q FROM probe ORDER BY p DESC) CROSS JOIN t ON t.id = q",
    ] {
        let [ours, theirs] = [0, 1].map(|at| join_and_write(&both[at], query));
        assert!(ours.len() > 100 && ours == theirs, "{query}");
        let written = "SELECT (SELECT count(*) FROM log), group_concat(r) FROM probe";
        let [ours, theirs] = [0, 1].map(|at| both[at].query(written, &[]).expect("a query"));
        assert!(ours == theirs, "{query}");
    }
}
