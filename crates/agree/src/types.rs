//! The names of what openraft is told to agree about.

use openraft::{EntryPayload, LogId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of a member. It belongs to a data directory: a directory that was wiped gets another.
pub(crate) type Id = u64;

/// Where a member is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// The address of its agreement port.
    pub(crate) address: String,
    /// The address that its clients connect to.
    pub(crate) client: String,
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (clients: {})", self.address, self.client)
    }
}

/// A leadership: its term and who leads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Epoch {
    /// Raft's term.
    pub(crate) term: u64,
    /// The leader's number.
    pub(crate) leader: u64,
}

impl Epoch {
    /// The leadership in which the entry `log_id` was appended.
    pub(crate) fn of(log_id: &LogId<Id>) -> Self {
        Epoch { term: log_id.leader_id.term, leader: log_id.leader_id.node_id }
    }
}

/// What an entry of the log does: writes whose outcome is decided, as `effects` encodes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Effects {
    /// The leadership in which they were computed. In another they are void.
    pub(crate) epoch: Epoch,
    /// The encoded batch.
    pub(crate) bytes: Vec<u8>,
}

/// What a snapshot is while it is on its way.
pub(crate) enum SnapshotData {
    /// The state at one moment, to be streamed.
    Here(Arc<dyn silica::engine::Snapshot>),
    /// A keyspace that a leader's stream was loaded into.
    Loaded,
    /// Nothing: what the log already holds.
    Empty,
}

impl std::fmt::Debug for SnapshotData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SnapshotData::Here(_) => "Here",
            SnapshotData::Loaded => "Loaded",
            SnapshotData::Empty => "Empty",
        })
    }
}

openraft::declare_raft_types!(
    /// The types of our group.
    pub(crate) Types:
        D = Effects,
        R = bool,
        NodeId = u64,
        Node = Member,
        SnapshotData = SnapshotData,
);

pub(crate) type Entry = openraft::Entry<Types>;
pub(crate) type Payload = EntryPayload<Types>;
pub(crate) type Vote = openraft::Vote<Id>;
pub(crate) type LogIdOf = LogId<Id>;
pub(crate) type Membership = openraft::StoredMembership<Id, Member>;
pub(crate) type Meta = openraft::SnapshotMeta<Id, Member>;
pub(crate) type StorageError = openraft::StorageError<Id>;
pub(crate) type Raft = openraft::Raft<Types>;
