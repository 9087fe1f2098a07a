//! Queues of the simulated flash device.

use super::state::{Call, State};
use super::{SimFlash, wait};
use crate::blocks::{
    Append, FlashError, FlashFault, FlashQueue, FlashResult, OPERATIONS_MAX, Operation, Place,
    Request, pages_of_append, pages_of_read,
};

/// A queue of a [`SimFlash`]. Operations are carried out between their push and their pop, at a
/// moment that the seed chooses; what was not popped before a power cut may be lost. With
/// [`super::FlashTiming`] they are carried out when they are pushed, and the one that ends first
/// in virtual time is popped first.
pub struct SimFlashQueue<'d, T> {
    flash: &'d SimFlash,
    depth: usize,
    pending: Vec<Operation<T>>,
    done: Vec<Done<T>>,
}

struct Done<T> {
    operation: Operation<T>,
    result: FlashResult<u32>,
    end_ns: u64,
    /// Number of the last step that it did.
    op: u64,
}

impl<'d, T> SimFlashQueue<'d, T> {
    pub(super) fn new(flash: &'d SimFlash, depth: usize) -> Self {
        let depth = depth.clamp(1, OPERATIONS_MAX);
        SimFlashQueue { flash, depth, pending: Vec::new(), done: Vec::new() }
    }

    /// Carries out one of the pending operations.
    fn carry_out_one(&mut self) {
        let mut state = self.flash.state();
        let at = self.choose(&mut state);
        let mut operation = self.pending.remove(at);
        let result = if state.is_open(self.flash.generation) {
            carry_out(&mut state, &mut operation)
        } else {
            Err(FlashError::new(FlashFault::PowerLost, Place::Device))
        };
        let (result, end_ns) = match result {
            Ok((first, end_ns)) => (Ok(first), end_ns),
            Err(error) => (Err(error), state.now_ns),
        };
        self.done.push(Done { operation, result, end_ns, op: state.ops });
    }

    /// One of the pending operations that may come next: the first of its block, or, if the
    /// device takes appends in any order, one of the appends that the block begins with.
    fn choose(&self, state: &mut State) -> usize {
        let reorders = state.options.reorders_appends;
        let may_come = |at: usize| {
            let request = &self.pending[at].request;
            let is_append = |request: &Request| matches!(request, Request::Append { .. });
            self.pending[..at]
                .iter()
                .filter(|before| before.request.block() == request.block())
                .all(|before| reorders && is_append(request) && is_append(&before.request))
        };
        let eligible: Vec<usize> = (0..self.pending.len()).filter(|at| may_come(*at)).collect();
        eligible[state.queue_rng.below(eligible.len() as u64) as usize]
    }

    fn is_timed(&self) -> bool {
        self.flash.state().options.timing != super::FlashTiming::default()
    }
}

fn carry_out<T>(state: &mut State, operation: &mut Operation<T>) -> FlashResult<(u32, u64)> {
    let geometry = state.options.geometry;
    let Operation { request, pages, spare, .. } = operation;
    match *request {
        Request::Read { first } => {
            pages_of_read(&geometry, first, pages.len(), spare.len())?;
            state.read(first, pages, spare).map(|end_ns| (first.page, end_ns))
        }
        Request::Append { block, expected, stream } => {
            let append = Append { block, expected, stream, pages, spare };
            pages_of_append(&geometry, &append)?;
            state.append(&append)
        }
        Request::Finish { block } => state.change(block, Call::Finish).map(|end_ns| (0, end_ns)),
        Request::Reset { block } => state.change(block, Call::Reset).map(|end_ns| (0, end_ns)),
    }
}

impl<T> FlashQueue<T> for SimFlashQueue<'_, T> {
    fn push(&mut self, operation: Operation<T>) {
        assert!(!self.is_full(), "the queue is full; pop an operation first");
        self.pending.push(operation);
        let is_timed = self.is_timed();
        while !self.pending.is_empty() && (is_timed || self.flash.state().queue_rng.one_in(2)) {
            self.carry_out_one();
        }
    }

    fn pop(&mut self) -> Option<(Operation<T>, FlashResult<u32>)> {
        if self.is_empty() {
            return None;
        }
        while !self.pending.is_empty()
            && (self.done.is_empty() || self.flash.state().queue_rng.one_in(2))
        {
            self.carry_out_one();
        }
        let is_timed = self.is_timed();
        let mut state = self.flash.state();
        let at = if is_timed {
            (0..self.done.len()).min_by_key(|at| self.done[*at].end_ns).expect("one is done")
        } else {
            state.queue_rng.below(self.done.len() as u64) as usize
        };
        let Done { operation, mut result, end_ns, op } = self.done.remove(at);
        if state.is_open(self.flash.generation) {
            state.certain_up_to(operation.request.block(), op);
            state.returned(end_ns);
        } else {
            result = Err(FlashError::new(FlashFault::PowerLost, Place::Device));
        }
        wait(state, end_ns);
        Some((operation, result))
    }

    fn len(&self) -> usize {
        self.pending.len() + self.done.len()
    }

    fn is_full(&self) -> bool {
        self.len() == self.depth
    }
}

impl<T> Drop for SimFlashQueue<'_, T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
