//! How an index slot names a place: which of its bits are what, and how the memory is divided.

use crate::flash::Shape;
use crate::slab::{FOOTER_BYTES, HEADER_BYTES};
use silica_base::{Error, ErrorKind, Result};

/// Slots of a bucket: two cache lines.
pub(crate) const BUCKET_SLOTS: usize = 16;
/// Bits of a size class.
const CLASS_BITS: u32 = 4;
/// Bits of a tag at least, unless the granule is as coarse as it gets: so rarely are two keys of a
/// bucket taken for one.
const TAG_BITS_WANTED: u32 = 20;
const TAG_BITS_MIN: u32 = 12;
/// Bits of a tag at most: with more, tag and bucket would share bits of the hash.
const TAG_BITS_MAX: u32 = 32;
/// Granules are 2^0 to 2^6 bytes.
const GRANULE_BITS_MAX: u32 = 6;
/// Management of a slab in memory, roughly.
const SLAB_MANAGEMENT_BYTES: u64 = 64;

/// Where an item begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the slab.
    pub(crate) slab: u32,
    /// Its first byte there.
    pub(crate) offset: u32,
}

/// Bits of slots, and sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    /// Slabs in memory at most.
    pub(crate) memory_slabs: u32,
    /// Numbers of slabs are 1 to this one.
    pub(crate) slab_numbers: u32,
    pub(crate) buckets: u64,
    pub(crate) granule_bits: u32,
    offset_bits: u32,
    slab_bits: u32,
    tag_bits: u32,
    /// Most pages that an item of each size class lies in.
    class_pages: [u32; 1 << CLASS_BITS],
}

fn bits_for(most: u64) -> u32 {
    64 - most.leading_zeros()
}

/// Entries so small on average get a slot each, if there is memory for it.
const ENTRY_BYTES_MIN: u64 = 64;

impl Layout {
    /// Divides `memory_bytes` between slabs and index.
    pub(crate) fn new(shape: Shape, memory_bytes: u64, memory_slabs: u32) -> Result<Self> {
        let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
        let slab_bytes = shape.slab_bytes();
        if slab_bytes > u64::from(u32::MAX) / 2 || slab_bytes < 4 * HEADER_BYTES as u64 {
            return refuse(format!(
                "blocks of {slab_bytes} bytes make no slabs; use 256 bytes to 1 GiB"
            ));
        }
        let slab_numbers = shape.slabs + memory_slabs;
        let in_slabs =
            slab_bytes * u64::from(memory_slabs) + SLAB_MANAGEMENT_BYTES * u64::from(slab_numbers);
        let bucket_bytes = 8 * BUCKET_SLOTS as u64;
        // No more than flash full of small entries needs, or checkpoints would leave no flash.
        let enough = slab_bytes * u64::from(shape.slabs) / ENTRY_BYTES_MIN / BUCKET_SLOTS as u64;
        let buckets = memory_bytes.saturating_sub(in_slabs) / bucket_bytes;
        let buckets = buckets.min(enough.max(1));
        if buckets == 0 {
            return refuse(format!(
                "{memory_bytes} bytes of memory are too few for a flash cache: {memory_slabs} \
                 slabs of {slab_bytes} bytes take {in_slabs}; give it more memory_bytes, or fewer \
                 memory_slabs"
            ));
        }
        let slab_bits = bits_for(u64::from(slab_numbers));
        let of = |granule_bits: u32| {
            let offset_bits = bits_for((slab_bytes - 1) >> granule_bits);
            (offset_bits, (64 - CLASS_BITS - slab_bits - offset_bits).min(TAG_BITS_MAX))
        };
        let fine = (0..GRANULE_BITS_MAX).find(|bits| of(*bits).1 >= TAG_BITS_WANTED);
        let granule_bits = fine.unwrap_or(GRANULE_BITS_MAX);
        let (offset_bits, tag_bits) = of(granule_bits);
        if tag_bits < TAG_BITS_MIN {
            return refuse(format!("a flash cache of {} slabs is too large", shape.slabs));
        }
        let class_pages = classes(shape.pages);
        Ok(Layout {
            shape,
            memory_slabs,
            slab_numbers,
            buckets,
            granule_bits,
            offset_bits,
            slab_bits,
            tag_bits,
            class_pages,
        })
    }

    /// The three numbers of bits that a checkpoint's slots are made with.
    pub(crate) fn slot_bits(&self) -> [u8; 3] {
        [self.offset_bits as u8, self.slab_bits as u8, self.granule_bits as u8]
    }

    /// Bytes of items, and what the summary says of them, that a slab has room for.
    pub(crate) fn slab_room(&self) -> usize {
        self.shape.slab_bytes() as usize - HEADER_BYTES - FOOTER_BYTES
    }

    /// `bytes` up to the next granule.
    pub(crate) fn padded(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(1 << self.granule_bits)
    }

    #[inline]
    pub(crate) fn bucket(&self, hash: u64) -> usize {
        ((u128::from(hash) * u128::from(self.buckets)) >> 64) as usize
    }

    #[inline]
    pub(crate) fn tag(&self, hash: u64) -> u64 {
        hash & ((1 << self.tag_bits) - 1)
    }

