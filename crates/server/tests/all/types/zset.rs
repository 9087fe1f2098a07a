//! Sorted sets.

use super::{Compare, Requests, differ, start_engine};
use crate::redis::Redis;
use crate::support::{Client, show};
use silica_proto::Value;
use std::collections::BTreeMap;

fn compare(line: &str) -> Compare {
    match line.split(' ').next() {
        Some("ZRANDMEMBER") => Compare::Shape,
        _ => Compare::Exactly,
    }
}

#[test]
fn sorted_sets_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "ZADD K S F",
            "ZADD K S F S F S F S F S F S F",
            "ZADD K S F S F S F S F S F S F",
            "ZADD K NX S F S F",
            "ZADD K XX CH S F S F",
            "ZADD K GT CH S F S F",
            "ZADD K LT XX S F S F",
            "ZADD K INCR S F",
            "ZADD K INCR NX S F",
            "ZADD K NX GT S F",
            "ZADD K INCR S F S F",
            "ZADD K V F",
            "ZINCRBY K S F",
            "ZINCRBY K 0.1 F",
            "ZREM K F F",
            "ZREM K F",
            "ZCARD K",
            "ZSCORE K F",
            "ZMSCORE K F F F",
            "ZCOUNT K S S",
            "ZCOUNT K (S S",
            "ZCOUNT K -inf (S",
            "ZRANK K F",
            "ZREVRANK K F",
            "ZPOPMIN K",
            "ZPOPMAX K N",
            "ZPOPMIN K N",
            "ZMPOP 2 K L MIN COUNT 3",
            "ZMPOP 1 K MAX",
            "ZMPOP N K L MAX COUNT N",
            "BZPOPMIN K L 0.002",
            "BZPOPMAX K 0.002",
            "BZPOPMAX K L x",
            "BZMPOP 0.002 2 K L MIN COUNT 2",
            "BZMPOP -1 0 K MAX",
            "ZRANDMEMBER K",
            "ZRANDMEMBER K N",
            "ZRANDMEMBER K N WITHSCORES",
            "ZREMRANGEBYRANK K N N",
            "ZREMRANGEBYSCORE K S (S",
            "DEL K",
            "SET K V",
        ],
        compare,
    });
}

#[test]
fn ranges_of_sorted_sets_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "ZADD K S F S F S F",
            "ZADD K S F S F S F S F S F S F",
            "ZADD K S F S F S F S F S F S F",
            "ZREM K F F",
            "ZRANGE K N N",
            "ZRANGE K N N WITHSCORES",
            "ZRANGE K 0 -1 REV WITHSCORES",
            "ZRANGE K S S BYSCORE WITHSCORES",
            "ZRANGE K (S S BYSCORE LIMIT N N WITHSCORES",
            "ZRANGE K S S BYSCORE REV LIMIT 1 3",
            "ZRANGE K N N LIMIT 0 1",
            "ZRANGE K N N BYLEX",
            "ZRANGEBYSCORE K S S",
            "ZRANGEBYSCORE K (S (S WITHSCORES LIMIT N N",
            "ZRANGEBYSCORE K V S",
            "ZREVRANGE K N N WITHSCORES",
            "ZREVRANGEBYSCORE K S S WITHSCORES",
            "ZREVRANGEBYSCORE K inf (S LIMIT N N",
            "ZRANGESTORE L K N N",
            "ZRANGESTORE L K S S BYSCORE LIMIT N N",
            "ZRANGESTORE K K 1 -1",
            "ZREMRANGEBYSCORE K S S",
            "ZREMRANGEBYRANK K N 20",
            "ZCARD L",
        ],
        compare,
    });
}

#[test]
fn members_of_one_score_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "ZADD K 0 F 0 F 0 F",
            "ZADD K 0 F 0 F 0 F 0 F 0 F 0 F",
            "ZREM K F F",
            "ZRANGEBYLEX K - +",
            "ZRANGEBYLEX K [F +",
            "ZRANGEBYLEX K (F [F LIMIT N N",
            "ZREVRANGEBYLEX K + (F",
            "ZREVRANGEBYLEX K [F - LIMIT 1 3",
            "ZRANGE K [F (F BYLEX",
            "ZRANGE K + [F BYLEX REV LIMIT N N",
            "ZRANGE K - [F BYLEX WITHSCORES",
            "ZRANGESTORE L K - (F BYLEX",
            "ZLEXCOUNT K [F [F",
            "ZLEXCOUNT K - (F",
            "ZLEXCOUNT K + -",
            "ZLEXCOUNT K F +",
            "ZREMRANGEBYLEX K [F (F",
            "ZREMRANGEBYLEX K F -",
        ],
        compare,
    });
}

