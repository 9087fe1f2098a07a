//! Limits that the system sets and what else is taken: each is told in words that name the fix,
//! and nothing is left running that serves nobody.

use crate::support;
use crate::support::{Reply, Server, arg, said, scratch, silica, silica_ok};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `silica ARGS` under `ulimit LIMIT`, to its end.
fn limited(limit: &str, args: &[&str]) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "bash"]);
    command.arg(env!("CARGO_BIN_EXE_silica")).args(args).stdin(Stdio::null());
    command.output().expect("bash starts")
}

/// What a command says that fails without ever having served; it exits by itself.
fn refused(output: &Output) -> String {
    let said = said(output);
    assert!(output.status.code().is_some_and(|code| code > 0), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
    said
}

fn serve<'a>(path: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["serve", arg(path), "--listen", "127.0.0.1:0"], more].concat()
}

#[test]
fn a_limit_of_a_files_size_is_told() {
    let dir = scratch("limits-file-size");
    let path = dir.join("put");
    let said = refused(&limited("-f 1", &["put", "--path", arg(&path), "a", "b"]));
    assert!(said.contains("ulimit -f"), "{said}");
    // What fits is kept.
    let kept = limited("-f 100", &["put", "--path", arg(&path), "a", "b"]);
    assert!(kept.status.success(), "{}", support::said(&kept));
    // A server goes on, and tells each who writes.
    let server = Server::start_within(&dir.join("serve"), "-f 100");
    let mut client = server.client();
    let Ok(Reply::Error(error)) = client.ask(&[b"SET", b"a", &[b'x'; 200_000]]) else {
        panic!("a write beyond the limit succeeds")
    };
    assert!(error.contains("ulimit -f"), "{error}");
    assert_eq!(client.ask(&[b"GET", b"a"]).unwrap(), Reply::Bytes(None));
    server.kill();
    silica_ok(&["put", "--path", arg(&dir.join("serve")), "a", "b"]);
}

#[test]
fn a_limit_of_open_files_is_told() {
    let dir = scratch("limits-descriptors");
    let path = dir.join("store");
    for limit in ["-n 10", "-n 20", "-n 60"] {
        let said = refused(&limited(limit, &serve(&path, &[])));
        assert!(said.contains("ulimit -n"), "{limit}: {said}");
    }
    let said = refused(&limited("-n 8", &["put", "--path", arg(&path), "a", "b"]));
    assert!(said.contains("ulimit -n"), "{said}");
    // With few, there are fewer clients than usual, and the store has what it needs.
    let server = Server::start_within(&path, "-n 200");
    let mut client = server.client();
    let Ok(Reply::Many(told)) = client.ask(&[b"CONFIG", b"GET", b"maxclients"]) else {
        panic!("no maxclients")
    };
    let Reply::Bytes(Some(most)) = &told[1] else { panic!("{told:?}") };
    let most: usize = String::from_utf8_lossy(most).parse().unwrap();
    assert!((32..140).contains(&most), "{most}");
    server.stop();
}

#[test]
fn a_limit_of_memory_is_told_before_anything_starts() {
    let dir = scratch("limits-memory");
    let few = refused(&limited("-v 900000", &serve(&dir.join("store"), &["--memory", "1GiB"])));
    assert!(few.contains("ulimit -v") && few.contains("--memory"), "{few}");
    assert!(!dir.join("store").exists(), "nothing was begun");
    let args = ["serve", "--cache", "4GiB", "--listen", "127.0.0.1:0"];
    let few = refused(&limited("-v 2000000", &args));
    assert!(few.contains("ulimit -v") && few.contains("--cache"), "{few}");
}

#[test]
fn a_lock_that_was_removed_still_keeps_others_out() {
    let dir = scratch("limits-lock");
    let path = dir.join("store");
    let server = Server::start(&path, &[]);
    std::fs::remove_file(path.join("LOCK")).unwrap();
    let outputs = [serve(&path, &[]), vec!["get", "--path", arg(&path), "a"]]
        .map(|args| silica(&args).output().unwrap());
    for output in &outputs {
        let said = refused(output);
        assert!(said.contains("in use by") && output.status.code() == Some(4), "{said}");
    }
    server.stop();
}

#[test]
fn what_another_server_has_is_told_and_left_alone() {
    let dir = scratch("limits-taken");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = tcp.local_addr().unwrap().to_string();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken_udp = udp.local_addr().unwrap().to_string();
    let file = dir.join("file");
    std::fs::write(&file, "no socket").unwrap();
    for (option, value, fix) in [
        ("--memcached", taken.as_str(), "choose another port"),
        ("--admin", &taken, "choose another port"),
        ("--udp", &taken_udp, "choose another port"),
        ("--datagrams", &taken_udp, "choose another port"),
        ("--unix", arg(&file), "choose another path"),
    ] {
        let path = dir.join("store");
        let said = refused(&silica(&serve(&path, &[option, value])).output().unwrap());
        assert!(said.contains(fix) && said.contains(value), "{option}: {said}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"no socket");
}

/// The sockets of several loops share a port, but not with another server.
#[test]
fn a_port_for_datagrams_belongs_to_one_server() {
    let dir = scratch("limits-udp");
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let several = ["--udp", &free, "--loops", "2"];
    let server = Server::start(&dir.join("one"), &several);
    let other = dir.join("other");
    let said = refused(&silica(&serve(&other, &several)).output().unwrap());
    assert!(said.contains("choose another port"), "{said}");
    server.stop();
}
