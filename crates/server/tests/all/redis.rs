//! The real redis-server answers our scripts of requests as they say it does.

use crate::scripts;
use crate::stories;
use crate::support::{Client, Probe, config, script, show, start_with};
use silica_base::{Prng, test_size};
use silica_proto::Value;
use silica_server::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A redis-server that ends with the test.
pub(crate) struct Redis(Child, SocketAddr);

impl Redis {
    /// `None` where it is not installed.
    pub(crate) fn start() -> Option<Redis> {
        Redis::start_with(&[])
    }

    /// Starts it with these arguments besides the usual ones; `None` if it is not installed.
    fn start_with(args: &[&str]) -> Option<Redis> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        // A replica keeps what it was sent in a file.
        let directory = std::env::temp_dir();
        let file = format!("silica-test-{}.rdb", port.port());
        let child = Command::new("redis-server")
            .args(["--port", &port.port().to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--dir", &directory.to_string_lossy(), "--dbfilename", &file])
            // Ten times a second, as by default, is how often it looks whether a wait is over.
            .args(["--hz", "500"])
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Redis(child, port)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => panic!("redis-server does not start: {e}"),
        }
    }

    pub(crate) fn connect(&self) -> Client {
        for _ in 0..400 {
            if let Ok(client) = Client::connect_to(self.1) {
                return client;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("redis-server does not answer");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let file = format!("silica-test-{}.rdb", self.1.port());
        let _ = std::fs::remove_file(std::env::temp_dir().join(file));
    }
}

#[test]
fn redis_answers_as_we_say() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let mut client = redis.connect();
    for lines in [
        scripts::EXPIRY,
        scripts::EXPIRING_WRITES,
        scripts::BITS,
        scripts::BITFIELDS,
        scripts::CONTRADICTIONS,
        scripts::MOVING,
        scripts::NUMBERS,
        scripts::TRANSACTIONS,
        scripts::SUBSEQUENCES,
        scripts::OBJECTS,
        scripts::TOLD,
        scripts::RESTORING,
        scripts::SETTINGS,
        stories::CLIENT_TEXTS,
        scripts::USERS,
    ] {
        assert_eq!(client.ask("FLUSHALL"), "OK");
        script(&mut client, lines);
    }
}

#[test]
fn redis_treats_connections_as_we_say() {
    let Some(redis) = Redis::start() else { return };
    let connect: &dyn Fn() -> Client = &|| redis.connect();
    stories::killing(connect);
    stories::pausing(connect);
    stories::tracking(connect);
    stories::redirected_tracking(connect);
    stories::tracking_reads(connect);
    stories::choosing_reads(connect);
    stories::losing_channels(connect);
    stories::changing_users(connect);
}

/// Values as Redis packs them: numbers, short and long ones, random and repetitive ones.
fn values(random: &mut Prng) -> Vec<Vec<u8>> {
    let numbers = [0i64, -1, 127, -128, 128, 32_767, -32_769, 1 << 31, -(1i64 << 31), i64::MIN];
    let mut values: Vec<Vec<u8>> = numbers.map(|n| n.to_string().into_bytes()).to_vec();
    values.extend(["", "+1", "007", "-0", "1.5"].map(|text| text.as_bytes().to_vec()));
    for _ in 0..test_size(60, 300, 20_000) {
        let (bits, symbol_bits) = (random.below(18), random.below(9));
        let len = random.below(1 << bits) as usize;
        let symbols = 1 + random.below(1 << symbol_bits);
        values.push((0..len).map(|_| random.below(symbols) as u8).collect());
    }
    values
}

#[test]
fn dumped_values_are_exchanged_with_redis() {
    let Some(redis) = Redis::start() else { return };
    let (server, _) = start_with(config(), Probe::new(false));
    let mut random = Prng::new(64);
    let all = values(&mut random);
    for (mut from, mut to) in
        [(redis.connect(), Client::connect(&server)), (Client::connect(&server), redis.connect())]
    {
        for value in &all {
            from.call(&[b"SET", b"from", value]);
            let Value::Bulk(payload) = from.call(&[b"DUMP", b"from"]) else { panic!("no payload") };
            let restored = to.call(&[b"RESTORE", b"to", b"100000", &payload, b"REPLACE"]);
            assert_eq!(show(&restored), "OK", "{}", value.escape_ascii());
            assert_eq!(to.call(&[b"GET", b"to"]), Value::Bulk(value.clone()));
            script(&mut to, "TTL to -> :100");
            // Damage is found, wherever it is.
            let mut bad = payload.clone();
            bad[random.below(payload.len() as u64) as usize] ^= 1 << random.below(8);
            let refused = show(&to.call(&[b"RESTORE", b"bad", b"0", &bad]));
            assert_eq!(refused, "-ERR DUMP payload version or checksum are wrong");
        }
        from.ask("SET from 1");
        let Value::Bulk(payload) = from.call(&[b"DUMP", b"from"]) else { panic!("no payload") };
        let mut restore = |key: &[u8], time: &[u8]| {
            show(&to.call(&[b"RESTORE", key, time, &payload, b"ABSTTL", b"REPLACE"]))
        };
        assert_eq!(restore(b"later", b"33177117420123"), "OK");
        assert_eq!(restore(b"to", b"1000"), "OK");
        assert_eq!(to.ask("PEXPIRETIME later"), ":33177117420123");
        assert_eq!(to.ask("EXISTS to"), ":0", "its time was over");
    }
    server.stop();
}

/// A number near the ends of some type, or any of 62 bits: numbers below them overflow in Redis's
/// own check, which then takes the type's largest number for them.
fn number(random: &mut Prng) -> i64 {
    let bits = random.below(62) as u32;
    let edge = (1_i64 << bits).wrapping_add(random.below(3) as i64 - 1);
    match random.below(4) {
        0 => edge,
        1 => edge.wrapping_neg(),
        2 => random.next_u64() as i64 >> 2,
        _ => random.below(5) as i64 - 2,
    }
}

/// The rest of a BITFIELD on `key`. Redis makes a value longer even if nothing is stored in the end
/// because of FAIL, so that is asked of values that are long enough.
fn fields(random: &mut Prng, is_long: bool) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..1 + random.below(4) {
        if random.below(2) == 0 {
            let kinds = ["WRAP", "SAT", "FAIL"];
            let kind = kinds[random.below(if is_long { 3 } else { 2 }) as usize];
            words.extend(["OVERFLOW".into(), kind.into()]);
        }
        let (sign, bits) = (["u", "i"][random.below(2) as usize], 1 + random.below(64));
        let offset = match random.below(3) {
            0 => format!("#{}", random.below(4)),
            _ => random.below(150).to_string(),
        };
        let place = [format!("{sign}{bits}"), offset];
        let (word, more) = match random.below(3) {
            0 => ("GET", None),
            1 => ("SET", Some(number(random))),
            _ => ("INCRBY", Some(number(random))),
        };
        words.push(word.into());
        words.extend(place);
        words.extend(more.map(|number| number.to_string()));
    }
    words
}

