//! Sets.

use super::{Compare, Requests, differ, start_engine};
use crate::redis::Redis;
use crate::support::{Client, show};
use silica_proto::Value;
use std::collections::BTreeSet;

#[test]
fn sets_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "SADD K F",
            "SADD K F F F F",
            "SADD K V N N",
            "SREM K F",
            "SREM K F F F F F F",
            "SISMEMBER K F",
            "SMISMEMBER K F F N",
            "SCARD K",
            "SMEMBERS K",
            "SPOP K 1000",
            "SPOP K 0",
            "SPOP K V",
            "SPOP K -1",
            "SPOP K 1 2",
            "SRANDMEMBER K",
            "SRANDMEMBER K N",
            "SRANDMEMBER K 1000",
            "SRANDMEMBER K V",
            "SRANDMEMBER K 1 2",
            "SMOVE K L F",
            "SMOVE K L N",
            "SINTER K L",
            "SINTER K",
            "SINTER K L M nothing",
            "SUNION K L M",
            "SUNION K K nothing",
            "SDIFF K L",
            "SDIFF K L L M",
            "SDIFF nothing K",
            "SINTERSTORE K L M",
            "SUNIONSTORE K L M",
            "SDIFFSTORE K L M",
            "SINTERCARD 2 K L",
            "SINTERCARD 2 K L LIMIT N",
            "SINTERCARD N K L LIMIT 1",
            "SINTERCARD 3 K L",
            "SINTERCARD 1 K LIMIT",
            "SSCAN K 0 COUNT 10000",
            "SSCAN K 0 COUNT 10000 MATCH f1*",
            "SSCAN K 0 COUNT 0",
            "SSCAN K 0 COUNT -5",
            "SSCAN K 0 COUNT V COUNT 10000 MORE",
            "SSCAN K x",
            "HSET K F V",
            "HLEN K",
            "OBJECT ENCODING K",
            "TYPE K",
            "EXISTS K L",
        ],
        compare: |line| match line.split(' ').next() {
            Some("SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "SPOP") => Compare::Unordered,
            Some("SRANDMEMBER") => Compare::Shape,
            Some("SSCAN") => Compare::Scan,
            _ => Compare::Exactly,
        },
    });
}

fn members(value: Value) -> Vec<Vec<u8>> {
    let (Value::Array(values) | Value::Set(values)) = value else {
        panic!("{} is no array", show(&value))
    };
    let bytes = |value| match value {
        Value::Bulk(bytes) => bytes,
        other => panic!("{}", show(&other)),
    };
    values.into_iter().map(bytes).collect()
}

#[test]
fn members_by_chance_are_members() {
    for (engine, size) in [("wip", 20u32), ("mica", 3000)] {
        let (server, _directory) = start_engine(engine);
        let mut client = Client::connect(&server);
        let mut model = BTreeSet::new();
        for n in 0..size {
            client.ask(&format!("SADD s {n}"));
            client.ask(&format!("HSET h {n} {}", n * 2));
            model.insert(n.to_string().into_bytes());
        }
        for (count, distinct) in [("7", true), ("-50", false), ("19", true), ("100000", true)] {
            let found = members(client.call(&[b"SRANDMEMBER", b"s", count.as_bytes()]));
            let wanted = count.trim_start_matches('-').parse::<usize>().unwrap();
            let wanted = if distinct { wanted.min(model.len()) } else { wanted };
            assert_eq!(found.len(), wanted);
            assert!(found.iter().all(|member| model.contains(member)));
            let different: BTreeSet<_> = found.iter().collect();
            assert!(!distinct || different.len() == found.len());
            let pairs =
                members(client.call(&[b"HRANDFIELD", b"h", count.as_bytes(), b"WITHVALUES"]));
            let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u32>().unwrap();
            assert_eq!(pairs.len(), 2 * found.len());
            assert!(pairs.chunks(2).all(|pair| number(&pair[1]) == 2 * number(&pair[0])));
        }
        while !model.is_empty() {
            let popped = members(client.call(&[b"SPOP", b"s", b"13"]));
            assert_eq!(popped.len(), model.len().min(13));
            assert!(popped.iter().all(|member| model.remove(member)));
            if let Value::Bulk(one) = client.call(&[b"SPOP", b"s"]) {
                assert!(model.remove(&one));
            }
            assert_eq!(client.ask("SCARD s"), format!(":{}", model.len()));
        }
        assert_eq!(client.ask("EXISTS s"), ":0");
        server.stop();
    }
}

#[test]
fn replies_have_the_shapes_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let (server, _directory) = start_engine("mica");
    let mut clients = [Client::connect(&server), redis.connect()];
    for line in [
        "HELLO 3",
        "SADD one m",
        "HSET h f v",
        "SMEMBERS one",
        "SMEMBERS none",
        "SPOP none",
        "SPOP none 1",
        "SPOP one 0",
        "SRANDMEMBER one",
        "SRANDMEMBER one 1",
        "SRANDMEMBER one -2",
        "SRANDMEMBER none",
        "SRANDMEMBER none 1",
        "SRANDMEMBER none -9223372036854775808",
        "SINTER one",
        "SINTER one none",
        "SUNION none none",
        "SDIFF one none",
        "SDIFF none",
        "SSCAN one 0",
        "SSCAN none 0 NONSENSE",
        "HRANDFIELD h",
        "HRANDFIELD h 1",
        "HRANDFIELD h -2 WITHVALUES",
        "HRANDFIELD h 5 WITHVALUES",
        "HRANDFIELD none 5 WITHVALUES",
        "HRANDFIELD none",
        "HRANDFIELD h 4611686018427387904 WITHVALUES",
        "HRANDFIELD h 1 WITHVALUES more",
        "HGETALL h",
        "HGETALL none",
        "HKEYS h",
        "HKEYS none",
        "HMGET none a b",
        "HSCAN h 0",
        "HSCAN none 0",
        "HINCRBYFLOAT h x inf",
        "HINCRBYFLOAT h x nan",
        "HINCRBYFLOAT h f 1",
        "HINCRBY h f 1",
        "SPOP one 1",
        "SISMEMBER one m",
    ] {
        let [ours, theirs] = clients.each_mut().map(|client| client.ask(line));
        let is_hello = line.starts_with("HELLO");
        assert!(is_hello || ours == theirs, "{line}: {ours}, not {theirs}");
    }
    server.stop();
}

#[test]
fn the_table_says_what_that_of_redis_says() {
    let Some(redis) = Redis::start() else { return };
    let (server, _directory) = start_engine("mica");
    let mut clients = [Client::connect(&server), redis.connect()];
    for name in "hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield \
                 hscan hset hsetnx hstrlen hvals sadd scard sdiff sdiffstore sinter sintercard \
                 sinterstore sismember smembers smismember smove spop srandmember srem sscan \
                 sunion sunionstore"
        .split_whitespace()
    {
        let [ours, theirs] = clients.each_mut().map(|client| {
            let Value::Array(mut found) = client.call(&[b"COMMAND", b"INFO", name.as_bytes()])
            else {
                panic!("no array")
            };
            let Some(Value::Array(mut row)) = found.pop() else { panic!("{name} is not there") };
            // Name, arity, flags, first key, last key, step, categories.
            row.truncate(7);
            for list in [2, 6] {
                if let Value::Array(words) = &mut row[list] {
                    words.sort_by_key(show);
                    words.retain(|word| show(word) != "movablekeys");
                }
            }
            row.iter().map(show).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(ours, theirs, "{name}");
    }
    server.stop();
}
