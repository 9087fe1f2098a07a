//! What is exported comes back, in every format and from every engine, and from and to Redis.

use crate::support::{Client, Reply, Server, arg, said, scratch, silica, silica_ok};
use silica_base::{Prng, test_size};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

const FORMATS: [&str; 4] = ["tsv", "csv", "ndjson", "rdb"];
const ENGINES: [&[&str]; 3] = [
    &["--engine", "wip"],
    &["--engine", "silt"],
    &["--engine", "mica", "--set", "warm_restart=on", "--memory", "32MiB"],
];
/// Unix milliseconds far from now.
const LATER: u64 = 4_000_000_000_000;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Random entries, one in NDJSON each, with keys that differ.
fn entries(count: u64) -> String {
    let mut random = Prng::new(11);
    let mut bytes = |most: u64, letters: &[u8]| -> Vec<u8> {
        (0..random.below(most))
            .map(|_| match random.below(2) {
                0 => random.next_u64() as u8,
                _ => letters[random.below(letters.len() as u64) as usize],
            })
            .collect()
    };
    let mut lines = String::new();
    for n in 0..count {
        let key = [&bytes(20, b"\\\t\n\r, \"{"), &n.to_be_bytes()[..]].concat();
        let value = bytes(if n % 50 == 0 { 20_000 } else { 40 }, b"\\\t\n\r,\"0123\xc3\xa9");
        lines += &format!("{{\"key_hex\":\"{}\",\"value_hex\":\"{}\"", hex(&key), hex(&value));
        if n % 3 == 0 {
            lines += &format!(",\"expires_unix_ms\":{}", LATER + n);
        }
        if n % 4 == 0 {
            lines += &format!(",\"user_bits\":{}", (n + 1) * 77_777 % (1 << 32));
        }
        lines += "}\n";
    }
    lines
}

