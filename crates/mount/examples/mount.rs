//! Makes a file system on a new file and mounts it until it is unmounted:
//! `cargo run --release -p silica-mount --example mount -- IMAGE DIRECTORY [MiB]`.

use silica_mount::{LfsOptions, MountOptions, Mounted, Shape, Volume, now};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut path = || arguments.next().map(PathBuf::from).ok_or("give IMAGE and DIRECTORY");
    let (image, directory) = (path()?, path()?);
    let mib: u64 = std::env::args().nth(3).map_or(Ok(1024), |text| text.parse())?;
    if !image.exists() {
        Volume::create(&image, Shape::Drive(mib << 20), 7, (0, 0), now())?.close()?;
    }
    let volume = Volume::open(&image, LfsOptions::default())?;
    Mounted::new(volume, &directory, &MountOptions::default())?.wait()?;
    Ok(())
}
