//! Arguments of `silica lfs` and `silica mount`.

use super::values::geometry;
use clap::{Args, Subcommand};
use silica_console::values::size;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum LfsCommand {
    /// Make a file system in a new file, or on a block device, whose contents are lost.
    Create {
        /// The file or the block device.
        path: PathBuf,
        /// Bytes of a new file (1GiB); a block device is taken whole.
        #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "geometry")]
        size: Option<u64>,
        /// Make a flash image of this geometry, whose pages have checksums, such as
        /// 4x4x64x64x16KiB.
        #[arg(long, value_name = "CxLxBxPxSIZE", value_parser = geometry)]
        geometry: Option<silica::device::blocks::Geometry>,
        /// Share of the LUNs that is kept back for collection, in percent; one LUN at least.
        #[arg(long, value_name = "PERCENT", default_value_t = 7)]
        over_provisioning: u32,
    },
    /// Check all names, places and pages; exit code 1 if something is wrong.
    Check {
        /// The file or the block device.
        path: PathBuf,
        /// Put right what can be: names of nothing go, what has no name is put into lost+found,
        /// counts are corrected, pages that cannot be read become holes.
        #[arg(long)]
        repair: bool,
    },
    /// Say how much is used, and how the device is divided.
    Info {
        /// The file or the block device.
        path: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct MountArgs {
    /// The file or the block device.
    pub(crate) device: PathBuf,
    /// The directory.
    pub(crate) directory: PathBuf,
    /// Let nobody change anything.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let nobody else use it.
    #[arg(long)]
    pub(crate) private: bool,
    /// Collect the segment with the fewest live pages first, as the paper does, and not by cost and
    /// benefit.
    #[arg(long)]
    pub(crate) greedy: bool,
    /// Threads that answer the kernel.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) threads: usize,
    /// What was written survives a power cut after so many seconds, synced or not.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) sync_every: u64,
}
