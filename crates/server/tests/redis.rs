//! The same requests to the real redis-server: our texts about it are true.

#[path = "support/scripts.rs"]
mod scripts;
mod support;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Client, script};

/// A redis-server that ends with the test.
struct Redis(Child, SocketAddr);

impl Redis {
    /// `None` where it is not installed.
    fn start() -> Option<Redis> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &port.port().to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Redis(child, port)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => panic!("redis-server does not start: {e}"),
        }
    }

    fn connect(&self) -> Client {
        for _ in 0..400 {
            if let Ok(client) = Client::connect_to(self.1) {
                return client;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("redis-server does not answer");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis_answers_as_we_say() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let mut client = redis.connect();
    for lines in [
        scripts::EXPIRY,
        scripts::EXPIRING_WRITES,
        scripts::BITS,
        scripts::BITFIELDS,
        scripts::MOVING,
        scripts::NUMBERS,
        scripts::TRANSACTIONS,
    ] {
        assert_eq!(client.ask("FLUSHALL"), "OK");
        script(&mut client, lines);
    }
}
