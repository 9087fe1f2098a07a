//! The queue of a flash drive: reads of pages through io_uring, everything else through the
//! drive's threads.
//!
//! Invariants:
//!
//! 1. Operations on one block begin in the order in which they were pushed: a read goes through the
//!    ring only while nothing that changes blocks is under way in this queue, and what changes a
//!    block is handed over only after the ring's reads have ended.
//! 2. The buffers of the ring's reads stay in this queue until their completions were seen; it is
//!    dropped only after the ring was drained.

use super::drive::{Begun, Drive};
use super::workers::{ImageQueue, Workers};
use super::{FlashError, FlashQueue, FlashResult, OPERATIONS_MAX, Operation, PageAddress, Request};
use crate::READS_MAX;
use crate::files::{Flight, Flights, Lease, Source};
use crate::os::read_full;
use silica_base::BLOCK_BYTES;
use std::collections::VecDeque;
use std::fs::File;
use std::io;

/// A read that goes through the ring.
struct PagesRead<'d, T> {
    file: &'d File,
    of: T,
    first: PageAddress,
    begun: Begun,
}

impl<T> Source for PagesRead<'_, T> {
    fn file(&self) -> &File {
        self.file
    }

    fn granule(&self) -> usize {
        BLOCK_BYTES
    }
}

type Ended<T> = (Operation<T>, FlashResult<u32>);

/// A queue of a [`super::FlashDrive`].
pub struct DriveQueue<'d, T> {
    drive: &'d Drive,
    workers: &'d Workers,
    depth: usize,
    /// The file past the page cache, if its reads may go through a ring.
    file: Option<&'d File>,
    reads: Flights<PagesRead<'d, T>>,
    /// The only read, not started: alone, it costs least in this thread.
    alone: Option<usize>,
    /// This thread's ring, from the second read on.
    ring: Option<Lease>,
    /// Through threads, which start with the first operation that needs them.
    others: Option<ImageQueue<'d, T>>,
    /// Of the others, those that change blocks.
    changes: usize,
    /// What has ended, or never began.
    ended: VecDeque<Ended<T>>,
}

impl<'d, T> DriveQueue<'d, T> {
    pub(super) fn new(
        drive: &'d Drive,
        workers: &'d Workers,
        has_ring: bool,
        depth: usize,
    ) -> Self {
        DriveQueue {
            drive,
            workers,
            depth: depth.clamp(1, OPERATIONS_MAX),
            file: drive.direct().filter(|_| has_ring),
            reads: Flights::new(),
            alone: None,
            ring: None,
            others: None,
            changes: 0,
            ended: VecDeque::new(),
        }
    }

    /// The file, if `operation` can go through the ring.
    fn file_for(&self, operation: &Operation<T>) -> Option<&'d File> {
        let is_plain = matches!(operation.request, Request::Read { .. })
            && operation.spare.is_empty()
            && !operation.pages.is_empty();
        let has_room = self.reads.len() < READS_MAX;
        self.file.filter(|_| is_plain && has_room && self.changes == 0)
    }

    fn push_read(&mut self, file: &'d File, operation: Operation<T>) {
        let Request::Read { first } = operation.request else { unreachable!("it is a read") };
        let begun = match self.drive.begin_read(first, operation.pages.len(), 0) {
            Ok(begun) => begun,
            Err(error) => return self.ended.push_back((operation, Err(error))),
        };
        let Operation { of, pages, .. } = operation;
        let offset = begun.offset;
        let read = PagesRead { file, of, first, begun };
        let is_first = self.reads.len() == 0;
        let slot = self.reads.add(Flight { of: read, offset, buf: Some(pages), filled: 0 });
        if is_first {
            self.alone = Some(slot);
            return;
        }
        if let Some(slot) = self.alone.take() {
            self.start(slot);
        }
        self.start(slot);
    }

    /// Hands a read to the ring. A thread that gets none reads it itself, and later ones, too.
    fn start(&mut self, slot: usize) {
        if self.ring.is_none() {
            match Lease::take() {
                Ok(ring) => self.ring = Some(ring),
                Err(e) => {
                    log::debug!("no io_uring for a thread ({e}); it reads by itself");
                    self.file = None;
                    let ended = self.read_here(slot);
                    return self.ended.push_back(ended);
                }
            }
        }
        let ring = self.ring.as_mut().expect("it is there by now");
        ring.start(slot, self.reads.get(slot));
    }

    fn read_here(&mut self, slot: usize) -> Ended<T> {
        let flight = self.reads.get(slot);
        let pages = flight.buf.as_mut().expect("nobody else has it");
        let result = read_full(flight.of.file, flight.offset, pages, BLOCK_BYTES);
        self.end(slot, result)
    }

    fn end(&mut self, slot: usize, result: io::Result<usize>) -> Ended<T> {
        let Flight { of: read, buf, .. } = self.reads.remove(slot);
        let pages = buf.expect("it came back");
        let PagesRead { of, first, begun, .. } = read;
        let result = result
            .map_err(|e| FlashError::io(first, e))
            .and_then(|filled| self.drive.end_read(&begun, filled, pages.len()))
            .map(|()| first.page);
        let request = Request::Read { first };
        (Operation { of, request, pages, spare: Vec::new() }, result)
    }

    /// Waits for a read of the ring.
    fn pop_read(&mut self) -> Ended<T> {
        if let Some(slot) = self.alone.take() {
            return self.read_here(slot);
        }
        let ring = self.ring.as_mut().expect("a read was started");
        let (slot, result) = ring.next(&mut self.reads);
        self.end(slot, result)
    }
}

fn changes<T>(operation: &Operation<T>) -> bool {
    !matches!(operation.request, Request::Read { .. })
}

impl<T> FlashQueue<T> for DriveQueue<'_, T> {
    fn push(&mut self, operation: Operation<T>) {
        assert!(!self.is_full(), "the queue is full; pop an operation first");
        if let Some(file) = self.file_for(&operation) {
            return self.push_read(file, operation);
        }
        if changes(&operation) {
            while self.reads.len() > 0 {
                let ended = self.pop_read();
                self.ended.push_back(ended);
            }
            self.changes += 1;
        }
        let others = self
            .others
            .get_or_insert_with(|| ImageQueue::new(self.workers, self.drive.luns(), self.depth));
        others.push(operation);
    }

    fn pop(&mut self) -> Option<Ended<T>> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        if self.reads.len() > 0 {
            return Some(self.pop_read());
        }
        let ended = self.others.as_mut()?.pop()?;
        self.changes -= usize::from(changes(&ended.0));
        Some(ended)
    }

    fn len(&self) -> usize {
        let others = self.others.as_ref().map_or(0, |others| others.len());
        self.ended.len() + self.reads.len() + others
    }

    fn is_full(&self) -> bool {
        self.len() >= self.depth
    }
}

impl<T> Drop for DriveQueue<'_, T> {
    fn drop(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.drain();
        }
    }
}
