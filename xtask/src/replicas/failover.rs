//! How soon another server takes writes when a primary dies under Redis Sentinel.
//!
//! Each round has servers and sentinels of its own: a sentinel that has voted begins no failover of
//! the same primary for twice `failover-timeout` (six minutes, if nobody sets it), so rounds on one
//! group would wait for each other. Every step is bounded in time.

use super::node::{Client, Node, Process, free_port, start, wait_within};
use super::{Course, Program, median, spread};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Milliseconds of silence after which Sentinel takes a server for dead.
const DOWN_AFTER_MS: u32 = 1500;
/// How long any step may take: that all know each other, or that a replica takes over.
const STEP_MAX: Duration = Duration::from_secs(60);
/// The name under which Sentinel knows the servers.
const NAME: &str = "main";
const SENTINELS: usize = 3;

/// Seconds from the death of a primary to a write that another server has taken, in a table.
pub fn failover(course: &Course, rounds: usize) -> Result<String, String> {
    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for nth in 0..Program::BOTH.len() {
            let at = (nth + round) % Program::BOTH.len();
            let program = Program::BOTH[at];
            let took = one(course, program);
            seconds[at].push(took.map_err(|e| format!("round {round}, {}: {e}", program.name()))?);
        }
    }
    Ok(table(&seconds))
}

fn table(seconds: &[Vec<f64>; 2]) -> String {
    let [ours, redis] = seconds;
    let ratio = median(ours.clone()) / median(redis.clone());
    let mut text = format!(
        "| a primary is killed, {} times each, down-after {DOWN_AFTER_MS} ms | median, s | low – \
         high | of Redis's |\n|---|---|---|---|\n",
        ours.len()
    );
    for (program, all, ratio) in [(Program::Ours, ours, ratio), (Program::Redis, redis, 1.0)] {
        let (name, middle) = (program.name(), median(all.clone()));
        text += &format!("| {name} | {middle:.2} | {} | {ratio:.2} |\n", spread(all, 2));
    }
    text
}

/// One primary with two replicas and three sentinels, until one of the replicas takes writes.
fn one(course: &Course, program: Program) -> Result<f64, String> {
    let mut nodes = Vec::new();
    for nth in 0..3 {
        let name = format!("{}-{nth}", program.name());
        let mut node = Node::start(course, program, &name, false)?;
        if let Some(primary) = nodes.first() {
            node.follow(primary)?;
        }
        nodes.push(node);
    }
    let sentinels = (0..SENTINELS).map(|nth| sentinel(course, nth, nodes[0].port));
    let sentinels: Vec<(Process, u16)> = sentinels.collect::<Result<_, String>>()?;
    for (_, port) in &sentinels {
        wait_within(STEP_MAX, "sentinels that know all", || Ok(knows_all(*port)))?;
    }
    nodes[0].client.ask("SET before 1")?;
    nodes[0].wait_for_replicas(2)?;
    let old = nodes[0].port;
    let began = Instant::now();
    // Killed, and its port is closed.
    drop(nodes.remove(0));
    wait_within(STEP_MAX, "a primary that takes writes", || {
        let told = sentinels.iter().filter_map(|(_, port)| primary(*port));
        Ok(told.into_iter().filter(|port| *port != old).any(takes_writes))
    })?;
    Ok(began.elapsed().as_secs_f64())
}

fn sentinel(course: &Course, nth: usize, primary: u16) -> Result<(Process, u16), String> {
    let directory = course.place(&format!("sentinel-{nth}"))?;
    let port = free_port()?;
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {NAME} 10000\n",
        directory.display()
    );
    let file = directory.join("sentinel.conf");
    fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut command = Command::new("redis-sentinel");
    command.arg(&file);
    Ok((start(command, &directory)?, port))
}

/// The reply of the server at `port`, if it gives one soon.
fn asked(port: u16, line: &str) -> Option<Vec<String>> {
    let mut client = Client::connect_within(port, Duration::from_millis(500)).ok()?;
    client.ask(line).ok()
}

/// True if the sentinel at `port` knows the others and both replicas, which are well.
fn knows_all(port: u16) -> bool {
    let has = |told: &[String], name: &str, value: &str| {
        told.windows(2).any(|pair| pair[0] == name && pair[1] == value)
    };
    let Some(told) = asked(port, &format!("SENTINEL MASTER {NAME}")) else { return false };
    let Some(replicas) = asked(port, &format!("SENTINEL REPLICAS {NAME}")) else { return false };
    let well = replicas.windows(2).filter(|pair| pair == &["master-link-status", "ok"]).count();
    has(&told, "num-other-sentinels", "2")
        && has(&told, "num-slaves", "2")
        && has(&told, "flags", "master")
        && well == 2
}

/// Where the sentinel at `port` says that the primary is.
fn primary(port: u16) -> Option<u16> {
    let told = asked(port, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"))?;
    told.get(1)?.parse().ok()
}

fn takes_writes(port: u16) -> bool {
    asked(port, "SET after 1").is_some_and(|reply| reply == ["OK"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_medians_and_their_ratio() {
        let text = table(&[vec![2.0, 4.0, 3.0], vec![1.5, 2.0, 9.0]]);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[0].contains("3 times each, down-after 1500 ms"), "{text}");
        assert_eq!(rows[2], "| silica | 3.00 | 2.00 – 4.00 | 1.50 |");
        assert_eq!(rows[3], "| redis | 2.00 | 1.50 – 9.00 | 1.00 |");
    }
}
