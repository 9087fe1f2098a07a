//! Bursts of reads through io_uring: one ring per calling thread, one submission per burst.
//!
//! Invariant: [`read_many`] does not return while the kernel may still write to a buffer. Where
//! it cannot find out (waiting fails for a reason that cannot happen on an open ring), it ends
//! the process rather than hand the buffers back.

use super::plain::PlainFile;
use super::{ReadBurst, failed};
use crate::Read;
use io_uring::{IoUring, Probe, opcode, types};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;

/// Reads in flight at most.
const ENTRIES: u32 = 128;

/// Bytes of one entry; longer reads take several.
const READ_BYTES_MAX: usize = 1 << 30;

/// One thread's ring, and scratch memory of its bursts.
struct Ring {
    ring: IoUring,
    /// Bytes that each read of the burst has so far.
    filled: Vec<usize>,
    /// Reads to submit again.
    again: Vec<usize>,
}

thread_local! {
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

/// A ring, with the options that cost least where the kernel knows them.
fn new_ring() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
    builder.build(ENTRIES).or_else(|_| IoUring::new(ENTRIES))
}

/// Finds out whether this kernel lets us read through io_uring.
pub(super) fn probe() -> io::Result<()> {
    let ring = new_ring()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if probe.is_supported(opcode::Read::CODE) { Ok(()) } else { Err(unsupported()) }
}

fn unsupported() -> io::Error {
    io::Error::from(io::ErrorKind::Unsupported)
}

/// Performs all `reads`; fails, with nothing read, where this thread gets no ring.
pub(super) fn read_many(reads: &mut ReadBurst<'_>) -> io::Result<()> {
    RING.with_borrow_mut(|slot| {
        let ring = match slot {
            Some(ring) => ring,
            None => slot.insert(Ring { ring: new_ring()?, filled: vec![], again: vec![] }),
        };
        ring.run(reads);
        Ok(())
    })
}

impl Ring {
    fn run(&mut self, reads: &mut ReadBurst<'_>) {
        self.filled.clear();
        self.filled.resize(reads.len(), 0);
        self.again.clear();
        let (mut next, mut in_flight) = (0, 0);
        while in_flight > 0 || next < reads.len() || !self.again.is_empty() {
            while in_flight < ENTRIES as usize {
                let index = match self.again.pop() {
                    Some(index) => index,
                    None if next < reads.len() => {
                        next += 1;
                        next - 1
                    }
                    None => break,
                };
                self.push(index, &mut reads[index]);
                in_flight += 1;
            }
            // Where more reads wait for room, a part of the completions is enough to go on.
            let want = if next < reads.len() { in_flight / 4 + 1 } else { in_flight };
            self.wait(want);
            in_flight -= self.reap(reads);
        }
    }

    /// Queues what is missing of a read.
    fn push(&mut self, index: usize, read: &mut Read<'_, PlainFile>) {
        let filled = self.filled[index];
        let rest = &mut read.buf[filled..];
        let fd = types::Fd(read.file.file.as_raw_fd());
        let entry = opcode::Read::new(fd, rest.as_mut_ptr(), rest.len().min(READ_BYTES_MAX) as u32)
            .offset(read.offset + filled as u64)
            .build()
            .user_data(index as u64);
        // SAFETY: `rest` and the file stay borrowed by the burst until `run` returns, which is
        // after the completion of this entry was seen (module invariant).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            die("the submission queue is full with fewer reads in flight than it has entries");
        }
    }

    /// Submits what is queued and waits until `want` completions are there.
    fn wait(&mut self, want: usize) {
        loop {
            match self.ring.submit_and_wait(want).map_err(|e| e.raw_os_error()) {
                Ok(_) => return,
                // Interrupted, or the kernel is short of memory for the moment.
                Err(Some(libc::EINTR)) => {}
                Err(Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)) => {
                    if !self.ring.completion().is_empty() {
                        return;
                    }
                    std::thread::yield_now();
                }
                Err(error) => die(&format!("waiting for reads failed with {error:?}")),
            }
        }
    }

    /// Takes the completions that are there; returns how many.
    fn reap(&mut self, reads: &mut ReadBurst<'_>) -> usize {
        let mut count = 0;
        for completion in self.ring.completion() {
            count += 1;
            let index = completion.user_data() as usize;
            let read = &mut reads[index];
            let result = completion.result();
            if result < 0 {
                match -result {
                    libc::EINTR | libc::EAGAIN => self.again.push(index),
                    code => {
                        let error = io::Error::from_raw_os_error(code);
                        read.result = Err(failed("read", &read.file.path, error));
                    }
                }
                continue;
            }
            let filled = &mut self.filled[index];
            *filled += result as usize;
            let ended = result == 0 || !filled.is_multiple_of(read.file.granule());
            if *filled < read.buf.len() && !ended {
                self.again.push(index);
            } else {
                read.result = Ok(*filled);
            }
        }
        count
    }
}

/// Ends the process: returning would free buffers that the kernel may write to.
fn die(why: &str) -> ! {
    log::error!("io_uring: {why}; ending the process to keep memory sound");
    eprintln!("silica: io_uring: {why}; ending the process to keep memory sound");
    std::process::abort()
}
