//! The entries of a hash store or of a sorted store, in the order of hashes.

use crate::hash_store::HashStoreStream;
use crate::merge::EntryStream;
use crate::sorted_store::SortedStoreStream;
use silica_base::{KeyHash, Result};
use silica_device::DeviceFile;

/// A stream of either kind of store; an enum, since a merge calls it for every entry.
pub(crate) enum StoreStream<F> {
    Hash(HashStoreStream<F>),
    Sorted(SortedStoreStream<F>),
}

impl<F: DeviceFile> EntryStream for StoreStream<F> {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match self {
            StoreStream::Hash(stream) => stream.advance(),
            StoreStream::Sorted(stream) => stream.advance(),
        }
    }

    #[inline]
    fn hash(&self) -> KeyHash {
        match self {
            StoreStream::Hash(stream) => stream.hash(),
            StoreStream::Sorted(stream) => stream.hash(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            StoreStream::Hash(stream) => stream.key(),
            StoreStream::Sorted(stream) => stream.key(),
        }
    }

    #[inline]
    fn frame_bytes(&self) -> &[u8] {
        match self {
            StoreStream::Hash(stream) => stream.frame_bytes(),
            StoreStream::Sorted(stream) => stream.frame_bytes(),
        }
    }
}
