//! Two Silicas: records in the stream, all data as blocks, and servers of Redis between them.

use super::proxy::Proxy;
use super::*;
use crate::support::{encode, scratch};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Writes without a look at what they replace: `flags` of memcached's clients, and RESP.
fn set_flags(server: &Server, key: &str, flags: u32, value: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let text = format!("set {key} {flags} 0 {}\r\n{value}\r\n", value.len());
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("it answers");
    assert_eq!(line, "STORED\r\n");
}

/// What a client of memcached gets for `key`.
fn get_by_memcached(server: &Server, key: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    stream.write_all(format!("get {key}\r\n").as_bytes()).expect("it reads");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("it answers"));
    let mut text = String::new();
    loop {
        match lines.next().as_deref() {
            Some("END") | None => return text,
            Some(line) => text += &format!("{line};"),
        }
    }
}

fn form(client: &mut Client) -> String {
    info(client, "replication", "silica_repl_form")
}

fn syncs(client: &mut Client) -> (String, String) {
    let one = |client: &mut Client, name| info(client, "stats", name);
    (one(client, "sync_full"), one(client, "sync_partial_ok"))
}

/// A log that has grown since a moment.
fn log_of(path: &Path) -> String {
    std::fs::read_to_string(path.with_extension("log")).unwrap_or_default()
}

/// What a replica with a durable engine in order can do.
const IN_ORDER: [&str; 4] = ["eof", "psync2", "silica1", "silica1-elements"];

/// A replica that is made by hand, and reads what its primary sends.
struct Hand {
    read: BufReader<TcpStream>,
    write: TcpStream,
}

impl Hand {
    /// Says to `server` that it can do `capabilities`.
    fn connect(server: &Server, capabilities: &[&str]) -> Hand {
        let write = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        write.set_read_timeout(Some(LIMIT)).expect("a limit above zero");
        let mut hand = Hand { read: BufReader::new(write.try_clone().expect("a handle")), write };
        for capability in capabilities {
            hand.send(&[b"REPLCONF", b"capa", capability.as_bytes()]);
            assert_eq!(hand.line(), "+OK");
        }
        hand
    }

