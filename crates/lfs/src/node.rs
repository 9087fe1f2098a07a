//! Inodes as they are in memory.

use crate::extents::Extents;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of an inode. Numbers are never used again.
pub type Ino = u64;
/// The root directory.
pub const ROOT: Ino = 1;
/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 255;

/// What kind of thing an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file with bytes.
    File = 0,
    /// A directory.
    Directory = 1,
    /// A symbolic link.
    Symlink = 2,
    /// A named pipe.
    Fifo = 3,
    /// A socket.
    Socket = 4,
    /// A character device.
    CharDevice = 5,
    /// A block device.
    BlockDevice = 6,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] = [
        Kind::File,
        Kind::Directory,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::CharDevice,
        Kind::BlockDevice,
    ];
}

/// A moment, since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds behind them, below 10⁹.
    pub nanoseconds: u32,
}

/// What `stat` tells of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, set-id bits and the sticky bit.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device that a device file stands for.
    pub rdev: u32,
    /// Names that it has; a directory counts its own `.` and those of its directories.
    pub links: u32,
    /// Bytes of a file or of a link's target.
    pub size: u64,
    /// Of the last read that was recorded; reads by themselves record none.
    pub accessed: Time,
    /// Of the last change of the contents.
    pub modified: Time,
    /// Of the last change of anything.
    pub changed: Time,
    /// When it was made.
    pub created: Time,
}

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ino: Ino,
    pub(crate) kind: Kind,
    /// Where listing goes on; rises with every entry that is added.
    pub(crate) cookie: u64,
}

/// A directory: entries by name, and by the order of listing.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) parent: Ino,
    names: BTreeMap<Arc<[u8]>, Entry>,
    order: BTreeMap<u64, Arc<[u8]>>,
    next_cookie: u64,
    /// Bytes of all names.
    name_bytes: u64,
}

impl Directory {
    pub(crate) fn new(parent: Ino) -> Self {
        Directory { parent, ..Directory::default() }
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Entry> {
        self.names.get(name).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name_bytes(&self) -> u64 {
        self.name_bytes
    }

    /// Adds an entry, or points the one that is there to another inode.
    pub(crate) fn put(&mut self, name: &[u8], ino: Ino, kind: Kind) {
        if let Some(entry) = self.names.get_mut(name) {
            (entry.ino, entry.kind) = (ino, kind);
            return;
        }
        let name: Arc<[u8]> = name.into();
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.name_bytes += name.len() as u64;
        self.order.insert(cookie, name.clone());
        self.names.insert(name, Entry { ino, kind, cookie });
    }

    pub(crate) fn take(&mut self, name: &[u8]) -> Option<Entry> {
        let entry = self.names.remove(name)?;
        self.order.remove(&entry.cookie);
        self.name_bytes -= name.len() as u64;
        Some(entry)
    }

    /// Entries from a cookie on, in the order of listing.
    pub(crate) fn list(&self, from: u64) -> impl Iterator<Item = (&[u8], Entry)> {
        self.order.range(from..).map(|(_, name)| (&**name, self.names[name]))
    }
}

/// Pages of a file, as the log has them and as they wait for it.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) extents: Extents,
    /// Pages that were written and have no place yet.
    pub(crate) dirty: BTreeMap<u64, Arc<[u8]>>,
}

/// What an inode has beside its attributes.
#[derive(Debug)]
pub(crate) enum Body {
    File(Content),
    Directory(Directory),
    Symlink(Box<[u8]>),
    Other,
}

/// An inode.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) attributes: Attributes,
    pub(crate) xattrs: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub(crate) body: Body,
    /// Lookups and openings that hold it after its last name is gone.
    pub(crate) holds: u64,
}

impl Node {
    pub(crate) fn new(attributes: Attributes) -> Self {
        let body = match attributes.kind {
            Kind::File => Body::File(Content::default()),
            Kind::Directory => Body::Directory(Directory::default()),
            Kind::Symlink => Body::Symlink(Box::default()),
            _ => Body::Other,
        };
        Node { attributes, xattrs: BTreeMap::new(), body, holds: 0 }
    }

    pub(crate) fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    pub(crate) fn content_mut(&mut self) -> Option<&mut Content> {
        match &mut self.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(crate) fn directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// Bytes that it takes in a checkpoint, about.
    pub(crate) fn weight(&self) -> u64 {
        const INODE: u64 = 80;
        const RUN: u64 = 16;
        const ENTRY: u64 = 12;
        let xattrs: usize = self.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let body = match &self.body {
            Body::File(content) => content.extents.len() as u64 * RUN,
            Body::Directory(entries) => entries.len() as u64 * ENTRY + entries.name_bytes(),
            Body::Symlink(target) => target.len() as u64,
            Body::Other => 0,
        };
        INODE + xattrs as u64 + body
    }
}
