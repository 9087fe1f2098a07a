//! All inodes, and what records do to them.

use crate::extents::{Run, UNWRITTEN};
use crate::node::{Attributes, Body, Directory, Ino, Kind, Node, Time};
use crate::record::Record;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Parts of the table that are locked apart.
const SHARDS: usize = 64;

/// An inode under a lock of its own.
pub(crate) type Shared = Arc<RwLock<Node>>;

/// All inodes by number.
#[derive(Debug)]
pub(crate) struct Inodes {
    shards: Vec<RwLock<BTreeMap<Ino, Shared>>>,
}

pub(crate) fn read(node: &Shared) -> RwLockReadGuard<'_, Node> {
    node.read().expect("no panic while locked")
}

pub(crate) fn write(node: &Shared) -> RwLockWriteGuard<'_, Node> {
    node.write().expect("no panic while locked")
}

impl Inodes {
    pub(crate) fn new(tree: Tree) -> Self {
        let inodes = Inodes { shards: (0..SHARDS).map(|_| RwLock::default()).collect() };
        for (ino, node) in tree.nodes {
            inodes.insert(ino, node);
        }
        inodes
    }

    fn shard(&self, ino: Ino) -> &RwLock<BTreeMap<Ino, Shared>> {
        &self.shards[(ino % SHARDS as u64) as usize]
    }

    pub(crate) fn get(&self, ino: Ino) -> Option<Shared> {
        self.shard(ino).read().expect("no panic while locked").get(&ino).cloned()
    }

    pub(crate) fn insert(&self, ino: Ino, node: Node) {
        let node = Arc::new(RwLock::new(node));
        self.shard(ino).write().expect("no panic while locked").insert(ino, node);
    }

    pub(crate) fn remove(&self, ino: Ino) {
        self.shard(ino).write().expect("no panic while locked").remove(&ino);
    }

    /// All inodes by number, as they are now.
    pub(crate) fn all(&self) -> Vec<(Ino, Shared)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().expect("no panic while locked");
            all.extend(shard.iter().map(|(ino, node)| (*ino, node.clone())));
        }
        silica_base::compact_sort_by_key(&mut all, |(ino, _)| *ino);
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().expect("no panic while locked").len()).sum()
    }
}

/// Inodes that are being read from the log.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<Ino, Node>,
    pub(crate) next_ino: Ino,
}

/// Attributes of an inode of which only another record was read so far.
fn unknown(kind: Kind) -> Attributes {
    let time = Time::default();
    Attributes {
        kind,
        mode: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        links: 0,
        size: 0,
        accessed: time,
        modified: time,
        changed: time,
        created: time,
    }
}

impl Tree {
    fn node(&mut self, ino: Ino, kind: Kind) -> &mut Node {
        let node = self.nodes.entry(ino).or_insert_with(|| Node::new(unknown(kind)));
        if node.attributes.kind != kind {
            *node = Node::new(unknown(kind));
        }
        node
    }

    fn directory(&mut self, ino: Ino) -> &mut Directory {
        self.node(ino, Kind::Directory).directory_mut().expect("a directory")
    }

    fn set_run(&mut self, ino: Ino, run: Run) {
        if run.count > 0 {
            self.node(ino, Kind::File).content_mut().expect("a file").extents.set(run);
        }
    }

    /// Does what a record says.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        match *record {
            Record::Attributes(ino, attributes) => {
                self.next_ino = self.next_ino.max(ino.saturating_add(1));
                self.node(ino, attributes.kind).attributes = attributes;
            }
            Record::Remove(ino) => drop(self.nodes.remove(&ino)),
            Record::Link { directory, name, ino, kind } => {
                self.directory(directory).put(name, ino, kind);
            }
            Record::Unlink { directory, name } => drop(self.directory(directory).take(name)),
            Record::Parent { directory, parent } => self.directory(directory).parent = parent,
            Record::Target(ino, target) => {
                self.node(ino, Kind::Symlink).body = Body::Symlink(target.into());
            }
            Record::Xattr { ino, name, value } => {
                let Some(node) = self.nodes.get_mut(&ino) else { return };
                match value {
                    Some(value) => drop(node.xattrs.insert(name.into(), value.into())),
                    None => drop(node.xattrs.remove(name)),
                }
            }
            Record::Map { ino, index, at, count, .. } => {
                self.set_run(ino, Run { index, at, count });
            }
            Record::Promise { ino, index, count } => {
                self.set_run(ino, Run { index, at: UNWRITTEN, count });
            }
            Record::Punch { ino, index, count } => {
                if let Some(content) = self.nodes.get_mut(&ino).and_then(Node::content_mut) {
                    content.extents.remove(index, index + count);
                }
            }
            Record::NextIno(ino) => self.next_ino = self.next_ino.max(ino),
        }
    }
}

/// Encodes records that make the inode again.
pub(crate) fn describe(ino: Ino, node: &Node, put: &mut dyn FnMut(Record<'_>)) {
    put(Record::Attributes(ino, node.attributes));
    for (name, value) in &node.xattrs {
        put(Record::Xattr { ino, name, value: Some(value) });
    }
    match &node.body {
        Body::File(content) => {
            for run in content.extents.iter() {
                let Run { index, at, count } = run;
                match at {
                    UNWRITTEN => put(Record::Promise { ino, index, count }),
                    _ => put(Record::Map { ino, index, at, count, sums: &[] }),
                }
            }
        }
        Body::Directory(directory) => {
            put(Record::Parent { directory: ino, parent: directory.parent });
            for (name, entry) in directory.list(0) {
                put(Record::Link { directory: ino, name, ino: entry.ino, kind: entry.kind });
            }
        }
        Body::Symlink(target) => put(Record::Target(ino, target)),
        Body::Other => {}
    }
}
