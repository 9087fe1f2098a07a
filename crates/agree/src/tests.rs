//! The log and the state machine under openraft's own suite, and under power cuts.

use crate::database::{Database, LOG_KEYSPACE};
use crate::log_store::LogStore;
use crate::state::State;
use crate::types::{Effects, Entry, Epoch, LogIdOf, Payload, StorageError, Types, Vote};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{CommittedLeaderId, LogId, RaftLogReader};
use silica_base::{HashSeed, ManualClock, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Environment, OptionValues};
use silica_wip::Wip;
use std::sync::Arc;

struct Builder;

fn open(directory: &std::path::Path) -> silica::engine::Result<(LogStore, State)> {
    let store = Arc::new(silica::OpenOptions::new().memory_bytes(64 << 20).open(directory)?);
    let database = Arc::new(Database::open(Arc::clone(&store))?);
    let keyspace = store.keyspace(LOG_KEYSPACE)?;
    let log = LogStore::open(Arc::clone(keyspace.engine()))?;
    let state = State::open(database, log.clone(), Arc::default())?;
    Ok((log, state))
}

impl StoreBuilder<Types, LogStore, State, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, State), StorageError> {
        let directory = tempfile::tempdir().expect("a directory");
        let (log, state) = open(directory.path()).expect("a store opens");
        Ok((directory, log, state))
    }
}

#[test]
fn openrafts_suite_passes() {
    Suite::test_all(Builder).expect("openraft's suite");
}

/// A log on a simulated device with limits so small that tables are written all the time.
fn log_on(device: &SimDevice) -> silica::engine::Result<LogStore> {
    let mut options = OptionValues::default();
    let limits = [
        ("memory_bytes", 96 << 10),
        ("memtable_bytes_max", 8 << 10),
        ("log_bytes_max", 32 << 10),
        ("segment_bytes", 8 << 10),
    ];
    for (name, value) in limits {
        options.set(name, value);
    }
    let clock: Arc<ManualClock> = Arc::default();
    let environment = Environment { clock, seed: HashSeed([7; 16]) };
    LogStore::open(Arc::new(Wip::open(device.clone(), &options, &environment)?))
}

fn entry(term: u64, index: u64) -> Entry {
    let log_id = LogId::new(CommittedLeaderId::new(term, 1), index);
    let bytes = vec![index as u8; (index % 7 * 60) as usize];
    let effects = Effects { epoch: Epoch { term, leader: 1 }, bytes };
    Entry { log_id, payload: Payload::Normal(effects) }
}

/// What a log must have after a cut: entries and vote as they were acknowledged, or as the step
/// that was under way would have left them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Expected {
    entries: Vec<LogIdOf>,
    vote: Option<Vote>,
}

async fn step(log: &mut LogStore, at: u64, now: &Expected) -> (Expected, Result<(), StorageError>) {
    let mut next = now.clone();
    let first = now.entries.first().map_or(0, |id| id.index);
    let last = now.entries.last().map_or(0, |id| id.index);
    let done = match at % 7 {
        3 => {
            let vote = Vote::new(at, 1);
            next.vote = Some(vote);
            log.save_vote(&vote).await
        }
        5 if last > first + 6 => {
            let from = entry(1, last - 2).log_id;
            next.entries.retain(|id| id.index < from.index);
            log.truncate(from).await
        }
        6 if last > first + 12 => {
            let to = now.entries[4];
            next.entries.retain(|id| id.index > to.index);
            log.purge(to).await
        }
        _ => {
            let entries: Vec<Entry> = (last + 1..last + 4).map(|index| entry(at, index)).collect();
            next.entries.extend(entries.iter().map(|entry| entry.log_id));
            log.blocking_append(entries).await
        }
    };
    (next, done)
}

async fn found(log: &mut LogStore) -> Expected {
    let entries = log.try_get_log_entries(0..u64::MAX).await.expect("the log is read");
    let state = log.get_log_state().await.expect("the log's ends");
    let first = state.last_purged_log_id.map_or(1, |id| id.index + 1);
    let from = log.try_get_log_entries(first..u64::MAX).await.expect("the log is read");
    assert!(entries.is_empty() || entries == from, "nothing purged is left");
    for (at, found) in from.iter().enumerate() {
        assert_eq!(found.log_id.index, first + at as u64, "a hole");
        assert_eq!(*found, entry(found.log_id.leader_id.term, found.log_id.index));
    }
    let entries = from.iter().map(|entry| entry.log_id).collect();
    Expected { entries, vote: log.read_vote().await.expect("the vote is read") }
}

/// Cuts the power at operation `cut` of a fixed script; false if the script ended before.
async fn cut_at(cut: u64, steps: u64) -> bool {
    let device = SimDevice::new(cut, SimOptions::default());
    device.cut_at_op(cut + 1);
    let (mut now, mut next) = (Expected::default(), Expected::default());
    let mut is_cut = false;
    match log_on(&device) {
        Ok(mut log) => {
            for at in 1..steps {
                let (after, done) = step(&mut log, at, &now).await;
                next = after;
                if done.is_err() {
                    is_cut = true;
                    break;
                }
                now = next.clone();
            }
        }
        Err(_) => is_cut = true,
    }
    if !is_cut {
        return false;
    }
    device.power_cut();
    let device = device.reopen();
    device.cut_at_op(u64::MAX);
    let mut log = log_on(&device).expect("the log opens after a cut");
    let found = found(&mut log).await;
    // A purge is not synced: it may be undone.
    let is = |expected: &Expected| {
        found.vote == expected.vote && found.entries.ends_with(&expected.entries)
    };
    assert!(is(&now) || is(&next), "cut at {cut}: {found:?} is neither {now:?} nor {next:?}");
    true
}

#[test]
fn acknowledged_entries_and_votes_survive_power_cuts_everywhere() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let steps = test_size(40, 90, 400);
    let mut cut = 0;
    while runtime.block_on(cut_at(cut, steps)) {
        cut += test_size(3, 1, 1);
    }
    assert!(cut > 100, "only {cut} operations");
}
