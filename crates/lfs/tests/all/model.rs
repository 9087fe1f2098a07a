//! A tree in memory that does what the file system should do, scripts of calls for both, and a
//! picture of a tree to compare.

use silica_base::Prng;
use silica_device::blocks::Geometry;
use silica_device::sim::{SimFlash, SimFlashOptions};
use silica_lfs::{
    Allocation, Fault, FlashGround, Ground, Kind, Lfs, LfsOptions, LfsResult, Make, ROOT, Rename,
    Time, XattrMode,
};
use std::collections::BTreeMap;

pub(crate) type Sim = Lfs<FlashGround<SimFlash>>;

/// Blocks of flash kept back.
pub(crate) const KEPT_BACK: u32 = 4;

pub(crate) fn geometry(blocks: u32) -> Geometry {
    Geometry { channels: 2, luns: 2, blocks, pages: 16, page_bytes: 1024, spare_bytes: 0 }
}

pub(crate) fn flash(seed: u64, blocks: u32) -> SimFlash {
    SimFlash::new(seed, SimFlashOptions::flash(geometry(blocks)))
}

pub(crate) fn at(seconds: i64) -> Time {
    Time { seconds, nanoseconds: 0 }
}

pub(crate) fn create(flash: &SimFlash) -> Sim {
    let ground = FlashGround::open(flash.clone(), KEPT_BACK).unwrap();
    Lfs::create(ground, 7, (0, 0), at(0)).unwrap()
}

pub(crate) fn open(flash: &SimFlash) -> LfsResult<Sim> {
    Lfs::open(FlashGround::open(flash.clone(), KEPT_BACK)?, LfsOptions::default())
}

pub(crate) fn make(kind: Kind) -> Make<'static> {
    let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
    Make { kind, mode, uid: 0, gid: 0, rdev: 0, target: b"" }
}

/// Extended attributes by name.
type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a tree looks like from outside: by path what is there.
pub(crate) type Picture = BTreeMap<String, Item>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) what: What,
    pub(crate) links: u32,
    pub(crate) xattrs: Xattrs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    File(Vec<u8>),
    Directory,
    Symlink(Vec<u8>),
}

pub(crate) fn picture<G: Ground>(lfs: &Lfs<G>) -> Picture {
    let mut picture = Picture::new();
    let mut todo = vec![(String::new(), ROOT)];
    while let Some((path, ino)) = todo.pop() {
        let (attributes, _) = lfs.attributes(ino).unwrap();
        let what = match attributes.kind {
            Kind::Directory => {
                let mut from = 0;
                loop {
                    let listed = lfs.list(ino, from, 3).unwrap();
                    let Some(last) = listed.last() else { break };
                    from = last.next;
                    for entry in listed {
                        let name = String::from_utf8(entry.name).unwrap();
                        todo.push((format!("{path}/{name}"), entry.ino));
                    }
                }
                What::Directory
            }
            Kind::Symlink => What::Symlink(lfs.target(ino).unwrap()),
            _ => {
                let mut bytes = vec![1; attributes.size as usize + 5];
                let read = lfs.read(ino, 0, &mut bytes).unwrap();
                bytes.truncate(read);
                What::File(bytes)
            }
        };
        let xattr = |name: Vec<u8>| {
            let value = lfs.xattr(ino, &name).unwrap();
            (name, value)
        };
        let xattrs = lfs.xattrs(ino).unwrap().into_iter().map(xattr).collect();
        picture.insert(path, Item { what, links: attributes.links, xattrs });
    }
    picture
}

/// A call by paths.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Make(String, Kind),
    Write(String, u64, Vec<u8>),
    Append(String, Vec<u8>),
    Truncate(String, u64),
    Allocate(String, u64, u64, Allocation),
    Rename(String, String, Rename),
    Link(String, String),
    Remove(String),
    Xattr(String, Vec<u8>),
    Sync,
}

fn split(path: &str) -> (&str, &[u8]) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    (parent, name.as_bytes())
}

fn find<G: Ground>(lfs: &Lfs<G>, path: &str) -> LfsResult<u64> {
    path.split('/').skip(1).try_fold(ROOT, |ino, name| lfs.lookup(ino, name.as_bytes()))
}

