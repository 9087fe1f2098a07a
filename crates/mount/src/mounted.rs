//! A file system that is mounted, and its work in the background.

use crate::answers::Answers;
use crate::turns::Turns;
use crate::volume::Volume;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::statvfs;
use rustix::io::Errno;
use silica_base::{Error, ErrorKind, Result};
use silica_lfs::{Ground, Lfs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads that answer the kernel, if nobody says how many: some wait for the device. Two listen,
/// the others rest until these have something to do.
const THREADS: usize = 8;
/// How often collection and erases are looked after.
const TEND_EVERY: Duration = Duration::from_millis(200);

/// How often, and how long, somebody who has a file open is waited for at the end: 2 s in all.
const UNMOUNT_ATTEMPTS: u32 = 100;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(20);

/// How a file system is mounted.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// What the table of mounts calls the device.
    pub name: String,
    /// Nothing is changed by users.
    pub is_read_only: bool,
    /// Users other than the one who mounts may use it; permissions are checked either way.
    pub allows_others: bool,
    /// Threads that answer the kernel.
    pub threads: usize,
    /// What was written is durable after so long without a sync, too.
    pub sync_every: Duration,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            name: "silica".into(),
            is_read_only: false,
            allows_others: true,
            threads: THREADS,
            sync_every: Duration::from_secs(5),
        }
    }
}

/// A mount. Dropping it without [`Mounted::unmount`] unmounts, too, and hides errors.
pub struct Mounted {
    session: BackgroundSession,
    lfs: Arc<Lfs<Box<dyn Ground>>>,
    stop: Sender<()>,
    tending: JoinHandle<()>,
    directory: PathBuf,
}

impl Mounted {
    /// Mounts a volume on a directory and returns when the kernel knows it.
    ///
    /// # Errors
    /// `Io` if the kernel refuses, with what it said; `Config` if `directory` is none, or the mount
    /// of a process that has ended.
    pub fn new(volume: Volume, directory: &Path, options: &MountOptions) -> Result<Self> {
        check_mount_point(directory)?;
        let lfs = volume.into_lfs();
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(options.name.clone()),
            MountOption::Subtype("silica".into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
            if options.is_read_only { MountOption::RO } else { MountOption::RW },
        ];
        config.acl = if options.allows_others { SessionACL::All } else { SessionACL::Owner };
        let threads = options.threads.max(1);
        config.n_threads = Some(threads);
        config.clone_fd = true;
        let answers = Answers { lfs: lfs.clone(), turns: Turns::new(threads) };
        let session = Session::new(answers, directory, &config).and_then(Session::spawn).map_err(
            |error| {
                let what = format!(
                    "mounting on {} (is /dev/fuse there, and may this user mount?)",
                    directory.display()
                );
                Error::io(what, error)
            },
        )?;
        let (stop, stopped) = channel();
        let (tended, sync_every) = (lfs.clone(), options.sync_every);
        let tend = move || {
            let mut since = Duration::ZERO;
            while stopped.recv_timeout(TEND_EVERY) == Err(RecvTimeoutError::Timeout) {
                since += TEND_EVERY;
                let mut result = tended.tend();
                if since >= sync_every {
                    since = Duration::ZERO;
                    result = result.and_then(|()| tended.sync());
                }
                if let Err(fault) = result {
                    log::error!("work in the background ended: {fault}");
                    return;
                }
            }
        };
        let tending = std::thread::Builder::new().name("lfs-tend".into()).spawn(tend);
        let tending = tending.map_err(|error| Error::io("starting a thread", error))?;
        Ok(Mounted { session, lfs, stop, tending, directory: directory.to_path_buf() })
    }

    /// The file system.
    pub fn lfs(&self) -> &Lfs<Box<dyn Ground>> {
        &self.lfs
    }

    /// True if somebody else has unmounted it.
    pub fn is_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Waits until somebody else unmounts, then closes the file system.
    ///
    /// # Errors
    /// What the kernel's connection ended with; what the device said.
    pub fn wait(self) -> Result<()> {
        let Mounted { session, lfs, stop, tending, directory } = self;
        let ended = session.join();
        end(&lfs, stop, tending)?;
        ended.map_err(|error| Error::io(format!("the mount of {}", directory.display()), error))
    }

    /// Unmounts and closes the file system.
    ///
    /// # Errors
    /// `Io` if it is in use; what the device said.
    pub fn unmount(self) -> Result<()> {
        let Mounted { session, lfs, stop, tending, directory } = self;
        let ended = match unmounted(&directory) {
            true => session.join(),
            false => session.umount_and_join(),
        };
        end(&lfs, stop, tending)?;
        ended.map_err(|error| Error::io(format!("unmounting {}", directory.display()), error))
    }
}

/// Refuses what nothing can be mounted on, with what to do.
///
/// # Errors
/// `Config`, `Io`.
pub fn check_mount_point(directory: &Path) -> Result<()> {
    let name = directory.display();
    // The kernel may know the attributes of a mount whose process has ended, but not its space.
    let looked = std::fs::metadata(directory)
        .and_then(|of| statvfs(directory).map(|_| of).map_err(io::Error::from));
    let message = match looked {
        Ok(of) if of.is_dir() => return Ok(()),
        Ok(_) => format!("{name} is no directory; give one to mount on"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("there is no directory {name}; make it first")
        }
        // The kernel keeps the mount of a process that was killed, and answers for nobody.
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => format!(
            "{name} is the mount of a process that has ended ({error}): take it away with \
             `umount -l {name}` (`fusermount3 -u -z {name}` if you are not root), then mount again"
        ),
        Err(error) => return Err(Error::io(format!("looking at {name}"), error)),
    };
    Err(Error::new(ErrorKind::Config, message))
}

/// Asks the kernel to unmount, again and again while a file is open: a program that is just being
/// started has those of the one that starts it. False if it stays in use, or this is not root, for
/// whom FUSE's helper unmounts.
fn unmounted(directory: &Path) -> bool {
    for _ in 0..UNMOUNT_ATTEMPTS {
        match rustix::mount::unmount(directory, rustix::mount::UnmountFlags::empty()) {
            Ok(()) => return true,
            Err(Errno::BUSY) => std::thread::sleep(UNMOUNT_PAUSE),
            Err(_) => return false,
        }
    }
    false
}

/// Ends the work in the background, and writes a last checkpoint.
fn end(lfs: &Lfs<Box<dyn Ground>>, stop: Sender<()>, tending: JoinHandle<()>) -> Result<()> {
    drop(stop);
    tending.join().map_err(|_| Error::new(ErrorKind::Io, "a thread of the mount panicked"))?;
    lfs.close().map_err(|fault| Error::new(ErrorKind::Io, fault.to_string()))
}
