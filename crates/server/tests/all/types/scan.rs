//! Scans of elements under change: what is there throughout is returned.

use super::start_engine;
use crate::support::Client;
use silica_base::{Prng, test_size};
use silica_proto::Value;
use std::collections::BTreeSet;

/// The cursor and the elements of a scan's reply.
fn page(reply: Value) -> (String, Vec<String>) {
    let Value::Array(parts) = reply else { panic!("{reply:?}") };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let Value::Array(elements) = &parts[1] else { panic!("{parts:?}") };
    (text(&parts[0]), elements.iter().map(text).collect())
}

/// Sends `lines`, some hundreds at once, and waits for the answers.
fn ask_all(client: &mut Client, lines: &[String]) {
    for lines in lines.chunks(500) {
        client.send((lines.join("\r\n") + "\r\n").as_bytes());
        client.replies(lines.len());
    }
}

/// Also when the server is started anew meanwhile, with all that was written: cursors still hold.
#[test]
fn what_is_there_throughout_is_returned() {
    for (seed, engine) in [(1, "wip"), (2, "mica"), (3, "mica")] {
        let (server, directory) = start_engine(engine);
        let (mut server, mut directory) = (server, directory);
        let mut client = Client::connect(&server);
        let mut prng = Prng::new(seed);
        let size = test_size(600, 5000, 50_000);
        let mut there: BTreeSet<u64> = (0..size).collect();
        let fill = |client: &mut Client, there: &BTreeSet<u64>| {
            let line = |n: &u64| [format!("SADD s user:{n:08}"), format!("HSET h user:{n:08} v")];
            let lines: Vec<String> = there.iter().flat_map(line).collect();
            ask_all(client, &lines);
        };
        fill(&mut client, &there);
        for (name, count, restarts) in [("s", 1, false), ("h", 50, false), ("s", 50, true)] {
            let scan = if name == "s" { "SSCAN" } else { "HSCAN" };
            let add = if name == "s" { "SADD s {}" } else { "HSET h {} v" };
            let remove = if name == "s" { "SREM" } else { "HDEL" };
            let (mut throughout, mut seen) = (there.clone(), BTreeSet::new());
            let (mut cursor, mut calls) = ("0".to_string(), 0);
            loop {
                let line = format!("{scan} {name} {cursor} COUNT {count}");
                let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                let (next, found) = page(client.call(&words));
                let step = if name == "h" { 2 } else { 1 };
                assert!(found.len() <= count * step);
                let mut gone = Vec::new();
                for element in found.iter().step_by(step) {
                    let number: u64 = element.strip_prefix("user:").unwrap().parse().unwrap();
                    seen.insert(number);
                    // A client that removes what it has seen.
                    if number.is_multiple_of(3) && there.remove(&number) {
                        throughout.remove(&number);
                        gone.push(format!("{remove} {name} {element}"));
                    }
                }
                ask_all(&mut client, &gone);
                let gone = prng.below(size);
                if !gone.is_multiple_of(3) && prng.one_in(4) && there.remove(&gone) {
                    throughout.remove(&gone);
                    client.ask(&format!("{remove} {name} user:{gone:08}"));
                } else if prng.one_in(4) {
                    let new = size + prng.below(size);
                    there.insert(new);
                    client.ask(&add.replace("{}", &format!("user:{new:08}")));
                }
                (cursor, calls) = (next, calls + 1);
                if cursor == "0" {
                    break;
                }
                if restarts && calls == 7 {
                    server.stop();
                    drop(directory);
                    (server, directory) = start_engine(engine);
                    client = Client::connect(&server);
                    fill(&mut client, &there);
                }
            }
            let missed: Vec<_> = throughout.difference(&seen).take(5).collect();
            assert!(missed.is_empty(), "{engine} {scan}: {missed:?}");
            let bound = 3 * (size as usize / count + 20);
            assert!(calls < bound, "{calls} calls for {size} elements, {count} at a time");
            // Both have the same elements again.
            ask_all(&mut client, &["DEL s h".to_string()]);
            there = (0..size).collect();
            fill(&mut client, &there);
        }
        server.stop();
    }
}

#[test]
fn small_objects_are_returned_at_once() {
    let (server, _directory) = start_engine("mica");
    let mut client = Client::connect(&server);
    for n in 0..40 {
        client.ask(&format!("SADD s {n}"));
        client.ask(&format!("HSET h f{n} {n}"));
    }
    for (line, elements) in [
        ("SSCAN s 0 COUNT 5", 40),
        ("SSCAN s 0 MATCH 1* COUNT 5", 11),
        ("HSCAN h 0", 80),
        ("HSCAN h 0 NOVALUES", 40),
        ("HSCAN h 0 MATCH f3? NOVALUES COUNT 3", 10),
        ("SSCAN s 4611686018427387999", 40),
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (cursor, found) = page(client.call(&words));
        assert_eq!((cursor.as_str(), found.len()), ("0", elements), "{line}");
    }
    assert_eq!(client.ask("SSCAN s 0 NOVALUES"), "-ERR syntax error");
    server.stop();
}
