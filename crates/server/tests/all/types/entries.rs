//! Sorted sets whose elements are entries of their own.

use super::engine_pages::check_all;
use super::start_engine;
use crate::support::{Client, config, request, script, show};
use silica::{DEFAULT_KEYSPACE, OpenOptions, Silica};
use silica_base::Prng;
use silica_proto::Value;
use silica_server::{Databases, Server};
use silica_types::{element_of_entry, is_inner};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LOWERED: &str = "CONFIG SET zset-max-paged-entries 100";

fn open(directory: &tempfile::TempDir) -> (Arc<Silica>, Server) {
    let options = OpenOptions::new().memory_bytes(64 << 20);
    let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
    let server = Server::start(config(), Arc::clone(&store) as Arc<dyn Databases>).unwrap();
    (store, server)
}

/// Adds so many members to `key`.
fn fill(client: &mut Client, key: &str, len: u64) {
    for first in (0..len).step_by(100) {
        let mut line = format!("ZADD {key}");
        for n in first..len.min(first + 100) {
            line += &format!(" {} member:{n:06}", n * 7919 % len);
        }
        client.ask(&line);
    }
}

/// Entries of elements, and entries that are no user's and none of these.
fn inner(store: &Silica, keyspace: &str) -> (usize, usize) {
    let keyspace = store.keyspace(keyspace).expect("a keyspace");
    let ordered = Arc::clone(keyspace.engine()).as_ordered().expect("an order");
    let snapshot = ordered.snapshot().expect("a snapshot");
    let mut iterator = snapshot.iterate(&silica::KeyRange::ALL).expect("an iterator");
    let (mut elements, mut others) = (0, 0);
    let mut is_there = iterator.seek_to_first().expect("read");
    while is_there {
        if element_of_entry(iterator.key()).is_some() {
            elements += 1;
        } else {
            others += usize::from(is_inner(iterator.key()));
        }
        is_there = iterator.next().expect("read");
    }
    (elements, others)
}

