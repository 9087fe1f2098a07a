//! Mounts: [`silica_lfs`] on a file or a block device, and the kernel's file system calls for it by
//! FUSE (papers: 003…, 3.7.2).
//!
//! [`Volume`] makes and opens the device: a flash image or a drive with a flash monitor, whose
//! application `lfs` has all LUNs, some of them over-provisioning. [`Mounted`] answers the kernel
//! from several threads until it is unmounted.
//!
//! `fuser` was taken for the protocol: it is maintained, in Rust, and mounts without libfuse.
#![forbid(unsafe_code)]

mod answers;
mod convert;
mod mounted;
mod turns;
mod volume;

pub use convert::now;
pub use mounted::{MountOptions, Mounted, check_mount_point};
pub use silica_lfs::{Collection, LfsOptions, Problem, Usage};
pub use volume::{Shape, Volume};
