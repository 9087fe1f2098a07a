//! Every store that can be compared.

mod crates;
mod directory;
mod fjall;
mod leveldb;
mod leveled;
mod library;
mod lmdb;
mod memory;
mod ours;
mod redb;
mod rocksdb;
mod server;
mod sql;
mod sqlite;
mod writes;

use crate::peer::Peer;
pub(crate) use server::{
    Cache, CacheProgram, Flashed, Grouped, Kept, Loaded, PROGRAMS, Room, Scaled, Typed, UNDER_WAY,
    connect, etcd_version, late, pin_client,
};
use silica::Result;
use silica::engine::unknown;

/// All peers; a new one gets a row here.
pub fn all() -> Vec<&'static dyn Peer> {
    let mut all: Vec<&'static dyn Peer> = Vec::new();
    all.extend(ours::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(rocksdb::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(leveldb::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(lmdb::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(redb::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(fjall::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(sql::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(sqlite::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(memory::PEERS.iter().map(|peer| peer as &dyn Peer));
    all.extend(server::PEERS.iter().map(|peer| peer as &dyn Peer));
    all
}

/// The peer `name`; the error lists those there are.
pub fn find(name: &str) -> Result<&'static dyn Peer> {
    let peers = all();
    let found = peers.iter().find(|peer| peer.name() == name).copied();
    found.ok_or_else(|| unknown("store", name, peers.iter().map(|peer| peer.name())))
}
