//! Silica follows redis-server.

use super::*;
use crate::support::{arg, scratch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const LIBRARY: &str = "#!lua name=lib\nredis.register_function{function_name='f', \
                       callback=function() return 7 end, flags={'no-writes'}}";

#[test]
fn all_of_redis_is_followed_while_clients_write() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-follow");
    let redis = Server::start_redis_in(&dir, &dir.join("redis"));
    let mut primary = redis.client();
    ask(&mut primary, "CONFIG SET repl-backlog-size 67108864");
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    let mut random = Prng::new(11);
    write(&mut primary, &mut random, 3_000);
    make_group(&mut primary);
    primary.ask(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]).expect("a reply");
    // Writers go on during everything that follows.
    let stop = Arc::new(AtomicBool::new(false));
    let writers = writers(&redis, &stop);
    let path = dir.join("replica");
    let silica = start_replica(&path, redis.port, &[]);
    let mut replica = silica.client();
    catch_up(&mut primary, &mut replica);
    let refused = try_ask(&mut replica, "SET k v");
    assert!(matches!(&refused, Reply::Error(text) if text.starts_with("READONLY")), "{refused:?}");
    assert_eq!(ask(&mut replica, "FCALL_RO f 0"), Reply::Number(7));
    // From a file of the primary's, whose length is said before.
    ask(&mut primary, "CONFIG SET repl-diskless-sync no");
    let other_path = dir.join("other");
    let other = start_replica(&other_path, redis.port, &[]);
    let mut second = other.client();
    catch_up(&mut primary, &mut second);
    stop.store(true, Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("the writer is well"));
    must_be_equal(&mut primary, &mut replica, "after writers");
    must_be_equal(&mut primary, &mut second, "after writers, from a file");
    drop(other);

    // What is for servers as a whole.
    for line in ["SWAPDB 0 1", "FLUSHDB", "SELECT 1", "SET after flush", "SELECT 0"] {
        ask(&mut primary, line);
    }
    must_be_equal(&mut primary, &mut replica, "SWAPDB and FLUSHDB");
    ask(&mut primary, "FUNCTION DELETE lib");
    write(&mut primary, &mut random, 500);
    must_be_equal(&mut primary, &mut replica, "more");
    restart(&mut primary, silica, &path, &mut random);

    drop((primary, redis));
    another_primary(&dir, &mut random);
}

/// A primary that has forgotten everything, and a replica that is promoted and follows again.
fn another_primary(dir: &Path, random: &mut Prng) {
    let path = dir.join("replica");
    let redis = Server::start_redis_in(dir, &dir.join("redis"));
    let mut primary = redis.client();
    let silica = Server::start(&path, &["--loops", "2"]);
    let mut replica = silica.client();
    write(&mut primary, random, 300);
    follow(&mut replica, redis.port);
    must_be_equal(&mut primary, &mut replica, "another history");
    // It is promoted, and follows again: what it has written itself is gone.
    ask(&mut replica, "REPLICAOF NO ONE");
    ask(&mut replica, "SET own 1");
    follow(&mut replica, redis.port);
    must_be_equal(&mut primary, &mut replica, "after own writes");
    silica.stop();
    crate::support::silica_ok(&["--path", arg(&path), "verify"]);
}

/// Clients of `redis` that write until `stop` is set.
fn writers(redis: &Server, stop: &Arc<AtomicBool>) -> Vec<thread::JoinHandle<()>> {
    let start = |seed| {
        let (mut client, stop) = (redis.client(), Arc::clone(stop));
        thread::spawn(move || {
            let mut random = Prng::new(seed);
            while !stop.load(Relaxed) {
                write(&mut client, &mut random, 50);
                thread::sleep(Duration::from_millis(2));
            }
        })
    };
    (100..102).map(start).collect()
}

/// A replica that was away for a while fetches what it has missed, and no more.
fn restart(primary: &mut Client, silica: Server, path: &Path, random: &mut Prng) {
    let port: u16 = info(primary, "server", "tcp_port").parse().expect("a port");
    silica.stop();
    write(primary, random, 500);
    let before = info(primary, "stats", "sync_full");
    let silica = start_replica(path, port, &[]);
    must_be_equal(primary, &mut silica.client(), "after a restart");
    assert_eq!(info(primary, "stats", "sync_full"), before, "it was a partial one");
    silica.stop();
}

#[test]
fn a_cache_follows() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-cache");
    let redis = Server::start_redis_in(&dir, &dir.join("redis"));
    let mut primary = redis.client();
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    write(&mut primary, &mut Prng::new(5), 2_000);
    let cache = Server::start_cache(&dir.join("cache"), "64MiB", &[]);
    let mut replica = cache.client();
    ask(&mut replica, "SET own 1");
    follow(&mut replica, redis.port);
    write(&mut primary, &mut Prng::new(6), 2_000);
    must_be_equal(&mut primary, &mut replica, "a cache");
    wait_for_log(&dir.join("cache"), "is in memory and has no room for two");
}

#[test]
fn a_cache_passes_over_only_what_needs_a_dropped_key() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-cache-dropped");
    let redis = Server::start_redis_in(&dir, &dir.join("redis"));
    let mut primary = redis.client();
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    ask(&mut primary, "SET dropped v");
    let cache = Server::start_cache(&dir.join("cache"), "64MiB", &[]);
    let mut replica = cache.client();
    follow(&mut replica, redis.port);
    catch_up(&mut primary, &mut replica);
    ask(&mut replica, "CONFIG SET replica-read-only no");
    ask(&mut replica, "DEL dropped");
    let lines = ["MULTI", "SET first 1", "RENAME dropped renamed", "SET last 2", "EXEC"];
    lines.iter().for_each(|line| drop(ask(&mut primary, line)));
    catch_up(&mut primary, &mut replica);
    let all = flat(ask(&mut replica, "MGET first renamed last"));
    assert_eq!(all, ["1", "Bytes(None)", "2"]);
}

#[test]
fn what_cannot_be_followed_is_refused_in_words() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-refused");
    let redis = Server::start_redis_in(&dir, &dir.join("redis"));
    let mut primary = redis.client();
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    ask(&mut primary, "CONFIG SET requirepass word");
    let path = dir.join("replica");
    let silica = Server::start(&path, &["--databases", "10"]);
    let mut replica = silica.client();
    ask(&mut replica, "SET own 1");
    // Without a password, with a wrong one, and with the right one.
    follow(&mut replica, redis.port);
    wait_for_log(&path, "wants a password");
    ask(&mut replica, "CONFIG SET masterauth wrong");
    wait_for_log(&path, "refuses masterauth");
    assert_eq!(ask(&mut replica, "GET own"), Reply::Bytes(Some(b"1".to_vec())));
    ask(&mut primary, "SELECT 12");
    ask(&mut primary, "SET k v");
    ask(&mut replica, "CONFIG SET masterauth word");
    wait_for_log(&path, "this server serves 10 databases");
    ask(&mut primary, "FLUSHALL");
    ask(&mut primary, "SELECT 0");
    must_be_equal(&mut primary, &mut replica, "with the right password");
    // A ring.
    ask(&mut primary, "CONFIG SET masterauth word");
    ask(&mut primary, &format!("REPLICAOF 127.0.0.1 {}", silica.port));
    ask(&mut replica, "REPLICAOF NO ONE");
    follow(&mut replica, redis.port);
    wait_for_log(&path, "a ring of servers");
}
