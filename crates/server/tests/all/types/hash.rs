//! Hashes.

use super::{Compare, Requests, differ, start_engine};
use crate::support::{Client, script};
use std::time::Duration;

#[test]
fn hashes_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "HSET K F V",
            "HSET K F V F V F V",
            "HSET K F V F",
            "HMSET K F V F V",
            "HMSET K F V F",
            "HSETNX K F V",
            "HGET K F",
            "HMGET K F F F",
            "HGETALL K",
            "HKEYS K",
            "HVALS K",
            "HLEN K",
            "HEXISTS K F",
            "HSTRLEN K F",
            "HDEL K F",
            "HDEL K F F F F F F F F",
            "HINCRBY K F N",
            "HINCRBY K n N",
            "HINCRBY K n 9223372036854775807",
            "HINCRBY K n V",
            "HINCRBYFLOAT K F 0.1",
            "HINCRBYFLOAT K n S",
            "HINCRBYFLOAT K n 1.7e308",
            "HINCRBYFLOAT K n V",
            "HRANDFIELD K",
            "HRANDFIELD K N",
            "HRANDFIELD K N WITHVALUES",
            "HRANDFIELD K 100 WITHVALUES",
            "HRANDFIELD K N WITHOUT",
            "HRANDFIELD K -9223372036854775808",
            "HRANDFIELD K 9223372036854775807 WITHVALUES",
            "HRANDFIELD K V",
            "HSCAN K 0 COUNT 10000",
            "HSCAN K 0 COUNT 10000 MATCH f1*",
            "HSCAN K 0 COUNT 0",
            "HSCAN K 0 COUNT -5",
            "HSCAN K 0 COUNT V COUNT 10000 MORE",
            "HSCAN K 0 MATCH",
            "HSCAN K x",
            "SADD K F",
            "SCARD K",
            "OBJECT ENCODING K",
            "TYPE K",
            "EXISTS K L",
        ],
        compare: |line| match line.split(' ').next() {
            Some("HGETALL") => Compare::Pairs,
            Some("HKEYS" | "HVALS") => Compare::Unordered,
            Some("HRANDFIELD") => Compare::Shape,
            Some("HSCAN") => Compare::Scan,
            _ => Compare::Exactly,
        },
    });
}

/// Requests about times of fields, one after the other, and what they answer.
const TIMES: &str = "
    HSET h a 1 b 2 c 3 -> :3
    HEXPIRE h 100 FIELDS 2 a x -> [:1 :-2]
    HTTL h FIELDS 3 a b x -> [:100 :-1 :-2]
    HEXPIRE h 200 NX FIELDS 2 a b -> [:0 :1]
    HEXPIRE h 300 XX FIELDS 2 a c -> [:1 :0]
    HEXPIRE h 250 GT FIELDS 3 a b c -> [:0 :1 :0]
    HEXPIRE h 240 LT FIELDS 3 a b c -> [:1 :1 :1]
    HTTL h FIELDS 3 a b c -> [:240 :240 :240]
    HINCRBY h a 5 -> :6
    HSETNX h a 7 -> :0
    HTTL h FIELDS 1 a -> [:240]
    HSET h a 7 -> :0
    HTTL h FIELDS 1 a -> [:-1]
    HPERSIST h FIELDS 3 a b x -> [:-1 :1 :-2]
    HEXPIREAT h 4000000000 FIELDS 1 a -> [:1]
    HEXPIRETIME h FIELDS 2 a b -> [:4000000000 :-1]
    HPEXPIREAT h 4000000000001 FIELDS 1 a -> [:1]
    HPEXPIRETIME h FIELDS 2 a x -> [:4000000000001 :-2]
    HEXPIRETIME h FIELDS 1 a -> [:4000000001]
    HEXPIRE h 0 FIELDS 2 a x -> [:2 :-2]
    HPEXPIREAT h 1 NX FIELDS 1 b -> [:2]
    HGETALL h -> ['c' '3']
    HEXPIRE none 10 FIELDS 2 a b -> [:-2 :-2]
    HTTL none FIELDS 1 a -> [:-2]
    HPERSIST none FIELDS 1 a -> [:-2]
    HEXPIRE h 0 FIELDS 1 c -> [:2]
    EXISTS h -> :0
";

