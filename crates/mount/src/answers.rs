//! Answers to the kernel's calls.

use crate::convert::{attr, errno, kind_of, now, time_of, type_of};
use crate::turns::Turns;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use silica_lfs::{
    Allocation, Changes, Fault, Ground, Ino, Kind, Lfs, LfsResult, Listed, Make, NAME_BYTES_MAX,
    Rename, Seek, XattrMode,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may keep what it was told: only it changes the file system.
const KEPT: Duration = Duration::from_secs(3600);
const GENERATION: Generation = Generation(0);
/// Bytes of a write at most, and read ahead.
const TRANSFER_BYTES: u32 = 1 << 20;
/// Entries of a listing that are taken at once.
const ENTRIES: usize = 128;
/// Offsets of a listing before its first entry: `.` and `..`.
const DOTS: u64 = 2;
/// Modes of `fallocate` and of `setxattr`, and what `lseek` looks for.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Extended attributes that are access control lists. The kernel would hand them on to be kept, and
/// check nothing by them: who sets one has to be told so.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// The file system as the kernel sees it.
pub(crate) struct Answers {
    pub(crate) lfs: Arc<Lfs<Box<dyn Ground>>>,
    pub(crate) turns: Turns,
}

impl Answers {
    fn attr(&self, ino: Ino) -> LfsResult<FileAttr> {
        let (attributes, pages) = self.lfs.attributes(ino)?;
        Ok(attr(ino, &attributes, pages, self.lfs.page_bytes()))
    }

    /// Gives the names of a directory behind `offset` to `add` until it says that no more has room.
    fn list_until_full(
        &self,
        ino: INodeNo,
        offset: u64,
        mut add: impl FnMut(&Listed) -> bool,
    ) -> LfsResult<()> {
        let mut from = offset.saturating_sub(DOTS);
        loop {
            let listed = self.lfs.list(ino.0, from, ENTRIES)?;
            let Some(last) = listed.last() else { return Ok(()) };
            from = last.next;
            if listed.iter().any(&mut add) {
                return Ok(());
            }
        }
    }

    /// Answers with an inode, which the kernel holds from then on.
    fn give(&self, ino: LfsResult<Ino>, reply: ReplyEntry) {
        let found = ino.and_then(|ino| {
            self.lfs.hold(ino)?;
            self.attr(ino)
        });
        match found {
            Ok(attr) => reply.entry(&KEPT, &attr, GENERATION),
            Err(Fault::Stale) => reply.error(Errno::ENOENT),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        what: Make<'_>,
    ) -> LfsResult<Ino> {
        let what = Make { uid: request.uid(), gid: request.gid(), ..what };
        self.lfs.make(parent.0, name.as_bytes(), &what, now())
    }

    fn set(
        &self,
        request: &Request,
        ino: Ino,
        to: Changes,
        size: Option<u64>,
    ) -> LfsResult<FileAttr> {
        if let Some(size) = size {
            self.lfs.truncate(ino, size, now())?;
            if request.uid() != 0 {
                self.lfs.drop_privileges(ino, now())?;
            }
        }
        if to.uid.or(to.gid).is_some() && to.mode.is_none() && !self.is_directory(ino)? {
            self.lfs.drop_privileges(ino, now())?;
        }
        if to != Changes::default() {
            self.lfs.change_attributes(ino, &to, now())?;
        }
        self.attr(ino)
    }

    fn is_directory(&self, ino: Ino) -> LfsResult<bool> {
        Ok(self.lfs.attributes(ino)?.0.kind == Kind::Directory)
    }
}

fn done(result: LfsResult<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(fault) => reply.error(errno(&fault)),
    }
}

fn moment(time: Option<TimeOrNow>) -> Option<silica_lfs::Time> {
    time.map(|time| match time {
        TimeOrNow::SpecificTime(moment) => time_of(moment),
        TimeOrNow::Now => now(),
    })
}

fn plain(kind: Kind, mode: u32) -> Make<'static> {
    Make { kind, mode, uid: 0, gid: 0, rdev: 0, target: b"" }
}

