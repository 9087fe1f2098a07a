//! Vertices as numbers without gaps: a bitmap of the ids that are used, in the parts that are used.

use crate::memory::{Memory, Reserved};
use silica_base::Result;

/// Ids of a part.
const PART_IDS: usize = 1 << 16;
const PART_WORDS: usize = PART_IDS / 64;
/// Ids of a group, of which the edges that enter it are counted.
pub(crate) const GROUP_IDS: usize = 1 << 10;

struct Part {
    bits: [u64; PART_WORDS],
    /// Used ids of the part before each word.
    before: [u16; PART_WORDS],
    /// Used ids before the part.
    base: u32,
    /// Edges into each group.
    entering: [u32; PART_IDS / GROUP_IDS],
}

type Row = [Option<Box<Part>>; 256];

/// The ids that are used.
pub(crate) struct Numbering {
    rows: Vec<Option<Box<Row>>>,
    reserved: Reserved,
    count: u64,
}

/// Vertices whose ids stand side by side, and the edges that enter them.
pub(crate) struct Group {
    pub(crate) vertices: u32,
    pub(crate) entering: u64,
}

impl Numbering {
    pub(crate) fn new(memory: &Memory) -> Result<Self> {
        let bytes = 256 * size_of::<Option<Box<Row>>>() as u64;
        let reserved = memory.take(bytes, "numbers of vertices")?;
        Ok(Numbering { rows: (0..256).map(|_| None).collect(), reserved, count: 0 })
    }

    /// Notes that an id is used; `Full` if there is no memory for its part within `limit_bytes`.
    #[inline]
    pub(crate) fn add(&mut self, id: u32, memory: &Memory, floor_bytes: u64) -> Result<()> {
        let part = self.part_of(id, memory, floor_bytes)?;
        let at = id as usize % PART_IDS;
        part.bits[at / 64] |= 1 << (at % 64);
        Ok(())
    }

    /// Counts an edge into an id that is used.
    #[inline]
    pub(crate) fn note_entering(&mut self, id: u32) {
        let part = self.rows[id as usize >> 24].as_mut().and_then(|row| row[row_at(id)].as_mut());
        let count = &mut part.expect("the id is used").entering[id as usize % PART_IDS / GROUP_IDS];
        *count = count.saturating_add(1);
    }

    #[inline]
    fn part_of(&mut self, id: u32, memory: &Memory, floor_bytes: u64) -> Result<&mut Part> {
        let slot = &mut self.rows[id as usize >> 24];
        let is_there = slot.as_ref().is_some_and(|row| row[row_at(id)].is_some());
        if !is_there {
            let row_bytes = if slot.is_none() { size_of::<Row>() } else { 0 };
            let bytes = (row_bytes + size_of::<Part>()) as u64;
            // What has to stay free counts as taken.
            drop(memory.take(bytes + floor_bytes, "numbers of vertices")?);
            self.reserved.grow(bytes, "numbers of vertices")?;
            let row = slot.get_or_insert_with(|| Box::new([const { None }; 256]));
            row[row_at(id)] = Some(Box::new(Part {
                bits: [0; PART_WORDS],
                before: [0; PART_WORDS],
                base: 0,
                entering: [0; PART_IDS / GROUP_IDS],
            }));
        }
        let row = slot.as_mut().expect("it is there");
        Ok(row[row_at(id)].as_mut().expect("it is there"))
    }

    /// Counts what is before each word; numbers can be looked up from here on.
    pub(crate) fn settle(&mut self) {
        let mut base = 0u64;
        for part in self.rows.iter_mut().flatten().flat_map(|row| row.iter_mut()).flatten() {
            part.base = base as u32;
            let mut before = 0;
            for (word, count) in part.bits.iter().zip(&mut part.before) {
                *count = before as u16;
                before += word.count_ones();
            }
            base += u64::from(before);
        }
        self.count = base;
    }

    /// Ids that are used.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many used ids are smaller than `id`, which is used.
    #[inline]
    pub(crate) fn number_of(&self, id: u32) -> u32 {
        let row = self.rows[id as usize >> 24].as_ref().expect("the id is used");
        let part = row[row_at(id)].as_ref().expect("the id is used");
        let at = id as usize % PART_IDS;
        let below = part.bits[at / 64] & ((1 << (at % 64)) - 1);
        part.base + u32::from(part.before[at / 64]) + below.count_ones()
    }

    fn parts(&self) -> impl Iterator<Item = (u32, &Part)> {
        let rows = self.rows.iter().zip(0u32..).filter_map(|(row, n)| row.as_ref().map(|r| (n, r)));
        rows.flat_map(|(number, row)| {
            let parts = row.iter().zip(0u32..);
            parts.filter_map(move |(part, at)| {
                part.as_ref().map(|part| ((number << 8 | at) << 16, &**part))
            })
        })
    }

    /// Gives the used ids, in their order.
    pub(crate) fn each_id(&self, mut each: impl FnMut(u32) -> Result<()>) -> Result<()> {
        for (first, part) in self.parts() {
            for (word, at) in part.bits.iter().zip(0u32..) {
                let mut word = *word;
                while word != 0 {
                    each(first + at * 64 + word.trailing_zeros())?;
                    word &= word - 1;
                }
            }
        }
        Ok(())
    }

    /// Groups of vertices, in their order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group> {
        self.parts().flat_map(|(_, part)| {
            part.bits.chunks(GROUP_IDS / 64).zip(&part.entering).map(|(words, entering)| Group {
                vertices: words.iter().map(|word| word.count_ones()).sum(),
                entering: u64::from(*entering),
            })
        })
    }
}

fn row_at(id: u32) -> usize {
    (id >> 16) as usize & 255
}
