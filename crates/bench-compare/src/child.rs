//! A cell in a fresh process: `silica bench compare-cell` reads it from standard input and prints
//! its outcome. A process that dies is a failure with a reason, never the end of the suite.

use crate::cell::{Cell, Outcome, measure};
use silica::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a process may say on standard error before it is cut.
const STDERR_BYTES_MAX: usize = 2000;

/// Reads a cell from standard input, performs it and prints its outcome: the body of the hidden
/// command `silica bench compare-cell`.
pub fn serve_cell() -> Result<()> {
    // Whoever started this process and is gone does not want it any more.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|e| Error::io("reading the cell from standard input", e))?;
    let cell: Cell = serde_json::from_str(&text).map_err(|e| {
        let message = format!("standard input holds no cell ({e}); `silica bench compare` does it");
        Error::new(ErrorKind::Config, message)
    })?;
    let outcome = measure(&cell)?;
    let text = serde_json::to_string(&outcome)
        .map_err(|e| Error::new(ErrorKind::Unsupported, format!("an outcome as text: {e}")))?;
    // Libraries of other people may have printed something; the outcome is the last line.
    println!("\n{text}");
    Ok(())
}

/// Performs `cell` with `command` (a program and its arguments), in this process where it is
/// empty. The error is for people.
pub(crate) fn run(
    command: &[OsString],
    cell: &Cell,
    limit: Duration,
    interrupted: &AtomicBool,
) -> std::result::Result<Outcome, String> {
    let Some((program, arguments)) = command.split_first() else {
        return measure(cell).map_err(|e| e.to_string());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("starting {}: {e}", program.display()))?;
    let input = serde_json::to_vec(cell).map_err(|e| format!("a cell as text: {e}"))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // A child that died before it read is told of by its exit status.
    let _ = stdin.write_all(&input);
    drop(stdin);
    let (mut stdout, mut stderr) =
        (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
    let (out, err, ended) = std::thread::scope(|scope| {
        let out = scope.spawn(move || read(&mut stdout));
        let err = scope.spawn(move || read(&mut stderr));
        let ended = wait(&mut child, limit, interrupted);
        (out.join().unwrap_or_default(), err.join().unwrap_or_default(), ended)
    });
    judge(&out, &err, ended, cell)
}

fn read(from: &mut dyn Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the child; the reason where it was stopped.
fn wait(
    child: &mut Child,
    limit: Duration,
    interrupted: &AtomicBool,
) -> std::result::Result<ExitStatus, String> {
    let started = Instant::now();
    loop {
        let reason = match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Err(e) => format!("waiting for it: {e}"),
            Ok(None) if interrupted.load(Ordering::Relaxed) => "interrupted".to_string(),
            Ok(None) if started.elapsed() >= limit => {
                format!("stopped after {} s", limit.as_secs())
            }
            Ok(None) => {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        return Err(reason);
    }
}

fn judge(
    out: &str,
    err: &str,
    ended: std::result::Result<ExitStatus, String>,
    cell: &Cell,
) -> std::result::Result<Outcome, String> {
    let said = tail(err);
    let status = ended.map_err(|reason| join(&reason, said))?;
    if let Some(signal) = status.signal() {
        let hint = match (signal, &cell.door) {
            (9, Some(_)) => " (it may have needed more memory than its group has)",
            _ => "",
        };
        return Err(join(&format!("died of signal {signal}{hint}"), said));
    }
    if !status.success() {
        return Err(if said.is_empty() { status.to_string() } else { said.to_string() });
    }
    let last = out.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str(last).map_err(|e| join(&format!("printed no outcome ({e})"), said))
}

fn join(reason: &str, said: &str) -> String {
    if said.is_empty() { reason.to_string() } else { format!("{reason}: {said}") }
}

/// The end of what was said, where the reason usually stands.
fn tail(err: &str) -> &str {
    let err = err.trim();
    let mut from = err.len().saturating_sub(STDERR_BYTES_MAX);
    while !err.is_char_boundary(from) {
        from += 1;
    }
    err[from..].trim_start_matches("silica: ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Job;
    use crate::work::Work;

    fn cell() -> Cell {
        Cell {
            suite: "flash".into(),
            name: "read".into(),
            store: "silica:silt".into(),
            job: Job::Prepare,
            work: Work {
                workload: "read".into(),
                keys: 10,
                operations: 10,
                key_bytes: 16,
                value_bytes: 16,
                threads: 1,
                synced: false,
                distribution: "uniform".into(),
                batch: 1,
                rate: 0,
                seed: 1,
            },
            memory_bytes: 64 << 20,
            cold: false,
            repetition: 0,
            directory: "nowhere".into(),
            check_operations: 0,
            seconds: 0.0,
            door: None,
        }
    }

    fn shell(script: &str, limit: Duration, interrupted: bool) -> String {
        let command = ["sh", "-c", script].map(OsString::from);
        run(&command, &cell(), limit, &AtomicBool::new(interrupted)).unwrap_err()
    }

    #[test]
    fn deaths_have_reasons() {
        let minute = Duration::from_secs(60);
        assert_eq!(shell("echo why >&2; exit 3", minute, false), "why");
        assert_eq!(shell("exit 3", minute, false), "exit status: 3");
        assert_eq!(shell("kill -11 $$", minute, false), "died of signal 11");
        assert!(shell("echo hello", minute, false).contains("no outcome"));
        let slow = shell("exec sleep 60", Duration::from_millis(50), false);
        assert!(slow.contains("stopped after"), "{slow}");
        assert!(shell("exec sleep 60", minute, true).contains("interrupted"));
    }

    #[test]
    fn outcomes_come_back_whole() {
        let mut outcome = Outcome { version: "1".into(), ..Outcome::default() };
        outcome.push("throughput_ops", "ops/s", 1234.5);
        let text = serde_json::to_string(&outcome).unwrap();
        let script = format!("cat > /dev/null; echo noise; echo '{text}'");
        let command = ["sh", "-c", &script].map(OsString::from);
        let limit = Duration::from_secs(60);
        let back = run(&command, &cell(), limit, &AtomicBool::new(false)).unwrap();
        assert_eq!(back, outcome);
        let cell_back: Cell =
            serde_json::from_str(&serde_json::to_string(&cell()).unwrap()).unwrap();
        assert_eq!(cell_back, cell());
    }
}