    fn send(&mut self, words: &[&[u8]]) {
        let mut bytes = Vec::new();
        encode(&mut bytes, words);
        self.write.write_all(&bytes).expect("it reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.read.read_line(&mut line).expect("it answers");
        line.trim_end().to_string()
    }

    /// Asks for all data as blocks: the line before them, and their bytes.
    fn blocks(&mut self) -> (String, Vec<u8>) {
        self.send(&[b"PSYNC", b"?", b"-1"]);
        let line = self.line();
        assert!(line.starts_with("+SUMMARY ") && line.len() == 41, "{line}");
        self.send(&[b"REPLCONF", b"silica-summary", b"what is damaged"]);
        assert!(self.line().starts_with("-ERR a summary"));
        // Of no ranges.
        let nothing = [&[1, 0, 0, 0, 0][..], &checksum(&[1, 0, 0, 0, 0]).to_le_bytes()].concat();
        self.send(&[b"REPLCONF", b"silica-summary", &nothing]);
        assert_eq!(self.line(), "+OK");
        self.send(&[b"PSYNC", b"?", b"-1"]);
        let line = self.line();
        let mut all = Vec::new();
        loop {
            let start = all.len();
            all.resize(start + 4, 0);
            self.read.read_exact(&mut all[start..]).expect("a length");
            let len = u32::from_le_bytes(all[start..].try_into().expect("four bytes"));
            all.resize(start + 4 + len as usize + 4, 0);
            self.read.read_exact(&mut all[start + 4..]).expect("a block");
            // The last one.
            if all[start + 5] == 5 {
                return (line, all);
            }
        }
    }

    /// Says that it has all data, until `primary` knows that `count` replicas have: an answer that
    /// comes before the end of the data is sent is none.
    fn is_online(&mut self, primary: &mut Client, count: usize) {
        wait_for("a replica that is online", || {
            self.send(&[b"REPLCONF", b"ACK", b"0"]);
            flat(ask(primary, "INFO replication"))[0].matches("state=online").count() == count
        });
    }

    /// Reads the stream until it has `text`.
    fn read_until(&mut self, text: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        while !all.windows(text.len()).any(|part| part == text) {
            let len = {
                let piece = self.read.fill_buf().expect("the stream goes on");
                assert!(!piece.is_empty(), "the stream has ended");
                all.extend_from_slice(piece);
                piece.len()
            };
            self.read.consume(len);
        }
        all
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    silica_base::checksum(bytes)
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}

#[test]
fn user_bits_and_expiries_travel_exactly() {
    let dir = scratch("replication-records");
    let [first, second] =
        ["first", "second"].map(|name| Server::start(&dir.join(name), &["--loops", "2"]));
    let [mut one, mut two] = [&first, &second].map(Server::client);
    set_flags(&first, "before", 7, "b");
    write(&mut one, &mut Prng::new(5), 500);
    follow(&mut two, first.port);
    must_be_equal(&mut one, &mut two, "all data");
    assert_eq!((form(&mut one), form(&mut two)), ("records".into(), "records".into()));
    set_flags(&first, "behind", 0x7FFF_FFFF, "v");
    for line in [
        "SET at x PXAT 9999999999123",
        "SET px x PX 90000001",
        "GETEX at PXAT 9999999999124",
        "INCR behind",
        "MULTI",
        "SET in:multi 1",
        "RPUSH in:list a b",
        "INCRBYFLOAT in:multi 0.5",
        "EXEC",
        "EVAL redis.call('SET',KEYS[1],1,'PX',80000001) 1 by:script",
    ] {
        // INCR of a value that is no number changes nothing.
        let words: Vec<&[u8]> = line.splitn(4, ' ').map(str::as_bytes).collect();
        match line.starts_with("EVAL") {
            true => {
                let script = b"return redis.call('SET',KEYS[1],1,'PX',80000001)";
                one.ask(&[b"EVAL", script, b"1", b"by:script"]).expect("a reply");
            }
            false if words.len() < 4 => drop(try_ask(&mut one, line)),
            false => drop(ask(&mut one, line)),
        }
    }
    let mut random = Prng::new(6);
    write(&mut one, &mut random, 3_000);
    must_be_equal(&mut one, &mut two, "records");
    for key in ["before", "behind", "in:multi"] {
        let (want, have) = (get_by_memcached(&first, key), get_by_memcached(&second, key));
        assert_eq!(want, have, "{key}");
    }
    assert_eq!(get_by_memcached(&second, "behind"), "VALUE behind 2147483647 1;v;");
    assert_eq!(get_by_memcached(&second, "before"), "VALUE before 7 1;b;");
    // It goes on after a crash, exactly there.
    let full = syncs(&mut one).0;
    second.kill();
    set_flags(&first, "meanwhile", 9, "m");
    let second = start_replica(&dir.join("second"), first.port, &[]);
    let mut two = second.client();
    must_be_equal(&mut one, &mut two, "after a crash");
    assert_eq!(get_by_memcached(&second, "meanwhile"), "VALUE meanwhile 9 1;m;");
    assert_eq!(syncs(&mut one).0, full, "the rest was enough");
}

#[test]
fn whoever_does_not_know_records_gets_commands() {
    let dir = scratch("replication-records-mixed");
    let [first, second] =
        ["first", "second"].map(|name| Server::start(&dir.join(name), &["--loops", "2"]));
    let [mut one, mut two] = [&first, &second].map(Server::client);
    // One of them says nothing for as long as the test takes.
    ask(&mut one, "CONFIG SET repl-timeout 600");
    follow(&mut two, first.port);
    ask(&mut one, "SET a 1");
    must_be_equal(&mut one, &mut two, "at first");
    assert_eq!(form(&mut one), "records");
    let full = |client: &mut Client| syncs(client).0.parse::<u64>().expect("a number");
    // One of each: what a replica that knows records is sent, and one that does not.
    let mut own = Hand::connect(&first, &IN_ORDER);
    let (line, _) = own.blocks();
    assert!(line.starts_with("+FULLRESYNC ") && line.ends_with(" silica1"), "{line}");
    own.is_online(&mut one, 2);
    ask(&mut one, "SET as:record 1");
    assert!(has(&own.read_until(b"as:record"), b"SILICA.ENTRIES"));
    let mut plain = Hand::connect(&first, &["eof", "psync2"]);
    plain.send(&[b"PSYNC", b"?", b"-1"]);
    assert!(!plain.line().contains("silica1"));
    // Its file, up to the mark.
    let mark = plain.line();
    plain.read_until(mark.strip_prefix("$EOF:").expect("a mark").as_bytes());
    plain.is_online(&mut one, 3);
    wait_for("commands", || form(&mut one) == "commands");
    ask(&mut one, "SET as:command 1");
    let text = plain.read_until(b"as:command");
    assert!(has(&text, b"$3\r\nSET\r\n") && !has(&text, b"SILICA"));
    let text = own.read_until(b"as:command");
    assert!(has(&text, b"$3\r\nSET\r\n"), "all read one stream");
    must_be_equal(&mut one, &mut two, "by commands");
    // When it has left, commands go on for as long as it may come back for them.
    let before = full(&mut one);
    drop(plain);
    wait_for("the end of a replica", || info(&mut one, "replication", "connected_slaves") == "2");
    assert_eq!(form(&mut one), "commands");
    let large = "v".repeat(100_000);
    for nth in 0..30 {
        ask(&mut one, &format!("SET large:{nth} {large}"));
        // As a command, and as a record in the end.
        own.read_until(format!("large:{nth}").as_bytes());
    }
    wait_for("records", || {
        ask(&mut one, "SET small 1");
        form(&mut one) == "records"
    });
    set_flags(&first, "flagged", 3, "f");
    must_be_equal(&mut one, &mut two, "records again");
    assert_eq!(get_by_memcached(&second, "flagged"), "VALUE flagged 3 1;f;");
    assert_eq!(full(&mut one), before, "nobody had to begin anew");
    // A server that is told to do without.
    ask(&mut two, "CONFIG SET repl-records no");
    ask(&mut one, "CLIENT KILL TYPE replica");
    wait_for("commands", || form(&mut one) == "commands");
    must_be_equal(&mut one, &mut two, "without records");
}

#[test]
fn a_chain_that_ends_in_redis_gets_commands_without_a_new_beginning() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-records-chain");
    let [first, second] =
        ["first", "second"].map(|name| Server::start(&dir.join(name), &["--loops", "2"]));
    let [mut one, mut two] = [&first, &second].map(Server::client);
    follow(&mut two, first.port);
    let mut random = Prng::new(31);
    write(&mut one, &mut random, 1_000);
    must_be_equal(&mut one, &mut two, "two of a kind");
    let full = syncs(&mut one).0;
    let own = dir.join("data");
    std::fs::create_dir_all(&own).expect("the directory can be made");
    let redis = Server::start_redis_in(&own, &dir.join("redis"));
    let mut three = redis.client();
    follow(&mut three, second.port);
    write(&mut one, &mut random, 1_000);
    must_be_equal(&mut one, &mut three, "behind a Silica");
    must_be_equal(&mut one, &mut two, "before a Redis");
    assert_eq!((form(&mut one), form(&mut two)), ("commands".into(), "commands".into()));
    assert_eq!(syncs(&mut one).0, full, "the link was made anew, and went on");
    // Redis takes the place of the first.
    ask(&mut three, "REPLICAOF NO ONE");
    follow(&mut two, redis.port);
    must_be_equal(&mut three, &mut two, "the other way round");
}

/// Sends `script` to whoever asks for all data.
fn serve(stream: TcpStream, script: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut write = stream.try_clone()?;
    let mut client = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if client.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let count: usize = line.trim_end().trim_start_matches('*').parse().unwrap_or(0);
        let mut words = Vec::new();
        for _ in 0..count {
            client.read_line(&mut String::new())?;
            let mut word = String::new();
            client.read_line(&mut word)?;
            words.push(word.trim_end().to_ascii_lowercase());
        }
        match words.first().map(String::as_str) {
            Some("psync") => {
                let bytes = script.lock().expect("nobody has panicked").clone();
                write.write_all(&bytes)?;
                write.shutdown(Shutdown::Write)?;
                // What is not read would reset the connection, and what was sent with it.
                return std::io::copy(&mut client, &mut std::io::sink()).map(drop);
            }
            Some("info") => write.write_all(b"$6\r\nrole:x\r\n")?,
            Some("ping") => write.write_all(b"+PONG\r\n")?,
            _ => write.write_all(b"+OK\r\n")?,
        }
    }
}

