//! Real clients of memcached, unmodified: memccapable, memcslap, pymemcache.

use crate::support::{Probe, config, start_with};
use silica_server::Server;
use std::process::{Command, Stdio};

/// A server with a port for memcached's protocol alone, and that port.
fn memcached_server(may_wait: bool) -> (Server, String) {
    let memcached = vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0))];
    let (server, _) =
        start_with(silica_server::Config { memcached, ..config() }, Probe::new(may_wait));
    let port = server.memcached_addrs()[0].port().to_string();
    (server, port)
}

/// Runs a client of memcached; false (and a printed reason) where it is missing.
fn memcached_client(program: &str, package: &str, args: &[&str], wants: &str) -> bool {
    let Ok(output) = Command::new(program).args(args).stdin(Stdio::null()).output() else {
        println!("skipped: {program} is not installed (Debian: apt-get install {package})");
        return false;
    };
    let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains(wants) && !shown.contains("FAIL"), "{shown}");
    true
}

#[test]
fn memccapable() {
    for may_wait in [false, true] {
        let (server, port) = memcached_server(may_wait);
        // On its own port, and on the one that takes both protocols.
        let port = if may_wait { port } else { server.local_addr().port().to_string() };
        let args = ["-h", "127.0.0.1", "-p", &port, "-t", "20"];
        if !memcached_client("memccapable", "libmemcached-tools", &args, "All tests passed") {
            return;
        }
        server.stop();
    }
}

#[test]
fn memcslap() {
    let (server, port) = memcached_server(true);
    let servers = format!("--servers=127.0.0.1:{port}");
    for (test, binary) in [
        ("set", false),
        ("get", false),
        ("mget", false),
        ("set", true),
        ("get", true),
        ("mget", true),
    ] {
        let test = format!("--test={test}");
        let load = ["--concurrency=4", "--execute-number=300", "--initial-load=300", "--binary"];
        let load = &load[..if binary { 4 } else { 3 }];
        let args = [&[servers.as_str(), &test], load].concat();
        if !memcached_client("memcslap", "libmemcached-tools", &args, "Time") {
            return;
        }
    }
    server.stop();
}

/// What pymemcache is made to do.
const PYMEMCACHE: &str = "
import sys
from pymemcache.client.base import Client, PooledClient
for Kind in (Client, PooledClient):
    c = Kind(('127.0.0.1', int(sys.argv[1])), timeout=20)
    assert c.set('a', b'1', expire=100, noreply=False)
    assert c.add('a', b'2', noreply=False) is False
    value, unique = c.gets('a')
    assert value == b'1'
    assert c.cas('a', b'3', unique, noreply=False) is True
    assert c.cas('a', b'4', unique, noreply=False) is False
    assert c.incr('a', 4) == 7 and c.decr('a', 2) == 5
    c.set_many({'k%d' % n: b'v' * n for n in range(100)})
    found = c.get_many(['k%d' % n for n in range(100)] + ['none'])
    assert len(found) == 100 and found['k99'] == b'v' * 99
    assert c.append('a', b'x', noreply=False) and c.prepend('a', b'y', noreply=False)
    assert c.get('a') == b'y5x'
    assert c.touch('a', 100, noreply=False)
    assert c.delete('a', noreply=False) and c.get('a') is None
    assert b'version' in c.stats()
    assert c.flush_all(noreply=False) and c.get('k1') is None
print('pymemcache is content')
";

#[test]
fn pymemcache() {
    let (server, port) = memcached_server(false);
    // Debian's own Python is the one that has Debian's packages.
    let has = Command::new("/usr/bin/python3").args(["-c", "import pymemcache"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: pymemcache is missing (Debian: apt-get install python3-pymemcache)");
        return;
    }
    let args = ["-c", PYMEMCACHE, &port];
    memcached_client("/usr/bin/python3", "python3-pymemcache", &args, "pymemcache is content");
    server.stop();
}
