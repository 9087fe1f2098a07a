//! The power is cut at every operation of a script, and again while the monitor opens.

use super::*;
use silica_base::{ErrorKind, Result, test_size};
use silica_device::sim::FlashFaultKind;
use std::collections::BTreeMap;

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    is_formatted: bool,
    /// By application, the page of its first block, and whether it has one.
    applications: BTreeMap<String, Option<u64>>,
    /// The application whose creation or removal was under way.
    unsure: Option<String>,
}

/// Creates, writes, lets a block fail, removes. Stops at the first error.
fn script(flash: &SimFlash, known: &mut Acknowledged) -> Result<()> {
    let monitor = Monitor::format(flash.clone(), OPTIONS)?;
    known.is_formatted = true;
    for (name, luns, id) in [("a", 2, 10), ("b", 1, 20), ("c", 3, 30)] {
        known.unsure = Some(name.to_string());
        let application = monitor.create(name, space(luns, 0))?;
        known.unsure = None;
        known.applications.insert(name.to_string(), None);
        let block = application.blocks().next().expect("it has blocks");
        append(&application, block, id)?;
        flash.fail_at(FlashFaultKind::EraseFailed, 1);
        known.applications.insert(name.to_string(), None);
        application.reset(block)?;
        append(&application, block, id + 1)?;
        application.sync()?;
        known.applications.insert(name.to_string(), Some(id + 1));
        if name == "b" {
            drop(application);
            known.unsure = Some(name.to_string());
            monitor.remove(name)?;
            known.unsure = None;
            known.applications.remove(name);
        }
    }
    Ok(())
}

/// Opens the monitor and compares it with what was acknowledged.
fn check(flash: &SimFlash, known: &Acknowledged, what: &str) -> Result<()> {
    let monitor = match Monitor::open(flash.clone()) {
        Ok(monitor) => monitor,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            assert!(!known.is_formatted, "{what}: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let there: Vec<String> = monitor.report()?.into_iter().map(|report| report.name).collect();
    let may_be = |name: &String| known.unsure.as_ref() == Some(name);
    for name in &there {
        assert!(known.applications.contains_key(name) || may_be(name), "{what}: {name} came back");
        if !known.applications.contains_key(name) {
            // It has its LUNs, which were erased before.
            let application = monitor.application(name)?;
            for block in application.blocks() {
                assert_eq!(application.block(block)?.written, 0, "{what}: {block} of {name}");
            }
        }
    }
    for (name, page) in &known.applications {
        assert!(there.contains(name) || may_be(name), "{what}: {name} was lost");
        if let (Some(id), true) = (page, there.contains(name)) {
            let application = monitor.application(name)?;
            let block = application.blocks().next().expect("it has blocks");
            assert!(is_page(&application, block, 0, *id)?, "{what}: the page of {name}");
        }
    }
    // It can be used, and new LUNs hold nothing.
    let application = monitor.create("new", space(1, 0))?;
    for block in application.blocks() {
        assert_eq!(application.block(block)?.written, 0, "{what}: {block} was not erased");
    }
    Ok(())
}

#[test]
fn every_cut_leaves_what_was_acknowledged() {
    for seed in 0..test_size(12, 40, 1_000) {
        let options = match seed % 2 {
            0 => SimFlashOptions::flash(GEOMETRY),
            _ => SimFlashOptions::zones(GEOMETRY),
        };
        for cut in 1.. {
            let flash = SimFlash::new(100 * seed + cut, options);
            flash.cut_at_op(cut);
            let mut known = Acknowledged::default();
            if script(&flash, &mut known).is_ok() {
                assert!(cut > 30, "the script has more than {cut} operations");
                break;
            }
            assert!(flash.is_cut(), "seed {seed}, cut {cut}: only the cut is an error");
            let what = format!("seed {seed}, cut {cut}");
            // A second cut while it opens, and then a whole opening.
            let again = flash.reopen();
            again.cut_at_op(again.op_count() + 1 + cut % 5);
            let opened = check(&again, &known, &what);
            assert!(opened.is_ok() || again.is_cut(), "{what}: {opened:?}");
            let known = Acknowledged { unsure: Some("new".into()), ..known_after(known, &again) };
            again.power_cut();
            let last = again.reopen();
            if Monitor::open(last.clone()).is_ok_and(|m| m.application("new").is_ok()) {
                let monitor = Monitor::open(last.clone()).unwrap();
                monitor.remove("new").unwrap();
            }
            check(&last, &known, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
}

/// What the first opening found is what counts from there on, because it was synced.
fn known_after(known: Acknowledged, flash: &SimFlash) -> Acknowledged {
    let fork = flash.fork(1);
    fork.power_cut();
    let Ok(monitor) = Monitor::open(fork.reopen()) else { return known };
    let there: Vec<String> =
        monitor.report().unwrap().into_iter().map(|report| report.name).collect();
    let Acknowledged { is_formatted, mut applications, unsure } = known;
    if let Some(name) = unsure {
        match there.contains(&name) {
            true => drop(applications.entry(name).or_default()),
            false => drop(applications.remove(&name)),
        }
    }
    Acknowledged { is_formatted, applications, unsure: None }
}
