//! Global wear levelling: LUNs that see many erases trade places with LUNs that see few
//! (003…, 3.4.1; the paper has not built it).

use crate::shared::{Shared, State};
use crate::table::Table;
use silica_base::{AlignedBuf, Result};
use silica_device::blocks::{Append, BlockAddress, BlockState, FlashDevice, FlashFault};
use std::collections::BTreeSet;

/// What a round of wear levelling did. LUNs are numbered among all of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WearLevelling {
    /// The hottest LUN that an application has and the coldest one are this far apart, in mean
    /// erases of a block, which is less than was asked for.
    Even {
        /// Their distance.
        spread: u64,
    },
    /// What lay in the first LUN of each pair lies in the second one now.
    Moved {
        /// From where to where, in order.
        moves: Vec<(u32, u32)>,
    },
    /// The hottest LUN trades places with one that is in use, and there is no free LUN to do it
    /// by.
    NoFreeLun,
    /// A LUN cannot be moved now: operations on it are under way, it has pages that cannot be
    /// read, or no place can take it. `moves` are those that were made before.
    Held {
        /// The LUN that stays.
        lun: u32,
        /// From where to where, in order.
        moves: Vec<(u32, u32)>,
    },
}

/// Moves the hottest LUN that an application has to the coldest one, if they are `threshold` mean
/// erases apart. If the coldest is in use, what it holds goes to the hottest free LUN first.
pub(crate) fn level<D: FlashDevice>(
    shared: &Shared<D>,
    state: &mut State,
    threshold: u64,
) -> Result<WearLevelling> {
    let given = state.table.given();
    let heat = heat(shared)?;
    let by_heat = |lun: &u32| (heat[*lun as usize], *lun);
    let Some(hot) = given.iter().copied().max_by_key(by_heat) else {
        return Ok(WearLevelling::Even { spread: 0 });
    };
    let others = (0..heat.len() as u32).filter(|lun| *lun != hot);
    let Some(cold) = others.min_by_key(by_heat) else {
        return Ok(WearLevelling::Even { spread: 0 });
    };
    let spread = heat[hot as usize].saturating_sub(heat[cold as usize]);
    if spread < threshold.max(1) {
        return Ok(WearLevelling::Even { spread });
    }
    let mut moves = Vec::new();
    if given.contains(&cold) {
        let Some(free) = hottest_free(&heat, &given) else { return Ok(WearLevelling::NoFreeLun) };
        if !move_lun(shared, state, cold, free)? {
            return Ok(WearLevelling::Held { lun: cold, moves });
        }
        moves.push((cold, free));
    }
    if !move_lun(shared, state, hot, cold)? {
        return Ok(WearLevelling::Held { lun: hot, moves });
    }
    moves.push((hot, cold));
    Ok(WearLevelling::Moved { moves })
}

/// Mean erases of a block, by LUN.
fn heat<D: FlashDevice>(shared: &Shared<D>) -> Result<Vec<u64>> {
    let geometry = shared.device.geometry();
    let mean = |lun| -> Result<u64> {
        let usable = u64::from(Table::usable_blocks(geometry, lun));
        Ok(shared.lun_erases(lun)? / usable)
    };
    (0..geometry.lun_count()).map(mean).collect()
}

fn hottest_free(heat: &[u64], given: &BTreeSet<u32>) -> Option<u32> {
    let free = (0..heat.len() as u32).filter(|lun| !given.contains(lun));
    free.max_by_key(|lun| (heat[*lun as usize], *lun))
}

/// Copies what an application has in the LUN `from` to the free LUN `to`, and lets its addresses
/// mean that. False if it cannot be moved now.
fn move_lun<D: FlashDevice>(
    shared: &Shared<D>,
    state: &mut State,
    from: u32,
    to: u32,
) -> Result<bool> {
    let mut table = state.table.clone();
    let (holding, channel, at) = table.holder(from).expect("an application has the LUN");
    let slots = state.open.get(&table.holdings[holding].name).cloned();
    // From here on no operation on the LUN begins, until the guard is dropped.
    let mut guard = match slots.as_ref().map(|slots| slots[channel][at].try_write()) {
        None => None,
        Some(Ok(guard)) => Some(guard),
        Some(Err(_)) => return Ok(false),
    };
    if shared.prepare(&mut table, std::iter::once(to))?.is_some() {
        return Ok(false);
    }
    for block in 0..shared.visible {
        let source = shared.physical_block(from, table.physical(from, block));
        let target = shared.physical_block(to, table.physical(to, block));
        if !copy_block(&shared.device, source, target)? {
            return Ok(false);
        }
    }
    shared.device.sync()?;
    table.holdings[holding].channels[channel][at] = to;
    shared.keep(state, table)?;
    if let Some(lun) = &mut guard {
        **lun = to;
    }
    Ok(true)
}

/// Copies the pages of a block to a free one. False if not all can be.
fn copy_block<D: FlashDevice>(
    device: &D,
    source: BlockAddress,
    target: BlockAddress,
) -> Result<bool> {
    let status = device.block(source)?;
    let geometry = device.geometry();
    // An undefined block has nothing; its owner resets it anyway.
    let count = if status.state == BlockState::Undefined { 0 } else { status.written as usize };
    if count > 0 {
        let mut pages = AlignedBuf::zeroed(count * geometry.page_bytes as usize);
        let mut spare = vec![0; count * geometry.spare_bytes as usize];
        if let Err(error) = device.read(source.page(0), &mut pages, &mut spare) {
            return match error.fault() {
                FlashFault::Uncorrectable => Ok(false),
                _ => Err(error.into()),
            };
        }
        let (pages, spare) = (&pages[..], &spare[..]);
        let append = Append { block: target, expected: Some(0), stream: 0, pages, spare };
        if let Err(error) = device.append(&append) {
            return match error.fault() {
                FlashFault::ProgramFailed => Ok(false),
                _ => Err(error.into()),
            };
        }
    }
    // A block that took no more pages takes none where it lies now. A bad one is not copied as
    // bad: its pages may be read, and a reset gives a good block.
    let is_closed = matches!(status.state, BlockState::Full | BlockState::Bad);
    if is_closed && status.written < status.capacity {
        device.finish(target)?;
    }
    Ok(true)
}
