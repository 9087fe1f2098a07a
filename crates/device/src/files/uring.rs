//! Reads through io_uring: one ring per thread, lent to one queue at a time.
//!
//! Invariants:
//!
//! 1. An entry of the ring points into the buffer of a read under way, which stays where it is
//!    until the entry's completion was seen: [`Lease::drain`] sees them all. Where that cannot be
//!    found out (waiting fails for a reason that cannot happen on an open ring), it ends the
//!    process rather than hand the buffers back.
//! 2. A read has one entry at a time, and a queue at most [`READS_MAX`] reads: neither ring of
//!    entries can overflow.

use super::READS_MAX;
use super::reads::{Flight, Flights, Source};
use io_uring::{IoUring, Probe, opcode, types};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const ENTRIES: u32 = READS_MAX as u32;

/// Entries that are submitted together while the queue fills. Once it was asked for a completion,
/// each entry takes the place of a read that ended, and waits for no other: the device would have
/// less to do meanwhile (8 reads in flight: a tenth fewer reads a second, even where it waits only
/// while other completions are there).
///
/// More than two, as the kernel then hands them to the driver with one notification, which leaves
/// the virtual machine where there is one; few, so that the device begins early. Of bursts of 32
/// cold gets one disk in a virtual machine gives 60 k/s with two, 80 k with four or eight, and
/// 52 k where all 32 are submitted together.
const SUBMIT_ENTRIES: usize = 4;

/// Bytes of one entry; longer reads take several.
const READ_BYTES_MAX: usize = 1 << 30;

thread_local! {
    /// The ring that one queue of this thread leaves to the next.
    static RING: Cell<Option<Box<IoUring>>> = const { Cell::new(None) };
}

/// A ring, with the options that cost least where the kernel knows them.
fn new_ring() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
    builder.build(ENTRIES).or_else(|_| IoUring::new(ENTRIES))
}

/// Finds out whether this kernel lets us read through io_uring.
pub(crate) fn probe() -> io::Result<()> {
    let ring = new_ring()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if probe.is_supported(opcode::Read::CODE) { Ok(()) } else { Err(unsupported()) }
}

fn unsupported() -> io::Error {
    io::Error::from(io::ErrorKind::Unsupported)
}

