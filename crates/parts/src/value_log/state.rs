//! What a manifest says of a value log.

use std::collections::BTreeMap;

/// The segments that live, and what is known of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Segments that live, ascending.
    pub segments: Vec<u32>,
    /// Number of the next segment; none is used twice.
    pub next: u32,
    /// Bytes of segments that nothing points to, as far as noted.
    pub dead: BTreeMap<u32, u64>,
}

impl Default for State {
    fn default() -> Self {
        State { segments: Vec::new(), next: 1, dead: BTreeMap::new() }
    }
}

impl State {
    /// Segment `number` was created.
    pub fn add(&mut self, number: u32) {
        self.segments.push(number);
        self.next = self.next.max(number.saturating_add(1));
    }

    /// Segment `number` is not needed any more.
    pub fn release(&mut self, number: u32) {
        self.segments.retain(|n| *n != number);
        self.dead.remove(&number);
    }

    /// Nothing points to so many bytes of these segments.
    pub fn set_dead(&mut self, dead: &[(u32, u64)]) {
        let lives = |(number, _): &&(u32, u64)| self.segments.contains(number);
        self.dead.extend(dead.iter().filter(lives).copied());
    }

    /// Nothing points into the segments any more.
    pub fn all_dead(&mut self) {
        self.dead = silica_base::compact_map(self.segments.iter().map(|n| (*n, u64::MAX)));
    }

    /// What of `dead` the manifest does not say yet.
    pub fn news_of(&self, dead: Vec<(u32, u64)>) -> Vec<(u32, u64)> {
        let is_new = |(number, bytes): &(u32, u64)| self.dead.get(number) != Some(bytes);
        dead.into_iter().filter(is_new).collect()
    }
}
