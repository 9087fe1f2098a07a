//! A server on the reference engine, for trying clients: `reference [PORT]`.

use silica_engine::testkit::Reference;
use silica_engine::{Engine, Result};
use silica_server::{Config, Databases, Server};
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
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], port))];
    let server = Server::start(Config { listen, ..Config::default() }, Arc::new(Memory))?;
    println!("listening on {}", server.local_addr());
    server.wait();
    Ok(())
}
