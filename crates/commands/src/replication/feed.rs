//! What one replica gets: all data first, unless it continues, and then the stream.
//!
//! The loop that has the replica's connection asks for bytes as its socket takes them
//! ([`Feed::fill`]), so nothing is made faster than it leaves. Data comes through a [`Pipe`] of
//! bounded size from a thread of its own; the stream comes out of the backlog.

use super::blocks::Ranges;
use super::records;
use crate::budget::{Budget, Share};
use crate::clients::Client;
use silica_base::HashSeed;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of data that wait for the socket.
const PIPE_BYTES: usize = 256 << 10;

/// What is wanted of all data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it, and then the stream.
    Stream,
    /// All of it, as a file.
    File,
    /// A file of the functions alone.
    Functions,
}

/// How far a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has told who it is, and asked for nothing.
    Greeting,
    /// It is sent all data; the stream goes on for it behind so many bytes, once that is known.
    Sync(Option<u64>),
    /// It has been sent all data, and has to say that it has it.
    Loading(u64),
    /// It has been sent so many bytes of the stream.
    Online(u64),
    /// It has been sent the file that it asked for, and gets no stream.
    Sent,
    /// Its connection ends.
    Failed,
}

struct State {
    phase: Phase,
    pipe: VecDeque<Vec<u8>>,
    pipe_bytes: usize,
    port: u16,
    address: String,
    takes_mark: bool,
    knows_ids: bool,
    wanted: Wanted,
    /// It came with SYNC: it is told no position, and says only that it has the file.
    is_bare: bool,
    /// It knows records and blocks.
    takes_records: bool,
    /// It keeps elements of sorted sets that are entries.
    takes_elements: bool,
    /// It has asked for a stream without records.
    asks_commands: bool,
    /// It counts among those that take commands only.
    is_plain: bool,
    /// Under which its summary is made, once it was asked for one.
    seed: Option<HashSeed>,
    summary: Option<Ranges>,
    /// A thread is to begin to send it all data.
    is_starting: bool,
}

/// A connection of a replica.
pub struct Feed {
    /// The connection.
    pub(crate) client: Arc<Client>,
    state: Mutex<State>,
    /// The pipe has room, or the connection is gone.
    drained: Condvar,
    /// Nobody has asked its loop for more since that found nothing.
    is_idle: AtomicBool,
    /// Bytes of the stream that it has been sent, or begins behind; `u64::MAX` if it gets none.
    /// Apart from the state: whoever holds the stream looks at it.
    sent: AtomicU64,
    /// Bytes of the stream that it has said to have.
    pub(crate) acknowledged: AtomicU64,
    /// Bytes of the stream that it has said to have on its disk.
    pub(crate) synced: AtomicU64,
    /// When it said so, in milliseconds of the monotonic clock.
    pub(crate) heard_ms: AtomicU64,
    share: Share,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("client", &self.client.id).finish_non_exhaustive()
    }
}

/// The connection that was fed is gone.
#[derive(Debug)]
pub(crate) struct Gone;

