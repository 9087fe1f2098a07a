//! Ten thousand connections that do nothing, on both event loops: whoever works is served, and
//! each costs little memory.

use crate::support::{Client, Reply, Server, scratch};
use silica_base::test_size;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a connection may cost the server, kernel not included: the limit is generous, so that it
/// fails where somebody gives each connection a buffer.
const BYTES_EACH: u64 = 3 << 10;

/// A number that INFO shows.
fn number(client: &mut Client, name: &str) -> u64 {
    let Ok(Reply::Bytes(Some(info))) = client.ask(&[b"INFO"]) else { panic!("no INFO") };
    let info = String::from_utf8(info).expect("a text");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).parse().expect("a number")
}

/// Waits until `name` in INFO is right.
fn until(client: &mut Client, name: &str, is_right: impl Fn(u64) -> bool) {
    let start = Instant::now();
    while !is_right(number(client, name)) {
        let is = number(client, name);
        assert!(start.elapsed() < Duration::from_secs(60), "{name} is {is}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn work(client: &mut Client, requests: usize) {
    for _ in 0..requests {
        assert_eq!(client.ask(&[b"SET", b"k", b"v"]).expect("a reply"), Reply::Status("OK".into()));
        assert_eq!(client.ask(&[b"GET", b"k"]).expect("a reply"), Reply::Bytes(Some(b"v".into())));
    }
}

fn idle_connections_of(event_loop: &str, dir: &Path) {
    let server = Server::start_cache(&dir.join(event_loop), "64MiB", &["--event-loop", event_loop]);
    let mut client = server.client();
    work(&mut client, 1000);
    let before = (number(&mut client, "used_memory_rss"), number(&mut client, "open_descriptors"));
    let wanted = test_size(1_000, 10_000, 10_000);
    let mut idle = Vec::new();
    for _ in 0..wanted {
        match TcpStream::connect(("127.0.0.1", server.port)) {
            Ok(socket) => idle.push(socket),
            // This process's own limit.
            Err(error) => {
                println!("only {} connections: {error}", idle.len());
                break;
            }
        }
    }
    let count = idle.len() as u64;
    until(&mut client, "connected_clients", |n| n == count + 1);
    work(&mut client, 1000);
    // The connection that found the server ready may have counted before.
    let open = number(&mut client, "open_descriptors");
    assert!((count..=before.1 + count).contains(&open), "{open} descriptors, {before:?} before");
    let grown = number(&mut client, "used_memory_rss").saturating_sub(before.0);
    println!("{event_loop}: {count} idle connections, {} bytes each", grown / count.max(1));
    assert!(grown < (1 << 20) + BYTES_EACH * count, "{grown} bytes for {count} connections");
    drop(idle);
    until(&mut client, "connected_clients", |n| n == 1);
    until(&mut client, "open_descriptors", |n| n <= before.1);
    drop(client);
    server.stop();
}

#[test]
fn idle_connections_are_cheap_on_both_event_loops() {
    let dir = scratch("idle");
    idle_connections_of("epoll", &dir);
    // io_uring, where the kernel has all that it takes.
    idle_connections_of("auto", &dir);
}

/// Systems start programs with a limit of 1024 descriptors or fewer; the server raises it.
#[test]
fn the_limit_of_descriptors_is_raised() {
    let dir = scratch("descriptors");
    let server = Server::start_cache_within(&dir.join("server"), "64MiB", 40);
    let mut client = server.client();
    let some: Vec<Client> = (0..200).map(|_| server.client()).collect();
    until(&mut client, "connected_clients", |n| n == 201);
    drop(some);
    drop(client);
    server.stop();
}