    /// The slot of an item of `bytes` bytes.
    #[inline]
    pub(crate) fn slot(&self, hash: u64, place: Place, bytes: usize) -> u64 {
        let pages = self.pages_of(place.offset, bytes);
        let class = self.class_pages.partition_point(|most| *most < pages) as u64;
        let (slab, offset) = (u64::from(place.slab), u64::from(place.offset));
        let tag_and_class = self.tag(hash) << CLASS_BITS | class;
        (tag_and_class << self.slab_bits | slab) << self.offset_bits | offset >> self.granule_bits
    }

    #[inline]
    pub(crate) fn tag_of(&self, slot: u64) -> u64 {
        slot >> (self.offset_bits + self.slab_bits + CLASS_BITS) & ((1 << self.tag_bits) - 1)
    }

    /// The place of a slot that was made with these bits.
    pub(crate) fn place_by([offset_bits, slab_bits, granule_bits]: [u8; 3], slot: u64) -> Place {
        let mask = |bits: u8| (1_u64 << bits.min(40)) - 1;
        let slab = slot.checked_shr(u32::from(offset_bits)).unwrap_or(0) & mask(slab_bits);
        let offset = (slot & mask(offset_bits)) << granule_bits.min(8);
        Place { slab: slab as u32, offset: offset as u32 }
    }

    #[inline]
    pub(crate) fn place_of(&self, slot: u64) -> Place {
        let slab = slot >> self.offset_bits & ((1 << self.slab_bits) - 1);
        let offset = (slot & ((1 << self.offset_bits) - 1)) << self.granule_bits;
        Place { slab: slab as u32, offset: offset as u32 }
    }

    /// The slot with another number for its slab.
    pub(crate) fn with_slab(&self, slot: u64, slab: u32) -> u64 {
        let mask = ((1 << self.slab_bits) - 1) << self.offset_bits;
        slot & !mask | u64::from(slab) << self.offset_bits
    }

    /// First page of a slot's item, and how many to read for it.
    #[inline]
    pub(crate) fn pages_of_slot(&self, slot: u64) -> (u32, u32) {
        let first = self.place_of(slot).offset / self.shape.page_bytes;
        let class = slot >> (self.offset_bits + self.slab_bits) & ((1 << CLASS_BITS) - 1);
        (first, self.class_pages[class as usize].min(self.shape.pages - first))
    }

    /// Pages in which `bytes` bytes from `offset` on lie.
    fn pages_of(&self, offset: u32, bytes: usize) -> u32 {
        let page = u64::from(self.shape.page_bytes);
        let (first, end) = (u64::from(offset) / page, u64::from(offset) + bytes as u64);
        (end.div_ceil(page) - first) as u32
    }
}

/// Size classes: exact while there are few pages, then each a constant factor over the one before.
fn classes(pages: u32) -> [u32; 1 << CLASS_BITS] {
    let mut classes = [0; 1 << CLASS_BITS];
    let count = classes.len() as u32;
    let mut most = 0;
    for (class, slot) in (0..).zip(&mut classes) {
        let left = count - class;
        let factor = (f64::from(pages) / f64::from(most.max(1))).powf(1.0 / f64::from(left));
        most = (most + 1).max((f64::from(most) * factor).floor() as u32).min(pages);
        *slot = most;
    }
    classes[classes.len() - 1] = pages;
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(slabs: u32, pages: u32) -> Shape {
        Shape { channels: 4, slabs, pages, page_bytes: 4096 }
    }

    #[test]
    fn classes_are_exact_for_few_pages_and_reach_all() {
        let classes = classes(512);
        assert_eq!(classes[..4], [1, 2, 3, 4]);
        assert_eq!(classes[15], 512);
        assert!(classes.is_sorted());
        let coarse = classes.windows(2).map(|w| f64::from(w[1]) / f64::from(w[0]));
        assert!(coarse.skip(3).all(|factor| factor < 1.8), "{classes:?}");
        assert_eq!(super::classes(3)[..4], [1, 2, 3, 3]);
    }

    #[test]
    fn a_slot_says_what_it_was_made_of() {
        let layout = Layout::new(shape(8192, 512), 256 << 20, 16).unwrap();
        for (hash, slab, offset, bytes) in
            [(u64::MAX, 8208, 2_097_088, 60), (1 << 40, 1, 32, 300), (77, 5, 4000, 1 << 20)]
        {
            let offset = offset >> layout.granule_bits << layout.granule_bits;
            let place = Place { slab, offset };
            let slot = layout.slot(hash, place, bytes);
            assert_eq!(layout.place_of(slot), place);
            assert_eq!(Layout::place_by(layout.slot_bits(), slot), place);
            assert_eq!(layout.tag_of(slot), layout.tag(hash));
            let (first, pages) = layout.pages_of_slot(slot);
            assert!(first * 4096 <= offset);
            assert!(u64::from(first + pages) * 4096 >= u64::from(offset) + bytes as u64);
            assert_eq!(layout.place_of(layout.with_slab(slot, 3)).slab, 3);
        }
    }

    #[test]
    fn too_little_memory_is_refused_in_words() {
        let said = Layout::new(shape(64, 512), 1 << 20, 4).unwrap_err().to_string();
        assert!(said.contains("memory_bytes"), "{said}");
    }
}
