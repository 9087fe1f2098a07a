//! A simulated conventional drive as a file that the kernel can put a loop device on: a file system
//! with one file, by FUSE.

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use silica::Result;
use silica_lab::figures::lfs::{SsdShape, Work};
use silica_lab::simulate::{Drive, DriveDesign};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

/// The file.
pub(super) const NAME: &str = "drive";
const ROOT: INodeNo = INodeNo(1);
const FILE: INodeNo = INodeNo(2);
/// Nothing about the file changes.
const KEPT: Duration = Duration::from_secs(3600);
/// Contents are kept by the sectors of a loop device: ext4 is looked for before its blocks are
/// known.
const PART: usize = 512;
/// What `stat` says is good to write at once.
const BLOCK_BYTES: u32 = 4096;

/// The drive, its contents and what it did.
pub(super) struct Simulated {
    drive: Drive,
    shape: SsdShape,
    /// Parts that are not zeroes.
    contents: BTreeMap<u64, Box<[u8]>>,
}

impl Simulated {
    fn bytes(&self) -> u64 {
        u64::from(self.shape.segments)
            * u64::from(self.shape.segment_pages)
            * self.shape.page_bytes as u64
    }

    /// Pages that a range touches.
    fn pages(&self, at: u64, bytes: usize) -> std::ops::Range<u32> {
        let page_bytes = self.shape.page_bytes as u64;
        (at / page_bytes) as u32..(at + bytes as u64).div_ceil(page_bytes) as u32
    }

    /// Requests do not wait for each other: each begins when its channel is free.
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let page_bytes = self.shape.page_bytes as u64;
        for page in self.pages(at, bytes.len()) {
            let begin = u64::from(page) * page_bytes;
            let is_whole = begin >= at && begin + page_bytes <= at + bytes.len() as u64;
            if !is_whole {
                self.drive.occupy(page, 0, self.shape.read_ns);
            }
            self.drive.write(page, 0);
        }
        for (number, part) in bytes.chunks(PART).enumerate() {
            let number = at / PART as u64 + number as u64;
            match part.iter().all(|byte| *byte == 0) {
                true => drop(self.contents.remove(&number)),
                false => drop(self.contents.insert(number, part.into())),
            }
        }
    }

    fn read(&mut self, at: u64, bytes: usize) -> Vec<u8> {
        for page in self.pages(at, bytes) {
            self.drive.occupy(page, 0, self.shape.read_ns);
        }
        let mut found = vec![0; bytes];
        for (number, to) in found.chunks_mut(PART).enumerate() {
            if let Some(part) = self.contents.get(&(at / PART as u64 + number as u64)) {
                to.copy_from_slice(&part[..to.len()]);
            }
        }
        found
    }
}

#[derive(Clone)]
struct Answers(Arc<Mutex<Simulated>>);

impl Answers {
    fn state(&self) -> MutexGuard<'_, Simulated> {
        self.0.lock().expect("no panic while locked")
    }

    fn attr(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, size) = match ino {
            ROOT => (FileType::Directory, 0),
            FILE => (FileType::RegularFile, self.state().bytes()),
            _ => return None,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }
}

/// True if the kernel asks for sectors, and not past the end.
fn is_aligned(at: u64, bytes: usize, end: u64) -> bool {
    at.is_multiple_of(PART as u64)
        && bytes.is_multiple_of(PART)
        && at.checked_add(bytes as u64).is_some_and(|to| to <= end)
}

impl Filesystem for Answers {
    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attr(FILE).filter(|_| name == NAME) {
            Some(attr) => reply.entry(&KEPT, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino) {
            Some(attr) => reply.attr(&KEPT, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Past the page cache: the drive is to see what the file system above it does.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        // Whoever looks what is on the device reads past its end, too.
        let size = u64::from(size).min(state.bytes().saturating_sub(offset)) as usize;
        match is_aligned(offset, 0, state.bytes()) {
            true => reply.data(&state.read(offset, size)),
            false => reply.error(Errno::EINVAL),
        }
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        if !is_aligned(offset, data.len(), state.bytes()) {
            return reply.error(Errno::EINVAL);
        }
        state.write(offset, data);
        reply.written(data.len() as u32);
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    /// The drive's buffer is safe, as with drives that have capacitors.
    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}

/// A drive that the kernel sees at [`NAME`] in a directory, until this is dropped.
pub(super) struct Served {
    answers: Answers,
    session: Option<BackgroundSession>,
}

impl Served {
    /// Mounts a new drive; `Err` within says in words what the kernel refused.
    ///
    /// # Errors
    /// `Config` for a design that does not add up.
    pub(super) fn new(
        design: DriveDesign,
        shape: SsdShape,
        directory: &Path,
    ) -> Result<io::Result<Self>> {
        let simulated = Simulated { drive: Drive::new(design)?, shape, contents: BTreeMap::new() };
        let answers = Answers(Arc::new(Mutex::new(simulated)));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("silica-drive".into()), MountOption::RW];
        let session = Session::new(answers.clone(), directory, &config).and_then(Session::spawn);
        Ok(session.map(|session| Served { answers, session: Some(session) }))
    }

    /// What it did, the time as if no request had waited for another one's channel.
    pub(super) fn work(&self) -> Work {
        let state = self.answers.state();
        let counts = state.drive.counts();
        Work {
            now_ns: state.drive.idle_from_ns(),
            flash_copies: counts.copies,
            erases: counts.erases,
            ..Work::default()
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // What stays mounted shows, and holds nothing.
            let _ = session.umount_and_join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_lab::simulate::Collection;

    #[test]
    fn a_drive_gives_back_what_was_written_and_counts_pages() {
        let design = DriveDesign {
            channels: 2,
            blocks: 8,
            pages: 8,
            logical: 32,
            collection: Collection::Greedy,
            buffer: 0,
            program_ns: 100,
            erase_ns: 1000,
        };
        let shape = SsdShape {
            page_bytes: 16384,
            segment_pages: 8,
            segments: 4,
            read_ns: 10,
            trims: false,
        };
        let drive = Drive::new(design).expect("it adds up");
        let mut drive = Simulated { drive, shape, contents: BTreeMap::new() };
        // A part of a page is read with it and written as a whole.
        drive.write(4096, &[7; 4096]);
        assert_eq!((drive.drive.counts().written, drive.drive.idle_from_ns()), (1, 110));
        let mut wanted = vec![0; 16384];
        wanted[4096..8192].fill(7);
        assert_eq!(drive.read(0, 16384), wanted);
        drive.write(0, &[0; 32768]);
        assert_eq!(drive.drive.counts().written, 3);
        assert!(drive.contents.is_empty(), "zeroes take nothing");
        assert!(is_aligned(512, 1024, drive.bytes()) && !is_aligned(1, 4096, drive.bytes()));
        assert!(!is_aligned(drive.bytes(), 4096, drive.bytes()), "past the end");
    }
}
