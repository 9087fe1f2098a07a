//! Attributes, extended attributes, and what the file system says of itself.

use crate::core::Lfs;
use crate::fault::{Fault, LfsResult};
use crate::ground::Ground;
use crate::node::{Attributes, Ino, NAME_BYTES_MAX, Time};
use crate::record::Record;
use crate::tree::read;

/// Bytes of an extended attribute's value at most, if segments are large enough.
pub const XATTR_BYTES_MAX: usize = 64 << 10;
const MODE_BITS: u32 = 0o7777;
const CAPABILITIES: &[u8] = b"security.capability";

/// Attributes to be changed; `None` stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// Of the last read.
    pub accessed: Option<Time>,
    /// Of the last change of the contents.
    pub modified: Option<Time>,
}

/// How [`Lfs::set_xattr`] treats one that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrMode {
    /// It may be there or not.
    Any,
    /// It must not be there.
    Create,
    /// It must be there.
    Replace,
}

/// Space, in pages and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Pages that files can have in all.
    pub pages: u64,
    /// Pages that are free.
    pub free_pages: u64,
    /// Inodes that exist.
    pub inodes: u64,
    /// Segments that are free, and usable ones.
    pub free_segments: u32,
    /// Segments that can be held at all.
    pub segments: u32,
    /// Segments kept back for collection.
    pub over_provisioned: u32,
}

impl<G: Ground> Lfs<G> {
    /// Attributes of an inode, and the pages that it takes.
    ///
    /// # Errors
    /// `Stale`.
    pub fn attributes(&self, ino: Ino) -> LfsResult<(Attributes, u64)> {
        let node = self.node(ino)?;
        let node = read(&node);
        let waits = |c: &crate::node::Content| {
            c.dirty.keys().filter(|index| c.extents.get(**index).is_none()).count() as u64
        };
        let pages = node.content().map_or(0, |content| content.extents.pages() + waits(content));
        Ok((node.attributes, pages))
    }

    /// Changes attributes. Whether the caller may is for the caller to check.
    ///
    /// # Errors
    /// `Stale`; `NoSpace` cannot happen.
    pub fn change_attributes(&self, ino: Ino, to: &Changes, now: Time) -> LfsResult<()> {
        let shared = self.node(ino)?;
        let mut writer = self.change()?;
        self.make_room(&mut writer, 1)?;
        self.with(&mut writer, &shared, |_, node| {
            let of = &mut node.attributes;
            of.mode = to.mode.unwrap_or(of.mode) & MODE_BITS;
            of.uid = to.uid.unwrap_or(of.uid);
            of.gid = to.gid.unwrap_or(of.gid);
            of.accessed = to.accessed.unwrap_or(of.accessed);
            of.modified = to.modified.unwrap_or(of.modified);
            of.changed = now;
        });
        writer.touch(ino);
        Ok(())
    }

    /// Takes away what privileges a file gives: set-user-id, set-group-id if the group may execute
    /// it, and its capabilities. For writes and changes of owner by those who may not keep them,
    /// which the caller knows.
    ///
    /// # Errors
    /// `Stale`.
    pub fn drop_privileges(&self, ino: Ino, now: Time) -> LfsResult<()> {
        let node = self.node(ino)?;
        let (mode, has_capabilities) = {
            let node = read(&node);
            (node.attributes.mode, node.xattrs.contains_key(CAPABILITIES))
        };
        let group = if mode & 0o010 != 0 { 0o2000 } else { 0 };
        let kept = mode & !(0o4000 | group);
        if kept != mode {
            let to = Changes { mode: Some(kept), ..Changes::default() };
            self.change_attributes(ino, &to, now)?;
        }
        if has_capabilities {
            self.remove_xattr(ino, CAPABILITIES, now)?;
        }
        Ok(())
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `Stale`.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> LfsResult<Vec<u8>> {
        let node = self.node(ino)?;
        let node = read(&node);
        node.xattrs.get(name).map(|value| value.to_vec()).ok_or(Fault::NoAttribute)
    }

    /// Names of all extended attributes.
    ///
    /// # Errors
    /// `Stale`.
    pub fn xattrs(&self, ino: Ino) -> LfsResult<Vec<Vec<u8>>> {
        let node = self.node(ino)?;
        let node = read(&node);
        Ok(node.xattrs.keys().map(|name| name.to_vec()).collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute` as `mode` says; `TooLarge` for a value that a record cannot hold;
    /// `NameTooLong`, `NoSpace`, `Stale`.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: Time,
    ) -> LfsResult<()> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Fault::NameTooLong);
        }
        let segment_bytes = self.ground.segment_pages() as usize * self.page_bytes;
        if value.len() > XATTR_BYTES_MAX.min(segment_bytes / 4) {
            return Err(Fault::TooLarge);
        }
        let shared = self.node(ino)?;
        let mut writer = self.change()?;
        match (mode, read(&shared).xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Fault::Exists),
            (XattrMode::Replace, false) => return Err(Fault::NoAttribute),
            _ => {}
        }
        self.check_space(&writer, 1)?;
        self.make_room(&mut writer, 1)?;
        self.with(&mut writer, &shared, |_, node| {
            node.xattrs.insert(name.into(), value.into());
            node.attributes.changed = now;
        });
        writer.record(Record::Xattr { ino, name, value: Some(value) });
        writer.touch(ino);
        Ok(())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `Stale`.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8], now: Time) -> LfsResult<()> {
        let shared = self.node(ino)?;
        let mut writer = self.change()?;
        let was_there = self.with(&mut writer, &shared, |_, node| {
            let removed = node.xattrs.remove(name);
            if removed.is_some() {
                node.attributes.changed = now;
            }
            removed.is_some()
        });
        if !was_there {
            return Err(Fault::NoAttribute);
        }
        writer.record(Record::Xattr { ino, name, value: None });
        writer.touch(ino);
        Ok(())
    }

    /// How much space there is (`statfs`).
    pub fn usage(&self) -> Usage {
        let writer = self.lock();
        let pages = self.capacity(&writer);
        Usage {
            pages,
            free_pages: pages.saturating_sub(writer.used()),
            inodes: self.inodes.len() as u64,
            free_segments: self.ground.free(),
            segments: self.ground.usable(),
            over_provisioned: self.ground.over_provisioned(),
        }
    }
}
