//! The log and the vote, in a keyspace of the ordered engine.
//!
//! Entries are values by their index, so the engine's write-ahead log is the log, its group commit
//! the sync, and a crash leaves what the engine promises: a batch as a whole or not at all.
//!
//! Invariants:
//!
//! 1. What `append` and `save_vote` have acknowledged was synced before.
//! 2. Entries are consecutive: from the one behind the last purged up to the last.
//! 3. A vote and an entry are never reordered: the engine's log has one order, and each call has
//!    written before it returns.
//! 4. The mark `applied` is written when all effects up to it are synced in the database. So what
//!    is behind it can be applied again: effects are absolute, and their order is the log's.
//! 5. The leader's lease ends before a vote for somebody else is noted.
//! 6. A leadership ends with its process: its term and leader name one set of locks.
//! 7. Entries up to `applied` alone are purged.
//!
//! The bytes are described in docs/formats/agreement.md.

use crate::effects::{Reader, damaged};
use crate::lease::Lease;
use crate::types::{Effects, Entry, Epoch, Id, LogIdOf, Membership, Payload};
use crate::types::{StorageError, Types, Vote};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    AnyError, CommittedLeaderId, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogReader,
    StorageIOError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use silica::engine::{
    Durability, Engine, EngineExt, EntryRef, Error, ErrorKind, GetSink, KeyRange, Result,
    WriteBatch,
};
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

const ENTRY: u8 = b'e';
const VOTE: &[u8] = b"vote";
const COMMITTED: &[u8] = b"committed";
const PURGED: &[u8] = b"purged";
const APPLIED: &[u8] = b"applied";
const IDENTITY: &[u8] = b"identity";

const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// Bytes of entries that one message to a follower carries; at least one entry goes.
const BYTES_AT_ONCE: usize = 4 << 20;

/// The log of a member.
#[derive(Clone)]
pub(crate) struct LogStore(Arc<Inner>);

struct Inner {
    engine: Arc<dyn Engine>,
    ends: Mutex<Ends>,
    /// Ends before a vote for somebody else is noted.
    lease: OnceLock<Arc<Lease>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    purged: Option<LogIdOf>,
    last: Option<LogIdOf>,
    /// Bytes of entries that were appended since the last call of [`LogStore::take_appended`].
    appended: u64,
}

/// How far the database is, durably.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Applied {
    pub(crate) last: Option<LogIdOf>,
    pub(crate) membership: Membership,
}

/// Who this member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Identity {
    /// Its number.
    pub(crate) id: Id,
    /// The group's number, once it is in one.
    pub(crate) group: Option<u64>,
}

fn key_of(index: u64) -> [u8; 9] {
    let mut key = [ENTRY; 9];
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

/// An entry as bytes.
pub(crate) fn encode_entry(entry: &Entry) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let Epoch { term, leader } = Epoch::of(&entry.log_id);
    for number in [term, leader, entry.log_id.index] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    match &entry.payload {
        Payload::Blank => out.push(BLANK),
        Payload::Normal(effects) => {
            out.push(NORMAL);
            out.extend_from_slice(&effects.epoch.term.to_le_bytes());
            out.extend_from_slice(&effects.epoch.leader.to_le_bytes());
            out.extend_from_slice(&effects.bytes);
        }
        Payload::Membership(membership) => {
            out.push(MEMBERSHIP);
            out.extend_from_slice(&json(membership)?);
        }
    }
    Ok(out)
}

/// The entry that `bytes` encode.
///
/// # Errors
/// `Corruption` if these are not the bytes of an entry.
pub(crate) fn decode_entry(bytes: &[u8]) -> Result<Entry> {
    let mut reader = Reader(bytes);
    let (term, leader, index) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let log_id = LogId::new(CommittedLeaderId::new(term, leader), index);
    let payload = match reader.take(1)?[0] {
        BLANK => Payload::Blank,
        NORMAL => {
            let epoch = Epoch { term: reader.u64()?, leader: reader.u64()? };
            Payload::Normal(Effects { epoch, bytes: reader.0.to_vec() })
        }
        MEMBERSHIP => Payload::Membership(parse(reader.0)?),
        _ => return Err(damaged()),
    };
    Ok(Entry { log_id, payload })
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::new(ErrorKind::Config, e.to_string()))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|_| damaged())
}

