//! The leader's lease: how long no other member can be elected.
//!
//! A member that accepts a leader's message votes for nobody else for the length of a lease
//! (openraft's `leader_lease`, which is the longest election timeout). So if a majority has
//! accepted messages that were sent at a time t or later, nobody else leads before t plus that
//! length. Here it is cut by a tenth, for clocks that run at different speeds.

use crate::types::{Epoch, Id, Vote};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is known of a member's lease.
pub(crate) struct Lease {
    own: Id,
    length: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    epoch: Epoch,
    /// When the message was sent that each member has accepted last.
    accepted: BTreeMap<Id, Instant>,
    /// The voters; two sets while they change.
    configs: Vec<BTreeSet<Id>>,
    until: Option<Instant>,
}

/// The leadership that a vote is for.
pub(crate) fn epoch_of(vote: &Vote) -> Epoch {
    Epoch { term: vote.leader_id.term, leader: vote.leader_id.node_id }
}

impl Lease {
    pub(crate) fn new(own: Id, length: Duration) -> Self {
        Lease { own, length: length * 9 / 10, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The voters are these.
    pub(crate) fn set_voters(&self, configs: Vec<BTreeSet<Id>>) {
        self.inner().configs = configs;
    }

    /// A member has accepted a message that was sent at `sent` in the leadership of `vote`.
    pub(crate) fn accepted(&self, vote: &Vote, by: Id, sent: Instant) {
        let epoch = epoch_of(vote);
        let mut inner = self.inner();
        if epoch < inner.epoch || epoch.leader != self.own {
            return;
        }
        if epoch > inner.epoch {
            *inner =
                Inner { epoch, configs: std::mem::take(&mut inner.configs), ..Inner::default() };
        }
        let last = inner.accepted.entry(by).or_insert(sent);
        *last = (*last).max(sent);
        self.count(&mut inner, Instant::now());
    }

    /// This member is about to note `vote`. If that is for somebody else, or anew for itself, no
    /// lease is left: a leader that votes for another one knows it before anybody else does.
    pub(crate) fn voted(&self, vote: &Vote) {
        let epoch = epoch_of(vote);
        let mut inner = self.inner();
        if epoch > inner.epoch {
            *inner =
                Inner { epoch, configs: std::mem::take(&mut inner.configs), ..Inner::default() };
        }
    }

    /// This member leads, by `vote`: alone it needs nobody's answer.
    pub(crate) fn leads(&self, vote: &Vote) {
        let is_alone = self.inner().configs.iter().all(|config| config.len() <= 1);
        if is_alone {
            self.accepted(vote, self.own, Instant::now());
        }
    }

    fn count(&self, inner: &mut Inner, now: Instant) {
        let of_config = |config: &BTreeSet<Id>| {
            let sent = |id: &Id| match *id == self.own {
                true => Some(now),
                false => inner.accepted.get(id).copied(),
            };
            let mut all: Vec<Instant> = config.iter().filter_map(sent).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            // The moment since which a majority has heard of this leader.
            all.get(config.len() / 2).copied()
        };
        let since = inner.configs.iter().map(of_config).min().flatten();
        let until = since.map(|since| since + self.length);
        inner.until = inner.until.max(until);
    }

    /// The leadership in which this member may answer now, if it may.
    pub(crate) fn held(&self) -> Option<Epoch> {
        let inner = self.inner();
        inner.until.filter(|until| Instant::now() < *until).map(|_| inner.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::Vote;

    #[test]
    fn a_majority_of_each_set_of_voters_gives_it() {
        let lease = Lease::new(1, Duration::from_secs(3600));
        let (old, new) = (BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 4, 5]));
        lease.set_voters(vec![old.clone()]);
        let vote = Vote::new_committed(3, 1);
        assert_eq!(lease.held(), None);
        lease.accepted(&vote, 4, Instant::now());
        assert_eq!(lease.held(), None, "4 is no voter");
        lease.accepted(&vote, 2, Instant::now());
        assert_eq!(lease.held(), Some(Epoch { term: 3, leader: 1 }));
        lease.set_voters(vec![old, new]);
        lease.accepted(&Vote::new_committed(4, 1), 2, Instant::now());
        assert_eq!(lease.held(), None, "a new leadership, and one majority of two");
        lease.accepted(&Vote::new_committed(4, 1), 5, Instant::now());
        assert_eq!(lease.held(), Some(Epoch { term: 4, leader: 1 }));
        lease.accepted(&Vote::new_committed(3, 1), 3, Instant::now());
        assert_eq!(lease.held(), Some(Epoch { term: 4, leader: 1 }), "the old one is over");
    }

    #[test]
    fn who_votes_for_another_has_none() {
        let lease = Lease::new(1, Duration::from_secs(3600));
        lease.set_voters(vec![BTreeSet::from([1, 2, 3])]);
        let vote = Vote::new_committed(3, 1);
        lease.accepted(&vote, 2, Instant::now());
        assert!(lease.held().is_some());
        lease.voted(&vote);
        assert!(lease.held().is_some(), "its own leadership");
        lease.voted(&Vote::new(4, 3));
        assert_eq!(lease.held(), None);
        lease.accepted(&vote, 2, Instant::now());
        assert_eq!(lease.held(), None, "a late answer of the old leadership");
    }

    #[test]
    fn it_ends() {
        let lease = Lease::new(1, Duration::from_millis(20));
        lease.set_voters(vec![BTreeSet::from([1, 2])]);
        let sent = Instant::now() - Duration::from_millis(50);
        lease.accepted(&Vote::new_committed(1, 1), 2, sent);
        assert_eq!(lease.held(), None, "what counts is when the message was sent");
    }
}
