//! The shell of `silica sql` as somebody meets it who knows SQLite's.

use crate::support::{arg, said, scratch, silica, silica_ok};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any answer takes; only a failure waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(database: &Path) -> Child {
    silica(&["sql", arg(database)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn script(database: &Path, lines: &str) -> Output {
    let mut child = start(database);
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("written");
    child.wait_with_output().expect("ends")
}

/// What a script that goes well shows.
fn shown(database: &Path, lines: &str) -> String {
    let output = script(database, lines);
    assert!(output.status.success(), "{lines}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn complaint(database: &Path, lines: &str) -> String {
    let output = script(database, lines);
    assert!(!output.status.success(), "{lines}: {}", said(&output));
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_dump_brings_everything_back() {
    let directory = scratch("sql-dump");
    let [app, again, sqlite] = ["app.db", "again.db", "s.db"].map(|name| directory.join(name));
    let made = "CREATE VIRTUAL TABLE f USING fts5(a);
        INSERT INTO f VALUES ('hello world');
        CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b, c AS (typeof(b)));
        INSERT INTO t (b) VALUES (1), (0.1), ('x' || char(0) || 'y'), (x'00ff'), ('o''k'), (9e999),
            ('a' || char(10) || 'b'), (NULL), (-0.1), (1e-300), (CAST(x'ff' AS TEXT));
        CREATE INDEX i ON t (b);
        CREATE TABLE sqliteish (a);
        CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID;
        INSERT INTO w VALUES ('a', 1);
        CREATE VIEW v AS SELECT * FROM t;
        CREATE TRIGGER r AFTER INSERT ON w BEGIN DELETE FROM t; END;
        ANALYZE;\n";
    shown(&app, made);
    let dumped = shown(&app, ".dump\n");
    let look =
        "SELECT a, typeof(b), hex(b) FROM t NOT INDEXED; SELECT f.a FROM f WHERE f MATCH 'hello';
        INSERT INTO f VALUES ('hello again'); SELECT count(*) FROM f WHERE f MATCH 'hello';
        SELECT name, seq FROM sqlite_sequence; SELECT count(*) FROM sqlite_stat1;
        SELECT count(*) FROM sqliteish; PRAGMA integrity_check;\n";
    let expected = shown(&app, look);
    assert!(
        expected.contains("hello world\n2\nt|11\n") && expected.ends_with("ok\n"),
        "{expected}"
    );
    shown(&again, &dumped);
    assert_eq!(shown(&again, look), expected);
    let path = arg(&sqlite);
    silica_ok(&["sql", path, "--storage", "sqlite", "-c", &dumped]);
    assert_eq!(silica_ok(&["sql", path, "-c", look]), expected);
}

#[test]
fn a_statement_is_answered_before_the_next_is_written() {
    let directory = scratch("sql-talk");
    let mut child = start(&directory.join("app.db"));
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("piped"));
    let (send, heard) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            send.send(line.expect("text")).expect("somebody listens");
        }
    });
    for question in ["SELECT 6 *\n 7;\n", "-- how many?\n.print 42\n"] {
        let stdin = stdin.as_mut().expect("open");
        stdin.write_all(question.as_bytes()).and_then(|()| stdin.flush()).expect("written");
        let answer = heard.recv_timeout(PATIENCE);
        assert_eq!(answer.as_deref(), Ok("42"), "{question}");
    }
    drop(stdin.take());
    assert!(child.wait().expect("ends").success());
    reader.join().expect("ends");
}

#[test]
fn commands_follow_comments() {
    let directory = scratch("sql-comments");
    let app = directory.join("app.db");
    let lines = "-- a comment\n.print one\n/* another;\n one */\n.print two\nSELECT 1; -- here\n\
                 .print three\n-- the end";
    assert_eq!(shown(&app, lines), "one\ntwo\n1\nthree\n");
}

#[test]
fn json_has_the_columns_as_they_are() {
    let select = "SELECT 2 AS b, 1 AS a, 3 AS b, x'00ff' AS c, NULL AS d";
    let rows = silica_ok(&["sql", ":memory:", "--mode", "json", "-c", select]);
    assert_eq!(rows, "[{\"b\":2,\"a\":1,\"b\":3,\"c\":\"00ff\",\"d\":null}]\n");
    let object = silica_ok(&["sql", ":memory:", "--json", "-c", select]);
    let object: serde_json::Value = serde_json::from_str(&object).expect("one object");
    assert_eq!(object["results"][0]["rows"], serde_json::json!([[2, 1, 3, "00ff", null]]));
}

