//! What all handles of a simulated flash device share.

use super::kept::Kept;
use super::pace::Pace;
use super::{FlashFaultKind, SimFlashOptions};
use crate::blocks::{
    Append, BlockAddress, BlockState, BlockStatus, FlashCounters, FlashError, FlashFault,
    FlashResult, PageAddress, Place, takes_pages,
};
use silica_base::Prng;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A page that was programmed.
#[derive(Clone)]
struct Page {
    bytes: Kept,
    spare: Kept,
    is_readable: bool,
}

/// What a block holds, apart from whether it is bad.
#[derive(Clone, Default)]
struct Contents {
    pages: Vec<Page>,
    is_finished: bool,
    is_undefined: bool,
    erases: u64,
    /// Pages read since the last erase.
    reads: u64,
}

/// A step that a power cut may take back.
#[derive(Clone)]
struct Step {
    /// The operation that did it.
    op: u64,
    undo: Undo,
}

#[derive(Clone)]
enum Undo {
    /// Takes the last page away.
    Append,
    /// Opens the block again.
    Finish,
    /// Brings back what the block held.
    Reset(Contents),
}

#[derive(Clone, Default)]
struct Block {
    contents: Contents,
    /// Nothing takes this back.
    is_bad: bool,
    /// Steps since what is certain, the oldest first.
    uncertain: VecDeque<Step>,
}

/// Calls that change a block and carry no pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Finish,
    Reset,
    Retire,
}

#[derive(Clone)]
pub(super) struct State {
    rng: Prng,
    pub(super) queue_rng: Prng,
    pub(super) options: SimFlashOptions,
    /// False from a power cut to the next reopen.
    pub(super) powered: bool,
    /// Handles of former generations are closed.
    pub(super) generation: u64,
    pub(super) ops: u64,
    pub(super) cut_at: Option<u64>,
    /// Ordered faults, with the matching calls until each strikes.
    pub(super) faults: Vec<(FlashFaultKind, u64)>,
    pub(super) now_ns: u64,
    /// What holds the time to a clock.
    pub(super) pace: Option<Pace>,
    is_poisoned: bool,
    blocks: Vec<Block>,
    lun_free_ns: Vec<u64>,
    channel_free_ns: Vec<u64>,
    counters: Arc<FlashCounters>,
}

fn failed<T>(fault: FlashFault, place: impl Into<Place>) -> FlashResult<T> {
    Err(FlashError::new(fault, place))
}

impl State {
    pub(super) fn new(seed: u64, options: SimFlashOptions, counters: Arc<FlashCounters>) -> Self {
        let mut rng = Prng::new(seed);
        let geometry = &options.geometry;
        let mut blocks = vec![Block::default(); geometry.block_count() as usize];
        for block in &mut blocks {
            block.is_bad = happens(&mut rng, options.rates.factory_bad);
        }
        State {
            rng,
            queue_rng: Prng::new(!seed),
            options,
            powered: true,
            generation: 0,
            ops: 0,
            cut_at: None,
            faults: Vec::new(),
            now_ns: 0,
            pace: None,
            is_poisoned: false,
            blocks,
            lun_free_ns: vec![0; geometry.lun_count() as usize],
            channel_free_ns: vec![0; geometry.channels as usize],
            counters,
        }
    }

    pub(super) fn fork(&self, seed: u64, counters: Arc<FlashCounters>) -> State {
        let (rng, queue_rng) = (Prng::new(seed), Prng::new(!seed));
        State { rng, queue_rng, counters, ..self.clone() }
    }

    pub(super) fn is_open(&self, generation: u64) -> bool {
        self.powered && self.generation == generation
    }

    pub(super) fn reopen(&mut self, counters: Arc<FlashCounters>) {
        self.powered = true;
        self.generation += 1;
        self.is_poisoned = false;
        self.counters = counters;
    }

    fn index(&self, block: BlockAddress) -> FlashResult<usize> {
        if self.options.geometry.contains(block) {
            Ok(self.options.geometry.index_of(block) as usize)
        } else {
            failed(FlashFault::OutOfRange, block)
        }
    }

    pub(super) fn status(&self, block: BlockAddress) -> FlashResult<BlockStatus> {
        Ok(self.status_of(self.index(block)?))
    }

    fn status_of(&self, index: usize) -> BlockStatus {
        let block = &self.blocks[index];
        let capacity = self.options.capacity_pages.unwrap_or(self.options.geometry.pages);
        let written = block.contents.pages.len() as u32;
        let state = match &block.contents {
            _ if block.is_bad => BlockState::Bad,
            contents if contents.is_undefined => BlockState::Undefined,
            contents if contents.is_finished || written == capacity => BlockState::Full,
            _ if written == 0 => BlockState::Free,
            _ => BlockState::Open,
        };
        BlockStatus { state, written, capacity, erases: block.contents.erases }
    }

