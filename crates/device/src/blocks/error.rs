//! What can go wrong with flash, as far as a program can act on it.

use super::{BlockAddress, PageAddress};
use silica_base::{Error, ErrorKind};
use std::error::Error as StdError;
use std::fmt;
use std::io;

/// Result of a call on flash.
pub type FlashResult<T> = std::result::Result<T, FlashError>;

/// What went wrong.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlashFault {
    /// The device has no such block or page, or the call's buffers do not fit its pages.
    OutOfRange,
    /// The page was not written since the last reset of its block.
    Unwritten,
    /// The block is full or finished; it has to be reset before it takes pages again.
    NotErased,
    /// The caller named a page that is not the block's next; nothing was written.
    OutOfOrder {
        /// The block's next page.
        next: u32,
    },
    /// A reset of the block was interrupted; it has to be reset again.
    NeedsReset,
    /// The caller does not hold the block: a level that hands out blocks has not given it, or has
    /// taken it back.
    NotAllocated,
    /// The block is bad: it takes neither pages nor resets. Pages it has may be read.
    BadBlock,
    /// As many blocks are open as the device allows; finish or fill one first.
    TooManyOpen,
    /// The page could not be programmed. The block is bad from here on, and the pages before
    /// this one stay readable.
    ProgramFailed,
    /// The block could not be erased. It is bad from here on and has no pages.
    EraseFailed,
    /// The block had as many resets as it takes. It is bad from here on.
    WornOut,
    /// The page was written, and its bits are beyond correction.
    Uncorrectable,
    /// The device lost power or was closed.
    PowerLost,
    /// A sync failed earlier; nothing more is accepted until the device is opened again.
    Poisoned,
    /// The file system below has no room.
    NoSpace,
    /// The operating system refused an operation. The block stays as it was.
    Io,
}

impl FlashFault {
    fn words(self) -> &'static str {
        match self {
            FlashFault::OutOfRange => "lies outside of the device, or the buffers do not fit it",
            FlashFault::Unwritten => "was not written since the last reset",
            FlashFault::NotErased => "takes no more pages: it is full or finished; reset it first",
            FlashFault::OutOfOrder { .. } => "is not the block's next page",
            FlashFault::NeedsReset => "was left by an interrupted reset; reset it again",
            FlashFault::NotAllocated => "is not held by the caller; allocate or claim it first",
            FlashFault::BadBlock => "is bad; use another block",
            FlashFault::TooManyOpen => {
                "cannot be opened: the device has as many open blocks as it allows; finish one"
            }
            FlashFault::ProgramFailed => "could not be programmed; the block is bad now",
            FlashFault::EraseFailed => "could not be erased; the block is bad now",
            FlashFault::WornOut => "is worn out; the block is bad now",
            FlashFault::Uncorrectable => "has errors beyond correction",
            FlashFault::PowerLost => "cannot be reached: the device lost power or was closed",
            FlashFault::Poisoned => "is refused: an earlier sync failed; open the device again",
            FlashFault::NoSpace => "has no room on the file system below; free some space",
            FlashFault::Io => "was refused by the operating system",
        }
    }

    fn kind(self) -> ErrorKind {
        match self {
            FlashFault::OutOfRange
            | FlashFault::NotErased
            | FlashFault::OutOfOrder { .. }
            | FlashFault::NeedsReset
            | FlashFault::NotAllocated
            | FlashFault::TooManyOpen => ErrorKind::Config,
            FlashFault::Unwritten => ErrorKind::NotFound,
            FlashFault::Uncorrectable => ErrorKind::Corruption,
            FlashFault::PowerLost => ErrorKind::Closed,
            FlashFault::Poisoned => ErrorKind::Poisoned,
            FlashFault::NoSpace => ErrorKind::Full,
            FlashFault::BadBlock
            | FlashFault::ProgramFailed
            | FlashFault::EraseFailed
            | FlashFault::WornOut
            | FlashFault::Io => ErrorKind::Io,
        }
    }
}

/// What an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The whole device.
    Device,
    /// A block.
    Block(BlockAddress),
    /// A page.
    Page(PageAddress),
}

impl From<BlockAddress> for Place {
    fn from(block: BlockAddress) -> Self {
        Place::Block(block)
    }
}

impl From<PageAddress> for Place {
    fn from(page: PageAddress) -> Self {
        Place::Page(page)
    }
}

/// An error of flash: what went wrong, where, and what the system said about it.
///
/// Programs act on [`FlashError::fault`]; people read the text. It becomes a [`silica_base::Error`]
/// by `?`.
#[derive(Debug)]
pub struct FlashError {
    fault: FlashFault,
    place: Place,
    source: Option<io::Error>,
}

impl FlashError {
    /// An error at `place`.
    pub fn new(fault: FlashFault, place: impl Into<Place>) -> Self {
        FlashError { fault, place: place.into(), source: None }
    }

    /// An error of the operating system at `place`; a full disk is [`FlashFault::NoSpace`].
    pub fn io(place: impl Into<Place>, source: io::Error) -> Self {
        let is_full = matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let fault = if is_full { FlashFault::NoSpace } else { FlashFault::Io };
        FlashError { fault, place: place.into(), source: Some(source) }
    }

    /// This error about another place: for devices over devices, which have addresses of their
    /// own.
    #[must_use]
    pub fn moved_to(self, place: impl Into<Place>) -> Self {
        FlashError { place: place.into(), ..self }
    }

    /// What went wrong.
    pub fn fault(&self) -> FlashFault {
        self.fault
    }

    /// Where it went wrong.
    pub fn place(&self) -> Place {
        self.place
    }
}

impl fmt::Display for FlashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Device => f.write_str("the flash device")?,
            Place::Block(block) => write!(f, "{block}")?,
            Place::Page(page) => write!(f, "{page}")?,
        }
        write!(f, " {}", self.fault.words())?;
        if let FlashFault::OutOfOrder { next } = self.fault {
            write!(f, ", which is page {next}")?;
        }
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for FlashError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<FlashError> for Error {
    fn from(error: FlashError) -> Self {
        Error::new(error.fault.kind(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_where_what_and_what_to_do() {
        let block = BlockAddress { channel: 1, lun: 2, block: 3 };
        let full = FlashError::new(FlashFault::NotErased, block);
        let said = "channel 1, LUN 2, block 3 takes no more pages: it is full or finished; reset \
                    it first";
        assert_eq!(full.to_string(), said);
        let wrong = FlashError::new(FlashFault::OutOfOrder { next: 7 }, block.page(9));
        assert!(
            wrong.to_string().ends_with("page 9 is not the block's next page, which is page 7")
        );
        assert_eq!(Error::from(wrong).kind(), ErrorKind::Config);
        let disk = FlashError::io(Place::Device, io::ErrorKind::StorageFull.into());
        assert_eq!(
            (disk.fault(), Error::from(disk).kind()),
            (FlashFault::NoSpace, ErrorKind::Full)
        );
    }
}
