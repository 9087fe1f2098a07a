//! Recording what is asked of a keyspace: docs/formats/trace.md.

use crate::recorder::{RecordOptions, RecordReport, Recorder};
use crate::sketch::Live;
use crate::{Keyspace, OpenOptions};
use silica_base::HashSeed;
use silica_engine::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long what was recorded stays in memory, at most, where there is little of it.
const ROUND: Duration = Duration::from_millis(50);

impl Keyspace {
    /// Records what the keyspace is asked into the new file `path`, until the recording is stopped
    /// or dropped: the operations, with the times when they were answered, that `silica bench
    /// replay` asks again. A thread writes whole lines, at the latest after 50 ms; a process that
    /// dies leaves a trace that is read up to there.
    ///
    /// ```
    /// # let name = format!("silica-doc-record-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::open(&path)?;
    /// # let users = store.keyspace("users")?;
    /// # let file = path.with_extension("trace");
    /// let recording = users.record(&file, &silica::RecordOptions::default())?;
    /// users.put("ann", "blue")?;
    /// users.get("ann")?;
    /// let report = recording.stop()?;
    /// assert_eq!((report.operations, report.dropped), (2, 0));
    /// assert!(std::fs::read_to_string(&file).unwrap().starts_with("silica-trace 1\n"));
    /// # drop((users, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # std::fs::remove_file(&file).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Locked` where the keyspace is being recorded already, `Io` where the file is there or
    /// cannot be made, `Config` for a file in the store's directory.
    pub fn record(&self, path: impl AsRef<Path>, options: &RecordOptions) -> Result<Recording> {
        let name = path.as_ref().display();
        let failed = |e| Error::io(format!("making the trace {name}; it must be a new file"), e);
        crate::refuse_within_store(&path, "the trace")?;
        let buffer = self.record_buffered(options)?;
        let file = File::create_new(&path).map_err(failed)?;
        Recording::start(buffer, file)
    }

    /// Records into `out`.
    ///
    /// # Errors
    /// `Locked` where the keyspace is being recorded already.
    pub fn record_to(
        &self,
        out: impl Write + Send + 'static,
        options: &RecordOptions,
    ) -> Result<Recording> {
        Recording::start(self.record_buffered(options)?, out)
    }

    /// Records into memory, from where the caller takes the trace from time to time.
    ///
    /// # Errors
    /// `Locked` where the keyspace is being recorded already.
    pub fn record_buffered(&self, options: &RecordOptions) -> Result<RecordBuffer> {
        self.check_open()?;
        let live = Arc::clone(self.switch().live());
        let seed = HashSeed(OpenOptions::new().new_seed()?);
        let recorder = Arc::new(Recorder::new(options, seed)?);
        if !live.begin_record(&recorder) {
            let message = format!(
                "keyspace '{}' is being recorded already; stop that recording first",
                self.name()
            );
            return Err(Error::new(ErrorKind::Locked, message));
        }
        Ok(RecordBuffer { live, recorder })
    }
}

/// A recording in memory. Dropped, it ends. One that is full and was not read for a minute records
/// nothing more.
pub struct RecordBuffer {
    live: Arc<Live>,
    recorder: Arc<Recorder>,
}

impl RecordBuffer {
    /// The lines since the last call, the first ones with the trace's beginning. The last line of a
    /// trace that is as large as it may be begins with `# the end: `; none follow.
    pub fn read(&self) -> Result<Vec<u8>> {
        self.recorder.drain(false)
    }

    /// Ends it; the lines since the last call.
    pub fn stop(self) -> Result<(Vec<u8>, RecordReport)> {
        self.live.end_record(&self.recorder);
        let text = self.recorder.drain(true)?;
        Ok((text, self.recorder.report()))
    }

    /// How long nobody has called [`RecordBuffer::read`].
    pub fn idle(&self) -> Duration {
        self.recorder.idle()
    }

    /// What it came to so far.
    pub fn report(&self) -> RecordReport {
        self.recorder.report()
    }
}

impl Drop for RecordBuffer {
    fn drop(&mut self) {
        self.live.end_record(&self.recorder);
    }
}

impl std::fmt::Debug for RecordBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordBuffer({:?})", self.report())
    }
}

/// A recording that a thread writes. Dropped, it ends.
#[derive(Debug)]
pub struct Recording {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<RecordReport>>>,
}

impl Recording {
    fn start(buffer: RecordBuffer, out: impl Write + Send + 'static) -> Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let recorder = Arc::clone(&buffer.recorder);
        let thread = std::thread::Builder::new()
            .name("silica-record".into())
            .spawn(move || write_out(buffer, out, &stop))
            .map_err(|e| Error::io("starting the thread that writes a trace", e))?;
        recorder.wakes(thread.thread().clone());
        Ok(Recording { stopping, thread: Some(thread) })
    }

    /// True where it has ended by itself: the trace is as large as it may be, or cannot be
    /// written, which [`Recording::stop`] tells.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, and waits until everything is written.
    ///
    /// # Errors
    /// Why the trace could not be written; what was written before is a trace.
    pub fn stop(mut self) -> Result<RecordReport> {
        self.end()
    }

    fn end(&mut self) -> Result<RecordReport> {
        self.stopping.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return Ok(RecordReport::default()) };
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Poisoned, "the thread that writes a trace panicked"))
        })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.thread.is_some()
            && let Err(e) = self.end()
        {
            log::warn!("a recording ended early: {e}");
        }
    }
}

/// Writes until it is stopped, or the trace is as large as it may be.
fn write_out(
    buffer: RecordBuffer,
    mut out: impl Write,
    stopping: &AtomicBool,
) -> Result<RecordReport> {
    let failed = |e| Error::io("writing a trace; the recording ends here", e);
    let mut put = |text: Vec<u8>| out.write_all(&text).and_then(|()| out.flush()).map_err(failed);
    while !stopping.load(Ordering::Acquire) && !buffer.recorder.has_ended() {
        put(buffer.read()?)?;
        std::thread::park_timeout(ROUND);
    }
    let (rest, report) = buffer.stop()?;
    put(rest)?;
    Ok(report)
}
