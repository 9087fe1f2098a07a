//! Steps: run, timed, counted; a failed one does not stop the next.

use crate::binaries::{self, Binary};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Lines of a failed step's output that are printed; the rest stays in its log file.
const TAIL_LINES: usize = 80;

/// Runs steps one after another and keeps the account.
pub struct Steps {
    root: PathBuf,
    target: PathBuf,
    passed: u64,
    failed: u64,
    times: Vec<(Duration, String)>,
    begun: Instant,
    /// Seconds of processor that the steps before have used.
    used: f64,
}

/// What a command did.
pub struct Outcome {
    /// Exit code 0 within the time limit.
    pub good: bool,
    /// Standard output, then standard error.
    pub output: String,
    /// It was stopped at the time limit.
    pub stopped: bool,
}

impl Steps {
    /// Steps of the workspace at `root`.
    pub fn new(root: &Path) -> Self {
        let target = target(root);
        fs::create_dir_all(target.join("xtask")).expect("the target directory can be written");
        let root = root.to_path_buf();
        let (times, begun) = (Vec::new(), Instant::now());
        Steps { root, target, passed: 0, failed: 0, times, begun, used: 0.0 }
    }

    /// The workspace.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo builds; logs of steps lie below it.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// A step done in this process; counts as one.
    pub fn inside(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) -> bool {
        let start = Instant::now();
        let result = work();
        self.inside_done(name, start.elapsed(), result)
    }

    /// A step done in this process, counted as one, beside those of `meanwhile`, which end first in
    /// the account. What they use of processors is told as one sum.
    pub fn beside(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<(), String> + Send,
        meanwhile: impl FnOnce(&mut Steps),
    ) -> bool {
        let start = Instant::now();
        let (result, time) = std::thread::scope(|scope| {
            let step = scope.spawn(|| (work(), start.elapsed()));
            meanwhile(self);
            step.join().unwrap_or_else(|_| (Err("the step panicked".into()), start.elapsed()))
        });
        self.inside_done(name, time, result)
    }

    fn inside_done(&mut self, name: &str, time: Duration, result: Result<(), String>) -> bool {
        let good = result.is_ok();
        self.account(name, time, u64::from(good), u64::from(!good));
        if let Err(why) = result {
            print_tail(&why);
        }
        good
    }

    /// A command; counts as one.
    pub fn command(&mut self, name: &str, command: &mut Command, limit: Duration) -> bool {
        let start = Instant::now();
        let outcome = self.finish(name, command, limit);
        self.account(name, start.elapsed(), u64::from(outcome.good), u64::from(!outcome.good));
        self.explain(name, &outcome);
        outcome.good
    }

    /// A command that needs something from outside: where it fails and says `excuse`, it is
    /// skipped.
    pub fn command_unless(&mut self, name: &str, command: &mut Command, excuse: &str) {
        let start = Instant::now();
        let outcome = self.finish(name, command, Duration::from_secs(600));
        if !outcome.good && outcome.output.contains(excuse) {
            self.skip(name, excuse);
            return;
        }
        self.account(name, start.elapsed(), u64::from(outcome.good), u64::from(!outcome.good));
        self.explain(name, &outcome);
    }

    /// A `cargo test`; counts as many as it ran, and at least one failure where it failed.
    pub fn tests(&mut self, name: &str, command: &mut Command, limit: Duration) -> bool {
        let start = Instant::now();
        let outcome = self.finish(name, command, limit);
        self.tests_done(name, start, &outcome)
    }

    /// Test binaries side by side; counts as `tests` does.
    pub fn binaries(&mut self, name: &str, all: Vec<Binary>, size: &str, limit: Duration) -> bool {
        let start = Instant::now();
        let logs = self.target.join("xtask");
        let outcome = binaries::run(all, &logs, size, limit);
        let _ = fs::write(self.log_path(name), &outcome.output);
        self.tests_done(name, start, &outcome)
    }

    fn tests_done(&mut self, name: &str, start: Instant, outcome: &Outcome) -> bool {
        let (passed, failed) = count_tests(&outcome.output);
        let failed = if outcome.good { failed } else { failed.max(1) };
        self.account(name, start.elapsed(), passed, failed);
        self.explain(name, outcome);
        for (seconds, test) in slow_tests(&outcome.output) {
            println!("      {seconds:7.1} s  {test}");
        }
        outcome.good
    }

