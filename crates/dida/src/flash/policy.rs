//! The policy level: a logical device with a range that is mapped by block. A slab is a logical
//! block; which flash it lies on, and in which channel, nobody tells.

use super::{Flash, PageRead, Shape};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::{FlashDevice, FlashError, FlashFault, FlashResult, Place};
use silica_flash::policy::Policy;
use std::sync::{Mutex, MutexGuard};

/// The policy level of a flash library (003…, 3.4.4).
pub struct PolicyFlash<D: FlashDevice> {
    shape: Shape,
    state: Mutex<State<D>>,
    held: Vec<u32>,
}

struct State<D: FlashDevice> {
    disk: Policy<D>,
    free: Vec<u32>,
    /// Times that each slab was trimmed: of erases only the device knows.
    trims: Vec<u64>,
}

fn as_flash(error: &Error) -> FlashError {
    let fault = match error.kind() {
        ErrorKind::Closed => FlashFault::PowerLost,
        ErrorKind::Full => FlashFault::NoSpace,
        ErrorKind::Corruption => FlashFault::Uncorrectable,
        _ => FlashFault::Io,
    };
    FlashError::new(fault, Place::Device)
}

impl<D: FlashDevice> PolicyFlash<D> {
    /// Slabs of `pages` pages, as many as the whole logical device has. Reads the first page of
    /// each to see which have something.
    ///
    /// # Errors
    /// Those of reading.
    pub fn new(disk: Policy<D>, pages: u32) -> Result<Self> {
        let slabs = (disk.pages() / u64::from(pages)) as u32;
        let page_bytes = disk.page_bytes() as u32;
        let shape = Shape { channels: 1, slabs, pages, page_bytes };
        let mut first = vec![0; page_bytes as usize];
        let (mut free, mut held) = (Vec::new(), Vec::new());
        for slab in 0..slabs {
            // What cannot be read is held, and given back by the cache.
            let read = disk.read(u64::from(slab) * u64::from(pages), &mut first);
            let is_free = read.is_ok() && first.iter().all(|byte| *byte == 0);
            if is_free { free.push(slab) } else { held.push(slab) }
        }
        let trims = vec![0; slabs as usize];
        Ok(PolicyFlash { shape, state: Mutex::new(State { disk, free, trims }), held })
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().expect("no panic while locked")
    }

    fn page(&self, slab: u32, first: u32) -> u64 {
        u64::from(slab) * u64::from(self.shape.pages) + u64::from(first)
    }
}

impl<D: FlashDevice> Flash for PolicyFlash<D> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn free(&self) -> u32 {
        self.state().free.len() as u32
    }

    fn usable(&self) -> u32 {
        self.shape.slabs
    }

    fn channel_of(&self, _block: u32) -> u32 {
        0
    }

    fn loads(&self) -> Vec<u64> {
        vec![0]
    }

    fn take(&self, _channel: u32) -> Result<Option<u32>> {
        let mut state = self.state();
        let State { free, trims, .. } = &mut *state;
        let least = (0..free.len()).min_by_key(|at| trims[free[*at] as usize]);
        Ok(least.map(|at| free.swap_remove(at)))
    }

    fn take_worn(&self) -> Result<Option<u32>> {
        let mut state = self.state();
        let State { free, trims, .. } = &mut *state;
        let most = (0..free.len()).max_by_key(|at| trims[free[*at] as usize]);
        Ok(most.map(|at| free.swap_remove(at)))
    }

    fn program(&self, block: u32, first: u32, _stream: u16, pages: &[u8]) -> FlashResult<()> {
        self.state().disk.write(self.page(block, first), pages).map_err(|e| as_flash(&e))
    }

    fn give_back(&self, block: u32) -> Result<()> {
        let mut state = self.state();
        state.disk.trim(self.page(block, 0), u64::from(self.shape.pages))?;
        state.trims[block as usize] += 1;
        state.free.push(block);
        Ok(())
    }

    fn read(&self, block: u32, first: u32, pages: &mut [u8]) -> FlashResult<()> {
        self.state().disk.read(self.page(block, first), pages).map_err(|e| as_flash(&e))
    }

    fn read_many(&self, reads: Vec<PageRead>, done: &mut dyn FnMut(PageRead, FlashResult<()>)) {
        for mut read in reads {
            let result = self.read(read.block, read.first, &mut read.pages);
            done(read, result);
        }
    }

    fn erases(&self, block: u32) -> u64 {
        self.state().trims[block as usize]
    }

    fn held(&self) -> Vec<u32> {
        self.held.clone()
    }

    fn sync(&self) -> Result<()> {
        self.state().disk.flush()
    }
}
