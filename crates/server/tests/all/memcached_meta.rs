//! memcached's meta commands over real sockets: what needs more than one client.

use crate::support;
use crate::support::memcached::Raw;
use crate::support::{Client, Probe, config, start_with};
use silica_server::Server;
use std::sync::atomic::Ordering::Relaxed;

fn servers() -> [Server; 2] {
    [false, true].map(|may_wait| start_with(config(), Probe::new(may_wait)).0)
}

/// Sends `request` and returns its answer's first line.
fn says(client: &mut Raw, request: &str) -> String {
    let got = client.until(format!("{request}\r\nmn\r\n").as_bytes(), b"MN\r\n");
    let text = String::from_utf8(got).unwrap();
    text.lines().next().unwrap_or_default().to_string()
}

/// What eight clients are told that say the same at once.
fn crowd(server: &Server, request: &'static str) -> Vec<String> {
    let address = server.local_addr();
    let clients: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(move || says(&mut Raw::connect(address), request)))
        .collect();
    let mut answers: Vec<String> = clients.into_iter().map(|c| c.join().unwrap()).collect();
    answers.sort();
    answers
}

#[test]
fn of_many_clients_one_makes_a_missing_entry() {
    for server in servers() {
        let answers = crowd(&server, "mg k N60 v");
        assert_eq!(answers[0], "VA 0 W");
        assert!(answers[1..].iter().all(|answer| answer == "VA 0 Z"), "{answers:?}");
        server.stop();
    }
}

#[test]
fn of_many_clients_one_renews_a_stale_entry() {
    for server in servers() {
        let mut client = Raw::connect(server.local_addr());
        assert_eq!(says(&mut client, "ms k 3\r\nold"), "HD");
        assert_eq!(says(&mut client, "md k I T60"), "HD");
        let answers = crowd(&server, "mg k v");
        assert_eq!(answers[0], "VA 3 X W");
        assert!(answers[1..].iter().all(|answer| answer == "VA 3 Z X"), "{answers:?}");
        assert_eq!(says(&mut client, "ms k 3\r\nold"), "HD", "the same value is a new one");
        assert_eq!(says(&mut client, "mg k"), "HD");
        server.stop();
    }
}

#[test]
fn an_invalidated_entry_has_another_unique() {
    for server in servers() {
        let mut client = Raw::connect(server.local_addr());
        assert!(says(&mut client, "ms k 1 c\r\nx").starts_with("HD c"));
        let before = says(&mut client, "mg k c");
        let unique = before.strip_prefix("HD c").unwrap();
        assert_eq!(says(&mut client, &format!("md k I C{unique}")), "HD");
        assert_eq!(says(&mut client, &format!("cas k 0 0 1 {unique}\r\ny")), "EXISTS");
        assert_eq!(says(&mut client, &format!("ms k 1 C{unique} I\r\ny")), "HD");
        assert_eq!(says(&mut client, "mg k v"), "VA 1 X W", "late data is stale from the start");
        // Whoever writes over RESP makes it fresh.
        assert_eq!(Client::connect(&server).ask("SET k z"), "OK");
        assert_eq!(says(&mut client, "mg k v"), "VA 1");
        server.stop();
    }
}

#[test]
fn quiet_commands_are_silent_when_nothing_is_wrong() {
    for server in servers() {
        let mut client = Raw::connect(server.local_addr());
        let requests = "ms a 1 q\r\nx\r\nms a 1 q ME Oadd\r\ny\r\nmg none q v\r\nmg a q v\r\n\
                        md a q\r\nmd a q Ogone\r\nmn\r\n";
        let got = client.until(requests.as_bytes(), b"MN\r\n");
        let want = "NS Oadd\r\nVA 1\r\nx\r\nNF Ogone\r\nMN\r\n";
        assert_eq!(String::from_utf8(got).unwrap(), want);
        server.stop();
    }
}

#[test]
fn quiet_commands_tell_of_a_failed_sync() {
    let (server, probe) = start_with(config(), Probe::new(true));
    probe.fail_sync.store(true, Relaxed);
    let mut client = Raw::connect(server.local_addr());
    let got = client.until(b"ms a 1 q\r\nx\r\nmn\r\n", b"MN\r\n");
    assert_eq!(String::from_utf8_lossy(&got), "SERVER_ERROR the sync failed\r\nMN\r\n");
    server.stop();
}

#[test]
fn binary_keys_are_the_keys_of_the_other_protocols() {
    for server in servers() {
        let mut client = Raw::connect(server.local_addr());
        assert_eq!(says(&mut client, "ms AAEgDQo= 2 b k\r\nhi"), "HD kAAEgDQo= b");
        let value = Client::connect(&server).call(&[b"GET", b"\0\x01 \r\n"]);
        assert_eq!(support::show(&value), "'hi'");
        assert_eq!(says(&mut client, "mg AAEgDQo= b k t s"), "HD kAAEgDQo= b t-1 s2");
        assert!(says(&mut client, "me AAEgDQo= b").starts_with("ME AAEgDQo= exp=-1 la=0 cas="));
        assert_eq!(says(&mut client, "md AAEgDQo= b"), "HD");
        server.stop();
    }
}
