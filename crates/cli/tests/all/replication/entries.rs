//! Replicas of sorted sets whose elements are entries of their own: all data by RDB and as blocks,
//! and what is changed from then on.

use super::*;
use crate::support::{arg, scratch};

const BOARDS: u64 = 4;
const MEMBERS: u64 = 400;

fn fill(client: &mut Client) {
    for board in 0..BOARDS {
        for first in (0..MEMBERS).step_by(50) {
            let mut line = format!("ZADD board:{board}");
            for n in first..first + 50 {
                line += &format!(" {} member:{n}", n * 7919 % MEMBERS);
            }
            ask(client, &line);
        }
    }
}

/// Changes of large sorted sets, one of which becomes small.
fn change(client: &mut Client, random: &mut Prng, count: usize) {
    for _ in 0..count {
        let (board, n) = (random.below(BOARDS), random.below(MEMBERS));
        let key = format!("board:{board}");
        ask(
            client,
            &match random.below(8) {
                0 => format!("ZREM {key} member:{n}"),
                1 => format!("ZPOPMIN {key}"),
                2 => "ZPOPMAX board:0 3".to_string(),
                3 => format!("ZADD {key} {n} member:{}", random.below(MEMBERS)),
                4 => format!("ZRANGESTORE board:5 {key} 10 200"),
                _ => format!("ZINCRBY {key} {n} member:{}", random.below(MEMBERS)),
            },
        );
    }
}

/// Both say the same of ranks.
fn compare_ranks(primary: &mut Client, replica: &mut Client, context: &str) {
    for board in 0..BOARDS {
        for n in (0..MEMBERS).step_by(37) {
            for line in [
                format!("ZRANK board:{board} member:{n}"),
                format!("ZREVRANGE board:{board} {n} {}", n + 3),
                format!("ZCOUNT board:{board} {n} +inf"),
            ] {
                assert_eq!(ask(primary, &line), ask(replica, &line), "{context}: {line}");
            }
        }
    }
}

#[test]
fn sorted_sets_of_entries_are_followed() {
    let dir = scratch("replication-entries");
    let first = Server::start(&dir.join("first"), &["--loops", "2"]);
    let mut primary = first.client();
    ask(&mut primary, "CONFIG SET zset-max-paged-entries 50");
    fill(&mut primary);
    let path = |name: &str| dir.join(name);
    let entries = Server::start(&path("entries"), &["--loops", "2"]);
    let pages = Server::start(&path("pages"), &["--loops", "2"]);
    let cache = Server::start_cache(&path("cache"), "64MiB", &["--loops", "2"]);
    let hashed = Server::start(&path("hashed"), &["--loops", "2", "--engine", "silt"]);
    let redis = has_redis().then(|| Server::start_redis_in(&dir, &path("redis")));
    let mut replicas = vec![
        ("a store with entries", entries.client()),
        ("a store with pages", pages.client()),
        ("a cache", cache.client()),
        ("a store without order", hashed.client()),
    ];
    replicas.extend(redis.as_ref().map(|redis| ("a server of Redis", redis.client())));
    ask(&mut replicas[0].1, "CONFIG SET zset-max-paged-entries 50");
    ask(&mut replicas[1].1, "CONFIG SET zset-max-paged-entries 0");
    let mut random = Prng::new(3);
    for round in 0..2 {
        for (context, replica) in &mut replicas {
            if round == 0 {
                follow(replica, first.port);
            }
            must_be_equal(&mut primary, replica, context);
            compare_ranks(&mut primary, replica, context);
            change(&mut primary, &mut random, 200);
            must_be_equal(&mut primary, replica, context);
            compare_ranks(&mut primary, replica, context);
        }
        fill(&mut primary);
    }
    // From Redis back, by its RDB.
    if let Some(redis) = &redis {
        let mut from = redis.client();
        let last = Server::start(&path("last"), &["--loops", "2"]);
        let mut replica = last.client();
        ask(&mut replica, "CONFIG SET zset-max-paged-entries 50");
        follow(&mut replica, redis.port);
        must_be_equal(&mut primary, &mut from, "a server of Redis");
        must_be_equal(&mut primary, &mut replica, "a replica of Redis");
        change(&mut primary, &mut random, 200);
        must_be_equal(&mut primary, &mut replica, "a replica of Redis");
        compare_ranks(&mut primary, &mut replica, "a replica of Redis");
    }
    // One that goes on by itself changes what it was given.
    for (context, mut replica) in replicas.into_iter().take(4) {
        ask(&mut replica, "REPLICAOF NO ONE");
        let before = contents(&mut replica);
        assert!(before.contains_key("0/board:1"), "{context}: {before:?}");
        fill(&mut replica);
        assert_eq!(ask(&mut replica, "ZCARD board:1"), Reply::Number(MEMBERS as i64), "{context}");
        assert_eq!(ask(&mut replica, "ZRANK board:1 member:1"), Reply::Number(319), "{context}");
    }
    for server in [first, entries, pages, hashed] {
        server.stop();
    }
    for name in ["first", "entries", "pages", "hashed"] {
        crate::support::silica_ok(&["verify", "--path", arg(&path(name))]);
    }
}

/// The pages that `silica verify` counts in the store at `path`, entries of elements among them.
fn pages_of(path: &std::path::Path) -> usize {
    let told = crate::support::silica_ok(&["verify", "--path", arg(path)]);
    let words: Vec<&str> = told.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "pages;").expect("pages are counted");
    words[at - 1].parse().expect("a number")
}

#[test]
fn only_stores_in_order_are_sent_entries() {
    let dir = scratch("replication-entries-forms");
    let first = Server::start(&dir.join("first"), &[]);
    let mut primary = first.client();
    ask(&mut primary, "CONFIG SET zset-max-paged-entries 50");
    fill(&mut primary);
    let elements = 2 * (BOARDS * MEMBERS) as usize;
    for engine in ["wip", "silt"] {
        let server = Server::start(&dir.join(engine), &["--engine", engine]);
        let mut replica = server.client();
        follow(&mut replica, first.port);
        must_be_equal(&mut primary, &mut replica, engine);
        drop(replica);
        server.stop();
        let pages = pages_of(&dir.join(engine));
        assert_eq!(pages > elements, engine == "wip", "{engine}: {pages} pages");
    }
    first.stop();
}
