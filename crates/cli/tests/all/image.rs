//! A cache that is stopped comes back with what it held; one that is killed does not.

use crate::support::{Client, Reply, Server, arg, scratch};

fn put(client: &mut Client, key: &[u8], value: &[u8], more: &[&[u8]]) {
    let words = [&[b"SET", key, value], more].concat();
    assert_eq!(client.ask(&words).expect("a reply"), Reply::Status("OK".into()));
}

fn get(client: &mut Client, key: &[u8]) -> Option<Vec<u8>> {
    match client.ask(&[b"GET", key]).expect("a reply") {
        Reply::Bytes(value) => value,
        other => panic!("{other:?}"),
    }
}

fn ttl(client: &mut Client, key: &[u8]) -> i64 {
    match client.ask(&[b"TTL", key]).expect("a reply") {
        Reply::Number(seconds) => seconds,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cache_comes_back_after_a_clean_stop_and_only_then() {
    let path = scratch("image").join("cache");
    let directory = path.with_extension("image");
    let start = |size| Server::start_cache(&path, size, &["--image", arg(&directory)]);
    let server = start("64MiB");
    let mut client = server.client();
    put(&mut client, b"kept", b"1", &[]);
    put(&mut client, b"for a while", b"2", &[b"EX", b"1000"]);
    put(&mut client, b"not for long", b"3", &[b"PX", b"1"]);
    server.stop();

    let server = start("64MiB");
    let mut client = server.client();
    assert_eq!(get(&mut client, b"kept"), Some(b"1".to_vec()));
    assert_eq!(get(&mut client, b"for a while"), Some(b"2".to_vec()));
    assert!((900..=1000).contains(&ttl(&mut client, b"for a while")));
    assert_eq!(get(&mut client, b"not for long"), None);
    put(&mut client, b"kept", b"4", &[]);
    server.stop();

    // Another size takes the entries, too.
    let server = start("96MiB");
    let mut client = server.client();
    assert_eq!(get(&mut client, b"kept"), Some(b"4".to_vec()));
    put(&mut client, b"kept", b"5", &[]);
    server.kill();

    let server = start("96MiB");
    let mut client = server.client();
    assert_eq!(get(&mut client, b"kept"), None, "killed: nothing of old comes back");
    put(&mut client, b"kept", b"6", &[]);
    client.send(b"SHUTDOWN NOSAVE\r\n").expect("sent");
    client.reply().expect_err("the server closes the connection");
    server.wait();

    let server = start("96MiB");
    let mut client = server.client();
    assert_eq!(get(&mut client, b"kept"), None, "NOSAVE leaves nothing");
    put(&mut client, b"kept", b"7", &[]);
    client.send(b"SHUTDOWN\r\n").expect("sent");
    client.reply().expect_err("the server closes the connection");
    server.wait();
    assert_eq!(get(&mut start("96MiB").client(), b"kept"), Some(b"7".to_vec()));
}

/// Where each partition belongs to a loop, these give theirs up before the image is written.
#[test]
fn a_cache_whose_partitions_have_owners_comes_back_too() {
    for mode in ["erew", "crew"] {
        let path = scratch(&format!("image-{mode}")).join("cache");
        let directory = path.with_extension("image");
        let more = ["--image", arg(&directory), "--mode", mode, "--loops", "2"];
        let start = || Server::start_cache(&path, "64MiB", &more);
        let key = |n: u32| format!("key {n}");
        let server = start();
        let mut client = server.client();
        (0..200).for_each(|n| put(&mut client, key(n).as_bytes(), n.to_string().as_bytes(), &[]));
        put(&mut client, b"for a while", b"2", &[b"EX", b"1000"]);
        server.stop();

        let server = start();
        let mut client = server.client();
        for n in 0..200 {
            assert_eq!(get(&mut client, key(n).as_bytes()), Some(n.to_string().into_bytes()));
        }
        assert!((900..=1000).contains(&ttl(&mut client, b"for a while")));
        put(&mut client, b"key 0", b"new", &[]);
        client.send(b"SHUTDOWN\r\n").expect("sent");
        client.reply().expect_err("the server closes the connection");
        server.wait();

        let server = start();
        assert_eq!(get(&mut server.client(), b"key 0"), Some(b"new".to_vec()), "{mode}");
        server.kill();
        assert_eq!(get(&mut start().client(), b"key 0"), None, "{mode}: killed");
    }
}

#[test]
fn a_damaged_image_means_an_empty_cache_and_a_line_in_the_log() {
    let path = scratch("damaged-image").join("cache");
    let directory = path.with_extension("image");
    let start = || Server::start_cache(&path, "64MiB", &["--image", arg(&directory)]);
    let server = start();
    put(&mut server.client(), b"key", b"value", &[]);
    server.stop();
    let image = directory.join("image");
    let mut bytes = std::fs::read(&image).expect("the image");
    bytes[4100] ^= 1;
    std::fs::write(&image, &bytes).expect("written");
    let server = start();
    assert_eq!(get(&mut server.client(), b"key"), None);
    let log = std::fs::read_to_string(path.with_extension("log")).expect("the log");
    assert!(log.contains("starting empty") && log.contains("checksum"), "{log}");
}