#[test]
fn combined_sorted_sets_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "ZADD K S F S F S F",
            "ZADD K S F S F S F S F S F S F",
            "ZADD K S F S F S F S F S F S F",
            "ZREM K F F",
            "SADD K F F F F",
            "SREM K F F",
            "ZUNION 2 K L",
            "ZUNION 3 K L M WITHSCORES",
            "ZUNION 2 K L WEIGHTS 2 -1 AGGREGATE MAX WITHSCORES",
            "ZUNION 2 K L WEIGHTS 0 inf WITHSCORES",
            "ZUNION N K L",
            "ZINTER 2 K L WITHSCORES",
            "ZINTER 3 K L M WEIGHTS 1 0.1 3 WITHSCORES",
            "ZINTER 2 K L AGGREGATE MIN WITHSCORES",
            "ZINTER 2 K L AGGREGATE V",
            "ZINTER 2 K L WEIGHTS 1 x",
            "ZDIFF 2 K L WITHSCORES",
            "ZDIFF 3 K L M",
            "ZDIFF 1 K WEIGHTS 1",
            "ZUNIONSTORE K 2 L M",
            "ZUNIONSTORE K 1 L WEIGHTS 2",
            "ZINTERSTORE K 2 K L AGGREGATE MAX",
            "ZDIFFSTORE K 2 L M",
            "ZINTERSTORE K N L M WITHSCORES",
            "ZINTERCARD 2 K L",
            "ZINTERCARD 2 K L LIMIT N",
            "ZRANGE K 0 -1 WITHSCORES",
            "SET K V",
            "DEL K",
        ],
        compare,
    });
}

#[test]
fn large_sorted_sets_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "ZADD K S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G",
            "ZADD K S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G",
            "ZADD K S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G S G",
            "ZINCRBY K S G",
            "ZREM K G G G",
            "ZRANK K G",
            "ZSCORE K G",
            "ZCOUNT K S S",
            "ZRANGE K N 20 WITHSCORES",
            "ZRANGE K S S BYSCORE LIMIT 3 9 WITHSCORES",
            "ZREVRANGEBYSCORE K S S LIMIT 5 20",
            "ZPOPMIN K 30",
            "ZPOPMAX K 5",
            "ZREMRANGEBYRANK K 10 60",
            "ZREMRANGEBYSCORE K S (S",
            "ZREMRANGEBYRANK K 0 -2",
            "ZINTERCARD 2 K L",
            "ZINTER 2 K L WITHSCORES",
            "ZDIFF 2 K L WITHSCORES",
            "ZUNION 2 K L",
            "ZUNIONSTORE K 2 L M",
            "ZDIFFSTORE K 2 L M",
            "ZRANGESTORE K L 0 -5",
            "ZRANDMEMBER K 50",
        ],
        compare,
    });
}

/// All that ZSCAN tells, over as many calls as it takes; `between` is asked after each.
fn scanned(client: &mut Client, line: &str, between: &str) -> BTreeMap<String, String> {
    let (mut all, mut cursor) = (BTreeMap::new(), "0".to_string());
    loop {
        client.send(format!("ZSCAN z {cursor} {line}\r\n").as_bytes());
        let Value::Array(parts) = client.reply().expect("an answer") else { panic!("an array") };
        let [Value::Bulk(next), Value::Array(items)] = &parts[..] else { panic!("{parts:?}") };
        all.extend(items.chunks(2).map(|pair| (show(&pair[0]), show(&pair[1]))));
        cursor = String::from_utf8(next.clone()).expect("digits");
        if cursor == "0" {
            return all;
        }
        client.ask(between);
    }
}

#[test]
fn scans_tell_every_member() {
    for engine in ["wip", "mica"] {
        let (server, _directory) = start_engine(engine);
        let mut ours = Client::connect(&server);
        for len in [3, 100, 3000] {
            let redis = Redis::start();
            let mut theirs = redis.as_ref().map(Redis::connect);
            ours.ask("DEL z");
            for n in 0..len {
                let line = format!("ZADD z {} member:{n}", f64::from(n % 100) / 4.0);
                ours.ask(&line);
                theirs.iter_mut().for_each(|theirs| drop(theirs.ask(&line)));
            }
            for line in ["", "COUNT 1000", "MATCH *1*", "COUNT 7 MATCH *:2?"] {
                let mine = scanned(&mut ours, line, "ZCARD z");
                if let Some(theirs) = &mut theirs {
                    assert_eq!(mine, scanned(theirs, line, "ZCARD z"), "{len} {line}");
                }
            }
            // What is there throughout is told, though its place among the scores changes.
            let told = scanned(&mut ours, "COUNT 5", "ZINCRBY z -50 member:77");
            assert!(told.len() as i32 >= len, "{}", told.len());
        }
        for line in ["ZSCAN z x", "ZSCAN z 0 COUNT 0", "ZSCAN z 0 NOVALUES"] {
            assert!(ours.ask(line).contains("ERR "), "{line}");
        }
        server.stop();
    }
}

#[test]
fn who_waits_gets_the_next_member() {
    for engine in ["wip", "mica"] {
        let (server, _directory) = start_engine(engine);
        let (mut waiter, mut adder) = (Client::connect(&server), Client::connect(&server));
        for (wait, answer) in [
            ("BZPOPMIN other z 10", "['z' 'a' '1.5']"),
            ("BZPOPMAX z 10", "['z' 'b' '2']"),
            ("BZMPOP 10 2 other z MAX COUNT 5", "['z' [['b' '2'] ['a' '1.5']]]"),
        ] {
            waiter.send(format!("{wait}\r\n").as_bytes());
            while !adder.text("INFO clients").contains("\r\nblocked_clients:1\r\n") {
                std::thread::yield_now();
            }
            assert_eq!(adder.ask("ZADD z 1.5 a 2 b"), ":2");
            assert_eq!(show(&waiter.reply().expect("an answer")), answer);
            adder.ask("DEL z");
        }
        assert_eq!(waiter.ask("BZPOPMIN z 0.01"), "nil");
        server.stop();
    }
}
