//! The monitor's table, and its bytes as docs/formats/flash-table.md has them.

use silica_base::{Checksum, Error, Format, Result};
use silica_device::blocks::Geometry;
use std::collections::{BTreeMap, BTreeSet};

/// How each page of a record begins.
const FORMAT: Format =
    Format { name: "flash table", magic: b"SiFM", version_bytes: 2, version: 1, steps: &[] };
/// Bytes of a page before its content.
pub(crate) const PAGE_HEADER_BYTES: usize = 40;
/// Where the checksum of a page lies.
const CHECKSUM_AT: usize = 12;
/// Blocks of a table area.
pub(crate) const AREA_BLOCKS: u32 = 3;
/// Bytes of an application's name at most.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// An application's place on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) name: String,
    /// How many of its LUNs are over-provisioning.
    pub(crate) over_provisioned: u32,
    /// By the application's channels, the numbers of its LUNs among all of the device.
    pub(crate) channels: Vec<Vec<u32>>,
}

impl Holding {
    pub(crate) fn luns(&self) -> impl Iterator<Item = u32> {
        self.channels.iter().flatten().copied()
    }
}

/// What the monitor knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) spare_blocks: u32,
    pub(crate) holdings: Vec<Holding>,
    /// By LUN and the block that an application sees, the physical block in its stead.
    pub(crate) replaced: BTreeMap<(u32, u32), u32>,
}

impl Table {
    /// Blocks of a LUN that applications see; `None` if there are none.
    pub(crate) fn visible_blocks(&self, geometry: &Geometry) -> Option<u32> {
        let reserve = self.spare_blocks.checked_add(AREA_BLOCKS)?;
        geometry.blocks.checked_sub(reserve).filter(|visible| *visible > 0)
    }

    /// The physical block of `lun` that block `block`, as applications see it, lies in.
    pub(crate) fn physical(&self, lun: u32, block: u32) -> u32 {
        self.replaced.get(&(lun, block)).copied().unwrap_or(block)
    }

    /// LUNs that applications have.
    pub(crate) fn given(&self) -> BTreeSet<u32> {
        self.holdings.iter().flat_map(Holding::luns).collect()
    }

    /// The place of `lun` among the holdings: holding, channel, and LUN of the channel.
    pub(crate) fn holder(&self, lun: u32) -> Option<(usize, usize, usize)> {
        self.holdings.iter().enumerate().find_map(|(number, holding)| {
            holding.channels.iter().enumerate().find_map(|(channel, luns)| {
                luns.iter().position(|own| *own == lun).map(|at| (number, channel, at))
            })
        })
    }

    /// Numbers of the LUNs that have a table area.
    pub(crate) fn area_luns(geometry: &Geometry) -> Vec<u32> {
        match (geometry.channels, geometry.luns) {
            (1, 1) => vec![0],
            (1, _) => vec![0, 1],
            (_, luns) => vec![0, luns],
        }
    }

    /// Physical blocks of `lun` that applications may have.
    pub(crate) fn usable_blocks(geometry: &Geometry, lun: u32) -> u32 {
        let has_area = Self::area_luns(geometry).contains(&lun);
        geometry.blocks - if has_area { AREA_BLOCKS } else { 0 }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |number: u32| out.extend_from_slice(&number.to_le_bytes());
        put(self.spare_blocks);
        put(self.holdings.len() as u32);
        for holding in &self.holdings {
            out.extend_from_slice(&(holding.name.len() as u32).to_le_bytes());
            out.extend_from_slice(holding.name.as_bytes());
            let mut put = |number: u32| out.extend_from_slice(&number.to_le_bytes());
            put(holding.over_provisioned);
            put(holding.channels.len() as u32);
            for luns in &holding.channels {
                put(luns.len() as u32);
                luns.iter().for_each(|lun| put(*lun));
            }
        }
        let mut put = |number: u32| out.extend_from_slice(&number.to_le_bytes());
        put(self.replaced.len() as u32);
        for ((lun, block), physical) in &self.replaced {
            [*lun, *block, *physical].into_iter().for_each(&mut put);
        }
        out
    }

    fn decode(bytes: &[u8], geometry: &Geometry) -> Result<Table> {
        let mut reader = Reader { bytes, at: 0 };
        let mut table = Table {
            spare_blocks: reader.number()?,
            holdings: Vec::new(),
            replaced: BTreeMap::new(),
        };
        for _ in 0..reader.number()? {
            let holding = reader.holding()?;
            table.holdings.push(holding);
        }
        for _ in 0..reader.number()? {
            let key = (reader.number()?, reader.number()?);
            let physical = reader.number()?;
            table.replaced.insert(key, physical);
        }
        if reader.at != bytes.len() {
            return Err(reader.damaged("bytes follow its end"));
        }
        table.check(geometry).map_err(|broken| reader.damaged(broken))?;
        Ok(table)
    }