#[test]
fn elements_come_and_go_with_their_sorted_set() {
    let directory = tempfile::tempdir().expect("a directory");
    let (store, server) = open(&directory);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(LOWERED), "OK");
    for key in ["deleted", "set", "expired", "renamed-over", "kept", "moved", "emptied"] {
        fill(&mut client, key, 1000);
    }
    assert_eq!(inner(&store, DEFAULT_KEYSPACE), (14_000, 7), "two entries each, and names");
    script(
        &mut client,
        "ZREMRANGEBYRANK emptied 0 -1 -> :1000
         DEL deleted -> :1
         SET set x -> OK
         PEXPIRE expired 1 -> :1
         RENAME kept kept-2 -> OK
         COPY kept-2 kept -> :1
         RENAME kept renamed-over -> OK
         MOVE moved 3 -> :1
         COPY kept-2 copy DB 2 -> :1
         ZCARD renamed-over -> :1000
         ZRANK renamed-over member:000001 -> :919
         ZADD kept-2 5000 member:000001 -> :0
         ZRANK kept-2 member:000001 -> :999
         ZRANK renamed-over member:000001 -> :919
         SELECT 3 -> OK
         ZRANK moved member:000001 -> :919
         ZREMRANGEBYRANK moved 10 -1 -> :990
         ZRANGE moved 9 -1 -> ['member:000111']
         SELECT 2 -> OK
         ZRANK copy member:000001 -> :919
         SELECT 0 -> OK",
    );
    let began = Instant::now();
    // What is small again has no entries of its own, and keeps the name of the pages that it had.
    for (keyspace, want) in [(DEFAULT_KEYSPACE, (4000, 2)), ("db3", (0, 1)), ("db2", (2000, 1))] {
        while inner(&store, keyspace) != want {
            let found = inner(&store, keyspace);
            assert!(began.elapsed() < Duration::from_secs(60), "{keyspace}: {found:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    server.stop();
    drop(store);
    // Ranks are counted anew by another process.
    let (store, server) = open(&directory);
    let mut client = Client::connect(&server);
    script(
        &mut client,
        "ZRANK kept-2 member:000001 -> :999
         ZRANK renamed-over member:000001 -> :919
         ZREVRANGE kept-2 0 0 -> ['member:000001']
         ZCOUNT kept-2 100 (300 -> :200",
    );
    check_all(store.keyspace(DEFAULT_KEYSPACE).unwrap().engine());
    server.stop();
}

#[test]
fn dumps_are_those_of_pages_and_restored_ones_become_entries() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("CONFIG SET zset-max-paged-entries 0"), "OK");
    fill(&mut client, "paged", 2000);
    client.send(b"DUMP paged\r\n");
    let Some(Value::Bulk(paged)) = client.reply() else { panic!("a payload") };
    assert_eq!(client.ask(LOWERED), "OK");
    fill(&mut client, "entries", 2000);
    client.send(b"DUMP entries\r\n");
    assert_eq!(client.reply(), Some(Value::Bulk(paged.clone())));
    client.send(&request(&[b"RESTORE", b"again", b"0", &paged]));
    assert_eq!(client.reply().as_ref().map(show).as_deref(), Some("OK"));
    let all = client.ask("ZRANGE entries 0 -1 WITHSCORES");
    assert_eq!(client.ask("ZRANGE paged 0 -1 WITHSCORES"), all);
    assert_eq!(client.ask("ZRANGE again 0 -1 WITHSCORES"), all);
    // The next change of what has pages makes entries of them.
    for key in ["paged", "again", "entries"] {
        assert_eq!(client.ask(&format!("ZINCRBY {key} 0.5 member:000007")), "'1433.5'");
        assert_eq!(client.ask(&format!("ZRANK {key} member:000007")), ":1433");
    }
    let usage = client.ask("MEMORY USAGE again SAMPLES 0");
    let usage: u64 = usage.trim_start_matches(':').parse().expect("a number");
    assert!((2000 * 2 * 40..2000 * 2 * 80).contains(&usage), "{usage} bytes");
    server.stop();
}

#[test]
fn a_store_that_is_to_have_no_entries_reads_those_that_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let (store, server) = open(&directory);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(LOWERED), "OK");
    fill(&mut client, "z", 1000);
    fill(&mut client, "read", 1000);
    server.stop();
    let (store, server) = {
        drop(store);
        open(&directory)
    };
    let mut client = Client::connect(&server);
    script(
        &mut client,
        "CONFIG SET zset-max-paged-entries 0 -> OK
         ZRANK read member:000001 -> :919
         ZRANK z member:000001 -> :919",
    );
    assert_eq!(inner(&store, DEFAULT_KEYSPACE), (4000, 2));
    // The next change makes pages of what is changed.
    script(
        &mut client,
        "ZINCRBY z 0.5 member:000001 -> '919.5'
         ZRANK z member:000001 -> :919
         ZRANGE z 999 -1 -> ['member:000321']",
    );
    assert_eq!(inner(&store, DEFAULT_KEYSPACE).0, 2000);
    check_all(store.keyspace(DEFAULT_KEYSPACE).unwrap().engine());
    server.stop();
}

#[test]
fn a_member_too_long_for_a_key_is_one_of_pages() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(LOWERED), "OK");
    let long = "m".repeat(70_000);
    fill(&mut client, "before", 500);
    assert_eq!(client.ask(&format!("ZADD before 250.5 {long}")), ":1");
    assert_eq!(client.ask(&format!("ZADD after 250.5 {long}")), ":1");
    fill(&mut client, "after", 500);
    for key in ["before", "after"] {
        assert_eq!(client.ask(&format!("ZRANK {key} {long}")), ":251");
        assert_eq!(client.ask(&format!("ZCARD {key}")), ":501");
        assert_eq!(client.ask(&format!("ZREM {key} {long}")), ":1");
        assert_eq!(client.ask(&format!("ZRANGE {key} 499 -1 WITHSCORES")).matches('\'').count(), 4);
    }
    server.stop();
}