/// What openraft is told of an engine's error.
pub(crate) fn storage(verb: ErrorVerb, error: &Error) -> StorageError {
    let what = AnyError::error(error.to_string());
    StorageIOError::new(ErrorSubject::Store, verb, what).into()
}

impl LogStore {
    /// The log in `engine`, which must be ordered and have nothing else in it.
    pub(crate) fn open(engine: Arc<dyn Engine>) -> Result<Self> {
        let store =
            LogStore(Arc::new(Inner { engine, ends: Mutex::default(), lease: OnceLock::new() }));
        let purged: Option<LogIdOf> = store.read(PURGED)?.flatten();
        let last = store.last_entry()?.or(purged);
        *store.ends() = Ends { purged, last, appended: 0 };
        Ok(store)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the leadership that member `id` had when its process ended: openraft would go on with
    /// it, and effects that the old process had under way would meet those of the new one, which
    /// knows nothing of them. So the member is what it would be if it had just begun an election.
    pub(crate) fn end_leadership(&self, id: Id) -> Result<()> {
        let vote: Option<Vote> = self.read(VOTE)?;
        match vote {
            Some(vote) if vote.leader_id.node_id == id => {
                self.save(VOTE, &Vote::new(vote.leader_id.term + 1, id), Durability::Synced)
            }
            _ => Ok(()),
        }
    }

    /// Lets `lease` end before a vote for somebody else is noted.
    pub(crate) fn guard(&self, lease: Arc<Lease>) {
        let _ = self.0.lease.set(lease);
    }

    fn last_entry(&self) -> Result<Option<LogIdOf>> {
        let lacks = || Error::new(ErrorKind::Config, "the agreement's log needs an ordered engine");
        let ordered = Arc::clone(&self.0.engine).as_ordered().ok_or_else(lacks)?;
        let mut iterator = ordered.snapshot()?.iterate(&KeyRange::prefix(&[ENTRY]))?;
        if !iterator.seek_to_last()? {
            return Ok(None);
        }
        decode_entry(iterator.entry().value).map(|entry| Some(entry.log_id))
    }

    fn read<T: DeserializeOwned>(&self, name: &[u8]) -> Result<Option<T>> {
        self.0.engine.get(name)?.map(|bytes| parse(&bytes)).transpose()
    }

    fn save<T: Serialize>(&self, name: &[u8], value: &T, durability: Durability) -> Result<()> {
        let bytes = json(value)?;
        self.0.engine.put(name, &bytes, durability)
    }

    /// How far the database is, durably.
    pub(crate) fn applied(&self) -> Result<Applied> {
        Ok(self.read(APPLIED)?.unwrap_or_default())
    }

    /// Notes how far the database is; all of it was synced before.
    pub(crate) fn set_applied(&self, applied: &Applied) -> Result<()> {
        self.save(APPLIED, applied, Durability::Synced)
    }

    /// Who this member is, if that was decided.
    pub(crate) fn identity(&self) -> Result<Option<Identity>> {
        self.read(IDENTITY)
    }

    /// Notes who this member is.
    pub(crate) fn set_identity(&self, identity: &Identity) -> Result<()> {
        self.save(IDENTITY, identity, Durability::Synced)
    }

    /// Bytes of entries that were appended since the last call.
    pub(crate) fn take_appended(&self) -> u64 {
        std::mem::take(&mut self.ends().appended)
    }

    /// The index of the last entry, and of the last purged one.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let ends = *self.ends();
        let index = |id: Option<LogIdOf>| id.map_or(0, |id| id.index);
        (index(ends.last), index(ends.purged))
    }

