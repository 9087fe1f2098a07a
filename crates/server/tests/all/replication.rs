//! Replicas: redis-server follows us, and has what we have.

use crate::redis::Redis;
use crate::support::{Client, Probe, config, request, show, start_with};
use crate::types::{meant, start_engine};
use silica_base::{Prng, test_size};
use silica_proto::Value;
use silica_server::{Config, Server};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What writers send; words are those of the tests of types.
const WRITES: &[&str] = &[
    "SET s:K V",
    "SET s:K V EX 100",
    "SET s:K V PX 30",
    "SET s:K V KEEPTTL",
    "SET s:K V NX GET",
    "SETEX s:K 100 V",
    "GETEX s:K PX 40",
    "GETEX s:K PERSIST",
    "GETDEL s:K",
    "GETSET s:K V",
    "APPEND s:K V",
    "SETRANGE s:K 5 V",
    "SETBIT s:K 77 1",
    "BITFIELD s:K INCRBY u8 3 77",
    "INCR n:K",
    "INCR n:K",
    "INCRBY n:K 12",
    "INCRBYFLOAT n:K 0.1",
    "DECR n:K",
    "EXPIRE n:K 1",
    "PEXPIRE n:K 20",
    "PERSIST n:K",
    "EXPIREAT n:K 1",
    "MSET s:K V s:L V n:M 3",
    "MSETNX x:K V x:L V",
    "DEL s:K n:L h:M",
    "UNLINK l:K z:L",
    "RENAME s:K s:L",
    "RENAMENX h:K h:L",
    "COPY s:K s:L REPLACE",
    "COPY h:K h:L REPLACE",
    "COPY z:K z:L DB 1",
    "MOVE l:K 1",
    "BITOP OR s:K s:L s:M",
    "PFADD p:K F F F",
    "PFMERGE p:K p:L p:M",
    "HSET h:K F V F V",
    "HSETNX h:K F V",
    "HDEL h:K F F",
    "HINCRBY hn:K F 3",
    "HINCRBYFLOAT hn:K F 0.3",
    "PEXPIRE h:K 25",
    "LPUSH l:K V V V",
    "RPUSH l:K V V",
    "LPOP l:K",
    "RPOP l:K 2",
    "LREM l:K 0 V",
    "LSET l:K 0 V",
    "LTRIM l:K 0 20",
    "LINSERT l:K BEFORE V V",
    "LMOVE l:K l:L LEFT RIGHT",
    "RPOPLPUSH l:K l:L",
    "LMPOP 2 l:K l:L LEFT COUNT 2",
    "BLPOP l:K l:L 0.001",
    "BRPOP l:K 0.001",
    "BLMOVE l:K l:L RIGHT LEFT 0.001",
    "PEXPIRE l:K 25",
    "SADD t:K F F F F",
    "SREM t:K F F",
    "SPOP t:K",
    "SPOP t:K 3",
    "SMOVE t:K t:L F",
    "SUNIONSTORE t:K t:L t:M",
    "SDIFFSTORE t:K t:L t:M",
    "ZADD z:K S F S F",
    "ZADD z:K GT CH S F",
    "ZINCRBY z:K 1.5 F",
    "ZREM z:K F",
    "ZPOPMIN z:K",
    "ZMPOP 2 z:K z:L MAX",
    "BZPOPMAX z:K z:L 0.001",
    "ZREMRANGEBYRANK z:K 0 1",
    "ZUNIONSTORE z:K 2 z:L z:M",
    "ZRANGESTORE z:K z:L 0 5",
    "SORT t:K ALPHA LIMIT 0 5 STORE l:L",
    "GEOADD g:K 13.4 52.5 F",
    "GEOSEARCHSTORE g:K g:L FROMLONLAT 13 52 BYRADIUS 100 km",
    "XADD e:K * F V",
    "XADD e:K MAXLEN ~ 20 * F V",
    "XTRIM e:K MAXLEN 15",
    "XGROUP CREATE e:K g 0 MKSTREAM",
    "XREADGROUP GROUP g alice COUNT 3 STREAMS e:K >",
    "XREADGROUP GROUP g bob NOACK COUNT 1 STREAMS e:K >",
    "XREADGROUP GROUP g alice COUNT 2 STREAMS e:K 0",
    "XAUTOCLAIM e:K g bob 0 0 COUNT 2",
    "EVAL redis.call('incr',KEYS[1])redis.call('rpush',KEYS[2],ARGV[1]) 2 n:K l:L V",
    "EVAL return{redis.call('spop',KEYS[1]),redis.call('set',KEYS[2],'x','px',30)} 2 t:K s:L",
];

