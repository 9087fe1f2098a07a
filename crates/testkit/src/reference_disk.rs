//! What makes the reference engine durable: a journal on a pretended device that can lose power,
//! fail and be damaged.
//!
//! Invariants:
//! 1. `head` names the length and checksum of the part of `log` that was synced; whatever
//!    follows is a torn tail of which the intact records count.
//! 2. Opening rewrites `log` and `head` as one operation, so nothing is appended behind a tear.

use super::harness::{DeviceHarness, Fault, Harness, Image};
use super::record::{self, Replay};
use super::reference::Reference;
use super::workload::Workload;
use silica_base::{Checksum, Error, ErrorKind, ManualClock, Prng, Result, checksum};
use silica_engine::WriteBatch;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const HEAD_BYTES: usize = 16;

/// A pretended device with the two files of one durable [`Reference`]. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ReferenceDisk(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    log: Vec<u8>,
    log_synced: usize,
    head: Vec<u8>,
    ops: u64,
    cut_at: Option<u64>,
    is_off: bool,
    fault: Option<(Fault, u64)>,
    capacity: Option<u64>,
    trusting: bool,
}

impl ReferenceDisk {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes engines on this device ignore checksums: a bug to test the suite with.
    #[cfg(test)]
    pub(super) fn trust_everything(&self) {
        self.lock().trusting = true;
    }
}

fn no_power() -> Error {
    Error::new(ErrorKind::Io, "the pretended device has no power")
}

impl Disk {
    /// Counts an operation; an error where the power is off or goes off now.
    fn begin(&mut self) -> Result<()> {
        if self.is_off {
            return Err(no_power());
        }
        self.is_off = self.cut_at == Some(self.ops);
        self.ops += 1;
        Ok(())
    }

    fn end(&self) -> Result<()> {
        if self.is_off { Err(no_power()) } else { Ok(()) }
    }

    /// The armed fault, if it is one of `kinds` and its turn.
    fn strike(&mut self, kinds: &[Fault]) -> Option<Fault> {
        let (fault, nth) = self.fault?;
        if !kinds.contains(&fault) {
            return None;
        }
        self.fault = (nth > 1).then_some((fault, nth - 1));
        (nth == 1).then_some(fault)
    }

    fn check_room(&self, len: usize) -> Result<()> {
        match self.capacity {
            Some(capacity) if (len + HEAD_BYTES) as u64 > capacity => {
                Err(Error::new(ErrorKind::Full, "the pretended device is full"))
            }
            _ => Ok(()),
        }
    }

    fn check_write_faults(&mut self) -> Result<()> {
        match self.strike(&[Fault::Full, Fault::Write, Fault::ShortWrite]) {
            Some(Fault::Full) => Err(Error::new(ErrorKind::Full, "ordered to be full")),
            Some(_) => Err(Error::new(ErrorKind::Io, "ordered to fail")),
            None => Ok(()),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.begin()?;
        self.check_room(self.log.len() + bytes.len())?;
        let is_short = matches!(self.fault, Some((Fault::ShortWrite, 1)));
        let written = if is_short { bytes.len() / 2 } else { bytes.len() };
        self.check_write_faults().inspect_err(|_| {
            if is_short {
                self.log.extend_from_slice(&bytes[..written]);
            }
        })?;
        self.log.extend_from_slice(bytes);
        self.end()
    }

    fn sync(&mut self, head: Vec<u8>) -> Result<()> {
        self.begin()?;
        self.end()?;
        if self.strike(&[Fault::Sync]).is_some() {
            let unsynced = self.log.len() - self.log_synced;
            self.log.truncate(self.log_synced + unsynced / 2);
            return Err(Error::new(ErrorKind::Io, "ordered to fail"));
        }
        self.head = head;
        self.log_synced = self.log.len();
        Ok(())
    }

    fn replace(&mut self, log: Vec<u8>, head: Vec<u8>) -> Result<()> {
        self.begin()?;
        self.end()?;
        self.check_room(log.len())?;
        self.check_write_faults()?;
        self.log_synced = log.len();
        (self.log, self.head) = (log, head);
        Ok(())
    }

    fn read(&mut self) -> Result<(Vec<u8>, Vec<u8>)> {
        self.end()?;
        match self.strike(&[Fault::Read]) {
            Some(_) => Err(Error::new(ErrorKind::Io, "ordered to fail")),
            None => Ok((self.log.clone(), self.head.clone())),
        }
    }

    fn power_cut(&mut self, seed: u64) {
        let unsynced = (self.log.len() - self.log_synced) as u64;
        let mut prng = Prng::new(seed);
        let kept = prng.below(unsynced + 1) as usize;
        self.log.truncate(self.log_synced + kept);
        if kept > 0 && prng.one_in(4) {
            let last = self.log.len() - 1;
            self.log[last] ^= 1;
        }
        (self.is_off, self.cut_at) = (false, None);
    }
}

fn head_of(len: u64, sum: Checksum) -> Vec<u8> {
    let mut head = len.to_le_bytes().to_vec();
    head.extend_from_slice(&sum.finish().to_le_bytes());
    let own = checksum(&head);
    head.extend_from_slice(&own.to_le_bytes());
    head
}

/// The length of the synced log according to `head`, if head and log are whole.
fn synced_len(log: &[u8], head: &[u8]) -> Result<usize> {
    let damaged = |detail: &str| Error::corruption("head", 0, detail);
    let (fields, own) = head.split_last_chunk::<4>().ok_or_else(|| damaged("too short"))?;
    if head.len() != HEAD_BYTES || u32::from_le_bytes(*own) != checksum(fields) {
        return Err(damaged("checksum"));
    }
    let (len, sum) = fields.split_first_chunk::<8>().ok_or_else(|| damaged("too short"))?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| damaged("length"))?;
    let synced = log.get(..len).ok_or_else(|| Error::corruption("log", len as u64, "too short"))?;
    if Checksum::at(0, 0).update(synced).finish().to_le_bytes() != *sum {
        return Err(Error::corruption("log", 0, "checksum"));
    }
    Ok(len)
}