    /// The rule that this table breaks on a device of `geometry`, if it does.
    fn check(&self, geometry: &Geometry) -> Result<(), &'static str> {
        let visible = self.visible_blocks(geometry).ok_or("its LUNs have no blocks left")?;
        let (mut luns, mut names) = (BTreeSet::new(), BTreeSet::new());
        for holding in &self.holdings {
            if !names.insert(&holding.name) {
                return Err("two applications have one name");
            }
            for lun in holding.luns() {
                if lun >= geometry.lun_count() || !luns.insert(lun) {
                    return Err("a LUN is not there or belongs to two applications");
                }
            }
            let count = holding.luns().count();
            let is_possible = count > holding.over_provisioned as usize
                && holding.channels.iter().all(|channel| !channel.is_empty());
            if !is_possible {
                return Err("an application has no LUNs");
            }
        }
        let mut taken = BTreeSet::new();
        for (&(lun, block), &physical) in &self.replaced {
            let is_there = lun < geometry.lun_count()
                && block < visible
                && physical < Self::usable_blocks(geometry, lun);
            let is_free = physical >= visible || self.replaced.contains_key(&(lun, physical));
            if !is_there || !is_free || !taken.insert((lun, physical)) {
                return Err("a replacement is not there or stands in for two blocks");
            }
        }
        Ok(())
    }

    /// The table as pages of a record.
    pub(crate) fn pages(&self, monitor: u64, sequence: u64, page_bytes: usize) -> Vec<u8> {
        let content = self.encode();
        let room = page_bytes - PAGE_HEADER_BYTES;
        let count = content.len().div_ceil(room).max(1);
        let mut pages = vec![0; count * page_bytes];
        for (number, page) in pages.chunks_exact_mut(page_bytes).enumerate() {
            FORMAT.begin_in(page);
            page[6..8].copy_from_slice(&(number as u16).to_le_bytes());
            page[8..10].copy_from_slice(&(count as u16).to_le_bytes());
            page[16..24].copy_from_slice(&sequence.to_le_bytes());
            page[24..32].copy_from_slice(&monitor.to_le_bytes());
            page[32..36].copy_from_slice(&(content.len() as u32).to_le_bytes());
            let part = &content[(number * room).min(content.len())..];
            let part = &part[..part.len().min(room)];
            page[PAGE_HEADER_BYTES..][..part.len()].copy_from_slice(part);
            let sum = checksum(page);
            page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        }
        pages
    }

    /// The table that whole pages of a record hold.
    pub(crate) fn of_pages(pages: &[Vec<u8>], geometry: &Geometry) -> Result<Table> {
        let bytes = u32_at(&pages[0], 32) as usize;
        let content: Vec<u8> =
            pages.iter().flat_map(|page| &page[PAGE_HEADER_BYTES..]).copied().take(bytes).collect();
        if content.len() < bytes {
            return Err(Error::corruption("the flash table", 32, "it is longer than its pages"));
        }
        Table::decode(&content, geometry)
    }
}

/// What a page of a record says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) page: u16,
    pub(crate) pages: u16,
    pub(crate) sequence: u64,
    pub(crate) monitor: u64,
}

impl PageHeader {
    /// The header of a whole page; `None` for other bytes and damaged pages.
    ///
    /// # Errors
    /// `Unsupported` for a page of another version.
    pub(crate) fn of(page: &[u8]) -> Result<Option<PageHeader>> {
        if !FORMAT.begins(page) {
            return Ok(None);
        }
        FORMAT.version_of("the flash table", 0, page)?;
        if checksum(page) != u32_at(page, CHECKSUM_AT) {
            return Ok(None);
        }
        let short = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
        let long = |at: usize| u64::from(u32_at(page, at)) | u64::from(u32_at(page, at + 4)) << 32;
        let (sequence, monitor) = (long(16), long(24));
        Ok(Some(PageHeader { page: short(6), pages: short(8), sequence, monitor }))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Checksum of a page but for the four bytes that hold it.
fn checksum(page: &[u8]) -> u32 {
    let long = |at: usize| u64::from(u32_at(page, at)) | u64::from(u32_at(page, at + 4)) << 32;
    Checksum::at(long(24), long(16))
        .update(&page[..CHECKSUM_AT])
        .update(&page[CHECKSUM_AT + 4..])
        .finish()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn damaged(&self, detail: &str) -> Error {
        Error::corruption("the flash table", self.at as u64, detail)
    }

    fn take(&mut self, len: usize) -> Result<&[u8]> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        let taken = taken.ok_or_else(|| self.damaged("it ends too early"))?;
        self.at += len;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32_at(self.take(4)?, 0))
    }

