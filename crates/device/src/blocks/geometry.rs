//! How a device is divided, and addresses in it.

use silica_base::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// Blocks of a device at most: each costs memory while the device is open.
pub const BLOCKS_MAX: u64 = 1 << 22;
/// Pages of a block at most.
pub const PAGES_MAX: u32 = 1 << 16;
/// Bytes of a page at most.
pub const PAGE_BYTES_MAX: u32 = 1 << 20;
/// Page bytes are a multiple of this.
const PAGE_GRANULE: u32 = 512;

/// How a device is divided: channels have LUNs, LUNs have blocks, blocks have pages.
///
/// A LUN is the smallest part that works by itself; LUNs of one channel share its bus. A zoned
/// drive that does not say how it is built has one channel with one LUN, and its zones are the
/// blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Channels of the device.
    pub channels: u32,
    /// LUNs of each channel.
    pub luns: u32,
    /// Blocks of each LUN.
    pub blocks: u32,
    /// Pages of each block.
    pub pages: u32,
    /// Bytes of a page, without spare bytes.
    pub page_bytes: u32,
    /// Bytes beside each page that are written and read with it; 0 if the device has none.
    pub spare_bytes: u32,
}

impl Geometry {
    /// Refuses a geometry that no device can have.
    ///
    /// # Errors
    /// `Config`, with the limit that is broken.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Error::new(ErrorKind::Config, what));
        let parts = [
            ("channels", self.channels),
            ("LUNs", self.luns),
            ("blocks", self.blocks),
            ("pages", self.pages),
            ("page bytes", self.page_bytes),
        ];
        if let Some((name, _)) = parts.iter().find(|(_, count)| *count == 0) {
            return refuse(format!("a flash geometry of {self} has no {name}; use at least 1"));
        }
        let fits_address = self.channels <= 1 << 16 && self.luns <= 1 << 16;
        let blocks = u128::from(self.channels) * u128::from(self.luns) * u128::from(self.blocks);
        if !fits_address || blocks > u128::from(BLOCKS_MAX) {
            return refuse(format!(
                "a flash geometry of {self} has {blocks} blocks; {BLOCKS_MAX} is the most, in at \
                 most 65536 channels and LUNs"
            ));
        }
        if self.pages > PAGES_MAX {
            return refuse(format!("blocks of {self} have more than {PAGES_MAX} pages"));
        }
        if self.page_bytes > PAGE_BYTES_MAX || !self.page_bytes.is_multiple_of(PAGE_GRANULE) {
            return refuse(format!(
                "pages of {self} are no multiple of {PAGE_GRANULE} bytes up to {PAGE_BYTES_MAX}"
            ));
        }
        if self.spare_bytes > self.page_bytes {
            return refuse(format!("pages of {self} have more spare bytes than bytes"));
        }
        Ok(())
    }

    /// LUNs of the whole device.
    pub fn lun_count(&self) -> u32 {
        self.channels * self.luns
    }

    /// Blocks of the whole device.
    pub fn block_count(&self) -> u32 {
        self.lun_count() * self.blocks
    }

    /// Bytes of a block, without spare bytes.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page_bytes)
    }

    /// Bytes of the whole device, without spare bytes.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.block_count()) * self.block_bytes()
    }

    /// True if the device has this block.
    pub fn contains(&self, block: BlockAddress) -> bool {
        u32::from(block.channel) < self.channels
            && u32::from(block.lun) < self.luns
            && block.block < self.blocks
    }

    /// Number of a block among all: those of channel 0, LUN 0 come first, then those of its
    /// LUN 1. The inverse is [`Geometry::block_at`].
    ///
    /// # Panics
    /// If the device does not have this block.
    pub fn index_of(&self, block: BlockAddress) -> u32 {
        assert!(self.contains(block), "{block} lies outside of {self}");
        self.lun_index(block) * self.blocks + block.block
    }

    /// Number of a block's LUN among all.
    pub fn lun_index(&self, block: BlockAddress) -> u32 {
        u32::from(block.channel) * self.luns + u32::from(block.lun)
    }

    /// Address of the block with number `index`.
    ///
    /// # Panics
    /// If the device has fewer blocks.
    pub fn block_at(&self, index: u32) -> BlockAddress {
        assert!(index < self.block_count(), "block {index} lies outside of {self}");
        let lun = index / self.blocks;
        BlockAddress {
            channel: (lun / self.luns) as u16,
            lun: (lun % self.luns) as u16,
            block: index % self.blocks,
        }
    }

    /// Addresses of all blocks, by number.
    pub fn all_blocks(self) -> impl Iterator<Item = BlockAddress> {
        (0..self.block_count()).map(move |index| self.block_at(index))
    }
}

