//! Shared mechanisms.
//!
//! Invariant: this crate knows no engine, opens no paths and starts no threads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod block_cache;
mod buffers;
pub mod cuckoo;
pub mod ect;
pub mod expiry;
mod fields;
pub mod frame;
pub mod framing;
mod fuse;
pub mod manifest;
mod read_window;
mod room;
mod room_watch;
pub mod spaces;
pub mod store_log;
pub mod table;
pub mod value_log;
pub mod wal;
mod write_behind;

pub use block_cache::{BlockCache, BlockId, CachedBlock};
pub use buffers::Buffers;
pub use fields::Fields;
pub use fuse::{BITS_MAX, FuseFilter};
pub use read_window::{ReadDone, ReadWindow};
pub use room::Room;
pub use room_watch::{RoomWatch, free_bytes};
pub use write_behind::WriteBehind;
