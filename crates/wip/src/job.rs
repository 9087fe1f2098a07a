//! A piece of background work that goes on in steps.

use crate::bucket::{Bucket, Frozen};
use crate::compaction::Compaction;
use crate::flush::Flush;
use crate::job_context::JobContext;
use crate::split::{join, split};
use crate::step::Step;
use silica_base::Result;
use silica_device::Device;
use std::sync::Arc;

pub(crate) enum Job<D: Device> {
    Flush(Flush<D>),
    Compaction(Box<Compaction<D>>),
    Split(Arc<Bucket<D>>),
    /// The bucket and the next one.
    Join(Arc<Bucket<D>>, Arc<Bucket<D>>),
}

/// What a job has to itself.
pub(crate) struct Claim<D: Device> {
    pub(crate) frozen: Vec<Arc<Frozen>>,
    pub(crate) buckets: Vec<Arc<Bucket<D>>>,
}

impl<D: Device> Job<D> {
    pub(crate) fn claim(&self) -> Claim<D> {
        let (mut frozen, mut buckets) = (Vec::new(), Vec::new());
        match self {
            Job::Flush(flush) => frozen.clone_from(&flush.frozen),
            Job::Compaction(compaction) => buckets.push(Arc::clone(&compaction.bucket)),
            Job::Split(bucket) => buckets.push(Arc::clone(bucket)),
            Job::Join(one, other) => buckets.extend([Arc::clone(one), Arc::clone(other)]),
        }
        Claim { frozen, buckets }
    }

    pub(crate) fn is_flush(&self) -> bool {
        matches!(self, Job::Flush(_))
    }

    pub(crate) fn is_ready_flush(&self) -> bool {
        self.is_flush() && self.ends_next()
    }

    pub(crate) fn into_flush(self) -> Option<Flush<D>> {
        if let Job::Flush(flush) = self { Some(flush) } else { None }
    }

    /// Bytes of a flush's memtables.
    pub(crate) fn flush_bytes(&self) -> Option<u64> {
        if let Job::Flush(flush) = self { Some(flush.bytes()) } else { None }
    }

    /// True where what is left takes a sync.
    pub(crate) fn ends_next(&self) -> bool {
        match self {
            Job::Flush(flush) => flush.ends_next(),
            Job::Compaction(compaction) => compaction.ends_next(),
            Job::Split(_) | Job::Join(..) => true,
        }
    }

    /// True where that sync goes on by itself, and is not over.
    pub(crate) fn would_wait_to_end(&self) -> bool {
        match self {
            Job::Flush(flush) => flush.would_wait_to_end(),
            Job::Compaction(compaction) => compaction.would_wait_to_end(),
            Job::Split(_) | Job::Join(..) => false,
        }
    }

    /// Goes on for about `budget` bytes; past where it waits for the device only if it `may_wait`.
    pub(crate) fn step(
        &mut self,
        context: &JobContext<'_, D>,
        budget: u64,
        may_wait: bool,
    ) -> Result<Step> {
        match self {
            Job::Flush(flush) => flush.step(context, budget, may_wait),
            Job::Compaction(compaction) => compaction.step(context, budget, may_wait),
            Job::Split(_) | Job::Join(..) => Ok(Step::Ready),
        }
    }

    pub(crate) fn finish(self, context: &JobContext<'_, D>) -> Result<u64> {
        match self {
            Job::Flush(flush) => Flush::finish(vec![flush], context),
            Job::Compaction(compaction) => compaction.finish(context),
            Job::Split(bucket) => split(context.contents, &bucket).map(|()| 0),
            Job::Join(one, other) => join(context.contents, &one, &other).map(|()| 0),
        }
    }
}
