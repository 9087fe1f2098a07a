//! Records of the table in one table area.

use crate::table::{AREA_BLOCKS, PageHeader, Table};
use silica_base::{AlignedBuf, Error, Result};
use silica_device::blocks::{
    Append, BlockAddress, BlockState, FlashDevice, FlashFault, FlashResult, Geometry,
};

/// A record that was found.
pub(crate) struct Found {
    pub(crate) sequence: u64,
    pub(crate) monitor: u64,
    pub(crate) table: Table,
}

/// The last blocks of a LUN, to which records are appended.
#[derive(Debug, Clone)]
pub(crate) struct TableLog {
    blocks: Vec<BlockAddress>,
    /// The block of the newest record, if there is one.
    current: Option<usize>,
}

impl TableLog {
    /// The table area of the LUN with number `lun`.
    pub(crate) fn new(geometry: &Geometry, lun: u32) -> Self {
        let first = lun * geometry.blocks;
        let blocks = geometry.blocks - AREA_BLOCKS..geometry.blocks;
        let blocks = blocks.map(|block| geometry.block_at(first + block)).collect();
        TableLog { blocks, current: None }
    }

    /// Finds the newest whole record, and goes on behind it.
    ///
    /// # Errors
    /// `Unsupported` or `Corruption` for a record that no other monitor of this release wrote;
    /// `Io`.
    pub(crate) fn find<D: FlashDevice>(&mut self, device: &D) -> Result<Option<Found>> {
        let mut newest: Option<(PageHeader, Vec<Vec<u8>>)> = None;
        for (number, block) in self.blocks.iter().enumerate() {
            for (header, pages) in records(device, *block)? {
                if newest.as_ref().is_none_or(|(newest, _)| newest.sequence < header.sequence) {
                    newest = Some((header, pages));
                    self.current = Some(number);
                }
            }
        }
        let Some((header, pages)) = newest else { return Ok(None) };
        let table = Table::of_pages(&pages, device.geometry())?;
        Ok(Some(Found { sequence: header.sequence, monitor: header.monitor, table }))
    }

    /// Appends a record. It is durable after a sync of the device.
    ///
    /// # Errors
    /// What the last block that was tried said: no block of the area takes the record.
    pub(crate) fn append<D: FlashDevice>(&mut self, device: &D, pages: &[u8]) -> Result<()> {
        let append = |block: BlockAddress| {
            device.append(&Append { block, expected: None, stream: 0, pages, spare: &[] })
        };
        let mut refused = None;
        if let Some(current) = self.current {
            match append(self.blocks[current]) {
                Ok(_) => return Ok(()),
                Err(error) => refused = Some(error),
            }
        }
        for number in 0..self.blocks.len() {
            let block = self.blocks[number];
            // The newest record stays until another one is whole.
            if self.current == Some(number) || is_bad(device, block)? {
                continue;
            }
            match reset(device, block).and_then(|()| append(block)) {
                Ok(_) => {
                    self.current = Some(number);
                    return Ok(());
                }
                Err(error) => refused = Some(error),
            }
        }
        let refused =
            refused.map_or_else(|| "all blocks are bad".to_string(), |error| error.to_string());
        let message = format!("no block of a flash table's area takes its record: {refused}");
        Err(Error::new(silica_base::ErrorKind::Io, message))
    }
}

fn is_bad<D: FlashDevice>(device: &D, block: BlockAddress) -> FlashResult<bool> {
    Ok(device.block(block)?.state == BlockState::Bad)
}

fn reset<D: FlashDevice>(device: &D, block: BlockAddress) -> FlashResult<()> {
    match device.block(block)?.state {
        BlockState::Free => Ok(()),
        _ => device.reset(block),
    }
}

/// The whole records of a block, in their order. Pages that cannot be read and pages of torn
/// records are passed over.
fn records<D: FlashDevice>(
    device: &D,
    block: BlockAddress,
) -> Result<Vec<(PageHeader, Vec<Vec<u8>>)>> {
    let written = device.block(block)?.written;
    let mut page = AlignedBuf::zeroed(device.geometry().page_bytes as usize);
    let mut found: Vec<(PageHeader, Vec<Vec<u8>>)> = Vec::new();
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut begun: Option<PageHeader> = None;
    for number in 0..written {
        let header = match device.read(block.page(number), &mut page, &mut []) {
            Ok(()) => PageHeader::of(&page)?,
            Err(error) if error.fault() == FlashFault::PowerLost => return Err(error.into()),
            Err(_) => None,
        };
        let Some(header) = header else {
            begun = None;
            continue;
        };
        let continues = begun.is_some_and(|begun| {
            let next = PageHeader { page: parts.len() as u16, ..begun };
            header == next
        });
        if !continues {
            parts.clear();
            begun = (header.page == 0).then_some(header);
        }
        if begun.is_some() {
            parts.push(page.to_vec());
            if parts.len() == usize::from(header.pages) {
                found.push((header, std::mem::take(&mut parts)));
                begun = None;
            }
        }
    }
    Ok(found)
}
