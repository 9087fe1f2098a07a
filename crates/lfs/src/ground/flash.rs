//! Segments that are flash blocks, at the function level.

use super::{Burst, Fetch, Ground};
use silica_base::{AlignedBuf, ErrorKind, Result};
use silica_device::blocks::{FlashDevice, FlashFault, FlashQueue, Geometry, Operation, Request};
use silica_flash::functions::{FunctionOptions, Functions, Mapping, OverProvisioning, Weights};
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations in flight at most.
const DEPTH: usize = 256;
/// Segments written side by side at most: each costs a half-filled block after a crash.
const WIDTH_MAX: u32 = 16;

/// Pages of a stripe where LUNs are only numbers: 256 KiB of 4 KiB pages.
const STRIPE_PAGES: u32 = 64;

/// A block of flash is a segment (003…, 3.7.2).
pub struct FlashGround<D> {
    functions: Functions<D>,
    found: Vec<u32>,
    over_provisioned: u32,
    /// Pages of each channel's blocks that were handed out: what is still to be written there is
    /// load, too, or blocks that are taken at once would all be of one channel.
    given: Vec<AtomicU64>,
}

impl<D: FlashDevice> FlashGround<D> {
    /// Opens the function level of `device`, of whose blocks `over_provisioned` are kept back, and
    /// claims every block that has pages.
    ///
    /// # Errors
    /// Those of [`Functions::open`] and [`Functions::claim`].
    pub fn open(device: D, over_provisioned: u32) -> Result<Self> {
        let functions = Functions::open(device, FunctionOptions::default())?;
        let mut found = Vec::new();
        for block in functions.found() {
            functions.claim(block, Mapping::Page)?;
            found.push(functions.geometry().index_of(block));
        }
        // What an earlier crash left held may leave less until the first collection.
        let wanted = OverProvisioning::Blocks(over_provisioned);
        let short = functions.to_be_trimmed(wanted);
        let reserved = over_provisioned.saturating_sub(short);
        functions.set_over_provisioning(OverProvisioning::Blocks(reserved))?;
        let given = (0..functions.geometry().channels).map(|_| AtomicU64::new(0)).collect();
        Ok(FlashGround { functions, found, over_provisioned, given })
    }

    /// The function level.
    pub fn functions(&self) -> &Functions<D> {
        &self.functions
    }

    fn geometry(&self) -> &Geometry {
        self.functions.geometry()
    }

    /// Channels that may have a block to give: those with the fewest segments of `beside` first,
    /// and of these those with least load.
    fn channels(&self, beside: &[u32]) -> Vec<u16> {
        let mut taken = vec![0; self.geometry().channels as usize];
        for segment in beside {
            taken[usize::from(self.geometry().block_at(*segment).channel)] += 1;
        }
        let mut channels: Vec<u16> = (0..self.geometry().channels as u16).collect();
        channels.sort_by_cached_key(|channel| (taken[usize::from(*channel)], self.load(*channel)));
        channels
    }

    /// What a channel has had to do, and has to do for blocks that were handed out.
    fn load(&self, channel: u16) -> u64 {
        let given = self.given[usize::from(channel)].load(Ordering::Relaxed);
        let done = self.functions.device().counters().channel(channel).programs;
        let to_come = given.saturating_sub(done) * Weights::default().program;
        self.functions.load(channel) + to_come
    }
}

impl<D: FlashDevice> Ground for FlashGround<D> {
    fn page_bytes(&self) -> usize {
        self.geometry().page_bytes as usize
    }

    fn segment_pages(&self) -> u32 {
        self.geometry().pages
    }

    fn segments(&self) -> u32 {
        self.geometry().block_count()
    }

    fn usable(&self) -> u32 {
        self.functions.statistics().usable
    }

    fn over_provisioned(&self) -> u32 {
        self.over_provisioned
    }

    fn width(&self) -> u32 {
        self.geometry().lun_count().min(WIDTH_MAX)
    }

    fn stripe_pages(&self) -> u32 {
        if self.functions.device().abilities().is_physical { 1 } else { STRIPE_PAGES }
    }

