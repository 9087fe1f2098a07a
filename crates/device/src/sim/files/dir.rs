//! Simulated directories: the names now, the names on the medium, and what lies between.

use super::node::Node;
use silica_base::Prng;
use std::collections::BTreeMap;
use std::sync::Arc;

type Names = BTreeMap<String, Arc<Node>>;

/// A directory.
#[derive(Default)]
pub(super) struct Dir {
    pub(super) live: Names,
    durable: Names,
    pending: Vec<NameOp>,
    /// Subdirectories by name: indexes of the world's directories. Durable from their creation.
    pub(super) subdirs: BTreeMap<String, usize>,
    /// A sync failed, so no later one may succeed.
    pub(super) poisoned: bool,
}

/// A change of names that is not durable yet.
enum NameOp {
    /// A creation or a link.
    Add(String, Arc<Node>),
    Rename(String, String, Arc<Node>),
    Remove(String),
}

impl NameOp {
    /// Applies the operation as a whole, whether or not those before it were applied.
    fn apply(self, names: &mut Names) {
        match self {
            NameOp::Add(name, node) => {
                names.insert(name, node);
            }
            NameOp::Rename(from, to, node) => {
                if names.get(&from).is_some_and(|there| Arc::ptr_eq(there, &node)) {
                    names.remove(&from);
                }
                names.insert(to, node);
            }
            NameOp::Remove(name) => {
                names.remove(&name);
            }
        }
    }
}

impl Dir {
    pub(super) fn add(&mut self, name: &str, node: Arc<Node>) {
        self.live.insert(name.to_string(), node.clone());
        self.pending.push(NameOp::Add(name.to_string(), node));
    }

    /// Renames; the file that lost its name, if any.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> Option<Arc<Node>> {
        let node = self.live.remove(from).expect("the caller looked it up");
        let replaced = self.live.insert(to.to_string(), node.clone());
        self.pending.push(NameOp::Rename(from.to_string(), to.to_string(), node));
        replaced
    }

    /// Removes; the file that lost its name.
    pub(super) fn remove(&mut self, name: &str) -> Option<Arc<Node>> {
        let node = self.live.remove(name)?;
        self.pending.push(NameOp::Remove(name.to_string()));
        Some(node)
    }

    pub(super) fn sync(&mut self) {
        for op in self.pending.drain(..) {
            op.apply(&mut self.durable);
        }
    }

    /// Leaves the names that a power cut leaves: all pending operations, none, a prefix, or
    /// (unless they are kept in order) any of them.
    pub(super) fn cut(&mut self, rng: &mut Prng, in_order: bool) {
        let count = self.pending.len() as u64;
        let kept = match rng.below(8) {
            _ if count == 0 => 0,
            0 => count,
            1 => 0,
            _ => rng.below(count + 1),
        };
        let any = !in_order && rng.one_in(2);
        for (i, op) in self.pending.drain(..).enumerate() {
            let keep = if any { rng.below(count) < kept } else { (i as u64) < kept };
            if keep {
                op.apply(&mut self.durable);
            }
        }
        self.live = self.durable.clone();
        self.poisoned = false;
    }

    /// A copy whose files are those that `copy` gives.
    pub(super) fn duplicate(&self, copy: &mut impl FnMut(&Arc<Node>) -> Arc<Node>) -> Dir {
        let mut names = |names: &Names| -> Names {
            names.iter().map(|(name, node)| (name.clone(), copy(node))).collect()
        };
        let (live, durable) = (names(&self.live), names(&self.durable));
        let pending = self.pending.iter().map(|op| match op {
            NameOp::Add(name, node) => NameOp::Add(name.clone(), copy(node)),
            NameOp::Rename(from, to, node) => NameOp::Rename(from.clone(), to.clone(), copy(node)),
            NameOp::Remove(name) => NameOp::Remove(name.clone()),
        });
        Dir {
            live,
            durable,
            pending: pending.collect(),
            subdirs: self.subdirs.clone(),
            poisoned: self.poisoned,
        }
    }
}
