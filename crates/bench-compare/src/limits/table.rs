//! Tables of lines, in pages of either size.

use memmap2::{Advice, MmapMut, MmapOptions};
use silica::{Error, Result};
use silica_base::HugeVec;

/// What the processor fetches from memory at once.
pub(super) type Line = [u8; 64];

/// Pages that a table lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// 4 KiB, and never more.
    Plain,
    /// 2 MiB, where the kernel has some.
    Huge,
}

/// Lines; a power of two of them.
pub(super) struct Table {
    memory: Memory,
    pages: Pages,
}

enum Memory {
    Plain(MmapMut),
    Huge(HugeVec<Line>),
}

impl Table {
    /// A table of `bytes` at most (but of a page at least), in which each line begins with the
    /// number of another one: from any line the chain leads through all of them, in an order that
    /// no processor foresees.
    pub(super) fn chained(pages: Pages, bytes: u64) -> Result<Self> {
        let count = 1usize << (bytes.max(4096) / size_of::<Line>() as u64).ilog2();
        let mut table = Table::zeroed(pages, count)?;
        let order = Order { bits: count.ilog2() };
        let lines = table.lines_mut();
        for place in 0..count as u64 {
            let next = order.line((place + 1) % count as u64);
            lines[order.line(place) as usize][..8].copy_from_slice(&next.to_le_bytes());
        }
        Ok(table)
    }

    fn zeroed(pages: Pages, lines: usize) -> Result<Self> {
        let memory = match pages {
            Pages::Huge => Memory::Huge(HugeVec::zeroed(lines)),
            Pages::Plain => {
                let memory = MmapOptions::new().len(lines * size_of::<Line>()).map_anon();
                let memory = memory.map_err(|e| Error::io("take memory for a table", e))?;
                // Refused where the kernel has no large pages at all: then these are plain.
                let _ = memory.advise(Advice::NoHugePage);
                Memory::Plain(memory)
            }
        };
        Ok(Table { memory, pages })
    }

    pub(super) fn pages(&self) -> Pages {
        self.pages
    }

    pub(super) fn lines(&self) -> &[Line] {
        match &self.memory {
            Memory::Plain(bytes) => bytes.as_chunks().0,
            Memory::Huge(lines) => lines,
        }
    }

    pub(super) fn lines_mut(&mut self) -> &mut [Line] {
        match &mut self.memory {
            Memory::Plain(bytes) => bytes.as_chunks_mut().0,
            Memory::Huge(lines) => lines,
        }
    }

    /// The part of the table's mapping that the kernel holds in huge pages; `None` where it does
    /// not tell.
    pub(super) fn huge_share(&self) -> Option<f64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        share_at(&maps, self.lines().as_ptr() as usize)
    }
}

/// Of the mapping that holds `address`, the part in huge pages of what is resident.
fn share_at(maps: &str, address: usize) -> Option<f64> {
    let holds = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        Some((start..end).contains(&address))
    };
    let mut lines = maps.lines().skip_while(|line| holds(line) != Some(true));
    let mut kilobytes = |name: &str| -> Option<f64> {
        let text = lines.find_map(|line| line.strip_prefix(name))?;
        text.trim().trim_end_matches("kB").trim().parse().ok()
    };
    // In this order they stand.
    let (resident, huge) = (kilobytes("Rss:")?, kilobytes("AnonHugePages:")?);
    (resident > 0.0).then(|| huge / resident)
}

/// A permutation of the numbers of `bits` bits: each of its steps can be undone.
struct Order {
    bits: u32,
}

impl Order {
    fn line(&self, place: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let shift = self.bits / 2 + 1;
        let mut line = place;
        for factor in [0x9E37_79B9_7F4A_7C15u64, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
            line ^= line >> shift;
            line = line.wrapping_mul(factor) & mask;
        }
        line ^ (line >> shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_leads_through_every_line_once() {
        for pages in [Pages::Plain, Pages::Huge] {
            let table = Table::chained(pages, 100_000).unwrap();
            let lines = table.lines();
            assert_eq!(lines.len(), 1024);
            let mut seen = vec![false; lines.len()];
            let mut at = 0;
            for _ in 0..lines.len() {
                assert!(!std::mem::replace(&mut seen[at], true), "line {at} twice");
                at = u64::from_le_bytes(*lines[at].first_chunk().unwrap()) as usize;
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn the_share_is_that_of_the_mapping_at_the_address() {
        let maps = "1000-2000 rw-p 0 00:00 0\nRss: 4 kB\nAnonHugePages: 4 kB\nVmFlags: rd\n\
                    2000-9000 rw-p 0 00:00 0\nRss: 16 kB\nAnonHugePages: 12 kB\n";
        assert_eq!(share_at(maps, 0x2000), Some(0.75));
        assert_eq!(share_at(maps, 0x1fff), Some(1.0));
        assert_eq!(share_at(maps, 0x9000), None);
        let plain = Table::chained(Pages::Plain, 4 << 20).unwrap();
        assert_eq!(plain.huge_share(), Some(0.0));
    }
}