/// Writes `bytes` at `offset` with a write stream (0 for none), through this thread's ring. Returns
/// the bytes that were written.
pub(crate) fn write_in_stream(
    file: &File,
    offset: u64,
    bytes: &[u8],
    stream: u8,
) -> io::Result<usize> {
    let mut lease = Lease::take()?;
    let fd = types::Fd(file.as_raw_fd());
    let entry = opcode::Write::new(fd, bytes.as_ptr(), bytes.len().min(READ_BYTES_MAX) as u32)
        .offset(offset)
        .write_stream(stream)
        .build();
    // SAFETY: the file and the bytes are borrowed until this function returns, which is after the
    // completion of this entry was seen, the only one under way in this ring.
    let pushed = unsafe { lease.ring().submission().push(&entry) };
    if pushed.is_err() {
        die("the submission queue is full without anything under way");
    }
    (lease.pushed, lease.under_way) = (1, 1);
    let result = loop {
        match lease.completion() {
            Some((_, result)) => break result,
            None => lease.wait(),
        }
    };
    lease.drain();
    match result {
        0.. => Ok(result as usize),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

/// A thread's ring, in the hands of one queue.
pub(crate) struct Lease {
    /// `None` once it was given back.
    ring: Option<Box<IoUring>>,
    /// Entries that are not submitted.
    pushed: usize,
    /// Entries whose completion was not seen, submitted or not.
    under_way: usize,
    /// No completion was asked for yet.
    filling: bool,
}

impl Lease {
    /// The thread's ring, or a new one where it has none (or a queue outside this one has it).
    pub(crate) fn take() -> io::Result<Lease> {
        let ring = match RING.take() {
            Some(ring) => ring,
            None => Box::new(new_ring()?),
        };
        Ok(Lease { ring: Some(ring), pushed: 0, under_way: 0, filling: true })
    }

    fn ring(&mut self) -> &mut IoUring {
        self.ring.as_mut().expect("a drained lease is used no more")
    }

    /// Begins what is missing of a read, at the latest with the next call of [`Lease::next`].
    pub(crate) fn start<T: Source>(&mut self, slot: usize, flight: &mut Flight<T>) {
        let filled = flight.filled;
        let rest = &mut flight.buf.as_mut().expect("no thread has it")[filled..];
        let fd = types::Fd(flight.of.file().as_raw_fd());
        let entry = opcode::Read::new(fd, rest.as_mut_ptr(), rest.len().min(READ_BYTES_MAX) as u32)
            .offset(flight.offset + filled as u64)
            .build()
            .user_data(slot as u64);
        // SAFETY: the queue keeps the flight, and so its file open and the memory of its buffer
        // in place, until the completion of this entry was seen (invariant 1).
        let pushed = unsafe { self.ring().submission().push(&entry) };
        if pushed.is_err() {
            die("the submission queue is full with fewer reads in flight than it has entries");
        }
        self.pushed += 1;
        self.under_way += 1;
        if !self.filling || self.pushed >= SUBMIT_ENTRIES {
            self.submit();
        }
    }

    /// Submits what is pushed.
    pub(crate) fn submit(&mut self) {
        if self.pushed > 0 {
            // Where it fails, the next wait tries again and tells.
            let _ = self.ring().submit();
            self.pushed = 0;
        }
    }

    /// Waits for a read to end.
    pub(crate) fn next<T: Source>(
        &mut self,
        flights: &mut Flights<T>,
    ) -> (usize, io::Result<usize>) {
        self.filling = false;
        loop {
            let Some((slot, result)) = self.completion() else {
                self.wait();
                continue;
            };
            let flight = flights.get(slot);
            match -result {
                libc::EINTR | libc::EAGAIN => {}
                code if code > 0 => return (slot, Err(io::Error::from_raw_os_error(code))),
                _ => {
                    flight.filled += result as usize;
                    let filled = flight.filled;
                    let len = flight.buf.as_ref().map_or(0, |buf| buf.len());
                    // Asked last: a read that is whole does not look at its file, which of many
                    // is in no cache of the processor's any more.
                    let is_cut = |filled: usize| !filled.is_multiple_of(flight.of.granule());
                    if filled >= len || result == 0 || is_cut(filled) {
                        return (slot, Ok(filled));
                    }
                }
            }
            self.start(slot, flight);
        }
    }

    /// A completion that is there: its read, and what the kernel says.
    fn completion(&mut self) -> Option<(usize, i32)> {
        let completion = self.ring().completion().next()?;
        self.under_way -= 1;
        Some((completion.user_data() as usize, completion.result()))
    }

    /// Submits what is pushed and waits for a completion.
    fn wait(&mut self) {
        self.pushed = 0;
        let ring = self.ring();
        loop {
            match ring.submit_and_wait(1).map_err(|e| e.raw_os_error()) {
                Ok(_) => return,
                // Interrupted, or the kernel is short of memory for the moment.
                Err(Some(libc::EINTR)) => {}
                Err(Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)) => {
                    if !ring.completion().is_empty() {
                        return;
                    }
                    std::thread::yield_now();
                }
                Err(error) => die(&format!("waiting for reads failed with {error:?}")),
            }
        }
    }

    /// Sees the completions of all reads under way, and gives the ring back to the thread.
    pub(crate) fn drain(&mut self) {
        while self.under_way > 0 {
            if self.completion().is_none() {
                self.wait();
            }
        }
        // A thread that is ending needs it no more.
        let ring = self.ring.take();
        let _ = RING.try_with(|kept| kept.set(ring));
    }
}

/// Ends the process: returning would free buffers that the kernel may write to.
fn die(why: &str) -> ! {
    log::error!("io_uring: {why}; ending the process to keep memory sound");
    eprintln!("silica: io_uring: {why}; ending the process to keep memory sound");
    std::process::abort()
}