/// A command about bits or parts of values.
fn bit_command(random: &mut Prng) -> Vec<String> {
    let short = format!("short{}", random.below(3));
    let long = format!("long{}", random.below(2));
    let key = if random.below(2) == 0 { short.clone() } else { long.clone() };
    let at = |random: &mut Prng| (random.below(90) as i64 - 40).to_string();
    let unit = |random: &mut Prng| ["BIT", "BYTE"][random.below(2) as usize].to_string();
    let bit = random.below(2).to_string();
    match random.below(12) {
        0..=4 => {
            let mut words = vec!["BITFIELD".to_string(), key.clone()];
            words.extend(fields(random, key == long));
            words
        }
        5 => vec!["SETBIT".into(), short, random.below(200).to_string(), bit],
        6 => vec!["GETBIT".into(), key, random.below(400).to_string()],
        7 => vec!["BITCOUNT".into(), key, at(random), at(random), unit(random)],
        8 => vec!["BITPOS".into(), key, bit, at(random), at(random), unit(random)],
        9 => {
            let kind = ["AND", "OR", "XOR"][random.below(3) as usize];
            vec!["BITOP".into(), kind.into(), short, key, "short1".into(), long]
        }
        10 => vec!["BITOP".into(), "NOT".into(), short, key],
        _ => vec!["GETRANGE".into(), key, at(random), at(random)],
    }
}

