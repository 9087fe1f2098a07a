//! How long the bytes of a file will stay, as the kernel is told.
//!
//! Linux keeps a hint with each inode. File systems and drives may put bytes of one lifetime
//! together: those that die together then leave whole segments or blocks empty, and less is copied.
//! No kernel says whether its file system and drive make use of it, so it is told wherever it
//! listens. A hint is advice: nothing fails without it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long what is written to a file stays, beside other files of the same store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifetime {
    /// Until it is written elsewhere: logs, runs of a sort.
    Short,
    /// Until the next merges: young tables.
    Medium,
    /// Until everything is merged, or dead: the oldest tables, separated values.
    Long,
}

impl Lifetime {
    /// All classes, the shortest first.
    pub const ALL: [Lifetime; 3] = [Lifetime::Short, Lifetime::Medium, Lifetime::Long];

    /// The kernel's word for it: `RWH_WRITE_LIFE_SHORT`, `_MEDIUM` and `_EXTREME`. f2fs has three
    /// logs for data too, and puts what is medium and what is long into the same one.
    fn hint(self) -> u64 {
        match self {
            Lifetime::Short => 2,
            Lifetime::Medium => 3,
            Lifetime::Long => 5,
        }
    }
}

/// No word about the lifetime: what every file has at first.
const NOT_SET: u64 = 0;
/// Sets the hint of an inode; `libc` does not have it.
const F_SET_RW_HINT: libc::c_int = 1024 + 12;

/// Sets a hint.
type SetHint = dyn Fn(&File, u64) -> io::Result<()> + Send + Sync;

/// Whether the kernel takes hints, found out once for a directory.
pub(super) struct Hints {
    is_taken: AtomicBool,
    set: Box<SetHint>,
}

impl Hints {
    /// Those of the file system of `file`, which is ours and keeps no hint.
    pub(super) fn of(file: &File) -> Self {
        Self::by(file, Box::new(set_hint))
    }

    /// None: the device is only read.
    pub(super) fn none() -> Self {
        Hints { is_taken: AtomicBool::new(false), set: Box::new(set_hint) }
    }

    fn by(file: &File, set: Box<SetHint>) -> Self {
        let taken = set(file, NOT_SET);
        if let Err(error) = &taken {
            log::info!("the kernel takes no hints about the lifetime of files: {error}");
        }
        Hints { is_taken: AtomicBool::new(taken.is_ok()), set }
    }

    /// True if the kernel takes hints.
    pub(super) fn are_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Tells the kernel how long the bytes of `file` stay. Returns the lifetime if it listens.
    pub(super) fn give(&self, file: &File, lifetime: Lifetime) -> Option<Lifetime> {
        if !self.are_taken() {
            return None;
        }
        match (self.set)(file, lifetime.hint()) {
            Ok(()) => Some(lifetime),
            Err(error) => {
                log::info!("no more hints about the lifetime of files are given: {error}");
                self.is_taken.store(false, Ordering::Relaxed);
                None
            }
        }
    }
}

fn set_hint(file: &File, hint: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the kernel reads eight
    // bytes at the pointer, which are there until the call returns.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), F_SET_RW_HINT, &raw const hint) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Hints that are noted, and refused from the call `refused_from` on.
    fn noted(refused_from: usize) -> (Hints, Arc<Mutex<Vec<u64>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let set = move |_: &File, hint| {
            let mut notes = notes.lock().unwrap();
            notes.push(hint);
            match notes.len() > refused_from {
                true => Err(io::Error::from_raw_os_error(libc::EINVAL)),
                false => Ok(()),
            }
        };
        (Hints::by(&tempfile::tempfile().unwrap(), Box::new(set)), seen)
    }

    #[test]
    fn every_class_has_a_hint_of_its_own() {
        let (hints, seen) = noted(usize::MAX);
        let file = tempfile::tempfile().unwrap();
        for lifetime in Lifetime::ALL {
            assert_eq!(hints.give(&file, lifetime), Some(lifetime));
        }
        assert_eq!(*seen.lock().unwrap(), [0, 2, 3, 5]);
    }

    #[test]
    fn a_kernel_that_takes_none_is_asked_once() {
        let (hints, seen) = noted(0);
        let file = tempfile::tempfile().unwrap();
        assert!(!hints.are_taken());
        assert_eq!(hints.give(&file, Lifetime::Short), None);
        assert_eq!(seen.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_refusal_is_for_good() {
        let (hints, seen) = noted(2);
        let file = tempfile::tempfile().unwrap();
        let given = [Lifetime::Short, Lifetime::Long, Lifetime::Long];
        let given = given.map(|lifetime| hints.give(&file, lifetime));
        assert_eq!(given, [Some(Lifetime::Short), None, None]);
        assert_eq!(seen.lock().unwrap().len(), 3);
    }
}
