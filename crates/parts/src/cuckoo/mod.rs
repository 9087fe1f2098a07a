//! Partial-key cuckoo hashing with four slots per bucket.
//!
//! A [`CuckooTable`] maps key hashes to `u32` values (positions in a log) and keeps only a *tag*
//! of at most 16 bits of each key, six bytes per slot in all. The alternative bucket of an entry
//! is its bucket XOR a hash of its tag, so that displacing an entry never needs its key. Two
//! things differ from the textbook:
//!
//! - The bucket comes from the hash by range reduction, and the alternative stays within the
//!   same *block* of buckets. So blocks are in hash order, and whoever sorts the entries of one
//!   block after the other has all entries in hash order with the memory of one block.
//! - A full pair of buckets is resolved by breadth-first search, not by a random walk: the
//!   shortest chain of displacements is found before the first entry moves, so a failed insert
//!   leaves the table as it was, and chains are at most a handful of moves long.
//!
//! A [`TagFilter`] is what stays of a table that became immutable: its tags in slot order, bit
//! by bit, and the number of occupied slots before every group of buckets. It answers with the
//! *rank* of a matching slot among the occupied ones.
//!
//! Bursts: call [`CuckooTable::prefetch`] for every hash of a burst before the first
//! [`CuckooTable::candidates`], or use [`lookup_many`], which asks for second buckets
//! only where the first did not have the entry.

mod filter;
mod geometry;
mod table;

#[cfg(test)]
mod tests;

pub use filter::{FILTER_HEADER_BYTES, Ranks, TagFilter, encoded_bucket_range, match_encoded};
pub use geometry::{BLOCK_BUCKETS_LOG2_DEFAULT, BUCKET_SLOTS, Geometry};
pub use table::{BURST, Candidates, CuckooTable, TableFull, lookup_many};
