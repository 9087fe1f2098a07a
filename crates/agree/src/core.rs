//! What all parts of a member share.

use crate::lease::Lease;
use crate::log_store::{Identity, LogStore};
use crate::state::Progress;
use crate::stream::Tls;
use crate::types::{Epoch, Member, Raft};
use silica::engine::Result;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What all parts of a member share.
pub(crate) struct Core {
    pub(crate) member: Member,
    pub(crate) password: Vec<u8>,
    pub(crate) tls: Option<Tls>,
    pub(crate) log: LogStore,
    pub(crate) lease: Arc<Lease>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) identity: Mutex<Identity>,
    pub(crate) raft: OnceLock<Raft>,
    /// The server stops: nothing new is written, and what waits does not wait for long.
    pub(crate) leaving: AtomicBool,
    /// Addresses of members that are not reached, and why.
    pub(crate) unreached: Mutex<BTreeMap<String, String>>,
}

impl Core {
    /// Who this member is.
    pub(crate) fn identity(&self) -> Identity {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the group, for good, if it is in none.
    pub(crate) fn enter(&self, group: u64) -> Result<()> {
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if identity.group.is_none() {
            let new = Identity { group: Some(group), ..*identity };
            self.log.set_identity(&new)?;
            *identity = new;
            log::info!("member {:x} is in group {group:x}", new.id);
        }
        Ok(())
    }

    /// Notes whether the member at `address` was reached. Attempts are many, so a reason is told
    /// once.
    pub(crate) fn note_reached(&self, address: &str, failed: Option<&io::Error>) {
        let mut all = self.unreached.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.map(ToString::to_string) {
            Some(text) => {
                if all.get(address) != Some(&text) {
                    log::warn!("the member at {address} is not reached: {text}");
                    all.insert(address.to_string(), text);
                }
            }
            None => {
                if all.remove(address).is_some() {
                    log::info!("the member at {address} is reached again");
                }
            }
        }
    }

    pub(crate) fn raft(&self) -> Option<&Raft> {
        self.raft.get()
    }

    /// The leadership in which this member may read and write now: it holds the lease, and has
    /// applied all that was decided before.
    pub(crate) fn ready(&self) -> Option<Epoch> {
        let held = self.lease.held().filter(|epoch| self.progress.epoch() == *epoch);
        held.filter(|_| !self.leaving.load(Ordering::Acquire))
    }

    /// Where the leader is, if this member knows one that is not itself.
    pub(crate) fn leader(&self) -> Option<Member> {
        let metrics = self.raft()?.metrics();
        let metrics = metrics.borrow();
        let leader = metrics.current_leader.filter(|id| *id != self.identity().id)?;
        metrics.membership_config.nodes().find(|(id, _)| **id == leader).map(|(_, m)| m.clone())
    }
}
