//! Commands about connections: listing, closing, pausing, telling them of writes.

#[path = "support/stories.rs"]
mod stories;
mod support;

use support::{Client, Probe, config, script, start_with};

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
    writer.send(b"set a 0 0 1\r\nx\r\nincr n 1\r\nflush_all\r\n");
    assert_eq!(support::show(&ear.reply().unwrap()), ">['invalidate' ['a' 'n']]");
    assert_eq!(support::show(&ear.reply().unwrap()), ">['invalidate' nil]");
    server.stop();
}

#[test]
fn only_broadcasts_are_offered() {
    let (server, _) = start_with(config(), Probe::new(false));
    let refused = Client::connect(&server).ask("CLIENT TRACKING ON");
    assert!(refused.contains("use CLIENT TRACKING ON BCAST"), "{refused}");
    server.stop();
}
