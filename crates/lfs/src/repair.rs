//! Putting right what a check has found.

use crate::check::Problem;
use crate::core::{Lfs, Writer};
use crate::extents::Run;
use crate::fault::LfsResult;
use crate::ground::Ground;
use crate::names::Make;
use crate::node::{Ino, Kind, ROOT, Time};
use crate::record::Record;
use crate::tree::read;

/// The directory for inodes that have no name.
const FOUND: &[u8] = b"lost+found";
/// Rounds: what one puts right may show something else.
const ROUNDS: usize = 4;

impl<G: Ground> Lfs<G> {
    /// Checks, and puts right what can be: entries of nothing go, inodes without a name get one in
    /// `lost+found`, link counts and parents are corrected, pages that are not what was written
    /// become holes. Writes a checkpoint. Returns what was wrong.
    ///
    /// # Errors
    /// As [`Lfs::check`]; `NoSpace` if there is none for names in `lost+found`.
    pub fn repair(&self, now: Time) -> LfsResult<Vec<Problem>> {
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            let problems = self.check()?;
            if problems.is_empty() {
                break;
            }
            for problem in &problems {
                self.put_right(problem, now)?;
            }
            all.extend(problems);
        }
        let mut writer = self.change()?;
        self.checkpoint(&mut writer)?;
        Ok(all)
    }

    fn put_right(&self, problem: &Problem, now: Time) -> LfsResult<()> {
        match problem {
            Problem::Unreachable { ino } => return self.name_lost(*ino, now),
            Problem::Damaged { ino, index }
            | Problem::Outside { ino, index }
            | Problem::Overlap { ino, index } => self.lose_page(*ino, *index)?,
            Problem::Dangling { directory, name } => {
                let mut writer = self.change()?;
                let node = self.node(*directory)?;
                self.with(&mut writer, &node, |_, node| {
                    node.directory_mut().and_then(|entries| entries.take(name));
                });
                writer.record(Record::Unlink { directory: *directory, name });
                writer.touch(*directory);
            }
            Problem::Links { ino, has, .. } => {
                let mut writer = self.change()?;
                let node = self.node(*ino)?;
                self.with(&mut writer, &node, |_, node| node.attributes.links = *has);
                writer.touch(*ino);
            }
            Problem::Parent { directory } => {
                let mut writer = self.change()?;
                self.set_parent(&mut writer, *directory)?;
            }
            // Live pages are counted anew below, and a collection looks at all files where a
            // summary does not fit.
            Problem::Summary { .. } | Problem::Counts { .. } => {}
        }
        Ok(())
    }

    /// Makes the directory that has the name of another one its parent.
    fn set_parent(&self, writer: &mut Writer, directory: Ino) -> LfsResult<()> {
        for (parent, node) in self.inodes.all() {
            let names_it = {
                let node = read(&node);
                let entries = node.directory().into_iter().flat_map(|entries| entries.list(0));
                entries.map(|(_, entry)| entry.ino).any(|ino| ino == directory)
            };
            if names_it {
                let node = self.node(directory)?;
                self.with(writer, &node, |_, node| {
                    if let Some(entries) = node.directory_mut() {
                        entries.parent = parent;
                    }
                });
                writer.record(Record::Parent { directory, parent });
                writer.touch(directory);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Gives an inode a name in `lost+found`.
    fn name_lost(&self, ino: Ino, now: Time) -> LfsResult<()> {
        let what =
            Make { kind: Kind::Directory, mode: 0o700, uid: 0, gid: 0, rdev: 0, target: b"" };
        let found = match self.lookup(ROOT, FOUND) {
            Ok(found) => found,
            Err(_) => self.make(ROOT, FOUND, &what, now)?,
        };
        let kind = read(&self.node(ino)?).attributes.kind;
        let name = format!("#{ino}");
        let directory = self.node(found)?;
        let mut writer = self.change()?;
        self.move_name(&mut writer, (found, &directory, name.as_bytes()), (ino, kind), now);
        Ok(())
    }

    /// Makes a page a hole that cannot be had any more.
    fn lose_page(&self, ino: Ino, index: u64) -> LfsResult<()> {
        let node = self.node(ino)?;
        let mut writer = self.change()?;
        let gone: Vec<Run> = self.with(&mut writer, &node, |_, node| {
            let content = node.content_mut();
            content.map(|content| content.extents.remove(index, index + 1)).unwrap_or_default()
        });
        writer.drop_runs(&gone);
        writer.record(Record::Punch { ino, index, count: 1 });
        writer.change += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::LfsOptions;
    use crate::ground::FlashGround;
    use silica_device::blocks::Geometry;
    use silica_device::sim::{SimFlash, SimFlashOptions};

    fn make(kind: Kind) -> Make<'static> {
        Make { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, target: b"" }
    }

    #[test]
    fn names_counts_and_parents_are_put_right() {
        let geometry = Geometry {
            channels: 1,
            luns: 2,
            blocks: 24,
            pages: 16,
            page_bytes: 1024,
            spare_bytes: 0,
        };
        let flash = SimFlash::new(1, SimFlashOptions::flash(geometry));
        let now = Time::default();
        let ground = FlashGround::open(flash.clone(), 2).unwrap();
        let lfs = Lfs::create(ground, 1, (0, 0), now).unwrap();
        let directory = lfs.make(ROOT, b"d", &make(Kind::Directory), now).unwrap();
        let lost = lfs.make(directory, b"lost", &make(Kind::File), now).unwrap();
        let gone = lfs.make(ROOT, b"gone", &make(Kind::File), now).unwrap();
        lfs.write(lost, None, b"kept", now).unwrap();
        {
            let entries = lfs.node(directory).unwrap();
            let mut entries = crate::tree::write(&entries);
            entries.directory_mut().unwrap().take(b"lost");
            entries.directory_mut().unwrap().parent = directory;
            let root = lfs.node(ROOT).unwrap();
            crate::tree::write(&root).attributes.links = 9;
            lfs.inodes.remove(gone);
        }
        let found = lfs.check().unwrap();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.contains(&Problem::Unreachable { ino: lost }));
        assert!(found.contains(&Problem::Parent { directory }));
        assert!(found.contains(&Problem::Links { ino: ROOT, says: 9, has: 3 }));
        let name = b"gone".to_vec();
        assert!(found.contains(&Problem::Dangling { directory: ROOT, name }));
        lfs.repair(now).unwrap();
        assert_eq!(lfs.check().unwrap(), []);
        drop(lfs);
        let ground = FlashGround::open(flash.reopen(), 2).unwrap();
        let lfs = Lfs::open(ground, LfsOptions::default()).unwrap();
        assert_eq!(lfs.check().unwrap(), []);
        let found = lfs.lookup(ROOT, FOUND).unwrap();
        let ino = lfs.lookup(found, format!("#{lost}").as_bytes()).unwrap();
        let mut bytes = [0; 9];
        assert_eq!((ino, lfs.read(ino, 0, &mut bytes).unwrap()), (lost, 4));
        assert_eq!(lfs.parent(directory).unwrap(), ROOT);
    }
}
