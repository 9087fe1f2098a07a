//! Places with named regions: one suite for a directory and, if there is one, its twin.

use super::*;
use silica_base::ErrorKind;
use silica_device::region::Regions;
use silica_device::sim::SimRegions;
use silica_device::{DeviceOptions, FileDevice};

fn regions_have_names(place: &impl Regions) {
    assert!(place.open_region("a").unwrap().is_none());
    let a = place.create_region("a", 8192).unwrap();
    let b = place.create_region("b", 4096).unwrap();
    a.store(0, 1);
    b.store(0, 2);
    a.sync().unwrap();
    assert!(place.create_region("a", 8192).is_err(), "it exists");
    assert_eq!(place.create_region("c", 100).map(|_| ()).unwrap_err().kind(), ErrorKind::Config);
    assert!(place.open_region("c").unwrap().is_none(), "nothing is left of an attempt");
    drop((a, b));
    let a = place.open_region("a").unwrap().expect("it was made");
    assert_eq!((a.len(), a.load(0)), (8192, 1));
    a.grow(16_384).unwrap();
    drop(a);
    assert_eq!(place.open_region("a").unwrap().expect("it was made").len(), 16_384);
    place.remove_region("b").unwrap();
    assert!(place.open_region("b").unwrap().is_none());
    assert_eq!(place.remove_region("b").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(place.create_region("../a", 4096).is_err(), "a name is no path");
    assert_eq!(place.boot(), place.boot());
}

#[test]
fn in_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::open(dir.path(), DeviceOptions::default()).unwrap();
    regions_have_names(&device);
    let open = device.open_region("a").unwrap();
    let error = device.open_region("a").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    drop((open, device));
    let read_only = DeviceOptions { read_only: true, ..DeviceOptions::default() };
    let device = FileDevice::open(dir.path(), read_only).unwrap();
    let error = device.open_region("a").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn in_the_twin() {
    for class in [RegionClass::Lines, RegionClass::Pages, RegionClass::Process] {
        let place = SimRegions::new(1, class);
        regions_have_names(&place);
        let (boot, open) = (place.boot(), place.region("a").unwrap());
        place.power_cut();
        assert!(place.boot() != boot, "the machine was started again");
        assert!(open.fence().is_err(), "a handle from before is closed");
        let after = place.open_region("a").unwrap();
        assert_eq!(after.is_none(), class == RegionClass::Process, "memory has no files after it");
        // An image is opened as it is.
        let image = open.fork(1);
        image.store(8, 5);
        let held = SimRegions::holding("b", image, true);
        assert_eq!((held.open_region("b").unwrap().unwrap().load(8), held.boot()), (5, 2));
        assert!(held.open_region("a").unwrap().is_none());
    }
}
