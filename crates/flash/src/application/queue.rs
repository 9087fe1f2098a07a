//! Queues of operations on an application's flash.

use super::Application;
use silica_device::blocks::{
    FlashDevice, FlashError, FlashFault, FlashQueue, FlashResult, Operation, Request,
};
use std::collections::VecDeque;
use std::sync::RwLockReadGuard;

/// A queue of an [`Application`]: the device's, with the application's addresses.
pub struct ApplicationQueue<'d, D: FlashDevice + 'd, T> {
    application: &'d Application<D>,
    /// Each operation knows its request as the application made it, and keeps its LUN in place.
    below: D::Queue<'d, (T, Request, RwLockReadGuard<'d, u32>)>,
    /// Operations on addresses that the application does not have.
    refused: VecDeque<(Operation<T>, FlashError)>,
}

impl<'d, D: FlashDevice, T> ApplicationQueue<'d, D, T> {
    pub(crate) fn new(application: &'d Application<D>, depth: usize) -> Self {
        let below = application.shared.device.queue(depth);
        ApplicationQueue { application, below, refused: VecDeque::new() }
    }

    /// The request with the device's addresses.
    fn below(&self, request: Request) -> FlashResult<(Request, RwLockReadGuard<'d, u32>)> {
        let (block, lun) = self.application.place(request.block())?;
        let request = match request {
            Request::Read { first } => Request::Read { first: block.page(first.page) },
            Request::Append { expected, stream, .. } => Request::Append { block, expected, stream },
            Request::Finish { .. } => Request::Finish { block },
            Request::Reset { .. } => Request::Reset { block },
        };
        Ok((request, lun))
    }
}

impl<D: FlashDevice, T> FlashQueue<T> for ApplicationQueue<'_, D, T> {
    fn push(&mut self, operation: Operation<T>) {
        assert!(!self.is_full(), "the queue is full; pop an operation first");
        match self.below(operation.request) {
            Ok((request, lun)) => {
                let Operation { of, request: own, pages, spare } = operation;
                self.below.push(Operation { of: (of, own, lun), request, pages, spare });
            }
            Err(error) => self.refused.push_back((operation, error)),
        }
    }

    fn pop(&mut self) -> Option<(Operation<T>, FlashResult<u32>)> {
        if let Some((operation, error)) = self.refused.pop_front() {
            return Some((operation, Err(error)));
        }
        let (operation, mut result) = self.below.pop()?;
        let Operation { of: (of, request, lun), pages, spare, .. } = operation;
        let block = request.block();
        if let (Request::Reset { .. }, Err(error)) = (request, &result)
            && matches!(
                error.fault(),
                FlashFault::BadBlock | FlashFault::EraseFailed | FlashFault::WornOut
            )
        {
            let cause = result.expect_err("it is one");
            let replaced = self.application.shared.replace(*lun, block.block, cause);
            result = replaced.map(|()| 0);
        }
        let (application, count) = (self.application, self.application.page_count(pages.len()));
        match &result {
            Ok(_) => match request {
                Request::Read { .. } => application.counters.add_reads(block, count),
                Request::Append { .. } => application.counters.add_programs(block, count),
                Request::Finish { .. } => {}
                Request::Reset { .. } => application.counters.add_erases(block, 1),
            },
            Err(_) => result = result.map_err(|error| application.failed(block, error)),
        }
        Some((Operation { of, request, pages, spare }, result))
    }

    fn len(&self) -> usize {
        self.below.len() + self.refused.len()
    }

    fn is_full(&self) -> bool {
        self.below.is_full() || self.len() >= silica_device::blocks::OPERATIONS_MAX
    }
}