/// The journal of one open engine.
#[derive(Debug)]
pub(super) struct Journal {
    disk: ReferenceDisk,
    len: u64,
    sum: Checksum,
    is_poisoned: bool,
    record: Vec<u8>,
}

impl Journal {
    pub(super) fn new(disk: &ReferenceDisk) -> Self {
        let (disk, record) = (disk.clone(), Vec::new());
        Journal { disk, len: 0, sum: Checksum::at(0, 0), is_poisoned: false, record }
    }

    /// Replays what is on the device.
    pub(super) fn load(&self, mut replay: impl FnMut(Replay<'_>)) -> Result<()> {
        let mut disk = self.disk.lock();
        let (log, head) = disk.read()?;
        if disk.trusting {
            record::decode_unchecked(&log, replay);
            return Ok(());
        }
        if head.is_empty() && log.is_empty() {
            return Ok(());
        }
        let synced = synced_len(&log, &head)?;
        if record::decode(&log[..synced], &mut replay) != synced {
            return Err(Error::corruption("log", synced as u64, "a record is cut"));
        }
        record::decode(&log[synced..], replay);
        Ok(())
    }

    pub(super) fn append(&mut self, batch: &WriteBatch<'_>) -> Result<()> {
        self.record.clear();
        record::encode(batch, &mut self.record);
        self.append_record()
    }

    pub(super) fn append_clear(&mut self) -> Result<()> {
        self.record.clear();
        record::encode_clear(&mut self.record);
        self.append_record()
    }

    fn append_record(&mut self) -> Result<()> {
        self.check_poison()?;
        let mut disk = self.disk.lock();
        let before = disk.log.len();
        let result = disk.append(&self.record);
        // A short write leaves a tear that later records must not follow.
        self.is_poisoned = result.is_err() && disk.log.len() != before;
        result?;
        self.len += self.record.len() as u64;
        self.sum = self.sum.update(&self.record);
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        self.check_poison()?;
        let result = self.disk.lock().sync(head_of(self.len, self.sum));
        self.is_poisoned = result.is_err();
        result
    }

    /// Makes `log` the whole contents.
    pub(super) fn replace(&mut self, log: Vec<u8>) -> Result<()> {
        self.check_poison()?;
        let (len, sum) = (log.len() as u64, Checksum::at(0, 0).update(&log));
        self.disk.lock().replace(log, head_of(len, sum))?;
        (self.len, self.sum) = (len, sum);
        Ok(())
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    fn check_poison(&self) -> Result<()> {
        match self.is_poisoned {
            true => Err(Error::new(ErrorKind::Poisoned, "a sync or write failed; reopen")),
            false => Ok(()),
        }
    }
}

/// The harness of a durable [`Reference`].
#[derive(Debug, Default)]
pub struct ReferenceHarness {
    disk: ReferenceDisk,
    clock: Option<Arc<ManualClock>>,
    workload: Workload,
}

impl ReferenceHarness {
    /// A harness that runs `workload`.
    pub fn new(workload: Workload) -> Self {
        ReferenceHarness { workload, ..Self::default() }
    }

    /// A harness whose engines take their time from `clock`.
    pub fn with_clock(clock: Arc<ManualClock>) -> Self {
        ReferenceHarness { clock: Some(clock), ..Self::default() }
    }

    /// The device.
    pub fn disk(&self) -> &ReferenceDisk {
        &self.disk
    }
}

impl Harness for ReferenceHarness {
    type Engine = Reference;

    fn open(&mut self) -> Result<Reference> {
        let engine = Reference::open(&self.disk)?;
        Ok(match &self.clock {
            Some(clock) => engine.with_clock(clock.clone()),
            None => engine,
        })
    }

    fn wipe(&mut self) {
        self.restore(&Image::new());
    }

    fn workload(&self) -> Workload {
        self.workload
    }
}

impl DeviceHarness for ReferenceHarness {
    fn power_cut(&mut self, seed: u64) {
        self.disk.lock().power_cut(seed);
    }

    fn op_count(&self) -> u64 {
        self.disk.lock().ops
    }

    fn cut_at_op(&mut self, op: u64) {
        self.disk.lock().cut_at = Some(op);
    }

    fn power_is_off(&self) -> bool {
        self.disk.lock().is_off
    }

    fn fail_at(&mut self, fault: Fault, nth: u64) {
        self.disk.lock().fault = Some((fault, nth));
    }

    fn fault_is_pending(&self) -> bool {
        self.disk.lock().fault.is_some()
    }

    fn clear_faults(&mut self) {
        self.disk.lock().fault = None;
    }

    fn set_capacity(&mut self, bytes: Option<u64>) {
        self.disk.lock().capacity = bytes;
    }

    fn image(&self) -> Image {
        let disk = self.disk.lock();
        let files = [("log", &disk.log), ("head", &disk.head)];
        files.into_iter().map(|(name, bytes)| (name.to_string(), bytes.clone())).collect()
    }

    fn restore(&mut self, image: &Image) {
        let file = |name| image.get(name).cloned().unwrap_or_default();
        let mut disk = self.disk.lock();
        let log = file("log");
        *disk = Disk {
            log_synced: log.len(),
            log,
            head: file("head"),
            trusting: disk.trusting,
            ..Disk::default()
        };
    }
}
