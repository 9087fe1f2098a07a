//! The raw level: the cache keeps lists of free blocks and counts what channels do.

use super::{Flash, PageRead, Shape};
use silica_base::Result;
use silica_device::blocks::{
    Append, BlockState, FlashDevice, FlashFault, FlashQueue, FlashResult, Operation, Request,
};
use std::sync::Mutex;

/// What an operation weighs in a channel's load, roughly its time on flash: a page read, a page
/// programmed, a block erased.
const WEIGHTS: [u64; 3] = [1, 8, 80];
/// Reads in flight at most.
const READS_MAX: usize = 64;

/// The raw level: a [`FlashDevice`] as it is, or an application's part of one.
pub struct RawFlash<D> {
    device: D,
    shape: Shape,
    state: Mutex<Free>,
}

struct Free {
    /// Erased blocks, by channel.
    free: Vec<Vec<u32>>,
    usable: u32,
    /// Load by channel, which halves each time that it is asked for, and the operations that it
    /// counts already.
    loads: Vec<(u64, u64)>,
}

impl<D: FlashDevice> RawFlash<D> {
    /// All blocks of `device`: free ones are taken from now on, others are held.
    ///
    /// # Errors
    /// Those of [`FlashDevice::block`].
    pub fn new(device: D) -> FlashResult<Self> {
        let geometry = *device.geometry();
        let shape = Shape {
            channels: geometry.channels,
            slabs: geometry.block_count(),
            pages: geometry.pages,
            page_bytes: geometry.page_bytes,
        };
        let mut free = vec![Vec::new(); geometry.channels as usize];
        let mut usable = 0;
        for (number, block) in (0..).zip(geometry.all_blocks()) {
            let status = match device.block(block) {
                Ok(status) => status,
                // An application whose channels have unequal numbers of LUNs.
                Err(error) if error.fault() == FlashFault::OutOfRange => continue,
                Err(error) => return Err(error),
            };
            if status.state != BlockState::Bad {
                usable += 1;
            }
            if status.state == BlockState::Free {
                free[usize::from(block.channel)].push(number);
            }
        }
        let loads = vec![(0, 0); geometry.channels as usize];
        Ok(RawFlash { device, shape, state: Mutex::new(Free { free, usable, loads }) })
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Free> {
        self.state.lock().expect("no panic while locked")
    }
}

fn is_of_the_block(fault: FlashFault) -> bool {
    matches!(fault, FlashFault::BadBlock | FlashFault::EraseFailed | FlashFault::WornOut)
}

impl<D: FlashDevice> Flash for RawFlash<D> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn free(&self) -> u32 {
        self.state().free.iter().map(|blocks| blocks.len() as u32).sum()
    }

    fn usable(&self) -> u32 {
        self.state().usable
    }

    fn channel_of(&self, block: u32) -> u32 {
        u32::from(self.device.geometry().block_at(block).channel)
    }

    fn loads(&self) -> Vec<u64> {
        let mut state = self.state();
        let loads = state.loads.iter_mut().enumerate().map(|(channel, (load, counted))| {
            let counts = self.device.counters().channel(channel as u16);
            let weighed = [counts.reads, counts.programs, counts.erases].into_iter().zip(WEIGHTS);
            let all: u64 = weighed.map(|(count, weight)| count * weight).sum();
            *load = *load / 2 + (all - *counted);
            *counted = all;
            *load
        });
        loads.collect()
    }

    fn take(&self, channel: u32) -> Result<Option<u32>> {
        let geometry = self.device.geometry();
        let mut state = self.state();
        let free = &mut state.free[channel as usize];
        let mut least: Option<(u64, usize)> = None;
        for (at, block) in free.iter().enumerate() {
            let erases = self.device.block(geometry.block_at(*block))?.erases;
            if least.is_none_or(|(fewest, _)| erases < fewest) {
                least = Some((erases, at));
            }
        }
        Ok(least.map(|(_, at)| free.swap_remove(at)))
    }

    fn take_worn(&self) -> Result<Option<u32>> {
        let geometry = self.device.geometry();
        let mut state = self.state();
        let mut most: Option<(u64, usize, usize)> = None;
        for (channel, free) in state.free.iter().enumerate() {
            for (at, block) in free.iter().enumerate() {
                let erases = self.device.block(geometry.block_at(*block))?.erases;
                if most.is_none_or(|(most, ..)| erases > most) {
                    most = Some((erases, channel, at));
                }
            }
        }
        Ok(most.map(|(_, channel, at)| state.free[channel].swap_remove(at)))
    }

    fn program(&self, block: u32, first: u32, stream: u16, pages: &[u8]) -> FlashResult<()> {
        let block = self.device.geometry().block_at(block);
        let append = Append { block, expected: Some(first), stream, pages, spare: &[] };
        self.device.append(&append).map(drop)
    }

    fn give_back(&self, number: u32) -> Result<()> {
        let block = self.device.geometry().block_at(number);
        match self.device.reset(block) {
            Ok(()) => self.state().free[usize::from(block.channel)].push(number),
            Err(error) if is_of_the_block(error.fault()) => {
                log::warn!("a block of the flash cache is given up: {error}");
                self.state().usable -= 1;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn read(&self, block: u32, first: u32, pages: &mut [u8]) -> FlashResult<()> {
        self.device.read(self.device.geometry().block_at(block).page(first), pages, &mut [])
    }

    fn read_many(&self, reads: Vec<PageRead>, done: &mut dyn FnMut(PageRead, FlashResult<()>)) {
        if let Ok([mut read]) = <[PageRead; 1]>::try_from(reads).map_err(|reads| {
            let mut queue = self.device.queue(READS_MAX);
            let mut pop = |queue: &mut D::Queue<'_, (usize, u32, u32)>| {
                if let Some((operation, result)) = queue.pop() {
                    let (of, block, first) = operation.of;
                    let read = PageRead { of, block, first, pages: operation.pages };
                    done(read, result.map(drop));
                }
            };
            for PageRead { of, block, first, pages } in reads {
                if queue.is_full() {
                    pop(&mut queue);
                }
                let page = self.device.geometry().block_at(block).page(first);
                let (of, request) = ((of, block, first), Request::Read { first: page });
                queue.push(Operation { of, request, pages, spare: Vec::new() });
            }
            while !queue.is_empty() {
                pop(&mut queue);
            }
        }) {
            let result = self.read(read.block, read.first, &mut read.pages);
            done(read, result);
        }
    }

    fn erases(&self, block: u32) -> u64 {
        let status = self.device.block(self.device.geometry().block_at(block));
        status.map_or(0, |status| status.erases)
    }

    fn held(&self) -> Vec<u32> {
        let geometry = self.device.geometry();
        let is_held = |block: &u32| {
            let status = self.device.block(geometry.block_at(*block));
            status.is_ok_and(|s| !matches!(s.state, BlockState::Free | BlockState::Bad))
        };
        (0..self.shape.slabs).filter(is_held).collect()
    }

    fn sync(&self) -> Result<()> {
        Ok(self.device.sync()?)
    }

    fn streams(&self) -> (u16, u64) {
        (self.device.abilities().streams, self.device.streamed_bytes())
    }
}
