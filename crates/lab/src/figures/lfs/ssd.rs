//! Segments on a conventional drive: logical pages striped over its lanes, and a translation layer
//! that collects by itself.

use crate::simulate::{Drive, DriveCounts, DriveDesign};
use silica_base::{Result, is_zero};
use silica_lfs::{Burst, Fetch, Ground};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

/// What the drive is, from outside.
#[derive(Debug, Clone, Copy)]
pub struct SsdShape {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages of a segment, which the drive does not know.
    pub segment_pages: u32,
    /// Segments of the drive.
    pub segments: u32,
    /// How long a lane reads a page, transfer included.
    pub read_ns: u64,
    /// The file system tells the drive which segments it gives back.
    pub trims: bool,
}

/// A file system's segments on a conventional drive.
pub(super) struct SsdGround {
    shape: SsdShape,
    state: Mutex<State>,
}

struct State {
    drive: Drive,
    /// Contents of pages other than zeroes.
    contents: BTreeMap<u32, Box<[u8]>>,
    free: BTreeSet<u32>,
    written: Vec<u32>,
    turn: u32,
    now_ns: u64,
}

impl SsdGround {
    pub(super) fn new(design: DriveDesign, shape: SsdShape) -> Result<Self> {
        let state = State {
            drive: Drive::new(design)?,
            contents: BTreeMap::new(),
            free: (0..shape.segments).collect(),
            written: vec![0; shape.segments as usize],
            turn: 0,
            now_ns: 0,
        };
        Ok(SsdGround { shape, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    pub(super) fn counts(&self) -> DriveCounts {
        self.state().drive.counts()
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    fn logical(&self, segment: u32, page: u32) -> u32 {
        segment * self.shape.segment_pages + page
    }
}

impl Ground for SsdGround {
    fn page_bytes(&self) -> usize {
        self.shape.page_bytes
    }

    fn segment_pages(&self) -> u32 {
        self.shape.segment_pages
    }

    fn segments(&self) -> u32 {
        self.shape.segments
    }

    fn usable(&self) -> u32 {
        self.shape.segments
    }

    fn over_provisioned(&self) -> u32 {
        0
    }

    // The drive spreads pages that follow each other, so one segment at a time keeps it busy.
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
        self.shape.segment_pages
    }

    fn written(&self, segment: u32) -> u32 {
        self.state().written[segment as usize]
    }

    fn found(&self) -> &[u32] {
        &[]
    }

    fn allocate(&self, _is_copy: bool, _beside: &[u32]) -> Result<Option<u32>> {
        let mut state = self.state();
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
        if self.shape.trims {
            for page in 0..self.shape.segment_pages {
                state.drive.trim(self.logical(segment, page));
            }
        }
        Ok(())
    }

    fn finish(&self, _segment: u32) -> Result<()> {
        Ok(())
    }

    fn write(&self, bursts: Vec<Burst>) -> Vec<Result<()>> {
        let mut state = self.state();
        let begin_ns = state.now_ns;
        for Burst { segment, first, pages } in &bursts {
            assert_eq!(state.written[*segment as usize], *first, "pages are written in order");
            for (page, bytes) in (*first..).zip(pages.chunks_exact(self.shape.page_bytes)) {
                let logical = self.logical(*segment, page);
                match is_zero(bytes) {
                    true => drop(state.contents.remove(&logical)),
                    false => drop(state.contents.insert(logical, bytes.into())),
                }
                let end_ns = state.drive.write(logical, begin_ns);
                state.now_ns = state.now_ns.max(end_ns);
                state.written[*segment as usize] = page + 1;
            }
        }
        bursts.iter().map(|_| Ok(())).collect()
    }

    fn read(&self, fetches: Vec<Fetch>, done: &mut dyn FnMut(Fetch, Result<()>)) {
        let mut state = self.state();
        let begin_ns = state.now_ns;
        for mut fetch in fetches {
            let pages = fetch.pages.chunks_exact_mut(self.shape.page_bytes);
            for (page, bytes) in (fetch.first..).zip(pages) {
                let logical = self.logical(fetch.segment, page);
                match state.contents.get(&logical) {
                    Some(kept) => bytes.copy_from_slice(kept),
                    None => bytes.fill(0),
                }
                let end_ns = state.drive.occupy(logical, begin_ns, self.shape.read_ns);
                state.now_ns = state.now_ns.max(end_ns);
            }
            done(fetch, Ok(()));
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn tend(&self, _max: u32) -> Result<()> {
        Ok(())
    }
}
