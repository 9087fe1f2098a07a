//! Replicas of ours beside Redis's, in one run: full synchronisations, how late a replica is, what
//! it costs its primary, and how soon another server takes writes when a primary dies.
//!
//! A primary has the last core, its replica and the clients have the others. Both programs take
//! turns in each round, so that what else the machine does meets both. Ours are durable stores,
//! Redis keeps nothing on its disk but the file that its replica loads from.

mod failover;
mod node;
mod parts;

use std::fs;
use std::path::{Path, PathBuf};

/// What can be measured.
const PARTS: [&str; 4] = ["sync", "lag", "cost", "failover"];

/// Whose servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Ours,
    Redis,
}

impl Program {
    const BOTH: [Program; 2] = [Program::Ours, Program::Redis];

    fn name(self) -> &'static str {
        match self {
            Program::Ours => "silica",
            Program::Redis => "redis",
        }
    }
}

/// What is run, and where.
pub struct Course {
    binary: PathBuf,
    directory: PathBuf,
    server_cores: String,
    client_cores: String,
}

impl Course {
    /// A new directory.
    fn place(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.directory.join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }
}

/// How much is done.
struct Amounts {
    rounds: usize,
    entries: u64,
    requests: u64,
}

/// Runs the parts that `arguments` name (all if none), with `--binary FILE`, `--rounds N`,
/// `--entries N` and `--requests N`; prints a table of each.
///
/// # Errors
/// If a program is not installed, or a server dies or answers with an error.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut amounts = Amounts { rounds: 5, entries: 1_000_000, requests: 400_000 };
    let mut binary = root.join("target/release/silica");
    let mut wanted = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{word} needs a value"));
        let number = |text: &&str| text.parse::<u64>().map_err(|_| format!("{word}: no number"));
        match *word {
            "--binary" => binary = PathBuf::from(value()?),
            "--rounds" => amounts.rounds = number(value()?)?.max(1) as usize,
            "--entries" => amounts.entries = number(value()?)?.max(1000),
            "--requests" => amounts.requests = number(value()?)?.max(1000),
            "sync" | "lag" | "cost" | "failover" => wanted.push(*word),
            other => return Err(format!("no part '{other}': {} are", PARTS.join(", "))),
        }
    }
    let binary = binary.canonicalize().map_err(|e| format!("{}: {e}", binary.display()))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let last = cores - 1;
    let directory = std::env::temp_dir().join(format!("silica-replicas-{}", std::process::id()));
    let course = Course {
        binary,
        directory,
        server_cores: last.to_string(),
        client_cores: if last == 0 { "0".into() } else { format!("0-{}", last - 1) },
    };
    let done = parts(&course, &amounts, &wanted);
    let _ = fs::remove_dir_all(&course.directory);
    done
}

fn parts(course: &Course, amounts: &Amounts, wanted: &[&str]) -> Result<(), String> {
    for part in PARTS {
        if !wanted.is_empty() && !wanted.contains(&part) {
            continue;
        }
        let table = match part {
            "sync" => parts::sync(course, amounts.rounds, amounts.entries)?,
            "lag" => parts::lag(course, amounts.rounds, amounts.requests)?,
            "failover" => failover::failover(course, amounts.rounds)?,
            _ => parts::cost(course, amounts.rounds, amounts.requests)?,
        };
        println!("{table}");
    }
    Ok(())
}

/// The middle value; not a number if there are none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    f64::midpoint(values[last / 2], values[values.len() / 2])
}

/// The lowest and the highest value.
fn spread(values: &[f64], digits: usize) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{low:.digits$} – {high:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_between_the_two_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
        assert_eq!(spread(&[2.0, 1.25], 1), "1.2 – 2.0");
    }

    #[test]
    fn keys_differ_and_have_one_length() {
        let keys: std::collections::BTreeSet<String> = (0..10_000).map(node::key).collect();
        assert!(keys.len() == 10_000 && keys.iter().all(|key| key.len() == 16));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let root = Path::new("/");
        assert!(run(root, &["speed"]).unwrap_err().contains("cost"));
        assert!(run(root, &["--rounds", "x"]).unwrap_err().contains("no number"));
        assert!(run(root, &["--rounds"]).unwrap_err().contains("needs a value"));
    }
}