/// Blocks that are cut, damaged, or of a newer version, and what the replica says of them.
fn broken(blocks: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let mut random = Prng::new(3);
    let mut bad = Vec::new();
    for _ in 0..6 {
        let at = random.below(blocks.len() as u64) as usize;
        bad.push((blocks[..at].to_vec(), "has closed the link"));
    }
    bad.push((blocks[..blocks.len() - 1].to_vec(), "has closed the link"));
    let middle = blocks.len() / 2;
    bad.push(([&blocks[..middle], &[!blocks[middle]], &blocks[middle + 1..]].concat(), "damaged"));
    bad.push(([&[0xFF; 4][..], &blocks[4..]].concat(), "impossible length"));
    // A version that nobody knows, with a right checksum.
    let mut newer = blocks.to_vec();
    newer[4] = 2;
    let sum = silica_base::Checksum::at(0, 0).update(&newer[4..7]).finish();
    newer[7..11].copy_from_slice(&sum.to_le_bytes());
    bad.push((newer, "a block of version 2"));
    bad
}

#[test]
fn nothing_of_broken_blocks_or_records_is_seen() {
    let dir = scratch("replication-records-cut");
    let first = Server::start(&dir.join("first"), &["--loops", "2"]);
    let mut one = first.client();
    write(&mut one, &mut Prng::new(77), 600);
    let (head, blocks) = Hand::connect(&first, &IN_ORDER).blocks();
    let want = contents(&mut one);

    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port();
    let script = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&script);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|stream| serve(stream, &shared));
        }
    });
    let path = dir.join("replica");
    let silica = Server::start(&path, &[]);
    let mut replica = silica.client();
    ask(&mut replica, "SET old 1");
    ask(&mut replica, "RPUSH old:list a b c");
    let before = contents(&mut replica);
    let bad = broken(&blocks);
    let mut nth = 0;
    let mut send = |replica: &mut Client, bytes: Vec<u8>, word: &str| {
        *script.lock().expect("nobody has panicked") = bytes;
        let seen = log_of(&path).len();
        // Another name of the same primary: it is tried at once.
        nth += 1;
        ask(replica, &format!("REPLICAOF {} {port}", ["127.0.0.1", "localhost"][nth % 2]));
        wait_for(&format!("'{word}'"), || {
            log_of(&path).get(seen..).is_some_and(|t| t.contains(word))
        });
    };
    let begins = format!("{head}\r\n").into_bytes();
    for (bytes, word) in bad {
        send(&mut replica, [&begins[..], &bytes].concat(), word);
        assert_eq!(contents(&mut replica), before, "{word}");
    }
    // All data is whole, and a record behind it is not.
    let mut entries = vec![1, 1, 1, 3];
    entries.extend_from_slice(b"new\x00\x00\x01v");
    let sum = checksum(&entries).to_le_bytes();
    let record = [&entries[..], &sum].concat();
    let command = |record: &[u8]| {
        let mut bytes = Vec::new();
        encode(&mut bytes, &[b"SILICA.ENTRIES", record]);
        bytes
    };
    let mut flipped = record.clone();
    flipped[6] ^= 1;
    let mut version = record.clone();
    version[0] = 9;
    for (bad, word) in [
        (command(&flipped), "the checksum of a record is wrong"),
        (command(&version), "a record of version 9"),
        (command(&record)[..20].to_vec(), "has closed the link"),
    ] {
        send(&mut replica, [&begins[..], &blocks, &bad].concat(), word);
        assert_eq!(contents(&mut replica), want, "{word}");
    }
    send(&mut replica, [&begins[..], &blocks, &command(&record)].concat(), "has closed the link");
    wait_for("the record", || {
        try_ask(&mut replica, "GET new") == Reply::Bytes(Some(b"v".to_vec()))
    });
    ask(&mut replica, "REPLICAOF NO ONE");
    silica.stop();
    crate::support::silica_ok(&["--path", crate::support::arg(&path), "verify"]);
}

