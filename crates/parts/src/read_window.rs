//! A window of reads in flight, for a burst of lookups that goes on with whichever read ends first.
//!
//! A caller that has a read to begin asks for the place of one that has ended
//! ([`ReadWindow::make_room`]), begins its own ([`ReadWindow::push`]), and only then looks at what
//! came: so the device never waits for the processor.

use silica_base::{AlignedBuf, Result};
use silica_device::{Device, Read, ReadQueue};
use std::cell::Cell;

thread_local! {
    /// Buffers that one burst of a thread leaves to the next.
    static BUFFERS: Cell<Vec<AlignedBuf>> = const { Cell::new(Vec::new()) };
}

/// Buffers kept per thread, and the largest one worth keeping.
const BUFFERS_KEPT: usize = 64;
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// A read that has ended, what it was for, and how many bytes it brought.
pub type ReadDone<T> = (Read<T>, Result<usize>);

/// Reads in flight of one burst. Costs nothing before the first of them; dropping it waits for
/// those that are left.
pub struct ReadWindow<'d, D: Device, T: AsRef<D::File> + 'd> {
    device: &'d D,
    depth: usize,
    /// Begun with the first read.
    reads: Option<D::Reads<'d, T>>,
    /// The thread's, once one is needed or kept.
    buffers: Option<Vec<AlignedBuf>>,
}

impl<'d, D: Device, T: AsRef<D::File> + 'd> ReadWindow<'d, D, T> {
    /// An empty window on `device` that has `depth` reads in flight at most.
    #[inline]
    pub fn new(device: &'d D, depth: usize) -> Self {
        ReadWindow { device, depth, reads: None, buffers: None }
    }

    /// True once a read has begun.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.reads.is_some()
    }

    /// Waits for a read to end if no other can begin before, and returns it.
    #[inline]
    pub fn make_room(&mut self) -> Option<ReadDone<T>> {
        let reads = self.reads.as_mut()?;
        if reads.is_full() { reads.pop() } else { None }
    }

    /// Begins to read `bytes` bytes at `offset` of the file of `of`.
    ///
    /// # Panics
    /// If the window is full: [`ReadWindow::make_room`] comes before.
    #[inline]
    pub fn push(&mut self, of: T, offset: u64, bytes: usize) {
        let buffers = self.buffers.get_or_insert_with(|| BUFFERS.take());
        let mut buf = buffers.pop().unwrap_or_else(|| AlignedBuf::zeroed(0));
        buf.resize(bytes);
        let reads = self.reads.get_or_insert_with(|| self.device.reads(self.depth));
        reads.push(Read { of, offset, buf });
    }

    /// Starts what was pushed, for a caller who has something to do before it waits.
    #[inline]
    pub fn start(&mut self) {
        self.reads.iter_mut().for_each(ReadQueue::start);
    }

    /// Waits for a read to end; `None` if none is in flight.
    #[inline]
    pub fn pop(&mut self) -> Option<ReadDone<T>> {
        self.reads.as_mut()?.pop()
    }

    /// Keeps a buffer for the next read, if it is not too large and there are not too many.
    #[inline]
    pub fn keep(&mut self, buf: AlignedBuf) {
        let buffers = self.buffers.get_or_insert_with(|| BUFFERS.take());
        if buffers.len() < BUFFERS_KEPT && buf.capacity() <= BUFFER_BYTES_KEPT {
            buffers.push(buf);
        }
    }
}

impl<'d, D: Device, T: AsRef<D::File> + 'd> Drop for ReadWindow<'d, D, T> {
    fn drop(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            BUFFERS.set(buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_device::sim::{SimDevice, SimOptions};
    use silica_device::{DeviceFile, Mode};
    use std::sync::Arc;

    struct Of<F>(Arc<F>, u64);

    impl<F> AsRef<F> for Of<F> {
        fn as_ref(&self) -> &F {
            &self.0
        }
    }

    #[test]
    fn each_read_takes_the_place_of_one_that_ended_and_buffers_are_used_again() {
        const BLOCK: usize = 4096;
        let device = SimDevice::new(1, SimOptions::default());
        let file = Arc::new(device.create("FILE", Mode::Buffered).unwrap());
        (0..9).for_each(|n| file.write_at(n * BLOCK as u64, &[n as u8; BLOCK]).unwrap());
        let (mut window, mut seen) = (ReadWindow::new(&device, 2), Vec::new());
        let mut capacities = Vec::new();
        let mut look = |done: Option<ReadDone<Of<_>>>,
                        window: &mut ReadWindow<'_, SimDevice, _>| {
            let Some((Read { of: Of(_, number), buf, .. }, filled)) = done else { return false };
            assert_eq!((filled.unwrap(), buf[7]), (BLOCK, number as u8));
            seen.push(number);
            capacities.push(buf.capacity());
            window.keep(buf);
            true
        };
        for n in 0..9 {
            let done = window.make_room();
            window.push(Of(Arc::clone(&file), n), n * BLOCK as u64, BLOCK);
            assert_eq!(look(done, &mut window), n >= 2, "two are in flight");
        }
        window.start();
        loop {
            let done = window.pop();
            if !look(done, &mut window) {
                break;
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, Vec::from_iter(0..9));
        drop(window);
        let kept = BUFFERS.take();
        assert!((1..=3).contains(&kept.len()), "{} buffers for two reads", kept.len());
        BUFFERS.set(kept);
        let unused = ReadWindow::<SimDevice, Of<_>>::new(&device, 2);
        drop(unused);
        assert!(!BUFFERS.take().is_empty(), "a burst that reads nothing leaves them");
    }
}
