//! The command line of `silica flash`.

use super::LabArgs;
use super::values::geometry;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum FlashCommand {
    /// Make a file that behaves like flash, or a block device flash. A drive with zones needs no
    /// shape: each zone is a block.
    Create {
        /// The file or block device.
        path: PathBuf,
        #[command(flatten)]
        shape: FlashShape,
        /// Erases that a block takes; any number, or those of the profile.
        #[arg(long, value_name = "ERASES")]
        endurance: Option<u32>,
        /// Make a block device flash that has something on it, which is lost.
        #[arg(long)]
        overwrite: bool,
    },
    /// Say how an image is divided, and in which states its blocks are.
    Info {
        /// The image, the block device, or the directory of a cache on flash.
        path: PathBuf,
    },
    /// Draw how often each block was erased.
    Wear {
        /// The image, the block device, or the directory of a cache on flash.
        path: PathBuf,
        /// Draw it into this file, too.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Read every page that was written; exit code 1 if one cannot be read.
    Check {
        /// The image, the block device, or the directory of a cache on flash.
        path: PathBuf,
    },
    #[command(flatten)]
    Lab(FlashLab),
}

/// What `silica-lab` does with flash.
#[derive(Subcommand)]
pub(crate) enum FlashLab {
    /// What a cache on flash would do with a workload: hits, writes, erases, years of life.
    Simulate(LabArgs),
}

/// How flash is divided.
#[derive(Args)]
#[group(required = false, multiple = false)]
pub(crate) struct FlashShape {
    /// A drive that is known: paper, small, tlc, qlc.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Channels, LUNs of each, blocks of each, pages of each and their size, such as
    /// 4x4x64x64x16KiB.
    #[arg(long, value_name = "CxLxBxPxSIZE", value_parser = geometry)]
    pub(crate) geometry: Option<silica::device::blocks::Geometry>,
}