impl Filesystem for Answers {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_CACHE_SYMLINKS;
        let _ = config.add_capabilities(wanted & config.capabilities());
        let _ = config.set_max_write(TRANSFER_BYTES);
        let _ = config.set_max_readahead(TRANSFER_BYTES);
        Ok(())
    }

    fn destroy(&mut self) {
        if let Err(fault) = self.lfs.close() {
            log::error!("the file system was not closed in order: {fault}");
        }
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turns.begin();
        self.give(self.lfs.lookup(parent.0, name.as_bytes()), reply);
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.lfs.let_go(ino.0, nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.turns.begin();
        match self.attr(ino.0) {
            Ok(attr) => reply.attr(&KEPT, &attr),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.turns.begin();
        let (accessed, modified) = (moment(atime), moment(mtime));
        let to = Changes { mode, uid, gid, accessed, modified };
        match self.set(req, ino.0, to, size) {
            Ok(attr) => reply.attr(&KEPT, &attr),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        match self.lfs.target(ino.0) {
            Ok(target) => reply.data(&target),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        let Some(kind) = kind_of(mode) else { return reply.error(Errno::EINVAL) };
        let what = Make { rdev, ..plain(kind, mode & !umask) };
        self.give(self.make(req, parent, name, what), reply);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        let what = plain(Kind::Directory, mode & !umask);
        self.give(self.make(req, parent, name, what), reply);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        done(self.lfs.unlink(parent.0, name.as_bytes(), now()), reply);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        done(self.lfs.remove_directory(parent.0, name.as_bytes(), now()), reply);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        let target = target.as_os_str().as_bytes();
        let what = Make { target, ..plain(Kind::Symlink, 0o777) };
        self.give(self.make(req, parent, link_name, what), reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        let how = match flags {
            flags if flags.is_empty() => Rename::Replace,
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = ((parent.0, name.as_bytes()), (newparent.0, newname.as_bytes()));
        done(self.lfs.rename(from, to, how, now()), reply);
    }

    fn link(
        &self,
        _req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        let linked = self.lfs.link(ino.0, newparent.0, newname.as_bytes(), now());
        self.give(linked.map(|()| ino.0), reply);
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // What the kernel has of a file stays true, since only it writes.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.turns.begin();
        let mut bytes = vec![0; size as usize];
        match self.lfs.read(ino.0, offset, &mut bytes) {
            Ok(len) => reply.data(&bytes[..len]),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.begin();
        let kills = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let written = self.lfs.write(ino.0, Some(offset), data, now());
        let killed = written.and_then(|_| match kills {
            true => self.lfs.drop_privileges(ino.0, now()),
            false => Ok(()),
        });
        match killed {
            Ok(()) => reply.written(data.len() as u32),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        done(self.lfs.sync(), reply);
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
        reply.opened(FileHandle(0), flags);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _turn = self.turns.begin();
        let parent = match self.lfs.parent(ino.0) {
            Ok(parent) => parent,
            Err(fault) => return reply.error(errno(&fault)),
        };
        for (at, name, of) in [(1, ".", ino.0), (2, "..", parent)] {
            if offset < at && reply.add(INodeNo(of), at, FileType::Directory, name) {
                return reply.ok();
            }
        }
        let listed = self.list_until_full(ino, offset, |Listed { name, ino, kind, next }| {
            reply.add(INodeNo(*ino), next + DOTS, type_of(*kind), OsStr::from_bytes(name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.turns.begin();
        // The kernel does not hold what `.` and `..` stand for by a listing.
        let dots = self
            .lfs
            .parent(ino.0)
            .and_then(|parent| Ok([(1, ".", self.attr(ino.0)?), (2, "..", self.attr(parent)?)]));
        let dots = match dots {
            Ok(dots) => dots,
            Err(fault) => return reply.error(errno(&fault)),
        };
        for (at, name, attr) in dots {
            if offset < at && reply.add(attr.ino, at, name, &KEPT, &attr, GENERATION) {
                return reply.ok();
            }
        }
        let listed = self.list_until_full(ino, offset, |Listed { name, ino, next, .. }| {
            // It may have gone meanwhile.
            if self.lfs.hold(*ino).is_err() {
                return false;
            }
            let name = OsStr::from_bytes(name);
            let full = self
                .attr(*ino)
                .map(|attr| reply.add(attr.ino, next + DOTS, name, &KEPT, &attr, GENERATION))
                .ok();
            // The kernel holds only what it was told of.
            if full != Some(false) {
                self.lfs.let_go(*ino, 1);
            }
            full == Some(true)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        done(self.lfs.sync(), reply);
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let usage = self.lfs.usage();
        let bytes = self.lfs.page_bytes() as u32;
        let (pages, free) = (usage.pages, usage.free_pages);
        let inodes = usage.inodes + free;
        reply.statfs(pages, free, free, inodes, free, bytes, NAME_BYTES_MAX as u32, bytes);
    }

    fn setxattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        if name.as_bytes().starts_with(ACCESS_LISTS) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let mode = match flags {
            XATTR_CREATE => XattrMode::Create,
            XATTR_REPLACE => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        match self.lfs.set_xattr(ino.0, name.as_bytes(), value, mode, now()) {
            // A value that is too long has a number of its own among xattrs.
            Err(Fault::TooLarge) => reply.error(Errno::E2BIG),
            result => done(result, reply),
        }
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if name.as_bytes().starts_with(ACCESS_LISTS) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        xattr_data(self.lfs.xattr(ino.0, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let join = |names: Vec<Vec<u8>>| names.into_iter().flat_map(|n| [n, vec![0]]).flatten();
        xattr_data(self.lfs.xattrs(ino.0).map(|names| join(names).collect()), size, reply);
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        done(self.lfs.remove_xattr(ino.0, name.as_bytes(), now()), reply);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.turns.begin();
        let made = self.make(req, parent, name, plain(Kind::File, mode & !umask));
        let made = made.and_then(|ino| {
            self.lfs.hold(ino)?;
            self.attr(ino)
        });
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        match made {
            Ok(attr) => reply.created(&KEPT, &attr, GENERATION, FileHandle(0), flags),
            Err(fault) => reply.error(errno(&fault)),
        }
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.begin();
        // The kernel copies by reading and writing from then on.
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        let keeps_size = mode & KEEP_SIZE != 0;
        let how = match mode & !KEEP_SIZE {
            0 => Allocation::Promise { keeps_size },
            PUNCH_HOLE => Allocation::Punch,
            ZERO_RANGE => Allocation::Zero { keeps_size },
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        done(self.lfs.allocate(ino.0, offset, length, how, now()), reply);
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let to = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.lfs.seek(ino.0, offset, to) {
            Ok(at) => reply.offset(at as i64),
            Err(fault) => reply.error(errno(&fault)),
        }
    }
}

/// Answers with bytes, or with how many there are if the caller asks for none.
fn xattr_data(bytes: LfsResult<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match bytes {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(fault) => reply.error(errno(&fault)),
    }
}
