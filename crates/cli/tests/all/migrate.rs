//! What `docs/migrate.md` tells people to type, typed.

use crate::support::{Client, Reply, Server, arg, said, scratch, silica, silica_ok};
use std::path::Path;
use std::process::Command;

/// The page's only command with `word` in it, with its lines joined.
fn recipe(word: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migrate.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks = page.split("```").skip(1).step_by(2);
    let lines: Vec<String> = blocks
        .flat_map(|block| {
            block.replace("\\\n", " ").lines().map(str::to_string).collect::<Vec<_>>()
        })
        .filter(|line| line.contains(word))
        .collect();
    assert_eq!(lines.len(), 1, "{word}: {lines:?}");
    lines[0].clone()
}

fn ask(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.ask(&words).expect("a reply")
}

fn value(text: &str) -> Reply {
    Reply::Bytes(Some(text.as_bytes().to_vec()))
}

/// Types `command` into a shell; what it printed.
fn typed(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", said(&output));
    said(&output)
}

#[test]
fn strings_move_over_from_redis_with_their_expiry() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        println!("skipped: redis-server is missing (Debian: apt-get install redis)");
        return;
    }
    let dir = scratch("from-redis");
    let old = Server::start_redis(&dir.join("redis"));
    let recipe = recipe(" MIGRATE ").replace("-p 6379", &format!("-p {}", old.port));
    let mut before = old.client();
    for n in 0..250 {
        ask(&mut before, &format!("SET key:{n} {n}"));
    }
    before.ask(&[b"SET", b"two words", b"\r\n\0\xFF"]).expect("a reply");
    ask(&mut before, "SET later x EX 1000");
    ask(&mut before, "SETBIT bits 1000 1");
    for (name, password) in [("open", None), ("closed", Some("word"))] {
        let words = password.map_or(vec![], |word| vec!["--password", word]);
        let new = Server::start_cache_of(&dir.join(name), "64MiB", &words, password);
        let recipe = recipe.replace("127.0.0.1 7379", &format!("127.0.0.1 {}", new.port));
        let recipe = match password {
            None => recipe,
            Some(word) => recipe.replace("REPLACE KEYS", &format!("REPLACE AUTH {word} KEYS")),
        };
        let told = typed(&recipe);
        assert!(!told.contains("ERR"), "{told}");
        let mut after = new.client();
        if let Some(word) = password {
            ask(&mut after, &format!("AUTH {word}"));
        }
        assert_eq!(ask(&mut after, "DBSIZE"), Reply::Number(253), "{name}");
        assert_eq!(ask(&mut after, "GET key:249"), value("249"));
        assert_eq!(ask(&mut after, "GETBIT bits 1000"), Reply::Number(1));
        let odd = after.ask(&[b"GET", b"two words"]).expect("a reply");
        assert_eq!(odd, Reply::Bytes(Some(b"\r\n\0\xFF".to_vec())));
        let Reply::Number(ttl) = ask(&mut after, "TTL later") else { panic!("a number") };
        assert!((900..=1000).contains(&ttl), "{ttl}");
        if password.is_none() {
            // Objects move, too.
            ask(&mut before, "MSET a 1 b 2");
            ask(&mut before, "LPUSH list 1");
            let port = new.port.to_string();
            let keys = format!("MIGRATE 127.0.0.1 {port}  0 5000 COPY REPLACE KEYS a list b");
            assert_eq!(ask(&mut before, &keys), Reply::Status("OK".into()));
            assert_eq!(ask(&mut after, "LINDEX list 0"), value("1"));
            assert_eq!(ask(&mut after, "GET a"), value("1"));
            assert_eq!(ask(&mut after, "GET b"), value("2"));
            // And back: Redis restores what we dump.
            let Reply::Bytes(Some(dump)) = ask(&mut after, "DUMP key:7") else { panic!("a dump") };
            ask(&mut before, "DEL key:7 a b list");
            let restored = before.ask(&[b"RESTORE", b"key:7", b"0", &dump]).expect("a reply");
            assert_eq!(restored, Reply::Status("OK".into()));
            assert_eq!(ask(&mut before, "GET key:7"), value("7"));
        }
    }
}

#[test]
fn a_file_of_strings_loads() {
    let dir = scratch("from-file");
    std::fs::write(dir.join("dump.tsv"), "one\t1\ntwo words\t2 3\n").expect("written");
    let recipe = recipe("silica load").replace("silica", env!("CARGO_BIN_EXE_silica"));
    typed(&format!("cd '{}' && {recipe}", arg(&dir)));
    let data = dir.join("data");
    assert_eq!(silica_ok(&["get", "two words", "--path", arg(&data)]), "2 3\n");
    assert_eq!(silica_ok(&["count", "--path", arg(&data)]).trim(), "2");
}

/// A database of SQL in a keyspace of any name keeps its order: nobody could open it else.
#[test]
fn a_database_of_sql_does_not_lose_its_order() {
    let dir = scratch("migrate-sql");
    let server = Server::start(&dir, &[]);
    let mut client = server.client();
    let mut sql = |statement: &str| {
        client.ask(&[b"SILICA.SQL", b"books", statement.as_bytes()]).expect("a reply")
    };
    sql("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    sql("INSERT INTO t VALUES (7)");
    let Reply::Error(told) = ask(&mut server.client(), "SILICA.MIGRATE books silt") else {
        panic!("it is refused");
    };
    assert!(told.contains("silica migrate NAME"), "{told}");
    server.stop();
    let output = silica(&["migrate", "books", "--to", "silt", "--path", arg(&dir)]).output();
    let output = output.expect("it runs");
    assert!(
        !output.status.success() && said(&output).contains("SQL database"),
        "{}",
        said(&output)
    );
    let server = Server::start(&dir, &[]);
    let mut client = server.client();
    let rows = client.ask(&[b"SILICA.SQL", b"books", b"SELECT a FROM t"]).expect("a reply");
    assert!(format!("{rows:?}").contains("Number(7)"), "{rows:?}");
    server.stop();
}
