//! A log-structured file system on flash (papers: 003…, 3.7.2): segments are flash blocks, and the
//! only map is that from files to pages of blocks.
//!
//! [`Lfs`] is the file system without the kernel: inodes by number, calls that mean what system
//! calls mean. It stands on a [`Ground`]: [`FlashGround`] is the function level of `silica-flash`;
//! the laboratory has a conventional drive, to be compared with. `silica-mount` speaks FUSE for it.
//! docs/lfs.md is its page, docs/formats/lfs.md what it writes.
//!
//! ```
//! use silica_device::sim::{SimFlash, SimFlashOptions};
//! use silica_device::blocks::Geometry;
//! use silica_lfs::{FlashGround, Kind, Lfs, LfsOptions, Make, ROOT, Time};
//!
//! let geometry =
//!     Geometry { channels: 2, luns: 2, blocks: 16, pages: 16, page_bytes: 1024, spare_bytes: 0 };
//! let flash = SimFlash::new(1, SimFlashOptions::flash(geometry));
//! let now = Time { seconds: 1, nanoseconds: 0 };
//! let lfs = Lfs::create(FlashGround::open(flash.clone(), 4)?, 7, (0, 0), now)?;
//! let file = Make { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0, target: b"" };
//! let ino = lfs.make(ROOT, b"greeting", &file, now)?;
//! lfs.write(ino, None, b"hello", now)?;
//! lfs.sync()?; // survives a power cut
//!
//! let lfs = Lfs::open(FlashGround::open(flash.reopen(), 4)?, LfsOptions::default())?;
//! let ino = lfs.lookup(ROOT, b"greeting")?;
//! let mut bytes = [0; 16];
//! let read = lfs.read(ino, 0, &mut bytes)?;
//! assert_eq!(&bytes[..read], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every commit is a state of the whole tree: after a power cut the tree is as it was at one moment
//! between the last `sync` that returned and the cut. All metadata are in memory while the file
//! system is open.
//!
//! Invariant: this crate opens no paths, starts no threads and reads no clock; what it writes goes
//! through a ground, and the time comes with each call.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod batch;
mod check;
mod checkpoint;
mod collect;
mod commit;
mod core;
mod extents;
mod fault;
mod file;
mod ground;
mod meta;
mod names;
mod node;
mod record;
mod recover;
mod repair;
mod space;
mod tree;

pub use self::core::{Collection, Lfs, LfsOptions, LfsStatistics};
pub use check::Problem;
pub use fault::{Fault, LfsResult};
pub use file::{Allocation, Seek};
pub use ground::{Burst, Fetch, FlashGround, Ground};
pub use meta::{Changes, Usage, XATTR_BYTES_MAX, XattrMode};
pub use names::{Listed, Make, Rename};
pub use node::{Attributes, Ino, Kind, NAME_BYTES_MAX, ROOT, Time};
pub use recover::SEGMENT_BYTES_MIN;
