//! Names: directories, links, renames.

use crate::core::{Lfs, Writer};
use crate::fault::{Fault, LfsResult};
use crate::ground::Ground;
use crate::node::{
    Attributes, Body, Directory, Entry, Ino, Kind, NAME_BYTES_MAX, Node, ROOT, Time,
};
use crate::record::Record;
use crate::tree::{Shared, read};

/// Names of an inode at most.
const LINKS_MAX: u32 = 1 << 24;
/// Bytes of a symbolic link's target at most, as of the system's paths.
const TARGET_BYTES_MAX: usize = 4095;
/// The set-group-id bit: what is made in such a directory has its group.
const SET_GROUP: u32 = 0o2000;

/// What is made by [`Lfs::make`].
#[derive(Debug, Clone, Copy)]
pub struct Make<'a> {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group, unless the directory gives its own.
    pub gid: u32,
    /// The device of a device file.
    pub rdev: u32,
    /// The target of a symbolic link; empty otherwise.
    pub target: &'a [u8],
}

/// How [`Lfs::rename`] treats the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// What has it is replaced.
    Replace,
    /// Nothing may have it.
    NoReplace,
    /// What has it gets the old name.
    Exchange,
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// The inode.
    pub ino: Ino,
    /// What it is.
    pub kind: Kind,
    /// Where the listing goes on behind it.
    pub next: u64,
}

fn check_name(name: &[u8]) -> LfsResult<()> {
    match name {
        b"" | b"." | b".." => Err(Fault::Invalid),
        name if name.len() > NAME_BYTES_MAX => Err(Fault::NameTooLong),
        name if name.contains(&b'/') || name.contains(&0) => Err(Fault::Invalid),
        _ => Ok(()),
    }
}

impl<G: Ground> Lfs<G> {
    fn directory(&self, ino: Ino) -> LfsResult<Shared> {
        let node = self.node(ino)?;
        let is_directory = read(&node).directory().is_some();
        if is_directory { Ok(node) } else { Err(Fault::NotDirectory) }
    }

    fn entry(&self, directory: &Shared, name: &[u8]) -> Option<Entry> {
        read(directory).directory().expect("a directory").get(name)
    }

