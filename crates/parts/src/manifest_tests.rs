use super::*;
use silica_device::sim::{FaultKind, SimDevice, SimOptions};

const MAKER: Maker = Maker(*b"test");

fn contents(device: &SimDevice) -> Vec<Vec<u8>> {
    let opened = Manifest::open(Arc::new(device.clone()), MAKER).expect("opens").expect("is there");
    std::iter::once(opened.snapshot).chain(opened.edits).collect()
}

fn sample(device: &SimDevice) -> Result<Vec<Vec<u8>>> {
    let mut manifest = Manifest::create(Arc::new(device.clone()), MAKER, b"zero")?;
    manifest.append(b"one")?;
    manifest.append(&[7; 100])?;
    manifest.rewrite(b"two")?;
    manifest.append(b"three")?;
    manifest.append(b"four")?;
    manifest.close()?;
    Ok(vec![b"two".to_vec(), b"three".to_vec(), b"four".to_vec()])
}

#[test]
fn snapshot_and_edits_come_back_and_go_on() {
    let device = SimDevice::new(1, SimOptions::default());
    assert!(Manifest::open(Arc::new(device.clone()), MAKER).expect("opens").is_none());
    let wanted = sample(&device).expect("works");
    assert_eq!(contents(&device), wanted);
    let opened = Manifest::open(Arc::new(device.clone()), MAKER).expect("opens");
    opened.expect("is there").manifest.append(b"five").expect("appends");
    assert_eq!(contents(&device).last().expect("some"), b"five");
    assert_eq!(device.list().expect("lists").len(), 2, "old manifests are gone");
}

/// The states that the sample goes through, by number of completed steps.
fn states() -> Vec<Vec<Vec<u8>>> {
    let text = |names: &[&[u8]]| names.iter().map(|n| n.to_vec()).collect::<Vec<_>>();
    vec![
        vec![],
        text(&[b"zero"]),
        text(&[b"zero", b"one"]),
        text(&[b"zero", b"one", &[7; 100]]),
        text(&[b"two"]),
        text(&[b"two", b"three"]),
        text(&[b"two", b"three", b"four"]),
    ]
}

#[test]
fn a_power_cut_at_every_operation_leaves_a_complete_state_that_was_reached() {
    let dry = SimDevice::new(1, SimOptions::default());
    sample(&dry).expect("works");
    let operations = dry.op_count();
    let states = states();
    for seed in 0..20 {
        let mut reached = 0;
        for n in 1..=operations {
            let device = SimDevice::new(seed * 1000 + n, SimOptions::default());
            device.cut_at_op(n);
            let _ = sample(&device);
            if !device.is_cut() {
                device.power_cut();
            }
            let device = device.reopen();
            let opened = Manifest::open(Arc::new(device), MAKER).expect("always opens");
            let found = opened
                .map_or_else(Vec::new, |o| std::iter::once(o.snapshot).chain(o.edits).collect());
            let state = states.iter().position(|s| *s == found).expect("a state that was reached");
            assert!(state + 1 >= reached, "cut {n}: went back from {reached} to {state}");
            reached = reached.max(state);
        }
        assert!(reached >= states.len() - 2, "the last steps were durable at the end");
    }
}

#[test]
fn every_flip_and_every_cut_is_found_or_harmless() {
    let device = SimDevice::new(1, SimOptions::default());
    let wanted = sample(&device).expect("works");
    for name in device.list().expect("lists") {
        let bytes = device.peek(&name).expect("is there");
        for at in 0..bytes.len() as u64 {
            let other = device.fork(1);
            other.poke(&name, at, &[bytes[at as usize] ^ 1]);
            check_damaged(&other, &wanted, &format!("{name} byte {at}"));
            let other = device.fork(1);
            other.cut_file(&name, at);
            check_damaged(&other, &wanted, &format!("{name} cut at {at}"));
        }
    }
}

fn check_damaged(device: &SimDevice, wanted: &[Vec<u8>], what: &str) {
    match Manifest::open(Arc::new(device.clone()), MAKER) {
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound),
            "{what}: {error}"
        ),
        Ok(opened) => {
            let opened = opened.expect("a damaged store is not an empty one");
            let found: Vec<_> = std::iter::once(opened.snapshot).chain(opened.edits).collect();
            assert_eq!(found, wanted, "{what}");
        }
    }
}

#[test]
fn a_failed_sync_is_final_and_loses_nothing_acknowledged() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut manifest = Manifest::create(Arc::new(device.clone()), MAKER, b"zero").expect("creates");
    manifest.append(b"one").expect("appends");
    device.fail_at(FaultKind::FailedSync, 1);
    assert!(manifest.append(b"two").is_err());
    device.clear_faults();
    assert_eq!(manifest.append(b"three").expect_err("poisoned").kind(), ErrorKind::Poisoned);
    drop(manifest);
    device.power_cut();
    let found = contents(&device.reopen());
    assert_eq!(found[..2], [b"zero".to_vec(), b"one".to_vec()]);
}

#[test]
fn a_checkpoint_opens() {
    let device = SimDevice::new(1, SimOptions::default());
    for (name, bytes) in files(MAKER, b"snap") {
        let file = device.create(&name, Mode::Buffered).expect("creates");
        file.write_at(0, &bytes).expect("writes");
    }
    assert_eq!(contents(&device), [b"snap".to_vec()]);
}

#[test]
fn remains_of_a_store_without_current_are_refused() {
    let device = SimDevice::new(1, SimOptions::default());
    device.create("LOG-00000001", Mode::Buffered).expect("creates");
    let error = Manifest::open(Arc::new(device), MAKER).err().expect("refused");
    assert!(error.to_string().contains("CURRENT is missing"));
}

#[test]
fn a_manifest_says_whose_it_is() {
    let device = SimDevice::new(1, SimOptions::default());
    sample(&device).expect("works");
    assert_eq!(salvage(&device).expect("reads").maker, Some(MAKER));
    let error = Manifest::open(Arc::new(device.clone()), Maker(*b"wip\0")).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("of engine test, not of wip"), "{error}");
    contents(&device);
}

#[test]
fn a_manifest_that_does_not_say_whose_it_is_opens() {
    let device = SimDevice::new(1, SimOptions::default());
    drop(Manifest::create(Arc::new(device.clone()), Maker::UNKNOWN, b"zero").expect("works"));
    assert_eq!(contents(&device), [b"zero"]);
    assert_eq!(salvage(&device).expect("reads").maker, None);
}
