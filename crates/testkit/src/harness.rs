//! What an engine's own tests implement so that the suite can drive it.

use super::Workload;
use silica_base::Result;
use silica_engine::Engine;
use std::collections::BTreeMap;

/// Opens an engine on a device that outlives it.
pub trait Harness {
    /// The engine under test.
    type Engine: Engine;

    /// Opens the store on the device as it is, creating the store where there is none.
    fn open(&mut self) -> Result<Self::Engine>;

    /// Replaces the device by an empty one without faults and limits.
    fn wipe(&mut self);

    /// The process dies: everything written so far stays, and what an engine that is still open
    /// does afterwards (its closing, say) has no effect. Does nothing where an engine closes
    /// without doing anything.
    fn kill(&mut self) {}

    /// Sizes that make corner cases of this engine common.
    fn workload(&self) -> Workload {
        Workload::default()
    }
}

/// All files of a device, by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// How a device call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A call that needs space finds none and changes nothing.
    Full,
    /// A write or append fails and changes nothing.
    Write,
    /// A write or append fails after a part of its bytes.
    ShortWrite,
    /// A sync of a file, log or directory fails; what it should have saved may be lost.
    Sync,
    /// A read fails.
    Read,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 5] =
        [Fault::Full, Fault::Write, Fault::ShortWrite, Fault::Sync, Fault::Read];
}

/// In what order writes that were not synced survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashOrder {
    /// All up to some point and none after it.
    Whole,
    /// Of each key all up to some point of its own; batches stay whole.
    PerKey,
}

/// A harness whose device can lose power, fail and be damaged.
///
/// Device operations are the calls that change the device: writes, appends, syncs, creations,
/// renames, removals and so on. They are counted from 0 over the life of the device; reads are
/// not counted.
pub trait DeviceHarness: Harness {
    /// Cuts the power, chooses by `seed` what of the unsynced bytes and names survives, and
    /// turns the power on again. Disarms [`DeviceHarness::cut_at_op`]. What an engine that is
    /// still open does afterwards has no effect.
    fn power_cut(&mut self, seed: u64);

    /// Device operations so far.
    fn op_count(&self) -> u64;

    /// Arms a power failure during operation number `op`: it is done in part or not at all, and
    /// from then on every call fails until [`DeviceHarness::power_cut`].
    fn cut_at_op(&mut self, op: u64);

    /// True from the moment an armed power failure happened until
    /// [`DeviceHarness::power_cut`].
    fn power_is_off(&self) -> bool;

    /// Makes the `nth` call from now (1 is the next one) to which `fault` applies fail, once.
    fn fail_at(&mut self, fault: Fault, nth: u64);

    /// True while an armed fault has not happened yet.
    fn fault_is_pending(&self) -> bool;

    /// Disarms what [`DeviceHarness::fail_at`] armed.
    fn clear_faults(&mut self);

    /// Limits the bytes of all files; `None` lifts the limit.
    fn set_capacity(&mut self, bytes: Option<u64>);

    /// The files as a program would read them now.
    fn image(&self) -> Image;

    /// Bytes of all files.
    fn disk_bytes(&self) -> u64 {
        self.image().values().map(|file| file.len() as u64).sum()
    }

    /// Replaces the device by an empty one without faults and limits and puts these files on
    /// it, durably.
    fn restore(&mut self, image: &Image);

    /// In what order unsynced writes survive.
    fn crash_order(&self) -> CrashOrder {
        CrashOrder::Whole
    }

    /// True for files of which damage may silently take the most recent writes back, because
    /// nothing tells their torn tail from their damaged one. Then the store must still be in a
    /// state in which it once was.
    fn tail_may_vanish(&self, _file: &str) -> bool {
        false
    }
}