#[test]
fn transactions_and_scripts_see_what_they_have_changed() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(LOWERED), "OK");
    fill(&mut client, "z", 1000);
    script(
        &mut client,
        "MULTI -> OK
         ZADD z 500.5 between -> QUEUED
         ZRANK z between -> QUEUED
         ZRANGE z 500 502 -> QUEUED
         ZREM z member:000000 -> QUEUED
         ZRANK z between -> QUEUED
         ZCOUNT z 500 501 -> QUEUED
         ZPOPMIN z -> QUEUED
         ZREVRANK z between -> QUEUED
         EXEC -> [:1 :501 ['member:000500' 'between' 'member:000179'] :1 :500 :3 \
         ['member:000679' '1'] :499]
         ZRANK z between -> :499",
    );
    let text = "redis.call('ZADD', KEYS[1], 600.5, 'scripted') \
         redis.call('ZINCRBY', KEYS[1], 100, 'between') \
         local ranks = {redis.call('ZRANK', KEYS[1], 'scripted'), \
           redis.call('ZRANK', KEYS[1], 'between'), redis.call('ZCARD', KEYS[1])} \
         redis.call('ZREM', KEYS[1], 'scripted') \
         ranks[4] = redis.call('ZRANK', KEYS[1], 'between') return ranks";
    client.send(&request(&[b"EVAL", text.as_bytes(), b"1", b"z"]));
    let answer = client.reply().expect("an answer");
    assert_eq!(show(&answer), "[:600 :599 :1000 :599]");
    // One that is discarded leaves nothing.
    script(
        &mut client,
        "MULTI -> OK
         ZADD z 1 gone -> QUEUED
         DISCARD -> OK
         ZCARD z -> :999
         ZRANK z between -> :599",
    );
    server.stop();
}

/// Ranks fit what is there while many change it: members only come in pairs, of one score each.
#[test]
fn ranks_are_right_while_others_change_the_set() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(LOWERED), "OK");
    fill(&mut client, "z", 1000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let mut client = Client::connect(&server);
                scope.spawn(move || {
                    let mut random = Prng::new(writer);
                    let mut own = BTreeMap::new();
                    for round in 0..400 {
                        let n = random.below(50);
                        let score = random.below(1000);
                        let name = format!("{writer}:{n}");
                        client.ask(&format!("ZADD z {score} a:{name} {score} b:{name}"));
                        own.insert(n, score);
                        if round % 7 == 0 {
                            let name = format!("{writer}:{}", random.below(50));
                            client.ask(&format!("ZREM z a:{name} b:{name}"));
                            own.remove(&name.split(':').nth(1).unwrap().parse().unwrap());
                        }
                    }
                    own.len() as u64
                })
            })
            .collect();
        for _ in 0..2 {
            let (mut client, is_over) = (Client::connect(&server), &is_over);
            scope.spawn(move || {
                let mut random = Prng::new(77);
                while !is_over.load(Ordering::Relaxed) {
                    let (n, len) = (random.below(1000), client.ask("ZCARD z"));
                    let len: u64 = len.trim_start_matches(':').parse().expect("a number");
                    assert!(len.is_multiple_of(2) && len >= 1000, "{len}");
                    let score = n * 7919 % 1000;
                    let line = format!("ZRANK z member:{n:06}");
                    let answer = client.ask(&line);
                    let rank: u64 = answer
                        .trim_start_matches(':')
                        .parse()
                        .unwrap_or_else(|_| panic!("{line}: {answer}"));
                    assert!(rank >= score && rank <= score + 300, "{line}: {answer}");
                    let count = client.ask(&format!("ZCOUNT z {n} ({}", n + 100));
                    let count: u64 = count.trim_start_matches(':').parse().expect("a number");
                    assert_eq!(count % 2, (1000 - n).min(100) % 2, "{n}: {count}");
                }
            });
        }
        let pairs: u64 = writers.into_iter().map(|writer| writer.join().expect("done")).sum();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(client.ask("ZCARD z"), format!(":{}", 1000 + 2 * pairs));
    });
    // Ranks are those of a walk over all.
    client.send(b"ZRANGE z 0 -1\r\n");
    let Some(Value::Array(all)) = client.reply() else { panic!("an array") };
    for (rank, member) in all.iter().enumerate() {
        let member = show(member);
        let line = format!("ZRANK z {}", member.trim_matches('\''));
        assert_eq!(client.ask(&line), format!(":{rank}"), "{line}");
    }
    server.stop();
}
