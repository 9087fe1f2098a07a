//! Conversion: writing the entries of a frozen table in slot order.

use super::{HashIndex, HashStore, encode_meta};
use crate::Hasher;
use crate::packed::{FileKind, Layout, PackedWriter, SectionKind};
use crate::rank_map::RankMapBuilder;
use silica_base::{Biased, Result};
use silica_device::{Device, DeviceFile};
use silica_parts::cuckoo::CuckooTable;
use std::sync::Arc;

/// How many frames ahead memory is asked for.
const FRAMES_AHEAD: usize = 16;
/// Buckets written between two looks at the budget.
const BUCKETS_AT_ONCE: u32 = 64;

/// Writes a hash store in bounded steps. After an error, drop it and remove the file.
pub struct HashStoreBuilder<F: DeviceFile> {
    writer: PackedWriter<F>,
    ranks: RankMapBuilder,
    hasher: Hasher,
    bucket: u32,
    positions: Vec<u32>,
}

impl<F: DeviceFile> HashStoreBuilder<F> {
    /// Starts the file `name` with the id `file_id`. `layout` comes from the sizes of the
    /// entries: [`Layout::choose`].
    pub fn new<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
        layout: Layout,
        hasher: Hasher,
    ) -> Result<Self> {
        Ok(HashStoreBuilder {
            writer: PackedWriter::create(device, name, file_id, FileKind::HashStore, layout)?,
            ranks: RankMapBuilder::default(),
            hasher,
            bucket: 0,
            positions: Vec::new(),
        })
    }

    /// Bytes that the file takes of the device for certain.
    pub fn bytes_taken(&self) -> u64 {
        self.writer.bytes_taken()
    }

    /// Bytes of frames so far.
    pub fn entry_bytes(&self) -> u64 {
        self.writer.entry_bytes()
    }

    /// Bytes handed to the device so far.
    pub fn bytes_written(&self) -> u64 {
        self.writer.bytes_written()
    }

    /// Writes about `budget_bytes` of entries; true when all are written and
    /// [`HashStoreBuilder::finish`] may follow. `table` is the same frozen table at every step,
    /// and `frame` gives the encoded frame at a position of the log. `prefetch` is told of
    /// positions a little ahead: they are in random order, and each would wait for memory.
    pub fn step<'a>(
        &mut self,
        table: &CuckooTable,
        frame: impl Fn(u32) -> &'a [u8],
        prefetch: impl Fn(u32),
        budget_bytes: u64,
    ) -> Result<bool> {
        let (buckets, end) = (
            table.geometry().buckets(),
            self.writer.entry_bytes().saturating_add(budget_bytes.max(1)),
        );
        while self.bucket < buckets && self.writer.entry_bytes() < end {
            let next = (self.bucket + BUCKETS_AT_ONCE).min(buckets);
            self.positions.clear();
            self.positions.extend(table.occupied_in(self.bucket..next).map(|slot| slot.2));
            self.positions.iter().take(FRAMES_AHEAD).for_each(|at| prefetch(*at));
            for (i, &position) in self.positions.iter().enumerate() {
                if let Some(&ahead) = self.positions.get(i + FRAMES_AHEAD) {
                    prefetch(ahead);
                }
                let rank = self.writer.entries();
                let place = self.writer.append(frame(position))?;
                self.ranks.push(rank, place.chunk);
            }
            self.bucket = next;
        }
        Ok(self.bucket == buckets)
    }

    /// Ends the file and syncs it. The store's index is in memory.
    pub fn finish(self, table: &CuckooTable) -> Result<HashStore<F>> {
        let filter = table.filter();
        let geometry = *table.geometry();
        let (mut filter_bytes, mut rank_bytes) = (Vec::new(), Vec::new());
        filter.encode(&mut filter_bytes);
        let is_equal = self.writer.entry_bytes_equal() != 0;
        let ranks = if is_equal { None } else { Some(self.ranks.finish()) };
        let mut sections = vec![(SectionKind::TagFilter, filter_bytes.as_slice())];
        if let Some(ranks) = &ranks {
            ranks.encode(&mut rank_bytes);
            sections.push((SectionKind::ChunkRanks, &rank_bytes));
        }
        let reader = self.writer.finish(&sections, &encode_meta(&geometry))?;
        Ok(HashStore {
            reader: Arc::new(reader),
            geometry,
            hasher: self.hasher,
            index: Biased::new(Some(Arc::new(HashIndex { filter, ranks }))),
        })
    }
}
