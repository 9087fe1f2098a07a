//! Work in a fresh process, which reads from standard input what to do and tells each figure on
//! standard output as it comes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use silica::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// An interruption is noticed after so long.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// What a process says last on standard error, in characters.
const SAID_MAX: usize = 500;

/// Before each figure, so that what libraries of other people print is told apart.
const MARK: &str = "@silica-figure ";

/// Figures so far, and why the work ended before it should.
pub(crate) type Told<F> = (Vec<F>, Option<String>);

/// Reads from standard input what to do; `what` names it, for people.
pub(crate) fn read_work<W: DeserializeOwned>(what: &str) -> Result<W> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Whoever started this process and is gone does not want it any more.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let text = std::io::read_to_string(std::io::stdin())
        .map_err(|e| Error::io(format!("reading {what} from standard input"), e))?;
    serde_json::from_str(&text).map_err(|e| {
        let message = format!("standard input holds no {what} ({e}); `bench compare` sends it");
        Error::new(ErrorKind::Config, message)
    })
}

/// Tells a figure on standard output.
pub(crate) fn tell<F: Serialize>(figure: &F) -> Result<()> {
    let json = serde_json::to_string(figure)
        .map_err(|e| Error::new(ErrorKind::Io, format!("writing a figure: {e}")))?;
    let mut out = std::io::stdout().lock();
    let told = writeln!(out, "{MARK}{json}").and_then(|()| out.flush());
    told.map_err(|e| Error::io("telling a figure", e))
}

/// Kills the process when it goes; one that ended is only waited for.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Performs `work` by `command`, a program and its arguments, which may take so long.
pub(crate) fn perform<W: Serialize, F: DeserializeOwned + Send + 'static>(
    command: &[OsString],
    work: &W,
    limit: Duration,
    interrupted: &AtomicBool,
) -> Told<F> {
    let mut figures = Vec::new();
    let why = try_perform(command, work, limit, interrupted, &mut figures).err();
    (figures, why)
}

fn try_perform<W: Serialize, F: DeserializeOwned + Send + 'static>(
    command: &[OsString],
    work: &W,
    limit: Duration,
    interrupted: &AtomicBool,
    figures: &mut Vec<F>,
) -> std::result::Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("no program performs the work")?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("starting {}: {e}", program.display()))?;
    let mut child = Killed(child);
    let text = serde_json::to_string(work).map_err(|e| e.to_string())?;
    // A process that died before it read is told of by its exit status.
    let _ = child.0.stdin.take().expect("it is piped").write_all(text.as_bytes());
    let stdout = child.0.stdout.take().expect("it is piped");
    let mut stderr = child.0.stderr.take().expect("it is piped");
    let (lines_in, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let Some(json) = line.strip_prefix(MARK) else { continue };
            if let Ok(figure) = serde_json::from_str::<F>(json)
                && lines_in.send(figure).is_err()
            {
                return;
            }
        }
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let started = Instant::now();
    loop {
        match lines.recv_timeout(LOOK_PERIOD) {
            Ok(figure) => figures.push(figure),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if interrupted.load(Ordering::Relaxed) => {
                return Err("interrupted".to_string());
            }
            Err(RecvTimeoutError::Timeout) if started.elapsed() > limit => {
                return Err(format!("stopped after {} s", limit.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    let status = child.0.wait().map_err(|e| format!("waiting for it: {e}"))?;
    let said = errors.join().unwrap_or_default();
    match status.success() {
        true => Ok(()),
        false => Err(format!("{status}: {}", last(&said))),
    }
}

/// The end of what was said, where the reason usually stands.
fn last(said: &str) -> String {
    let said = said.trim();
    let skipped = said.chars().count().saturating_sub(SAID_MAX);
    said.chars().skip(skipped).collect::<String>().trim_start_matches("silica: ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(script: &str) -> Told<u64> {
        let command = ["sh", "-c", script].map(OsString::from);
        perform(&command, &"work", Duration::from_secs(20), &AtomicBool::new(false))
    }

    #[test]
    fn figures_are_kept_when_a_process_dies() {
        let (figures, why) = told("echo noise; echo '@silica-figure 7'; echo no room >&2; exit 3");
        assert_eq!(figures, [7]);
        assert!(why.is_some_and(|why| why.contains("no room")), "the reason is told");
        assert_eq!(told("cat > /dev/null"), (Vec::new(), None));
    }

    #[test]
    fn what_never_ends_is_stopped() {
        let interrupted = AtomicBool::new(true);
        let command = ["sh", "-c", "exec sleep 1000"].map(OsString::from);
        let (_, why): Told<u64> = perform(&command, &"work", Duration::MAX, &interrupted);
        assert_eq!(why.as_deref(), Some("interrupted"));
    }
}