/// A random request for one of `keys` keys of each kind.
fn write(random: &mut Prng) -> String {
    let template = WRITES[random.below(WRITES.len() as u64) as usize];
    let words = template.split(' ').map(|word| match word.split_once(':') {
        Some((kind, key @ ("K" | "L" | "M"))) => format!("{kind}:{}", meant(key, random)),
        _ => meant(word, random),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Sends random writes until it is told to stop: one by one, pipelined, in transactions.
fn write_until(client: &mut Client, seed: u64, is_over: &AtomicBool) {
    let mut random = Prng::new(seed);
    while !is_over.load(Ordering::Relaxed) {
        write_some(client, &mut random);
    }
}

fn write_some(client: &mut Client, random: &mut Prng) {
    let mut lines = vec![format!("SELECT {}", random.below(2))];
    lines.extend((0..=random.below(6)).map(|_| write(random)));
    if random.below(4) == 0 {
        lines.insert(1, "MULTI".into());
        lines.push("EXEC".into());
    }
    if random.below(300) == 0 {
        lines.push("SWAPDB 0 1".into());
    }
    let bytes: Vec<u8> = lines
        .iter()
        .flat_map(|line| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
        .collect();
    client.send(&bytes);
    for line in &lines {
        let reply = show(&client.reply().expect("the connection is open"));
        let is_known = ["-WRONGTYPE", "-ERR", "-NOGROUP", "-BUSYGROUP", "-EXECABORT", "-UNBLOCKED"];
        let is_fine =
            !reply.starts_with('-') || is_known.iter().any(|known| reply.starts_with(known));
        assert!(is_fine, "{line}: {reply}");
    }
}

/// Everything in two databases, read without DUMP.
pub(crate) fn contents(client: &mut Client) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for db in 0..2 {
        assert_eq!(client.ask(&format!("SELECT {db}")), "OK");
        let Value::Array(keys) = client.call(&[b"KEYS", b"*"]) else { panic!("no keys") };
        for key in keys {
            let Value::Bulk(key) = key else { panic!("no key") };
            let key = String::from_utf8(key).expect("a text");
            let kind = client.ask(&format!("TYPE {key}"));
            let read: &[&str] = match &kind[..] {
                "string" => &["GET K"],
                "list" => &["LRANGE K 0 -1"],
                "set" => &["SMEMBERS K"],
                "hash" => &["HGETALL K"],
                "zset" => &["ZRANGE K 0 -1 WITHSCORES"],
                "stream" => &["XRANGE K - +", "XPENDING K g - + 1000"],
                // It has expired meanwhile.
                _ => continue,
            };
            let mut shown = vec![kind.clone(), client.ask(&format!("PEXPIRETIME {key}"))];
            for line in read {
                let value = client.ask_value(&line.replace('K', &key));
                shown.push(match (&kind[..], value) {
                    ("set", Value::Array(items)) => sorted(items.iter().map(show).collect()),
                    ("hash", Value::Array(items)) => sorted(
                        items.chunks(2).map(|pair| pair.iter().map(show).collect()).collect(),
                    ),
                    // Who was idle for how long is not the same at two times.
                    ("stream", Value::Array(items)) if line.starts_with("XPENDING") => {
                        let known = items.iter().map(|item| match item {
                            Value::Array(four) => [0, 1, 3].map(|at| show(&four[at])).join(" "),
                            other => show(other),
                        });
                        known.collect::<Vec<_>>().join(";")
                    }
                    (_, value) => show(&value),
                });
            }
            all.insert(format!("{db} {key}"), shown.join(" | "));
        }
    }
    all
}

fn sorted(mut items: Vec<String>) -> String {
    items.sort();
    items.join(" ")
}

/// A field of a section of INFO.
pub(crate) fn info(client: &mut Client, section: &str, name: &str) -> String {
    let text = client.text(&format!("INFO {section}"));
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_string()
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not come to it that {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes `replica` follow `server`, and waits until it gets the stream.
pub(crate) fn follow(replica: &mut Client, server: &Server) {
    let port = server.local_addr().port();
    assert_eq!(replica.ask(&format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    let mut client = Client::connect(server);
    until("the replica is online", || info(replica, "replication", "master_link_status") == "up");
    until("the primary knows", || info(&mut client, "replication", "slave0").contains("online"));
}

/// Waits until the replica has everything, and compares.
fn compare(client: &mut Client, replica: &mut Client, what: &str) {
    // What expires soon has done so everywhere by then, and its removal was told.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(client.ask("WAIT 1 20000"), ":1", "{what}");
    let (ours, theirs) = (contents(client), contents(replica));
    for (key, value) in &ours {
        assert_eq!(theirs.get(key), Some(value), "{what}: {key}");
    }
    for key in theirs.keys() {
        assert!(ours.contains_key(key), "{what}: the replica alone has {key}");
    }
}

/// A redis-server follows `server` while four clients write, is cut off and comes back.
fn is_followed(server: &Server, what: &str) {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let (mut client, mut replica) = (Client::connect(server), redis.connect());
    let mut random = Prng::new(9);
    (0..test_size(500, 1000, 20_000)).for_each(|_| write_some(&mut client, &mut random));
    let library = "#!lua name=lib\nredis.register_function{function_name='one',\
                   callback=function()return 1 end,flags={'no-writes'}}";
    client.call(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let is_over = &is_over;
            scope.spawn(move || write_until(&mut Client::connect(server), seed, is_over));
        }
        follow(&mut replica, server);
        std::thread::sleep(Duration::from_millis(test_size(700, 2000, 60_000)));
        is_over.store(true, Ordering::Relaxed);
    });
    compare(&mut client, &mut replica, what);
    let full = info(&mut client, "stats", "sync_full");
    is_over.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for seed in 10..12 {
            let is_over = &is_over;
            scope.spawn(move || write_until(&mut Client::connect(server), seed, is_over));
        }
        for _ in 0..3 {
            assert_eq!(client.ask("CLIENT KILL TYPE replica"), ":1");
            until("the replica is back", || {
                client.ask("CLIENT LIST TYPE replica").contains("flags=S")
            });
            std::thread::sleep(Duration::from_millis(100));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    compare(&mut client, &mut replica, what);
    assert_eq!(info(&mut client, "stats", "sync_full"), full, "{what}: it went on where it was");
    assert_eq!(replica.ask("FCALL_RO one 0"), ":1", "libraries come, too");
}

#[test]
fn redis_follows_while_clients_write() {
    let (server, _directory) = start_engine("wip");
    is_followed(&server, "wip");
    server.stop();
}

#[test]
fn redis_follows_a_cache() {
    let (server, _directory) = start_engine("mica");
    is_followed(&server, "mica");
    server.stop();
}

/// Commands on several keys, of which those with an `x` have expired here and are still on the
/// replica: what makes the keys, and the command.
const OVER_EXPIRED: &[(&str, &str)] = &[
    ("RPUSH m:K a", "MOVE m:K 1"),
    ("RPUSH c:K a", "COPY c:K x:K"),
    ("RPUSH d:K a", "COPY d:K x:K DB 1"),
    ("RPUSH e:K a", "COPY e:K x:K DB 1 REPLACE"),
    ("RPUSH n:K a", "RENAMENX n:K x:K"),
    ("RPUSH r:K a", "RENAME r:K x:K"),
    ("SET s:K a", "MSETNX s:K+ 1 x:K 2"),
    ("SET b:K a", "BITOP OR o:K b:K x:K"),
    ("SET b:K a", "BITOP OR x:K b:K x:K"),
    ("SET b:K a", "EVAL return(redis.call('renamenx',KEYS[1],KEYS[2])) 2 b:K x:K"),
];

#[test]
fn what_has_expired_here_stands_in_nobodys_way_there() {
    let Some(redis) = Redis::start() else { return };
    let (server, _directory) = start_engine("wip");
    let (mut client, mut replica) = (Client::connect(&server), redis.connect());
    follow(&mut replica, &server);
    for (nth, (make, command)) in OVER_EXPIRED.iter().enumerate() {
        for is_in_multi in [false, true] {
            let key = format!("{nth}{is_in_multi}");
            let of = |line: &str| line.replace(":K", &format!(":{key}"));
            let name = of(command.split(' ').nth(1).expect("a key"));
            for db in [0, 1] {
                client.ask(&format!("SELECT {db}"));
                client.ask(&of("SET x:K \x0f PX 2"));
            }
            // What MOVE meets in the other database.
            client.ask(&format!("SET {name} \x0f PX 2"));
            client.ask("SELECT 0");
            client.ask(&of(make));
            std::thread::sleep(Duration::from_millis(5));
            let lines: &[&str] = match is_in_multi {
                true => &["MULTI", command, "EXEC"],
                false => &[command],
            };
            for line in lines {
                let reply = client.ask(&of(line));
                assert!(!reply.starts_with('-') && reply != ":0", "{line}: {reply}");
            }
        }
    }
    compare(&mut client, &mut replica, "over what has expired");
    server.stop();
}

/// What brings keys that expire to other names: after it none is left that does not.
const MOVED: &[&str] = &[
    "SET a v PX T;RENAME a b",
    "RPUSH c v;PEXPIRE c T;RENAMENX c d",
    "SET e v PX T;COPY e f",
    "HSET g f v;PEXPIRE g T;COPY g h DB 1",
    "SADD i v;PEXPIRE i T;MOVE i 1",
    "SET j v PX T;MULTI;RENAME j k;EXEC",
    "SET l v PX T;MULTI;MOVE l 1;EXEC",
    "SET m v PX T;EVAL return(redis.call('rename',KEYS[1],KEYS[2])) 2 m n",
    "SET o v PX T;SELECT 1;SET p v PX T;SELECT 0;SWAPDB 0 1",
    "SET q v PX T;MULTI;SWAPDB 1 0;RENAME q2 q3;EXEC",
    "RPUSH r 2 1;PEXPIRE r T;SORT r STORE s;PEXPIRE s T",
];

#[test]
fn what_is_moved_with_its_time_is_removed_there_too() {
    let Some(redis) = Redis::start() else { return };
    for engine in ["wip", "mica"] {
        let (server, _directory) = start_engine(engine);
        let (mut client, mut replica) = (Client::connect(&server), redis.connect());
        let moves = |client: &mut Client| {
            for line in MOVED.iter().flat_map(|lines| lines.split(';')) {
                client.ask(&line.replace(" T", " 1500"));
            }
            let dumped = client.call(&[b"DUMP", b"b"]);
            if let Value::Bulk(dumped) = dumped {
                client.call(&[b"RESTORE", b"t", b"1500", &dumped]);
            }
        };
        // Before the replica comes, and behind that.
        moves(&mut client);
        follow(&mut replica, &server);
        moves(&mut client);
        for (who, asked) in [("primary", &mut client), ("replica", &mut replica)] {
            for db in 0..2 {
                asked.ask(&format!("SELECT {db}"));
                until(&format!("{engine}: the {who} has nothing in database {db}"), || {
                    asked.ask("KEYS *") == "[]" && (who == "primary" || asked.ask("DBSIZE") == ":0")
                });
            }
        }
        assert_eq!(replica.ask("REPLICAOF NO ONE"), "OK");
        server.stop();
    }
}

#[test]
fn replicas_are_counted_and_waited_for() {
    let Some(redis) = Redis::start() else { return };
    let (server, _directory) = start_engine("wip");
    let (mut client, mut replica) = (Client::connect(&server), redis.connect());
    assert_eq!(client.ask("WAIT 1 50"), ":0");
    assert_eq!(client.ask("ROLE"), "['master' :0 []]");
    assert_eq!(client.ask("CONFIG SET min-replicas-to-write 1"), "OK");
    assert_eq!(client.ask("SET a 1"), "-NOREPLICAS Not enough good replicas to write.");
    assert!(client.ask("EVAL return(redis.call('set','a',1)) 0").contains("NOREPLICAS"));
    follow(&mut replica, &server);
    assert_eq!(client.ask("SET a 1"), "OK");
    assert_eq!(client.ask("WAIT 1 20000"), ":1");
    assert_eq!(client.ask("WAIT 2 100"), ":1");
    assert_eq!(replica.ask("GET a"), "'1'");
    let role = client.ask("ROLE");
    assert!(role.starts_with("['master' :") && role.contains("['127.0.0.1' "), "{role}");
    assert_eq!(client.ask("SET b 1 PX 50"), "OK");
    until("what has expired is removed there, too", || replica.ask("DBSIZE") == ":1");
    // The end of the stream is given up when there is not enough of it.
    assert_eq!(client.ask("CONFIG SET repl-backlog-size 16kb"), "OK");
    let full: u64 = info(&mut client, "stats", "sync_full").parse().unwrap();
    assert_eq!(replica.ask("REPLICAOF NO ONE"), "OK");
    let value = vec![b'v'; 60_000];
    assert_eq!(client.ask("CONFIG SET min-replicas-to-write 0"), "OK");
    for nth in 0..20 {
        client.call(&[b"SET", format!("large{nth}").as_bytes(), &value]);
    }
    follow(&mut replica, &server);
    assert_eq!(info(&mut client, "stats", "sync_full"), (full + 1).to_string());
    compare(&mut client, &mut replica, "after too much was missed");
    server.stop();
}

/// The handshake of a replica, without the data.
pub(crate) fn handshake(server: &Server) -> Client {
    let mut client = Client::connect(server);
    for line in ["PING", "REPLCONF listening-port 7", "REPLCONF capa eof capa psync2"] {
        let reply = client.ask(line);
        assert!(["OK", "PONG"].contains(&&reply[..]), "{line}: {reply}");
    }
    client.send(b"PSYNC ? -1\r\n");
    client
}

#[test]
fn a_replica_that_reads_nothing_is_dropped_and_holds_no_memory() {
    let limits = Config { clients_bytes_max: 8 << 20, ..config() };
    let (server, _) = start_with(limits, Probe::new(false));
    let mut client = Client::connect(&server);
    let value = vec![b'v'; 40_000];
    for nth in 0..50 {
        client.call(&[b"SET", format!("k{nth}").as_bytes(), &value]);
    }
    let _slow = handshake(&server);
    until("it is a replica", || client.ask("CLIENT LIST TYPE replica").contains("flags=S"));
    for nth in 0..2000 {
        let reply = show(&client.call(&[b"SET", format!("k{}", nth % 50).as_bytes(), &value]));
        assert_eq!(reply, "OK", "writes go on");
        let used: u64 = info(&mut client, "memory", "clients_bytes").parse().unwrap();
        assert!(used < 8 << 20, "{used} bytes");
    }
    until("it is gone", || client.ask("CLIENT LIST TYPE replica") == "''");
    // One that dies while it is sent all data leaves nothing behind.
    drop(handshake(&server));
    until("it is gone, too", || client.ask("CLIENT LIST TYPE replica") == "''");
    server.stop();
}

#[test]
fn a_position_of_another_history_begins_anew() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    client.ask("SET a 1");
    for line in [
        "PSYNC 0123456789012345678901234567890123456789 1",
        "PSYNC ? -1",
        "PSYNC x -9223372036854775808",
        "PSYNC x y",
    ] {
        let mut replica = Client::connect(&server);
        replica.ask("REPLCONF capa eof");
        replica.send(format!("{line}\r\n").as_bytes());
        let reply = show(&replica.reply().expect("an answer"));
        assert!(reply.starts_with("FULLRESYNC "), "{line}: {reply}");
    }
    let mut other = Client::connect(&server);
    let reply = other.ask("PSYNC 0123456789012345678901234567890123456789 1 FAILOVER");
    assert_eq!(reply, "-ERR PSYNC FAILOVER can't be sent to a master.");
    let mut old = Client::connect(&server);
    assert!(old.ask("PSYNC ? -1").starts_with("-ERR all data is sent without a length"));
    assert!(old.ask("SYNC").starts_with("-ERR all data is sent without a length"));
    assert_eq!(old.ask("REPLCONF rdb-only 2"), "-ERR value is not an integer or out of range");
    let refused = "-ERR Unsupported rdb-filter-only option: keys";
    assert_eq!(old.ask("REPLCONF rdb-filter-only keys"), refused);
    server.stop();
}
