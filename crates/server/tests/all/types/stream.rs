//! Streams and their groups.

use super::waiting::{servers, until_waiting};
use super::{Compare, Requests, differ};
use crate::events::{heard, listen};
use crate::redis::Redis;
use crate::support::{Client, show};
use silica_base::{Prng, test_size};
use silica_proto::Value;
use std::cell::Cell;

thread_local! {
    /// The time of the ids that are given: it grows while requests are made.
    static NOW: Cell<u64> = const { Cell::new(100) };
}

/// What the words of templates stand for: A is an id to add, I one that may be there, J an end of a
/// range, U a group and C a consumer.
pub(super) fn meant(word: &str, random: &mut Prng) -> String {
    let now = NOW.get();
    match word {
        "A" => {
            let now = now + random.below(3);
            NOW.set(now);
            match random.below(5) {
                0 => format!("{now}-*"),
                1 => format!("{now}-{}", random.below(3)),
                2 => format!("{}", now - random.below(2)),
                _ => format!("{now}"),
            }
        }
        "I" => {
            let ms = now - random.below(40);
            match random.below(9) {
                0 => format!("{ms}-{}", random.below(3)),
                1 => {
                    ["0", "0-0", "x", "5-", "18446744073709551615"][random.below(5) as usize].into()
                }
                _ => ms.to_string(),
            }
        }
        "J" => match random.below(8) {
            0 | 1 => "-".into(),
            2 | 3 => "+".into(),
            4 => format!("({}", meant("I", random)),
            _ => meant("I", random),
        },
        "U" => ["g", "group", "g2"][random.below(3) as usize].into(),
        _ => ["alice", "bob", "c"][random.below(3) as usize].into(),
    }
}

/// Requests about entries.
const ENTRIES: &[&str] = &[
    "XADD K A F V",
    "XADD K A F V F V",
    "XADD K A F V",
    "XADD K NOMKSTREAM A F V",
    "XADD K MAXLEN 25 A F V",
    "XADD K NOMKSTREAM MAXLEN = 30 A F V",
    "XADD K MINID I A F V",
    "XADD K MAXLEN ~ 1000 A F V",
    "XADD K MAXLEN ~ 1000 LIMIT 7 A F V",
    "XADD K MAXLEN 10 LIMIT 7 A F V",
    "XADD K LIMIT N A F V",
    "XADD K MAXLEN N MINID I A F V",
    "XADD K A F",
    "XADD K A F V F",
    "XADD K MAXLEN 5 NOMKSTREAM",
    "XLEN K",
    "XRANGE K J J",
    "XRANGE K J J COUNT N",
    "XRANGE K - +",
    "XREVRANGE K J J",
    "XREVRANGE K J J COUNT N",
    "XRANGE K - + FOO",
    "XDEL K I",
    "XDEL K I I I",
    "XTRIM K MAXLEN 20",
    "XTRIM K MAXLEN N",
    "XTRIM K MINID I",
    "XTRIM K MINID ~ 5",
    "XTRIM K MAXLEN ~ 1000 LIMIT N",
    "XTRIM K LIMIT N",
    "XTRIM K FOO N",
    "XSETID K I",
    "XSETID K A ENTRIESADDED 50 MAXDELETEDID I",
    "XSETID K A ENTRIESADDED N",
    "XREAD STREAMS K I",
    "XREAD COUNT N STREAMS K L I I",
    "XREAD COUNT 2 STREAMS K K I I",
    "XREAD STREAMS K $",
    "XREAD STREAMS K L I",
    "XREAD NOACK STREAMS K I",
    "XREAD GROUP U C STREAMS K I",
    "XREAD STREAMS K >",
    "XREAD COUNT x STREAMS K I",
    "XINFO STREAM K",
    "XINFO STREAM K FULL",
    "TYPE K",
];