    /// Tests that may run for `limit` and no longer: those that did not end by then are named, and
    /// only those that failed before count as failures.
    pub fn tests_within(&mut self, name: &str, command: &mut Command, limit: Duration) -> bool {
        let start = Instant::now();
        let outcome = self.finish(name, command, limit);
        let ended = |word: &str| {
            let is = |l: &&str| l.starts_with("test ") && l.ends_with(word);
            outcome.output.lines().filter(is).count() as u64
        };
        let failed = ended(" FAILED").max(u64::from(!outcome.good && !outcome.stopped));
        self.account(name, start.elapsed(), ended(" ok"), failed);
        if outcome.stopped {
            println!("      stopped after {} s; what had not ended did not fail", limit.as_secs());
        }
        if failed > 0 {
            self.explain(name, &outcome);
        }
        failed == 0
    }

    /// A step that this machine cannot run. Not counted, never silent.
    pub fn skip(&mut self, name: &str, why: &str) {
        println!("skip              {name}: {why}");
    }

    /// Prints the slowest steps and the totals, the last line alone; true where nothing failed.
    pub fn close(mut self) -> bool {
        self.times.sort_by(|a, b| b.cmp(a));
        println!("\nslowest of {:.0} s:", self.begun.elapsed().as_secs_f64());
        for (time, name) in self.times.iter().take(5) {
            println!("      {:7.1} s  {name}", time.as_secs_f64());
        }
        println!("\n{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }

    fn account(&mut self, name: &str, time: Duration, passed: u64, failed: u64) {
        self.passed += passed;
        self.failed += failed;
        let word = if failed == 0 { "ok  " } else { "FAIL" };
        let count = if passed + failed > 1 { format!(" ({passed} tests)") } else { String::new() };
        let used = children_seconds().map_or(String::new(), |seconds| {
            let of_step = seconds - self.used;
            self.used = seconds;
            // Whether a step waits for processors or for something else.
            if time.as_secs() < 60 {
                String::new()
            } else {
                format!(", {of_step:.0} s of processor")
            }
        });
        println!("{word}  {:7.1} s  {name}{count}{used}", time.as_secs_f64());
        self.times.push((time, name.to_string()));
    }

    fn explain(&self, name: &str, outcome: &Outcome) {
        if !outcome.good {
            print_tail(&outcome.output);
            println!("      whole output: {}", self.log_path(name).display());
        }
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.target.join("xtask").join(format!("{}.log", name.replace([' ', '/'], "-")))
    }

    fn finish(&self, name: &str, command: &mut Command, limit: Duration) -> Outcome {
        command.current_dir(&self.root);
        run_logged(command, &self.log_path(name), limit)
    }
}

/// Where cargo builds.
pub fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

/// Seconds of processor that processes have used which this one started and which have ended;
/// `None` where the system does not tell.
fn children_seconds() -> Option<f64> {
    // Fields 16 and 17, of which the second, a name, may have spaces; in hundredths of a second.
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let mut fields = behind_name.split(' ').skip(13);
    let ticks: f64 = fields.next()?.parse().ok()?;
    let of_system: f64 = fields.next()?.parse().ok()?;
    Some((ticks + of_system) / 100.0)
}

/// `cargo ARGS`, at low priority.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10", "cargo"]).args(args).env("CARGO_TERM_COLOR", "never");
    // What a later build could reuse costs time and gigabytes if there is none, and so do the many
    // small units of a crate, of which such a build compiles few.
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_CODEGEN_UNITS", "4");
    }
    command
}

/// Runs `command` with its output in the file `log`, and stops it after `limit`.
pub fn run_logged(command: &mut Command, log: &Path, limit: Duration) -> Outcome {
    use std::os::unix::process::CommandExt;
    let bad = |why: String| Outcome { good: false, output: why, stopped: false };
    let file = match File::create(log) {
        Ok(file) => file,
        Err(e) => return bad(format!("{}: {e}", log.display())),
    };
    let errors = file.try_clone().expect("a file handle can be cloned");
    command.stdin(Stdio::null()).stdout(file).stderr(errors).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return bad(format!("{}: {e}", command.get_program().display())),
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                // The whole group: a hung test is a grandchild.
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.wait();
                break None;
            }
        }
    };
    let mut output = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    if status.is_none() {
        output.push_str(&format!("\nstopped after {} s\n", limit.as_secs()));
    }
    Outcome { good: status.is_some_and(|s| s.success()), output, stopped: status.is_none() }
}

/// Sums the `test result:` lines of libtest: (passed, failed).
pub fn count_tests(output: &str) -> (u64, u64) {
    let mut sums = (0, 0);
    for line in output.lines().filter(|l| l.starts_with("test result: ")) {
        let number = |word: &str| {
            let end = line.find(word)?;
            line[..end].trim_end().rsplit(' ').next()?.parse::<u64>().ok()
        };
        sums.0 += number("passed").unwrap_or(0);
        sums.1 += number("failed").unwrap_or(0);
    }
    sums
}

