//! The trie of a sorted store, and the choice between its kinds.

use super::miss_filter::MissFilter;
use crate::packed::{PAYLOAD_BYTES, SectionKind};
use silica_base::{Error, ErrorKind, Result};
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams, SparseBuilder, SparseIndex};
use std::sync::Arc;

/// Chunks shared by more entries than this are indexed sparsely.
const DENSE_ENTRIES_PER_CHUNK_MAX: usize = 3;

/// Which trie a sorted store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexKind {
    /// Key to chunk: fewer bits where entries share a chunk, any sizes.
    Sparse,
    /// Key to rank: the exact place, for entries of one size with different positions; where
    /// that is not so, sparse.
    Dense,
    /// Dense where at most three entries of one size share a chunk, otherwise sparse.
    #[default]
    Auto,
}

pub(super) enum Trie {
    Sparse(SparseIndex),
    Dense(DenseIndex),
}

impl Trie {
    pub(super) fn kind(&self) -> IndexKind {
        match self {
            Trie::Sparse(_) => IndexKind::Sparse,
            Trie::Dense(_) => IndexKind::Dense,
        }
    }

    pub(super) fn section(&self) -> (SectionKind, Vec<u8>) {
        let mut out = Vec::new();
        match self {
            Trie::Sparse(index) => {
                index.encode(&mut out);
                (SectionKind::SparseIndex, out)
            }
            Trie::Dense(index) => {
                index.encode(&mut out);
                (SectionKind::DenseIndex, out)
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Trie::Sparse(index) => index.bytes(),
            Trie::Dense(index) => index.bytes(),
        }
    }
}

/// What a sorted store keeps in memory. The filter goes before the trie does.
#[derive(Clone)]
pub(super) struct SortedIndex {
    pub(super) trie: Arc<Trie>,
    pub(super) filter: Option<Arc<MissFilter>>,
}

impl SortedIndex {
    pub(super) fn new(trie: Trie, filter: Option<MissFilter>) -> Self {
        SortedIndex { trie: Arc::new(trie), filter: filter.map(Arc::new) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.trie.bytes() + self.filter.as_ref().map_or(0, |filter| filter.bytes())
    }
}

/// Builds a trie while the entries pass: the sparse one always, since it costs little, and the
/// dense one for as long as it may be the one taken.
pub(super) struct TrieBuilder {
    kind: IndexKind,
    params: EctParams,
    entries_expected: u64,
    sparse: SparseBuilder,
    dense: Option<DenseBuilder>,
    /// Position, chunk and size of the last entry.
    last: Option<(u64, u64, usize)>,
}

impl TrieBuilder {
    pub(super) fn new(
        kind: IndexKind,
        params: EctParams,
        entries_expected: u64,
        chunks_expected: u64,
    ) -> Self {
        TrieBuilder {
            kind,
            params,
            entries_expected,
            sparse: SparseBuilder::new(params, chunks_expected),
            dense: None,
            last: None,
        }
    }

    fn wants_dense(&self, frame_bytes: usize) -> bool {
        match self.kind {
            IndexKind::Sparse => false,
            IndexKind::Dense => true,
            IndexKind::Auto => PAYLOAD_BYTES / frame_bytes <= DENSE_ENTRIES_PER_CHUNK_MAX,
        }
    }

    /// The next entry in hash order starts in `chunk` and has a frame of `frame_bytes`.
    ///
    /// # Errors
    /// `Corruption` where its position is before that of the last one: it is of another partition.
    #[inline]
    pub(super) fn push(&mut self, position: u64, chunk: u64, frame_bytes: usize) -> Result<()> {
        if self.last.is_some_and(|(before, ..)| position < before) {
            let context = "entries of a sorted store are of several partitions";
            return Err(Error::new(ErrorKind::Corruption, context));
        }
        match self.last {
            None => {
                if self.wants_dense(frame_bytes) {
                    self.dense = Some(DenseBuilder::new(self.params, self.entries_expected));
                }
            }
            Some((before, chunk_before, bytes_before)) => {
                if frame_bytes != bytes_before || position == before {
                    self.dense = None;
                }
                // A chunk in which no entry starts is told apart too, so that numbers agree.
                for _ in chunk_before..chunk {
                    self.sparse.push_boundary(before, position);
                }
            }
        }
        if let Some(dense) = &mut self.dense {
            dense.push(position);
        }
        self.last = Some((position, chunk, frame_bytes));
        Ok(())
    }

    pub(super) fn finish(self) -> Trie {
        match self.dense {
            Some(dense) => Trie::Dense(dense.finish()),
            None => Trie::Sparse(self.sparse.finish()),
        }
    }
}