/// Random commands about bits, beside Redis.
#[test]
fn bits_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let (server, _) = start_with(config(), Probe::new(false));
    let (mut theirs, mut ours) = (redis.connect(), Client::connect(&server));
    let mut random = Prng::new(7);
    for round in 0..test_size(30, 300, 30_000) {
        for client in [&mut theirs, &mut ours] {
            assert_eq!(client.ask("FLUSHALL"), "OK");
            client.ask("SETRANGE long0 40 x");
            client.ask("SETRANGE long1 60 y");
        }
        let mut lines: Vec<String> = (0..100).map(|_| bit_command(&mut random).join(" ")).collect();
        for key in ["short0", "short1", "short2", "long0", "long1"] {
            lines.push(format!("GET {key}"));
        }
        let sent: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        theirs.send(sent.as_bytes());
        ours.send(sent.as_bytes());
        for (n, line) in lines.iter().enumerate() {
            let [wanted, answer] = [&mut theirs, &mut ours].map(|client| {
                client.reply().map(|reply| show(&reply)).expect("the connection is open")
            });
            assert_eq!(answer, wanted, "round {round}: {line} after {:#?}", &lines[..n]);
        }
    }
    server.stop();
}

/// Words that commands know, numbers at the borders of what they take, and what is neither.
const WORDS: &str = "NX XX GT LT CH INCR EX PX EXAT PXAT KEEPTTL GET LIMIT WITHSCORES WEIGHTS \
    AGGREGATE SUM MIN MAX BYSCORE BYLEX REV COUNT LEFT RIGHT BEFORE AFTER BYTE BIT AND OR XOR NOT \
    RANK MAXLEN MINID = ~ * - + $ > ( [ (1 [a -inf +inf inf nan 0 1 2 3 -1 -2 10 100 1.5 1e3 a b \
    c 1-1 0-1 5-5 STORE STOREDIST WITHDIST WITHCOORD ASC DESC m km FROMMEMBER FROMLONLAT BYRADIUS \
    BYBOX ANY CREATE DESTROY MKSTREAM SETID IDLE FORCE JUSTID REPLACE DB u8 i16 #1 SET INCRBY \
    OVERFLOW WRAP SAT FAIL IDX LEN MINMATCHLEN PERSIST 9223372036854775807 -9223372036854775808 \
    9223372036854775808 18446744073709551615 4294967295 2147483648 536870912 0.1 -0.5 1e400 +1 01";

/// Commands that answer for a key, or for several, by nothing but what they hold.
const ASKED: &str = "append bitcount bitfield bitfield_ro bitop bitpos copy decr decrby del exists \
    expire expireat expiretime geoadd geodist geohash geopos georadius georadius_ro \
    georadiusbymember geosearch geosearchstore get getbit getdel getex getrange getset hdel \
    hexists hget hincrby hincrbyfloat hlen hmget hmset hset hsetnx hstrlen incr incrby incrbyfloat \
    lcs lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim mget mset \
    msetnx persist pexpire pexpireat pexpiretime pfadd pfcount pfmerge psetex pttl rename renamenx \
    rpop rpoplpush rpush rpushx sadd scard sdiffstore set setbit setex setnx setrange sinterstore \
    sintercard sismember smismember smove srem strlen substr sunionstore swapdb touch ttl type \
    unlink xack xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xrevrange xsetid xtrim \
    zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop \
    zmscore zpopmax zpopmin zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex \
    zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscore \
    zunion zunionstore";

/// A command with whatever arguments, of which the first is mostly a key.
fn odd_command(random: &mut Prng) -> Vec<String> {
    fn one<'w>(random: &mut Prng, words: &[&'w str]) -> &'w str {
        words[random.below(words.len() as u64) as usize]
    }
    let (asked, words): (Vec<&str>, Vec<&str>) =
        (ASKED.split_whitespace().collect(), WORDS.split_whitespace().collect());
    let mut line = vec![one(random, &asked).to_string()];
    for at in 0..random.below(7) {
        let is_key = at == 0 && random.below(20) > 0 || random.below(4) == 0;
        line.push(match is_key {
            true => format!("k{}", random.below(8)),
            false => one(random, &words).to_string(),
        });
    }
    line
}

