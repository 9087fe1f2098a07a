//! Options of a server from a file, the environment and the command line.

use crate::support::{Reply, Server, arg, scratch, silica, silica_ok};
use silica_base::test_size;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

fn refused(args: &[&str], status: i32) -> String {
    let output = silica(args).output().expect("it starts");
    assert_eq!(output.status.code(), Some(status), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn value(reply: &Reply) -> String {
    match reply {
        Reply::Bytes(Some(text)) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// SIGHUP.
fn hang_up(server: &Server) {
    let pid = server.pid().to_string();
    let status = Command::new("kill").args(["-HUP", &pid]).status().expect("a program of POSIX");
    assert!(status.success());
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_line() {
    let dir = scratch("options-wrong");
    let file = dir.join("silica.toml");
    for (text, wanted) in [
        ("listen = '127.0.0.1:0'\nmemroy = '1GiB'\n", &[":2: ", "memroy", "memory"][..]),
        ("loops = [1, 2]\n", &[":1: loops: it is one text or number"]),
        ("\n\nread-only = 'yes'\n", &[":3: read-only: it is true or false"]),
        ("memory = '1'\n", &["silica.toml", "64KiB"]),
        ("listen = \n", &[":1: "]),
        ("[settings]\ntimeout = [1]\n", &[":2: timeout: a setting is a number or a text"]),
        ("cache = '64MiB'\nmemory = '64MiB'\n", &["cannot be used with"]),
    ] {
        write(&file, text);
        let said = refused(&["config", "check", arg(&file)], 2);
        wanted.iter().for_each(|part| assert!(said.contains(part), "{text}: {said}"));
    }
    let said = refused(&["config", "check", arg(&dir.join("nothing.toml"))], 1);
    assert!(said.contains("nothing.toml"), "{said}");
}

#[test]
fn every_option_is_shown_with_where_it_is_from() {
    let dir = scratch("options-shown");
    let file = dir.join("silica.toml");
    write(&file, "memory = '512MiB'\nloops = 3\n[settings]\ntimeout = 7\n");
    assert!(silica_ok(&["config", "check", arg(&file)]).contains("2 options, 1 settings"));
    let show = ["config", "show", "--config", arg(&file), "--loops", "2", "--password", "x"];
    let output = silica(&show).env("SILICA_MEMORY", "1GiB").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for (name, source, value) in [
        ("memory", "environment", "1GiB"),
        ("loops", "command line", "2"),
        ("settings.timeout", "file", "7"),
        ("listen", "default", "127.0.0.1:6379"),
        ("password", "command line", "(hidden)"),
    ] {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not there: {text}"));
        assert!(line.contains(source) && line.ends_with(value), "{line}");
    }
}

/// A server that has its options from a file takes settings from it again at SIGHUP, and writes
/// what CONFIG SET changed back to it.
#[test]
fn settings_are_read_again_and_written() {
    let dir = scratch("options-served");
    let file = dir.join("silica.toml");
    let text = "# ours\nmemory = '128MiB' # in all\n\n[settings]\ntimeout = 100 # seconds\n";
    write(&file, text);
    let server = Server::start(&dir.join("data"), &["--config", arg(&file)]);
    let mut client = server.client();
    let mut setting = |name: &str| match client.ask(&[b"CONFIG", b"GET", name.as_bytes()]) {
        Ok(Reply::Many(pair)) => value(&pair[1]),
        other => panic!("{other:?}"),
    };
    assert!(setting("timeout").contains("100"));
    assert!(setting("maxmemory").contains(&(128 << 20).to_string()));
    write(&file, &text.replace("100", "200").replace("128MiB", "256MiB"));
    hang_up(&server);
    let until = Instant::now() + Duration::from_secs(20);
    while !setting("timeout").contains("200") {
        assert!(Instant::now() < until, "the file was not read again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(setting("maxmemory").contains(&(128 << 20).to_string()), "it waits for a start");
    // A file with a fault changes nothing.
    write(&file, "[settings]\ntimeout = 300\nmaxclients = 'many'\n");
    hang_up(&server);
    write(&file, &text.replace("100", "200"));
    let mut client = server.client();
    let mut ask = |words: &[&[u8]]| client.ask(words).expect("answered");
    assert_eq!(ask(&[b"CONFIG", b"SET", b"maxclients", b"77"]), Reply::Status("OK".into()));
    assert_eq!(ask(&[b"CONFIG", b"SET", b"maxmemory", b"100mb"]), Reply::Status("OK".into()));
    assert_eq!(ask(&[b"CONFIG", b"SET", b"requirepass", b"secret"]), Reply::Status("OK".into()));
    assert_eq!(ask(&[b"CONFIG", b"REWRITE"]), Reply::Status("OK".into()));
    let written = std::fs::read_to_string(&file).expect("it is there");
    for part in ["# ours\n", "# in all", "timeout = 200 # seconds", "maxclients = 77"] {
        assert!(written.contains(part), "{part}: {written}");
    }
    assert!(written.contains(&format!("maxmemory = {}", 100 << 20)), "{written}");
    assert!(!written.contains("secret") && !written.contains("requirepass"), "{written}");
    drop(server);
    let again = Server::start(&dir.join("data"), &["--config", arg(&file)]);
    match again.client().ask(&[b"CONFIG", b"GET", b"maxclients"]) {
        Ok(Reply::Many(pair)) => assert_eq!(value(&pair[1]), "77"),
        other => panic!("{other:?}"),
    }
}

/// Servers that have one file write their settings to it at once: each finds its own there, and
/// the file is whole.
#[test]
fn two_servers_write_to_one_file() {
    let dir = scratch("options-shared");
    let file = dir.join("silica.toml");
    write(&file, "loops = 1\n");
    let settings = ["maxclients", "timeout", "repl-timeout"];
    let servers = settings
        .map(|name| Server::start_cache(&dir.join(name), "64MiB", &["--config", arg(&file)]));
    std::thread::scope(|scope| {
        for (server, name) in servers.iter().zip(settings) {
            let file = &file;
            scope.spawn(move || {
                let mut client = server.client();
                for value in 61..61 + test_size(10, 40, 400) {
                    let text = value.to_string();
                    let set: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), text.as_bytes()];
                    assert_eq!(client.ask(&set).expect("answered"), Reply::Status("OK".into()));
                    let written = client.ask(&[b"CONFIG", b"REWRITE"]).expect("answered");
                    assert_eq!(written, Reply::Status("OK".into()), "{name} {value}");
                    let found = std::fs::read_to_string(file).expect("it is there");
                    let line = format!("{name} = {value}\n");
                    assert!(found.contains(&line), "{line}: {found}");
                }
            });
        }
    });
}
