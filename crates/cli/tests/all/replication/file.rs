//! `redis-cli --rdb`, `--functions-rdb` and `--replica`: all data by SYNC, as tools want it.

use super::*;
use crate::support::scratch;
use std::io::Read;
use std::process::Stdio;

/// redis-cli with these arguments; true if it succeeds.
fn redis_cli(port: u16, args: &[&str]) -> bool {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output();
    let output = output.expect("redis-tools is installed with redis-server");
    let said = [output.stdout, output.stderr].concat();
    println!("redis-cli {args:?}: {}", String::from_utf8_lossy(&said));
    output.status.success()
}

/// Starts Redis with a file of all data.
fn loaded(dir: &Path, name: &str, file: &Path) -> Server {
    let data = dir.join(name);
    std::fs::create_dir_all(&data).expect("the directory can be made");
    std::fs::copy(file, data.join("dump.rdb")).expect("the file is there");
    Server::start_redis_in(&data, &dir.join(format!("{name}-redis")))
}

fn fill(client: &mut Client, databases: usize) {
    write_in(client, &mut Prng::new(11), 4_000, databases);
    make_group(client);
    ask(client, "SET soon 1 PX 90000000");
    let library = "#!lua name=mylib\nredis.register_function('one', function() return 1 end)";
    let loaded = client.ask(&[b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()]);
    assert!(!matches!(loaded, Ok(Reply::Error(_))), "{loaded:?}");
}

fn check(dir: &Path, server: &Server, databases: usize) {
    std::fs::create_dir_all(dir).expect("the directory can be made");
    let mut client = server.client();
    fill(&mut client, databases);
    let before = info(&mut client, "replication", "connected_slaves");
    for (name, is_alone) in [("all", false), ("functions", true)] {
        let file = dir.join(format!("{name}.rdb"));
        let option = if is_alone { "--functions-rdb" } else { "--rdb" };
        assert!(redis_cli(server.port, &[option, file.to_str().expect("a path")]));
        let redis = loaded(dir, name, &file);
        let mut other = redis.client();
        match is_alone {
            true => assert!(contents(&mut other).is_empty()),
            false => assert_eq!(contents(&mut other), contents(&mut client)),
        }
        assert_eq!(ask(&mut other, "FCALL one 0"), Reply::Number(1));
        redis.stop();
    }
    // No replica was there, and no stream is kept for one.
    assert_eq!(info(&mut client, "replication", "connected_slaves"), before);
    assert_eq!(info(&mut client, "replication", "repl_backlog_active"), "0");
}

#[test]
fn redis_cli_fetches_a_file_that_redis_loads() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-file");
    let store = Server::start(&dir.join("store"), &["--loops", "2"]);
    check(&dir.join("store-files"), &store, DATABASES);
    store.stop();
    for (name, engine) in [("cache", "mica"), ("hashed", "silt")] {
        let server = match engine {
            "mica" => Server::start_cache(&dir.join(name), "64MiB", &["--loops", "2"]),
            _ => Server::start(&dir.join(name), &["--loops", "2", "--engine", engine]),
        };
        check(&dir.join(format!("{name}-files")), &server, 1);
        server.stop();
    }
}

#[test]
fn redis_cli_shows_what_is_written() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-shown");
    let server = Server::start(&dir.join("store"), &["--loops", "2"]);
    let mut client = server.client();
    write(&mut client, &mut Prng::new(3), 200);
    let mut child = Command::new("redis-cli")
        .args(["-p", &server.port.to_string(), "--replica"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-tools is installed with redis-server");
    wait_for("the tool to be fed", || info(&mut client, "replication", "connected_slaves") == "1");
    let mut shown = child.stdout.take().expect("it is piped");
    let reader = std::thread::spawn(move || {
        let (mut all, mut piece) = (String::new(), [0; 4096]);
        while !all.contains("shown-at-last") {
            match shown.read(&mut piece) {
                Ok(count @ 1..) => all += &String::from_utf8_lossy(&piece[..count]),
                end => return Err(format!("{end:?} after {all}")),
            }
        }
        Ok(())
    });
    let mut nth = 0;
    wait_for("what is written to be shown", || {
        nth += 1;
        ask(&mut client, &format!("SET shown-at-last {nth}"));
        reader.is_finished()
    });
    reader.join().expect("no panic").expect("it was shown");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    server.stop();
}
