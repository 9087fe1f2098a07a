//! Members come, go, come back without data, and have somebody else's.

use super::group::Group;
use super::proxy::Weather;
use crate::support::{Client, Reply, arg, certificate, scratch};
use std::time::{Duration, Instant};

fn ok(client: &mut Client, words: &[&[u8]]) -> Reply {
    let reply = client.ask(words).expect("a reply");
    assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    reply
}

/// Writes that a busy machine may refuse for a while: a leader that gets no processor in time leads
/// no more until it is elected again.
fn insist(client: &mut Client, words: &[&[u8]]) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match client.ask(words).expect("a reply") {
            Reply::Error(said) if said.starts_with("CLUSTERDOWN") && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            reply => return assert!(!matches!(reply, Reply::Error(_)), "{reply:?}"),
        }
    }
}

fn fill(group: &Group, name: &str, count: u32) {
    let mut client = group.client(group.leader()).expect("a connection");
    for at in 0..count {
        ok(&mut client, &[b"SET", format!("{name}{at}").as_bytes(), &[b'v'; 100]]);
    }
}

fn applied(group: &Group, number: usize) -> u64 {
    let text = group.info(number, "agreement_applied_index");
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn has_all(group: &Group, number: usize) -> bool {
    applied(group, number) > 0 && applied(group, number) >= applied(group, group.leader())
}

#[test]
fn writes_are_everywhere_and_followers_name_the_leader() {
    let mut group = Group::start("agreement-basics", 3, &[]);
    let leader = group.leader();
    let mut client = group.client(leader).expect("a connection");
    ok(&mut client, &[b"SET", b"a", b"1", b"EX", b"1000"]);
    ok(&mut client, &[b"RPUSH", b"list", b"x", b"y"]);
    assert_eq!(ok(&mut client, &[b"INCR", b"a"]), Reply::Number(2));
    ok(&mut client, &[b"MULTI"]);
    ok(&mut client, &[b"SET", b"b", b"{3}"]);
    ok(&mut client, &[b"LPOP", b"list"]);
    let Reply::Many(all) = ok(&mut client, &[b"EXEC"]) else { panic!("no array") };
    assert_eq!(all, [Reply::Status("OK".into()), Reply::Bytes(Some(b"x".into()))]);
    let refused = client.ask(&[b"SILICA.SQL", b"db", b"select 1"]).expect("a reply");
    assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
    let mut other = group.client((leader + 1) % 3).expect("a connection");
    let moved = format!("MOVED 15495 127.0.0.1:{}", group.members[leader].port);
    for words in [&[&b"GET"[..], b"a"][..], &[b"SET", b"a", b"2"], &[b"WATCH", b"a"]] {
        assert_eq!(other.ask(words).expect("a reply"), Reply::Error(moved.clone()));
    }
    let Reply::Many(members) = ok(&mut other, &[b"SILICA.MEMBERS"]) else { panic!("no array") };
    assert_eq!(members.len(), 3, "{members:?}");
    // Whoever leads next has all of it.
    group.kill(leader);
    let next = group.leader();
    let mut client = group.client(next).expect("a connection");
    assert_eq!(ok(&mut client, &[b"GET", b"a"]), Reply::Bytes(Some(b"2".into())));
    assert_eq!(ok(&mut client, &[b"GET", b"b"]), Reply::Bytes(Some(b"{3}".into())));
    assert_eq!(ok(&mut client, &[b"LLEN", b"list"]), Reply::Number(1));
    ok(&mut client, &[b"FLUSHDB"]);
    assert_eq!(ok(&mut client, &[b"DBSIZE"]), Reply::Number(0));
    group.kill(next);
    let left = (0..3).find(|one| *one != leader && *one != next).expect("one is left");
    std::thread::sleep(Duration::from_millis(1500));
    let mut client = group.client(left).expect("a connection");
    let Reply::Error(text) = client.ask(&[b"GET", b"a"]).expect("a reply") else {
        panic!("served")
    };
    assert!(text.starts_with("CLUSTERDOWN") || text.starts_with("MOVED"), "{text}");
}

#[test]
fn members_talk_by_tls() {
    let files = ["server.pem", "server.key", "authority.pem"].map(certificate);
    let [cert, key, ca] = &files;
    let tls = ["--tls-members", "--tls-cert", cert, "--tls-key", key, "--tls-peer-ca", ca];
    let extra = [&tls[..], &["--tls-listen", "127.0.0.1:0"]].concat();
    let mut group = Group::start("agreement-tls", 3, &extra);
    fill(&group, "key", 50);
    group.wait("all members have all", |group| (0..3).all(|one| has_all(group, one)));
    group.kill(group.leader());
    let mut client = group.client(group.leader()).expect("a connection");
    assert_eq!(ok(&mut client, &[b"DBSIZE"]), Reply::Number(50));
    // What speaks no TLS is not heard.
    let address = group.members[group.leader()].address.clone();
    let mut plain = std::net::TcpStream::connect(&address).expect("it accepts");
    std::io::Write::write_all(&mut plain, &[0; 64]).expect("it reads");
    plain.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut said = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut said);
    assert!(!String::from_utf8_lossy(&said).contains("Nonce"), "{said:?}");
}

