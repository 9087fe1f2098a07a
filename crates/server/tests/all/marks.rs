//! The power fails at every operation of the devices while a server follows a primary in whose
//! history it goes on, is promoted, writes itself, and follows again. What it asks for afterwards
//! is what it lacks: its databases hold what the stream has up to the position that they say, or
//! they say none.

use crate::support::{Client, request, shared, show};
use silica_base::HashSeed;
use silica_commands::Follower;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Budget, Durability, Engine, Environment, Error, OptionValues, Result};
use silica_server::{Config, Databases, Server};
use silica_wip::Wip;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ids of the histories in which the server goes on, the first and the second time.
const IDS: [&str; 2] =
    ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"];

/// What happens, one after the other.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A client's requests.
    Own(&'static str),
    /// It becomes a replica, and goes on under this id.
    GoOn(usize),
    /// Requests that the primary sends, parted by semicolons, which are applied together.
    Stream(&'static str),
    Promote,
    /// Database 0 or 1 is synced.
    Sync(usize),
}
use Step::{GoOn, Own, Promote, Stream, Sync};

/// Results depend on how often each request is applied.
const SCRIPT: &[Step] = &[
    Own("INCR n"),
    Own("APPEND s one"),
    Own("SELECT 1"),
    Own("INCR n"),
    Own("RPUSH l a b"),
    Sync(1),
    Own("APPEND s two"),
    Own("SELECT 0"),
    Own("RPUSH l a"),
    Own("INCR n"),
    GoOn(0),
    Stream("SELECT 0; INCR n; INCR n"),
    Stream("PING"),
    Stream("SELECT 1; APPEND s three"),
    Stream("INCR n; SELECT 0; INCR n"),
    Sync(1),
    Stream("MULTI; APPEND s x; SELECT 1; APPEND s y; EXEC"),
    Stream("RPUSH l c d; LPOP l; SELECT 0; INCR n"),
    Sync(0),
    Stream("SELECT 1; COPY s copied DB 0; INCR n"),
    Stream("APPEND s z"),
    Stream("SELECT 0; INCR n"),
    Stream("SELECT 1; FLUSHDB; SELECT 0; APPEND s again"),
    Stream("SELECT 1; INCR n; RPUSH l e"),
    Sync(0),
    Stream("INCR n; INCR n"),
    Promote,
    Own("SELECT 1"),
    Own("INCR n"),
    Own("SELECT 0"),
    Own("APPEND s own"),
    Sync(0),
    Own("INCR n"),
    GoOn(1),
    Stream("SELECT 1; INCR n"),
    Stream("SELECT 0; RPUSH l f; INCR n"),
    Stream("SELECT 1; APPEND s end; SELECT 0; APPEND s end"),
];

fn open(device: &SimDevice) -> Result<Arc<dyn Engine>> {
    let mut options = OptionValues::default();
    // Limits at which so short a script flushes, too.
    for (name, value) in [("memory_bytes", 64 << 10), ("segment_bytes", 16 << 10)] {
        options.set(name, value);
    }
    let environment = Environment::new(HashSeed([1; 16]));
    Ok(Arc::new(Wip::open(device.clone(), &options, &environment)?))
}

/// Two databases, each on a device of its own.
struct Two([Arc<dyn Engine>; 2]);

impl Databases for Two {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0[index as usize]))
    }

    fn listed(&self) -> Vec<u32> {
        vec![0, 1]
    }
}

/// A server on what two devices have.
struct Served {
    engines: [Arc<dyn Engine>; 2],
    server: Server,
    client: Client,
    follower: Option<Follower>,
}

impl Served {
    /// Starts it, as a replica if it `follows`. `None` if the power fails meanwhile.
    fn start(devices: &[SimDevice; 2], durability: Durability, follows: bool) -> Option<Served> {
        let engines = [open(&devices[0]).ok()?, open(&devices[1]).ok()?];
        let settings = follows.then(|| ("replicaof".into(), "127.0.0.1 1".into()));
        let settings = settings.into_iter().collect();
        let databases = Arc::new(Two(engines.clone())) as Arc<dyn Databases>;
        let config =
            Config { loops: 1, io_workers: 2, databases: 2, durability, settings, ..shared() };
        let server = Server::start(config, databases).ok()?;
        let mut client = Client::connect(&server);
        if !follows {
            // So that what clients write is in the stream from the first byte on.
            client.ask("REPLICAOF 127.0.0.1 1");
            client.ask("REPLICAOF NO ONE");
        }
        Some(Served { engines, server, client, follower: None })
    }

    fn position(&self) -> (String, u64) {
        let (history, offset) = self.server.service().replication.position();
        (history.id, offset)
    }

    /// Follows from where the data stands.
    fn follow(&mut self) -> Result<&mut Follower> {
        let service = Arc::clone(self.server.service());
        let version = service.replication.role().1;
        Ok(self.follower.insert(Follower::new(service, version)?))
    }

    fn apply(&mut self, bytes: &[u8]) -> Result<()> {
        let follower = self.follower.as_mut().expect("it follows");
        follower.feed(bytes);
        follower.run()
    }