/// Requests of Redis 8 about times.
const LATER: &str = "
    HEXPIRE h x FIELDS 1 a -> -ERR value is not an integer or out of range
    HEXPIRE h -1 FIELDS 1 a -> -ERR invalid expire time, must be >= 0
    HEXPIRE h 1 FIELDS 0 a -> -ERR Parameter `numFields` should be greater than 0
    HTTL h FIELDS 0 a -> -ERR Number of fields must be a positive integer
    HTTL h FIELDS 3 a b -> -ERR The `numfields` parameter must match the number of arguments
    HSET h a 1 b 2 -> :2
    HGETDEL h FIELDS 2 a x -> ['1' nil]
    HGETEX h EX 50 FIELDS 2 b x -> ['2' nil]
    HTTL h FIELDS 1 b -> [:50]
    HGETEX h FIELDS 1 b -> ['2']
    HTTL h FIELDS 1 b -> [:50]
    HGETEX h PERSIST FIELDS 1 b -> ['2']
    HTTL h FIELDS 1 b -> [:-1]
    HSETEX h FNX EX 60 FIELDS 2 b 3 c 4 -> :0
    HSETEX h FNX EX 60 FIELDS 2 d 3 e 4 -> :1
    HTTL h FIELDS 3 b d e -> [:-1 :60 :60]
    HSETEX h FXX KEEPTTL FIELDS 2 b 9 d 9 -> :1
    HTTL h FIELDS 2 b d -> [:-1 :60]
    HSETEX h FIELDS 1 d 8 -> :1
    HMGET h b d e -> ['9' '8' '4']
    HTTL h FIELDS 2 d e -> [:-1 :60]
    HGETDEL h FIELDS 3 b d e -> ['9' '8' '4']
    EXISTS h -> :0
";

/// Requests that are refused, and their errors.
const REFUSED: &[(&str, &str)] = &[
    (
        "HEXPIRE s 10 FIELDS 1 a",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    ),
    ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
    ("HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat' command"),
    (
        "HEXPIRE h 1 FIELD 1 a",
        "-ERR Mandatory argument FIELDS is missing or not at the right position",
    ),
    ("HEXPIRE h 1 FIELDS 2 a", "-ERR The `numfields` parameter must match the number of arguments"),
    (
        "HGETEX h PERSIST EX 1 FIELDS 1 b",
        "-ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
    ),
];

#[test]
fn fields_have_times() {
    for engine in ["wip", "mica"] {
        let (server, _directory) = start_engine(engine);
        let mut client = Client::connect(&server);
        script(&mut client, TIMES);
        script(&mut client, LATER);
        assert_eq!(client.ask("SET s 1"), "OK");
        for (request, error) in REFUSED {
            assert_eq!(client.ask(request), *error, "{request}");
        }
        server.stop();
    }
}

#[test]
fn fields_expire() {
    for engine in ["wip", "mica"] {
        let (server, _directory) = start_engine(engine);
        let mut client = Client::connect(&server);
        // Many fields, some of which expire while the hash has pages.
        for n in 0..500 {
            let line = format!("HSET large f{n} {}", "v".repeat(20));
            assert_eq!(client.ask(&line), ":1");
        }
        for n in (0..500).step_by(2) {
            assert_eq!(client.ask(&format!("HPEXPIRE large 40 FIELDS 1 f{n}")), "[:1]");
        }
        std::thread::sleep(Duration::from_millis(60));
        script(
            &mut client,
            "HLEN large -> :250
             HGET large f10 -> nil
             HEXISTS large f10 -> :0
             HSTRLEN large f11 -> :20
             HSETNX large f10 new -> :1
             HGET large f10 -> 'new'
             HLEN large -> :251
             HDEL large f11 f12 -> :1
             HLEN large -> :250",
        );
        for round in 0..20 {
            assert_eq!(client.ask("HINCRBY large n 1"), format!(":{}", round + 1));
            assert_eq!(client.ask("HLEN large"), ":251");
        }
        server.stop();
    }
}

#[test]
fn expired_fields_are_told_of() {
    let (server, _directory) = start_engine("mica");
    let (mut client, mut listener) = (Client::connect(&server), Client::connect(&server));
    script(
        &mut client,
        "CONFIG SET notify-keyspace-events Kgh -> OK
         HSET h a 1 b 2 -> :2
         HPEXPIRE h 30 FIELDS 1 a -> [:1]",
    );
    listener.ask("SUBSCRIBE __keyspace@0__:h");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(client.ask("HDEL h b"), ":1");
    let mut told = |want: &str| {
        let message = crate::support::show(&listener.reply().expect("a message"));
        assert!(message.ends_with(&format!("'{want}']")), "{message}");
    };
    told("hexpired");
    told("hdel");
    told("del");
    server.stop();
}