/// Requests about groups and what they have pending.
const GROUPS: &[&str] = &[
    "XADD K A F V",
    "XADD K A F V",
    "XADD K A F V",
    "XADD K A F V",
    "XADD K A F V",
    "XTRIM K MAXLEN 20",
    "XDEL K I",
    "XGROUP CREATE K U I",
    "XGROUP CREATE K U $ MKSTREAM",
    "XGROUP CREATE K U 0 MKSTREAM ENTRIESREAD N",
    "XGROUP CREATE K U I ENTRIESREAD 3",
    "XGROUP CREATE K U I FOO",
    "XGROUP SETID K U J",
    "XGROUP SETID K U $ ENTRIESREAD N",
    "XGROUP DESTROY K U",
    "XGROUP CREATECONSUMER K U C",
    "XGROUP DELCONSUMER K U C",
    "XREADGROUP GROUP U C STREAMS K >",
    "XREADGROUP GROUP U C COUNT 2 STREAMS K >",
    "XREADGROUP GROUP U C COUNT N STREAMS K L > >",
    "XREADGROUP GROUP U C NOACK COUNT 3 STREAMS K >",
    "XREADGROUP GROUP U C STREAMS K I",
    "XREADGROUP GROUP U C COUNT 2 STREAMS K L I >",
    "XREADGROUP GROUP U C STREAMS K $",
    "XREADGROUP COUNT 1 NOACK STREAMS K L > >",
    "XREADGROUP GROUP U C COUNT STREAMS K",
    "XACK K U I",
    "XACK K U I I I",
    "XPENDING K U",
    "XPENDING K U J J 10",
    "XPENDING K U - + N C",
    "XPENDING K U IDLE 50000 - + 10 C",
    "XPENDING K U IDLE 0 - + 10",
    "XPENDING K U IDLE 50000 J J 5",
    "XPENDING K U IDLE 50000 -",
    "XCLAIM K U C 0 I",
    "XCLAIM K U C 0 I I I JUSTID",
    "XCLAIM K U C 50000 I I",
    "XCLAIM K U C 0 I I IDLE 100000",
    "XCLAIM K U C 0 I TIME 5 RETRYCOUNT N FORCE",
    "XCLAIM K U C 50000 I FORCE JUSTID",
    "XCLAIM K U C 0 I LASTID I",
    "XCLAIM K U C 0 I FOO",
    "XCLAIM K U C x I",
    "XAUTOCLAIM K U C 0 0",
    "XAUTOCLAIM K U C 0 J COUNT 2",
    "XAUTOCLAIM K U C 50000 - COUNT 3 JUSTID",
    "XAUTOCLAIM K U C 0 - COUNT N",
    "XAUTOCLAIM K U C 0 0 FOO",
    "XINFO GROUPS K",
    "XINFO GROUPS K",
    "XINFO CONSUMERS K U",
    "XINFO STREAM K",
    "XINFO STREAM K FULL",
    "XINFO STREAM K FULL COUNT N",
    "XINFO STREAM K FOO",
    "XSETID K A ENTRIESADDED 60 MAXDELETEDID 0",
];

/// `value` without times, and without what tells of Redis's radix tree.
pub(super) fn timeless(value: Value) -> Value {
    match value {
        Value::Integer(n) if n > 100_000_000_000 => Value::Integer(0),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(timeless).collect();
            if let [Value::Bulk(_), Value::Bulk(_), idle @ Value::Integer(_), Value::Integer(_)] =
                &mut items[..]
            {
                *idle = Value::Integer(0);
            }
            for at in 1..items.len() {
                if is_name_of_variable(&items[at - 1]) {
                    items[at] = Value::Integer(0);
                }
            }
            Value::Array(items)
        }
        Value::Map(pairs) => {
            let pair = |(name, value)| match is_name_of_variable(&name) {
                true => (name, Value::Integer(0)),
                false => (name, timeless(value)),
            };
            Value::Map(pairs.into_iter().map(pair).collect())
        }
        other => other,
    }
}

fn is_name_of_variable(name: &Value) -> bool {
    let names = ["idle", "seen-time", "radix-tree-keys", "radix-tree-nodes"];
    matches!(name, Value::Bulk(name) if names.iter().any(|one| one.as_bytes() == name))
}

fn compare(line: &str) -> Compare {
    match line {
        _ if line.starts_with("XINFO") || line.starts_with("XPENDING") => {
            Compare::Without(timeless)
        }
        _ => Compare::Exactly,
    }
}

#[test]
fn streams_are_those_of_redis() {
    differ(&Requests { templates: ENTRIES, compare });
}

#[test]
fn groups_are_those_of_redis() {
    differ(&Requests { templates: GROUPS, compare });
}

