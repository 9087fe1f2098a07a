//! A replica that is killed while it applies what comes: afterwards everything was applied once.

use super::*;
use crate::support::scratch;
use silica_base::test_size;

#[test]
fn nothing_is_lost_or_doubled() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-killed");
    let redis = Server::start_redis_in(&dir, &dir.join("redis"));
    let mut primary = redis.client();
    ask(&mut primary, "CONFIG SET repl-backlog-size 268435456");
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    let mut random = Prng::new(21);
    write(&mut primary, &mut random, 500);
    // Small parts, so that kills fall into flushes and new logs.
    let small = [
        "--set=memtable_bytes_max=64KiB",
        "--set=log_bytes_max=256KiB",
        "--set=segment_bytes=64KiB",
    ];
    let path = dir.join("replica");
    let mut silica = start_replica(&path, redis.port, &small);
    catch_up(&mut primary, &mut silica.client());
    let full = info(&mut primary, "stats", "sync_full");
    let mut sender = redis.client();
    let rounds = test_size(8, 24, 200);
    for round in 0..rounds {
        // At first in one database, whose batches have the position; a kill between the batches of
        // two may cost a full synchronisation.
        let databases = if round < rounds / 2 { 1 } else { 2 };
        if round == rounds / 2 {
            must_be_equal(&mut primary, &mut silica.client(), "after kills");
            let now = info(&mut primary, "stats", "sync_full");
            assert_eq!(now, full, "no kill has lost the position");
        }
        let mut own = Prng::new(1000 + round);
        let writer = std::thread::spawn(move || {
            write_in(&mut sender, &mut own, 3_000, databases);
            sender
        });
        std::thread::sleep(Duration::from_millis(random.below(150)));
        silica.kill();
        silica = start_replica(&path, redis.port, &small);
        sender = writer.join().expect("the writer is well");
    }
    must_be_equal(&mut primary, &mut silica.client(), "after kills in two databases");
    silica.stop();
}
