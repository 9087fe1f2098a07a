//! Random statements on our storage and on SQLite's own, in one build: they have to come to the
//! same rows in the same order, the same errors and counts of changes.

use silica_base::{Prng, test_size};
use silica_sql::sql::{Sql, SqlError, Value};
use std::path::Path;

/// Texts, numbers and bytes that sort next to one another, or look alike.
const VALUES: &[&str] = &[
    "NULL",
    "0",
    "-0.0",
    "1",
    "1.0",
    "-1",
    "1.5",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992.0",
    // Behind the largest rowid SQLite takes random ones, which differ.
    "9223372036854775806",
    "-9223372036854775808",
    "9.2233720368547758e18",
    "-9.2233720368547758e18",
    "1e300",
    "-1e-300",
    "9e999",
    "-9e999",
    "''",
    "'a'",
    "'A'",
    "'a '",
    "'a  '",
    "'ab'",
    "'aB'",
    "'b'",
    "'1'",
    "'é'",
    "x''",
    "x'00'",
    "x'0000'",
    "x'00ff'",
    "x'61'",
    "x'ff'",
    "x'ffff'",
    "char(0)",
    "'a' || char(0) || 'b'",
    "zeroblob(3)",
];

const TABLES: &[&str] = &[
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b, c TEXT, d REAL)",
    "CREATE TABLE u (a TEXT COLLATE NOCASE, b, c INT, d, PRIMARY KEY (a, b DESC)) WITHOUT ROWID",
    "CREATE TABLE v (a, b TEXT COLLATE RTRIM UNIQUE, c, d NOT NULL DEFAULT 7)",
    "CREATE TABLE w (a INTEGER PRIMARY KEY AUTOINCREMENT, b REFERENCES t(a), c, d AS (b || c))",
];

const INDEXES: &[&str] = &[
    "CREATE INDEX i1 ON t (b)",
    "CREATE INDEX i2 ON t (c COLLATE NOCASE DESC, d)",
    "CREATE UNIQUE INDEX i3 ON t (b, c) WHERE d > 0",
    "CREATE INDEX i4 ON u (c, d)",
    "CREATE INDEX i5 ON v (abs(c), a)",
    "CREATE INDEX i6 ON w (d)",
    "CREATE UNIQUE INDEX i7 ON u (d DESC)",
    "DROP INDEX IF EXISTS i1",
    "DROP INDEX IF EXISTS i3",
    "DROP INDEX IF EXISTS i4",
    "REINDEX",
    "ANALYZE",
];

struct Random(Prng);

impl Random {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.below(of.len() as u64) as usize]
    }

    fn value(&mut self) -> String {
        match self.0.below(4) {
            0 => self.0.below(50).to_string(),
            1 => format!("'k{}'", self.0.below(50)),
            _ => self.one(VALUES).to_string(),
        }
    }

    fn table(&mut self) -> &'static str {
        self.one(&["t", "u", "v", "w"])
    }

    fn column(&mut self) -> &'static str {
        self.one(&["a", "b", "c", "d"])
    }

    fn condition(&mut self) -> String {
        let (column, value) = (self.column(), self.value());
        match self.0.below(8) {
            0 => format!("{column} IS {value}"),
            1 => format!("{column} BETWEEN {value} AND {}", self.value()),
            2 => format!("{column} IN ({value}, {}, {})", self.value(), self.value()),
            3 => format!("{column} LIKE 'a%'"),
            4 => format!("{column} = {value} OR {} > {}", self.column(), self.value()),
            _ => format!("{column} {} {value}", self.one(&["=", "<", "<=", ">", ">=", "<>"])),
        }
    }

    fn select(&mut self) -> String {
        let (table, condition) = (self.table(), self.condition());
        match self.0.below(7) {
            0 => format!("SELECT count(*), min(b), max(c), total(d) FROM {table}"),
            1 => format!("SELECT b, count(*) FROM {table} WHERE {condition} GROUP BY b"),
            2 => {
                let (column, way) = (self.column(), self.one(&["ASC", "DESC"]));
                format!("SELECT {column} FROM {table} ORDER BY {column} {way} LIMIT 9")
            }
            3 => format!(
                "SELECT x.a, y.b FROM t AS x JOIN {table} AS y ON x.b = y.{} ORDER BY 1, 2 LIMIT 9",
                self.column()
            ),
            4 => format!("SELECT DISTINCT {} FROM {table} WHERE {condition}", self.column()),
            _ => format!("SELECT * FROM {table} WHERE {condition}"),
        }
    }

    fn statement(&mut self) -> String {
        let table = self.table();
        match self.0.below(20) {
            0..=6 => {
                let or = self.one(&["", "", " OR IGNORE", " OR REPLACE", " OR ROLLBACK"]);
                let returning = self.one(&["", "", " RETURNING *"]);
                let rows = 1 + self.0.below(3);
                let values: Vec<String> = (0..rows)
                    .map(|_| format!("({}, {}, {})", self.value(), self.value(), self.value()))
                    .collect();
                format!("INSERT{or} INTO {table} (a, b, c) VALUES {}{returning}", values.join(", "))
            }
            7..=9 => {
                let (column, value) = (self.column(), self.value());
                let or = self.one(&["", " OR IGNORE", " OR REPLACE"]);
                format!("UPDATE{or} {table} SET {column} = {value} WHERE {}", self.condition())
            }
            10 => format!("DELETE FROM {table} WHERE {}", self.condition()),
            11 if self.0.below(10) == 0 => format!("DELETE FROM {table}"),
            11 => format!("INSERT INTO {table} (a, b, c) SELECT a, c, b FROM {}", self.table()),
            12 => self.one(INDEXES).to_string(),
            13 => self.one(&["BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"]).to_string(),
            14 => {
                let name = self.one(&["s1", "s2"]);
                let what = self.one(&["SAVEPOINT", "ROLLBACK TO", "RELEASE"]);
                format!("{what} {name}")
            }
            15 if self.0.below(8) == 0 => "ALTER TABLE v ADD COLUMN e DEFAULT 5".to_string(),
            _ => self.select(),
        }
    }
}

