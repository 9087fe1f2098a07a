//! Content of checkpoints.

use super::by_block::{ByBlock, Piece};
use super::by_page::ByPage;
use super::core::{Core, NewPage};
use super::page::Kind;
use super::{Collection, Map, Part, RangeOptions};
use crate::functions::Mapping;
use silica_base::{Error, Result};
use silica_device::blocks::FlashDevice;

/// Writes a checkpoint and syncs it. The meta blocks before it are given back.
pub(super) fn write<D: FlashDevice>(core: &mut Core<D>, parts: &[Part]) -> Result<()> {
    // What is in the mapping is on the device when the checkpoint says so.
    core.functions.sync()?;
    let last = core.sequence - 1;
    let content = encode(core, parts);
    core.leave_meta_block()?;
    let old = std::mem::take(&mut core.meta);
    let written = write_content(core, last, &content);
    if written.is_err() {
        // A part of a checkpoint is of no use.
        core.leave_meta_block()?;
        for number in std::mem::replace(&mut core.meta, old) {
            core.functions.trim(core.address(number))?;
        }
        core.since_checkpoint = 0;
        return written;
    }
    // The mapping has the trims.
    core.trims.clear();
    for number in old {
        core.functions.trim(core.address(number))?;
    }
    core.since_checkpoint = 0;
    core.statistics.checkpoints += 1;
    Ok(())
}

fn write_content<D: FlashDevice>(core: &mut Core<D>, last: u64, content: &[u8]) -> Result<()> {
    for (part, data) in (0..).zip(content.chunks(core.data_bytes)) {
        core.append_meta(&NewPage { kind: Kind::Checkpoint, part, logical: last, data })?;
    }
    Ok(core.functions.sync()?)
}

