//! A bare server for trying clients: `serve PORT` on the reference engine, `serve PORT DIR` on
//! the store in a directory.

use silica::{Engine, Result};
use silica_server::{Config, Databases, Server};
use silica_testkit::Reference;
use std::net::SocketAddr;
use std::sync::Arc;

struct Memory;

impl Databases for Memory {
    fn open(&self, _index: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Reference::new()))
    }
}

fn main() -> Result<()> {
    let port = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(6379);
    let databases: Arc<dyn Databases> = match std::env::args().nth(2) {
        Some(path) => Arc::new(silica::open(path)?),
        None => Arc::new(Memory),
    };
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], port))];
    let server = Server::start(Config { listen, ..Config::default() }, databases)?;
    println!("listening on {}", server.local_addr());
    server.wait();
    Ok(())
}
