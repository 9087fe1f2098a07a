//! How long a key waits while its slot moves from one node of a cluster to another: ours, and
//! Redis's, in one run.
//!
//! One slot is filled with values and moved as `redis-cli --cluster` moves it, ten keys at a time,
//! while clients read and write its keys and follow redirections at once. Before that, the same
//! clients do the same for as long: what else the machine does meets both. Rounds change from one
//! cluster to the other, and in the next round the slot moves back.

mod client;

use crate::machine;
use crate::peers::{Grouped, Typed, late};
use crate::resp::{Answer, Resp};
use crate::results::Machine;
use crate::suite::Size;
use crate::types::median;
use client::{Clients, Times};
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// The slot that moves: that of the tag of all keys.
const SLOT: &[u8] = b"12182";
const TAG: &str = "{foo}";
const VALUE_BYTES: usize = 10 << 10;
/// Keys that redis-cli moves in one request.
const KEYS_TOGETHER: &[u8] = b"10";
const MIB: u64 = 1 << 20;
/// How long nodes have to know each other.
const MEET_MAX: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// What is measured.
#[derive(Debug, Clone)]
pub struct MovingRequest {
    /// How much is done.
    pub size: Size,
    /// Rounds of each cluster.
    pub rounds: Option<usize>,
    /// Keys of the slot, of 10 KiB each.
    pub keys: Option<u64>,
    /// Clients; 2 if nothing is said.
    pub clients: Option<usize>,
}

/// A run.
#[derive(Debug, Clone)]
pub struct MovingRun {
    /// What is measured.
    pub request: MovingRequest,
    /// Directory for results.
    pub out: PathBuf,
    /// Directory below which nodes have theirs, if it is not `out`.
    pub stores: Option<PathBuf>,
}

/// Times from a request to its final answer, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waits {
    /// Requests.
    pub count: u64,
    /// Half of them took no longer.
    pub median_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// 999 of 1,000.
    pub p999_ms: f64,
    /// All.
    pub longest_ms: f64,
    /// What the longest was answered with on its way.
    pub longest_way: String,
}

/// A round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MovingRound {
    /// Whose cluster.
    pub cluster: String,
    /// While nothing moved.
    pub before: Waits,
    /// While the slot moved.
    pub during: Waits,
    /// Seconds that the slot took.
    pub seconds: f64,
    /// Answers that told to try again.
    pub again: u64,
}

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct MovingReport {
    /// The machine.
    pub machine: Machine,
    /// When it began, in UTC.
    pub date: String,
    /// The version of Redis.
    pub redis: String,
    /// Bytes of the slot's values.
    pub bytes: u64,
    /// Clients.
    pub clients: usize,
    /// All rounds.
    pub rounds: Vec<MovingRound>,
    /// What was written.
    pub files: Vec<PathBuf>,
}

/// Told of each round: how many are done, of how many, and which comes next.
pub type MovingProgress<'a> = dyn FnMut(usize, usize, &str) + 'a;

/// Two nodes, of which one serves the slot.
struct Side {
    name: &'static str,
    nodes: Grouped,
    /// The node that has the slot.
    home: usize,
}

/// Performs `run`; an interruption ends it with what was measured.
///
/// # Errors
/// Fails if Redis is not installed, a node dies, or a read returns what was not written.
pub fn moving(
    run: &MovingRun,
    interrupted: &AtomicBool,
    progress: &mut MovingProgress<'_>,
) -> Result<MovingReport> {
    let request = &run.request;
    let redis = Typed::redis_version()?;
    let (rounds, keys) = match request.size {
        Size::Full => (5, 100 * MIB / VALUE_BYTES as u64),
        Size::Quick => (3, 100 * MIB / VALUE_BYTES as u64),
        Size::Toy => (1, 200),
    };
    let rounds = request.rounds.unwrap_or(rounds).max(1);
    let keys = request.keys.unwrap_or(keys).max(10);
    let clients = request.clients.unwrap_or(2).max(1);
    let base = run.stores.as_ref().unwrap_or(&run.out);
    let directory = base.join(format!("moving-{}", std::process::id()));
    let failed = |e| Error::io(format!("creating {}", directory.display()), e);
    std::fs::create_dir_all(&run.out).map_err(failed)?;
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let directory = directory.canonicalize().map_err(failed)?;
    let mut done = Vec::new();
    let measured = sides(&directory, keys).and_then(|mut sides| {
        let count = sides.len();
        for nth in 0..count * rounds {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            let side = &mut sides[nth % count];
            progress(nth, count * rounds, side.name);
            done.push(side.round(keys, clients)?);
        }
        Ok(())
    });
    let machine = machine::describe(&directory);
    let _ = std::fs::remove_dir_all(&directory);
    measured?;
    let (date, bytes) = (machine::date(), keys * VALUE_BYTES as u64);
    let files = Vec::new();
    let mut report = MovingReport { machine, date, redis, bytes, clients, rounds: done, files };
    report.write(&run.out)?;
    Ok(report)
}