#[test]
fn reals_are_shown_as_sqlite_makes_text_of_them() {
    let numbers = ["1e100", "1e16", "9e999", "-9e999", "1.5e-7", "1/3.0", "5e-324", "2.0"];
    let columns = numbers.join(", ");
    let texts = numbers.map(|number| format!("CAST({number} AS TEXT)")).join(", ");
    let shown = silica_ok(&["sql", ":memory:", "-c", &format!("SELECT {columns}; SELECT {texts}")]);
    let (reals, texts) = shown.trim_end().split_once('\n').expect("two rows");
    assert_eq!(reals, texts);
    assert!(reals.starts_with("1.0e+100|10000000000000000.0|Inf|-Inf|1.5e-07|"), "{reals}");
}

#[test]
fn plans_and_what_a_statement_took_are_shown_where_somebody_asks() {
    let directory = scratch("sql-plans");
    let app = directory.join("app.db");
    shown(&app, "CREATE TABLE t (a INTEGER PRIMARY KEY, b);\nINSERT INTO t VALUES (1, 2);\n");
    let plan = "EXPLAIN QUERY PLAN SELECT b FROM t UNION ALL SELECT b FROM t WHERE a = 1;\n";
    let tree = "QUERY PLAN\n`--COMPOUND QUERY\n   |--LEFT-MOST SUBQUERY\n   |  `--SCAN t\n   \
                `--UNION ALL\n      `--SEARCH t USING INTEGER PRIMARY KEY (rowid=?)\n";
    assert_eq!(shown(&app, plan), tree);
    assert!(shown(&app, &format!(".mode csv\n{plan}")).contains(",COMPOUND QUERY"));
    let search = "QUERY PLAN\n`--SEARCH t USING INTEGER PRIMARY KEY (rowid=?)\n";
    let asked = "SELECT b FROM t WHERE a = 1;\n";
    let expected = format!("{search}2\n2\n");
    assert_eq!(shown(&app, &format!(".eqp on\n{asked}.eqp off\n{asked}")), expected);
    let full = shown(&app, &format!(".eqp full\n{asked}"));
    assert!(full.starts_with(search) && full.contains("Init") && full.ends_with("\n2\n"), "{full}");
    // The statement before runs its effect once, and changes what it is to.
    let written = ".eqp on\nUPDATE t SET b = b + 1 WHERE a = 1;\n.eqp off\nSELECT b FROM t;\n";
    assert_eq!(shown(&app, written), format!("{search}3\n"));
    let stats = shown(&app, ".stats on\nSELECT * FROM t, t AS u ORDER BY u.b;\n");
    assert!(stats.contains("Sorts:") && stats.contains("Steps of full scans:"), "{stats}");
    let sorts = stats.lines().find(|line| line.starts_with("Sorts:")).expect("a line");
    assert!(sorts.ends_with(" 1"), "{stats}");
    let words = complaint(&app, ".eqp maybe\n");
    assert!(words.contains("on, off or full"), "{words}");
}

#[test]
fn a_column_has_the_width_that_was_set() {
    let directory = scratch("sql-width");
    let app = directory.join("app.db");
    let rows = ".mode column\n.width 3 -4\nSELECT 'abcdef' AS a, 'x' AS b;\n";
    assert_eq!(shown(&app, rows), "a       b\n---  ----\nabc     x\ndef\n");
    assert!(complaint(&app, ".width a\n").contains("numbers"));
    assert!(complaint(&app, ".width 99999999999\n").contains("at most"));
}

#[test]
fn indexes_that_foreign_keys_lack_are_named() {
    let directory = scratch("sql-lint");
    let app = directory.join("app.db");
    let tables = "CREATE TABLE p (a PRIMARY KEY, b UNIQUE);
        CREATE TABLE q (m, n, PRIMARY KEY (m, n)) WITHOUT ROWID;
        CREATE TABLE c (x REFERENCES p (a), y REFERENCES p (b));
        CREATE INDEX i ON c (y);
        CREATE TABLE \"d d\" (k PRIMARY KEY, l, FOREIGN KEY (k, l) REFERENCES q) WITHOUT ROWID;
        CREATE TABLE e (k, l, FOREIGN KEY (l, k) REFERENCES q (m, n));\n";
    shown(&app, tables);
    let expected =
        "CREATE INDEX c_x ON c(x); --> p(a)\nCREATE INDEX e_l_k ON e(l, k); --> q(m, n)\n";
    assert_eq!(shown(&app, ".lint fkey-indexes\n"), expected);
    let indexes: String = expected.lines().map(|line| format!("{line}\n")).collect();
    shown(&app, &indexes);
    assert_eq!(shown(&app, ".lint fkey-indexes\n"), "");
}

