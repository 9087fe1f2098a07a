//! Segments that are ranges of a conventional drive: a logical block device that maps pages below.

use super::{Burst, Fetch, Ground};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::FlashDevice;
use silica_flash::policy::Policy;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

/// A logical block device whose ranges are segments: the same file system, with a second mapping
/// below it. It keeps no record of which segments are in use, so a file system on it cannot be
/// opened again: it is there to be compared.
pub struct DriveGround<D> {
    state: Mutex<State<D>>,
    page_bytes: usize,
    segment_pages: u32,
    segments: u32,
    over_provisioned: u32,
    trims: bool,
}

struct State<D> {
    policy: Policy<D>,
    free: BTreeSet<u32>,
    written: Vec<u32>,
    /// The segment after the one that was handed out last.
    turn: u32,
}

impl<D: FlashDevice> DriveGround<D> {
    /// Cuts `policy` into segments of `segment_pages`, of which `over_provisioned` are kept back.
    /// With `trims` the drive is told which segments are given back.
    pub fn new(policy: Policy<D>, segment_pages: u32, over_provisioned: u32, trims: bool) -> Self {
        let segments = (policy.pages() / u64::from(segment_pages)) as u32;
        DriveGround {
            page_bytes: policy.page_bytes(),
            segment_pages,
            segments,
            over_provisioned,
            trims,
            state: Mutex::new(State {
                policy,
                free: (0..segments).collect(),
                written: vec![0; segments as usize],
                turn: 0,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().expect("no panic while locked")
    }

    /// What the drive below has done.
    pub fn with_policy<T>(&self, look: impl FnOnce(&Policy<D>) -> T) -> T {
        look(&self.state().policy)
    }

    fn logical(&self, segment: u32, page: u32) -> u64 {
        u64::from(segment) * u64::from(self.segment_pages) + u64::from(page)
    }
}

impl<D: FlashDevice> Ground for DriveGround<D> {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn segment_pages(&self) -> u32 {
        self.segment_pages
    }

    fn segments(&self) -> u32 {
        self.segments
    }

    fn usable(&self) -> u32 {
        self.segments
    }

    fn over_provisioned(&self) -> u32 {
        self.over_provisioned
    }

    fn width(&self) -> u32 {
        1
    }

    fn stripe_pages(&self) -> u32 {
        u32::MAX
    }

    fn open_max(&self) -> u32 {
        u32::MAX
    }

    fn capacity(&self, _segment: u32) -> u32 {
        self.segment_pages
    }

    fn written(&self, segment: u32) -> u32 {
        self.state().written[segment as usize]
    }

    fn found(&self) -> &[u32] {
        &[]
    }

    fn allocate(&self, is_copy: bool) -> Result<Option<u32>> {
        let mut state = self.state();
        if !is_copy && state.free.len() as u32 <= self.over_provisioned {
            return Ok(None);
        }
        let turn = state.turn;
        let next = state.free.range(turn..).next().or_else(|| state.free.first()).copied();
        let Some(segment) = next else { return Ok(None) };
        state.free.remove(&segment);
        state.turn = segment + 1;
        Ok(Some(segment))
    }

    fn free(&self) -> u32 {
        self.state().free.len() as u32
    }

    fn trim(&self, segment: u32) -> Result<()> {
        let mut state = self.state();
        state.free.insert(segment);
        state.written[segment as usize] = 0;
        if self.trims {
            let first = self.logical(segment, 0);
            state.policy.trim(first, u64::from(self.segment_pages))?;
        }
        Ok(())
    }

    fn finish(&self, segment: u32) -> Result<()> {
        self.state().written[segment as usize] = self.segment_pages;
        Ok(())
    }

    fn write(&self, bursts: Vec<Burst>) -> Vec<Result<()>> {
        let mut state = self.state();
        let mut write = |Burst { segment, first, pages }: Burst| {
            if state.written[segment as usize] != first {
                let message = format!("page {first} is not the next one of segment {segment}");
                return Err(Error::new(ErrorKind::Config, message));
            }
            state.policy.write(self.logical(segment, first), &pages)?;
            state.written[segment as usize] = first + (pages.len() / self.page_bytes) as u32;
            Ok(())
        };
        bursts.into_iter().map(&mut write).collect()
    }

    fn read(&self, fetches: Vec<Fetch>, done: &mut dyn FnMut(Fetch, Result<()>)) {
        let state = self.state();
        for mut fetch in fetches {
            let first = self.logical(fetch.segment, fetch.first);
            let result = state.policy.read(first, &mut fetch.pages);
            done(fetch, result);
        }
    }

    fn sync(&self) -> Result<()> {
        self.state().policy.flush()
    }

    fn tend(&self, max: u32) -> Result<()> {
        self.state().policy.functions().erase_pending(max).map(drop)
    }
}