/// Which of several errors a command with several faults answers, and which faults are none.
#[test]
fn odd_commands_are_answered_as_by_redis() {
    let Some(redis) = Redis::start() else { return };
    let (server, _) = start_with(config(), Probe::new(false));
    let (mut theirs, mut ours) = (redis.connect(), Client::connect(&server));
    let mut random = Prng::new(11);
    for round in 0..test_size(40, 400, 40_000) {
        let made = "FLUSHALL|SET k0 text|SET k1 17|RPUSH k2 a b 3|HSET k3 a 1 b x|SADD k4 a 2 b|\
                    ZADD k5 1 a 2 b|XADD k6 1-1 a b|XGROUP CREATE k6 a 0|GEOADD k7 1 2 a";
        let mut lines: Vec<String> = made.split('|').map(String::from).collect();
        lines.extend((0..100).map(|_| odd_command(&mut random).join(" ")));
        let sent: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        theirs.send(sent.as_bytes());
        ours.send(sent.as_bytes());
        for (n, line) in lines.iter().enumerate() {
            let [wanted, answer] = [&mut theirs, &mut ours].map(|client| {
                client.reply().map(|reply| show(&reply)).expect("the connection is open")
            });
            assert_eq!(answer, wanted, "round {round}: {line} after {:#?}", &lines[..n]);
        }
    }
    server.stop();
}

/// Objects of all types, small and large, go from Redis to us and back.
#[test]
fn dumped_objects_are_exchanged_with_redis() {
    let Some(redis) = Redis::start() else { return };
    let (server, _) = start_with(config(), Probe::new(false));
    let (mut theirs, mut ours) = (redis.connect(), Client::connect(&server));
    let reads = [
        ("list", "LRANGE list 0 -1"),
        ("hash", "HLEN hash"),
        ("set", "SORT set ALPHA"),
        ("numbers", "SORT numbers"),
        ("zset", "ZRANGE zset 0 -1 WITHSCORES"),
        ("stream", "XRANGE stream - +"),
        ("stream", "XINFO GROUPS stream"),
        ("stream", "XPENDING stream group - + 1000"),
    ];
    for len in [1, 100, 3000] {
        theirs.ask("FLUSHALL");
        ours.ask("FLUSHALL");
        for n in 0..len {
            let wide = "x".repeat(n % 90);
            for line in [
                format!("RPUSH list {n} v{n}{wide}"),
                format!("HSET hash f{n} {n} g{n} v{wide}{n}"),
                format!("SADD set m{n}{wide}"),
                format!("SADD numbers {}", n * 7919),
                format!("ZADD zset {} m{n}{wide}", n as f64 / 4.0),
                format!("XADD stream {}-1 f {n} g{wide} x", n + 1),
            ] {
                assert!(!theirs.ask(&line).starts_with('-'), "{line}");
            }
        }
        theirs.ask("XGROUP CREATE stream group 0 ENTRIESREAD 0");
        theirs.ask("XREADGROUP GROUP group reader COUNT 5 STREAMS stream >");
        let mut names: Vec<&str> = reads.iter().map(|(name, _)| *name).collect();
        names.dedup();
        let carry = |from: &mut Client, to: &mut Client, name: &str, target: &str| {
            let Value::Bulk(payload) = from.call(&[b"DUMP", name.as_bytes()]) else {
                panic!("no payload of {name}");
            };
            let restore: [&[u8]; 5] = [b"RESTORE", target.as_bytes(), b"0", &payload, b"REPLACE"];
            assert_eq!(show(&to.call(&restore)), "OK", "{name} of {len}");
        };
        let answers: Vec<String> = reads.iter().map(|(_, read)| theirs.ask(read)).collect();
        for name in &names {
            carry(&mut theirs, &mut ours, name, name);
        }
        for ((name, read), answer) in reads.iter().zip(&answers) {
            assert_eq!(without_idle(&ours.ask(read)), without_idle(answer), "{name} of {len}");
        }
        // And back, where Redis has forgotten them.
        theirs.ask("FLUSHALL");
        for name in &names {
            carry(&mut ours, &mut theirs, name, name);
        }
        for ((name, read), answer) in reads.iter().zip(&answers) {
            assert_eq!(without_idle(&theirs.ask(read)), without_idle(answer), "{name} of {len}");
        }
        assert_eq!(ours.ask("HLEN hash"), theirs.ask("HLEN hash"));
        for n in [0, len / 2, len - 1] {
            let read = format!("HMGET hash f{n} g{n}");
            assert_eq!(ours.ask(&read), theirs.ask(&read));
        }
    }
    server.stop();
}

