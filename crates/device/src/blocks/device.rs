//! The traits.

use super::{BlockAddress, FlashCounters, FlashResult, Geometry, PageAddress};
use silica_base::AlignedBuf;

/// Operations of a [`FlashQueue`] in flight at most, whatever depth it was asked for.
pub const OPERATIONS_MAX: usize = 1024;

/// What a device can do beyond what all must do. Programs ask this, never what kind of device it
/// is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Channels and LUNs are parts of the hardware that work at the same time. If false, the
    /// geometry is logical: it says nothing about what is quick together.
    pub is_physical: bool,
    /// What [`FlashDevice::append`], [`FlashDevice::finish`] and [`FlashDevice::reset`] returned
    /// survives a power cut without a sync.
    pub is_durable_at_return: bool,
    /// Appends of one queue to one block take pages in the order in which they were pushed. If
    /// false, they take them in any order, as zone append does.
    pub orders_appends: bool,
    /// The device counts the resets of each block and keeps the count.
    pub counts_erases: bool,
    /// A page that is not what was written is an error. If false, a page that was not synced
    /// before a power cut may read as other bytes: the caller checks what it reads.
    pub checks_pages: bool,
    /// Blocks that may have pages and room for more at the same time; `None` if nothing limits
    /// them.
    pub open_blocks_max: Option<u32>,
    /// Placement streams that the device keeps apart; with 0 the stream of an append is only a
    /// note.
    pub streams: u16,
    /// Resets that a block takes; `None` if unknown or unlimited.
    pub endurance: Option<u32>,
}

/// Whether a block takes pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// It has no pages and takes some.
    Free,
    /// It has pages and takes more.
    Open,
    /// It takes no more pages until it is reset: all are written, or it was finished.
    Full,
    /// A reset was interrupted. It has no pages and takes none until it is reset again.
    Undefined,
    /// It takes neither pages nor resets any more. Pages that it has may be read.
    Bad,
}

/// What a device knows of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStatus {
    /// Whether it takes pages.
    pub state: BlockState,
    /// Pages that it has: those before this number may be read. Some of them may be unreadable.
    pub written: u32,
    /// Pages that can be written to it in all: those of the geometry, or fewer in a zone whose
    /// capacity is smaller than its size.
    pub capacity: u32,
    /// Resets so far.
    pub erases: u64,
}

/// Pages for a block.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// The block, chosen by the caller.
    pub block: BlockAddress,
    /// The page that the first one must become, for callers that number pages themselves: if it
    /// is not the block's next, the append fails with
    /// [`FlashFault::OutOfOrder`](super::FlashFault::OutOfOrder) and writes nothing. `None`
    /// leaves the page to the device.
    pub expected: Option<u32>,
    /// Placement stream: pages of one stream are expected to die together. 0 if unknown.
    pub stream: u16,
    /// One or more pages.
    pub pages: &'a [u8],
    /// Spare bytes of all these pages, one page's after the other's; empty for zeroes.
    pub spare: &'a [u8],
}

/// What an [`Operation`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// [`FlashDevice::read`] of as many pages as the buffer has.
    Read {
        /// The first page.
        first: PageAddress,
    },
    /// [`FlashDevice::append`] of the pages in the buffer.
    Append {
        /// The block.
        block: BlockAddress,
        /// As in [`Append::expected`].
        expected: Option<u32>,
        /// As in [`Append::stream`].
        stream: u16,
    },
    /// [`FlashDevice::finish`].
    Finish {
        /// The block.
        block: BlockAddress,
    },
    /// [`FlashDevice::reset`].
    Reset {
        /// The block.
        block: BlockAddress,
    },
}

impl Request {
    /// The block that the request is about.
    pub fn block(&self) -> BlockAddress {
        match *self {
            Request::Read { first } => first.block,
            Request::Append { block, .. }
            | Request::Finish { block }
            | Request::Reset { block } => block,
        }
    }
}

/// An operation of a [`FlashQueue`].
#[derive(Debug)]
pub struct Operation<T> {
    /// What it is for.
    pub of: T,
    /// What it does.
    pub request: Request,
    /// Pages to be read or appended; empty for other requests.
    pub pages: AlignedBuf,
    /// Spare bytes; empty if the caller does not want them.
    pub spare: Vec<u8>,
}

