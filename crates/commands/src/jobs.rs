//! Long work on a store that is served: backups, checks, compactions and saves, each in a thread of
//! its own, one of a kind at a time.

use silica::engine::{Admin, Engine, EngineExt, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Told how far a job is; its error ends the job.
pub type Tell<'a> = dyn FnMut(String) -> Result<()> + 'a;

/// Where a backup goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupJob {
    /// The directory, on the server's machine.
    pub target: PathBuf,
    /// An earlier backup of the store that is in another directory.
    pub from: Option<PathBuf>,
    /// The directory has an earlier backup, which is brought up to date.
    pub update: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    Backup(BackupJob),
    Verify,
    Compact,
    Save,
}

impl Job {
    /// The word that stands for its kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Job::Backup(_) => "backup",
            Job::Verify => "verify",
            Job::Compact => "compact",
            Job::Save => "save",
        }
    }
}

/// Kinds of jobs.
pub(crate) const KINDS: [&str; 4] = ["backup", "verify", "compact", "save"];

struct State {
    text: String,
    is_over: bool,
    cancelled: Arc<AtomicBool>,
}

/// The jobs of a server. Dropped, it ends them.
#[derive(Default)]
pub(crate) struct Jobs {
    known: Arc<Mutex<BTreeMap<&'static str, State>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
    /// When everything was saved last, in Unix milliseconds; 0 for never.
    saved_unix_ms: Arc<AtomicU64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Jobs {
    /// How far the last job of a kind is: `running …`, `done …` or `failed …`.
    pub(crate) fn state(&self, kind: &str) -> Option<String> {
        lock(&self.known).get(kind).map(|state| state.text.clone())
    }

    /// True while a job of the kind runs.
    pub(crate) fn is_running(&self, kind: &str) -> bool {
        lock(&self.known).get(kind).is_some_and(|state| !state.is_over)
    }

    /// Ends a job of a kind as soon as it may; false where none runs.
    pub(crate) fn cancel(&self, kind: &str) -> bool {
        let known = lock(&self.known);
        let running = known.get(kind).filter(|state| !state.is_over);
        running.iter().for_each(|state| state.cancelled.store(true, Ordering::Relaxed));
        running.is_some()
    }

    /// When everything was saved last, in Unix milliseconds, if it was.
    pub(crate) fn saved_unix_ms(&self) -> Option<u64> {
        Some(self.saved_unix_ms.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Notes that all was saved.
    pub(crate) fn note_save(&self, unix_ms: u64) {
        self.saved_unix_ms.store(unix_ms, Ordering::Relaxed);
    }

    /// Begins a job, unless one of its kind runs: `work` is told whom to tell how far it is, and
    /// returns what was done, in words.
    pub(crate) fn start(
        &self,
        job: &Job,
        work: impl FnOnce(&mut Tell<'_>) -> Result<String> + Send + 'static,
    ) -> Result<()> {
        let kind = job.kind();
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut known = lock(&self.known);
        if known.get(kind).is_some_and(|state| !state.is_over) {
            let message = format!("a {kind} is running already; SILICA.JOB STATE {kind} shows it");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let state =
            State { text: "running".into(), is_over: false, cancelled: Arc::clone(&cancelled) };
        known.insert(kind, state);
        drop(known);
        let (known, stopping) = (Arc::clone(&self.known), Arc::clone(&self.stopping));
        let set = move |text: String, is_over| {
            if let Some(state) = lock(&known).get_mut(kind) {
                (state.text, state.is_over) = (text, is_over);
            }
        };
        let run = move || {
            let mut tell = |text: String| {
                let why =
                    match (stopping.load(Ordering::Relaxed), cancelled.load(Ordering::Relaxed)) {
                        (true, _) => "the server stops",
                        (_, true) => "it was cancelled",
                        _ => {
                            set(format!("running {text}"), false);
                            return Ok(());
                        }
                    };
                Err(Error::new(ErrorKind::Closed, why))
            };
            let (text, is_good) = match work(&mut tell) {
                Ok(done) => (format!("done {done}"), true),
                Err(error) => (format!("failed {error}"), false),
            };
            match is_good {
                true => log::info!("{kind}: {text}"),
                false => log::warn!("{kind}: {text}"),
            }
            set(text, true);
        };
        let thread = std::thread::Builder::new().name(format!("silica-{kind}"));
        let spawned = thread.spawn(run).map_err(|e| Error::io(format!("starting a {kind}"), e));
        match spawned {
            Ok(handle) => {
                let mut threads = lock(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(handle);
                Ok(())
            }
            Err(error) => {
                lock(&self.known).remove(kind);
                Err(error)
            }
        }
    }

    /// The clock of saves, for a job's thread.
    pub(crate) fn saves(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.saved_unix_ms)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                log::error!("a job panicked");
            }
        }
    }
}

/// What became of a save.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Databases that are safe from the end of the process.
    pub(crate) kept: usize,
    /// Databases in memory that keep no image.
    pub(crate) forgetful: usize,
}

impl Saved {
    /// An error where there was nothing to be saved to.
    pub(crate) fn check(self) -> Result<Self> {
        match self {
            Saved { kept: 0, forgetful: 1.. } => Err(Error::new(
                ErrorKind::Unsupported,
                "nothing can be saved: what is served is in memory and keeps no image; serve it \
                 with --image DIR (a cache) or warm_restart=on (a keyspace)",
            )),
            _ => Ok(self),
        }
    }
}

/// Makes what `engines` hold survive the process: a sync, or an image of what is in memory.
pub(crate) fn save<'a>(
    engines: impl Iterator<Item = &'a dyn Engine>,
    tell: &mut Tell<'_>,
) -> Result<Saved> {
    let mut saved = Saved::default();
    for engine in engines {
        tell(format!("{} databases saved", saved.kept))?;
        let is_kept = match engine.descriptor().capabilities.durable {
            true => engine.sync_as_far_as_it_goes().map(|()| true)?,
            false => {
                let save = |admin: &dyn Admin| admin.save(&mut |_, _| {});
                engine.as_admin().map_or(Ok(false), save)?
            }
        };
        saved.kept += usize::from(is_kept);
        saved.forgetful += usize::from(!is_kept);
    }
    saved.check()
}

/// Does an engine's background work, and rewrites what an ordered one can rewrite.
pub(crate) fn compact(engine: &Arc<dyn Engine>, tell: &mut Tell<'_>) -> Result<()> {
    /// Bytes of a step.
    const STEP_BYTES: u64 = 16 << 20;
    if let Some(ordered) = Arc::clone(engine).as_ordered() {
        ordered.compact_range(&silica::KeyRange::ALL)?;
    }
    while engine.maintain(silica::Budget::of(STEP_BYTES))?.more {
        tell("background work".into())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn one_of_a_kind_runs_and_can_be_cancelled() {
        let jobs = Jobs::default();
        let (go, wait) = mpsc::channel::<()>();
        let work = move |tell: &mut Tell<'_>| {
            tell("half".into())?;
            loop {
                wait.recv().expect("the test goes on");
                tell("more".into())?;
            }
        };
        jobs.start(&Job::Verify, work).unwrap();
        let again = jobs.start(&Job::Verify, |_| Ok(String::new())).unwrap_err();
        assert!(again.to_string().contains("running already"), "{again}");
        jobs.start(&Job::Compact, |_| Ok("quickly".into())).unwrap();
        while jobs.state("compact").unwrap() != "done quickly" {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
        assert!(jobs.cancel("verify") && !jobs.cancel("compact") && !jobs.cancel("save"));
        while jobs.is_running("verify") {
            let _ = go.send(());
        }
        assert_eq!(jobs.state("verify").unwrap(), "failed it was cancelled");
        jobs.start(&Job::Verify, |_| Ok("again".into())).unwrap();
    }
}
