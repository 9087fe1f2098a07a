//! What is measured: synchronisations, delays, and the cost of a replica.

use super::node::{Client, Load, Node, key};
use super::{Course, Program, median, spread};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Writes a second, and microseconds of the primary's threads for each: without and with a replica.
type Halves = [(f64, f64); 2];

/// Keys that are written again and again.
const KEYS: u64 = 20_000;
/// Keys that are looked for after a synchronisation.
const LOOKED_FOR: u64 = 500;
/// Time between two messages whose delay is measured.
const BETWEEN: Duration = Duration::from_millis(2);

/// Full synchronisations, in a table.
pub fn sync(course: &Course, rounds: usize, entries: u64) -> Result<String, String> {
    use Program::{Ours, Redis};
    let ways = [(Ours, Ours), (Redis, Redis), (Redis, Ours), (Ours, Redis)];
    let mut primaries = Vec::new();
    for program in Program::BOTH {
        let node = Node::start(course, program, program.name(), true)?;
        Load::connect(node.port)?.write(entries, entries, None)?;
        primaries.push((program, node));
    }
    let mut seconds = vec![Vec::new(); ways.len()];
    for round in 0..rounds {
        for nth in 0..ways.len() {
            let nth = (nth + round) % ways.len();
            let (from, to) = ways[nth];
            let (_, primary) = primaries.iter().find(|(p, _)| *p == from).expect("both run");
            let mut replica = Node::start(course, to, "replica", false)?;
            seconds[nth].push(replica.follow(primary)?);
            let asked: Vec<String> =
                (0..LOOKED_FOR).map(|nth| key(nth * (entries / LOOKED_FOR))).collect();
            let found = replica.client.ask(&format!("EXISTS {}", asked.join(" ")))?;
            if found[0] != LOOKED_FOR.to_string() {
                let (from, to) = (from.name(), to.name());
                return Err(format!("{from} to {to}: {} keys of {LOOKED_FOR}", found[0]));
            }
        }
    }
    let mut text = format!(
        "| full synchronisation of {entries} entries of 100 B | median, s | low – high | redis → \
         redis by it |\n|---|---|---|---|\n"
    );
    for ((from, to), took) in ways.iter().zip(&seconds) {
        // Within each round.
        let ratios = seconds[1].iter().zip(took).map(|(base, took)| base / took).collect();
        text += &format!(
            "| {} → {} | {:.2} | {} | {:.2} |\n",
            from.name(),
            to.name(),
            median(took.clone()),
            spread(took, 2),
            median(ratios)
        );
    }
    Ok(text)
}

/// A primary with a replica.
fn pair(course: &Course, program: Program) -> Result<(Node, Node), String> {
    let primary = Node::start(course, program, &format!("{}-1", program.name()), true)?;
    let replica = Node::start(course, program, &format!("{}-2", program.name()), false)?;
    Ok((primary, replica))
}

/// What a replica costs its primary, in a table.
pub fn cost(course: &Course, rounds: usize, requests: u64) -> Result<String, String> {
    let mut pairs = Vec::new();
    for program in Program::BOTH {
        let (mut primary, replica) = pair(course, program)?;
        // So that nothing is kept for a replica that has gone.
        primary.client.ask("CONFIG SET repl-backlog-ttl 1")?;
        let mut load = Load::connect(primary.port)?;
        load.write(requests, KEYS, None)?;
        pairs.push((primary, replica, load, Vec::new()));
    }
    for round in 0..rounds {
        for (primary, replica, load, found) in &mut pairs {
            let mut halves = [(0.0, 0.0); 2];
            for half in [round % 2, 1 - round % 2] {
                if half == 0 {
                    replica.client.ask("REPLICAOF NO ONE")?;
                    primary.wait_for("connected_slaves", "0")?;
                    primary.wait_for("repl_backlog_active", "0")?;
                } else {
                    replica.follow(primary)?;
                    primary.wait_for_replicas(1)?;
                }
                let before = primary.cpu_seconds();
                let rate = load.write(requests, KEYS, None)?;
                halves[half] = (rate, (primary.cpu_seconds() - before) / requests as f64 * 1e6);
            }
            found.push(halves);
        }
    }
    let mut text = String::from(
        "| cost of a replica | k/s without | with | ratio | CPU µs a write without | with | ratio \
         |\n|---|---|---|---|---|---|---|\n",
    );
    for (program, (.., found)) in Program::BOTH.into_iter().zip(&pairs) {
        let of = |figure: &dyn Fn(&Halves) -> f64| median(found.iter().map(figure).collect());
        text += &format!(
            "| {} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} |\n",
            program.name(),
            of(&|halves| halves[0].0 / 1e3),
            of(&|halves| halves[1].0 / 1e3),
            of(&|halves| halves[1].0 / halves[0].0),
            of(&|halves| halves[0].1),
            of(&|halves| halves[1].1),
            of(&|halves| halves[1].1 / halves[0].1)
        );
    }
    Ok(text)
}