    /// Does a step, and some of what a thread does beside requests.
    fn step(&mut self, (nth, step): (usize, Step)) -> Result<()> {
        match step {
            Own(line) => drop(self.client.ask(line)),
            GoOn(id) => {
                self.client.ask("REPLICAOF 127.0.0.1 1");
                self.server.service().replication.rename_history(IDS[id]);
                self.follow()?.mark_position()?;
            }
            Stream(text) => {
                self.apply(&text.split("; ").flat_map(bytes_of).collect::<Vec<u8>>())?
            }
            Promote => {
                self.follower = None;
                let reply = self.client.ask("REPLICAOF NO ONE");
                if reply != "OK" {
                    return Err(Error::new(silica_engine::ErrorKind::Io, reply));
                }
            }
            Sync(db) => self.engines[db].sync()?,
        }
        if nth.is_multiple_of(4) {
            self.engines.iter().for_each(|engine| drop(engine.maintain(Budget::of(64 << 10))));
        }
        Ok(())
    }

    /// All that both databases hold, read by a connection of its own.
    fn state(&self) -> String {
        let mut client = Client::connect(&self.server);
        let mut all = String::new();
        for db in ["0", "1"] {
            client.call(&[b"SELECT", db.as_bytes()]);
            for key in ["copied", "l", "n", "s"] {
                let words: &[&[u8]] = match key {
                    "l" => &[b"LRANGE", b"l", b"0", b"-1"],
                    key => &[b"GET", key.as_bytes()],
                };
                all += &format!("{db}/{key} {}\n", show(&client.call(words)));
            }
        }
        all
    }

    fn stop(self) {
        drop((self.follower, self.client));
        self.server.stop();
    }
}

fn bytes_of(line: &str) -> Vec<u8> {
    request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

/// What a run without a power cut has shown.
struct Model {
    /// What the databases hold at each offset at which a request or a transaction ends.
    states: BTreeMap<u64, String>,
    /// The stream from its first byte on.
    stream: Vec<u8>,
    /// Operations of each device.
    operations: [u64; 2],
}

fn devices(seed: u64) -> [SimDevice; 2] {
    [0, 1].map(|nth| SimDevice::new(2 * seed + nth, SimOptions::default()))
}

fn model(durability: Durability) -> Model {
    let devices = devices(0);
    let mut served = Served::start(&devices, durability, false).expect("it starts");
    let mut states = BTreeMap::new();
    for (nth, step) in SCRIPT.iter().enumerate() {
        match step {
            Stream(text) => {
                for line in text.split("; ") {
                    served.apply(&bytes_of(line)).expect("it is applied");
                    states.insert(served.position().1, served.state());
                }
            }
            other => served.step((nth, *other)).expect("it is done"),
        }
        states.insert(served.position().1, served.state());
    }
    let stream = served.server.service().replication.read(0, usize::MAX).expect("it is kept");
    let end = served.position();
    assert_eq!((end.0.as_str(), end.1), (IDS[1], stream.len() as u64));
    served.engines.iter().for_each(|engine| engine.sync().expect("synced"));
    served.stop();
    let operations = devices.each_ref().map(SimDevice::op_count);
    // What is synced is there, and so is its position.
    let model = Model { states, stream, operations };
    assert_eq!(look_after_cut(&devices, durability, &model, "at the end"), Some(end.1));
    model
}

/// Cuts the power, and looks at what a replica on what is left would ask for: the offset, if its
/// data has one. Then it gets what it has asked for.
fn look_after_cut(
    devices: &[SimDevice; 2],
    durability: Durability,
    model: &Model,
    context: &str,
) -> Option<u64> {
    devices.iter().for_each(SimDevice::power_cut);
    let devices = devices.each_ref().map(SimDevice::reopen);
    let mut served = Served::start(&devices, durability, true).expect("it starts again");
    let (id, offset) = served.position();
    let is_known = IDS.contains(&id.as_str());
    if is_known {
        let found = served.state();
        let wanted = model.states.get(&offset);
        assert_eq!(Some(&found), wanted, "{context}: at offset {offset} of {id}");
        assert!(!served.follow().expect("it follows").is_unsure());
        served.apply(&model.stream[offset as usize..]).expect("it is applied");
        let end = model.states.values().next_back();
        assert_eq!(Some(&served.state()), end, "{context}: from offset {offset} of {id} on");
        assert_eq!(served.position().1, model.stream.len() as u64, "{context}");
    }
    served.stop();
    is_known.then_some(offset)
}

/// Cuts the power of both devices at operation `at` of the one of database `db`.
fn cut(model: &Model, durability: Durability, db: usize, at: u64) -> Option<u64> {
    let devices = devices(at + 1);
    devices[db].cut_at_op(at);
    if let Some(mut served) = Served::start(&devices, durability, false) {
        for step in SCRIPT.iter().copied().enumerate() {
            if served.step(step).is_err() || devices[db].is_cut() {
                break;
            }
        }
        served.stop();
    }
    look_after_cut(&devices, durability, model, &format!("cut at {at} of database {db}"))
}

/// Cuts the power everywhere; one of `few` cuts at least leaves a position.
fn cut_everywhere(durability: Durability, few: usize) {
    let model = model(durability);
    let (mut positions, mut cuts) = (Vec::new(), 0);
    for db in 0..2 {
        for at in 0..model.operations[db] {
            cuts += 1;
            positions.extend(cut(&model, durability, db, at));
        }
    }
    // Whoever always fetched all data would never be wrong.
    assert!(few * positions.len() > cuts, "{} positions of {cuts} cuts", positions.len());
    positions.sort_unstable();
    positions.dedup();
    assert!(positions.len() > 4, "{positions:?}");
}

#[test]
fn a_replica_asks_for_what_it_lacks_after_a_power_cut_at_any_operation() {
    cut_everywhere(Durability::Buffered, 8);
}

#[test]
fn a_replica_that_syncs_asks_for_what_it_lacks_after_a_power_cut_at_any_operation() {
    cut_everywhere(Durability::Synced, 4);
}
