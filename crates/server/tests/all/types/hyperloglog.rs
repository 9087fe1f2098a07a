//! Counters of distinct elements: their answers and their bytes.

use super::{Compare, Requests, differ};
use crate::redis::Redis;
use crate::support::Client;
use silica_base::Prng;

#[test]
fn counters_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "PFADD K F F V",
            "PFADD K V V V V V V",
            "PFADD K",
            "PFADD K F",
            "PFCOUNT K",
            "PFCOUNT K L M",
            "PFMERGE K L M",
            "PFMERGE K",
            "GET K",
            "PFDEBUG ENCODING K",
            "PFDEBUG DECODE K",
            "PFDEBUG FOO K",
            "STRLEN K",
        ],
        compare: |_| Compare::Exactly,
    });
    // They become dense on the way, and strings that are no counters come between.
    differ(&Requests {
        templates: &[
            "PFADD K V V V V F F",
            "PFMERGE K L",
            "PFCOUNT K L",
            "GET K",
            "PFDEBUG TODENSE K",
            "PFDEBUG GETREG K",
            "SET K V",
            "RPUSH K V",
        ],
        compare: |_| Compare::Exactly,
    });
}

#[test]
fn a_counter_of_many_is_redis_s_byte_for_byte() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let (server, _directory) = super::start_engine("mica");
    let mut clients = [Client::connect(&server), redis.connect()];
    let mut prng = Prng::new(7);
    for round in 0..120 {
        let elements: String = (0..round + 1).map(|_| format!(" {:x}", prng.next_u64())).collect();
        for line in [format!("PFADD many{elements}"), "GET many".into(), "PFCOUNT many".into()] {
            let [ours, theirs] = clients.each_mut().map(|client| client.ask(&line));
            assert_eq!(ours, theirs, "round {round}: {line}");
        }
    }
    assert_eq!(clients[0].ask("PFSELFTEST"), "OK");
    assert_eq!(clients[0].ask("PFDEBUG ENCODING many"), "dense");
    server.stop();
}