    /// Counts a call against the ordered faults and the rate; true if it fails.
    fn strikes(&mut self, kind: FlashFaultKind) -> bool {
        let rate = match kind {
            FlashFaultKind::ProgramFailed => self.options.rates.program_failed,
            FlashFaultKind::EraseFailed => self.options.rates.erase_failed,
            FlashFaultKind::Uncorrectable => self.options.rates.uncorrectable,
            FlashFaultKind::Io | FlashFaultKind::FailedSync => 0,
        };
        let mut strikes = happens(&mut self.rng, rate);
        self.faults.retain_mut(|(ordered, calls)| {
            if *ordered != kind {
                return true;
            }
            *calls -= 1;
            strikes |= *calls == 0;
            *calls > 0
        });
        strikes
    }

    /// Counts an operation that power may be cut at; true if it is cut there.
    fn is_cut_here(&mut self) -> bool {
        self.ops += 1;
        self.cut_at.is_some_and(|at| self.ops >= at)
    }

    fn refuse_poisoned(&self, block: BlockAddress) -> FlashResult<()> {
        if self.is_poisoned { failed(FlashFault::Poisoned, block) } else { Ok(()) }
    }

    /// Reads pages; when the device is done.
    pub(super) fn read(
        &mut self,
        first: PageAddress,
        pages: &mut [u8],
        spare: &mut [u8],
    ) -> FlashResult<u64> {
        let index = self.index(first.block)?;
        let (page_bytes, spare_bytes) =
            (self.options.geometry.page_bytes as usize, self.options.geometry.spare_bytes as usize);
        let count = pages.len() / page_bytes;
        if self.blocks[index].contents.is_undefined {
            return failed(FlashFault::NeedsReset, first.block);
        }
        for (i, page) in (first.page..).take(count).enumerate() {
            let address = first.block.page(page);
            if page as usize >= self.blocks[index].contents.pages.len() {
                return failed(FlashFault::Unwritten, address);
            }
            let spoils = self.strikes(FlashFaultKind::Uncorrectable);
            let found = &mut self.blocks[index].contents.pages[page as usize];
            found.is_readable &= !spoils;
            if !found.is_readable {
                self.counters.add_failures(first.block, 1);
                return failed(FlashFault::Uncorrectable, address);
            }
            found.bytes.copy_to(&mut pages[i * page_bytes..][..page_bytes]);
            if !spare.is_empty() {
                found.spare.copy_to(&mut spare[i * spare_bytes..][..spare_bytes]);
            }
            self.disturb(index);
        }
        self.counters.add_reads(first.block, count as u64);
        let timing = self.options.timing;
        let mut end_ns = 0;
        for _ in 0..count {
            end_ns = self.occupy(first.block, timing.read_ns, timing.transfer_ns, 0);
        }
        Ok(end_ns)
    }

    /// Counts a page read of a block, which may harm one of its pages.
    fn disturb(&mut self, index: usize) {
        let contents = &mut self.blocks[index].contents;
        contents.reads += 1;
        let super::ReadDisturb { reads_max, one_in } = self.options.read_disturb;
        if reads_max > 0 && contents.reads > reads_max && happens(&mut self.rng, one_in) {
            let page = self.rng.below(contents.pages.len() as u64) as usize;
            contents.pages[page].is_readable = false;
        }
    }

    /// Pages read from a block since its last erase.
    pub(super) fn reads_since_erase(&self, block: BlockAddress) -> FlashResult<u64> {
        Ok(self.blocks[self.index(block)?].contents.reads)
    }

    /// Memory that the contents of pages take, in bytes.
    pub(super) fn contents_bytes(&self) -> u64 {
        let pages = self.blocks.iter().flat_map(|block| &block.contents.pages);
        pages.map(|page| (page.bytes.memory_bytes() + page.spare.memory_bytes()) as u64).sum()
    }

