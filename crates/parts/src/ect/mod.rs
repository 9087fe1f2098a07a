//! Entropy-coded tries: where a key stands among keys in hash order.
//!
//! [`DenseIndex`] gives the rank of a key, [`SparseIndex`] the chunk that holds it. Both are
//! built from the sorted key stream alone, so either can be rebuilt from the same data.
//! Compactness assumes hashed (uniform) keys; correctness does not.

pub mod bulk;

mod bits;
mod borders;
mod dense;
mod directory;
mod frame;
mod huffman;
mod phrases;
mod skips;
mod sparse;
mod splits;
mod trie;

pub use dense::{DenseBuilder, DenseIndex};
pub use sparse::{SparseBuilder, SparseIndex};

/// The knobs that trade memory for lookup time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EctParams {
    /// Average keys per virtual bucket.
    pub group: u32,
    /// Largest trie whose split is Huffman coded.
    pub hmax: u32,
}

impl Default for EctParams {
    fn default() -> Self {
        EctParams { group: 256, hmax: 64 }
    }
}
