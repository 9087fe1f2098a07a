//! What others are told of changes: WATCH and keyspace notifications, compared with redis-server.

use super::start_engine;
use crate::events::{heard, listen};
use crate::redis::Redis;
use crate::support::Client;
use silica_base::{Prng, test_size};

/// Requests of which most change something, some do not, and some are refused. None takes random
/// elements.
pub(super) const CHANGES: &[&str] = &[
    "HSET K F V",
    "HSET K F V F V",
    "HSETNX K F V",
    "HMSET K F V",
    "HDEL K F F F F",
    "HINCRBY K n N",
    "HINCRBY K F N",
    "HINCRBYFLOAT K n 0.5",
    "LPUSH L F",
    "RPUSH L F V F",
    "LPUSHX L V",
    "RPUSHX L V",
    "LINSERT L BEFORE F V",
    "LINSERT L AFTER F V",
    "LSET L N F",
    "LSET L 0 F",
    "LREM L N F",
    "LTRIM L 0 6",
    "LTRIM L N N",
    "LPOP L",
    "RPOP L",
    "LPOP L 2",
    "LPOP L 0",
    "LMOVE L M LEFT RIGHT",
    "LMOVE L L LEFT RIGHT",
    "RPOPLPUSH L M",
    "LMPOP 2 L M LEFT COUNT 2",
    "BLPOP L M 0.001",
    "BLMOVE L M LEFT LEFT 0.001",
    "SADD M F",
    "SADD M F F F",
    "SREM M F F",
    "SMOVE M K F",
    "SPOP M 1000",
    "SINTERSTORE K L M",
    "SUNIONSTORE K L M",
    "SDIFFSTORE K M L",
    "ZADD K S F",
    "ZADD K NX S F",
    "ZADD K XX S F S F",
    "ZADD K GT CH S F",
    "ZADD K INCR S F",
    "ZINCRBY K S F",
    "ZREM K F F F",
    "ZREMRANGEBYRANK K 0 N",
    "ZREMRANGEBYSCORE K (S S",
    "ZREMRANGEBYLEX K [F [F",
    "ZPOPMIN K",
    "ZPOPMAX K 2",
    "ZMPOP 2 K L MIN COUNT 2",
    "BZPOPMIN K L 0.001",
    "ZUNIONSTORE L 2 K M",
    "ZINTERSTORE L 2 K M",
    "ZDIFFSTORE L 2 K M",
    "ZRANGESTORE L K 0 3",
    "ZRANGESTORE L K 5 3",
    "GEOADD K 10.5 20.5 F",
    "GEOADD K XX 10.6 20.5 F",
    "GEOSEARCHSTORE L K FROMLONLAT 10 20 BYRADIUS 200 km",
    "SORT L ALPHA STORE M",
    "SORT M ALPHA LIMIT 0 2 STORE K",
    "XADD K * F V",
    "XADD K MAXLEN 3 * F V",
    "XADD K NOMKSTREAM * F V",
    "XDEL K 0-5",
    "XTRIM K MAXLEN 2",
    "XTRIM K MAXLEN 100",
    "XSETID K 99999999999999-0",
    "XGROUP CREATE K g 0",
    "XGROUP CREATE K g $ MKSTREAM",
    "XGROUP SETID K g 0",
    "XGROUP CREATECONSUMER K g ann",
    "XGROUP DELCONSUMER K g ann",
    "XGROUP DESTROY K g",
    "XREADGROUP GROUP g bob COUNT 2 STREAMS K >",
    "XREADGROUP GROUP g bob NOACK COUNT 1 STREAMS K >",
    "XAUTOCLAIM K g ann 0 0 COUNT 1",
    "PFADD K F",
    "PFADD K F F F",
    "PFMERGE K L",
    "PFCOUNT K",
    "SET K V",
    "APPEND K x",
    "EXPIRE K 100",
    "PERSIST K",
    "RENAME K L",
    "RENAMENX K L",
    "COPY K L",
    "COPY K L REPLACE",
    "RESTORE K 0 \\x00",
    "DEL K",
    "DEL L",
    "DEL M",
    "DEL K L M",
    "UNLINK K L",
    "GETDEL K",
    "GETEX K PERSIST",
    "HGETALL K",
    "LRANGE L 0 -1",
    "SMEMBERS M",
    "OBJECT ENCODING K",
];

