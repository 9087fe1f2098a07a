//! SQL over RESP: `SILICA.SQL` and its siblings.

use super::support::{Client, config, show, start};
use silica::OpenOptions;
use silica_proto::Value;
use silica_server::{Config, Databases, Mode, Server};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Debian's Python, for which its packages of libraries are.
const PYTHON: &str = "/usr/bin/python3";

/// A server on a store in a new directory.
fn serve(config: Config) -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = OpenOptions::new().memory_bytes(64 << 20);
    let store = options.open(directory.path().join("store")).expect("a store");
    let config = Config { mode: Mode::Crcw, ..config };
    let server = Server::start(config, Arc::new(store) as Arc<dyn Databases>).expect("a server");
    (server, directory)
}

fn run(client: &mut Client, args: &[&str]) -> String {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    show(&client.call(&args))
}

/// The reply to a statement on the database `app`.
fn sql(client: &mut Client, statement: &str) -> String {
    run(client, &["SILICA.SQL", "app", statement])
}

fn people(client: &mut Client) {
    assert_eq!(sql(client, "CREATE TABLE people (name TEXT, age INT, height REAL, x)"), ":0");
    let insert = "INSERT INTO people VALUES (?1, ?2, ?3, ?4)";
    let rows: [&[&[u8]]; 2] = [&[b"ann", b"41", b"1.75", b"\xff\0"], &[b"bob", b"7"]];
    for row in rows {
        let args = [&[&b"silica.sql"[..], b"app", insert.as_bytes()], row].concat();
        assert_eq!(show(&client.call(&args)), ":1");
    }
}

#[test]
fn statements_answer_rows_or_the_count_of_changes() {
    let (server, _directory) = serve(config());
    let mut client = Client::connect(&server);
    people(&mut client);
    let all = "SELECT rowid, * FROM people";
    assert_eq!(sql(&mut client, all), "[[:1 'ann' :41 '1.75' '\\xff\\x00'] [:2 'bob' :7 nil nil]]");
    // Another connection, in the newer dialect: maps by the names of columns, each there once.
    let mut other = Client::connect(&server);
    other.ask("HELLO 3");
    assert_eq!(
        sql(&mut other, "SELECT name, height, x, 1 AS name FROM people WHERE age > 40"),
        "[{'name'='ann' 'height'=,1.75 'x'='\\xff\\x00' 'name:1'=:1}]"
    );
    assert_eq!(sql(&mut client, "UPDATE people SET age = age + 1"), ":2");
    assert_eq!(sql(&mut client, "DELETE FROM people WHERE age > 100"), ":0");
    assert_eq!(sql(&mut client, "SELECT * FROM people WHERE age > 100"), "[]");
    let deleted = sql(&mut client, "DELETE FROM people WHERE age = 8 RETURNING name");
    assert_eq!(deleted, "[['bob']]");
    assert_eq!(
        run(&mut client, &["SILICA.SQL_RO", "app", "SELECT count(*) FROM people"]),
        "[[:1]]"
    );
    server.stop();
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let (server, _directory) = serve(config());
    let mut client = Client::connect(&server);
    people(&mut client);
    for (args, words) in [
        (&["SILICA.SQL", "app", "SELEC 1"][..], "-ERR SQL: near \"SELEC\": syntax error"),
        (&["SILICA.SQL", "app", "SELECT 1; SELECT 2"], "one statement at a time"),
        (&["SILICA.SQL", "app", " -- nothing"], "no statement"),
        (&["SILICA.SQL", "app", "SELECT ?1", "a", "b"], "2 arguments for a statement that has 1"),
        (&["SILICA.SQL", "default", "SELECT 1"], "is a database of keys"),
        (&["SILICA.SQL", "db3", "SELECT 1"], "is a database of keys"),
        (&["SILICA.SQL_RO", "app", "DELETE FROM people"], "use SILICA.SQL"),
        (&["SILICA.SQL_RO", "typo", "SELECT 1"], "there is no database 'typo'"),
        (&["SILICA.SQL", "app", "ATTACH '/tmp/x' AS x"], "not authorized"),
        (&["SILICA.SQL", "app"], "wrong number of arguments"),
    ] {
        let reply = run(&mut client, args);
        assert!(reply.starts_with("-ERR") && reply.contains(words), "{args:?}: {reply}");
    }
    assert_eq!(client.ask("MULTI"), "OK");
    assert!(sql(&mut client, "SELECT 1").contains("cannot be part of a transaction"));
    server.stop();
    // A server without a directory has no SQL.
    let server = start();
    let reply = sql(&mut Client::connect(&server), "SELECT 1");
    assert!(reply.contains("SQL needs a store in a directory"), "{reply}");
    server.stop();
}

