//! Requests that wait until there is something for them.

use super::start_engine;
use crate::support::{Client, Probe, config, shared, start_with};
use silica_proto::Value;
use silica_server::{Config, Mode, Server};
use std::time::{Duration, Instant};

pub(super) fn servers() -> Vec<(Server, Option<tempfile::TempDir>)> {
    let mut all: Vec<(Server, Option<tempfile::TempDir>)> = Vec::new();
    for mode in [Mode::Crcw, Mode::Crew, Mode::Erew] {
        for may_wait in [false, true] {
            let config = Config { mode, ..config() };
            all.push((start_with(config, Probe::new(may_wait)).0, None));
        }
    }
    for engine in ["wip", "mica"] {
        let (server, directory) = start_engine(engine);
        all.push((server, Some(directory)));
    }
    all
}

/// Waits until `clients` of them wait.
pub(super) fn until_waiting(client: &mut Client, clients: usize) {
    let began = Instant::now();
    let wanted = format!("\r\nblocked_clients:{clients}\r\n");
    while !client.text("INFO clients").contains(&wanted) {
        assert!(began.elapsed() < Duration::from_secs(10), "nobody waits");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

#[test]
fn what_comes_behind_a_wait_has_not_waited() {
    for (server, _directory) in servers() {
        let (mut pusher, mut waiter) = (Client::connect(&server), Client::connect(&server));
        assert_eq!(pusher.ask("XGROUP CREATE s g $ MKSTREAM"), "OK");
        waiter.send(b"XREADGROUP GROUP g c BLOCK 0 STREAMS s >\r\n");
        waiter.send(b"XREADGROUP GROUP g c STREAMS gone >\r\n");
        until_waiting(&mut pusher, 1);
        pusher.ask("XADD s 1-1 a b");
        let answers: Vec<String> = waiter.replies(2).iter().map(crate::support::show).collect();
        assert!(answers[0].contains("1-1"), "{answers:?}");
        assert!(answers[1].contains("NOGROUP No such key 'gone'"), "{answers:?}");
        server.stop();
    }
}

#[test]
fn waiters_are_served_in_their_order() {
    for (server, _directory) in servers() {
        let mut pusher = Client::connect(&server);
        let mut waiters: Vec<Client> = (0..4).map(|_| Client::connect(&server)).collect();
        for (nth, waiter) in waiters.iter_mut().enumerate() {
            waiter.send(b"BLPOP other queue 0\r\nPING\r\n");
            until_waiting(&mut pusher, nth + 1);
        }
        assert!(pusher.text("CLIENT LIST").contains(" flags=b "));
        // One push for several of them, then one after the other.
        assert_eq!(pusher.ask("RPUSH queue 0 1"), ":2");
        for (nth, waiter) in waiters.iter_mut().enumerate() {
            if nth == 2 {
                until_waiting(&mut pusher, 2);
                assert_eq!(pusher.ask("RPUSH queue 2"), ":1");
            }
            if nth == 3 {
                until_waiting(&mut pusher, 1);
                assert_eq!(pusher.ask("MULTI"), "OK");
                assert_eq!(pusher.ask("RPUSH queue 3"), "QUEUED");
                assert_eq!(pusher.ask("EXEC"), "[:1]");
            }
            let want = Value::Array(vec![bulk("queue"), bulk(&nth.to_string())]);
            assert_eq!(waiter.reply().unwrap(), want);
            assert_eq!(waiter.reply().unwrap(), Value::Simple("PONG".into()));
        }
        assert_eq!(pusher.ask("EXISTS queue"), ":0");
        server.stop();
    }
}

#[test]
fn a_wait_ends() {
    let (server, _) = start_with(shared(), Probe::new(false));
    let mut other = Client::connect(&server);
    let mut waiter = Client::connect(&server);
    let began = Instant::now();
    assert_eq!(waiter.ask("BLPOP a 0.05"), "nil");
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(waiter.ask("BLMOVE a b LEFT LEFT 0.01"), "nil");
    let id = waiter.ask("CLIENT ID");
    let id = id.strip_prefix(':').unwrap();
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}")), ":0");
    for (how, answer) in [
        ("", "nil"),
        (" TIMEOUT", "nil"),
        (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ] {
        waiter.send(b"BRPOP a 100\r\n");
        until_waiting(&mut other, 1);
        assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}{how}")), ":1");
        assert_eq!(crate::support::show(&waiter.reply().unwrap()), answer);
        until_waiting(&mut other, 0);
    }
    // In a transaction or script nobody waits.
    assert_eq!(waiter.ask("MULTI"), "OK");
    assert_eq!(waiter.ask("BLPOP a 0"), "QUEUED");
    assert_eq!(waiter.ask("EXEC"), "[nil]");
    assert_eq!(waiter.ask("EVAL return(redis.call('blpop',KEYS[1],0)) 1 a"), "nil");
    // Who leaves waits no more, and takes nothing with it.
    waiter.send(b"BLPOP a 0\r\n");
    until_waiting(&mut other, 1);
    drop(waiter);
    until_waiting(&mut other, 0);
    assert_eq!(other.ask("RPUSH a x"), ":1");
    assert_eq!(other.ask("LPOP a"), "'x'");
    server.stop();
}

#[test]
fn what_others_write_serves_waiters_too() {
    let (server, _) = start_with(shared(), Probe::new(false));
    let mut other = Client::connect(&server);
    let mut waiter = Client::connect(&server);
    for lines in [
        &["RPUSH b x", "RENAME b a"][..],
        &["EVAL return(redis.call('lpush',KEYS[1],ARGV[1])) 1 a x"],
        &["RPUSH b x", "LMOVE b a LEFT LEFT"],
        &["RPUSH b x", "COPY b a", "DEL b"],
    ] {
        waiter.send(b"BLPOP a 20\r\n");
        until_waiting(&mut other, 1);
        for line in lines {
            assert!(!other.ask(line).starts_with('-'), "{line}");
        }
        assert_eq!(waiter.reply().unwrap(), Value::Array(vec![bulk("a"), bulk("x")]), "{lines:?}");
    }
    server.stop();
}

/// Many push and pop at the same time: everything that was pushed is popped once.
#[test]
fn nothing_is_lost_or_doubled_between_pushers_and_poppers() {
    for (server, _directory) in servers() {
        let each = silica_base::test_size(100, 500, 20_000);
        let popped = std::thread::scope(|scope| {
            let poppers: Vec<_> = (0..4)
                .map(|_| {
                    let mut client = Client::connect(&server);
                    scope.spawn(move || {
                        let mut all = Vec::new();
                        loop {
                            match client.call(&[b"BLPOP", b"q1", b"q2", b"0.5"]) {
                                Value::Array(pair) => all.push(crate::support::show(&pair[1])),
                                _ => return all,
                            }
                        }
                    })
                })
                .collect();
            for pusher in 0..2 {
                let mut client = Client::connect(&server);
                scope.spawn(move || {
                    for n in 0..each {
                        let (queue, value) = (1 + n % 2, format!("{pusher}-{n}"));
                        client.ask(&format!("RPUSH q{queue} {value}"));
                    }
                });
            }
            let popped = poppers.into_iter().flat_map(|popper| popper.join().unwrap());
            popped.collect::<Vec<String>>()
        });
        let mut want: Vec<String> =
            (0..2).flat_map(|pusher| (0..each).map(move |n| format!("'{pusher}-{n}'"))).collect();
        let mut popped = popped;
        want.sort();
        popped.sort();
        assert_eq!(popped, want);
        server.stop();
    }
}