/// What a statement came to: its rows or its error, and what it changed.
fn outcome(sql: &mut Sql, statement: &str) -> (Result<Vec<Vec<Value>>, SqlError>, i64, bool) {
    let rows = sql.query(statement, &[]);
    (rows, sql.changes(), sql.is_in_transaction())
}

/// Reals are compared by their bits, so that one that is no number equals itself.
fn shown(outcome: &(Result<Vec<Vec<Value>>, SqlError>, i64, bool)) -> String {
    format!("{outcome:?}")
}

fn open(directory: &Path, storage: &str, options: &str) -> Sql {
    let path = directory.join(format!("{storage}.db"));
    let uri = format!("file:{}?storage={storage}{options}", path.display());
    let mut sql = Sql::open(uri).expect("opens");
    sql.run("PRAGMA synchronous = OFF").expect("a pragma");
    sql
}

fn compare(seed: u64, statements: u64) {
    let scratch = tempfile::tempdir().expect("a directory");
    // Some transactions spill at every other write.
    let options = if seed.is_multiple_of(2) { "&transaction_bytes=400" } else { "" };
    let open = |name: &str| open(scratch.path(), name, options);
    let [mut ours, mut theirs] = ["silica", "sqlite"].map(open);
    for statement in TABLES {
        assert_eq!(outcome(&mut ours, statement).0, outcome(&mut theirs, statement).0);
    }
    let mut random = Random(Prng::new(seed));
    let mut log = Vec::new();
    for n in 0..statements {
        // Statements and results that are kept are met again.
        let again: Option<&String> = match random.0.below(3) {
            0 => log.iter().rev().take(20).find(|old: &&String| old.starts_with("SELECT")),
            _ => None,
        };
        let statement = again.cloned().unwrap_or_else(|| random.statement());
        let [one, other] = [&mut ours, &mut theirs].map(|sql| shown(&outcome(sql, &statement)));
        log.push(statement);
        assert!(
            one == other,
            "seed {seed}, statement {n}:\n{}\nours: {one}\nSQLite's: {other}",
            log[log.len().saturating_sub(12)..].join(";\n")
        );
        if n % 500 == 499 {
            // What is open is taken back, and both are opened anew.
            for sql in [&mut ours, &mut theirs] {
                if sql.is_in_transaction() {
                    sql.run("ROLLBACK").expect("taken back");
                }
                let check = sql.query("PRAGMA integrity_check", &[]).expect("checked");
                assert_eq!(check, [[Value::from("ok")]], "seed {seed}, statement {n}");
            }
            drop((ours, theirs));
            [ours, theirs] = ["silica", "sqlite"].map(open);
        }
    }
}

#[test]
fn random_statements_come_to_the_same() {
    for seed in 1..=test_size(2, 6, 400) {
        compare(seed, test_size(1_000, 2_500, 20_000));
    }
}
