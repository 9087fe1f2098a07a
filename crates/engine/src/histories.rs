//! Which histories of changes a store has had, and which of their points are good in the newest.
//!
//! Invariants:
//!
//! 1. A history is joined to the one before it where what that one wrote has survived. A reader of
//!    an older history may go on if its point is not behind any later joint.
//! 2. Joints never go back: a later one has at least what an earlier one had.
//! 3. A history's own batches lie behind its `first`. Up to there its numbers mean nothing of its
//!    own: what a reader has at such a point is what had survived.

use crate::ChangePoint;

/// Histories that are remembered. A reader that slept through more openings begins anew.
pub const HISTORIES_MAX: usize = 64;

/// Where a history begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLink {
    /// Its id, which no other history of any store has.
    pub history: u64,
    /// It has all that the history before it has, up to this sequence number.
    pub joined: u64,
    /// The store's sequence number when it began.
    pub first: u64,
}

/// The histories of a store, the oldest first: one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histories(Vec<HistoryLink>);

impl Histories {
    /// One history that begins at `sequence` and goes on from no other.
    pub fn new(history: u64, sequence: u64) -> Self {
        Histories(vec![HistoryLink { history, joined: sequence, first: sequence }])
    }

    /// The histories of `links`, the oldest first; `None` without any. Joints that go back, which
    /// only damage makes, are passed over with all before them.
    pub fn of(links: &[HistoryLink]) -> Option<Self> {
        let is_back = |pair: &[HistoryLink]| pair[1].joined < pair[0].joined;
        let whole = links.windows(2).rposition(is_back).map_or(links, |at| &links[at + 1..]);
        (!whole.is_empty()).then(|| Histories(whole.to_vec()))
    }

    /// The newest history.
    pub fn newest(&self) -> &HistoryLink {
        self.0.last().expect("there is one at least")
    }

    /// All that the oldest has: no batch before it is of any of these histories.
    pub fn oldest_joined(&self) -> u64 {
        self.0[0].joined
    }

    /// The sequence number that `point` has in the newest history; `None` if it is of none of
    /// these, or if what is before it did not survive.
    pub fn place_of(&self, point: ChangePoint) -> Option<u64> {
        let index = self.0.iter().rposition(|link| link.history == point.history)?;
        let link = &self.0[index];
        let has_own = point.sequence > link.first;
        // In the newest history `first` is where its snapshots are, and nothing lies between.
        let is_newest = index + 1 == self.0.len();
        let place = match has_own || is_newest {
            true => point.sequence,
            false => point.sequence.min(link.joined),
        };
        self.0.get(index + 1).is_none_or(|next| place <= next.joined).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(history: u64, joined: u64, first: u64) -> HistoryLink {
        HistoryLink { history, joined, first }
    }

    fn place(histories: &Histories, history: u64, sequence: u64) -> Option<u64> {
        histories.place_of(ChangePoint { history, sequence })
    }

    #[test]
    fn a_point_is_good_up_to_the_next_joint() {
        // A power cut took what history 7 had behind 150; the log goes on at 200.
        let histories =
            Histories::of(&[link(7, 100, 100), link(8, 150, 200), link(9, 230, 300)]).unwrap();
        assert_eq!(place(&histories, 7, 100), Some(100));
        assert_eq!(place(&histories, 7, 150), Some(150));
        assert_eq!(place(&histories, 7, 151), None, "it has what was lost");
        assert_eq!(place(&histories, 7, 190), None);
        assert_eq!(place(&histories, 8, 150), Some(150));
        assert_eq!(place(&histories, 8, 200), Some(150), "a snapshot at the opening");
        assert_eq!(place(&histories, 8, 230), Some(230));
        assert_eq!(place(&histories, 8, 231), None);
        assert_eq!(place(&histories, 9, 300), Some(300));
        assert_eq!(place(&histories, 9, 999), Some(999));
        assert_eq!(place(&histories, 6, 100), None, "nobody knows that one");
    }

    #[test]
    fn openings_without_writes_leave_points_good() {
        let histories =
            Histories::of(&[link(1, 10, 64), link(2, 40, 64), link(3, 40, 64)]).unwrap();
        assert_eq!(place(&histories, 1, 64), Some(10));
        assert_eq!(place(&histories, 2, 64), Some(40));
        assert_eq!(place(&histories, 2, 65), None, "a batch of its own, which is lost");
    }

    #[test]
    fn joints_that_go_back_are_not_believed() {
        let histories = Histories::of(&[link(1, 50, 50), link(2, 40, 60), link(3, 70, 80)]);
        let histories = histories.unwrap();
        assert_eq!((place(&histories, 1, 50), histories.oldest_joined()), (None, 40));
        assert_eq!(Histories::of(&[]), None);
    }
}