#[test]
fn a_client_has_transactions_which_end_when_it_leaves() {
    let (server, _directory) = serve(Config { sql_ms_max: 700, ..config() });
    let mut one = Client::connect(&server);
    let mut two = Client::connect(&server);
    people(&mut one);
    let count = "SELECT count(*) FROM people";
    assert_eq!(sql(&mut one, "BEGIN IMMEDIATE"), ":0");
    assert_eq!(sql(&mut one, "DELETE FROM people"), ":2");
    assert_eq!((sql(&mut one, count), sql(&mut two, count)), ("[[:0]]".into(), "[[:2]]".into()));
    assert_eq!(sql(&mut two, "DELETE FROM people"), "-ERR SQL: database is locked");
    // While another one waits, there is a thread on which the transaction ends.
    two.send(&super::support::request(&[b"SILICA.SQL", b"app", b"DELETE FROM people"]));
    assert_eq!(sql(&mut one, "ROLLBACK"), ":0");
    assert_eq!(two.reply(), Some(Value::Integer(2)));
    assert_eq!(sql(&mut one, "BEGIN IMMEDIATE"), ":0");
    drop(one);
    let began = Instant::now();
    while sql(&mut two, "INSERT INTO people (name) VALUES ('cid')") != ":1" {
        assert!(began.elapsed() < Duration::from_secs(10), "the transaction is still there");
    }
    // RESET makes the connection as new.
    assert_eq!(sql(&mut two, "BEGIN"), ":0");
    assert_eq!(two.ask("RESET"), "RESET");
    assert_eq!(sql(&mut two, "BEGIN"), ":0");
    server.stop();
}

#[test]
fn a_silent_client_does_not_keep_others_from_writing() {
    let (server, _directory) = serve(Config { sql_ms_max: 200, ..config() });
    let mut silent = Client::connect(&server);
    let mut other = Client::connect(&server);
    people(&mut silent);
    assert_eq!(sql(&mut silent, "BEGIN"), ":0");
    assert_eq!(sql(&mut silent, "DELETE FROM people"), ":2");
    let began = Instant::now();
    while sql(&mut other, "INSERT INTO people (name) VALUES ('cid')") != ":1" {
        assert!(began.elapsed() < Duration::from_secs(20), "the transaction is still there");
    }
    let told = sql(&mut silent, "COMMIT");
    assert!(told.contains("was rolled back, since others waited"), "{told}");
    assert_eq!(sql(&mut silent, "SELECT count(*) FROM people"), "[[:3]]");
    // Who keeps nobody waiting may take any time.
    assert_eq!(sql(&mut silent, "BEGIN IMMEDIATE"), ":0");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(sql(&mut silent, "COMMIT"), ":0");
    server.stop();
}

const ENDLESS: &str =
    "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT count(*) FROM s";

#[test]
fn statements_end_at_the_time_limit_and_when_their_client_leaves() {
    let (server, _directory) = serve(Config { sql_ms_max: 50, io_workers: 2, ..config() });
    let mut client = Client::connect(&server);
    let reply = sql(&mut client, ENDLESS);
    assert!(reply.contains("took 50 ms; CONFIG SET sql-time-limit"), "{reply}");
    assert_eq!(client.ask("CONFIG SET sql-time-limit 0"), "OK");
    // More clients than threads leave in the midst of statements that never end.
    for _ in 0..5 {
        let mut leaving = Client::connect(&server);
        leaving.send(&super::support::request(&[b"SILICA.SQL", b"app", ENDLESS.as_bytes()]));
    }
    assert_eq!(sql(&mut client, "SELECT 1"), "[[:1]]");
    // Nor does one keep the server from ending.
    client.send(&super::support::request(&[b"SILICA.SQL", b"app", ENDLESS.as_bytes()]));
    server.stop();
}