/// An answer of XPENDING without the milliseconds since entries were delivered.
fn without_idle(answer: &str) -> String {
    let words = answer.split(' ').collect::<Vec<_>>();
    let is_time = |at: usize| at >= 2 && words[at - 1] == "'reader'" && words[at].starts_with(':');
    let kept = words.iter().enumerate().filter(|(at, _)| !is_time(*at)).map(|(_, word)| *word);
    kept.collect::<Vec<_>>().join(" ")
}

/// Names and categories of all commands that a server has, subcommands included.
fn categories(client: &mut Client) -> BTreeMap<String, BTreeSet<String>> {
    fn add(entry: &Value, all: &mut BTreeMap<String, BTreeSet<String>>) {
        let Value::Array(fields) = entry else { panic!("{entry:?}") };
        let (Value::Bulk(name), Value::Array(words)) = (&fields[0], &fields[6]) else {
            panic!("{entry:?}")
        };
        let words = words.iter().map(show).collect();
        all.insert(String::from_utf8_lossy(name).into_owned(), words);
        let Value::Array(subs) = &fields[9] else { panic!("{entry:?}") };
        subs.iter().for_each(|sub| add(sub, all));
    }
    let Value::Array(entries) = client.call(&[b"COMMAND"]) else { panic!("no list") };
    let mut all = BTreeMap::new();
    entries.iter().for_each(|entry| add(entry, &mut all));
    all
}

#[test]
fn commands_are_in_the_categories_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let (server, _) = start_with(config(), Probe::new(false));
    let theirs = categories(&mut redis.connect());
    let ours = categories(&mut Client::connect(&server));
    for (name, ours) in &ours {
        if let Some(theirs) = theirs.get(name) {
            assert_eq!(ours, theirs, "{name}");
        }
    }
    assert!(ours.keys().filter(|name| theirs.contains_key(*name)).count() > 120);
    server.stop();
}

#[test]
fn files_of_users_are_exchanged_with_redis() {
    let directory = std::env::temp_dir().join(format!("silica-users-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("users.acl");
    let file = path.to_str().unwrap();
    let words = "on >pw >pw2 ~a* %R~r* %W~w* &news* +@string +@read -getset +client|id -mget";
    let serve =
        || start_with(Config { acl_file: Some(path.clone()), ..config() }, Probe::new(false));
    let redis = || Redis::start_with(&["--aclfile", file]);
    std::fs::write(&path, "").unwrap();
    let (server, _) = serve();
    let mut ours = Client::connect(&server);
    assert_eq!(ours.ask(&format!("ACL SETUSER bob {words}")), "OK");
    assert_eq!(ours.ask("ACL SAVE"), "OK");
    server.stop();
    if let Some(redis) = redis() {
        let mut theirs = redis.connect();
        assert_eq!(theirs.ask("AUTH bob pw2"), "OK");
        assert_eq!(theirs.ask("SET a 1"), "OK");
        assert!(theirs.ask("MGET a").starts_with("-NOPERM"));
        theirs.ask("AUTH default x");
        assert_eq!(theirs.ask("ACL SAVE"), "OK");
    }
    let (server, _) = serve();
    let mut ours = Client::connect(&server);
    assert_eq!(ours.ask("AUTH bob pw"), "OK");
    assert_eq!(ours.ask("SET a 1"), "OK");
    assert!(ours.ask("MGET a").starts_with("-NOPERM"));
    assert!(ours.ask("SET r 1").starts_with("-NOPERM"));
    // A file with an error changes nothing.
    let mut admin = Client::connect(&server);
    std::fs::write(&path, "user bob on +nope\n").unwrap();
    let refused = admin.ask("ACL LOAD");
    assert!(refused.contains("users.acl:1: +nope: Unknown command"), "{refused}");
    assert_eq!(ours.ask("GET a"), "'1'");
    std::fs::write(&path, "# nobody else\nuser ann on nopass\n\n").unwrap();
    assert_eq!(admin.ask("ACL LOAD"), "OK");
    assert!(ours.reply().is_none(), "the user is gone");
    assert_eq!(admin.ask("ACL USERS"), "['ann' 'default']");
    server.stop();
    std::fs::remove_dir_all(&directory).unwrap();
}