fn exported(args: &[&str]) -> Vec<u8> {
    let output = silica(&[&["export"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    output.stdout
}

/// The lines of an export, in any order.
fn lines(args: &[&str]) -> BTreeSet<String> {
    let text = String::from_utf8(exported(&[args, &["--format", "tsv"]].concat())).unwrap();
    text.lines().map(str::to_string).collect()
}

#[test]
fn every_entry_comes_back_from_every_format_and_engine() {
    let dir = scratch("transfer");
    let count = test_size(300, 500, 100_000);
    let first = dir.join("first.ndjson");
    std::fs::write(&first, entries(count)).unwrap();
    let source = dir.join("source");
    silica_ok(&["import", arg(&first), "--path", arg(&source)]);
    let wanted = lines(&["--path", arg(&source)]);
    assert_eq!(wanted.len() as u64, count);
    let with = |columns: usize| wanted.iter().filter(|l| l.split('\t').count() == columns).count();
    assert!(with(3) > 0 && with(4) as u64 == count.div_ceil(4), "expiry and user bits");
    for (nth, engine) in ENGINES.iter().enumerate() {
        let mut from = source.clone();
        for format in FORMATS {
            let file = dir.join(format!("{nth}.{format}"));
            let told = silica_ok(&["export", arg(&file), "--path", arg(&from)]);
            assert!(told.contains(&format!("exported {count} entries")), "{told}");
            let to = dir.join(format!("{nth}-{format}"));
            let at = [&["--path", arg(&to)], *engine].concat();
            let told = silica_ok(&[&["import", arg(&file)], &at[..]].concat());
            assert!(told.contains(&format!("imported {count} records")), "{told}");
            // A second time changes nothing.
            silica_ok(&[&["import", arg(&file)], &at[..2]].concat());
            assert_eq!(lines(&at[..2]), wanted, "{engine:?} {format}");
            from = to;
        }
    }
    // By pipes, and base64.
    let piped = exported(&["--path", arg(&source), "--format", "ndjson", "--base64"]);
    assert!(String::from_utf8_lossy(&piped).contains("value_base64"));
    let to = dir.join("piped");
    let mut child = silica(&["import", "-", "--format", "ndjson", "--path", arg(&to)]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &piped).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(lines(&["--path", arg(&to)]), wanted);
}

#[test]
fn what_scan_prints_is_loaded() {
    let dir = scratch("transfer-scan");
    let (one, other, file) = (dir.join("one"), dir.join("other"), dir.join("x"));
    for (key, value) in [("a\\\\b", "c:\\\\new\\\\"), ("t\\tab", "line\\nbreak"), ("\\xff", "")] {
        silica_ok(&["put", key, value, "--path", arg(&one)]);
    }
    let scanned = silica_ok(&["scan", "--limit", "0", "--path", arg(&one)]);
    std::fs::write(&file, &scanned).unwrap();
    silica_ok(&["load", arg(&file), "--path", arg(&other)]);
    assert_eq!(silica_ok(&["scan", "--limit", "0", "--path", arg(&other)]), scanned);
    assert_eq!(silica_ok(&["get", "a\\\\b", "--raw", "--path", arg(&other)]), "c:\\new\\");
    // As they are, backslashes included.
    std::fs::write(&file, "k\tc:\\new\tx\n").unwrap();
    silica_ok(&["load", arg(&file), "--format", "plain", "--path", arg(&other)]);
    assert_eq!(silica_ok(&["get", "k", "--raw", "--path", arg(&other)]), "c:\\new\tx");
}

fn refused(args: &[&str], words: &[&str]) {
    let output = silica(args).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    words.iter().for_each(|word| assert!(text.contains(word), "{args:?}: {word}: {text}"));
}

#[test]
fn a_damaged_file_is_named_with_the_place_and_an_interrupted_import_goes_on() {
    let dir = scratch("transfer-damaged");
    let first = dir.join("first.ndjson");
    std::fs::write(&first, entries(3000)).unwrap();
    let store = dir.join("store");
    silica_ok(&["import", arg(&first), "--path", arg(&store)]);
    let good = dir.join("good.rdb");
    silica_ok(&["export", arg(&good), "--path", arg(&store)]);
    let bytes = std::fs::read(&good).unwrap();
    let (bad, target) = (dir.join("bad.rdb"), dir.join("target"));
    let at = ["--path", arg(&target)];
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    std::fs::write(&bad, flipped).unwrap();
    refused(&[&["import", arg(&bad)], &at[..]].concat(), &["bad.rdb at byte", "damaged"]);
    std::fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
    refused(&[&["import", arg(&bad)], &at[..]].concat(), &["bad.rdb at byte", "cut short"]);
    assert!(!target.exists(), "nothing is taken of a damaged RDB file");
    let inside = store.join("x.rdb");
    refused(&["export", arg(&inside), "--path", arg(&store)], &["outside"]);
    refused(&["import", arg(&dir), "--path", arg(&store)], &["--format"]);

    for format in ["tsv", "csv", "ndjson"] {
        let file = dir.join(format!("bad.{format}"));
        let mut text = exported(&["--path", arg(&store), "--format", format]);
        let end = text.len();
        text.extend_from_slice(b"\\q\n");
        std::fs::write(&file, text).unwrap();
        let target = dir.join(format!("target-{format}"));
        let import = ["import", arg(&file), "--sync-every", "1", "--path", arg(&target)];
        let place = format!("at byte {end}, record 3001");
        refused(&import, &[&place]);
        let again = [&import[..], &["--resume"]].concat();
        refused(&again, &[&place, "going on at byte"]);
        let count = silica_ok(&["count", "--exact", "--path", arg(&target)]);
        assert_eq!(count, "3000\n", "{format}");
    }
}

fn ask(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.ask(&words).expect("a reply")
}

fn value(bytes: &[u8]) -> Reply {
    Reply::Bytes(Some(bytes.to_vec()))
}

fn has_redis() -> bool {
    let is_there = Command::new("redis-server").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: redis-server is missing (Debian: apt-get install redis)");
    }
    is_there
}

/// A string that Redis packs.
fn long() -> String {
    "abcdefgh-".repeat(4000)
}

fn fill_redis(client: &mut Client) {
    for n in 0..300 {
        ask(client, &format!("SET key:{n} {}", n * n * n - 1000));
    }
    client.ask(&[b"SET", b"long", long().as_bytes()]).unwrap();
    client.ask(&[b"SET", b"odd \0\xff", b"\r\n\\"]).unwrap();
    ask(client, "SET later x EX 100000");
    ask(client, "SET soon x PX 1");
    for line in [
        "RPUSH list a b 3",
        "SADD set a b",
        "SADD numbers 1 2 3",
        "HSET hash f v",
        "ZADD zset 1 a 2.5 b",
        "XADD stream * f v",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group me COUNT 1 STREAMS stream >",
        "SELECT 3",
        "SET third 3",
        "SELECT 0",
    ] {
        ask(client, line);
    }
    // Larger ones are encoded in other ways.
    for n in 0..600 {
        ask(client, &format!("RPUSH list {n}-{}", "x".repeat(30)));
        ask(client, &format!("HSET hash f{n} {}", "y".repeat(70)));
        ask(client, &format!("ZADD zset {n}.5 m{n}"));
        ask(client, &format!("SADD set m{n}"));
    }
}

#[test]
fn files_of_redis_are_taken_and_ours_by_redis() {
    if !has_redis() {
        return;
    }
    let dir = scratch("transfer-redis");
    let (there, back) = (dir.join("there"), dir.join("back"));
    std::fs::create_dir_all(&there).unwrap();
    std::fs::create_dir_all(&back).unwrap();
    let old = Server::start_redis_in(&there, &dir.join("old"));
    let mut client = old.client();
    fill_redis(&mut client);
    assert_eq!(ask(&mut client, "SAVE"), Reply::Status("OK".into()));
    let store = dir.join("store");
    let at = ["--path", arg(&store)];
    let told = silica_ok(&[&["import", arg(&there.join("dump.rdb"))], &at[..]].concat());
    assert!(!told.contains("of type"), "everything is taken: {told}");
    assert!(told.contains("imported 310 records"), "pages are no records: {told}");
    drop(old);

    let server = Server::start(&store, &[]);
    let check = |client: &mut Client| {
        assert_eq!(ask(client, "DBSIZE"), Reply::Number(309));
        for (line, number) in [
            ("LLEN list", 603),
            ("SCARD set", 602),
            ("SCARD numbers", 3),
            ("HLEN hash", 601),
            ("ZCARD zset", 602),
            ("XLEN stream", 1),
            ("SISMEMBER set m77", 1),
            ("ZRANK zset m599", 601),
        ] {
            assert_eq!(ask(client, line), Reply::Number(number), "{line}");
        }
        assert_eq!(ask(client, "LINDEX list 2"), value(b"3"));
        assert_eq!(ask(client, "HGET hash f5"), value("y".repeat(70).as_bytes()));
        assert_eq!(ask(client, "GET key:299"), value(b"26729899"));
        assert_eq!(ask(client, "GET key:0"), value(b"-1000"));
        assert_eq!(ask(client, "GET long"), value(long().as_bytes()));
        assert_eq!(client.ask(&[b"GET", b"odd \0\xff"]).unwrap(), value(b"\r\n\\"));
        let Reply::Number(ttl) = ask(client, "TTL later") else { panic!("a number") };
        assert!((90_000..=100_000).contains(&ttl), "{ttl}");
        assert_eq!(ask(client, "TTL long"), Reply::Number(-1));
    };
    check(&mut server.client());
    let mut third = server.client();
    ask(&mut third, "SELECT 3");
    assert_eq!(ask(&mut third, "GET third"), value(b"3"));
    drop(third);
    let served = dir.join("served.rdb");
    let address = format!("127.0.0.1:{}", server.port);
    silica_ok(&["export", arg(&served), "--addr", &address]);
    server.stop();
    let dump = back.join("dump.rdb");
    silica_ok(&[&["export", arg(&dump)], &at[..]].concat());
    assert_eq!(std::fs::read(&served).unwrap(), std::fs::read(&dump).unwrap());
    let new = Server::start_redis_in(&back, &dir.join("new"));
    check(&mut new.client());
    into_servers_that_run(&dir, &new, &check);
}

#[test]
fn sorted_sets_of_entries_are_verified_and_moved_as_others_are() {
    let dir = scratch("transfer-entries");
    let store = dir.join("store");
    let server = Server::start(&store, &[]);
    let mut client = server.client();
    ask(&mut client, "CONFIG SET zset-max-paged-entries 50");
    for n in 0..500u64 {
        ask(&mut client, &format!("ZADD board {}.5 member:{n:04}", n * 7919 % 500));
    }
    ask(&mut client, "ZADD small 1 a");
    let all = ask(&mut client, "ZRANGE board 0 -1 WITHSCORES");
    drop(client);
    server.stop();
    let told = silica_ok(&["verify", "--path", arg(&store)]);
    assert!(told.contains("have 1001 elements on 1001 pages; 0 pages wait"), "{told}");
    for (format, engine) in [("rdb", "wip"), ("tsv", "wip"), ("rdb", "silt"), ("tsv", "silt")] {
        let (file, other) = (dir.join(format), dir.join(format!("{format}-{engine}")));
        silica_ok(&["export", arg(&file), "--format", format, "--path", arg(&store)]);
        let to = ["--path", arg(&other), "--engine", engine];
        silica_ok(&[&["import", arg(&file), "--format", format], &to[..]].concat());
        silica_ok(&["verify", "--path", arg(&other)]);
        let server = Server::start(&other, &["--engine", engine]);
        let mut client = server.client();
        // An engine without an order makes pages of entries at the first change.
        for changes in 0..2 {
            let within = format!("{format}, {engine}, {changes} changes");
            assert_eq!(ask(&mut client, "ZRANGE board 0 -1 WITHSCORES"), all, "{within}");
            assert_eq!(ask(&mut client, "ZRANK board member:0001"), Reply::Number(419), "{within}");
            assert_eq!(ask(&mut client, "DBSIZE"), Reply::Number(2), "{within}");
            // In a transaction, which stands before the engine.
            ask(&mut client, "MULTI");
            ask(&mut client, "ZINCRBY board 1000 member:0001");
            ask(&mut client, "EXEC");
            assert_eq!(ask(&mut client, "ZRANK board member:0001"), Reply::Number(499), "{within}");
            ask(&mut client, "ZADD board 419.5 member:0001");
        }
        drop(client);
        server.stop();
        silica_ok(&["verify", "--path", arg(&other)]);
    }
}

/// Imports Redis's file into our server and into Redis, and `check`s both.
fn into_servers_that_run(dir: &Path, redis: &Server, check: &dyn Fn(&mut Client)) {
    let cache = Server::start_cache(&dir.join("cache"), "64MiB", &[]);
    ask(&mut redis.client(), "FLUSHALL");
    for server in [&cache, redis] {
        let address = format!("127.0.0.1:{}", server.port);
        let told =
            silica_ok(&["import", arg(&dir.join("there").join("dump.rdb")), "--to", &address]);
        assert!(told.contains("imported 310 records"), "{told}");
        let mut client = server.client();
        check(&mut client);
        ask(&mut client, "SELECT 3");
        assert_eq!(ask(&mut client, "GET third"), value(b"3"));
    }
    let tsv = dir.join("pages.tsv");
    silica_ok(&["export", arg(&tsv), "--path", arg(&dir.join("store"))]);
    let address = format!("127.0.0.1:{}", cache.port);
    let parts = silica(&["import", arg(&tsv), "--to", &address]).output().unwrap();
    assert!(said(&parts).contains("export it as rdb"), "{}", said(&parts));
}

/// Entries with user bits, expiry and odd bytes, by the protocols that have them.
fn fill(server: &Server) {
    let mut client = server.client();
    for n in 0..500 {
        ask(&mut client, &format!("SET key:{n} value-{n}"));
    }
    client.ask(&[b"SET", b"odd \0\xff", b"\r\n\\", b"PXAT", b"4000000000000"]).unwrap();
    client.send(b"quit\r\n").ok();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    use std::io::{Read, Write};
    stream.write_all(b"set flagged 4294967295 0 5\r\nhello\r\nquit\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "STORED\r\n");
}

fn names(directory: &Path) -> Vec<String> {
    let all = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_served_store_is_administered_through_its_server() {
    let dir = scratch("transfer-served");
    let (store, socket, word) = (dir.join("store"), dir.join("socket"), dir.join("word"));
    std::fs::write(&word, "hush\n").unwrap();
    let extra = ["--unix", arg(&socket)];
    let server = Server::start(&store, &extra);
    fill(&server);
    let port = format!("127.0.0.1:{}", server.port);
    for address in [port.as_str(), arg(&socket)] {
        let ok = |args: &[&str]| silica_ok(&[args, &["--addr", address]].concat());
        assert_eq!(ok(&["count", "--exact"]), "502\n");
        assert!(ok(&["count", "--json"]).contains("\"estimate\"") || !ok(&["count"]).is_empty());
        assert!(ok(&["verify"]).contains("all well: 1 keyspaces checked"));
        assert!(ok(&["compact"]).contains("1 keyspaces are compact"));
        let stats: serde_json::Value = serde_json::from_str(&ok(&["stats", "--json"])).unwrap();
        assert!(stats["metrics"]["puts"].as_f64().unwrap() >= 502.0, "{stats}");
        assert_eq!(stats["engine"], "wip");
        let inspected = ok(&["inspect"]);
        assert!(inspected.contains("database 0") && inspected.contains("engine: wip"));
        let inspected: serde_json::Value =
            serde_json::from_str(&ok(&["inspect", "--json"])).unwrap();
        assert_eq!(inspected["databases"]["0"]["engine"], "wip");
    }
    let addr = ["--addr", port.as_str()];
    let served = lines(&addr);
    assert!(served.contains("flagged\thello\t0\t4294967295"), "{served:?}");
    assert!(served.contains("odd \\x00\\xff\t\\r\\n\\\\\t4000000000000"), "{served:?}");

    let backup = dir.join("backup");
    let told = silica_ok(&[&["backup", arg(&backup)], &addr[..]].concat());
    assert!(told.contains("1 keyspaces (0 in memory, empty)"), "{told}");
    silica_ok(&[&["backup", arg(&backup), "--update"], &addr[..]].concat());
    let before = names(&store);
    let inside = silica(&[&["backup", arg(&store.join("x"))], &addr[..]].concat()).output();
    let inside = said(&inside.unwrap());
    assert!(inside.contains("give a path outside"), "{inside}");
    assert_eq!(names(&store), before);

    let locked = silica(&["count", "--path", arg(&store)]).output().unwrap();
    assert_eq!(locked.status.code(), Some(4));
    assert!(said(&locked).contains("--addr HOST:PORT"), "{}", said(&locked));
    let both = silica(&[&["count", "--path", arg(&store)], &addr[..]].concat()).output().unwrap();
    assert!(said(&both).contains("give one of them"), "{}", said(&both));
    server.stop();
    assert_eq!(lines(&["--path", arg(&store)]), served);
    assert_eq!(lines(&["--path", arg(&backup)]), served);

    let path = dir.join("closed");
    let server = Server::start_cache_of(&path, "64MiB", &["--password", "hush"], Some("hush"));
    let port = format!("127.0.0.1:{}", server.port);
    let count = ["count", "--addr", &port];
    let refused = silica(&count).output().unwrap();
    assert!(said(&refused).contains("NOAUTH"), "{}", said(&refused));
    let login = ["--password-file", arg(&word)];
    assert_eq!(silica_ok(&[&count[..], &login, &["--exact"]].concat()), "0\n");
    let user = ["--user", "default"];
    silica_ok(&[&["verify", "--addr", &port], &login[..], &user].concat());
    let none = silica(&[&["backup", arg(&dir.join("no")), "--addr", &port], &login[..]].concat());
    let none = said(&{ none }.output().unwrap());
    assert!(none.contains("silica export --addr"), "{none}");
}

#[test]
fn a_save_is_what_a_killed_cache_comes_back_with() {
    let path = scratch("transfer-save").join("cache");
    let directory = path.with_extension("image");
    for mode in ["crcw", "erew"] {
        let extra = ["--image", arg(&directory), "--mode", mode, "--loops", "2"];
        let start = || Server::start_cache(&path, "64MiB", &extra);
        let server = start();
        let mut client = server.client();
        let Reply::Number(started) = ask(&mut client, "LASTSAVE") else { panic!("a number") };
        ask(&mut client, &format!("SET kept {mode}"));
        assert_eq!(ask(&mut client, "SAVE"), Reply::Status("OK".into()));
        ask(&mut client, "SET late 1");
        let Reply::Number(saved) = ask(&mut client, "LASTSAVE") else { panic!("a number") };
        assert!(saved >= started, "{saved} {started}");
        server.kill();
        let server = start();
        let mut client = server.client();
        assert_eq!(ask(&mut client, "GET kept"), value(mode.as_bytes()));
        assert_eq!(ask(&mut client, "GET late"), Reply::Bytes(None));
        let begun = Reply::Status("Background saving started".into());
        assert_eq!(ask(&mut client, "BGSAVE"), begun);
        while !matches!(ask(&mut client, "SILICA.JOB STATE save"), Reply::Bytes(Some(text))
            if text == b"done 1 databases saved")
        {
            std::thread::yield_now();
        }
        assert_eq!(ask(&mut client, "FLUSHALL"), Reply::Status("OK".into()));
        server.kill();
        let server = start();
        assert_eq!(ask(&mut server.client(), "DBSIZE"), Reply::Number(0), "cleared for good");
        server.kill();
    }
    let server = Server::start_cache(&path, "64MiB", &[]);
    let Reply::Error(error) = ask(&mut server.client(), "SAVE") else { panic!("an error") };
    assert!(error.contains("--image DIR"), "{error}");
}
