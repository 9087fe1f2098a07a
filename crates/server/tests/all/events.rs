//! Keyspace notifications: the events of Redis, in its order, and none if they are off.

use crate::redis::Redis;
use crate::support::{Client, Probe, config, script, show, start_with};
use silica_base::{Prng, test_size};
use silica_server::{Config, Mode};
use std::time::{Duration, Instant};

/// What `ear` has heard so far, a line for each message.
pub(crate) fn heard(ear: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    ear.send(b"PING\r\n");
    loop {
        match show(&ear.reply().expect("the connection is open")) {
            text if text == "PONG" => return all,
            text => all.push(text),
        }
    }
}

/// A connection that hears all events of `classes`, which it chooses.
pub(crate) fn listen(mut ear: Client, classes: &str) -> Client {
    ear.ask("HELLO 3");
    assert_eq!(ear.ask(&format!("CONFIG SET notify-keyspace-events {classes}")), "OK");
    assert_eq!(ear.ask("PSUBSCRIBE __key*"), ">['psubscribe' '__key*' :1]");
    ear
}

/// Requests that Redis and we answer alike; K and L stand for keys.
const TEMPLATES: &[&str] = &[
    "SET K 1",
    "SET K 1",
    "SET K 5 EX 100",
    "SET K 1 NX",
    "SET K 1 XX GET",
    "SET K 2 KEEPTTL",
    "SET K 3 NX PX 100000",
    "SETNX K 1",
    "SETEX K 100 1",
    "PSETEX K 100000 1",
    "GETSET K 7",
    "MSET K 1 L 2",
    "MSETNX K 1 L 2",
    "GET K",
    "MGET K L",
    "STRLEN K",
    "EXISTS K L",
    "TTL K",
    "TYPE K",
    "GETRANGE K 0 1",
    "DEL K",
    "DEL K L",
    "UNLINK K",
    "GETDEL K",
    "APPEND K 1",
    "APPEND K x",
    "SETRANGE K 2 y",
    "SETRANGE K 9 5",
    "INCR K",
    "DECR K",
    "INCRBY K 5",
    "DECRBY K 3",
    "INCRBYFLOAT K 1.5",
    "EXPIRE K 100",
    "PEXPIRE K 100000 NX",
    "EXPIRE K -1",
    "EXPIREAT K 4000000000",
    "EXPIRE K 50 GT",
    "PERSIST K",
    "GETEX K",
    "GETEX K EX 100",
    "GETEX K PERSIST",
    "GETEX K PXAT 4000000000000",
    "GETEX K EXAT 1",
    "RENAME K L",
    "RENAMENX K L",
    "COPY K L",
    "COPY K L REPLACE",
    "GETBIT K 3",
    "BITFIELD K GET u8 0",
    "BITOP OR K s L",
    "BITCOUNT K",
    "TOUCH K",
    "OBJECT ENCODING K",
    "WATCH K",
    "EVAL return(redis.call('set',KEYS[1],ARGV[1])) 1 K 4",
    "EVAL redis.call('incr',KEYS[1]);redis.call('del',KEYS[2]) 2 K L",
    "FLUSHDB",
];