#[test]
fn rows_are_shown_in_every_mode() {
    let directory = scratch("sql-modes");
    let app = directory.join("app.db");
    let row = "SELECT 1 AS n, 'a|b' AS t, NULL AS z, x'ab' AS x;\n";
    for (mode, expected) in [
        ("list", "1|a|b||\u{fffd}\n"),
        ("quote", "1,'a|b',NULL,X'AB'\n"),
        ("insert u", "INSERT INTO u VALUES(1,'a|b',NULL,X'AB');\n"),
        ("line", "n = 1\nt = a|b\nz = \nx = \u{fffd}\n"),
        ("markdown", "| n | t   | z | x |\n|---|-----|---|---|\n| 1 | a\\|b |   | \u{fffd} |\n"),
        ("column", "n  t    z  x\n-  ---  -  -\n1  a|b     \u{fffd}\n"),
    ] {
        assert_eq!(shown(&app, &format!(".mode {mode}\n{row}")), expected, "{mode}");
    }
    let lines = ".mode csv\n.separator ;\n.nullvalue none\nSELECT 1, NULL, 'a;b';\n.mode list\n\
                 SELECT 2, 3;\n";
    assert_eq!(shown(&app, lines), "1;none;\"a;b\"\n2|3\n");
    let words = complaint(&app, ".mode bxo\n");
    assert!(words.contains("box, list") && words.contains("quote"), "{words}");
}

#[test]
fn other_databases_are_listed_too() {
    let directory = scratch("sql-attached");
    let [app, other] = ["app.db", "other.db"].map(|name| directory.join(name));
    let lines = format!(
        "ATTACH '{}' AS o; CREATE TABLE t (a); CREATE TABLE o.u (b); CREATE TEMP TABLE v (c);
         CREATE INDEX o.i ON u (b);\n.tables\n.ta u\n.indices\n.schema u\n",
        other.display()
    );
    let expected = "t\ntemp.v\no.u\no.u\no.i\nCREATE TABLE \"o\".u (b);\n\
                    CREATE INDEX \"o\".i ON u (b);\n";
    assert_eq!(shown(&app, &lines), expected);
}

#[test]
fn files_are_read_as_they_are_or_refused() {
    let directory = scratch("sql-import");
    let app = directory.join("app.db");
    let [marked, latin, tabs] = ["a b.csv", "latin.csv", "t.tsv"].map(|name| directory.join(name));
    std::fs::write(&marked, "\u{feff}n,t\r\n1,\"x\ny\"\r\n").expect("written");
    std::fs::write(&latin, b"n,t\n1,caf\xe9\n").expect("written");
    std::fs::write(&tabs, "2\t\"q\"\n").expect("written");
    let [marked, latin, tabs] = [&marked, &latin, &tabs].map(|path| arg(path));
    let lines = format!(
        ".import \"{marked}\" t\n.import --csv --skip 1 '{marked}' t\n.import --tabs {tabs} t\n\
         .mode quote\nSELECT n, t FROM t;\n"
    );
    let expected = "1 rows\n1 rows\n1 rows\n1,'x\ny'\n1,'x\ny'\n2,'\"q\"'\n";
    assert_eq!(shown(&app, &lines), expected);
    let words = complaint(&app, &format!(".import {latin} t\n"));
    assert!(words.contains("latin.csv, line 2: this is no UTF-8"), "{words}");
    // Within a transaction of the user's, only the import is taken back.
    let lines = format!(
        ".bail off\nBEGIN; DELETE FROM t WHERE n = 2;\n.import {latin} t\nCOMMIT;\n\
         SELECT count(*) FROM t;\n"
    );
    let output = script(&app, &lines);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(2), &b"2\n"[..]),
        "{}",
        said(&output)
    );
}

#[test]
fn a_backup_is_written_over_and_brought_back() {
    let directory = scratch("sql-restore");
    let [app, copy, ours] = ["app.db", "copy.db", "ours.db"].map(|name| directory.join(name));
    let copied = arg(&copy);
    let lines = format!(
        "CREATE TABLE t (a); INSERT INTO t VALUES (1);\n.backup {copied}\n\
         INSERT INTO t VALUES (2);\n.backup {copied}\nDELETE FROM t;\n.restore {copied}\n\
         SELECT count(*) FROM t;\n.open {}\nCREATE TABLE u (a);\n.restore {copied}\n.tables\n\
         .open {}\n.tables\n",
        ours.display(),
        app.display()
    );
    assert_eq!(shown(&app, &lines), "2\nt\nt\n");
    assert!(std::fs::read(&copy).expect("a file").starts_with(b"SQLite format 3\0"));
    let words = complaint(&app, &format!(".restore {copied}.none\n"));
    assert!(words.contains("is not there") || words.contains("unable to open"), "{words}");
}

#[test]
fn results_go_to_files() {
    let directory = scratch("sql-output");
    let app = directory.join("app.db");
    let [one, all] = ["one", "all"].map(|name| directory.join(name));
    let lines = format!(
        ".once {}\nSELECT 1;\nSELECT 2;\n.output {}\nSELECT 3;\n.print four\n.output\nSELECT 5;\n",
        one.display(),
        all.display()
    );
    assert_eq!(shown(&app, &lines), "2\n5\n");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
    assert_eq!((&*read(&one), &*read(&all)), ("1\n", "3\nfour\n"));
}

