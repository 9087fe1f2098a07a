//! Replicas of replicas, replicas of caches, and promotion: Silica with Silica and with Redis.

use super::proxy::Proxy;
use super::*;
use crate::support::scratch;

/// Which server stands at a place of a chain.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Program {
    Silica,
    Cache,
    Redis,
}
use Program::{Cache, Redis, Silica};

fn start(program: Program, dir: &Path, nth: usize) -> Server {
    let path = dir.join(format!("{nth}-{program:?}"));
    match program {
        Silica => Server::start(&path, &["--loops", "2"]),
        Cache => Server::start_cache(&path, "64MiB", &["--loops", "2"]),
        Redis => {
            let own = path.with_extension("data");
            std::fs::create_dir_all(&own).expect("the directory can be made");
            let redis = Server::start_redis_in(&own, &path);
            for line in ["CONFIG SET repl-diskless-sync-delay 0", "CONFIG SET repl-timeout 20"] {
                ask(&mut redis.client(), line);
            }
            redis
        }
    }
}

fn is_linked(client: &mut Client, port: u16) -> bool {
    let Reply::Bytes(Some(text)) = try_ask(client, "INFO replication") else { return false };
    let text = String::from_utf8_lossy(&text).into_owned();
    text.contains(&format!("master_port:{port}\r\n")) && text.contains("master_link_status:up")
}

/// Servers, each of which follows the one before it.
fn chain(dir: &Path, programs: &[Program]) -> Vec<Server> {
    let all: Vec<Server> =
        programs.iter().enumerate().map(|(nth, program)| start(*program, dir, nth)).collect();
    write(&mut all[0].client(), &mut Prng::new(7), 400);
    for pair in all.windows(2) {
        let mut client = pair[1].client();
        follow(&mut client, pair[0].port);
        wait_for("the link", || is_linked(&mut client, pair[0].port));
    }
    all
}

fn syncs(server: &Server) -> String {
    info(&mut server.client(), "stats", "sync_full")
}

#[test]
fn what_the_first_writes_the_last_has() {
    if !has_redis() {
        return;
    }
    for (nth, programs) in [
        &[Silica, Silica, Silica][..],
        &[Silica, Redis, Silica],
        &[Redis, Silica, Redis],
        &[Silica, Silica, Redis],
        &[Cache, Silica, Silica],
        &[Silica, Cache],
        &[Cache, Cache],
    ]
    .into_iter()
    .enumerate()
    {
        let dir = scratch(&format!("replication-chain-{nth}"));
        let all = chain(&dir, programs);
        let mut first = all[0].client();
        write(&mut first, &mut Prng::new(8), 1_500);
        for line in ["SWAPDB 0 1", "SELECT 1", "RPUSH late a b", "SELECT 0"] {
            ask(&mut first, line);
        }
        for (place, server) in all.iter().enumerate().skip(1) {
            let context = format!("{programs:?}, place {place}");
            must_be_equal(&mut first, &mut server.client(), &context);
        }
    }
}

#[test]
fn who_follows_a_promoted_replica_needs_no_full_synchronisation() {
    let dir = scratch("replication-promoted");
    let [first, second, third] = [0, 1, 2].map(|nth| start(Silica, &dir, nth));
    let [mut one, mut two, mut three] = [&first, &second, &third].map(Server::client);
    write(&mut one, &mut Prng::new(3), 500);
    for client in [&mut two, &mut three] {
        follow(client, first.port);
    }
    must_be_equal(&mut one, &mut two, "the second");
    must_be_equal(&mut one, &mut three, "the third");
    let id = info(&mut one, "replication", "master_replid");
    ask(&mut two, "REPLICAOF NO ONE");
    assert_eq!(info(&mut two, "replication", "master_replid2"), id);
    write(&mut two, &mut Prng::new(4), 500);
    // The other replica, and the old primary, which has written nothing since.
    follow(&mut three, second.port);
    follow(&mut one, second.port);
    must_be_equal(&mut two, &mut three, "the third follows the second");
    must_be_equal(&mut two, &mut one, "the first follows the second");
    assert_eq!(syncs(&second), "0", "the rest was enough");

    // A chain: what follows a replica that is promoted hears of its new id at once, and needs
    // nothing after a break that comes much later.
    follow(&mut three, first.port);
    must_be_equal(&mut two, &mut three, "the end of a chain");
    let full = syncs(&first);
    ask(&mut one, "REPLICAOF NO ONE");
    write(&mut one, &mut Prng::new(5), 500);
    must_be_equal(&mut one, &mut three, "behind the promoted one");
    let ids = [&mut one, &mut three].map(|client| info(client, "replication", "master_replid"));
    assert_eq!(ids[0], ids[1]);
    ask(&mut one, "CLIENT KILL TYPE replica");
    write(&mut one, &mut Prng::new(6), 100);
    must_be_equal(&mut one, &mut three, "after a break");
    assert_eq!(syncs(&first), full, "no break has cost a full synchronisation");

    // One whose history is another one drops what it had, and who follows it drops it, too.
    follow(&mut one, second.port);
    must_be_equal(&mut two, &mut one, "another history");
    must_be_equal(&mut two, &mut three, "behind another history");
}