impl Feed {
    pub(crate) fn new(client: &Arc<Client>, budget: &Arc<Budget>, now_ms: u64) -> Arc<Feed> {
        let state = State {
            phase: Phase::Greeting,
            pipe: VecDeque::new(),
            pipe_bytes: 0,
            port: 0,
            address: String::new(),
            takes_mark: false,
            knows_ids: false,
            wanted: Wanted::Stream,
            is_bare: false,
            takes_records: false,
            takes_elements: false,
            asks_commands: false,
            is_plain: false,
            seed: None,
            summary: None,
            is_starting: false,
        };
        Arc::new(Feed {
            client: Arc::clone(client),
            state: Mutex::new(state),
            drained: Condvar::new(),
            is_idle: AtomicBool::new(false),
            sent: AtomicU64::new(u64::MAX),
            acknowledged: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            heard_ms: AtomicU64::new(now_ms),
            share: Share::new(budget),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    pub(crate) fn set_port(&self, port: u16) {
        self.state().port = port;
    }

    pub(crate) fn set_address(&self, address: &[u8]) {
        self.state().address = String::from_utf8_lossy(address).into_owned();
    }

    /// It has said what it can do.
    pub(crate) fn note_capability(&self, word: &[u8]) {
        let mut state = self.state();
        state.takes_mark |= word.eq_ignore_ascii_case(b"eof");
        state.knows_ids |= word.eq_ignore_ascii_case(b"psync2");
        state.takes_records |= word.eq_ignore_ascii_case(records::CAPABILITY.as_bytes());
        state.takes_elements |= word.eq_ignore_ascii_case(records::ELEMENTS.as_bytes());
        state.asks_commands |= word.eq_ignore_ascii_case(records::COMMANDS_ONLY.as_bytes());
    }

    /// It takes records and blocks.
    pub(crate) fn takes_records(&self) -> bool {
        self.state().takes_records
    }

    /// It keeps elements of sorted sets that are entries, so it may be sent some.
    pub(crate) fn takes_elements(&self) -> bool {
        self.state().takes_elements
    }

    /// What it gets from now on has to be commands.
    pub(crate) fn wants_commands(&self) -> bool {
        let state = self.state();
        !state.takes_records || state.asks_commands
    }

    /// True, once, if it is fed from now on and takes commands only. One whose connection has
    /// ended meanwhile never counts: nobody would take it off again.
    pub(super) fn counts_as_plain(&self) -> bool {
        let mut state = self.state();
        let takes_commands_only = !state.takes_records || state.asks_commands;
        let is_new = !state.is_plain && takes_commands_only && state.phase != Phase::Failed;
        state.is_plain |= is_new;
        is_new
    }

    /// True, once, if it has counted as one that takes commands only.
    pub(super) fn leaves_as_plain(&self) -> bool {
        std::mem::take(&mut self.state().is_plain)
    }

    /// Asks it for a summary under `seed`; false if it has sent one already.
    pub(crate) fn asks_summary(&self, seed: HashSeed) -> bool {
        let mut state = self.state();
        let asks = state.summary.is_none();
        if asks {
            state.seed = Some(seed);
        }
        asks
    }

    /// It has sent the summary that it was asked for.
    pub(crate) fn set_summary(&self, bytes: &[u8]) -> Result<(), String> {
        let wrong = || "ERR a summary that is damaged, or was not asked for".to_string();
        let is_asked = {
            let state = self.state();
            state.seed.is_some() && state.summary.is_none()
        };
        let ranges = Ranges::decode(bytes).filter(|_| is_asked).ok_or_else(wrong)?;
        self.share.grow(bytes.len())?;
        self.state().summary = Some(ranges);
        Ok(())
    }

    /// Takes its summary, and the seed that this was made under.
    pub(super) fn take_summary(&self) -> Option<(HashSeed, Ranges)> {
        let mut state = self.state();
        Some((state.seed?, state.summary.take()?))
    }

    /// It has said what it wants of all data.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.state().wanted = wanted;
    }

    pub(crate) fn wanted(&self) -> Wanted {
        self.state().wanted
    }

    /// It came with SYNC.
    pub(crate) fn set_bare(&self) {
        self.state().is_bare = true;
    }

    pub(crate) fn is_bare(&self) -> bool {
        self.state().is_bare
    }

    /// It has been sent all that it wants: its loop has it.
    pub(crate) fn has_ended(&self) -> bool {
        let state = self.state();
        state.phase == Phase::Sent && state.pipe.is_empty()
    }

    pub(crate) fn takes_mark(&self) -> bool {
        self.state().takes_mark
    }

    pub(crate) fn knows_ids(&self) -> bool {
        self.state().knows_ids
    }

    /// The host and port at which it serves, as far as it has said.
    pub(crate) fn address(&self) -> (String, u16) {
        let state = self.state();
        let host = match state.address.is_empty() {
            true => self.client.peer.host(),
            false => state.address.clone(),
        };
        (host, state.port)
    }

    /// It is sent all data from now on.
    pub(crate) fn begin_sync(&self) -> Result<(), String> {
        self.share.grow(PIPE_BYTES)?;
        let mut state = self.state();
        (state.phase, state.is_starting) = (Phase::Sync(None), true);
        self.client.is_fed.store(true, Relaxed);
        Ok(())
    }

    /// True, once, if a thread is to begin to send all data.
    pub(crate) fn takes_start(&self) -> bool {
        std::mem::take(&mut self.state().is_starting)
    }

    /// The stream goes on for it behind `offset`, after the data.
    pub(crate) fn set_offset(&self, offset: u64) {
        let mut state = self.state();
        if state.phase == Phase::Sync(None) {
            state.phase = Phase::Sync(Some(offset));
            self.sent.store(offset, SeqCst);
        }
    }

    /// It has been sent all data.
    pub(crate) fn end_sync(&self) {
        let mut state = self.state();
        state.phase = match state.phase {
            Phase::Sync(None) if state.wanted != Wanted::Stream => Phase::Sent,
            Phase::Sync(Some(offset)) => Phase::Loading(offset),
            other => other,
        };
    }

    /// It goes on in the stream behind `offset`.
    pub(crate) fn go_on(&self, offset: u64, now_ms: u64) {
        self.state().phase = Phase::Online(offset);
        self.client.is_fed.store(true, Relaxed);
        self.sent.store(offset, SeqCst);
        self.acknowledged.store(offset, Relaxed);
        self.heard_ms.store(now_ms, Relaxed);
    }

    /// It says that it has `offset` bytes of the stream; true if it may get the stream from now on.
    pub(crate) fn acknowledge(&self, offset: u64, now_ms: u64) -> bool {
        self.heard_ms.store(now_ms, Relaxed);
        self.acknowledged.fetch_max(offset, Relaxed);
        let mut state = self.state();
        match state.phase {
            // What is in the pipe comes first, the mark of its end included.
            Phase::Loading(from) if state.pipe.is_empty() => {
                state.phase = Phase::Online(from);
                true
            }
            _ => false,
        }
    }

    /// Ends it: its connection is closed when its loop asks for more.
    pub(crate) fn fail(&self) {
        let mut state = self.state();
        state.phase = Phase::Failed;
        self.client.is_fed.store(true, Relaxed);
        self.sent.store(u64::MAX, SeqCst);
        (state.pipe, state.pipe_bytes) = (VecDeque::new(), 0);
        drop(state);
        self.drained.notify_all();
    }

    /// Bytes of the stream that it has been sent; `u64::MAX` if it gets none.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(SeqCst)
    }

    /// Hands over data, and waits while the socket does not take it. Calls `look` now and then.
    pub(crate) fn send(&self, bytes: &[u8], look: &mut dyn FnMut() -> bool) -> Result<(), Gone> {
        let mut state = self.state();
        while state.pipe_bytes >= PIPE_BYTES && state.phase != Phase::Failed {
            let waited = self.drained.wait_timeout(state, Duration::from_millis(200));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !look() {
                return Err(Gone);
            }
        }
        if state.phase == Phase::Failed {
            return Err(Gone);
        }
        state.pipe_bytes += bytes.len();
        state.pipe.push_back(bytes.to_vec());
        Ok(())
    }

    /// Up to about `max` bytes for its socket; `Ok(None)` if there is nothing to send now. `read`
    /// reads the stream.
    ///
    /// # Errors
    /// If its connection is to be closed.
    pub(crate) fn fill(
        &self,
        max: usize,
        read: impl Fn(u64, usize) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, &'static str> {
        // Whoever appends from here on wakes the loop again.
        self.is_idle.store(true, SeqCst);
        let mut state = self.state();
        if let Some(mut bytes) = state.pipe.pop_front() {
            while let Some(next) = state.pipe.front()
                && bytes.len() + next.len() <= max
            {
                bytes.extend_from_slice(next);
                state.pipe.pop_front();
            }
            state.pipe_bytes -= bytes.len();
            drop(state);
            self.drained.notify_all();
            return Ok(Some(bytes));
        }
        match state.phase {
            Phase::Online(offset) => {
                let bytes = read(offset, max).ok_or("it is too far behind")?;
                let sent = offset + bytes.len() as u64;
                state.phase = Phase::Online(sent);
                self.sent.store(sent, SeqCst);
                Ok((!bytes.is_empty()).then_some(bytes))
            }
            Phase::Failed => Err("its synchronisation has failed"),
            Phase::Loading(offset) | Phase::Sync(Some(offset)) => {
                read(offset, 0).ok_or("it is too far behind, still loading")?;
                Ok(None)
            }
            Phase::Greeting | Phase::Sync(None) | Phase::Sent => Ok(None),
        }
    }

    /// True, once, if its loop is to be told that there is more.
    pub(crate) fn takes_wake(&self) -> bool {
        self.is_idle.load(SeqCst) && self.is_idle.swap(false, SeqCst)
    }
}