/// How late a replica is at half of what the slower primary takes, in a table. A message that is
/// published on the primary stands between its writes in the stream, and reaches who listens to the
/// replica when what stands before is applied.
pub fn lag(course: &Course, rounds: usize, requests: u64) -> Result<String, String> {
    let mut pairs = Vec::new();
    for program in Program::BOTH {
        let (mut primary, mut replica) = pair(course, program)?;
        replica.follow(&primary)?;
        let mut load = Load::connect(primary.port)?;
        let mut peaks = Vec::new();
        for _ in 0..rounds.max(3) {
            peaks.push(load.write(requests, KEYS, None)?);
            primary.wait_for_replicas(1)?;
        }
        pairs.push((primary, replica, load, median(peaks), Vec::new()));
    }
    let rate = pairs.iter().map(|pair| pair.3).fold(f64::INFINITY, f64::min) / 2.0;
    for round in 0..rounds {
        for turn in 0..pairs.len() {
            let nth = (turn + round) % pairs.len();
            let (primary, replica, load, _, found) = &mut pairs[nth];
            let mut delays = delays((primary, replica), load, rate, requests)?;
            delays.sort_by(f64::total_cmp);
            let at = |share: f64| delays[((delays.len() - 1) as f64 * share).round() as usize];
            found.push([at(0.5), at(0.99), at(1.0)]);
        }
    }
    let mut text = String::from(
        "| lag | peak, k/s | rate, k/s | p50, µs | p99, µs | longest, µs |\n\
         |---|---|---|---|---|---|\n",
    );
    for (program, (.., peak, found)) in Program::BOTH.into_iter().zip(&pairs) {
        let of = |nth: usize| median(found.iter().map(|three: &[f64; 3]| three[nth]).collect());
        let (peak, rate) = (peak / 1e3, rate / 1e3);
        let [p50, p99, longest] = [0, 1, 2].map(of);
        let name = program.name();
        text +=
            &format!("| {name} | {peak:.1} | {rate:.1} | {p50:.0} | {p99:.0} | {longest:.0} |\n");
    }
    Ok(text)
}

/// Delays of messages while `load` writes, in microseconds.
fn delays(
    (primary, replica): (&Node, &Node),
    load: &mut Load,
    rate: f64,
    requests: u64,
) -> Result<Vec<f64>, String> {
    let mut sender = Client::connect(primary.port)?;
    let mut listener = Client::connect(replica.port)?;
    listener.ask("SUBSCRIBE lag")?;
    let (epoch, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                sender.ask(&format!("PUBLISH lag {}", epoch.elapsed().as_nanos()))?;
                std::thread::sleep(BETWEEN);
            }
            sender.ask("PUBLISH lag over").map(drop)
        });
        let hearer = scope.spawn(|| {
            let mut delays = Vec::new();
            loop {
                let line = listener.line()?;
                if line == "over" {
                    return Ok::<_, String>(delays);
                }
                if let Ok(sent) = line.parse::<f64>() {
                    delays.push((epoch.elapsed().as_nanos() as f64 - sent) / 1e3);
                }
            }
        });
        let wrote = load.write(requests, KEYS, Some(rate));
        is_over.store(true, Relaxed);
        publisher.join().expect("no thread panics")?;
        let delays = hearer.join().expect("no thread panics")?;
        wrote.map(|_| delays)
    })
}