/// A replica of Redis removes what has expired when it is told, by whoever is the primary then.
#[test]
fn a_promoted_replica_tells_what_expires_of_what_it_was_told() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-promoted-times");
    let all = chain(&dir, &[Silica, Silica, Redis]);
    let [mut one, mut two, mut three] = [0, 1, 2].map(|nth| all[nth].client());
    for line in ["FLUSHALL", "SET a 1 PX 4000", "RPUSH b 1", "PEXPIRE b 4000", "SET c 1"] {
        ask(&mut one, line);
    }
    must_be_equal(&mut one, &mut three, "the third");
    let full = syncs(&all[1]);
    ask(&mut two, "REPLICAOF NO ONE");
    wait_for("the removal of what has expired", || {
        ask(&mut three, "SELECT 0");
        ask(&mut three, "DBSIZE") == Reply::Number(1)
    });
    assert_eq!(syncs(&all[1]), full, "it went on where it was");
}

#[test]
fn what_only_the_old_primary_had_is_dropped() {
    let dir = scratch("replication-old-primary");
    let [first, second] = [0, 1].map(|nth| start(Silica, &dir, nth));
    let [mut one, mut two] = [&first, &second].map(Server::client);
    write(&mut one, &mut Prng::new(3), 300);
    follow(&mut two, first.port);
    must_be_equal(&mut one, &mut two, "at first");
    ask(&mut two, "REPLICAOF NO ONE");
    ask(&mut one, "SET only-here 1");
    write(&mut one, &mut Prng::new(4), 200);
    write(&mut two, &mut Prng::new(5), 300);
    follow(&mut one, second.port);
    must_be_equal(&mut two, &mut one, "brought in line");
    assert_eq!(ask(&mut one, "EXISTS only-here"), Reply::Number(0));
    assert_eq!(syncs(&second), "1", "all data had to come");
}

#[test]
fn a_backlog_that_nobody_needs_is_given_up() {
    let dir = scratch("replication-backlog");
    let [first, second] = [0, 1].map(|nth| start(Silica, &dir, nth));
    let [mut one, mut two] = [&first, &second].map(Server::client);
    ask(&mut one, "CONFIG SET repl-backlog-ttl 1");
    follow(&mut two, first.port);
    write(&mut one, &mut Prng::new(1), 100);
    must_be_equal(&mut one, &mut two, "at first");
    ask(&mut two, "REPLICAOF NO ONE");
    wait_for("the end of the backlog", || {
        info(&mut one, "replication", "repl_backlog_active") == "0"
    });
    // What was written meanwhile is in no stream: all data has to come.
    ask(&mut one, "SET meanwhile 1");
    follow(&mut two, first.port);
    must_be_equal(&mut one, &mut two, "after the end of the backlog");
    assert_eq!(syncs(&first), "2");
}

#[test]
fn replicas_say_what_is_on_their_disks() {
    let dir = scratch("replication-waitaof");
    let both = |local, there| Reply::Many(vec![Reply::Number(local), Reply::Number(there)]);
    let [first, second] = [0, 1].map(|nth| start(Silica, &dir, nth));
    let cache = start(Cache, &dir, 2);
    let [mut one, mut two, mut three] = [&first, &second, &cache].map(Server::client);
    // Writes are synced before they are answered, unless the server was told otherwise.
    assert_eq!(ask(&mut one, "WAITAOF 0 1 50"), both(1, 0));
    for client in [&mut two, &mut three] {
        follow(client, first.port);
        wait_for("the link", || is_linked(client, first.port));
    }
    for nth in 0..3 {
        ask(&mut one, &format!("SET k{nth} v"));
        assert_eq!(ask(&mut one, "WAITAOF 1 1 30000"), both(1, 1));
    }
    // A cache has no disk.
    assert_eq!(ask(&mut one, "WAIT 2 30000"), Reply::Number(2));
    assert_eq!(ask(&mut one, "WAITAOF 0 2 300"), both(1, 1));
    for line in ["WAITAOF 1 0 0", "WAITAOF 0 0 0"] {
        let Reply::Error(text) = try_ask(&mut two, line) else { panic!("{line} on a replica") };
        assert!(text.starts_with("ERR WAITAOF cannot be used with replica"), "{text}");
    }
}