    /// Appends pages one by one; the first one's number and when the device is done.
    pub(super) fn append(&mut self, append: &Append<'_>) -> FlashResult<(u32, u64)> {
        let geometry = self.options.geometry;
        let (page_bytes, spare_bytes) =
            (geometry.page_bytes as usize, geometry.spare_bytes as usize);
        let count = (append.pages.len() / page_bytes) as u32;
        let index = self.index(append.block)?;
        self.refuse_poisoned(append.block)?;
        let status = self.status_of(index);
        takes_pages(&status, append, count)?;
        if status.state == BlockState::Free {
            self.check_open_blocks(append.block)?;
        }
        let mut end_ns = 0;
        for i in 0..count as usize {
            let address = append.block.page(status.written + i as u32);
            let is_cut = self.is_cut_here();
            if self.strikes(FlashFaultKind::Io) {
                return Err(refused(address));
            }
            if self.strikes(FlashFaultKind::ProgramFailed) {
                self.blocks[index].is_bad = true;
                self.counters.add_failures(append.block, 1);
                return failed(FlashFault::ProgramFailed, address);
            }
            let is_sparse = self.options.is_sparse;
            let spare = match append.spare {
                [] => Kept::Zero,
                spare => Kept::new(&spare[i * spare_bytes..][..spare_bytes], is_sparse),
            };
            let bytes = Kept::new(&append.pages[i * page_bytes..][..page_bytes], is_sparse);
            let block = &mut self.blocks[index];
            block.contents.pages.push(Page { bytes, spare, is_readable: true });
            block.uncertain.push_back(Step { op: self.ops, undo: Undo::Append });
            if is_cut {
                self.cut();
                return failed(FlashFault::PowerLost, address);
            }
            self.counters.add_programs(append.block, 1);
            let timing = self.options.timing;
            end_ns = self.occupy(append.block, 0, timing.transfer_ns, timing.program_ns);
        }
        Ok((status.written, end_ns))
    }

    fn check_open_blocks(&self, block: BlockAddress) -> FlashResult<()> {
        let Some(max) = self.options.open_blocks_max else { return Ok(()) };
        let is_open = |index: &usize| self.status_of(*index).state == BlockState::Open;
        if (0..self.blocks.len()).filter(is_open).count() >= max as usize {
            return failed(FlashFault::TooManyOpen, block);
        }
        Ok(())
    }

    /// Finishes, resets or retires a block; when the device is done.
    pub(super) fn change(&mut self, address: BlockAddress, call: Call) -> FlashResult<u64> {
        let index = self.index(address)?;
        self.refuse_poisoned(address)?;
        let state = self.status_of(index).state;
        match (call, state) {
            (Call::Retire, BlockState::Bad) => return Ok(0),
            (_, BlockState::Bad) => return failed(FlashFault::BadBlock, address),
            (Call::Finish, BlockState::Undefined) => {
                return failed(FlashFault::NeedsReset, address);
            }
            (Call::Finish, BlockState::Full) => return Ok(0),
            _ => {}
        }
        let is_cut = self.is_cut_here();
        if self.strikes(FlashFaultKind::Io) {
            return Err(refused(address));
        }
        let result = match call {
            Call::Reset => self.erase(index, address),
            Call::Finish => {
                let block = &mut self.blocks[index];
                block.contents.is_finished = true;
                block.uncertain.push_back(Step { op: self.ops, undo: Undo::Finish });
                Ok(0)
            }
            Call::Retire => {
                self.blocks[index].is_bad = true;
                Ok(0)
            }
        };
        if is_cut {
            self.cut();
            return failed(FlashFault::PowerLost, address);
        }
        result
    }

    fn erase(&mut self, index: usize, address: BlockAddress) -> FlashResult<u64> {
        let erases = self.blocks[index].contents.erases;
        let is_worn = self.options.endurance.is_some_and(|max| erases >= u64::from(max));
        let fails = self.strikes(FlashFaultKind::EraseFailed);
        let block = &mut self.blocks[index];
        if is_worn || fails {
            block.is_bad = true;
            if fails && !is_worn {
                block.contents.pages.clear();
                block.uncertain.clear();
            }
            self.counters.add_failures(address, 1);
            let fault = if is_worn { FlashFault::WornOut } else { FlashFault::EraseFailed };
            return failed(fault, address);
        }
        let fresh = Contents { erases: erases + 1, ..Contents::default() };
        let old = std::mem::replace(&mut block.contents, fresh);
        block.uncertain.push_back(Step { op: self.ops, undo: Undo::Reset(old) });
        self.counters.add_erases(address, 1);
        Ok(self.occupy(address, self.options.timing.erase_ns, 0, 0))
    }

    pub(super) fn sync(&mut self) -> FlashResult<()> {
        if self.is_poisoned {
            return failed(FlashFault::Poisoned, Place::Device);
        }
        if self.is_cut_here() {
            self.cut();
            return failed(FlashFault::PowerLost, Place::Device);
        }
        if self.strikes(FlashFaultKind::FailedSync) {
            self.is_poisoned = true;
            return Err(refused(Place::Device));
        }
        self.blocks.iter_mut().for_each(|block| block.uncertain.clear());
        self.counters.add_sync();
        Ok(())
    }

    /// A call that changed `block` returned, with an error perhaps: without a volatile cache its
    /// effect is certain. After a power cut nothing is uncertain any more.
    pub(super) fn certain(&mut self, block: BlockAddress) {
        self.certain_up_to(block, u64::MAX);
    }

