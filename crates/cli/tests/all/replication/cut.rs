//! A primary that is made of a script: it breaks off where it should not.

use super::*;
use crate::support::scratch;
use silica_proto::rdb::{Entry, FileWriter, Object, ObjectEntry};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// What is sent after PSYNC.
type Script = Arc<Mutex<Vec<u8>>>;

/// Answers as a primary does, and sends what the script says; then the link ends.
fn serve(stream: TcpStream, script: &Script) -> std::io::Result<()> {
    let mut write = stream.try_clone()?;
    let mut read = BufReader::new(stream);
    loop {
        let mut words = Vec::new();
        let mut line = String::new();
        if read.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let count: usize = line.trim_end().trim_start_matches('*').parse().unwrap_or(0);
        for _ in 0..count {
            line.clear();
            read.read_line(&mut line)?;
            line.clear();
            read.read_line(&mut line)?;
            words.push(line.trim_end().to_ascii_lowercase());
        }
        match words.first().map(String::as_str) {
            Some("psync") => {
                let bytes = script.lock().expect("nobody has panicked").clone();
                write.write_all(&bytes)?;
                return Ok(());
            }
            Some("info") => write.write_all(b"$6\r\nrole:x\r\n")?,
            Some("ping") => write.write_all(b"+PONG\r\n")?,
            _ => write.write_all(b"+OK\r\n")?,
        }
    }
}

/// A file with strings and a list large enough to have pages.
fn file() -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = FileWriter::begin(&mut out);
    for n in 0..20 {
        let (key, value) = (format!("new:{n}").into_bytes(), vec![b'v'; n]);
        let (key, value) = (key.into(), value.into());
        let entry = Entry { database: 0, key, value, expires_unix_ms: 0, user_bits: 0 };
        writer.entry(&entry, &mut out);
    }
    let list = (0..3_000).map(|n| format!("element {n}").into_bytes()).collect();
    let (key, value) = (b"new:list".to_vec(), Object::List(list));
    let entry = ObjectEntry { database: 1, key, value, expires_unix_ms: 0 };
    writer.object(&entry, &mut out);
    writer.end(&mut out);
    out
}

/// A primary of the script that is returned, and its port.
fn start() -> (Script, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port();
    let script = Script::default();
    let shared = Arc::clone(&script);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|stream| serve(stream, &shared));
        }
    });
    (script, port)
}

/// The primary's clock is behind, or what it has sent is late: only its own clock counts for what
/// it changes, the replica's for what readers see.
#[test]
fn the_primarys_clock_says_what_it_still_had() {
    let dir = scratch("replication-clock");
    let (script, port) = start();
    let now_ms = || {
        let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        passed.expect("it is after 1970").as_millis() as u64
    };
    let over = (now_ms() - 5_000).to_string();
    let file = file();
    let mut bytes = format!("+FULLRESYNC {ID} 1000\r\n${}\r\n", file.len()).into_bytes();
    bytes.extend(&file);
    for line in [
        "SELECT 0",
        "SET kept v PXAT T",
        "PERSIST kept",
        "RPUSH list a b",
        "PEXPIREAT list T",
        "RENAME list moved",
        "PERSIST moved",
        "SET longer v PXAT T",
        "GETEX longer PXAT 99999999999999",
        "HSET hash n 1",
        "PEXPIREAT hash T",
        "HINCRBY hash n 4",
        "PERSIST hash",
        "SET over v PXAT T",
        // As Redis up to 6.2 counts.
        "SETEX counted 1000 v",
        "SET counts v",
        "EXPIRE counts 1000",
        "SET end v",
    ] {
        let meant = |word: &str| if word == "T" { over.clone() } else { word.to_string() };
        let words: Vec<String> = line.split(' ').map(meant).collect();
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        words
            .iter()
            .for_each(|word| bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes()));
    }
    *script.lock().expect("nobody has panicked") = bytes;
    let silica = Server::start(&dir.join("replica"), &[]);
    let mut replica = silica.client();
    ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {port}"));
    wait_for("the stream", || try_ask(&mut replica, "EXISTS end") == Reply::Number(1));
    for key in ["kept", "moved", "longer", "hash", "counted", "counts"] {
        assert_eq!(ask(&mut replica, &format!("EXISTS {key}")), Reply::Number(1), "{key}");
    }
    assert_eq!(ask(&mut replica, "HGET hash n"), Reply::Bytes(Some(b"5".to_vec())));
    for (line, key) in [("EXISTS over", "over"), ("EXISTS list", "list")] {
        assert_eq!(ask(&mut replica, line), Reply::Number(0), "{key}");
    }
    assert_eq!(ask(&mut replica, "GET over"), Reply::Bytes(None));
    assert!(!flat(ask(&mut replica, "KEYS *")).contains(&"over".to_string()));
    for key in ["counted", "counts"] {
        let Reply::Number(seconds) = ask(&mut replica, &format!("TTL {key}")) else { panic!() };
        assert!((900..=1000).contains(&seconds), "{key}: {seconds} s");
    }
}

#[test]
fn nothing_of_a_broken_file_is_seen() {
    let dir = scratch("replication-cut");
    let (script, port) = start();
    let path = dir.join("replica");
    let silica = Server::start(&path, &[]);
    let mut replica = silica.client();
    ask(&mut replica, "SET old 1");
    ask(&mut replica, "RPUSH old:list a b c");
    let before = contents(&mut replica);
    let file = file();
    let head = format!("+FULLRESYNC {ID} 1000\r\n${}\r\n", file.len()).into_bytes();
    let mut damaged = file.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let mut newer = file.clone();
    newer[5..9].copy_from_slice(b"0099");
    let mut random = Prng::new(3);
    let mut bad: Vec<(Vec<u8>, &str)> = vec![(damaged, "damaged"), (newer, "RDB version 99")];
    bad.extend((0..12).map(|_| {
        let len = random.below(file.len() as u64) as usize;
        (file[..len].to_vec(), "has closed the link")
    }));
    bad.push((file[..file.len() - 1].to_vec(), "has closed the link"));
    for (nth, (bytes, word)) in bad.into_iter().enumerate() {
        *script.lock().expect("nobody has panicked") = [&head[..], &bytes].concat();
        // Another name of the same primary: it is tried at once.
        let name = ["127.0.0.1", "localhost"][nth % 2];
        let log = path.with_extension("log");
        let seen = std::fs::read_to_string(&log).unwrap_or_default().len();
        ask(&mut replica, &format!("REPLICAOF {name} {port}"));
        wait_for("the end of a link", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.get(seen..).is_some_and(|new| new.contains(word))
        });
        assert_eq!(contents(&mut replica), before, "{} bytes, {word}", bytes.len());
    }
    *script.lock().expect("nobody has panicked") = [&head[..], &file].concat();
    ask(&mut replica, &format!("REPLICAOF 127.0.0.2 {port}"));
    ask(&mut replica, &format!("REPLICAOF 127.0.0.1 {port}"));
    wait_for("all data", || try_ask(&mut replica, "EXISTS new:19") == Reply::Number(1));
    let now = contents(&mut replica);
    assert_eq!(now.len(), 21, "{:?}", now.keys().collect::<Vec<_>>());
    assert!(now["1/new:list"].ends_with("element 2999"));
}
