//! Flash shared by applications: a monitor that hands out LUNs, and levels on top of it (papers:
//! 003…, 3.4).
//!
//! A [`Monitor`] owns a [`silica_device::blocks::FlashDevice`]. Applications get capacity and
//! over-provisioning in LUNs, dealt to the channels in turn. Each sees a device of its own
//! ([`Application`]), whose addresses reach nothing else. Bad blocks are hidden: a block that
//! fails is replaced by a spare one of its LUN when it is reset. LUNs that wear faster than others
//! trade places with them while applications use them.
//!
//! An application is the raw level. [`functions`] takes allocation, erases and wear levelling off
//! it; [`kv`] and [`policy`] stand on that: items that are evicted with their block, and a logical
//! block device. They stand on any other flash device, too.
//!
//! ```
//! use silica_device::blocks::{Append, FlashDevice};
//! use silica_device::sim::{SimFlash, SimFlashOptions};
//! use silica_flash::{Monitor, MonitorOptions, Space};
//!
//! let flash = SimFlash::new(1, SimFlashOptions::small());
//! let monitor = Monitor::format(flash, MonitorOptions { id: 7, spare_blocks: 1 })?;
//! let cache = monitor.create("cache", Space { luns: 2, over_provisioned_luns: 1 })?;
//! let block = cache.blocks().next().unwrap();
//! let page = vec![1; cache.geometry().page_bytes as usize];
//! cache.append(&Append { block, expected: Some(0), stream: 0, pages: &page, spare: &[] })?;
//! let mut back = vec![0; page.len()];
//! cache.read(block.page(0), &mut back, &mut [])?;
//! assert_eq!(back, page);
//! # Ok::<(), silica_base::Error>(())
//! ```
//!
//! Invariant: this crate knows no engine, opens no paths and starts no threads; what it writes
//! goes through a device.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod application;
mod deal;
pub mod functions;
pub mod kv;
mod monitor;
pub mod policy;
mod shared;
mod table;
mod table_log;
mod wear;

pub use application::{Application, ApplicationQueue};
pub use monitor::{ApplicationReport, Monitor, MonitorOptions, Space};
pub use wear::WearLevelling;
