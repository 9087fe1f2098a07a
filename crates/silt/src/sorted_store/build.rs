//! Writing a sorted store from a stream in hash order, and making another trie of one.

use super::index::{IndexKind, SortedIndex, TrieBuilder};
use super::miss_filter::MissFilterBuilder;
use super::stream::SortedStoreStream;
use super::{SortedStore, position};
use crate::Hasher;
use crate::merge::EntryStream;
use crate::packed::{FileKind, Layout, PAYLOAD_BYTES, PackedWriter, READ_AHEAD_BYTES, SectionKind};
use silica_base::{Biased, Error, ErrorKind, KeyHash, Result};
use silica_device::{Device, DeviceFile};
use silica_parts::ect::EctParams;
use std::sync::Arc;

/// How a sorted store is built.
#[derive(Debug, Clone, Copy)]
pub struct SortedStoreOptions {
    /// Bits of the hash that chose the partition.
    pub partition_bits: u32,
    /// The trie's knobs.
    pub params: EctParams,
    /// The kind of trie.
    pub index_kind: IndexKind,
    /// Bits per key of the miss filter's fragments: a key that is not there passes with
    /// probability 1 in 2^this. 0 means no filter.
    pub filter_bits: u32,
    /// Where entries lie: [`Layout::choose`].
    pub layout: Layout,
    /// About how many entries will come. A wrong number costs memory, not correctness.
    pub entries_expected: u64,
    /// About how many bytes of frames will come. A wrong number costs memory, not correctness.
    pub bytes_expected: u64,
}

impl SortedStoreOptions {
    fn trie_builder(&self, kind: IndexKind) -> TrieBuilder {
        let chunks = self.bytes_expected.div_ceil(PAYLOAD_BYTES as u64);
        TrieBuilder::new(kind, self.params, self.entries_expected, chunks)
    }

    fn filter_builder(&self) -> Option<MissFilterBuilder> {
        (self.filter_bits > 0)
            .then(|| MissFilterBuilder::new(self.filter_bits, self.entries_expected))
    }
}

/// Writes a sorted store. After an error, drop it and remove the file.
pub struct SortedStoreBuilder<F: DeviceFile> {
    writer: PackedWriter<F>,
    hasher: Hasher,
    partition_bits: u32,
    trie: TrieBuilder,
    filter: Option<MissFilterBuilder>,
    last: Option<KeyHash>,
}

impl<F: DeviceFile> SortedStoreBuilder<F> {
    /// Starts the file `name` with the id `file_id`.
    pub fn new<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
        hasher: Hasher,
        options: SortedStoreOptions,
    ) -> Result<Self> {
        let kind = FileKind::SortedStore;
        Ok(SortedStoreBuilder {
            writer: PackedWriter::create(device, name, file_id, kind, options.layout)?,
            hasher,
            partition_bits: options.partition_bits,
            trie: options.trie_builder(options.index_kind),
            filter: options.filter_builder(),
            last: None,
        })
    }

    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.writer.entries()
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

    /// Adds the next entry in the order of (hash, key).
    #[inline]
    pub fn push(&mut self, hash: KeyHash, frame: &[u8]) -> Result<()> {
        if self.last.is_some_and(|last| hash < last) {
            let context = "entries of a sorted store do not come in hash order";
            return Err(Error::new(ErrorKind::Corruption, context));
        }
        self.last = Some(hash);
        let place = self.writer.append(frame)?;
        let position = position(hash, self.partition_bits);
        self.trie.push(position, place.chunk, frame.len())?;
        if let Some(filter) = &mut self.filter {
            filter.push(position);
        }
        Ok(())
    }

    /// Ends the file and syncs it. The store's index is in memory.
    pub fn finish(self) -> Result<SortedStore<F>> {
        let trie = self.trie.finish();
        let filter = self.filter.map(MissFilterBuilder::finish);
        let (kind, trie_bytes) = trie.section();
        let mut sections = vec![(kind, trie_bytes.as_slice())];
        let mut filter_bytes = Vec::new();
        if let Some(filter) = &filter {
            filter.encode(&mut filter_bytes);
            sections.push((SectionKind::MissFilter, &filter_bytes));
        }
        let reader = self.writer.finish(&sections, &self.partition_bits.to_le_bytes())?;
        Ok(SortedStore {
            reader: Arc::new(reader),
            hasher: self.hasher,
            partition_bits: self.partition_bits,
            index: Biased::new(Some(Arc::new(SortedIndex::new(trie, filter)))),
        })
    }
}

/// Makes a trie (and a filter, where options ask for one) from the entries of a store, in
/// bounded steps.
pub struct IndexRebuild<F> {
    stream: Result<SortedStoreStream<F>, Option<Error>>,
    trie: TrieBuilder,
    filter: Option<MissFilterBuilder>,
}

impl<F: DeviceFile> IndexRebuild<F> {
    pub(super) fn new(
        store: &SortedStore<F>,
        kind: IndexKind,
        options: SortedStoreOptions,
    ) -> Self {
        let exact = SortedStoreOptions {
            entries_expected: store.footer().entries,
            bytes_expected: store.footer().data_chunks * PAYLOAD_BYTES as u64,
            ..options
        };
        IndexRebuild {
            stream: store.stream(KeyHash(0), READ_AHEAD_BYTES).map_err(Some),
            trie: exact.trie_builder(kind),
            filter: exact.filter_builder(),
        }
    }

    /// Reads about `budget_bytes` of entries of `store`, the store that this was made for. True
    /// when the new trie is in its place.
    pub fn step(&mut self, store: &SortedStore<F>, budget_bytes: u64) -> Result<bool> {
        let stream = match &mut self.stream {
            Ok(stream) => stream,
            Err(error) => {
                let closed = || Error::new(ErrorKind::Closed, "the rebuild of an index is over");
                return Err(error.take().unwrap_or_else(closed));
            }
        };
        let mut bytes = 0;
        while bytes < budget_bytes.max(1) {
            if !stream.advance()? {
                let params = EctParams::default();
                let empty = TrieBuilder::new(IndexKind::Sparse, params, 0, 0);
                let trie = std::mem::replace(&mut self.trie, empty).finish();
                let filter = self.filter.take().map(MissFilterBuilder::finish);
                self.stream = Err(None);
                store.set_index(Some(Arc::new(SortedIndex::new(trie, filter))));
                return Ok(true);
            }
            let len = stream.frame_bytes().len();
            let position = position(stream.hash(), store.partition_bits);
            self.trie.push(position, stream.chunk(), len)?;
            if let Some(filter) = &mut self.filter {
                filter.push(position);
            }
            bytes += len as u64;
        }
        Ok(false)
    }
}
