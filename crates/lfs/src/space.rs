//! What each segment is used for, and how much of it is live.

use crate::batch::{Owner, summary_pages};
use crate::extents::{Run, UNWRITTEN};
use crate::ground::Ground;

/// What a segment is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Not held.
    Free,
    /// Batches of the log.
    Log,
    /// Batches of a checkpoint.
    Checkpoint,
    /// Pages of files; it takes more.
    Open,
    /// Pages of files; it takes no more.
    Closed,
}

/// What is known of a segment.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) use_: Use,
    /// Pages that files have there.
    pub(crate) live: u32,
    /// Whose its pages are, as long as no summary was written.
    pub(crate) owners: Option<Vec<Owner>>,
    /// The commit that closed it: its age for cost-benefit.
    pub(crate) closed_at: u64,
    /// It has pages that cannot be read, so it is not collected.
    pub(crate) is_stuck: bool,
}

/// All segments, and counts of pages.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) segments: Vec<Segment>,
    pub(crate) segment_pages: u64,
    /// Pages of a segment that files can have.
    pub(crate) data_pages: u32,
    /// Pages that files have.
    pub(crate) live: u64,
    /// Pages that were promised and have no place.
    pub(crate) promised: u64,
    /// Segments written side by side: for what users write, and for copies.
    pub(crate) widths: [u32; 2],
    page_bytes: u64,
}

/// Segments for each one that is written side by side, so that open ones stay a small part.
const SEGMENTS_PER_WIDTH: u32 = 16;
/// Open segments of other use: log, checkpoint, one that is being changed.
const OTHER_OPEN: u32 = 3;
/// Pages of the log for each page of a checkpoint, before the next one is due.
const LOG_TIMES: u64 = 8;

/// Usable segments for each one that is kept back for collection, if the ground keeps fewer.
const KEPT_BACK_PART: u32 = 16;

impl Space {
    pub(crate) fn new(ground: &dyn Ground) -> Self {
        let segment =
            Segment { use_: Use::Free, live: 0, owners: None, closed_at: 0, is_stuck: false };
        let pages = ground.segment_pages();
        let most = (ground.usable() / SEGMENTS_PER_WIDTH).max(1);
        let open = (ground.open_max().saturating_sub(OTHER_OPEN) / 2).max(1);
        let width = ground.width().min(most).min(open);
        Space {
            segments: vec![segment; ground.segments() as usize],
            segment_pages: u64::from(pages),
            data_pages: pages.saturating_sub(summary_pages(pages, ground.page_bytes())),
            live: 0,
            promised: 0,
            widths: [width, width.div_ceil(2)],
            page_bytes: ground.page_bytes() as u64,
        }
    }

    pub(crate) fn segment_of(&self, at: u64) -> u32 {
        (at / self.segment_pages) as u32
    }

    /// The segment and its page.
    pub(crate) fn split(&self, at: u64) -> (u32, u32) {
        (self.segment_of(at), (at % self.segment_pages) as u32)
    }

    pub(crate) fn place(&self, segment: u32, page: u32) -> u64 {
        u64::from(segment) * self.segment_pages + u64::from(page)
    }

    pub(crate) fn of(&mut self, segment: u32) -> &mut Segment {
        &mut self.segments[segment as usize]
    }

    /// Counts a run that a file got.
    pub(crate) fn add(&mut self, run: &Run) {
        if run.at == UNWRITTEN {
            self.promised += run.count;
            return;
        }
        self.live += run.count;
        for at in run.at..run.at + run.count {
            let segment = self.segment_of(at);
            self.of(segment).live += 1;
        }
    }

    /// Counts a run that a file lost.
    pub(crate) fn drop_run(&mut self, run: &Run) {
        if run.at == UNWRITTEN {
            self.promised -= run.count;
            return;
        }
        self.live -= run.count;
        for at in run.at..run.at + run.count {
            let segment = self.segment_of(at);
            self.of(segment).live -= 1;
        }
    }

    /// Pages that a checkpoint of so many bytes takes, about.
    pub(crate) fn checkpoint_pages(&self, weight: u64) -> u64 {
        (weight + weight / 8).div_ceil(self.page_bytes) + 1
    }

    fn checkpoint_segments(&self, weight: u64) -> u64 {
        self.checkpoint_pages(weight).div_ceil(self.segment_pages) + 1
    }

    /// Pages of the log after which a checkpoint is due.
    pub(crate) fn log_pages_max(&self, weight: u64) -> u64 {
        (LOG_TIMES * self.checkpoint_pages(weight)).max(self.segment_pages / 2)
    }

    /// Segments that have to be free so that a collection and a checkpoint can be done.
    pub(crate) fn low(&self, weight: u64) -> u64 {
        let heads: u32 = self.widths.iter().sum();
        u64::from(heads) + 2 + self.checkpoint_segments(weight)
    }

    /// Pages that files can have in all, on a device with so many usable segments of which some
    /// are kept back.
    pub(crate) fn capacity(&self, weight: u64, usable: u32, kept_back: u32) -> u64 {
        let heads: u32 = self.widths.iter().sum();
        let log = self.log_pages_max(weight).div_ceil(self.segment_pages) + 1;
        // With none to spare a collection would copy nearly a segment for each page that it gains.
        let kept_back = kept_back.max(usable / KEPT_BACK_PART);
        let other = u64::from(kept_back + heads)
            + self.low(weight)
            + log
            + self.checkpoint_segments(weight);
        u64::from(usable).saturating_sub(other) * u64::from(self.data_pages)
    }
}