fn encode<D>(core: &Core<D>, parts: &[Part]) -> Vec<u8> {
    let mut out = vec![0; 4];
    put(&mut out, parts.len() as u32);
    for part in parts {
        let RangeOptions { begin, end, mapping, collection, over_provisioning } = part.options;
        out.extend_from_slice(&begin.to_le_bytes());
        out.extend_from_slice(&end.to_le_bytes());
        put(&mut out, u32::from(mapping == Mapping::Block));
        put(&mut out, collection as u32);
        put(&mut out, over_provisioning);
        match &part.map {
            Map::ByPage(map) => map.map.iter().for_each(|place| put(&mut out, *place)),
            Map::ByBlock(map) => {
                for block in &map.blocks {
                    put(&mut out, block.pieces.len() as u32);
                    for piece in &block.pieces {
                        put(&mut out, piece.number);
                        put(&mut out, piece.pages);
                    }
                    for bits in block.live.chunks(64) {
                        let word = (0..).zip(bits).map(|(bit, live)| u64::from(*live) << bit);
                        out.extend_from_slice(&word.sum::<u64>().to_le_bytes());
                    }
                }
            }
        }
    }
    let count = out.len().div_ceil(core.data_bytes) as u32;
    out[..4].copy_from_slice(&count.to_le_bytes());
    out
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Parts of the content that begins with `content`.
pub(super) fn count_of(content: &[u8]) -> u32 {
    u32::from_le_bytes(content[..4].try_into().expect("a page is longer"))
}

/// Reads the content of a checkpoint.
pub(super) fn decode<D: FlashDevice>(core: &Core<D>, content: &[u8]) -> Result<Vec<Part>> {
    let mut reader = Reader { content, at: 4 };
    let mut parts: Vec<Part> = Vec::new();
    for _ in 0..reader.number()? {
        let options = reader.options()?;
        let begins = parts.last().map_or(0, |part| part.options.end);
        if options.begin != begins || options.end <= options.begin {
            return Err(reader.damaged("ranges that do not join"));
        }
        // A mapping is no longer than what says it.
        let block_pages = u64::from(core.block_pages);
        let least = match options.mapping {
            Mapping::Page => (options.end - options.begin).saturating_mul(4),
            Mapping::Block => {
                (options.end - options.begin).div_ceil(block_pages).saturating_mul(12)
            }
        };
        if least > (content.len() - reader.at) as u64 {
            return Err(reader.damaged("a range that is longer than its mapping"));
        }
        let mut part = Part::new(options, core.block_pages);
        match &mut part.map {
            Map::ByPage(map) => reader.by_page(core, map)?,
            Map::ByBlock(map) => reader.by_block(core, map)?,
        }
        parts.push(part);
    }
    Ok(parts)
}

struct Reader<'a> {
    content: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn damaged(&self, what: &str) -> Error {
        Error::corruption("a checkpoint of the flash policy level", self.at as u64, what)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken =
            self.content.get(self.at..self.at + N).ok_or_else(|| self.damaged("it ends"))?;
        let taken = taken.try_into().expect("as many bytes");
        self.at += N;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn options(&mut self) -> Result<RangeOptions> {
        let begin = u64::from_le_bytes(self.take()?);
        let end = u64::from_le_bytes(self.take()?);
        let mapping = match self.number()? {
            0 => Mapping::Page,
            1 => Mapping::Block,
            _ => return Err(self.damaged("an unknown mapping")),
        };
        let collection = match self.number()? {
            0 => Collection::Greedy,
            1 => Collection::Fifo,
            2 => Collection::LeastRecentlyUsed,
            _ => return Err(self.damaged("an unknown collection")),
        };
        let over_provisioning = self.number()?;
        Ok(RangeOptions { begin, end, mapping, collection, over_provisioning })
    }

    fn by_page<D: FlashDevice>(&mut self, core: &Core<D>, map: &mut ByPage) -> Result<()> {
        let blocks = core.functions.geometry().block_count();
        for at in 0..map.map.len() {
            let place = self.number()?;
            if place != super::NONE && place / core.block_pages >= blocks {
                return Err(self.damaged("a page outside of the device"));
            }
            map.map[at] = place;
        }
        Ok(())
    }

    fn by_block<D: FlashDevice>(&mut self, core: &Core<D>, map: &mut ByBlock) -> Result<()> {
        let blocks = core.functions.geometry().block_count();
        for block in &mut map.blocks {
            for _ in 0..self.number()? {
                let (number, pages) = (self.number()?, self.number()?);
                if number >= blocks || pages > core.block_pages {
                    return Err(self.damaged("a block outside of the device"));
                }
                block.pieces.push(Piece { number, pages, is_closed: true });
            }
            for bits in block.live.chunks_mut(64) {
                let word = u64::from_le_bytes(self.take()?);
                (0..).zip(bits).for_each(|(bit, live)| *live = word >> bit & 1 == 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Policy, PolicyOptions};
    use super::*;
    use crate::functions::{FunctionOptions, Functions};
    use silica_base::{Prng, mutated, test_size};
    use silica_device::sim::{SimFlash, SimFlashOptions};

    fn device() -> Policy<SimFlash> {
        let flash = SimFlash::new(1, SimFlashOptions::small());
        let functions = Functions::open(flash, FunctionOptions::default()).unwrap();
        let range = |begin, end, mapping, collection| RangeOptions {
            begin,
            end,
            mapping,
            collection,
            over_provisioning: 0,
        };
        let ranges = vec![
            range(0, 20, Mapping::Page, Collection::LeastRecentlyUsed),
            range(20, 44, Mapping::Block, Collection::Fifo),
        ];
        let mut device = Policy::format(functions, PolicyOptions { device: 5, ranges }).unwrap();
        let page = vec![1; device.page_bytes()];
        for number in [1, 2, 3, 19, 20, 21, 20, 37] {
            device.write(number, &page).unwrap();
        }
        device
    }

    #[test]
    fn a_mapping_is_read_as_it_was_written_and_at_no_other_length() {
        let Policy { core, parts } = device();
        let content = encode(&core, &parts);
        let read = decode(&core, &content).unwrap();
        assert_eq!(encode(&core, &read), content);
        for len in 4..content.len() {
            assert!(decode(&core, &content[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_mapping() {
        let Policy { core, parts } = device();
        let content = encode(&core, &parts);
        let inputs = test_size(20_000, 100_000, 10_000_000);
        let mut prng = Prng::new(3);
        let mut accepted = 0;
        for _ in 0..inputs {
            let bytes = mutated(&mut prng, std::slice::from_ref(&content));
            accepted += u64::from(decode(&core, &bytes).is_ok());
        }
        assert!(accepted > 10 && accepted < inputs / 2, "{accepted} accepted");
    }
}
