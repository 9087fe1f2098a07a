//! What a replica does with requests of the stream that it does not know.

use super::*;
use crate::support::scratch;

#[test]
fn what_is_not_known_is_refused_or_counted() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-unknown");
    let redis = Server::start_redis_in(&dir, &dir.join("redis"));
    let mut primary = redis.client();
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    let path = dir.join("replica");
    let silica = start_replica(&path, redis.port, &[]);
    let mut replica = silica.client();
    ask(&mut primary, "INCR before");
    must_be_equal(&mut primary, &mut replica, "at first");
    // A value that this server has no room for: the link stands still, and nothing is lost.
    primary.ask(&[b"SET", &[0xFF, 0x51, 0xCA, 0x00, 1], b"v"]).expect("a reply");
    wait_for_log(&path, "of the primary's stream was refused here");
    ask(&mut primary, "INCR before");
    primary.ask(&[b"DEL", &[0xFF, 0x51, 0xCA, 0x00, 1]]).expect("a reply");
    assert_eq!(ask(&mut replica, "GET before"), Reply::Bytes(Some(b"1".to_vec())));
}
