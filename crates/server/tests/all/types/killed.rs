//! A server that is killed while it changes objects: what is found afterwards is sound.
//!
//! The server is this very program, started anew with the name of a directory.

use super::engine_pages::check_all;
use crate::support::{Client, config};
use silica::OpenOptions;
use silica_base::{Prng, test_size};
use silica_server::{Databases, Server};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Names the directory of the store to the program that is going to be killed.
const DIRECTORY: &str = "SILICA_TEST_SERVED_DIRECTORY";
const CLIENTS: u64 = 4;

/// What the program does that is going to be killed; nothing in a run of the tests.
#[test]
fn serves_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let options = OpenOptions::new().memory_bytes(64 << 20);
    let store = Arc::new(options.open(directory.join("store")).expect("a store"));
    let server = Server::start(config(), store as Arc<dyn Databases>).expect("a server");
    std::fs::write(directory.join("new"), server.local_addr().to_string()).expect("it is written");
    std::fs::rename(directory.join("new"), directory.join("address")).expect("it is there");
    std::thread::sleep(Duration::from_secs(600));
}

fn spawn(directory: &Path) -> (Child, std::net::SocketAddr) {
    let _ = std::fs::remove_file(directory.join("address"));
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "types::killed::serves_until_it_is_killed"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    for _ in 0..4000 {
        if let Ok(address) = std::fs::read_to_string(directory.join("address")) {
            return (child, address.parse().expect("an address"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the server does not start");
}

/// Sends requests until the server is gone, and counts those that were answered in `answered`;
/// returns the acknowledged sum of the client's counter, and what was sent beyond.
fn write(mut client: Client, (nth, seed): (u64, u64), answered: &AtomicI64) -> (i64, i64) {
    let mut prng = Prng::new(seed * CLIENTS + nth);
    let (mut acknowledged, mut sent) = (0, 0);
    loop {
        let mut lines = format!("HINCRBY sums client:{nth} 1\r\n");
        for _ in 0..6 {
            let (name, n) = (["a", "b", "c"][prng.below(3) as usize], prng.below(600));
            lines += &match prng.below(12) {
                0..3 => format!("HSET h{name} field:{n:05} {}\r\n", "v".repeat(n as usize / 4)),
                3 => format!("HPEXPIRE h{name} 20 FIELDS 1 field:{n:05}\r\n"),
                4 => format!("HDEL h{name} field:{n:05}\r\n"),
                5..7 => format!("SADD s{name} member:{n:05}\r\n"),
                7 => format!("SREM s{name} member:{n:05}\r\n"),
                8..10 => format!("RPUSH l{name} value:{n:05}\r\n"),
                10 => format!("LTRIM l{name} {} -1\r\n", prng.below(20)),
                _ if prng.one_in(20) => format!("SUNIONSTORE s{name} sa sb sc\r\n"),
                _ if prng.one_in(20) => format!("DEL h{name} s{name}\r\n"),
                _ => format!("SPOP s{name} {}\r\n", prng.below(4)),
            };
        }
        sent += 1;
        use std::io::Write as _;
        if client.socket.write_all(lines.as_bytes()).is_err() {
            return (acknowledged, sent);
        }
        for at in 0..7 {
            let Some(_) = client.reply() else { return (acknowledged, sent) };
            if at == 0 {
                acknowledged += 1;
                answered.store(acknowledged, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn what_a_killed_server_leaves_is_sound() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let mut bounds = [(0, 0); CLIENTS as usize];
    let mut objects = 0;
    for seed in 0..test_size(3, 8, 300) {
        let (mut child, address) = spawn(directory);
        let connect = |_| Client::connect_to(address).expect("it serves");
        let clients: Vec<Client> = (0..CLIENTS).map(connect).collect();
        let answered = [const { AtomicI64::new(0) }; CLIENTS as usize];
        let did: Vec<(i64, i64)> = std::thread::scope(|scope| {
            let start = |(nth, client): (usize, Client)| {
                let answered = &answered[nth];
                scope.spawn(move || write(client, (nth as u64, seed), answered))
            };
            let threads: Vec<_> = clients.into_iter().enumerate().map(start).collect();
            let begun = Instant::now();
            std::thread::sleep(Duration::from_millis(100 + 37 * (seed % 10)));
            // A busy machine may not have let all of them begin by then.
            while answered.iter().any(|answered| answered.load(Ordering::Relaxed) < 10) {
                assert!(begun.elapsed() < Duration::from_secs(60), "they are not served");
                std::thread::sleep(Duration::from_millis(5));
            }
            child.kill().expect("it is killed");
            child.wait().expect("it is gone");
            threads.into_iter().map(|thread| thread.join().expect("it runs")).collect()
        });
        let options = OpenOptions::new().memory_bytes(64 << 20);
        let store = Arc::new(options.open(directory.join("store")).expect("a store"));
        let engine = Databases::open(&*store, 0).expect("its engine");
        objects = objects.max(check_all(&engine).0);
        drop(engine);
        let server = Server::start(config(), store as Arc<dyn Databases>).expect("a server");
        let mut client = Client::connect(&server);
        for (nth, (acknowledged, sent)) in did.iter().enumerate() {
            let bound = &mut bounds[nth];
            *bound = (bound.0 + acknowledged, bound.1 + sent);
            let found = client.ask(&format!("HINCRBY sums client:{nth} 0"));
            let found: i64 = found[1..].parse().expect("a number");
            assert!((bound.0..=bound.1).contains(&found), "{found} is not in {bound:?}");
            *bound = (found, found);
        }
        server.stop();
    }
    assert!(objects >= 7 && bounds.iter().all(|bound| bound.0 > 3), "{objects}, {bounds:?}");
}
