//! Instructions of a call, counted by callgrind in runs of this program. Without a server they are
//! those inside [`counted`]. A server works in threads of its own: there two runs are compared, of
//! which one makes more calls, so that what comes before and behind the calls does not count.

use super::reach::{Calls, Keys, Kind, Level, Meter, reach};
use silica::{Error, ErrorKind, Result};
use std::path::Path;
use std::process::Command;

/// Keys of the store whose calls are counted.
const KEYS: u64 = 2000;
/// Operations of a run, and of the shorter of two runs.
const OPERATIONS: u64 = 6400;
/// What callgrind calls [`counted`].
const COUNTED: &str = "--toggle-collect=*modularity::count::counted*";

/// A way to an engine and a kind of calls, as words that another process reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) engine: &'static str,
    pub(super) level: Level,
    pub(super) kind: Kind,
    pub(super) burst: usize,
}

impl Counted {
    /// Instructions of one operation in all threads, a client's included; `None` without valgrind.
    ///
    /// # Errors
    /// `Io` if the program cannot be run under valgrind.
    pub(super) fn instructions(&self, scratch: &Path) -> Result<Option<f64>> {
        if Command::new("valgrind").arg("--version").output().is_err() {
            return Ok(None);
        }
        let calls = OPERATIONS / self.burst as u64;
        let short = self.collected(calls, scratch)?;
        let count = match self.level.is_server() {
            true => self.collected(2 * calls, scratch)?.saturating_sub(short),
            false => short,
        };
        Ok(Some(count as f64 / (calls * self.burst as u64) as f64))
    }

    /// Instructions of a process that makes so many calls.
    fn collected(&self, calls: u64, scratch: &Path) -> Result<u64> {
        let failed = |e| Error::io("counting instructions under valgrind", e);
        let directory = tempfile_in(scratch, self, calls);
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        if !self.level.is_server() {
            valgrind.arg(COUNTED);
        }
        valgrind.arg(program).args(["bench", "level-calls"]);
        let Counted { engine, level, kind, burst } = self;
        let level = Level::ALL.iter().position(|other| other == level).unwrap_or_default();
        let words = format!("{engine} {level} {} {burst} {calls}", kind.name());
        let output = valgrind.arg(words).arg("--out").arg(&directory).output().map_err(failed)?;
        let _ = std::fs::remove_dir_all(&directory);
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors.lines().find_map(|line| line.split_once("Collected : "));
        let count = line.and_then(|(_, count)| count.trim().parse().ok());
        count.filter(|_| output.status.success()).ok_or_else(|| {
            Error::new(ErrorKind::Io, format!("callgrind counted nothing of {self:?}: {errors}"))
        })
    }
}

fn tempfile_in(scratch: &Path, counted: &Counted, calls: u64) -> std::path::PathBuf {
    let Counted { engine, level, kind, burst } = counted;
    scratch.join(format!("counted-{engine}-{}-{}-{burst}-{calls}", *level as u8, kind.name()))
}

/// Makes the calls that `words` say, in a store below `directory`.
///
/// # Errors
/// `Config` for words that say nothing, and what the calls fail with.
pub(crate) fn make_calls(words: &str, directory: &Path) -> Result<()> {
    let parts: Vec<&str> = words.split(' ').collect();
    let wrong = || Error::new(ErrorKind::Config, format!("'{words}' says no calls"));
    let [engine, level, kind, burst, calls] = parts[..] else { return Err(wrong()) };
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let level = *Level::ALL.get(number(level)? as usize).ok_or_else(wrong)?;
    let kind = *Kind::ALL.iter().find(|known| known.name() == kind).ok_or_else(wrong)?;
    let (burst, calls) = (number(burst)? as usize, number(calls)?);
    let mut meter = reach(engine, level, &directory.join("store"), &Keys::new(KEYS))?;
    counted(&mut meter, Calls { kind, burst, calls })
}

/// A function that callgrind can find.
#[inline(never)]
fn counted(meter: &mut Meter, calls: Calls) -> Result<()> {
    meter(calls).map(drop)
}