#[test]
fn rows_are_within_the_memory_of_clients() {
    let (server, _directory) = serve(Config { clients_bytes_max: 8 << 20, ..config() });
    let mut client = Client::connect(&server);
    let many = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT 1000000) \
                SELECT n, 'some text of a row' FROM s";
    let reply = sql(&mut client, many);
    assert!(reply.starts_with("-OOM") && reply.contains("add LIMIT"), "{reply}");
    // What it took is free again.
    let Value::Array(rows) =
        client.call(&[b"SILICA.SQL", b"app", format!("{many} LIMIT 20000").as_bytes()])
    else {
        panic!("no rows")
    };
    assert_eq!(rows.len(), 20_000);
    // Many small replies at once take no more than they have.
    let small = super::support::request(&[b"SILICA.SQL", b"app", b"SELECT 1"]);
    client.send(&small.repeat(200));
    assert!(client.replies(200).iter().all(|reply| show(reply) == "[[:1]]"));
    let large = sql(&mut client, "SELECT zeroblob(100000000)");
    assert!(large.contains("too big"), "{large}");
    server.stop();
}

#[test]
fn what_transactions_write_is_within_the_memory_of_clients() {
    // Less than a transaction has in memory before it spills.
    let (server, _directory) = serve(Config { clients_bytes_max: 2 << 20, ..config() });
    let mut client = Client::connect(&server);
    people(&mut client);
    let many = "INSERT INTO people (name) WITH RECURSIVE s(n) AS \
                (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT 'somebody ' || n FROM s";
    let count = "SELECT count(*) FROM people";
    let reply = sql(&mut client, many);
    assert!(reply.starts_with("-OOM") && reply.contains("commit more often"), "{reply}");
    assert_eq!(sql(&mut client, count), "[[:2]]");
    // So is what several statements write, each of them small.
    assert_eq!(sql(&mut client, "BEGIN"), ":0");
    let large = "INSERT INTO people (name) VALUES (zeroblob(250000))";
    let mut replies = (0..8).map(|_| sql(&mut client, large));
    let refused = replies.find(|reply| reply != ":1").expect("2 MB do not fit into 1.5");
    assert!(refused.starts_with("-OOM") && refused.contains("rolled back"), "{refused}");
    assert_eq!(sql(&mut client, count), "[[:2]]");
    // What is committed is counted no more.
    for _ in 0..8 {
        assert_eq!(sql(&mut client, large), ":1");
    }
    server.stop();
}

#[test]
fn keyspaces_are_tables_and_rows_are_keys() {
    let (server, _directory) = serve(config());
    let mut client = Client::connect(&server);
    for key in ["user:1", "user:2", "other"] {
        client.ask(&format!("SET {key} value-of-{key}"));
    }
    let select = "SELECT value FROM silica_keyspace('default') WHERE key GLOB 'user:*'";
    assert_eq!(sql(&mut client, select), "[['value-of-user:1'] ['value-of-user:2']]");
    assert_eq!(
        sql(&mut client, "CREATE VIRTUAL TABLE keys USING silica_keyspace('default')"),
        ":0"
    );
    // Whoever watches a key, or caches it, is told.
    let mut other = Client::connect(&server);
    other.ask("HELLO 3");
    other.ask("CLIENT TRACKING ON BCAST");
    assert_eq!(client.ask("WATCH user:1"), "OK");
    assert_eq!(sql(&mut client, "UPDATE keys SET value = 'new' WHERE key = 'user:1'"), ":1");
    assert_eq!(other.reply().map(|push| show(&push)), Some(">['invalidate' nil]".into()));
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("GET user:1"), "QUEUED");
    assert_eq!(client.ask("EXEC"), "nil");
    assert_eq!(client.ask("GET user:1"), "'new'");
    // A row as a key.
    people(&mut client);
    assert_eq!(
        client.text("SILICA.SQL_GET app people/1"),
        r#"{"name":"ann","age":41,"height":1.75,"x":"ff00"}"#
    );
    assert_eq!(client.ask("SILICA.SQL_GET app people/9"), "nil");
    assert!(client.ask("SILICA.SQL_GET app people").contains("TABLE/ROWID"));
    assert!(client.ask("SILICA.SQL_GET app typo/1").contains("no such table"));
    server.stop();
}

