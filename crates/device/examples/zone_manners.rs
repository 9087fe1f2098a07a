//! Says what the driver of a drive with zones does where drivers differ. All that the drive has is
//! lost.
//!
//! `zone_manners DEVICE` prints a line for each question.

use silica_base::{AlignedBuf, Error, Result};
use silica_device::blocks::{KernelZones, ZoneAction, ZoneCondition, ZoneKind, Zones};
use std::io;
use std::path::Path;

fn main() {
    let device = std::env::args_os().nth(1).unwrap_or_default();
    if let Err(error) = look(device.as_ref()) {
        println!("MANNERS {} {error}", device.display());
        std::process::exit(1);
    }
}

/// How a call ended, in the system's words.
fn told(result: io::Result<()>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "done".into())
}

fn look(path: &Path) -> Result<()> {
    let drive = KernelZones::open(path)?;
    let name = path.display();
    let limits = *drive.limits();
    let say = |what: &str, answer: String| println!("MANNERS {name} {what}: {answer}");
    say("limits", format!("{limits:?}"));
    let failed = |e| Error::io(format!("cannot look at {name}"), e);
    let all = drive.report(0, limits.zones).map_err(failed)?;
    let first = all.iter().position(|zone| zone.kind == ZoneKind::Sequential).unwrap_or(0) as u32;
    let zone = |number: u32| drive.report(number, 1).map(|zones| zones[0]).map_err(failed);
    let state = |number: u32| zone(number).map(|z| format!("{:?} at {}", z.condition, z.pointer));
    let act = |action, number: u32| -> Result<String> {
        let told = told(drive.manage(action, number));
        Ok(format!("{told}; {}", state(number)?))
    };
    say("conventional zones", first.to_string());
    say("capacity", zone(first)?.capacity.to_string());
    for number in first..all.len() as u32 {
        if zone(number)?.condition != ZoneCondition::Empty {
            drive.manage(ZoneAction::Reset, number).map_err(failed)?;
        }
    }
    let granule = AlignedBuf::zeroed(limits.granule as usize);
    let start = |number: u32| u64::from(number) * limits.zone_bytes;
    let write = |number: u32, at: u64| drive.write(start(number) + at, &granule, false);
    let granule_bytes = u64::from(limits.granule);
    say("reset of an empty zone", act(ZoneAction::Reset, first)?);
    say("close of an empty zone", act(ZoneAction::Close, first)?);
    say("finish of an empty zone", act(ZoneAction::Finish, first)?);
    say("close of a full zone", act(ZoneAction::Close, first)?);
    say("reset of a full zone", act(ZoneAction::Reset, first)?);
    say("open of an empty zone", act(ZoneAction::Open, first)?);
    say("close of an open zone without bytes", act(ZoneAction::Close, first)?);
    say("write at the pointer", format!("{}; {}", told(write(first, 0)), state(first)?));
    let off = told(write(first, 2 * granule_bytes));
    say("write behind the pointer", format!("{off}; {}", state(first)?));
    say("write before the pointer", format!("{}; {}", told(write(first, 0)), state(first)?));
    say("close of an open zone", act(ZoneAction::Close, first)?);
    say("close of a closed zone", act(ZoneAction::Close, first)?);
    say("finish of a closed zone", act(ZoneAction::Finish, first)?);
    say("write to a full zone", told(write(first, granule_bytes)));
    say("reset of a full zone", act(ZoneAction::Reset, first)?);
    let many = (limits.open_max.max(limits.active_max) + 1).min(all.len() as u32 - first);
    let opened: Vec<_> =
        (first..first + many).map(|number| told(drive.manage(ZoneAction::Open, number))).collect();
    say("explicit opens beyond the limit", format!("{:?}", opened.last()));
    let written = told(write(first + many, 0));
    say("write to one more zone then", written);
    Ok(())
}