pub(crate) fn do_call<G: Ground>(lfs: &Lfs<G>, call: &Call, now: Time) -> LfsResult<()> {
    match call {
        Call::Make(path, kind) => {
            let (parent, name) = split(path);
            let target: &[u8] = if *kind == Kind::Symlink { b"target" } else { b"" };
            lfs.make(find(lfs, parent)?, name, &Make { target, ..make(*kind) }, now).map(drop)
        }
        Call::Write(path, offset, bytes) => {
            lfs.write(find(lfs, path)?, Some(*offset), bytes, now).map(drop)
        }
        Call::Append(path, bytes) => lfs.write(find(lfs, path)?, None, bytes, now).map(drop),
        Call::Truncate(path, size) => lfs.truncate(find(lfs, path)?, *size, now),
        Call::Allocate(path, offset, len, how) => {
            lfs.allocate(find(lfs, path)?, *offset, *len, *how, now)
        }
        Call::Rename(from, to, how) => {
            let ((from, from_name), (to, to_name)) = (split(from), split(to));
            lfs.rename((find(lfs, from)?, from_name), (find(lfs, to)?, to_name), *how, now)
        }
        Call::Link(from, to) => {
            let (parent, name) = split(to);
            lfs.link(find(lfs, from)?, find(lfs, parent)?, name, now)
        }
        Call::Remove(path) => {
            let (parent, name) = split(path);
            let parent = find(lfs, parent)?;
            match lfs.unlink(parent, name, now) {
                Err(Fault::IsDirectory) => lfs.remove_directory(parent, name, now),
                result => result,
            }
        }
        Call::Xattr(path, value) => {
            lfs.set_xattr(find(lfs, path)?, b"user.x", value, XattrMode::Any, now)
        }
        Call::Sync => lfs.sync(),
    }
}

/// The tree in memory: inodes by number, names by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    items: BTreeMap<u64, (What, Xattrs)>,
    names: BTreeMap<String, u64>,
    next: u64,
}

impl Model {
    pub(crate) fn new() -> Self {
        let mut model = Model::default();
        model.add("", What::Directory);
        model
    }

    fn add(&mut self, path: &str, what: What) {
        self.items.insert(self.next, (what, BTreeMap::new()));
        self.names.insert(path.to_string(), self.next);
        self.next += 1;
    }

    fn parent_is_there(&self, path: &str) -> bool {
        self.is_directory(path.rsplit_once('/').unwrap().0)
    }

    fn is_directory(&self, path: &str) -> bool {
        let ino = self.names.get(path);
        ino.is_some_and(|ino| self.items[ino].0 == What::Directory)
    }

    fn children(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        self.names.keys().filter(|name| name.starts_with(&prefix)).cloned().collect()
    }