/// Of two servers that follow each other neither has a link, and both say why; whoever is told to
/// be the primary again is followed.
#[test]
fn two_servers_that_follow_each_other_both_say_so() {
    let dir = scratch("replication-pair");
    let all = [0, 1].map(|nth| start(Silica, &dir, nth));
    let [mut one, mut two] = [&all[0], &all[1]].map(Server::client);
    follow(&mut one, all[1].port);
    follow(&mut two, all[0].port);
    wait_for_log(&dir.join("1-Silica"), "a ring of servers would follow each other for ever");
    // The first may have had its link before that, which goes on.
    ask(&mut two, "CLIENT KILL TYPE replica");
    for (client, path) in [(&mut one, "0-Silica"), (&mut two, "1-Silica")] {
        wait_for_log(&dir.join(path), "a ring of servers would follow each other for ever");
        let told = info(client, "replication", "silica_master_link_error");
        assert!(told.contains("follows this server"), "{told}");
    }
    ask(&mut one, "REPLICAOF NO ONE");
    write(&mut one, &mut Prng::new(1), 100);
    wait_for("the link", || is_linked(&mut two, all[0].port));
    must_be_equal(&mut one, &mut two, "out of the ring");
    let Reply::Bytes(Some(text)) = ask(&mut two, "INFO replication") else { panic!("INFO") };
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(!text.contains("silica_master_link_error"), "{text}");
}

#[test]
fn a_server_is_told_at_once_that_it_cannot_follow_itself() {
    let dir = scratch("replication-itself");
    let server = start(Silica, &dir, 0);
    let (mut client, port) = (server.client(), server.port);
    ask(&mut client, "CONFIG SET replica-announce-ip db.example");
    let itself = "is this server itself, which cannot follow itself";
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "::ffff:127.0.0.1", "DB.example"] {
        for line in [format!("REPLICAOF {host} {port}"), format!("SLAVEOF {host} {port}")] {
            let Reply::Error(text) = try_ask(&mut client, &line) else { panic!("{line}") };
            assert!(text.contains(itself) && text.contains("REPLICAOF NO ONE"), "{text}");
        }
        let at = format!("{host} {port}");
        let set = ["CONFIG", "SET", "replicaof", &at].map(str::as_bytes);
        let Ok(Reply::Error(text)) = client.ask(&set) else { panic!("replicaof {at}") };
        assert!(text.contains(itself), "{text}");
    }
    ask(&mut client, "CONFIG SET replica-announce-port 7");
    assert!(matches!(try_ask(&mut client, "REPLICAOF db.example 7"), Reply::Error(_)));
    assert_eq!(info(&mut client, "replication", "role"), "master");
    ask(&mut client, "SET a 1");
    server.stop();
    // Nor does it start so.
    let (path, at) = (dir.join("0-Silica"), format!("127.0.0.1:{port}"));
    let path = path.to_str().expect("a path of text");
    let words = ["serve", path, "--listen", &at, "--replica-of", &at];
    let refused = crate::support::said(&crate::support::silica(&words).output().expect("it ends"));
    assert!(refused.contains(itself), "{refused}");
}

#[test]
fn servers_that_would_follow_each_other_are_refused() {
    let dir = scratch("replication-ring");
    let all = [0, 1, 2].map(|nth| start(Silica, &dir, nth));
    let [mut one, mut two, mut three] = [&all[0], &all[1], &all[2]].map(Server::client);
    ask(&mut one, "SET own 1");
    follow(&mut two, all[0].port);
    wait_for("the second", || is_linked(&mut two, all[0].port));
    follow(&mut three, all[1].port);
    wait_for("the third", || is_linked(&mut three, all[1].port));
    follow(&mut one, all[2].port);
    wait_for_log(&dir.join("0-Silica"), "a ring of servers would follow each other for ever");
    let told = info(&mut one, "replication", "silica_master_link_error");
    assert!(told.contains("follows this server") && told.contains("a ring of servers"), "{told}");
    assert_eq!(ask(&mut one, "GET own"), Reply::Bytes(Some(b"1".to_vec())));
    ask(&mut one, "REPLICAOF NO ONE");
    // By another port nobody knows before the other side has said who it is.
    let proxy = Proxy::start(all[0].port);
    follow(&mut one, proxy.port);
    wait_for_log(&dir.join("0-Silica"), "is this server itself");
    let told = info(&mut one, "replication", "silica_master_link_error");
    assert!(told.contains("is this server itself: it cannot follow itself"), "{told}");
    // Whoever ends it goes on as before.
    ask(&mut one, "REPLICAOF NO ONE");
    write(&mut one, &mut Prng::new(1), 200);
    must_be_equal(&mut one, &mut two, "after a ring");
    must_be_equal(&mut one, &mut three, "after a ring");
}