/// Reads `CHANNELSxLUNSxBLOCKSxPAGESxPAGE_BYTES`, as in `4x4x64x64x16KiB`, and what
/// [`Geometry`]'s `Display` writes: `4x4x64x64x16384+64` has 64 spare bytes a page.
impl FromStr for Geometry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Geometry> {
        let refuse = |what: String| {
            let form = "write CHANNELSxLUNSxBLOCKSxPAGESxPAGE, as in 4x4x64x64x16KiB";
            Error::new(ErrorKind::Config, format!("flash geometry {text:?}: {what}; {form}"))
        };
        let parts: Vec<&str> = text.split('x').collect();
        let [channels, luns, blocks, pages, page] = parts[..] else {
            return Err(refuse(format!("{} parts instead of 5", parts.len())));
        };
        let count = |name: &str, part: &str| {
            part.parse().map_err(|_| refuse(format!("{part:?} is no number of {name}")))
        };
        let bytes = |name: &str, part: &str| {
            let (digits, unit) = match part.strip_suffix("KiB").or(part.strip_suffix("K")) {
                Some(digits) => (digits, 1024),
                None => (part.strip_suffix("B").unwrap_or(part), 1),
            };
            let value = digits.parse().ok().and_then(|value: u32| value.checked_mul(unit));
            value.ok_or_else(|| refuse(format!("{part:?} is no size of {name}")))
        };
        let (page, spare) = page.split_once('+').unwrap_or((page, "0"));
        let geometry = Geometry {
            channels: count("channels", channels)?,
            luns: count("LUNs", luns)?,
            blocks: count("blocks", blocks)?,
            pages: count("pages", pages)?,
            page_bytes: bytes("a page", page)?,
            spare_bytes: bytes("spare bytes", spare)?,
        };
        geometry.check().map(|()| geometry)
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry { channels, luns, blocks, pages, page_bytes, spare_bytes } = self;
        write!(f, "{channels}x{luns}x{blocks}x{pages}x{page_bytes}+{spare_bytes}")
    }
}

/// Address of a block. The order is that of [`Geometry::index_of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BlockAddress {
    /// Channel, counted from 0.
    pub channel: u16,
    /// LUN of the channel, counted from 0.
    pub lun: u16,
    /// Block of the LUN, counted from 0.
    pub block: u32,
}

impl BlockAddress {
    /// Address of page `page` of this block.
    pub fn page(self, page: u32) -> PageAddress {
        PageAddress { block: self, page }
    }
}

impl fmt::Display for BlockAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel {}, LUN {}, block {}", self.channel, self.lun, self.block)
    }
}

/// Address of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PageAddress {
    /// The page's block.
    pub block: BlockAddress,
    /// Page of the block, counted from 0.
    pub page: u32,
}

impl fmt::Display for PageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, page {}", self.block, self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry =
        Geometry { channels: 3, luns: 2, blocks: 5, pages: 4, page_bytes: 512, spare_bytes: 16 };

    #[test]
    fn numbers_and_addresses_are_each_others_inverse() {
        let all: Vec<_> = SMALL.all_blocks().collect();
        assert_eq!(all.len(), 30);
        assert!(all.is_sorted());
        for (index, block) in all.iter().enumerate() {
            assert_eq!(SMALL.index_of(*block), index as u32);
            assert_eq!(SMALL.lun_index(*block), index as u32 / 5);
        }
        // Figure of 003…, 3.6: channel 1 begins behind the LUNs of channel 0.
        assert_eq!(SMALL.block_at(10), BlockAddress { channel: 1, lun: 0, block: 0 });
    }

    #[test]
    fn geometries_are_read_as_they_are_written() {
        assert_eq!(SMALL.to_string().parse::<Geometry>().unwrap(), SMALL);
        let read: Geometry = "4x3x64x32x16KiB".parse().unwrap();
        assert_eq!(read.to_string(), "4x3x64x32x16384+0");
        assert_eq!("1x1x2x8x4K+64B".parse::<Geometry>().unwrap().spare_bytes, 64);
        let wrong = |text: &str, word: &str| {
            let error = text.parse::<Geometry>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        };
        wrong("", "1 parts");
        wrong("4x4x64x64", "4 parts");
        wrong("4x4x64x64x16KiBx1", "6 parts");
        wrong("4x-4x64x64x16KiB", "LUNs");
        wrong("4x4x64x64x16MiB", "a page");
        wrong("4x4x64x64x5000000KiB", "a page");
        wrong("4x4x64x64x4K+", "spare");
        wrong("0x4x64x64x16KiB", "no channels");
        wrong("4x4x64x64x700", "multiple of 512");
    }

    #[test]
    fn geometries_that_do_not_add_up_are_refused_in_words() {
        let said = |geometry: Geometry| geometry.check().unwrap_err().to_string();
        assert!(SMALL.check().is_ok());
        assert!(said(Geometry { luns: 0, ..SMALL }).contains("no LUNs"));
        let huge = Geometry { channels: 1 << 16, luns: 1 << 16, blocks: u32::MAX, ..SMALL };
        assert!(said(huge).contains("blocks"));
        assert!(said(Geometry { channels: (1 << 16) + 1, blocks: 1, ..SMALL }).contains("65536"));
        assert!(said(Geometry { pages: PAGES_MAX + 1, ..SMALL }).contains("pages"));
        assert!(said(Geometry { page_bytes: 700, ..SMALL }).contains("multiple of 512"));
        assert!(said(Geometry { spare_bytes: 513, ..SMALL }).contains("spare"));
    }
}