    fn file(&mut self, path: &str) -> Option<&mut Vec<u8>> {
        match self.items.get_mut(self.names.get(path)?) {
            Some((What::File(bytes), _)) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn picture(&self) -> Picture {
        let item = |(path, ino): (&String, &u64)| {
            let (what, xattrs) = self.items[ino].clone();
            let links = match what {
                What::Directory => {
                    let below = self.children(path);
                    let own = |child: &&String| {
                        self.is_directory(child) && child.rsplit_once('/').unwrap().0 == path
                    };
                    2 + below.iter().filter(own).count() as u32
                }
                _ => self.names.values().filter(|other| *other == ino).count() as u32,
            };
            (path.clone(), Item { what, links, xattrs })
        };
        self.names.iter().map(item).collect()
    }

    /// Does a call. False if it has to be refused.
    pub(crate) fn call(&mut self, call: &Call) -> bool {
        match call {
            Call::Make(path, kind) => {
                if self.names.contains_key(path) || !self.parent_is_there(path) {
                    return false;
                }
                let what = match kind {
                    Kind::Directory => What::Directory,
                    Kind::Symlink => What::Symlink(b"target".to_vec()),
                    _ => What::File(Vec::new()),
                };
                self.add(path, what);
                true
            }
            Call::Write(path, offset, bytes) => {
                let Some(file) = self.file(path) else { return false };
                put(file, *offset as usize, bytes);
                true
            }
            Call::Append(path, bytes) => {
                self.file(path).map(|file| file.extend_from_slice(bytes)).is_some()
            }
            Call::Truncate(path, size) => {
                self.file(path).map(|file| file.resize(*size as usize, 0)).is_some()
            }
            Call::Allocate(path, offset, len, how) => {
                let Some(file) = self.file(path) else { return false };
                let (from, to) = (*offset as usize, (offset + len) as usize);
                let keeps = match how {
                    Allocation::Punch => true,
                    Allocation::Promise { keeps_size } | Allocation::Zero { keeps_size } => {
                        *keeps_size
                    }
                };
                if !keeps {
                    let len = file.len().max(to);
                    file.resize(len, 0);
                }
                if !matches!(how, Allocation::Promise { .. }) {
                    let len = file.len();
                    file[from.min(len)..to.min(len)].fill(0);
                }
                true
            }
            Call::Rename(from, to, how) => self.rename(from, to, *how),
            Call::Link(from, to) => {
                let Some(ino) = self.names.get(from).copied() else { return false };
                let is_free = !self.names.contains_key(to) && self.parent_is_there(to);
                if self.is_directory(from) || !is_free {
                    return false;
                }
                self.names.insert(to.clone(), ino);
                true
            }
            Call::Remove(path) => {
                self.children(path).is_empty() && self.names.remove(path).is_some()
            }
            Call::Xattr(path, value) => {
                let Some(ino) = self.names.get(path) else { return false };
                let xattrs = &mut self.items.get_mut(ino).unwrap().1;
                xattrs.insert(b"user.x".to_vec(), value.clone());
                true
            }
            Call::Sync => true,
        }
    }

    fn rename(&mut self, from: &str, to: &str, how: Rename) -> bool {
        let Some(ino) = self.names.get(from).copied() else { return false };
        let lies_within =
            |path: &str, in_: &str| format!("{path}/").starts_with(&format!("{in_}/"));
        let replaced = self.names.get(to).copied();
        let into = to.rsplit_once('/').unwrap().0;
        if !self.parent_is_there(to) || self.is_directory(from) && lies_within(into, from) {
            return false;
        }
        match (how, replaced) {
            (Rename::Replace, Some(other)) if other == ino => return true,
            (Rename::Replace, Some(_)) => {
                let fits = self.is_directory(from) == self.is_directory(to);
                if !fits || !self.children(to).is_empty() {
                    return false;
                }
            }
            (Rename::NoReplace, Some(_)) | (Rename::Exchange, None) => return false,
            (Rename::Exchange, Some(_)) => {
                let back = from.rsplit_once('/').unwrap().0;
                if self.is_directory(to) && lies_within(back, to) {
                    return false;
                }
            }
            (_, None) => {}
        }
        let mut take = |path: &str| -> Vec<(String, u64)> {
            let mut gone = self.children(path);
            gone.push(path.to_string());
            let rest = |name: String| {
                let ino = self.names.remove(&name).unwrap_or(u64::MAX);
                (name[path.len()..].to_string(), ino)
            };
            gone.into_iter().map(rest).filter(|(_, ino)| *ino != u64::MAX).collect()
        };
        let (moved, other) = (take(from), take(to));
        self.names.extend(moved.into_iter().map(|(rest, ino)| (format!("{to}{rest}"), ino)));
        if how == Rename::Exchange {
            self.names.extend(other.into_iter().map(|(rest, ino)| (format!("{from}{rest}"), ino)));
        }
        true
    }
}

fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if !bytes.is_empty() {
        let len = file.len().max(offset + bytes.len());
        file.resize(len, 0);
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// A call drawn from a seed: few names, so that calls meet.
pub(crate) fn draw(prng: &mut Prng, size_max: u64) -> Call {
    const NAMES: [&str; 10] =
        ["/a", "/b", "/c", "/d", "/d/a", "/d/b", "/d/e", "/d/e/x", "/f", "/f/y"];
    let name = |prng: &mut Prng| NAMES[prng.below(NAMES.len() as u64) as usize].to_string();
    let path = name(prng);
    let bytes = |prng: &mut Prng| {
        let mut bytes = vec![0; 1 + prng.below(3000) as usize];
        prng.fill(&mut bytes);
        bytes
    };
    let keeps_size = prng.one_in(2);
    match prng.below(24) {
        0..=2 => Call::Make(path, Kind::File),
        3 | 4 => Call::Make(path, Kind::Directory),
        5 => Call::Make(path, Kind::Symlink),
        6..=9 => Call::Write(path, prng.below(size_max), bytes(prng)),
        10..=12 => Call::Append(path, bytes(prng)),
        13 => Call::Truncate(path, prng.below(size_max)),
        14 => {
            let how = match prng.below(3) {
                0 => Allocation::Punch,
                1 => Allocation::Zero { keeps_size },
                _ => Allocation::Promise { keeps_size },
            };
            Call::Allocate(path, prng.below(size_max), 1 + prng.below(5000), how)
        }
        15 | 16 => Call::Rename(path, name(prng), Rename::Replace),
        17 => Call::Rename(path, name(prng), Rename::Exchange),
        18 => Call::Link(path, name(prng)),
        19 | 20 => Call::Remove(path),
        21 => Call::Xattr(path, bytes(prng)),
        _ => Call::Sync,
    }
}