#[test]
fn an_error_names_its_line() {
    let directory = scratch("sql-lines");
    let app = directory.join("app.db");
    let read = directory.join("part.sql");
    std::fs::write(&read, "SELECT 1;\n\nSELECT\n absent;\n").expect("written");
    let words = complaint(&app, "SELECT 1;\n\nSELECT 2;\n SELECT\n absent;\nSELECT 3;\n");
    assert!(words.contains("line 4 of the script: no such column: absent"), "{words}");
    let words = complaint(&app, &format!("SELECT 1;\n.read {}\n", read.display()));
    assert!(words.contains("line 2 of the script: line 3 of ") && words.contains("part.sql: no"));
    let output = script(&app, ".bail off\nSELECT absent;\nSELECT 7;\n");
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(2), &b"7\n"[..]),
        "{}",
        said(&output)
    );
    let words = complaint(&app, ".tabels\n");
    assert!(words.contains("did you mean '.tables'"), "{words}");
}

/// As people call SQLite's shell.
#[test]
fn statements_may_follow_the_database() {
    assert_eq!(silica_ok(&["sql", ":memory:", "SELECT 7; SELECT 8"]), "7\n8\n");
    let output = silica(&["sql", ":memory:", "SELECT 7", "-c", "SELECT 8"]).output().expect("runs");
    assert!(said(&output).contains("cannot be used with"), "{}", said(&output));
    let directory = scratch("sql-directory");
    let output = silica(&["sql", arg(&directory), "SELECT 7"]).output().expect("runs");
    assert!(said(&output).contains("is a directory"), "{}", said(&output));
}

#[test]
fn parameters_have_values() {
    let lines = ".parameter set :id 40+2\n.parameter set $name Ann\nSELECT :id, $name, ?9;\n\
                 .parameter list\n.parameter unset :id\nSELECT :id;\n";
    let expected = "42|Ann|\n$name 'Ann'\n:id 42\n\n";
    assert_eq!(shown(Path::new(":memory:"), lines), expected);
}

/// The prompt needs a terminal: `script` of util-linux gives it one.
#[test]
fn ctrl_c_ends_each_statement() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        eprintln!("not run: util-linux's script is not there");
        return;
    }
    let directory = scratch("sql-ctrl-c");
    let binary = silica(&[]).get_program().to_string_lossy().into_owned();
    let mut child = std::process::Command::new("script")
        .args(["-q", "-c", &format!("{binary} sql :memory:"), "/dev/null"])
        .env("HOME", &directory)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("piped"), child.stdout.take());
    let (send, heard) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let stdout = stdout.as_mut().expect("piped");
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = std::io::Read::read(stdout, &mut bytes) {
            if send.send(String::from_utf8_lossy(&bytes[..len]).into_owned()).is_err() {
                break;
            }
        }
    });
    // What is seen up to the words; an error if they do not come in time.
    let look_on = |mut seen: String, words: &str, time: Duration| {
        while !seen.contains(words) {
            match heard.recv_timeout(time) {
                Ok(more) => seen.push_str(&more),
                Err(error) => return Err(format!("no '{words}' ({error}) in {seen:?}")),
            }
        }
        Ok(seen)
    };
    let look_for = |words: &str, time: Duration| look_on(String::new(), words, time);
    look_for("sql> ", PATIENCE).expect("a prompt");
    for _ in 0..3 {
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) \
                       SELECT count(*) FROM c;\r";
        stdin.write_all(endless.as_bytes()).and_then(|()| stdin.flush()).expect("written");
        look_for("FROM c;", PATIENCE).expect("what was typed");
        // Until the statement runs, Ctrl-C is a key of the prompt; then it is a signal, and the
        // terminal shows it. One that comes between the two is lost.
        let said = (0..100).find_map(|_| {
            stdin.write_all(b"\x03").and_then(|()| stdin.flush()).expect("written");
            let seen = look_for("^C", Duration::from_millis(300)).ok()?;
            look_on(seen, "interrupted", PATIENCE / 3).ok()
        });
        let said = said.expect("it is interrupted");
        // What is typed before the prompt is there would go with the next signal.
        let (_, behind) = said.split_once("interrupted").expect("it was seen");
        look_on(behind.to_string(), "sql> ", PATIENCE).expect("a prompt");
    }
    stdin.write_all(b"SELECT 'still ' || 'here';\r.quit\r").expect("written");
    look_for("still here", PATIENCE).expect("the shell goes on");
    drop(stdin);
    child.wait().expect("ends");
    reader.join().expect("ends");
}