/// Operations that are under way together and come back one by one. The queue owns their buffers
/// meanwhile. Dropping it waits until all have ended.
///
/// Operations on different LUNs are carried out at the same time if the device can, and end in any
/// order. Those of one queue on one block begin in the order in which they were pushed, except
/// appends if [`Abilities::orders_appends`] is false.
pub trait FlashQueue<T> {
    /// Adds an operation.
    ///
    /// # Panics
    /// If the queue is full.
    fn push(&mut self, operation: Operation<T>);
    /// Waits for an operation to end. Returns it with the first page that was read or appended
    /// (0 for other requests), or what went wrong. `None` if none is under way.
    fn pop(&mut self) -> Option<(Operation<T>, FlashResult<u32>)>;
    /// Operations pushed and not popped.
    fn len(&self) -> usize;
    /// True if no operation is under way.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// True if an operation has to be popped before the next is pushed.
    fn is_full(&self) -> bool;
}

/// Flash, or a drive with zones: blocks that take pages one after the other and are reset as
/// wholes. The obligations of a device stand at the top of the module.
pub trait FlashDevice: Send + Sync + 'static {
    /// Queues of operations on this device.
    type Queue<'d, T>: FlashQueue<T>
    where
        Self: 'd;

    /// How it is divided.
    fn geometry(&self) -> &Geometry;
    /// What it can do.
    fn abilities(&self) -> &Abilities;
    /// What it knows of a block. Costs no I/O.
    ///
    /// # Errors
    /// `OutOfRange`, `PowerLost`.
    fn block(&self, block: BlockAddress) -> FlashResult<BlockStatus>;
    /// Reads as many pages as `pages` has room for, from `first` on, and their spare bytes, if
    /// `spare` is not empty.
    ///
    /// # Errors
    /// `OutOfRange` if the buffers do not fit; `Unwritten`; `NeedsReset`; `Uncorrectable`, which
    /// names the page; `Io`. The buffers then hold anything.
    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()>;
    /// Appends pages to a block, and opens it if it is free. Returns the first page's number.
    ///
    /// # Errors
    /// `OutOfRange` if the pages do not fit the block; `NotErased`, `OutOfOrder`, `NeedsReset`,
    /// `BadBlock`, `TooManyOpen`: nothing was written. After `ProgramFailed`, `NoSpace`, `Io` and
    /// `PowerLost` some of the pages may be there: [`FlashDevice::block`] says how many.
    fn append(&self, append: &Append<'_>) -> FlashResult<u32>;
    /// Closes a block: it takes no more pages until it is reset. Does nothing if it is full.
    ///
    /// # Errors
    /// `OutOfRange`, `NeedsReset`, `BadBlock`, `Io`.
    fn finish(&self, block: BlockAddress) -> FlashResult<()>;
    /// Erases a block, whatever it has. It is free afterwards.
    ///
    /// # Errors
    /// `OutOfRange`, `BadBlock`; `EraseFailed` and `WornOut`, after which the block is bad; `Io`,
    /// after which it may be undefined.
    fn reset(&self, block: BlockAddress) -> FlashResult<()>;
    /// Declares a block bad for good. Its pages stay readable.
    ///
    /// # Errors
    /// `OutOfRange`, `Io`.
    fn retire(&self, block: BlockAddress) -> FlashResult<()>;
    /// Makes everything that returned before the call survive a power cut.
    ///
    /// # Errors
    /// `Io` if it fails; from there on `Poisoned`, as for every other call that changes something.
    fn sync(&self) -> FlashResult<()>;
    /// An empty queue with room for `depth` operations (at least one, at most
    /// [`OPERATIONS_MAX`]).
    fn queue<T>(&self, depth: usize) -> Self::Queue<'_, T>;
    /// Counters of everything this device did since it was opened.
    fn counters(&self) -> &FlashCounters;
    /// Bytes that were written with a placement stream since it was opened; 0 if it has none
    /// ([`Abilities::streams`]).
    fn streamed_bytes(&self) -> u64 {
        0
    }
}
