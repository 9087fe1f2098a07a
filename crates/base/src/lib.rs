//! The ground every Silica crate stands on: key hashing, checksums, varints, bit I/O, seeded
//! randomness, ranks by Zipf's law, clocks, histograms, aligned buffers, memory in huge pages, tag
//! groups, sorts and maps of small code, rings between threads, counters that many threads add to,
//! values that many threads read, how formats begin and are upgraded, and the shared error type.
//!
//! Kernels come from maintained crates, but for the hash of short keys, which is checked against
//! theirs: `siphasher` (keyed 128-bit SipHash-1-3, so that nobody
//! who does not know a store's seed can craft colliding keys), `crc-fast` (CRC-32C by
//! carry-less multiplication, which it looks for at run time; the AWS SDK sums with it) and
//! `hdrhistogram`.
//!
//! Invariant: this crate does no I/O and knows no engine.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod aligned;
mod biased;
#[cfg(test)]
mod biased_tests;
mod bits;
mod checksum;
mod clock;
mod compact;
mod error;
mod fences;
mod format;
mod hash;
mod histogram;
mod hostile;
mod huge;
mod prefetch;
mod prng;
mod published;
#[cfg(test)]
mod published_tests;
mod ring;
mod rows;
mod shared;
mod striped;
mod sync;
mod tags;
mod testing;
mod varint;
mod zipf;

pub use aligned::{AlignedBuf, BLOCK_BYTES};
pub use biased::{Biased, BiasedRead, BiasedWrite};
pub use bits::{BitReader, BitWriter};
pub use checksum::{Checksum, checksum};
pub use clock::{Clock, ManualClock, SystemClock};
pub use compact::{compact_map, compact_sort_by, compact_sort_by_key};
pub use error::{Error, ErrorKind, Result};
pub use format::{Format, Step};
pub use hash::{HashSeed, KeyHash};
pub use histogram::Histogram;
pub use hostile::{CountingAllocator, hammer, mutated, peak_allocated};
pub use huge::{HUGE_PAGE_BYTES, HugeVec, KeptBytes, Zeroable, use_plain_pages};
pub use prefetch::{prefetch, prefetch_burst, prefetch_value};
pub use prng::Prng;
pub use published::Published;
pub use ring::{RingReceiver, RingSender, ring};
pub use shared::{is_zero, shared_len};
pub use striped::{Mine, Striped, thread_number};
pub use tags::{TAG_GROUP, match_bytes, match_tags};
pub use testing::{in_own_process, test_size};
pub use varint::{VARINT_BYTES_MAX, read_varint, varint_len, write_varint};
pub use zipf::Zipf;