#[test]
fn users_have_the_databases_that_their_patterns_name() {
    let (server, _directory) = serve(config());
    let mut client = Client::connect(&server);
    people(&mut client);
    sql(&mut client, "CREATE VIRTUAL TABLE keys USING silica_keyspace('default')");
    client.ask("ACL SETUSER reader on nopass %R~app +@read +@connection");
    client.ask("ACL SETUSER writer on nopass ~app +silica.sql");
    let mut reader = Client::connect(&server);
    assert_eq!(reader.ask("AUTH reader x"), "OK");
    let count = "SELECT count(*) FROM people";
    assert_eq!(run(&mut reader, &["SILICA.SQL_RO", "app", count]), "[[:2]]");
    assert!(run(&mut reader, &["SILICA.SQL_RO", "other", count]).starts_with("-NOPERM"));
    assert!(sql(&mut reader, count).starts_with("-NOPERM"));
    let mut writer = Client::connect(&server);
    assert_eq!(writer.ask("AUTH writer x"), "OK");
    assert_eq!(sql(&mut writer, "DELETE FROM people WHERE age = 7"), ":1");
    assert!(run(&mut writer, &["SILICA.SQL", "other", count]).starts_with("-NOPERM"));
    // Keys that the pattern does not name are not reached through a table either.
    for statement in
        ["SELECT * FROM keys", "DELETE FROM keys", "SELECT * FROM silica_keyspace('db1')"]
    {
        let reply = sql(&mut writer, statement);
        assert!(reply.contains("who may read and write all keys"), "{statement}: {reply}");
    }
    server.stop();
}

#[test]
fn a_database_outlives_the_server() {
    let (server, directory) = serve(config());
    people(&mut Client::connect(&server));
    server.stop();
    let store = silica::open(directory.path().join("store")).expect("opened again");
    store.verify().expect("it is well");
    let server = Server::start(config(), Arc::new(store) as Arc<dyn Databases>);
    let server = server.expect("a server");
    let mut client = Client::connect(&server);
    // A pipeline of statements and other requests is answered in its order.
    let statement =
        super::support::request(&[b"SILICA.SQL", b"app", b"SELECT sum(age) FROM people"]);
    let mix = [&b"SET k 1\r\n"[..], &statement, &statement, b"INCR k\r\n", &statement].concat();
    client.send(&mix);
    let replies: Vec<_> = client.replies(5).iter().map(show).collect();
    assert_eq!(replies, ["OK", "[[:48]]", "[[:48]]", ":2", "[[:48]]"]);
    server.stop();
}

#[test]
fn redis_py_uses_a_database() {
    let import = Command::new(PYTHON).args(["-c", "import redis"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        println!("skipped: redis-py is not installed (Debian: apt-get install python3-redis)");
        return;
    }
    let (server, _directory) = serve(config());
    let port = server.local_addr().port().to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.d/redis_sql.py");
    let output = Command::new(PYTHON).args([script, &port]).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout.trim_ascii(), b"fine", "{errors}");
    server.stop();
}

#[test]
fn statements_work_where_loops_own_the_partitions_of_keys() {
    for mode in [Mode::Crew, Mode::Erew] {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = [("memory_bytes", "8MiB"), ("partitions", "2")];
        let options = OpenOptions::new().memory_bytes(64 << 20).declare("default", "mica", &cache);
        let store = options.open(directory.path().join("store")).expect("a store");
        let config = Config { mode, ..config() };
        let server = Server::start(config, Arc::new(store) as Arc<dyn Databases>);
        let server = server.expect("a server");
        let mut client = Client::connect(&server);
        for key in ["a", "b", "c"] {
            assert_eq!(client.ask(&format!("SET {key} value-{key}")), "OK");
        }
        people(&mut client);
        let join = "SELECT name, value FROM people JOIN silica_keyspace('default') ON key = 'b'";
        let expected = "[['ann' 'value-b'] ['bob' 'value-b']]";
        assert_eq!(sql(&mut client, join), expected, "{mode:?}");
        let all = "SELECT key FROM silica_keyspace('default') ORDER BY key";
        let reply = sql(&mut client, all);
        assert_eq!(reply, "[['a'] ['b'] ['c']]", "{mode:?}");
        sql(&mut client, "CREATE VIRTUAL TABLE keys USING silica_keyspace('default')");
        let refused = sql(&mut client, "DELETE FROM keys");
        assert!(refused.contains("does not write it"), "{mode:?}: {refused}");
        server.stop();
    }
}