/// A request of [`TEMPLATES`].
fn request(random: &mut Prng) -> String {
    let keys = ["a", "b", "c", "d{x}"];
    let mut pick = |list: &[&str]| list[random.below(list.len() as u64) as usize].to_string();
    let (k, l) = (pick(&keys), pick(&keys));
    let template = pick(TEMPLATES);
    let words = template.split(' ').map(|word| match word {
        "K" => k.clone(),
        "L" => l.clone(),
        word => word.to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// An answer without numbers that may be what is left of a time: some of it passes between the
/// two servers.
fn without_times(answer: &str) -> String {
    let is_time = |word: &str| {
        let number = word.trim_matches(['[', ']']).strip_prefix(':').map(str::parse::<i64>);
        matches!(number, Some(Ok(40..=100 | 1_000_000_000..)))
    };
    let words = answer.split(' ').map(|word| if is_time(word) { "a time" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn events_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    for (seed, may_wait) in [(1, false), (2, true)] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let mut random = Prng::new(seed);
        let mut clients = [Client::connect(&server), redis.connect()];
        let mut ears = [Client::connect(&server), redis.connect()].map(|ear| listen(ear, "KEAnm"));
        for client in &mut clients {
            script(client, "FLUSHALL -> OK\nSET s x -> OK");
        }
        ears.iter_mut().for_each(|ear| drop(heard(ear)));
        let mut log = Vec::new();
        for _ in 0..test_size(1500, 5000, 200_000) {
            let mut lines = vec![request(&mut random)];
            if random.below(8) == 0 {
                lines = vec!["MULTI".into(), request(&mut random), request(&mut random)];
                lines.retain(|line| line != "FLUSHDB" && !line.starts_with("WATCH"));
                lines.push("EXEC".into());
            }
            for line in lines {
                let answers = clients.each_mut().map(|client| client.ask(&line));
                // How a value is kept says Redis by what was done to it, we by what it is.
                let is_kind = ["int", "raw", "embstr"].iter().any(|kind| answers[0].contains(kind));
                if line != "FLUSHDB" && !is_kind && !answers[0].starts_with('-') {
                    let [ours, theirs] = answers.each_ref().map(|answer| without_times(answer));
                    assert_eq!(ours, theirs, "{line}");
                }
                if line == "FLUSHDB" {
                    clients.iter_mut().for_each(|client| drop(client.ask("SET s x")));
                }
                log.push(line);
            }
            let [ours, theirs] = ears.each_mut().map(heard);
            let last = &log[log.len().saturating_sub(6)..];
            assert_eq!(ours, theirs, "after {last:#?}");
        }
        server.stop();
    }
}

#[test]
fn entries_that_expire_are_told() {
    let told = |key: &str| {
        [
            format!(">['pmessage' '__key*' '__keyspace@0__:{key}' 'expired']"),
            format!(">['pmessage' '__key*' '__keyevent@0__:expired' '{key}']"),
        ]
    };
    for mode in [Mode::Crcw, Mode::Erew] {
        for may_wait in [false, true] {
            let config = Config { mode, ..config() };
            let (server, _) = start_with(config, Probe::new(may_wait));
            let mut client = Client::connect(&server);
            let mut ear = listen(Client::connect(&server), "KEx");
            // By a read, by a write, and by nobody.
            client.ask("SET read 1 PX 1");
            client.ask("SET written 1 PX 1");
            client.ask("SET kept 1 PX 900");
            client.ask("PERSIST kept");
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(client.ask("GET read"), "nil");
            assert_eq!(heard(&mut ear), told("read"));
            client.ask("SET written 2");
            assert_eq!(heard(&mut ear), told("written"));
            client.ask("SET alone 1 PX 1");
            let began = Instant::now();
            let mut all = Vec::new();
            while all.len() < 2 && began.elapsed() < Duration::from_secs(10) {
                all.extend(heard(&mut ear));
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(all, told("alone"));
            server.stop();
        }
    }
}

#[test]
fn memcached_clients_make_the_nearest_events() {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut ear = listen(Client::connect(&server), "Eg$");
    let mut client = Client::connect(&server);
    let told = |list: &[(&str, &str)]| -> Vec<String> {
        let shown = |(event, key): &(&str, &str)| {
            format!(">['pmessage' '__key*' '__keyevent@0__:{event}' '{key}']")
        };
        list.iter().map(shown).collect()
    };
    let lines = "set a 0 0 1\r\n1\r\nset b 0 100 1\r\n1\r\nadd a 0 0 1\r\nx\r\nincr a 5\r\n\
                 append a 0 0 1\r\n0\r\ntouch a 50\r\ntouch a 0\r\ndelete a\r\ndelete a\r\n\
                 ms m 1 T90\r\nx\r\nma n N0 J3\r\nma n\r\nmd m\r\nversion\r\n";
    client.send(lines.as_bytes());
    let want = told(&[
        ("set", "a"),
        ("set", "b"),
        ("expire", "b"),
        ("incrby", "a"),
        ("append", "a"),
        ("expire", "a"),
        ("persist", "a"),
        ("del", "a"),
        ("set", "m"),
        ("expire", "m"),
        ("set", "n"),
        ("incrby", "n"),
        ("del", "m"),
    ]);
    let began = Instant::now();
    let mut all = Vec::new();
    while all.len() < want.len() && began.elapsed() < Duration::from_secs(10) {
        all.extend(heard(&mut ear));
    }
    assert_eq!(all, want);
    server.stop();
}

#[test]
fn only_the_chosen_classes_are_told() {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut client = Client::connect(&server);
    let mut ear = listen(Client::connect(&server), "Kg");
    script(&mut client, "SET a 1 EX 100 -> OK\nDEL a -> :1");
    let told = |event| format!(">['pmessage' '__key*' '__keyspace@0__:a' '{event}']");
    assert_eq!(heard(&mut ear), [told("expire"), told("del")]);
    script(
        &mut client,
        "CONFIG GET notify-keyspace-events -> ['notify-keyspace-events' 'gK']
         CONFIG SET notify-keyspace-events KEA -> OK
         CONFIG GET notify-keyspace-events -> ['notify-keyspace-events' 'AKE']",
    );
    let refused = client.ask("CONFIG SET notify-keyspace-events KQ");
    assert!(refused.contains("Invalid event class character"), "{refused}");
    client.call(&[b"CONFIG", b"SET", b"notify-keyspace-events", b""]);
    script(&mut client, "SET a 1 EX 100 -> OK\nDEL a -> :1");
    assert_eq!(heard(&mut ear), Vec::<String>::new());
    server.stop();
}

/// Requests on several databases, each of which makes events or is part of one that does.
const SEVERAL: &str = "
    SET a 1 PX 100000
    SET b 2
    MOVE a 1
    MOVE nobody 1
    COPY b c DB 2
    COPY b c DB 2
    COPY b c DB 2 REPLACE
    COPY b d
    SELECT 1
    PERSIST a
    SET b 3
    MOVE b 0
    MULTI
    SET m 1
    SELECT 2
    DEL c
    MOVE m 0
    SELECT 1
    MOVE m 3
    EXEC
    SELECT 0
    SWAPDB 0 3
    INCR m
    FLUSHALL
    SET a 1
    MULTI
    SELECT 5
    SET five 5
    FLUSHDB
    SET five 6
    EXEC
";

#[test]
fn events_of_several_databases_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let mut clients = [Client::connect(&server), redis.connect()];
        let mut ears = [Client::connect(&server), redis.connect()].map(|ear| listen(ear, "KEAn"));
        clients.iter_mut().for_each(|client| drop(client.ask("FLUSHALL")));
        let mut all = 0;
        for line in SEVERAL.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let [ours, theirs] = clients.each_mut().map(|client| client.ask(line));
            assert_eq!(ours, theirs, "{line}");
            let [ours, theirs] = ears.each_mut().map(heard);
            assert_eq!(ours, theirs, "after {line}");
            all += ours.len();
        }
        assert!(all > 30, "{all} events");
        server.stop();
    }
}

/// A key that is moved takes the time with it at which its end is told.
#[test]
fn moved_keys_expire_where_they_are() {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut client = Client::connect(&server);
    let mut ear = listen(Client::connect(&server), "Ex");
    client.ask("SET a 1 PX 100");
    assert_eq!(client.ask("MOVE a 1"), ":1");
    let (began, mut all) = (Instant::now(), Vec::new());
    while all.is_empty() && began.elapsed() < Duration::from_secs(10) {
        all.extend(heard(&mut ear));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(all, [">['pmessage' '__key*' '__keyevent@1__:expired' 'a']"]);
    server.stop();
}