/// Starts both clusters and fills the slot of each.
fn sides(directory: &Path, keys: u64) -> Result<[Side; 2]> {
    let memory_bytes = (4 * keys * VALUE_BYTES as u64).max(256 * MIB);
    let ours = Grouped::nodes(&directory.join("silica"), memory_bytes)?;
    let redis = Grouped::redis_nodes(&directory.join("redis"))?;
    let sides = [
        Side { name: "silica", nodes: ours, home: 0 },
        Side { name: "Redis", nodes: redis, home: 0 },
    ];
    for side in &sides {
        side.join()?;
        let mut home = side.connect(side.home)?;
        for key in 0..keys {
            expect(&home.ask(&[b"SET", &name_of(key), &value(0)])?, "OK")?;
        }
    }
    Ok(sides)
}

fn name_of(key: u64) -> Vec<u8> {
    format!("{TAG}{key}").into_bytes()
}

/// A value that says which write it is of.
fn value(number: u64) -> Vec<u8> {
    let mut value = format!("{number:020}").into_bytes();
    value.resize(VALUE_BYTES, b'v');
    value
}

fn expect(answer: &Answer, wanted: &str) -> Result<()> {
    match answer {
        Answer::Text(text) if text == wanted.as_bytes() => Ok(()),
        other => {
            let text = format!("a node answers {} where {wanted} is right", other.text());
            Err(Error::new(ErrorKind::Io, text))
        }
    }
}

impl Side {
    fn connect(&self, node: usize) -> Result<Resp> {
        Resp::connect(self.nodes.address(node))
    }