#[test]
fn changes_end_a_watch_and_are_told_as_on_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    for (seed, engine) in [(1, "mica"), (2, "wip")] {
        let (server, _directory) = start_engine(engine);
        let mut clients = [Client::connect(&server), redis.connect()];
        let mut watchers = [Client::connect(&server), redis.connect()];
        let mut ears = [Client::connect(&server), redis.connect()].map(|ear| listen(ear, "KEAn"));
        clients.iter_mut().for_each(|client| drop(client.ask("FLUSHALL")));
        ears.iter_mut().for_each(|ear| drop(heard(ear)));
        let mut random = Prng::new(seed);
        let mut log: Vec<String> = Vec::new();
        let mut ended = 0;
        for _ in 0..test_size(2500, 5000, 200_000) {
            let template = CHANGES[random.below(CHANGES.len() as u64) as usize];
            // A key keeps its type for a while, and meets others now and then.
            let typed = if random.one_in(12) { ["K"; 3] } else { ["K", "L", "M"] };
            let words = template.split(' ').map(|word| match word {
                "K" | "L" | "M" => {
                    let nth = typed.iter().position(|one| *one == word).unwrap_or(0);
                    ["a", "b", "c", "d"][(nth + random.below(2) as usize) % 4].to_string()
                }
                word => super::meant(word, &mut random),
            });
            let line = words.collect::<Vec<_>>().join(" ");
            log.push(line.clone());
            watchers.iter_mut().for_each(|watcher| drop(watcher.ask("WATCH a b c d")));
            clients.iter_mut().for_each(|client| drop(client.ask(&line)));
            let ran = watchers.each_mut().map(|watcher| {
                watcher.send(b"MULTI\r\nPING\r\nEXEC\r\n");
                crate::support::show(&watcher.replies(3)[2]) == "[PONG]"
            });
            let last = &log[log.len().saturating_sub(8)..];
            assert_eq!(ran[0], ran[1], "{engine}: ours goes on, Redis's goes on: {last:#?}");
            ended += u64::from(!ran[0]);
            let [ours, theirs] = ears.each_mut().map(heard);
            assert_eq!(ours, theirs, "{engine}: after {last:#?}");
        }
        assert!(ended > 100, "{ended} changes");
        server.stop();
    }
}

#[test]
fn timeouts_are_read_as_redis_reads_them() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let (server, _directory) = start_engine("mica");
    let mut clients = [Client::connect(&server), redis.connect()];
    let timeouts = [
        "0.001",
        "-1",
        "-0.5",
        "x",
        "",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "9223372036854775807",
        "1e17",
        "99999999999999999999",
        "1,5",
    ];
    for timeout in timeouts {
        for request in [
            &["BLPOP", "none", timeout][..],
            &["BRPOPLPUSH", "none", "other", timeout],
            &["BLMPOP", timeout, "1", "none", "LEFT"],
            &["BZPOPMAX", "none", timeout],
            &["BZMPOP", timeout, "1", "none", "MIN"],
            &["XREAD", "BLOCK", timeout, "STREAMS", "none", "$"],
        ] {
            let args: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
            // It waits.
            if request[0] == "XREAD" && timeout.parse().is_ok_and(|ms: i64| ms > 0) {
                continue;
            }
            let [ours, theirs] = clients.each_mut().map(|c| crate::support::show(&c.call(&args)));
            assert_eq!(ours, theirs, "{request:?}");
        }
    }
    server.stop();
}
