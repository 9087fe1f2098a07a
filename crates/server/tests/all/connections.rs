//! Commands about connections: listing, closing, pausing, telling them of writes.

use crate::stories;
use crate::support;
use crate::support::{Client, Probe, config, script, show, start_with};
use silica_proto::Value;
use silica_server::{Config, Server};

/// On the loop itself, and through the workers.
fn on_both(story: impl Fn(&dyn Fn() -> Client)) {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        story(&|| Client::connect(&server));
        server.stop();
    }
}

#[test]
fn texts() {
    on_both(|connect| script(&mut connect(), stories::CLIENT_TEXTS));
}

#[test]
fn connections_are_listed_and_closed() {
    on_both(stories::killing);
}

#[test]
fn requests_wait_while_a_pause_holds() {
    on_both(stories::pausing);
}

#[test]
fn a_stop_ends_a_pause() {
    let (server, _) = start_with(config(), Probe::new(true));
    let (mut me, mut other) = (Client::connect(&server), Client::connect(&server));
    me.ask("CLIENT PAUSE 1000000 WRITE");
    other.send(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n");
    // What was received before the stop is answered.
    while !me.text("CLIENT LIST ID 2").contains("cmd=incr") {
        std::thread::yield_now();
    }
    server.stop();
    assert_eq!(support::show(&other.reply().unwrap()), ":1");
}

#[test]
fn keys_that_were_written_are_told() {
    on_both(stories::tracking);
}

#[test]
fn another_connection_may_be_told_instead() {
    on_both(stories::redirected_tracking);
}

#[test]
fn writes_of_memcached_clients_are_told() {
    let (server, _) = start_with(config(), Probe::new(false));
    let (mut ear, mut writer) = (Client::connect(&server), Client::connect(&server));
    ear.ask("HELLO 3");
    ear.ask("CLIENT TRACKING ON BCAST");
    writer.send(b"set a 0 0 1\r\n1\r\nincr n 1\r\nincr a 1\r\nflush_all\r\n");
    assert_eq!(support::show(&ear.reply().unwrap()), ">['invalidate' ['a' 'a']]");
    assert_eq!(support::show(&ear.reply().unwrap()), ">['invalidate' nil]");
    server.stop();
}

#[test]
fn whoever_has_read_a_key_is_told_once() {
    on_both(stories::tracking_reads);
}

#[test]
fn a_client_chooses_what_is_tracked() {
    on_both(stories::choosing_reads);
}

#[test]
fn users_are_checked_with_every_request() {
    on_both(stories::changing_users);
}

#[test]
fn who_may_hear_a_channel_no_more_is_closed() {
    on_both(stories::losing_channels);
}

/// ACL LOAD takes channels away, too.
#[test]
fn a_new_file_of_users_takes_channels_away() {
    let path = std::env::temp_dir().join(format!("silica-channels-{}", std::process::id()));
    std::fs::write(&path, "user ann on nopass &a &b +subscribe\n").unwrap();
    let config = Config { acl_file: Some(path.clone()), ..config() };
    let (server, _) = start_with(config, Probe::new(false));
    let (mut admin, mut lost, mut kept) =
        (Client::connect(&server), Client::connect(&server), Client::connect(&server));
    for (ear, channel) in [(&mut lost, "a"), (&mut kept, "b")] {
        assert_eq!(ear.ask("AUTH ann x"), "OK");
        ear.ask(&format!("SUBSCRIBE {channel}"));
    }
    std::fs::write(&path, "user ann on nopass &b +subscribe\n").unwrap();
    assert_eq!(admin.ask("ACL LOAD"), "OK");
    assert_eq!(admin.ask("PUBLISH a 1"), ":0");
    assert!(lost.reply().is_none());
    assert_eq!(admin.ask("PUBLISH b 1"), ":1");
    assert_eq!(show(&kept.reply().unwrap()), "['message' 'b' '1']");
    // One's own connection gets its answer yet.
    admin.ask("HELLO 3");
    admin.ask("SUBSCRIBE c");
    assert_eq!(admin.ask("ACL SETUSER default resetchannels"), "OK");
    assert!(admin.reply().is_none());
    server.stop();
    std::fs::remove_file(&path).unwrap();
}

/// Names of keys and channels are told only to users who may do something with them.
#[test]
fn names_are_told_to_those_who_may_know_them() {
    for ordered in [false, true] {
        let (server, _) = start_with(config(), Probe { ordered, ..Probe::new(false) });
        let (mut admin, mut ann) = (Client::connect(&server), Client::connect(&server));
        let may = "on nopass ~a* %W~w* (~s* +get) &a* +@all";
        assert_eq!(admin.ask(&format!("ACL SETUSER ann {may}")), "OK");
        assert_eq!(ann.ask("AUTH ann x"), "OK");
        ann.ask("HELLO 3");
        assert_eq!(ann.ask("CLIENT TRACKING ON BCAST"), "OK");
        let mut told = |line: &str, want: Option<&str>| {
            assert_eq!(admin.ask(line), "OK");
            if let Some(want) = want {
                let push = show(&ann.reply().expect("a push"));
                assert_eq!(push, format!(">['invalidate' [{want}]]"), "{line}");
            }
        };
        told("SET b 1", None);
        told("SET a1 1", Some("'a1'"));
        told("MSET b 2 w1 1 c 3", Some("'w1'"));
        told("SET s1 1", Some("'s1'"));
        assert_eq!(ann.ask("CLIENT TRACKING OFF"), "OK");
        let Value::Array(mut keys) = ann.call(&[b"KEYS", b"*"]) else { panic!("no list") };
        keys.sort_by_key(show);
        assert_eq!(keys.iter().map(show).collect::<Vec<_>>(), ["'a1'", "'s1'", "'w1'"]);
        let scanned = ann.ask("SCAN 0 COUNT 100");
        assert!(["'a1'", "'s1'", "'w1'"].iter().all(|key| scanned.contains(key)), "{scanned}");
        assert!(["'b'", "'c'"].iter().all(|key| !scanned.contains(key)), "{scanned}");
        for _ in 0..20 {
            let key = ann.ask("RANDOMKEY");
            assert!(["'a1'", "'s1'", "'w1'"].contains(&key.as_str()), "{key}");
        }
        // What the user is when it asks counts.
        let all = ann.call(&[b"AUTH", b"default", b""]);
        assert_eq!(show(&all), "OK");
        let Value::Array(keys) = ann.call(&[b"KEYS", b"*"]) else { panic!("no list") };
        assert_eq!(keys.len(), 5);
        let (mut first, mut second) = (Client::connect(&server), Client::connect(&server));
        first.ask("SUBSCRIBE a-channel b-channel");
        assert_eq!(first.reply().map(|reply| show(&reply).contains("b-channel")), Some(true));
        assert_eq!(admin.ask("PUBSUB CHANNELS"), "['a-channel' 'b-channel']");
        assert_eq!(second.ask("AUTH ann x"), "OK");
        assert_eq!(second.ask("PUBSUB CHANNELS"), "['a-channel']");
        server.stop();
    }
}

#[test]
fn users_of_memcached_are_checked_too() {
    use support::memcached::Raw;
    let (server, _) = start_with(config(), Probe::new(false));
    let mut admin = Client::connect(&server);
    admin.ask("SET k 1");
    let mut raw = Raw::connect(server.local_addr());
    let mut ask = |text: &str| raw.exchange(text.as_bytes());
    assert_eq!(ask("get k\r\n"), "VALUE k 0 1\r\n1\r\nEND\r\n");
    // Who does not say who it is has the rights of the default user.
    assert_eq!(admin.ask("ACL SETUSER safe on nopass +@all ~* &*"), "OK");
    assert_eq!(admin.ask("AUTH safe x"), "OK");
    assert_eq!(
        admin.ask("ACL SETUSER default resetkeys %R~k* ~~end -flushall -info -incrby"),
        "OK"
    );
    let key = "SERVER_ERROR this user has no permissions to access one of the keys used as \
               arguments\r\n";
    let command =
        |name| format!("SERVER_ERROR this user has no permissions to run the '{name}' command\r\n");
    assert_eq!(ask("get k\r\n"), "VALUE k 0 1\r\n1\r\nEND\r\n");
    assert_eq!(ask("get k other\r\n"), key);
    assert_eq!(ask("set k 0 0 1\r\nx\r\n"), key);
    assert_eq!(ask("add k 0 0 1 noreply\r\nx\r\n"), key, "silence would be taken for yes");
    assert_eq!(ask("delete k\r\n"), key);
    assert_eq!(ask("touch k 1\r\n"), key);
    assert_eq!(ask("gat 1 k\r\n"), key);
    assert_eq!(ask("mg k v\r\n"), "VA 1\r\n1\r\n");
    assert_eq!(ask("mg k v T1\r\n"), key);
    assert_eq!(ask("ms k 1\r\nx\r\n"), key);
    assert_eq!(ask("md k\r\n"), key);
    assert_eq!(ask("incr k 1\r\n"), command("incrby"));
    assert_eq!(ask("ma k\r\n"), command("incrby"));
    assert_eq!(ask("flush_all\r\n"), command("flushall"));
    assert_eq!(ask("stats\r\n"), command("info"));
    assert_eq!(admin.ask("GET k"), "'1'");
    server.stop();
}

#[test]
fn strangers_are_kept_out_whatever_the_file_of_users_says() {
    let path = std::env::temp_dir().join(format!("silica-open-{}.acl", std::process::id()));
    let config = Config {
        listen: vec![std::net::SocketAddr::from(([0, 0, 0, 0], 0))],
        acl_file: Some(path.clone()),
        ..config()
    };
    let start = || {
        let source = support::Source::new(std::sync::Arc::new(Probe::new(false)));
        Server::start(config.clone(), std::sync::Arc::new(source))
    };
    std::fs::write(&path, "user ann on >pw ~* +@all\n").unwrap();
    let refused = start().unwrap_err().to_string();
    assert!(refused.contains("without a password would let anyone in"), "{refused}");
    std::fs::write(&path, "user default off\nuser ann on >pw ~* &* +@all\n").unwrap();
    let server = start().unwrap();
    let mut client =
        Client::connect_to(([127, 0, 0, 1], server.local_addr().port()).into()).unwrap();
    assert_eq!(client.ask("PING"), "-NOAUTH Authentication required.");
    assert_eq!(client.ask("AUTH ann pw"), "OK");
    assert_eq!(client.ask("PING"), "PONG");
    server.stop();
    std::fs::write(&path, "user default on nopass +nope\n").unwrap();
    let refused = start().unwrap_err().to_string();
    assert!(refused.contains(":1: +nope: Unknown command"), "{refused}");
    std::fs::remove_file(&path).unwrap();
}
