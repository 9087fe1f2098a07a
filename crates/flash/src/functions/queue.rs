//! Bursts of reads and writes on blocks that the caller holds.

use super::Functions;
use silica_device::blocks::{
    FlashDevice, FlashError, FlashQueue, FlashResult, OPERATIONS_MAX, Operation, Request,
};
use std::collections::VecDeque;

/// A queue of [`Functions`]: the device's, for blocks that the caller holds.
pub struct FunctionQueue<'d, D: FlashDevice + 'd, T> {
    functions: &'d Functions<D>,
    below: D::Queue<'d, T>,
    /// Operations on blocks that the caller does not hold.
    refused: VecDeque<(Operation<T>, FlashError)>,
}

impl<'d, D: FlashDevice, T> FunctionQueue<'d, D, T> {
    pub(super) fn new(functions: &'d Functions<D>, depth: usize) -> Self {
        let below = functions.device.queue(depth);
        FunctionQueue { functions, below, refused: VecDeque::new() }
    }

    fn check(&self, operation: &Operation<T>) -> FlashResult<()> {
        match operation.request {
            Request::Append { block, expected, .. } => {
                self.functions.check_write(block, expected, operation.pages.len())
            }
            request => self.functions.uses.held(request.block()).map(drop),
        }
    }
}

impl<D: FlashDevice, T> FlashQueue<T> for FunctionQueue<'_, D, T> {
    /// As [`FlashQueue::push`].
    ///
    /// # Panics
    /// If the queue is full, or if the operation is a reset: erases are the level's own, call
    /// [`Functions::trim`].
    fn push(&mut self, operation: Operation<T>) {
        assert!(!self.is_full(), "the queue is full; pop an operation first");
        let is_reset = matches!(operation.request, Request::Reset { .. });
        assert!(!is_reset, "the function level erases blocks itself; call trim");
        match self.check(&operation) {
            Ok(()) => self.below.push(operation),
            Err(error) => self.refused.push_back((operation, error)),
        }
    }

    fn pop(&mut self) -> Option<(Operation<T>, FlashResult<u32>)> {
        match self.refused.pop_front() {
            Some((operation, error)) => Some((operation, Err(error))),
            None => self.below.pop(),
        }
    }

    fn len(&self) -> usize {
        self.below.len() + self.refused.len()
    }

    fn is_full(&self) -> bool {
        self.below.is_full() || self.len() >= OPERATIONS_MAX
    }
}