#[test]
fn events_of_streams_and_counters_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    const COUNTERS: &[&str] = &["PFADD K F", "PFMERGE K L", "PFCOUNT K", "DEL K", "DEL K"];
    let (server, _directory) = super::start_engine("mica");
    let mut random = Prng::new(5);
    let mut clients = [Client::connect(&server), redis.connect()];
    let mut ears = [Client::connect(&server), redis.connect()].map(|ear| listen(ear, "KEA"));
    let templates: Vec<&str> = [ENTRIES, GROUPS, COUNTERS].concat();
    for _ in 0..test_size(1500, 5000, 100_000) {
        let template = templates[random.below(templates.len() as u64) as usize];
        let words = template.split(' ').map(|word| super::meant(word, &mut random));
        let line = words.collect::<Vec<_>>().join(" ");
        clients.iter_mut().for_each(|client| drop(client.ask(&line)));
        let [ours, theirs] = ears.each_mut().map(heard);
        assert_eq!(ours, theirs, "{line}");
    }
    server.stop();
}

#[test]
fn readers_wait_for_entries() {
    for (server, _directory) in servers() {
        let mut writer = Client::connect(&server);
        writer.ask("XADD s 5-0 before yes");
        let mut readers: Vec<Client> = (0..3).map(|_| Client::connect(&server)).collect();
        readers[0].send(b"XREAD BLOCK 0 STREAMS s $\r\nPING\r\n");
        readers[1].send(b"XREAD COUNT 1 BLOCK 0 STREAMS other s 0 5\r\nPING\r\n");
        readers[2].send(b"XREAD BLOCK 20 STREAMS s $\r\nPING\r\n");
        // One waits in vain.
        assert_eq!(show(&readers[2].reply().unwrap()), "nil");
        until_waiting(&mut writer, 2);
        // Other changes end no wait.
        writer.ask("XSETID s 6-0");
        writer.ask("XDEL s 5-0");
        writer.ask("SET other string");
        until_waiting(&mut writer, 2);
        assert_eq!(writer.ask("XADD s 7-0 field value"), "'7-0'");
        for reader in &mut readers[..2] {
            assert_eq!(show(&reader.reply().unwrap()), "[['s' [['7-0' ['field' 'value']]]]]");
        }
        for reader in &mut readers {
            assert_eq!(show(&reader.reply().unwrap()), "PONG");
        }
        // Nothing waits inside MULTI.
        for line in ["MULTI", "XREAD BLOCK 0 STREAMS s $"] {
            writer.ask(line);
        }
        assert_eq!(writer.ask("EXEC"), "[nil]");
        server.stop();
    }
}

#[test]
fn consumers_of_a_group_take_turns() {
    for (server, _directory) in servers() {
        let mut writer = Client::connect(&server);
        for line in ["XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATE s ahead 100 MKSTREAM"] {
            assert_eq!(writer.ask(line), "OK");
        }
        assert_eq!(writer.ask("XGROUP CREATE s h 0"), "OK");
        let mut readers: Vec<Client> = (0..5).map(|_| Client::connect(&server)).collect();
        // The first in line belongs to a group that wants none of what comes.
        for (nth, group) in ["ahead", "g", "g", "h", "g"].iter().enumerate() {
            let line = format!("XREADGROUP GROUP {group} c{nth} BLOCK 0 STREAMS s >\r\n");
            readers[nth].send(line.as_bytes());
            until_waiting(&mut writer, nth + 1);
        }
        writer.ask("XADD s 1-0 f v");
        for nth in [1, 3] {
            assert_eq!(show(&readers[nth].reply().unwrap()), "[['s' [['1-0' ['f' 'v']]]]]");
        }
        until_waiting(&mut writer, 3);
        writer.ask("XADD s 2-0 f v");
        assert_eq!(show(&readers[2].reply().unwrap()), "[['s' [['2-0' ['f' 'v']]]]]");
        until_waiting(&mut writer, 2);
        let pending = "[:2 '1-0' '2-0' [['c1' '1'] ['c2' '1']]]";
        assert_eq!(writer.ask("XPENDING s g"), pending);
        assert_eq!(writer.ask("XACK s g 1-0 2-0"), ":2");
        // Whoever waits becomes a consumer when it is served.
        assert_eq!(writer.ask("XGROUP CREATECONSUMER s g c4"), ":1");
        assert_eq!(writer.ask("XGROUP DESTROY s ahead"), ":1");
        let text = show(&readers[0].reply().unwrap());
        assert!(text.contains("NOGROUP the consumer group this client was blocked on"), "{text}");
        assert_eq!(writer.ask("DEL s"), ":1");
        let text = show(&readers[4].reply().unwrap());
        assert!(text.contains("UNBLOCKED the stream key no longer exists"), "{text}");
        server.stop();
    }
}
