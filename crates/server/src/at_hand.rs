//! Whether to look for the answers of reads in memory before a worker is asked.

/// Bursts at most that go to workers at once before memory is tried again.
const SKIPPED_MAX: u32 = 63;

/// Tries memory as long as it pays. Where most answers are on a device, looking in memory first
/// costs a second search of the same tables, so it is tried less and less often.
#[derive(Debug, Default)]
pub(crate) struct AtHand {
    /// Bursts to be skipped after the last try.
    skipped: u32,
    /// Of these, how many are left.
    left: u32,
}

impl AtHand {
    /// True if the next burst is to be tried.
    pub(crate) fn is_worth_a_try(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Of the connections that asked, so many were answered from memory.
    pub(crate) fn note(&mut self, answered: usize, asked: usize) {
        let pays = 2 * answered >= asked;
        self.skipped = if pays { 0 } else { (2 * self.skipped + 1).min(SKIPPED_MAX) };
        self.left = self.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts until one is tried, that one included.
    fn until_a_try(at_hand: &mut AtHand) -> usize {
        (1..).find(|_| at_hand.is_worth_a_try()).unwrap_or(0)
    }

    #[test]
    fn what_is_rarely_in_memory_is_rarely_looked_for_there() {
        let mut at_hand = AtHand::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push(until_a_try(&mut at_hand));
            at_hand.note(1, 4);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64]);
        until_a_try(&mut at_hand);
        at_hand.note(2, 4);
        assert_eq!(until_a_try(&mut at_hand), 1, "it pays again");
    }
}