#[test]
fn who_was_away_for_long_gets_what_has_changed() {
    let dir = scratch("replication-records-away");
    let [first, second] =
        ["first", "second"].map(|name| Server::start(&dir.join(name), &["--loops", "2"]));
    let [mut one, mut two] = [&first, &second].map(Server::client);
    let value = "v".repeat(100);
    let lines: String =
        (0..20_000).map(|nth| format!("SET key:{nth:05} {value}{nth}\r\n")).collect();
    one.send(lines.as_bytes()).expect("the server reads");
    (0..20_000).for_each(|_| drop(one.reply().expect("a reply")));
    // Objects with pages, of which the second gets the pages.
    for nth in 0..20 {
        let words: Vec<String> = (0..300).map(|n| format!("element:{nth}:{n}")).collect();
        ask(&mut one, &format!("RPUSH list:{nth} {}", words.join(" ")));
    }
    let way = Proxy::start(first.port);
    follow(&mut two, way.port);
    must_be_equal(&mut one, &mut two, "at first");
    way.cut();
    wait_for("the end of the link", || info(&mut one, "replication", "connected_slaves") == "0");
    // More than the backlog, and of few keys.
    let large = "w".repeat(100_000);
    for nth in 0..40 {
        ask(&mut one, &format!("SET large {large}{nth}"));
    }
    ask(&mut one, "SET key:00007 changed");
    ask(&mut one, "DEL key:10000");
    ask(&mut one, "RPUSH list:3 more");
    way.mend();
    must_be_equal(&mut one, &mut two, "after it was away");
    assert_eq!(syncs(&mut one).0, "2", "the backlog had not enough");
    let log = log_of(&dir.join("second"));
    let copied = log.lines().filter_map(|line| {
        line.split(", ").find_map(|part| part.strip_suffix(" entries copied from what was here"))
    });
    let copied: Vec<u64> = copied.filter_map(|number| number.parse().ok()).collect();
    assert_eq!(copied.first(), Some(&0), "{log}");
    assert!(copied.last().is_some_and(|copied| *copied > 10_000), "{copied:?}");
    // What was copied is written as what came is: it outlives the process.
    second.stop();
    let second = start_replica(&dir.join("second"), first.port, &[]);
    must_be_equal(&mut one, &mut second.client(), "after a restart");
}
