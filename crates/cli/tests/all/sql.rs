//! `silica sql`: statements, scripts, its own commands, and data in and out.

use crate::support::{Server, arg, said, scratch, silica, silica_ok};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

fn script(database: &Path, lines: &str) -> Output {
    let mut child = silica(&["sql", arg(database)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("written");
    child.wait_with_output().expect("ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn statements_scripts_and_json() {
    let directory = scratch("sql");
    let path = directory.join("app.db");
    let database = arg(&path);
    let made = "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)";
    assert_eq!(silica_ok(&["sql", database, "-c", made]), "");
    silica_ok(&["sql", database, "-c", "INSERT INTO t (b) VALUES ('x'), (NULL)"]);
    assert_eq!(silica_ok(&["sql", database, "-c", "SELECT * FROM t"]), "1|x\n2|\n");
    let json = silica_ok(&["sql", database, "--json", "-c", "SELECT * FROM t; DELETE FROM t"]);
    let object: serde_json::Value = serde_json::from_str(&json).expect("one object");
    let rows = serde_json::json!([[1, "x"], [2, null]]);
    assert_eq!(object["results"][0]["rows"], rows);
    assert_eq!(object["results"][1]["changes"], 2);
    // A statement over several lines, and commands between them.
    let output = script(
        &path,
        "INSERT INTO t\n VALUES (7, 'seven; or so');\n.mode json\nSELECT *\nFROM t;\n.tables\n",
    );
    assert_eq!(
        text(&output.stdout),
        "[{\"a\":7,\"b\":\"seven; or so\"}]\nt\n",
        "{}",
        said(&output)
    );
    let output = script(&path, "SELECT 1;\nSELECT absent;\nSELECT 2;\n");
    assert!(!output.status.success());
    assert_eq!(text(&output.stdout), "1\n");
    assert!(text(&output.stderr).contains("no such column: absent"));
    let output = script(&path, ".tabels\n");
    assert!(text(&output.stderr).contains("did you mean '.tables'"));
}

#[test]
fn data_goes_in_and_out() {
    let directory = scratch("sql-data");
    let [app, again, csv] = ["app.db", "again.db", "in.csv"].map(|name| directory.join(name));
    std::fs::write(&csv, "n,\"the name\"\n1,\"a,\"\"b\"\"\"\n2,\n").expect("written");
    let output = script(&app, &format!(".import {} t\n.schema t\n", csv.display()));
    let made = "2 rows\nCREATE TABLE \"t\" (\"n\" ANY, \"the name\" ANY);\n";
    assert_eq!(text(&output.stdout), made, "{}", said(&output));
    let dumped = script(&app, "CREATE INDEX i ON t (n);\n.dump\n");
    let output = script(&again, &text(&dumped.stdout));
    assert!(output.status.success(), "{}", said(&output));
    let rows = silica_ok(&["sql", arg(&again), "--mode", "csv", "-c", "SELECT * FROM t"]);
    assert_eq!(rows, "n,the name\n1,\"a,\"\"b\"\"\"\n2,\n");
    let copy = directory.join("copy.db");
    script(&again, &format!(".backup {}\n", copy.display()));
    assert!(std::fs::read(&copy).expect("a file").starts_with(b"SQLite format 3\0"));
    assert_eq!(silica_ok(&["sql", arg(&copy), "-c", "SELECT count(*) FROM t"]), "2\n");
    // What is wrong with one record leaves none.
    std::fs::write(&csv, "1,2\n3\n").expect("written");
    let output = script(&app, &format!(".import {} t\n", csv.display()));
    assert!(text(&output.stderr).contains("record 2 has 1 fields"), "{}", said(&output));
    assert_eq!(silica_ok(&["sql", arg(&app), "-c", "SELECT count(*) FROM t"]), "2\n");
}

#[test]
fn a_database_is_a_store_for_every_other_command() {
    let directory = scratch("sql-store");
    let path = directory.join("app.db");
    silica_ok(&["sql", arg(&path), "-c", "CREATE TABLE t (a); INSERT INTO t VALUES (1)"]);
    let store = directory.join("app.db-silica/store");
    silica_ok(&["verify", "--path", arg(&store)]);
    let backup = directory.join("backup");
    silica_ok(&["backup", arg(&backup), "--path", arg(&store)]);
    silica_ok(&["verify", "--path", arg(&backup)]);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let directory = scratch("sql-refused");
    let path = directory.join("app.db");
    silica_ok(&["sql", arg(&path), "-c", "CREATE TABLE t (a)"]);
    let copy = directory.join("copy.db");
    std::fs::copy(&path, &copy).expect("copied");
    std::fs::write(directory.join("text"), "hello, this is no database at all").expect("written");
    for (name, words) in [
        ("copy.db", "copy of a database's marker"),
        ("none/app.db", "unable to open database file"),
        ("text", "file is not a database"),
    ] {
        let file = directory.join(name);
        let output = silica(&["sql", arg(&file), "-c", "SELECT 1"]).output().expect("runs");
        assert!(!output.status.success(), "{name}");
        assert!(text(&output.stderr).contains(words), "{name}: {}", said(&output));
    }
}

#[test]
fn a_second_process_is_told_which_one_has_the_database() {
    let directory = scratch("sql-second");
    let path = directory.join("app.db");
    silica_ok(&["sql", arg(&path), "-c", "CREATE TABLE t (a)"]);
    // It has the database open while it waits for its script.
    let mut first = silica(&["sql", arg(&path)]).stdin(Stdio::piped()).spawn().expect("starts");
    let lock = directory.join("app.db-silica/store/LOCK");
    let own = format!("{}\n", first.id());
    while std::fs::read_to_string(&lock).is_ok_and(|holder| holder != own) {
        assert!(first.try_wait().expect("asked").is_none(), "it ended before it had its script");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = silica(&["sql", arg(&path), "-c", "SELECT 1"]).output().expect("runs");
    assert!(!output.status.success(), "the first one has it");
    let words = text(&output.stderr);
    let expected = ["database is locked".to_string(), format!("process {}", first.id())];
    assert!(expected.iter().all(|word| words.contains(word)), "{words}");
    drop(first.stdin.take());
    assert!(first.wait().expect("ends").success());
    assert_eq!(silica_ok(&["sql", arg(&path), "-c", "SELECT 7"]), "7\n");
}

/// A database whose table and index take some tables of the engine's.
fn filled(database: &str) {
    let rows = "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB); CREATE INDEX i ON t (b); \
                INSERT INTO t WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT \
                3000) SELECT n, 'b' || n, randomblob(500) FROM s; VACUUM";
    silica_ok(&["sql", database, "--memory", "1MiB", "-c", rows]);
}

const CHECK: &str = "SELECT count(*) FROM t NOT INDEXED; PRAGMA integrity_check";

#[test]
fn the_store_of_a_database_is_verified_backed_up_and_restored() {
    let directory = scratch("sql-backup");
    let [app, again] = ["app.db", "again.db"].map(|name| directory.join(name));
    let [stored, restored] =
        ["app.db-silica/store", "again.db-silica/store"].map(|name| directory.join(name));
    let backup = directory.join("backup");
    filled(arg(&app));
    assert!(silica_ok(&["verify", "--path", arg(&stored)]).contains("all well"));
    silica_ok(&["backup", "--path", arg(&stored), arg(&backup)]);
    silica_ok(&["sql", arg(&again), "-c", "SELECT 1"]);
    std::fs::remove_dir_all(&restored).expect("removed");
    silica_ok(&["restore", "--path", arg(&restored), arg(&backup)]);
    assert_eq!(silica_ok(&["sql", arg(&again), "-c", CHECK]), "3000\nok\n");
}

#[test]
fn a_repaired_database_is_made_whole_by_its_rows() {
    let directory = scratch("sql-repair");
    let app = directory.join("app.db");
    filled(arg(&app));
    let keyspace = directory.join("app.db-silica/store/keyspace-0");
    let files = std::fs::read_dir(&keyspace).expect("listed").map(|file| file.expect("one").path());
    let largest = files.max_by_key(|path| path.metadata().map_or(0, |file| file.len()));
    let path = largest.expect("a table");
    let mut bytes = std::fs::read(&path).expect("read");
    // The first entries are trees and their schema; in the middle are rows.
    let at = bytes.len() / 2;
    bytes[at] ^= 0x55;
    std::fs::write(&path, bytes).expect("written");
    let store = directory.join("app.db-silica/store");
    let output = silica(&["verify", "--path", arg(&store)]).output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let output = silica(&["repair", "--path", arg(&store)]).output().expect("starts");
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("REINDEX"), "{}", said(&output));
    let count = silica_ok(&["sql", arg(&app), "-c", CHECK]);
    assert!(count.contains("wrong # of entries in index i"), "{count}");
    let made = silica_ok(&["sql", arg(&app), "-c", &format!("REINDEX; {CHECK}")]);
    let (rows, check) = made.split_once('\n').expect("two lines");
    let rows: u32 = rows.parse().expect("a number");
    assert!((2900..3000).contains(&rows) && check == "ok\n", "{made}");
}

#[test]
fn a_database_is_not_moved_to_an_engine_without_an_order() {
    let directory = scratch("sql-migrate");
    let app = directory.join("app.db");
    filled(arg(&app));
    let store = directory.join("app.db-silica/store");
    for engine in ["silt", "mica"] {
        let migrate = ["migrate", "--path", arg(&store), "--to", engine, "sql"];
        let output = silica(&migrate).output().expect("starts");
        assert!(!output.status.success());
        assert!(said(&output).contains("needs an engine that keeps an order"), "{}", said(&output));
    }
    assert_eq!(silica_ok(&["sql", arg(&app), "-c", CHECK]), "3000\nok\n");
}

#[test]
fn why_tells_what_statements_cost() {
    let directory = scratch("why-sql");
    let database = directory.join("app.db");
    let made = silica(&["sql", arg(&database), "-c"])
        .arg(
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
             WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT 500)
             INSERT INTO t SELECT n, 'some text ' || n FROM s",
        )
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let statements = "SELECT b FROM t WHERE a = 7; SELECT count(*) FROM t WHERE b LIKE '%9'; \
                      UPDATE t SET b = 'x' WHERE a < 11";
    let asked = ["why", "--json", arg(&database), "--sql", statements];
    let output = silica(&asked).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let [get, scan, update] = told["statements"].as_array().unwrap().as_slice() else {
        panic!("{told}")
    };
    assert_eq!((&get["asked"]["gets"], &get["asked"]["hits"]), (&1.into(), &1.into()), "{get}");
    assert!(scan["asked"]["entries"].as_u64().unwrap() >= 500, "{scan}");
    assert_eq!(update["asked"]["puts"], 10, "{update}");
    // More work costs more, by the model, too.
    let cost = |told: &serde_json::Value, name: &str| told["predicted"][name].as_f64().unwrap();
    assert!(cost(scan, "microseconds") > 2.0 * cost(get, "microseconds"), "{told}");
    assert_eq!(cost(get, "device_bytes_written"), 0.0, "{get}");
    let written = update["asked"]["bytes_written"].as_f64().unwrap();
    assert!(cost(update, "device_bytes_written") > written, "{update}");
    assert!(scan["plan"][0].as_str().unwrap().contains("SCAN t"), "{scan}");
    // Nothing was kept.
    let count = silica(&["sql", arg(&database), "-c", "SELECT count(*) FROM t WHERE b = 'x'"]);
    assert_eq!({ count }.output().unwrap().stdout, b"0\n");
    for (target, statement, words) in [
        (&database, "SELECT nothing_like_it FROM t", "no such column"),
        (&directory.join("none.db"), "SELECT 1", "is not there"),
    ] {
        let output = silica(&["why", arg(target), "--sql", statement]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(words), "{}", said(&output));
    }
}

/// Redis's types beside the tables of a database, as a server of its store has left them.
#[test]
fn objects_are_tables_on_the_command_line() {
    let directory = scratch("sql-objects");
    let database = directory.join("app.db");
    let made = "CREATE TABLE users (name TEXT, city TEXT); \
                INSERT INTO users VALUES ('ann', 'Rome'), ('bob', 'Oslo')";
    silica_ok(&["sql", arg(&database), "-c", made]);
    let server = Server::start(&directory.join("app.db-silica").join("store"), &[]);
    let mut client = server.client();
    let mut ask = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.ask(&words).expect("a reply");
    };
    for line in [
        "HSET user:1 name ann age 30",
        "ZADD board 5 ann 3 bob",
        "RPUSH queue a b c",
        "SADD set x y",
        "XADD stream 1-1 field value",
        "SET text x",
        "SELECT 3",
        "HSET visits ann 7",
    ] {
        ask(line);
    }
    server.stop();
    let sql = |statement: &str| silica_ok(&["sql", arg(&database), "-c", statement]);
    for (statement, rows) in [
        ("SELECT field, value, ttl FROM silica_hash('user:1')", "age|30|\nname|ann|\n"),
        ("SELECT member, score FROM silica_zset('board')", "bob|3.0\nann|5.0\n"),
        ("SELECT * FROM silica_list('queue') WHERE position = 1", "1|b\n"),
        ("SELECT member FROM silica_set('set')", "x\ny\n"),
        ("SELECT id, field, value FROM silica_stream('stream')", "1-1|field|value\n"),
        (
            "SELECT city, value FROM users JOIN silica_hash('visits', 3) ON field = users.name",
            "Rome|7\n",
        ),
        ("SELECT count(*) FROM silica_hash('nothing')", "0\n"),
    ] {
        assert_eq!(sql(statement), rows, "{statement}");
    }
    let asked = ["sql", arg(&database), "-c", "SELECT * FROM silica_hash('text')"];
    let output = silica(&asked).output().expect("it runs");
    assert!(!output.status.success() && said(&output).contains("WRONGTYPE"), "{}", said(&output));
}