    fn open_max(&self) -> u32 {
        self.functions.device().abilities().open_blocks_max.unwrap_or(u32::MAX)
    }

    fn capacity(&self, segment: u32) -> u32 {
        let block = self.geometry().block_at(segment);
        self.functions.block(block).map_or(self.geometry().pages, |status| status.capacity)
    }

    fn written(&self, segment: u32) -> u32 {
        self.functions.block(self.geometry().block_at(segment)).map_or(0, |status| status.written)
    }

    fn found(&self) -> &[u32] {
        &self.found
    }

    fn allocate(&self, is_copy: bool, beside: &[u32]) -> Result<Option<u32>> {
        for channel in self.channels(beside) {
            if self.functions.erased(channel) == 0 {
                // One of each channel: side by side they are erased as fast as one is.
                self.functions.erase_pending(self.geometry().channels)?;
            }
            let given = match is_copy {
                true => self.functions.allocate_reserved(channel, Mapping::Page),
                false => self.functions.allocate(channel, Mapping::Page),
            };
            match given {
                Ok(given) => {
                    let pages = u64::from(self.geometry().pages);
                    self.given[usize::from(channel)].fetch_add(pages, Ordering::Relaxed);
                    return Ok(Some(self.geometry().index_of(given.block)));
                }
                Err(error) if error.kind() == ErrorKind::Full => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn free(&self) -> u32 {
        let statistics = self.functions.statistics();
        statistics.free + statistics.waiting
    }

    fn trim(&self, segment: u32) -> Result<()> {
        Ok(self.functions.trim(self.geometry().block_at(segment))?)
    }

    fn finish(&self, segment: u32) -> Result<()> {
        match self.functions.finish(self.geometry().block_at(segment)) {
            // A bad block takes no more pages either.
            Err(error) if error.fault() == FlashFault::BadBlock => Ok(()),
            result => Ok(result?),
        }
    }

    fn write(&self, bursts: Vec<Burst>) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = bursts.iter().map(|_| Ok(())).collect();
        let mut queue = self.functions.queue::<usize>(DEPTH);
        let mut bursts = bursts.into_iter().enumerate();
        loop {
            while !queue.is_full()
                && let Some((of, Burst { segment, first, pages })) = bursts.next()
            {
                let block = self.geometry().block_at(segment);
                let request = Request::Append { block, expected: Some(first), stream: 0 };
                queue.push(Operation { of, request, pages, spare: Vec::new() });
            }
            let Some((operation, result)) = queue.pop() else { return results };
            if let Err(error) = result {
                results[operation.of] = Err(error.into());
            }
        }
    }

    fn read(&self, fetches: Vec<Fetch>, done: &mut dyn FnMut(Fetch, Result<()>)) {
        if let [Fetch { segment, first, .. }] = fetches[..] {
            let mut fetch = fetches.into_iter().next().expect("there is one");
            let page = self.geometry().block_at(segment).page(first);
            let result = self.functions.read(page, &mut fetch.pages, &mut []);
            return done(fetch, result.map_err(Into::into));
        }
        let mut queue = self.functions.queue(DEPTH);
        let mut fetches = fetches.into_iter();
        loop {
            while !queue.is_full()
                && let Some(fetch) = fetches.next()
            {
                let Fetch { of, segment, first, pages } = fetch;
                let page = self.geometry().block_at(segment).page(first);
                let request = Request::Read { first: page };
                let of = (of, segment, first);
                queue.push(Operation { of, request, pages, spare: Vec::new() });
            }
            let Some((Operation { of, pages, .. }, result)) = queue.pop() else { return };
            let (of, segment, first) = of;
            done(Fetch { of, segment, first, pages }, result.map(drop).map_err(Into::into));
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(self.functions.sync()?)
    }

    fn tend(&self, max: u32) -> Result<()> {
        self.functions.erase_pending(max).map(drop)
    }
}

impl Fetch {
    /// A piece of `count` pages to be read.
    pub fn new(of: usize, segment: u32, first: u32, count: u32, page_bytes: usize) -> Self {
        let pages = AlignedBuf::zeroed(count as usize * page_bytes);
        Fetch { of, segment, first, pages }
    }
}
