//! What every device refuses before it touches its medium.

use super::layout::Block;
use super::{
    Append, BlockAddress, BlockState, BlockStatus, FlashError, FlashFault, FlashResult, Geometry,
    PageAddress,
};

fn out_of_range<T>(place: impl Into<super::Place>) -> FlashResult<T> {
    Err(FlashError::new(FlashFault::OutOfRange, place))
}

/// Refuses addresses outside of the device.
pub(crate) fn contains(geometry: &Geometry, block: BlockAddress) -> FlashResult<()> {
    if geometry.contains(block) { Ok(()) } else { out_of_range(block) }
}

/// Whole pages in a buffer; `None` if it has none, or spare bytes that do not fit them.
fn whole_pages(geometry: &Geometry, pages: usize, spare: usize) -> Option<u32> {
    let page_bytes = geometry.page_bytes as usize;
    let count = pages / page_bytes;
    let fits = count > 0
        && pages.is_multiple_of(page_bytes)
        && (spare == 0 || spare == count * geometry.spare_bytes as usize);
    u32::try_from(count).ok().filter(|_| fits)
}

/// Pages that a read of `pages` and `spare` bytes is for.
pub(crate) fn pages_of_read(
    geometry: &Geometry,
    first: PageAddress,
    pages: usize,
    spare: usize,
) -> FlashResult<u32> {
    contains(geometry, first.block)?;
    match whole_pages(geometry, pages, spare) {
        Some(count) if u64::from(first.page) + u64::from(count) <= u64::from(geometry.pages) => {
            Ok(count)
        }
        _ => out_of_range(first),
    }
}

/// Refuses a read of `count` pages from `first` on that the block does not have.
pub(super) fn has_pages(block: &Block, first: PageAddress, count: u32) -> FlashResult<()> {
    if block.is_undefined {
        return Err(FlashError::new(FlashFault::NeedsReset, first.block));
    }
    if first.page + count > block.written {
        let unwritten = first.block.page(block.written.max(first.page));
        return Err(FlashError::new(FlashFault::Unwritten, unwritten));
    }
    Ok(())
}

/// Pages that an append has.
pub(crate) fn pages_of_append(geometry: &Geometry, append: &Append<'_>) -> FlashResult<u32> {
    contains(geometry, append.block)?;
    match whole_pages(geometry, append.pages.len(), append.spare.len()) {
        Some(count) if count <= geometry.pages => Ok(count),
        _ => out_of_range(append.block),
    }
}

/// Refuses an append of `count` pages that a block in the state `status` does not take.
pub(crate) fn takes_pages(
    status: &BlockStatus,
    append: &Append<'_>,
    count: u32,
) -> FlashResult<()> {
    let fault = match status.state {
        BlockState::Undefined => FlashFault::NeedsReset,
        BlockState::Bad => FlashFault::BadBlock,
        BlockState::Full => FlashFault::NotErased,
        BlockState::Free | BlockState::Open => {
            let next = status.written;
            match append.expected {
                Some(page) if page != next => {
                    let fault = FlashFault::OutOfOrder { next };
                    return Err(FlashError::new(fault, append.block.page(page)));
                }
                _ if count > status.capacity - next => FlashFault::OutOfRange,
                _ => return Ok(()),
            }
        }
    };
    Err(FlashError::new(fault, append.block))
}
