//! The harness of engines whose stores are files: the simulated device stands below them.

use super::{DeviceHarness, Fault, Harness, Image, Workload};
use silica_base::{HashSeed, ManualClock, Result};
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{Engine, Environment, OptionValues};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Opens an engine on a simulated device: its `open`.
pub type OpenOnFiles<E> = fn(SimDevice, &OptionValues, &Environment) -> Result<E>;

/// An engine on a simulated device of files that outlives it.
pub struct FilesHarness<E> {
    /// The device as it is now.
    pub device: SimDevice,
    /// The engine's clock; it stands still until a test moves it.
    pub clock: Arc<ManualClock>,
    /// The engine's options.
    pub options: OptionValues,
    /// Sizes of keys and values, and how often each call is made.
    pub workload: Workload,
    /// Beginnings of the names of all files that [`DeviceHarness::restore`] put on a device.
    pub kinds: BTreeSet<String>,
    open: OpenOnFiles<E>,
    sim: SimOptions,
    /// Devices so far: each is simulated with a seed of its own.
    devices: u64,
}

impl<E> FilesHarness<E> {
    /// A harness over an empty device; `limits` are options, of which the last of a name counts.
    pub fn new(open: OpenOnFiles<E>, limits: &[(&str, u64)]) -> Self {
        let mut options = OptionValues::default();
        for (name, value) in limits {
            options.set(name, *value);
        }
        let sim = SimOptions::default();
        FilesHarness {
            device: SimDevice::new(1, sim),
            clock: Arc::default(),
            options,
            workload: Workload::default(),
            kinds: BTreeSet::new(),
            open,
            sim,
            devices: 1,
        }
    }

    /// Takes devices that garble sectors or keep names in order, from the next
    /// [`Harness::wipe`] on.
    #[must_use]
    pub fn on(mut self, sim: SimOptions) -> Self {
        self.sim = sim;
        self
    }

    /// Changes the workload.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }
}

impl<E: Engine> Harness for FilesHarness<E> {
    type Engine = E;

    fn open(&mut self) -> Result<E> {
        let clock = self.clock.clone();
        let environment = Environment { clock, seed: HashSeed([7; 16]) };
        (self.open)(self.device.clone(), &self.options, &environment)
    }

    fn wipe(&mut self) {
        self.devices += 1;
        self.device = SimDevice::new(self.devices, self.sim);
    }

    fn kill(&mut self) {
        self.device = self.device.reopen();
    }

    fn workload(&self) -> Workload {
        self.workload
    }
}

impl<E: Engine> DeviceHarness for FilesHarness<E> {
    fn power_cut(&mut self, _seed: u64) {
        self.device.power_cut();
        self.device = self.device.reopen();
        self.device.cut_at_op(u64::MAX);
    }

    fn op_count(&self) -> u64 {
        self.device.op_count()
    }

    fn cut_at_op(&mut self, op: u64) {
        self.device.cut_at_op(op + 1);
    }

    fn power_is_off(&self) -> bool {
        self.device.is_cut()
    }

    fn fail_at(&mut self, fault: Fault, nth: u64) {
        let kind = match fault {
            Fault::Full => FaultKind::Enospc,
            Fault::Write => FaultKind::Eio,
            Fault::ShortWrite => FaultKind::ShortWrite,
            Fault::Sync => FaultKind::FailedSync,
            Fault::Read => FaultKind::ReadEio,
        };
        self.device.fail_at(kind, nth);
    }

    fn fault_is_pending(&self) -> bool {
        self.device.faults_pending()
    }

    fn clear_faults(&mut self) {
        self.device.clear_faults();
    }

    fn set_capacity(&mut self, bytes: Option<u64>) {
        self.device.set_capacity(bytes.unwrap_or(u64::MAX));
    }

    fn disk_bytes(&self) -> u64 {
        let names = self.device.list().expect("names of the simulated device");
        let open = |name: &String| self.device.open(name, Mode::Buffered).expect("a listed file");
        names.iter().map(|name| open(name).len().expect("its length")).sum()
    }

    fn image(&self) -> Image {
        let names = self.device.list().expect("names of the simulated device");
        let bytes = |name: &String| self.device.peek(name).expect("a listed file");
        names.iter().map(|name| (name.clone(), bytes(name))).collect()
    }

    fn restore(&mut self, image: &Image) {
        self.wipe();
        for (name, bytes) in image {
            self.kinds.extend(name.split('-').next().map(str::to_owned));
            let file = self.device.create(name, Mode::Buffered).expect("create");
            file.write_at(0, bytes).and_then(|()| file.sync()).expect("write");
        }
        self.device.sync_dir().expect("sync");
    }
}
