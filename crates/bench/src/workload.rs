//! What a benchmark does: kinds of operations and their shares.

mod table;

use crate::distribution::Distribution;
use crate::generator::{Layout, Shape, Sizes};
use crate::target::Abilities;
use silica::engine::unknown;
use silica::{Error, ErrorKind, Result};
pub(crate) use table::REPLAY;
pub use table::WORKLOADS;

/// A named mix of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it is, in one line.
    pub doc: &'static str,
    /// The tool's or the paper's benchmark that it reproduces.
    pub source: &'static str,
    /// Percent of gets of existing keys.
    pub reads: u8,
    /// Percent of gets of missing keys.
    pub misses: u8,
    /// Percent of puts of existing keys.
    pub updates: u8,
    /// Percent of puts of new keys.
    pub inserts: u8,
    /// Percent of reads followed by a put of the same key.
    pub modifies: u8,
    /// Percent of deletes; keys are deleted one after the other.
    pub deletes: u8,
    /// Percent of scans that begin at an existing key.
    pub scans: u8,
    /// Entries of a scan, from the least to the most, all numbers alike.
    pub scan_entries: (u32, u32),
    /// The distribution where none is given.
    pub distribution: Distribution,
    /// The sizes where none are given.
    pub shape: Shape,
    /// How the sizes of values spread.
    pub sizes: Sizes,
    /// How keys follow from their indexes.
    pub layout: Layout,
    /// It starts with an empty store.
    pub from_empty: bool,
    /// One thread does everything but the reads and the others read, instead of every thread doing
    /// the mix.
    pub split_roles: bool,
    /// With [`Workload::split_roles`]: the run ends with the readers, not with the writer.
    pub readers_end: bool,
    /// A get that finds nothing is followed by a put of the key, as clients of caches do.
    pub read_through: bool,
    /// Operations a second (of the writer where roles are split) where none are given; 0 means as
    /// many as possible.
    pub rate: u64,
}

impl Workload {
    /// The workload `name`; the error lists those there are.
    pub fn find(name: &str) -> Result<&'static Workload> {
        let named = |w: &&Workload| w.name == name || w.aliases.contains(&name);
        let found = WORKLOADS.iter().find(named);
        found.ok_or_else(|| unknown("workload", name, WORKLOADS.iter().map(|w| w.name)))
    }

    /// True where it starts with an empty store.
    pub fn is_fill(&self) -> bool {
        self.from_empty
    }

    /// Refuses a store that lacks what the workload does.
    pub fn check_abilities(&self, abilities: Abilities) -> Result<()> {
        let missing = if self.scans > 0 && !abilities.scan {
            "scans keys in order"
        } else if self.deletes > 0 && !abilities.delete {
            "deletes keys"
        } else {
            return Ok(());
        };
        let message = format!("{} {missing}, which this store does not do", self.name);
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Percent of gets in a run with split roles.
    pub(crate) fn gets(&self) -> u8 {
        self.reads + self.misses
    }

    /// True where it puts keys that exist already.
    pub(crate) fn overwrites(&self) -> bool {
        self.updates > 0 || self.modifies > 0
    }

    /// True where a scan may meet what another thread is writing.
    pub(crate) fn writes(&self) -> bool {
        self.overwrites() || self.inserts > 0 || self.deletes > 0
    }

    /// The kind of operation that each draw of `0..100` stands for.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let read = if self.read_through { Kind::Fetch } else { Kind::Read };
        let shares = [
            (self.reads, read),
            (self.misses, Kind::Miss),
            (self.updates, Kind::Update),
            (self.inserts, Kind::Insert),
            (self.modifies, Kind::Modify),
            (self.deletes, Kind::Delete),
            (self.scans, Kind::Scan),
        ];
        shares.iter().flat_map(|(share, kind)| vec![*kind; usize::from(*share)]).collect()
    }
}

/// One kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// A read, and a put of the same key where it is not there.
    Fetch,
    Miss,
    Update,
    Insert,
    Modify,
    Delete,
    Scan,
}

impl Kind {
    /// True where it only asks for keys, as far as they are there.
    pub(crate) fn is_get(self) -> bool {
        matches!(self, Kind::Read | Kind::Fetch | Kind::Miss)
    }

    /// True where it asks for a key that should be there.
    pub(crate) fn asks_existing(self) -> bool {
        matches!(self, Kind::Read | Kind::Fetch | Kind::Modify)
    }

    /// True where it may need a value to put.
    pub(crate) fn has_value(self) -> bool {
        self.is_put() || self == Kind::Fetch
    }

    /// True where it puts.
    pub(crate) fn is_put(self) -> bool {
        matches!(self, Kind::Update | Kind::Insert | Kind::Modify)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn shares_add_up_and_names_are_unique() {
        let mut names = BTreeSet::new();
        for w in WORKLOADS {
            let expected = if w.split_roles { 200 } else { 100 };
            assert_eq!(w.kinds().len(), expected, "{}", w.name);
            assert!(names.insert(w.name) && w.aliases.iter().all(|a| names.insert(a)));
            assert!(!w.doc.is_empty() && !w.source.is_empty(), "{}", w.name);
            assert_eq!(Workload::find(w.name).unwrap().name, w.name);
            assert!(w.shape.key_bytes >= w.layout.key_bytes_min(), "{}", w.name);
            assert!(w.scans == 0 || w.scan_entries.0 > 0, "{}", w.name);
        }
        assert_eq!(Workload::find("fillrandom").unwrap().name, "fillrandom");
        assert_eq!(Workload::find("readrandom").unwrap().name, "read");
        assert_eq!(Workload::find("ycsb-d").unwrap().kinds()[96], Kind::Insert);
        assert_eq!(Workload::find("ycsb-f").unwrap().kinds()[50], Kind::Modify);
        assert_eq!(Workload::find("facebook-get").unwrap().kinds()[0], Kind::Fetch);
        let unknown = Workload::find("ycsb-g").unwrap_err().to_string();
        assert!(unknown.contains("ycsb-e"), "{unknown}");
    }

    #[test]
    fn a_store_without_the_ability_is_refused_by_name() {
        let scans = Workload::find("ycsb-e").unwrap();
        let none = Abilities::default();
        let refused = scans.check_abilities(none).unwrap_err().to_string();
        assert!(refused.contains("ycsb-e scans"), "{refused}");
        assert!(scans.check_abilities(Abilities { scan: true, ..none }).is_ok());
        let deletes = Workload::find("turbohash-delete").unwrap();
        assert!(deletes.check_abilities(none).unwrap_err().to_string().contains("deletes"));
        assert!(deletes.check_abilities(Abilities { delete: true, ..none }).is_ok());
    }
}