    /// Makes what operations up to `op` did to `block` certain, unless a cache holds it.
    pub(super) fn certain_up_to(&mut self, block: BlockAddress, op: u64) {
        if !self.options.has_volatile_cache
            && let Ok(index) = self.index(block)
        {
            let uncertain = &mut self.blocks[index].uncertain;
            while uncertain.front().is_some_and(|step| step.op <= op) {
                uncertain.pop_front();
            }
        }
    }

    /// The caller waits until `end_ns`. Held to a clock, time goes on by itself meanwhile.
    pub(super) fn returned(&mut self, end_ns: u64) {
        if self.pace.is_none() {
            self.now_ns = self.now_ns.max(end_ns);
        }
    }

    /// Takes the time from the clock, if there is one.
    pub(super) fn tick(&mut self) {
        if let Some(pace) = &self.pace {
            self.now_ns = self.now_ns.max(pace.now_ns());
        }
    }

    /// Cuts the power: each block goes back to a state that the seed chooses.
    pub(super) fn cut(&mut self) {
        self.powered = false;
        self.cut_at = None;
        let is_cached = self.options.has_volatile_cache;
        for block in &mut self.blocks {
            block.cut(&mut self.rng, is_cached);
        }
    }

    pub(super) fn spoil(&mut self, page: PageAddress) {
        if let Ok(index) = self.index(page.block)
            && let Some(page) = self.blocks[index].contents.pages.get_mut(page.page as usize)
        {
            page.is_readable = false;
        }
    }

    /// Occupies the LUN of `block` for `before_ns`, then its channel for `transfer_ns`, then the
    /// LUN for `after_ns`; when that ends.
    fn occupy(
        &mut self,
        block: BlockAddress,
        before_ns: u64,
        transfer_ns: u64,
        after_ns: u64,
    ) -> u64 {
        let lun = self.options.geometry.lun_index(block) as usize;
        let channel = usize::from(block.channel);
        let start_ns = self.now_ns.max(self.lun_free_ns[lun]);
        let sensed_ns = start_ns + before_ns;
        let moved_ns = match transfer_ns {
            0 => sensed_ns,
            _ => {
                let moved_ns = sensed_ns.max(self.channel_free_ns[channel]) + transfer_ns;
                self.channel_free_ns[channel] = moved_ns;
                moved_ns
            }
        };
        let end_ns = moved_ns + after_ns;
        self.lun_free_ns[lun] = end_ns;
        let busy_ns = end_ns - start_ns;
        self.counters.add_busy_ns(block, busy_ns);
        end_ns
    }
}

impl Block {
    fn cut(&mut self, rng: &mut Prng, is_cached: bool) {
        let steps = self.uncertain.len();
        if steps == 0 {
            return;
        }
        let kept = rng.below(steps as u64 + 1) as usize;
        let mut lost = self.uncertain.range(kept..);
        let is_reset_lost = lost.any(|step| matches!(step.undo, Undo::Reset(_)));
        let is_half_done = kept < steps && rng.one_in(2);
        while self.uncertain.len() > kept + 1 {
            self.undo();
        }
        let mut torn = 0;
        if kept < steps {
            match (&self.uncertain[kept].undo, is_half_done) {
                (Undo::Append, true) => torn = 1,
                (Undo::Reset(_), true) => {
                    self.undo();
                    self.contents.pages.clear();
                    self.contents.is_undefined = true;
                }
                _ => self.undo(),
            }
        }
        let len = self.contents.pages.len();
        let unsynced =
            self.uncertain.iter().rev().take_while(|s| !matches!(s.undo, Undo::Reset(_)));
        let unsynced = match is_reset_lost {
            true => len,
            false => unsynced.filter(|step| matches!(step.undo, Undo::Append)).count(),
        };
        for (i, page) in self.contents.pages[len - unsynced..].iter_mut().rev().enumerate() {
            let is_torn = i < torn || is_cached && rng.one_in(8);
            page.is_readable &= !is_torn;
        }
        self.uncertain.clear();
    }

    /// Takes the newest step back.
    fn undo(&mut self) {
        match self.uncertain.pop_back().expect("there is a step").undo {
            Undo::Append => drop(self.contents.pages.pop()),
            Undo::Finish => self.contents.is_finished = false,
            Undo::Reset(old) => self.contents = old,
        }
    }
}

fn refused(place: impl Into<Place>) -> FlashError {
    FlashError::io(place, io::Error::other("simulated refusal"))
}

/// True once in `rate` calls on average; never for 0.
fn happens(rng: &mut Prng, rate: u64) -> bool {
    rate > 0 && rng.one_in(rate)
}
