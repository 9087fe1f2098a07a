//! What a cache on flash would do: hits, erases, copies and wear for a drive and a workload that
//! somebody describes or has recorded, without a device.
//!
//! [`FlashShape`] is the drive at a share of its size, [`Operations`] what is asked of the cache,
//! [`Scheme`] how the cache works, and [`run_cache`] lets the one meet the other.
//!
//! A drive of 512 GiB takes billions of items. A share of the keys on the same share of the flash
//! behaves alike: popularity is scaled by groups of keys, not by rank, so each group keeps its part
//! of the requests.

mod operations;
mod run;
mod scheme;
mod shape;

pub use operations::{ITEM_OVERHEAD_BYTES, Operation, Operations};
pub use run::{Counted, Plan, run_cache};
pub use scheme::Scheme;
pub use shape::{FlashDrive, FlashShape};
