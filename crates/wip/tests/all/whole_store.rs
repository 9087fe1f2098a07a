//! Counting, clearing and checkpoints, while writes, flushes, compactions and splits go on.

use crate::small;
use silica_base::{HashSeed, Prng, Result};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{Admin, Budget, Checkpoint, Durability, Engine, EngineExt, Environment};
use silica_wip::Wip;
use std::collections::BTreeMap;
use std::thread;

fn open(device: &SimDevice) -> Wip<SimDevice> {
    let environment = Environment::new(HashSeed([3; 16]));
    Wip::open(device.clone(), &small::options(&[]), &environment).expect("it opens")
}

fn admin(wip: &Wip<SimDevice>) -> &dyn Admin {
    wip.as_admin().expect("it has the view")
}

fn settle(wip: &Wip<SimDevice>) {
    while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
}

fn device() -> SimDevice {
    SimDevice::new(1, SimOptions::default())
}

/// Puts the checkpoint of one device's store on another.
struct Copied<'d> {
    from: &'d SimDevice,
    to: SimDevice,
    lens: BTreeMap<String, u64>,
    /// Writes more while the checkpoint is made.
    meanwhile: &'d mut dyn FnMut(),
}

impl Copied<'_> {
    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let len = self.lens.entry(name.to_owned()).or_default();
        let file = match *len {
            0 => self.to.create(name, Mode::Buffered)?,
            _ => self.to.open(name, Mode::Buffered)?,
        };
        file.write_at(*len, bytes)?;
        *len += bytes.len() as u64;
        file.sync()
    }
}

impl Checkpoint for Copied<'_> {
    fn immutable(&mut self, name: &str) -> Result<()> {
        (self.meanwhile)();
        let bytes = self.from.peek(name).expect("the file is there");
        self.write(name, &bytes)
    }

    fn piece(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        (self.meanwhile)();
        self.write(name, bytes)
    }
}

#[test]
fn a_checkpoint_is_one_moment_while_writes_flushes_and_splits_go_on() {
    let device = device();
    let wip = open(&device);
    let mut prng = Prng::new(5);
    let mut put = |value: u64| {
        let key = prng.below(1 << 20).to_be_bytes();
        wip.put(&key, &value.to_le_bytes().repeat(5), Durability::Buffered).expect("a put");
        (key, value)
    };
    let before: BTreeMap<_, _> = (0..8000).map(&mut put).collect();
    let names = || -> Vec<String> { device.list().expect("names") };
    let tables = names();
    // Everything that was there is rewritten before the first table is copied.
    let mut meanwhile = || {
        for n in 0..3000 {
            put(1 << 32 | n);
        }
        settle(&wip);
    };
    let to = SimDevice::new(2, SimOptions::default());
    let mut copied =
        Copied { from: &device, to: to.clone(), lens: BTreeMap::new(), meanwhile: &mut meanwhile };
    admin(&wip).checkpoint(&mut copied).expect("a checkpoint");
    to.sync_dir().expect("synced");
    assert!(tables.iter().any(|name| !names().contains(name)), "old files go afterwards");
    let copy = open(&to);
    copy.verify().expect("every invariant");
    for (key, value) in &before {
        let found = copy.get(key).expect("a get").expect("it was there before");
        assert_eq!(found, value.to_le_bytes().repeat(5));
    }
    assert_eq!(admin(&copy).count(true).expect("a count").low, before.len() as u64);
    wip.verify().expect("every invariant of the store itself");
    drop(wip);
    open(&device).verify().expect("and when it is opened again");
}

#[test]
fn an_exact_count_is_exact_and_a_guess_is_near() {
    let (device, mut prng) = (device(), Prng::new(6));
    let wip = open(&device);
    let mut model = std::collections::BTreeSet::new();
    for n in 0..150_000u64 {
        // One in ten removes a key.
        let key = prng.below(1 << 40).to_be_bytes();
        wip.put(&key, &n.to_le_bytes(), Durability::Buffered).expect("a put");
        model.insert(key);
        if n % 1000 == 0 {
            settle(&wip);
        }
        if prng.one_in(10) {
            let gone = *model.range(key..).next().expect("it is there");
            wip.delete(&gone, Durability::Buffered).expect("a delete");
            model.remove(&gone);
        }
    }
    let (exact, wanted) = (admin(&wip).count(true).expect("a count"), model.len() as u64);
    assert_eq!((exact.low, exact.estimate, exact.high), (wanted, wanted, wanted));
    let guess = admin(&wip).count(false).expect("a guess");
    assert!(guess.low <= wanted && wanted <= guess.high, "{guess:?} of {wanted}");
    assert!(guess.estimate.abs_diff(wanted) < wanted / 5, "{guess:?} of {wanted}");
}

#[test]
fn a_cleared_store_stays_empty_and_goes_on() {
    let device = device();
    let wip = open(&device);
    let fill = |wip: &Wip<SimDevice>, from: u64| {
        for n in from..from + 5000 {
            wip.put(&n.to_be_bytes(), &[1; 40], Durability::Buffered).expect("a put");
        }
    };
    fill(&wip, 0);
    admin(&wip).clear().expect("it clears");
    wip.put(b"after", b"1", Durability::Synced).expect("a put");
    drop(wip);
    device.power_cut();
    let device = device.reopen();
    let wip = open(&device);
    assert_eq!(admin(&wip).count(true).expect("a count").low, 1);
    assert_eq!(wip.get(b"after").expect("a get").as_deref(), Some(&b"1"[..]));
    let tables = |name: &&String| name.starts_with("TABLE");
    assert_eq!(device.list().expect("names").iter().filter(tables).count(), 0);
    thread::scope(|scope| {
        scope.spawn(|| fill(&wip, 10_000));
        scope.spawn(|| admin(&wip).clear().expect("it clears during writes"));
    });
    wip.verify().expect("every invariant");
}