/// Test binaries that took five seconds or more, slowest first.
fn slow_tests(output: &str) -> Vec<(f64, String)> {
    let mut slow = Vec::new();
    let mut binary = "";
    for line in output.lines() {
        let line = line.trim();
        if line.starts_with("Running ") || line.starts_with("Doc-tests ") {
            binary = line.split(" (").next().unwrap_or(line);
        }
        let seconds = line.split("finished in ").nth(1).and_then(|s| s.strip_suffix('s'));
        if let Some(seconds) = seconds.and_then(|s| s.parse::<f64>().ok())
            && seconds >= 5.0
        {
            slow.push((seconds, binary.to_string()));
        }
    }
    slow.sort_by(|a, b| b.0.total_cmp(&a.0));
    slow
}

fn print_tail(output: &str) {
    let lines: Vec<&str> = output.lines().filter(|l| is_news(l)).collect();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        println!("      | {line}");
    }
}

/// False for the lines of a build or test run that say that all is well.
fn is_news(line: &str) -> bool {
    let progress = [
        "Compiling ",
        "Checking ",
        "Downloaded ",
        "Downloading ",
        "Documenting ",
        "Running ",
        "running ",
        "test result: ok",
    ];
    let trimmed = line.trim_start();
    let passed = line.starts_with("test ") && line.ends_with(" ok");
    !(trimmed.is_empty() || passed || progress.iter().any(|p| trimmed.starts_with(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/a-1)
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 7.50s
     Running tests/kill.rs (target/debug/deps/kill-1)
test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn the_processor_of_ended_children_is_counted() {
        let before = children_seconds().unwrap();
        let busy = "n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done";
        assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(children_seconds().unwrap() > before);
    }

    #[test]
    fn results_are_summed() {
        assert_eq!(count_tests(OUTPUT), (15, 2));
        assert_eq!(count_tests("error: could not compile"), (0, 0));
    }

    #[test]
    fn slow_binaries_are_named() {
        assert_eq!(slow_tests(OUTPUT), [(7.5, "Running unittests src/lib.rs".to_string())]);
    }

    #[test]
    fn a_hung_command_is_stopped_with_its_children() {
        let log = std::env::temp_dir().join(format!("xtask-hung-{}.log", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "echo before; sleep 60; echo after"]);
        let start = Instant::now();
        let outcome = run_logged(&mut command, &log, Duration::from_millis(200));
        assert!(!outcome.good && start.elapsed() < Duration::from_secs(30));
        assert!(outcome.output.contains("before") && outcome.output.contains("stopped after"));
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_stopped_run_fails_only_where_a_test_did() {
        let root = std::env::temp_dir().join(format!("xtask-within-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let mut steps = Steps::new(&root);
        for (line, good) in [("test a ... ok", true), ("test a ... FAILED", false)] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo '{line}'; sleep 60")]);
            let limit = Duration::from_millis(500);
            assert_eq!(steps.tests_within("a part", &mut command, limit), good);
        }
        assert_eq!((steps.passed, steps.failed), (1, 1));
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn a_step_beside_others_counts_whatever_it_does() {
        let root = std::env::temp_dir().join(format!("xtask-beside-{}", std::process::id()));
        let mut steps = Steps::new(&root);
        let (told, tells) = std::sync::mpsc::channel();
        // Each waits for the other: they are side by side.
        let (back, answer) = std::sync::mpsc::channel();
        let work = move || {
            told.send(()).map_err(|e| e.to_string())?;
            answer.recv().map_err(|e| e.to_string())
        };
        let good = steps.beside("first", work, |steps| {
            steps.inside("second", || tells.recv().map_err(|e| e.to_string()));
            back.send(()).unwrap();
        });
        assert!(good && (steps.passed, steps.failed) == (2, 0));
        assert!(!steps.beside("it fails", || Err("no".into()), |_| ()));
        assert!(!steps.beside("it panics", || panic!("a step"), |_| ()));
        assert_eq!((steps.passed, steps.failed), (2, 2));
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn a_failed_command_counts_even_without_results() {
        let root = std::env::temp_dir().join(format!("xtask-steps-{}", std::process::id()));
        let mut steps = Steps::new(&root);
        let mut command = Command::new("false");
        assert!(!steps.tests("no results", &mut command, Duration::from_secs(5)));
        assert_eq!((steps.passed, steps.failed), (0, 1));
        assert!(!steps.close());
        let _ = fs::remove_dir_all(root);
    }
}