    fn holding(&mut self) -> Result<Holding> {
        let len = self.number()? as usize;
        if len == 0 || len > NAME_BYTES_MAX {
            return Err(self.damaged("a name has no possible length"));
        }
        let name = String::from_utf8(self.take(len)?.to_vec());
        let name = name.map_err(|_| self.damaged("a name is no text"))?;
        let over_provisioned = self.number()?;
        // Counts are not trusted with memory: what they count has to be there.
        let mut channels = Vec::new();
        for _ in 0..self.number()? {
            let mut luns = Vec::new();
            for _ in 0..self.number()? {
                luns.push(self.number()?);
            }
            channels.push(luns);
        }
        Ok(Holding { name, over_provisioned, channels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, mutated, test_size};

    const GEOMETRY: Geometry =
        Geometry { channels: 2, luns: 4, blocks: 8, pages: 16, page_bytes: 512, spare_bytes: 0 };

    fn table() -> Table {
        let holding = |name: &str, channels| Holding {
            name: name.to_string(),
            over_provisioned: 1,
            channels,
        };
        Table {
            spare_blocks: 2,
            holdings: vec![
                holding("cache", vec![vec![0, 1], vec![5]]),
                holding(&"n".repeat(255), vec![vec![2, 3]]),
            ],
            replaced: BTreeMap::from([((0, 1), 3), ((0, 0), 1), ((5, 2), 7)]),
        }
    }

    #[test]
    fn tables_are_read_as_they_were_written() {
        let pages = table().pages(9, 77, 512);
        let pages: Vec<Vec<u8>> = pages.chunks(512).map(<[u8]>::to_vec).collect();
        assert_eq!(pages.len(), 1);
        let header = PageHeader { page: 0, pages: 1, sequence: 77, monitor: 9 };
        assert_eq!(PageHeader::of(&pages[0]).unwrap(), Some(header));
        assert_eq!(Table::of_pages(&pages, &GEOMETRY).unwrap(), table());
        let long = table().pages(9, 77, 100);
        let long: Vec<Vec<u8>> = long.chunks(100).map(<[u8]>::to_vec).collect();
        assert_eq!(long.len(), 7);
        assert_eq!(PageHeader::of(&long[6]).unwrap().unwrap().page, 6);
        assert_eq!(Table::of_pages(&long, &GEOMETRY).unwrap(), table());
        for at in 0..512 {
            let mut page = pages[0].clone();
            page[at] ^= 1 << (at % 8);
            assert!(!matches!(PageHeader::of(&page), Ok(Some(_))), "byte {at}");
        }
    }

    #[test]
    fn tables_that_break_a_rule_are_refused() {
        let refused = |change: &dyn Fn(&mut Table)| {
            let mut table = table();
            change(&mut table);
            Table::decode(&table.encode(), &GEOMETRY).unwrap_err().to_string()
        };
        assert!(refused(&|t| t.spare_blocks = 5).contains("no blocks left"));
        assert!(refused(&|t| t.spare_blocks = u32::MAX).contains("no blocks left"));
        assert!(refused(&|t| t.holdings[1].name = "cache".into()).contains("one name"));
        assert!(refused(&|t| t.holdings[1].channels[0][0] = 5).contains("two applications"));
        assert!(refused(&|t| t.holdings[1].channels[0][0] = 8).contains("not there"));
        assert!(refused(&|t| t.holdings[1].channels.clear()).contains("no LUNs"));
        assert!(refused(&|t| t.holdings[1].over_provisioned = 2).contains("no LUNs"));
        for (key, physical) in [((0, 3), 4), ((8, 0), 4), ((0, 2), 5), ((1, 0), 1), ((0, 2), 3)] {
            let said = refused(&|t| t.replaced.extend([(key, physical)]));
            assert!(said.contains("replacement"), "{key:?} {physical}: {said}");
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_table() {
        let corpus = [table().encode()];
        let mut prng = Prng::new(3);
        let mut read = 0;
        for _ in 0..test_size(20_000, 100_000, 10_000_000) {
            let bytes = mutated(&mut prng, &corpus);
            if let Ok(table) = Table::decode(&bytes, &GEOMETRY) {
                read += 1;
                assert_eq!(table.check(&GEOMETRY), Ok(()));
            }
        }
        assert!(read > 10, "{read}");
    }
}