    /// The inode of a name. Takes no lock but the directory's, shared.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`, `Stale`.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> LfsResult<Ino> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Fault::NameTooLong);
        }
        let directory = self.directory(parent)?;
        if name == b".." {
            return Ok(read(&directory).directory().expect("a directory").parent);
        }
        Ok(self.entry(&directory, name).ok_or(Fault::NotFound)?.ino)
    }

    /// Up to `max` entries from `from` on: 0, or where an earlier listing stopped. Entries that
    /// stay are listed once, whatever is added and removed meanwhile.
    ///
    /// # Errors
    /// `NotDirectory`, `Stale`.
    pub fn list(&self, ino: Ino, from: u64, max: usize) -> LfsResult<Vec<Listed>> {
        let directory = self.directory(ino)?;
        let directory = read(&directory);
        let listed = |(name, entry): (&[u8], Entry)| Listed {
            name: name.to_vec(),
            ino: entry.ino,
            kind: entry.kind,
            next: entry.cookie + 1,
        };
        Ok(directory.directory().expect("a directory").list(from).take(max).map(listed).collect())
    }

    /// The directory that a directory lies in.
    ///
    /// # Errors
    /// `NotDirectory`, `Stale`.
    pub fn parent(&self, ino: Ino) -> LfsResult<Ino> {
        let directory = self.directory(ino)?;
        Ok(read(&directory).directory().expect("a directory").parent)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` if it is none, `Stale`.
    pub fn target(&self, ino: Ino) -> LfsResult<Vec<u8>> {
        let node = self.node(ino)?;
        match &read(&node).body {
            Body::Symlink(target) => Ok(target.to_vec()),
            _ => Err(Fault::Invalid),
        }
    }

    /// Makes an inode and gives it a name.
    ///
    /// # Errors
    /// `Exists`, `NoSpace`, `NameTooLong`, `NotDirectory`, `NotFound` if the directory was
    /// removed, `Invalid`.
    pub fn make(&self, parent: Ino, name: &[u8], what: &Make<'_>, now: Time) -> LfsResult<Ino> {
        check_name(name)?;
        if what.target.len() > TARGET_BYTES_MAX {
            return Err(Fault::NameTooLong);
        }
        let directory = self.directory(parent)?;
        let mut writer = self.change()?;
        let (parent_mode, parent_gid) = self.check_takes(&directory, name)?;
        self.check_space(&writer, 1)?;
        self.make_room(&mut writer, 1)?;
        let inherits = parent_mode & SET_GROUP != 0;
        let is_directory = what.kind == Kind::Directory;
        let set_group = if inherits && is_directory { SET_GROUP } else { 0 };
        let attributes = Attributes {
            kind: what.kind,
            mode: what.mode & 0o7777 | set_group,
            uid: what.uid,
            gid: if inherits { parent_gid } else { what.gid },
            rdev: what.rdev,
            links: if is_directory { 2 } else { 1 },
            size: what.target.len() as u64,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
        };
        let ino = writer.next_ino;
        writer.next_ino += 1;
        let mut node = Node::new(attributes);
        // Records that follow speak of an inode that is there.
        writer.record(Record::Attributes(ino, attributes));
        match &mut node.body {
            Body::Directory(directory) => {
                *directory = Directory::new(parent);
                writer.record(Record::Parent { directory: ino, parent });
            }
            Body::Symlink(target) => {
                *target = what.target.into();
                writer.record(Record::Target(ino, what.target));
            }
            _ => {}
        }
        writer.weight += node.weight();
        self.inodes.insert(ino, node);
        writer.touch(ino);
        self.add_name(&mut writer, (parent, &directory), name, (ino, what.kind), now);
        Ok(ino)
    }

    /// Refuses a new name in a directory that was removed or has it. Returns the directory's mode
    /// and group.
    fn check_takes(&self, directory: &Shared, name: &[u8]) -> LfsResult<(u32, u32)> {
        let node = read(directory);
        if node.attributes.links == 0 {
            return Err(Fault::NotFound);
        }
        match node.directory().expect("a directory").get(name) {
            Some(_) => Err(Fault::Exists),
            None => Ok((node.attributes.mode, node.attributes.gid)),
        }
    }

    /// Gives an inode a name, in the place of another one of that name.
    fn add_name(
        &self,
        writer: &mut Writer,
        parent: (Ino, &Shared),
        name: &[u8],
        of: (Ino, Kind),
        now: Time,
    ) {
        let (ino, kind) = of;
        self.with(writer, parent.1, |_, node| {
            let directory = node.directory_mut().expect("a directory");
            let was = directory.get(name).map(|entry| entry.kind);
            directory.put(name, ino, kind);
            let attributes = &mut node.attributes;
            attributes.links += u32::from(kind == Kind::Directory);
            attributes.links -= u32::from(was == Some(Kind::Directory));
            (attributes.modified, attributes.changed) = (now, now);
        });
        writer.record(Record::Link { directory: parent.0, name, ino, kind });
        writer.touch(parent.0);
    }

    fn take_name(&self, writer: &mut Writer, parent: (Ino, &Shared), name: &[u8], now: Time) {
        self.with(writer, parent.1, |_, node| {
            let directory = node.directory_mut().expect("a directory");
            let was = directory.take(name).map(|entry| entry.kind);
            let attributes = &mut node.attributes;
            attributes.links -= u32::from(was == Some(Kind::Directory));
            (attributes.modified, attributes.changed) = (now, now);
        });
        writer.record(Record::Unlink { directory: parent.0, name });
        writer.touch(parent.0);
    }

    /// An inode lost a name, or a directory its only one.
    fn unlinked(&self, writer: &mut Writer, ino: Ino, now: Time) {
        let Some(node) = self.inodes.get(ino) else { return };
        let is_gone = self.with(writer, &node, |_, node| {
            let is_directory = node.attributes.kind == Kind::Directory;
            let lost = if is_directory { node.attributes.links } else { 1 };
            node.attributes.links -= lost;
            node.attributes.changed = now;
            node.attributes.links == 0 && node.holds == 0
        });
        match is_gone {
            true => self.free(writer, ino, &node),
            false => writer.touch(ino),
        }
    }

    /// Frees an inode that nobody names or holds.
    fn free(&self, writer: &mut Writer, ino: Ino, node: &Shared) {
        self.with(writer, node, |writer, node| {
            if let Some(content) = node.content_mut() {
                writer.drop_dirty(content, 0, u64::MAX);
                let gone = content.extents.remove(0, u64::MAX);
                writer.drop_runs(&gone);
            }
        });
        writer.weight -= read(node).weight();
        self.inodes.remove(ino);
        writer.touched.remove(&ino);
        writer.dirty_files.remove(&ino);
        writer.record(Record::Remove(ino));
        writer.change += 1;
    }

    /// Gives an inode one more name.
    ///
    /// # Errors
    /// `NotPermitted` for a directory; `TooManyLinks`; as [`Lfs::make`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8], now: Time) -> LfsResult<()> {
        check_name(name)?;
        let (node, directory) = (self.node(ino)?, self.directory(parent)?);
        let mut writer = self.change()?;
        self.check_takes(&directory, name)?;
        let Attributes { kind, links, .. } = read(&node).attributes;
        match (kind, links) {
            (Kind::Directory, _) => return Err(Fault::NotPermitted),
            (_, 0) => return Err(Fault::NotFound),
            (_, LINKS_MAX..) => return Err(Fault::TooManyLinks),
            _ => {}
        }
        self.check_space(&writer, 1)?;
        self.make_room(&mut writer, 1)?;
        self.with(&mut writer, &node, |_, node| {
            node.attributes.links += 1;
            node.attributes.changed = now;
        });
        writer.touch(ino);
        self.add_name(&mut writer, (parent, &directory), name, (ino, kind), now);
        Ok(())
    }

    /// Takes a name away. An inode without names is gone when nobody holds it any more.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory`, `Stale`.
    pub fn unlink(&self, parent: Ino, name: &[u8], now: Time) -> LfsResult<()> {
        let directory = self.directory(parent)?;
        let mut writer = self.change()?;
        let entry = self.entry(&directory, name).ok_or(Fault::NotFound)?;
        if entry.kind == Kind::Directory {
            return Err(Fault::IsDirectory);
        }
        self.make_room(&mut writer, 1)?;
        self.take_name(&mut writer, (parent, &directory), name, now);
        self.unlinked(&mut writer, entry.ino, now);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`, `Stale`.
    pub fn remove_directory(&self, parent: Ino, name: &[u8], now: Time) -> LfsResult<()> {
        let directory = self.directory(parent)?;
        let mut writer = self.change()?;
        let entry = self.entry(&directory, name).ok_or(Fault::NotFound)?;
        self.check_empty(&entry)?;
        self.make_room(&mut writer, 1)?;
        self.take_name(&mut writer, (parent, &directory), name, now);
        self.unlinked(&mut writer, entry.ino, now);
        Ok(())
    }

    fn check_empty(&self, entry: &Entry) -> LfsResult<()> {
        if entry.kind != Kind::Directory {
            return Err(Fault::NotDirectory);
        }
        let node = self.node(entry.ino)?;
        let entries = read(&node).directory().map_or(0, Directory::len);
        if entries == 0 { Ok(()) } else { Err(Fault::NotEmpty) }
    }

    /// Gives what has the name `from` the name `to`, as one unit: after a power cut one of them is
    /// there, and what had `to` is there as long as `from` is.
    ///
    /// # Errors
    /// `NotFound`; `Exists` if `how` forbids to replace; `Invalid` if a directory would lie in
    /// itself; `IsDirectory`, `NotDirectory`, `NotEmpty` if what has `to` cannot be replaced.
    pub fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> LfsResult<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        let (old, new) = (self.directory(from.0)?, self.directory(to.0)?);
        let mut writer = self.change()?;
        let moved = self.entry(&old, from.1).ok_or(Fault::NotFound)?;
        let replaced = self.entry(&new, to.1);
        if read(&new).attributes.links == 0 {
            return Err(Fault::NotFound);
        }
        self.check_outside(&moved, to.0)?;
        if let Some(replaced) = &replaced {
            match how {
                Rename::NoReplace => return Err(Fault::Exists),
                Rename::Exchange => self.check_outside(replaced, from.0)?,
                Rename::Replace if replaced.ino == moved.ino => return Ok(()),
                Rename::Replace => match (moved.kind, replaced.kind) {
                    (Kind::Directory, _) => self.check_empty(replaced)?,
                    (_, Kind::Directory) => return Err(Fault::IsDirectory),
                    _ => {}
                },
            }
        } else if how == Rename::Exchange {
            return Err(Fault::NotFound);
        }
        self.make_room(&mut writer, 1)?;
        let (from, to) = ((from.0, &old, from.1), (to.0, &new, to.1));
        if how == Rename::Exchange {
            let other = replaced.expect("checked above");
            self.move_name(&mut writer, from, (other.ino, other.kind), now);
            self.move_name(&mut writer, to, (moved.ino, moved.kind), now);
            return Ok(());
        }
        self.take_name(&mut writer, (from.0, from.1), from.2, now);
        self.move_name(&mut writer, to, (moved.ino, moved.kind), now);
        if let Some(replaced) = replaced {
            self.unlinked(&mut writer, replaced.ino, now);
        }
        Ok(())
    }

    /// Points a name to an inode that had another one.
    pub(crate) fn move_name(
        &self,
        writer: &mut Writer,
        to: (Ino, &Shared, &[u8]),
        of: (Ino, Kind),
        now: Time,
    ) {
        let (parent, shared, name) = to;
        self.add_name(writer, (parent, shared), name, of, now);
        let Some(node) = self.inodes.get(of.0) else { return };
        self.with(writer, &node, |writer, node| {
            node.attributes.changed = now;
            if let Some(directory) = node.directory_mut() {
                directory.parent = parent;
                writer.record(Record::Parent { directory: of.0, parent });
            }
        });
        writer.touch(of.0);
    }

    /// Refuses to move a directory into `into` if that lies in it.
    fn check_outside(&self, moved: &Entry, into: Ino) -> LfsResult<()> {
        if moved.kind != Kind::Directory {
            return Ok(());
        }
        let mut at = into;
        loop {
            if at == moved.ino {
                return Err(Fault::Invalid);
            }
            if at == ROOT {
                return Ok(());
            }
            at = self.parent(at)?;
        }
    }

    /// Holds an inode: it stays when its last name is taken away.
    ///
    /// # Errors
    /// `Stale`.
    pub fn hold(&self, ino: Ino) -> LfsResult<()> {
        let node = self.node(ino)?;
        crate::tree::write(&node).holds += 1;
        Ok(())
    }

    /// Lets go of an inode that was held so many times.
    pub fn let_go(&self, ino: Ino, times: u64) {
        let Some(node) = self.inodes.get(ino) else { return };
        let is_last = {
            let mut node = crate::tree::write(&node);
            node.holds = node.holds.saturating_sub(times);
            node.holds == 0 && node.attributes.links == 0
        };
        if !is_last {
            return;
        }
        let Ok(mut writer) = self.change() else { return };
        let is_gone = {
            let node = read(&node);
            node.holds == 0 && node.attributes.links == 0
        };
        if is_gone && self.inodes.get(ino).is_some() {
            self.free(&mut writer, ino, &node);
        }
    }
}
