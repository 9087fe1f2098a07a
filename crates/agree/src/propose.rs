//! Effects on their way into the log: those that wait at the same time share an entry.

use crate::core::Core;
use crate::types::{Effects, Epoch};
use silica::engine::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// Bytes of effects that share an entry; a larger batch has one of its own.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Entries that are under way at the same time: one is synced while the next one is collected.
const ENTRIES_UNDER_WAY: usize = 2;

/// How long a write waits after its server was told to stop, at least.
const PATIENCE: Duration = Duration::from_secs(2);

/// Effects that wait for an entry, and who waits for them.
pub(crate) struct Proposal {
    epoch: Epoch,
    bytes: Vec<u8>,
    done: mpsc::Sender<Result<()>>,
}

/// Hands effects to the log.
#[derive(Clone)]
pub(crate) struct Proposer {
    pub(crate) queue: UnboundedSender<Proposal>,
    pub(crate) core: Arc<Core>,
}

fn stopped() -> Error {
    Error::new(ErrorKind::Busy, "UNCERTAIN: the member stops; the write may take effect or not")
}

impl Proposer {
    /// Waits until `bytes` are applied on this member, and so in the logs of a majority.
    ///
    /// # Errors
    /// `Busy` if another member leads: the message says whether nothing was written or nobody
    /// knows.
    pub(crate) fn propose(&self, epoch: Epoch, bytes: Vec<u8>) -> Result<()> {
        let (done, answer) = mpsc::channel();
        self.queue.send(Proposal { epoch, bytes, done }).map_err(|_| stopped())?;
        // Before the outcome is known nobody else may write these keys here. So there is no time
        // limit, but for a server that stops: it begins no other write.
        loop {
            let is_last = self.core.leaving.load(Ordering::Acquire);
            match answer.recv_timeout(PATIENCE) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) if !is_last => {}
                Err(_) => return Err(stopped()),
            }
        }
    }
}

/// Takes proposals and makes entries of them, until nobody proposes any more.
pub(crate) async fn run(core: Arc<Core>, mut queue: UnboundedReceiver<Proposal>) {
    let room = Arc::new(Semaphore::new(ENTRIES_UNDER_WAY));
    let mut next = None;
    loop {
        let Some(first) = (match next.take() {
            Some(proposal) => Some(proposal),
            None => queue.recv().await,
        }) else {
            return;
        };
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let mut effects = Effects { epoch: first.epoch, bytes: first.bytes };
        let mut waiting = vec![first.done];
        while let Ok(proposal) = queue.try_recv() {
            let bytes = effects.bytes.len() + proposal.bytes.len();
            if proposal.epoch != effects.epoch || bytes > ENTRY_BYTES_MAX {
                next = Some(proposal);
                break;
            }
            effects.bytes.extend_from_slice(&proposal.bytes);
            waiting.push(proposal.done);
        }
        let core = Arc::clone(&core);
        tokio::spawn(async move {
            let outcome = write(&core, effects).await;
            drop(permit);
            for done in waiting {
                // Whoever asked may be gone.
                let _ =
                    done.send(outcome.clone().map_err(|text| Error::new(ErrorKind::Busy, text)));
            }
        });
    }
}

async fn write(core: &Core, effects: Effects) -> std::result::Result<(), String> {
    let raft = core.raft().ok_or("the member is about to start; nothing was written")?;
    match raft.client_write(effects).await {
        Ok(written) if written.data => Ok(()),
        Ok(_) => Err("another member led in between; nothing was written".into()),
        Err(error) => {
            log::debug!("an entry's outcome is unknown: {error}");
            Err("UNCERTAIN: another member leads now; the write may take effect or not".into())
        }
    }
}
