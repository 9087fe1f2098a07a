//! Test binaries, run side by side: most of them wait for a disk or a clock half of their time.

use crate::step::{Outcome, cargo, run_logged};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Binaries that take longest, longest first: one that starts last would run alone at the end.
const LONG: [&str; 7] = [
    "silica-silt all",
    "silica-wip all",
    "silica-wip unit",
    "silica-cli all",
    "silica-lab all",
    "silica all",
    "silica-server all",
];

/// A test binary of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Package, and the test's name or `unit`.
    pub name: String,
    executable: PathBuf,
    /// Where its tests expect to run.
    directory: PathBuf,
    /// Filters and options of libtest.
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Binary {
    /// The binary with filters or options of libtest.
    pub fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|word| word.to_string()));
        self
    }

    /// The binary, named apart, with one variable set.
    pub fn with_variable(mut self, variable: &str, value: &str) -> Self {
        self.name = format!("{} {variable}={value}", self.name);
        self.environment.push((variable.into(), value.into()));
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(&self.executable).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.directory).env("CARGO_TERM_COLOR", "never");
        command
    }
}

/// Test binaries of the workspace, the longest first.
///
/// # Errors
/// What cargo prints if they do not build.
pub fn built(root: &Path, log: &Path, limit: Duration) -> Result<Vec<Binary>, String> {
    let mut build = cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"]);
    // Errors are written as people read them; only what was built is for machines.
    build.arg("--message-format=json-render-diagnostics").current_dir(root);
    let outcome = run_logged(&mut build, log, limit);
    if !outcome.good {
        let lines = outcome.output.lines().filter(|line| !line.starts_with('{'));
        return Err(lines.collect::<Vec<_>>().join("\n"));
    }
    let mut binaries: Vec<Binary> = outcome.output.lines().filter_map(binary_of).collect();
    let place =
        |binary: &Binary| LONG.iter().position(|name| *name == binary.name).unwrap_or(LONG.len());
    binaries.sort_by_key(|binary| (place(binary), binary.name.clone()));
    Ok(binaries)
}

/// The test binary that a message of cargo tells of.
fn binary_of(message: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let id = message["package_id"].as_str()?;
    // `path+file:///…/crates/wip#silica-wip@0.1.0`, or `#0.1.0` where the folder has the name.
    let (path, tail) = id.rsplit_once('#')?;
    let package = match tail.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    let target = &message["target"];
    let test = match target["kind"][0].as_str()? {
        "test" => target["name"].as_str()?,
        "bin" => "unit of the binary",
        _ => "unit",
    };
    let name = format!("{package} {test}");
    let (arguments, environment) = (Vec::new(), Vec::new());
    Some(Binary { name, executable, directory, arguments, environment })
}

/// Runs all of them, as many side by side as there are processors, and stops them after `limit`
/// together. The output is that of one after the other.
pub fn run(binaries: Vec<Binary>, logs: &Path, size: &str, limit: Duration) -> Outcome {
    let start = Instant::now();
    let waiting = Mutex::new(binaries.into_iter().collect::<VecDeque<_>>());
    let done = Mutex::new(Outcome { good: true, output: String::new(), stopped: false });
    let next = || waiting.lock().expect("no worker panics").pop_front();
    let work = || {
        while let Some(binary) = next() {
            let log = logs.join(format!("{}.log", binary.name.replace([' ', '/', '='], "-")));
            let mut command = binary.command();
            command.env("SILICA_TESTS", size);
            let begun = Instant::now();
            let ended = run_logged(&mut command, &log, limit.saturating_sub(start.elapsed()));
            let seconds = begun.elapsed().as_secs_f64();
            let mut all = done.lock().expect("no worker panics");
            all.good &= ended.good;
            all.stopped |= ended.stopped;
            all.output += &format!("Running {} ({})\n", binary.name, binary.executable.display());
            all.output += &ended.output;
            if !ended.good {
                all.output += &format!("error: {} failed after {seconds:.1} s\n", binary.name);
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    done.into_inner().expect("no worker panics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_named_by_package_and_test() {
        let message = |id: &str, kind: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "package_id": id,
                "manifest_path": "/a/crates/b/Cargo.toml",
                "target": { "kind": [kind], "name": "all" },
                "profile": { "test": test },
                "executable": "/t/all-1",
            })
            .to_string()
        };
        let name = |id: &str, kind: &str| binary_of(&message(id, kind, true)).unwrap().name;
        assert_eq!(name("path+file:///a/crates/b#silica-b@0.1.0", "test"), "silica-b all");
        assert_eq!(name("path+file:///a/crates/silica#0.1.0", "lib"), "silica unit");
        assert_eq!(binary_of(&message("p#a@1", "lib", false)), None);
        assert_eq!(binary_of("   Compiling silica"), None);
        let binary = binary_of(&message("p#a@1", "lib", true)).unwrap();
        assert_eq!(binary.directory, Path::new("/a/crates/b"));
    }
}