    /// Entries from `start` up to `end`, as many as fit into `bytes_max` bytes; one at least.
    fn entries(&self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<Entry>> {
        let ends = *self.ends();
        let last = ends.last.map_or(0, |last| last.index + 1);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut at = start.max(ends.purged.map_or(0, |purged| purged.index + 1));
        while at < end.min(last) && (entries.is_empty() || bytes < bytes_max) {
            let keys: Vec<_> = (at..end.min(last).min(at + 16)).map(key_of).collect();
            let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let mut found = Found(vec![None; names.len()]);
            self.0.engine.get_many(&names, &mut found)?;
            for value in found.0 {
                let Some(value) = value else {
                    // A log that was never cut may begin behind index 0.
                    if !entries.is_empty() {
                        return Ok(entries);
                    }
                    at += 1;
                    continue;
                };
                if !entries.is_empty() && bytes + value.len() > bytes_max {
                    return Ok(entries);
                }
                bytes += value.len();
                entries.push(decode_entry(&value)?);
                at += 1;
            }
        }
        Ok(entries)
    }

    fn append_all(&self, entries: impl IntoIterator<Item = Entry>) -> Result<()> {
        let mut encoded = Vec::new();
        let mut last = None;
        for entry in entries {
            encoded.push((key_of(entry.log_id.index), encode_entry(&entry)?));
            last = Some(entry.log_id);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in &encoded {
            batch.put(key, value);
        }
        self.0.engine.write(&batch, Durability::Synced)?;
        let bytes: usize = encoded.iter().map(|(_, value)| value.len()).sum();
        let mut ends = self.ends();
        ends.last = last.or(ends.last);
        ends.appended += bytes as u64;
        Ok(())
    }

    fn truncate_from(&self, index: u64) -> Result<()> {
        let (lower, upper) = (key_of(index), [ENTRY + 1]);
        let mut batch = WriteBatch::new();
        batch.delete_range(&lower, Some(&upper));
        self.0.engine.write(&batch, Durability::Synced)?;
        let last = self.last_entry()?;
        let mut ends = self.ends();
        ends.last = last.or(ends.purged);
        Ok(())
    }

    fn purge_to(&self, log_id: LogIdOf) -> Result<()> {
        let (lower, upper) = (key_of(0), key_of(log_id.index + 1));
        let purged = json(&Some(log_id))?;
        let mut batch = WriteBatch::new();
        batch.delete_range(&lower, Some(&upper)).put(PURGED, &purged);
        self.0.engine.write(&batch, Durability::Buffered)?;
        let mut ends = self.ends();
        ends.purged = Some(log_id);
        ends.last = ends.last.max(Some(log_id));
        Ok(())
    }
}

/// The values of a burst of gets.
pub(crate) struct Found(pub(crate) Vec<Option<Vec<u8>>>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.value.to_vec());
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> std::result::Result<Vec<Entry>, StorageError> {
        let start = match range.start_bound() {
            Bound::Included(at) => *at,
            Bound::Excluded(at) => at + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(at) => at + 1,
            Bound::Excluded(at) => *at,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(start, end, usize::MAX).map_err(|e| storage(ErrorVerb::Read, &e))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> std::result::Result<Vec<Entry>, StorageError> {
        self.entries(start, end, BYTES_AT_ONCE).map_err(|e| storage(ErrorVerb::Read, &e))
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> std::result::Result<LogState<Types>, StorageError> {
        let Ends { purged, last, .. } = *self.ends();
        Ok(LogState { last_purged_log_id: purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> std::result::Result<(), StorageError> {
        self.0.lease.get().into_iter().for_each(|lease| lease.voted(vote));
        self.save(VOTE, vote, Durability::Synced).map_err(|e| storage(ErrorVerb::Write, &e))
    }

    async fn read_vote(&mut self) -> std::result::Result<Option<Vote>, StorageError> {
        self.read(VOTE).map_err(|e| storage(ErrorVerb::Read, &e))
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogIdOf>,
    ) -> std::result::Result<(), StorageError> {
        let saved = self.save(COMMITTED, &committed, Durability::Buffered);
        saved.map_err(|e| storage(ErrorVerb::Write, &e))
    }

    async fn read_committed(&mut self) -> std::result::Result<Option<LogIdOf>, StorageError> {
        Ok(self.read(COMMITTED).map_err(|e| storage(ErrorVerb::Read, &e))?.flatten())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> std::result::Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let written = self.append_all(entries);
        let told = match &written {
            Ok(()) => Ok(()),
            Err(error) => Err(std::io::Error::other(error.to_string())),
        };
        callback.log_io_completed(told);
        written.map_err(|e| storage(ErrorVerb::Write, &e))
    }

    async fn truncate(&mut self, log_id: LogIdOf) -> std::result::Result<(), StorageError> {
        self.truncate_from(log_id.index).map_err(|e| storage(ErrorVerb::Write, &e))
    }

    async fn purge(&mut self, log_id: LogIdOf) -> std::result::Result<(), StorageError> {
        self.purge_to(log_id).map_err(|e| storage(ErrorVerb::Write, &e))
    }
}
