//! Queues of reads: which way they go, and what is the same on all ways.
//!
//! Invariant: from [`FileReads::push`] to [`ReadQueue::pop`] a read and its buffer stay in the
//! queue, unless they are lent to a thread of the pool. Dropping a queue waits for what the kernel
//! may still write to; a queue that is leaked leaks its buffers too.

use super::directory::{IoChoice, Shared};
use super::plain::PlainFile;
use super::pool::{Helped, Pool, READ_THREADS};
use super::uring::{self, Lease};
use super::{READS_MAX, Read, ReadQueue};
use super::{failed, read_full};
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the reads of a queue come to be in flight together.
pub(super) enum Together {
    Uring {
        refused: AtomicBool,
        instead: Pool,
    },
    Threads(Pool),
    /// One after the other in the calling thread.
    Plain,
}

impl Together {
    /// Finds out what can be had here.
    pub(super) fn choose(choice: IoChoice, path: &Path) -> Result<Together> {
        match choice {
            IoChoice::Threads => return Ok(Together::Threads(Pool::new(READ_THREADS))),
            IoChoice::Buffered => return Ok(Together::Plain),
            IoChoice::Auto | IoChoice::Uring => {}
        }
        match uring::probe() {
            Ok(()) => {
                let instead = Pool::new(READ_THREADS);
                Ok(Together::Uring { refused: AtomicBool::new(false), instead })
            }
            Err(e) if choice == IoChoice::Uring => {
                let message = format!("io_uring is refused here ({e}); choose another I/O path");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
            Err(e) => {
                let path = path.display();
                log::warn!("{path}: io_uring is refused ({e}); reading through threads");
                Ok(Together::Threads(Pool::new(READ_THREADS)))
            }
        }
    }

    fn begin(&self) -> Way<'_> {
        match self {
            Together::Plain => Way::Plain(VecDeque::new()),
            Together::Threads(pool) => Way::Threads(Helped::new(pool)),
            Together::Uring { refused, instead } => match Lease::take() {
                Ok(ring) => Way::Uring(ring),
                Err(e) => {
                    // A limit on memory or open files may refuse a ring to one thread only.
                    if !refused.swap(true, Ordering::Relaxed) {
                        log::warn!("no io_uring for a thread ({e}); it reads through threads");
                    }
                    Way::Threads(Helped::new(instead))
                }
            },
        }
    }
}

/// The way that the reads of one queue take.
enum Way<'d> {
    Plain(VecDeque<usize>),
    Threads(Helped<'d>),
    Uring(Lease),
}

/// The file of a read, which stays open as long as the read has this.
pub(crate) trait Source {
    /// The file.
    fn file(&self) -> &File;
    /// What a short count is a multiple of, unless the file ended.
    fn granule(&self) -> usize;
}

impl<T: AsRef<PlainFile>> Source for T {
    fn file(&self) -> &File {
        &self.as_ref().file
    }

    fn granule(&self) -> usize {
        self.as_ref().granule()
    }
}

/// A read under way.
pub(crate) struct Flight<T> {
    pub(crate) of: T,
    pub(crate) offset: u64,
    /// `None` while a thread of the pool has it.
    pub(crate) buf: Option<AlignedBuf>,
    /// Bytes that are there so far.
    pub(crate) filled: usize,
}

impl<T: AsRef<PlainFile>> Flight<T> {
    fn read_here(&mut self) -> io::Result<usize> {
        let (file, buf) = (self.of.as_ref(), self.buf.as_mut().expect("nobody has it"));
        read_full(&file.file, self.offset, buf, file.granule())
    }
}

/// Reads under way, by number.
pub(crate) struct Flights<T> {
    slots: Vec<Option<Flight<T>>>,
    free: Vec<usize>,
}

impl<T> Flights<T> {
    pub(crate) fn new() -> Self {
        Flights { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn add(&mut self, flight: Flight<T>) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(flight);
            return slot;
        }
        self.slots.push(Some(flight));
        self.slots.len() - 1
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Flight<T> {
        self.free.push(slot);
        self.slots[slot].take().expect("a read ends once")
    }

    pub(crate) fn get(&mut self, slot: usize) -> &mut Flight<T> {
        self.slots[slot].as_mut().expect("a read under way has its slot")
    }
}

/// A queue of reads from a [`super::FileDevice`].
pub struct FileReads<'d, T: AsRef<PlainFile>> {
    shared: &'d Shared,
    depth: usize,
    flights: Flights<T>,
    /// The only read, not started: alone, it costs least in this thread.
    alone: Option<usize>,
    /// Chosen when a second read comes.
    way: Option<Way<'d>>,
    /// A ring belongs to its thread.
    stays: PhantomData<*mut ()>,
}

impl<'d, T: AsRef<PlainFile>> FileReads<'d, T> {
    pub(super) fn new(shared: &'d Shared, depth: usize) -> Self {
        let depth = depth.clamp(1, READS_MAX);
        FileReads {
            shared,
            depth,
            flights: Flights::new(),
            alone: None,
            way: None,
            stays: PhantomData,
        }
    }

    fn start_slot(&mut self, slot: usize) {
        let flight = self.flights.get(slot);
        match self.way.get_or_insert_with(|| self.shared.together.begin()) {
            Way::Plain(waiting) => waiting.push_back(slot),
            Way::Threads(helped) => helped.start(slot, flight),
            Way::Uring(ring) => ring.start(slot, flight),
        }
    }

    /// Waits for a read to end.
    fn next(&mut self) -> (usize, io::Result<usize>) {
        if let Some(slot) = self.alone.take() {
            return (slot, self.flights.get(slot).read_here());
        }
        match self.way.as_mut().expect("a read was started") {
            Way::Plain(waiting) => {
                let slot = waiting.pop_front().expect("a read is under way");
                (slot, self.flights.get(slot).read_here())
            }
            Way::Threads(helped) => helped.next(&mut self.flights),
            Way::Uring(ring) => ring.next(&mut self.flights),
        }
    }
}

impl<T: AsRef<PlainFile>> ReadQueue<T> for FileReads<'_, T> {
    fn push(&mut self, read: Read<T>) {
        assert!(!self.is_full(), "a read is pushed to a full queue");
        let Read { of, offset, buf } = read;
        of.as_ref().check_alignment(offset, &buf);
        let is_first = self.is_empty();
        let slot = self.flights.add(Flight { of, offset, buf: Some(buf), filled: 0 });
        if is_first {
            self.alone = Some(slot);
            return;
        }
        if let Some(slot) = self.alone.take() {
            self.start_slot(slot);
        }
        self.start_slot(slot);
    }

    fn start(&mut self) {
        if let Some(Way::Uring(ring)) = &mut self.way {
            ring.submit();
        }
    }

    fn pop(&mut self) -> Option<(Read<T>, Result<usize>)> {
        if self.is_empty() {
            return None;
        }
        let (slot, result) = self.next();
        let Flight { of, offset, buf, .. } = self.flights.remove(slot);
        let result = result.map_err(|e| failed("read", &of.as_ref().path, e));
        if let Ok(filled) = &result {
            self.shared.counters.add_read(*filled as u64);
        }
        let buf = buf.expect("it came back with the result");
        Some((Read { of, offset, buf }, result))
    }

    fn len(&self) -> usize {
        self.flights.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= self.depth
    }
}

impl<T: AsRef<PlainFile>> Drop for FileReads<'_, T> {
    fn drop(&mut self) {
        if let Some(Way::Uring(ring)) = &mut self.way {
            ring.drain();
        }
    }
}
