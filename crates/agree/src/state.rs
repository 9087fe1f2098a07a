//! The state machine: entries of the log become writes of the database.
//!
//! Invariants:
//!
//! 1. An entry takes effect if it was computed in the leadership that appended it, and never else:
//!    all members see the same two numbers and decide alike.
//! 2. Effects are absolute and applied in the order of the log. So applying a stretch of the log
//!    again, from an earlier point to its end, leaves what was there.
//! 3. What is applied is buffered; [`LogStore::set_applied`] names what is synced, and a restart
//!    applies the log from there.

use crate::database::Database;
use crate::effects;
use crate::log_store::{Applied, LogStore, storage};
use crate::types::{Entry, Epoch, LogIdOf, Member, Membership, Meta, Payload, SnapshotData};
use crate::types::{StorageError, Types};
use openraft::storage::RaftStateMachine;
use openraft::{ErrorVerb, OptionalSend, RaftSnapshotBuilder, Snapshot, StoredMembership};
use silica::engine::{Durability, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How far the state machine is, for those who ask.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    epoch: Mutex<Epoch>,
    pub(crate) index: AtomicU64,
    /// Snapshots that were taken over from a leader.
    pub(crate) installed: AtomicU64,
}

impl Progress {
    /// The leadership of the last entry that was applied.
    pub(crate) fn epoch(&self) -> Epoch {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, log_id: Option<LogIdOf>) {
        let Some(log_id) = log_id else { return };
        self.index.store(log_id.index, Ordering::Release);
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = Epoch::of(&log_id);
    }
}

/// The state machine of a member.
pub(crate) struct State {
    database: Arc<Database>,
    log: LogStore,
    applied: Applied,
    progress: Arc<Progress>,
}

impl State {
    pub(crate) fn open(
        database: Arc<Database>,
        log: LogStore,
        progress: Arc<Progress>,
    ) -> Result<Self> {
        let applied = log.applied()?;
        Ok(State { database, log, applied, progress })
    }

    fn apply_one(&mut self, entry: &Entry) -> Result<bool> {
        let mut took_effect = true;
        match &entry.payload {
            Payload::Blank => {}
            Payload::Normal(normal) => {
                took_effect = normal.epoch == Epoch::of(&entry.log_id);
                let batch = effects::decode(&normal.bytes)?;
                if took_effect && !batch.is_empty() {
                    self.database.engine().write(&batch, Durability::Buffered)?;
                }
            }
            Payload::Membership(membership) => {
                let log_id = Some(entry.log_id);
                self.applied.membership = StoredMembership::new(log_id, membership.clone());
            }
        }
        self.applied.last = Some(entry.log_id);
        Ok(took_effect)
    }

    fn meta(applied: &Applied) -> Meta {
        let snapshot_id = applied.last.map_or("0".to_string(), |last| last.to_string());
        Meta { last_log_id: applied.last, last_membership: applied.membership.clone(), snapshot_id }
    }

    fn install(&mut self, meta: &Meta, data: SnapshotData) -> Result<()> {
        match data {
            SnapshotData::Here(snapshot) => {
                self.database.load(snapshot)?;
                self.database.adopt()?;
            }
            SnapshotData::Loaded => self.database.adopt()?,
            SnapshotData::Empty => {}
        }
        let membership: StoredMembership<u64, Member> = meta.last_membership.clone();
        self.applied = Applied { last: meta.last_log_id, membership };
        self.log.set_applied(&self.applied)?;
        self.progress.set(self.applied.last);
        self.progress.installed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Makes what was applied durable, which is all that a snapshot takes here.
pub(crate) struct Builder {
    database: Arc<Database>,
    log: LogStore,
    applied: Applied,
}

impl RaftSnapshotBuilder<Types> for Builder {
    async fn build_snapshot(&mut self) -> std::result::Result<Snapshot<Types>, StorageError> {
        let synced = self.database.engine().sync();
        let noted = synced.and_then(|()| self.log.set_applied(&self.applied));
        noted.map_err(|e| storage(ErrorVerb::Write, &e))?;
        let snapshot = Box::new(SnapshotData::Empty);
        Ok(Snapshot { meta: State::meta(&self.applied), snapshot })
    }
}

impl RaftStateMachine<Types> for State {
    type SnapshotBuilder = Builder;

    async fn applied_state(
        &mut self,
    ) -> std::result::Result<(Option<LogIdOf>, Membership), StorageError> {
        Ok((self.applied.last, self.applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> std::result::Result<Vec<bool>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        for entry in entries {
            let answer = self.apply_one(&entry).map_err(|e| {
                log::error!("entry {} cannot be applied: {e}", entry.log_id);
                storage(ErrorVerb::Write, &e)
            })?;
            answers.push(answer);
        }
        self.progress.set(self.applied.last);
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let (database, log) = (Arc::clone(&self.database), self.log.clone());
        Builder { database, log, applied: self.applied.clone() }
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> std::result::Result<Box<SnapshotData>, StorageError> {
        Ok(Box::new(SnapshotData::Empty))
    }

    async fn install_snapshot(
        &mut self,
        meta: &Meta,
        snapshot: Box<SnapshotData>,
    ) -> std::result::Result<(), StorageError> {
        self.install(meta, *snapshot).map_err(|e| storage(ErrorVerb::Write, &e))
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> std::result::Result<Option<Snapshot<Types>>, StorageError> {
        let durable = self.log.applied().map_err(|e| storage(ErrorVerb::Read, &e))?;
        if durable.last.is_none() {
            return Ok(None);
        }
        // As it is now: nobody applies while this runs.
        let here = self.database.snapshot().map_err(|e| storage(ErrorVerb::Read, &e))?;
        let snapshot = Box::new(SnapshotData::Here(here));
        Ok(Some(Snapshot { meta: State::meta(&self.applied), snapshot }))
    }
}