/// Certificates that were replaced hold after SIGHUP, from the next connection between members on:
/// first such as no member takes, so that nobody leads, and then good ones again.
#[test]
fn members_read_their_certificates_again() {
    let dir = scratch("agreement-certificates");
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.join(name));
    let place = |name: &str| {
        for (file, kind) in [(&cert, "pem"), (&key, "key")] {
            std::fs::copy(certificate(&format!("{name}.{kind}")), file).expect("it can be copied");
        }
    };
    place("server");
    let ca = certificate("authority.pem");
    let (cert, key) = (arg(&cert), arg(&key));
    let tls = ["--tls-members", "--tls-cert", cert, "--tls-key", key, "--tls-peer-ca", &ca];
    let extra = [&tls[..], &["--tls-listen", "127.0.0.1:0"]].concat();
    let group = Group::start("agreement-certificates/group", 3, &extra);
    fill(&group, "first", 20);
    let log = |number: usize| {
        std::fs::read_to_string(group.members[number].dir.with_extension("log")).unwrap_or_default()
    };
    let hang_up = |times: usize| {
        (0..3).for_each(|number| group.signal(number, "-HUP"));
        group.wait("the certificates are read again", |_| {
            (0..3).all(|number| log(number).matches("read the certificates").count() == times)
        });
    };
    let cut = || {
        // Over TLS the proxy does not see who calls.
        group.members.iter().for_each(|to| group.links.set("", &to.address, Weather::Cut));
    };
    let nobody_leads = |group: &Group| {
        (0..3).all(|number| group.info(number, "agreement_ready").as_deref() == Some("0"))
    };
    // It is no certificate of a server, so no other member takes it.
    place("client");
    hang_up(1);
    cut();
    group.wait("nobody leads without links", nobody_leads);
    group.links.heal();
    group.wait("the new certificates are refused", |_| {
        (0..3).any(|number| log(number).contains("its certificate is none of a server"))
    });
    assert!(nobody_leads(&group), "a member was let in by a certificate that was replaced");
    place("server");
    hang_up(2);
    fill(&group, "second", 20);
    let mut client = group.client(group.leader()).expect("a connection");
    assert_eq!(ok(&mut client, &[b"DBSIZE"]), Reply::Number(40));
}

#[test]
fn a_wiped_member_comes_back_and_members_come_and_go() {
    let mut group = Group::start("agreement-members", 3, &[]);
    fill(&group, "first", 300);
    let wiped = (group.leader() + 1) % 3;
    group.kill(wiped);
    std::fs::remove_dir_all(&group.members[wiped].dir).expect("its directory");
    group.spawn(wiped);
    group.wait("the wiped member has all", |group| has_all(group, wiped));
    group.wait("three members vote", |group| {
        group.info(wiped, "agreement_voters").as_deref() == Some("3")
    });
    // Without the other one that never lost anything, the wiped one is needed for a majority.
    let third = (0..3).find(|one| *one != wiped && *one != group.leader()).expect("a third");
    group.kill(third);
    fill(&group, "second", 50);
    group.spawn(third);
    // A fourth.
    let dir = scratch("agreement-fourth").join("3");
    group.add(dir);
    group.spawn(3);
    group.wait("the fourth answers", |group| group.info(3, "agreement_member").is_some());
    let address = group.members[3].address.clone();
    let mut client = group.client(group.leader()).expect("a connection");
    ok(&mut client, &[b"SILICA.MEMBERS", b"ADD", address.as_bytes()]);
    group.wait("the fourth has all", |group| has_all(group, 3));
    assert_eq!(group.info(3, "agreement_voters").as_deref(), Some("4"));
    let gone = group.members[wiped].address.clone();
    let mut client = group.client(group.leader()).expect("a connection");
    let _ = client.ask(&[b"SILICA.MEMBERS", b"REMOVE", gone.as_bytes()]);
    group.wait("the member has gone", |group| {
        group.info(group.leader(), "agreement_voters").as_deref() == Some("3")
    });
}

