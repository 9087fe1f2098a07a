//! What a benchmark does: kinds of operations and their shares.

use crate::generator::Distribution;
use silica::{Error, ErrorKind, Result};

/// A named mix of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
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
    /// The distribution where none is given.
    pub distribution: Distribution,
    /// One thread inserts while the others read, instead of every thread doing the mix.
    pub split_roles: bool,
}

const BASE: Workload = Workload {
    name: "",
    doc: "",
    reads: 0,
    misses: 0,
    updates: 0,
    inserts: 0,
    modifies: 0,
    distribution: Distribution::Uniform,
    split_roles: false,
};
const ZIPF: Workload = Workload { distribution: Distribution::Zipfian, ..BASE };

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload { name: "fill", doc: "puts every key once, in random order", inserts: 100, ..BASE },
    Workload { name: "overwrite", doc: "puts existing keys", updates: 100, ..BASE },
    Workload { name: "read", doc: "gets existing keys", reads: 100, ..BASE },
    Workload { name: "read-missing", doc: "gets keys that are not there", misses: 100, ..BASE },
    Workload { name: "mixed", doc: "half gets, half puts", reads: 50, updates: 50, ..BASE },
    Workload { name: "ycsb-a", doc: "half gets, half puts", reads: 50, updates: 50, ..ZIPF },
    Workload { name: "ycsb-b", doc: "95 % gets, 5 % puts", reads: 95, updates: 5, ..ZIPF },
    Workload { name: "ycsb-c", doc: "gets only", reads: 100, ..ZIPF },
    Workload {
        name: "ycsb-d",
        doc: "95 % gets of recent keys, 5 % new keys",
        reads: 95,
        inserts: 5,
        distribution: Distribution::Latest,
        ..BASE
    },
    Workload {
        name: "ycsb-f",
        doc: "half gets, half read-modify-writes",
        reads: 50,
        modifies: 50,
        ..ZIPF
    },
    Workload {
        name: "timeline",
        doc: "one thread inserts new keys while the others get existing ones",
        reads: 100,
        inserts: 100,
        split_roles: true,
        ..BASE
    },
];

impl Workload {
    /// The workload `name`; the error lists those there are.
    pub fn find(name: &str) -> Result<&'static Workload> {
        WORKLOADS.iter().find(|w| w.name == name).ok_or_else(|| {
            let names: Vec<_> = WORKLOADS.iter().map(|w| w.name).collect();
            let message = format!("no workload '{name}'; known are {}", names.join(", "));
            Error::new(ErrorKind::Config, message)
        })
    }

    /// True where it starts with an empty store.
    pub fn is_fill(&self) -> bool {
        self.name == "fill"
    }

    /// True where it puts keys that exist already.
    pub(crate) fn overwrites(&self) -> bool {
        self.updates > 0 || self.modifies > 0
    }
}

/// One kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Miss,
    Update,
    Insert,
    Modify,
}

impl Workload {
    /// The operation that a draw of `0..100` stands for.
    #[inline]
    pub(crate) fn kind(&self, percent: u64) -> Kind {
        let mut end = 0;
        for (share, kind) in [
            (self.reads, Kind::Read),
            (self.misses, Kind::Miss),
            (self.updates, Kind::Update),
            (self.inserts, Kind::Insert),
        ] {
            end += u64::from(share);
            if percent < end {
                return kind;
            }
        }
        Kind::Modify
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for w in WORKLOADS.iter().filter(|w| !w.split_roles) {
            let sum = [w.reads, w.misses, w.updates, w.inserts, w.modifies].map(u32::from);
            assert_eq!(sum.iter().sum::<u32>(), 100, "{}", w.name);
        }
        assert_eq!(Workload::find("ycsb-d").unwrap().kind(96), Kind::Insert);
        assert_eq!(Workload::find("ycsb-f").unwrap().kind(50), Kind::Modify);
        let unknown = Workload::find("ycsb-e").unwrap_err().to_string();
        assert!(unknown.contains("ycsb-d"), "{unknown}");
    }
}
