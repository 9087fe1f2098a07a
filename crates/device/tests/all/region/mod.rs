//! Mapped bytes: one suite for files and their twin, power cuts against a model, hostile files.

mod conformance;
mod crash;
mod dax;
mod hostile;
mod images;
mod names;
mod space;

use silica_device::region::{FileRegion, Region, RegionClass};
use silica_device::sim::SimRegion;