/// The log of a group is cut, so a member that has lost everything gets a snapshot over its
/// connection, while writes go on.
#[test]
fn a_wiped_member_gets_a_snapshot_where_the_log_is_cut() {
    let mut group = Group::start("agreement-snapshot", 3, &["--stale-reads"]);
    let leader = group.leader();
    let mut client = group.client(leader).expect("a connection");
    ok(&mut client, &[b"SET", b"gone", b"1"]);
    ok(&mut client, &[b"ZADD", b"board", b"7", b"one", b"9", b"two"]);
    ok(&mut client, &[b"SET", b"late", b"x", b"EX", b"10000"]);
    ok(&mut client, &[b"DEL", b"gone"]);
    // More than 5,000 entries, and more than 64 MiB of them.
    let purged = |group: &Group| -> u64 {
        let text = group.info(group.leader(), "agreement_purged_index");
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let port = group.members[leader].port;
    let mut written = 0;
    while purged(&group) == 0 {
        assert!(written < 40_000, "the log is not cut after {written} writes");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let mut client = Client::connect(port).expect("a connection");
                    for at in 0..500 {
                        let key = format!("k{}", (written + thread * 500 + at) % 3000);
                        insist(&mut client, &[b"SET", key.as_bytes(), &[b'v'; 13 << 10]]);
                    }
                });
            }
        });
        written += 2000;
    }
    let wiped = (leader + 1) % 3;
    group.kill(wiped);
    std::fs::remove_dir_all(&group.members[wiped].dir).expect("its directory");
    group.spawn(wiped);
    for at in 0..50 {
        ok(&mut client, &[b"SET", format!("during{at}").as_bytes(), b"y"]);
    }
    group.wait("the wiped member has all", |group| has_all(group, wiped));
    assert_eq!(group.info(wiped, "agreement_snapshots_installed").as_deref(), Some("1"));
    // What it has is all of it, and whoever leads next has it, too.
    let size = ok(&mut client, &[b"DBSIZE"]);
    group.kill(leader);
    let next = group.leader();
    for number in [wiped, next] {
        let mut client = group.client(number).expect("a connection");
        assert_eq!(ok(&mut client, &[b"DBSIZE"]), size);
        assert_eq!(ok(&mut client, &[b"GET", b"gone"]), Reply::Bytes(None));
        let score = ok(&mut client, &[b"ZSCORE", b"board", b"two"]);
        assert_eq!(score, Reply::Bytes(Some(b"9".into())));
        let Reply::Number(left) = ok(&mut client, &[b"TTL", b"late"]) else { panic!("no time") };
        assert!((1..=10_000).contains(&left), "{left}");
        assert_eq!(ok(&mut client, &[b"GET", b"during49"]), Reply::Bytes(Some(b"y".into())));
    }
}

#[test]
fn somebody_elses_data_is_refused() {
    let one = Group::start("agreement-one", 1, &[]);
    let other = Group::start("agreement-other", 1, &[]);
    let mut client = one.client(0).expect("a connection");
    ok(&mut client, &[b"SET", b"a", b"1"]);
    let address = other.members[0].address.clone();
    let asked = client.ask(&[b"SILICA.MEMBERS", b"ADD", address.as_bytes()]);
    let Ok(Reply::Error(text)) = asked else { panic!("{asked:?}") };
    let has = |words| text.contains(words);
    assert!(has("somebody else's data") && has("an empty directory"), "{text}");
    // A store that no group knows.
    let dir = scratch("agreement-plain").join("store");
    let plain = crate::support::Server::start(&dir, &[]);
    ok(&mut plain.client(), &[b"SET", b"a", b"1"]);
    plain.stop();
    let path = crate::support::arg(&dir);
    let mut command = crate::support::silica(&["serve", path, "--listen", "127.0.0.1:1"]);
    command.args(["--replicated-by", "127.0.0.1:2", "--member", "127.0.0.1:2"]);
    let output = command.output().expect("it ends");
    let said = crate::support::said(&output);
    assert!(said.contains("no group has agreed about"), "{said}");
}