    /// Makes a cluster of the nodes, in which the first one serves all slots but one: a node of
    /// Redis that gives its last slot away becomes a replica.
    fn join(&self) -> Result<()> {
        let (mut one, mut two) = (self.connect(0)?, self.connect(1)?);
        let last = (SLOTS - 1).to_string();
        expect(&one.ask(&[b"CLUSTER", b"ADDSLOTSRANGE", b"1", last.as_bytes()])?, "OK")?;
        expect(&two.ask(&[b"CLUSTER", b"ADDSLOTS", b"0"])?, "OK")?;
        expect(&two.ask(&[b"CLUSTER", b"SET-CONFIG-EPOCH", b"2"])?, "OK")?;
        let first = self.nodes.address(0);
        let (host, port) = (first.ip().to_string(), first.port().to_string());
        let meet: [&[u8]; 4] = [b"CLUSTER", b"MEET", host.as_bytes(), port.as_bytes()];
        // Redis takes the port of its bus from the usual distance, unless it is told.
        let bus = one.ask(&[b"CONFIG", b"GET", b"cluster-port"])?;
        let bus = match &bus {
            Answer::Many(pair) if pair.len() == 2 => pair[1].text().to_string(),
            _ => String::new(),
        };
        let met = match bus.parse::<u16>() {
            Ok(port) if port > 0 => two.ask(&[&meet[..], &[bus.as_bytes()]].concat())?,
            _ => two.ask(&meet)?,
        };
        expect(&met, "OK")?;
        let begun = Instant::now();
        for node in [&mut one, &mut two] {
            loop {
                let info = node.ask(&[b"CLUSTER", b"INFO"])?;
                let known = ["cluster_state:ok", "cluster_known_nodes:2"];
                if known.iter().all(|line| info.text().contains(line)) {
                    break;
                }
                if begun.elapsed() > MEET_MAX {
                    return Err(late("two nodes do not know each other"));
                }
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Lets clients work while nothing moves, and while the slot moves to the other node.
    fn round(&mut self, keys: u64, count: usize) -> Result<MovingRound> {
        let addresses = [self.nodes.address(0), self.nodes.address(1)];
        let clients = Clients::start(addresses, self.home, (keys, count))?;
        let (from, to) = (self.home, 1 - self.home);
        // As long as the move will take, more or less.
        std::thread::sleep(Duration::from_millis((keys / 5).clamp(200, 3_000)));
        let before = clients.take()?;
        let begun = Instant::now();
        let moved = self.carry(from, to);
        let seconds = begun.elapsed().as_secs_f64();
        std::thread::sleep(PAUSE);
        let during = clients.take()?;
        clients.stop()?;
        self.nodes.check()?;
        moved?;
        self.home = to;
        let again = during.again;
        let (before, during) = (before.waits(), during.waits());
        Ok(MovingRound { cluster: self.name.to_string(), before, during, seconds, again })
    }

    /// Moves the slot as redis-cli does.
    fn carry(&self, from: usize, to: usize) -> Result<()> {
        let (mut source, mut target) = (self.connect(from)?, self.connect(to)?);
        let id = |node: &mut Resp| node.ask(&[b"CLUSTER", b"MYID"]);
        let (ours, theirs) = (id(&mut source)?, id(&mut target)?);
        let (ours, theirs) = (ours.text().as_bytes(), theirs.text().as_bytes());
        let set = |node: &mut Resp, how: &[u8], id: &[u8]| {
            expect(&node.ask(&[b"CLUSTER", b"SETSLOT", SLOT, how, id])?, "OK")
        };
        set(&mut target, b"IMPORTING", ours)?;
        set(&mut source, b"MIGRATING", theirs)?;
        let address = self.nodes.address(to);
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let (host, port) = (host.as_bytes(), port.as_bytes());
        loop {
            let keys = source.ask(&[b"CLUSTER", b"GETKEYSINSLOT", SLOT, KEYS_TOGETHER])?;
            let Answer::Many(keys) = keys else { return expect(&keys, "a list") };
            if keys.is_empty() {
                break;
            }
            let mut words: Vec<&[u8]> = vec![b"MIGRATE", host, port, b"", b"0", b"60000", b"KEYS"];
            words.extend(keys.iter().map(|key| key.text().as_bytes()));
            expect(&source.ask(&words)?, "OK")?;
        }
        set(&mut target, b"NODE", theirs)?;
        set(&mut source, b"NODE", theirs)
    }
}

impl Times {
    fn waits(&self) -> Waits {
        let ms = |quantile: f64| self.all.quantile(quantile) as f64 / 1e6;
        Waits {
            count: self.all.count(),
            median_ms: ms(0.5),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            longest_ms: self.longest.as_secs_f64() * 1e3,
            longest_way: self.longest_way.clone(),
        }
    }
}

impl MovingReport {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "\n| {} MiB, {} clients; medians of the rounds, ms | median | p99 | p99.9 | longest \
             (of all) | slot took, s |\n|---|---|---|---|---|---|\n",
            self.bytes / MIB,
            self.clients
        );
        let mut names: Vec<&str> = Vec::new();
        for round in &self.rounds {
            if !names.contains(&&*round.cluster) {
                names.push(&round.cluster);
            }
        }
        for name in names {
            let rounds = || self.rounds.iter().filter(|round| round.cluster == name);
            let mut line = |what: &str, of: &dyn Fn(&MovingRound) -> &Waits, seconds: String| {
                let figure = |figure: &dyn Fn(&Waits) -> f64| {
                    median(rounds().map(|round| figure(of(round))).collect()).unwrap_or(0.0)
                };
                let worst = rounds().map(|round| of(round).longest_ms).fold(0.0, f64::max);
                let _ = writeln!(
                    text,
                    "| {name}, {what} | {:.2} | {:.2} | {:.2} | {:.1} ({worst:.1}) | {seconds} |",
                    figure(&|waits| waits.median_ms),
                    figure(&|waits| waits.p99_ms),
                    figure(&|waits| waits.p999_ms),
                    figure(&|waits| waits.longest_ms),
                );
            };
            line("before", &|round| &round.before, String::new());
            let seconds = median(rounds().map(|round| round.seconds).collect()).unwrap_or(0.0);
            line("during", &|round| &round.during, format!("{seconds:.1}"));
        }
        text
    }

    /// Writes `slots.json`.
    fn write(&mut self, out: &Path) -> Result<()> {
        let file = out.join("slots.json");
        self.files.push(file.clone());
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, format!("writing {}: {e}", file.display())))?;
        std::fs::write(&file, text).map_err(|e| Error::io(format!("writing {}", file.display()), e))
    }
}
