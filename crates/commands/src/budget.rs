//! The memory of all clients, as one number that everything they make grow is counted against.
//!
//! Whatever a request needs is claimed before it is allocated, and given back when the claim is
//! dropped: values and replies while a request runs ([`Claim`]), and what a connection or the
//! server keeps for a client ([`Share`]). A claim that does not fit is refused, and the request is
//! answered with an error that names the option. Buffers of connections are counted when they have
//! grown, by at most what one read brings; over the number, what grows further is thrown away and
//! refused. What is kept takes three quarters at most, so that requests go on. Only what is over
//! the number by a quarter costs a connection: the largest one.

use silica::engine::{CopyRoom, Error, ErrorKind};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes so few that they are not claimed one by one.
pub const SMALL_BYTES: usize = 64 << 10;

/// The memory of all clients: how much there is and how much is used.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    /// Of these, what connections hold that were told to go.
    leaving: AtomicUsize,
    max: usize,
}

impl Budget {
    /// A budget of `max` bytes, of which none is used.
    pub fn new(max: usize) -> Arc<Self> {
        let (used, leaving) = Default::default();
        Arc::new(Budget { used, leaving, max })
    }

    /// Bytes that are used; may be more than there are.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Bytes that there are.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Bytes that a value may have: it fits twice, beside a sixteenth for everything else.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.max / 2 - self.max / 32
    }

    /// Bytes of values and replies that each of `threads` threads collects without a claim, `most`
    /// at most: few enough for all of them together.
    pub(crate) fn room(&self, most: usize, threads: usize) -> usize {
        (self.max / 32_usize.max(4 * threads)).clamp(SMALL_BYTES, most)
    }

    /// True if buffers of connections must not grow any more.
    pub fn is_full(&self) -> bool {
        self.used() >= self.max - self.max / 16
    }

    /// True if so much is used that connections do with small buffers.
    pub fn is_tight(&self) -> bool {
        self.used() > self.max / 2
    }

    /// True if so much more is used than there is that a connection has to go.
    pub fn is_exceeded(&self) -> bool {
        self.used() > self.max + self.max / 4 + self.leaving.load(Relaxed)
    }

    /// A connection that holds `bytes` bytes was told to go.
    pub(crate) fn begin_leaving(&self, bytes: usize) {
        self.leaving.fetch_add(bytes, Relaxed);
    }

    /// It is gone.
    pub(crate) fn end_leaving(&self, bytes: usize) {
        self.leaving.fetch_sub(bytes, Relaxed);
    }

    /// Bytes that may be used after something was kept.
    fn kept_max(&self) -> usize {
        self.max - self.max / 4
    }

    /// Counts `bytes` that are there already.
    pub fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
    }

    /// Counts `bytes` no longer.
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Takes `bytes` if no more than `most` are used with them.
    fn take(&self, bytes: usize, most: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        self.used.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    /// The error for a request that needs `bytes` more than there are.
    pub(crate) fn refusal(&self, bytes: usize) -> String {
        format!(
            "OOM this needs {bytes} bytes of the clients' memory, of which {} of {} are free; ask \
             for less at once, or raise --client-memory",
            self.max.saturating_sub(self.used()),
            self.max
        )
    }

    /// The error for a value of `bytes` bytes that could never be answered.
    pub(crate) fn refuse_value(&self, bytes: usize) -> Option<String> {
        let max = self.value_bytes_max();
        (bytes > max).then(|| {
            format!(
                "OOM a value of {bytes} bytes is over the limit of {max}, of which the clients' \
                 memory holds several; raise --client-memory"
            )
        })
    }
}

/// Engines put large values together in the clients' memory.
impl CopyRoom for Budget {
    fn claim(&self, bytes: usize) -> silica::engine::Result<()> {
        match self.take(bytes, self.max) {
            true => Ok(()),
            false => Err(out_of_memory(self.refusal(bytes))),
        }
    }

    fn give_back(&self, bytes: usize) {
        Budget::give_back(self, bytes);
    }
}

/// An error with this text, whose first word is its code as a reply.
pub(crate) fn out_of_memory(text: String) -> Error {
    let text = text.strip_prefix("OOM ").map(str::to_string).unwrap_or(text);
    Error::new(ErrorKind::Full, text)
}

/// Memory of a buffer: of a large one as far as it was used, since the system gives pages when they
/// are.
pub(crate) fn resident_bytes(buffer: &Vec<u8>) -> usize {
    buffer.capacity().min(buffer.len() + 4 * SMALL_BYTES)
}

/// Memory that one thread has claimed; it is given back at the end.
#[derive(Debug)]
pub struct Claim {
    budget: Arc<Budget>,
    bytes: Cell<usize>,
}

impl Claim {
    /// A claim of nothing.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Claim { budget: Arc::clone(budget), bytes: Cell::new(0) }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Claims `bytes` more, or says why not.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), String> {
        if !self.budget.take(bytes, self.budget.max) {
            return Err(self.budget.refusal(bytes));
        }
        self.bytes.set(self.bytes() + bytes);
        Ok(())
    }

    /// Claims `bytes` more that are kept for longer than a request, or says why not.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), String> {
        if !self.budget.take(bytes, self.budget.kept_max()) {
            return Err(self.budget.refusal(bytes));
        }
        self.bytes.set(self.bytes() + bytes);
        Ok(())
    }

    /// Counts `bytes` in all, whether or not there are so many.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.replace(bytes);
        match bytes >= before {
            true => self.budget.add(bytes - before),
            false => self.budget.give_back(before - bytes),
        }
    }

    /// Gives everything back.
    pub fn clear(&self) {
        if self.bytes() > 0 {
            self.set(0);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Memory that several threads keep for one client, or for all.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Share {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Share { budget: Arc::clone(budget), bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Keeps `bytes` more, or says why not.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), String> {
        if !self.budget.take(bytes, self.budget.kept_max()) {
            return Err(self.budget.refusal(bytes));
        }
        self.bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Keeps `bytes` more, whether there is room or not.
    pub(crate) fn force(&self, bytes: usize) {
        self.budget.add(bytes);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Keeps `bytes` less.
    pub(crate) fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.budget.give_back(bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_refused_beyond_the_number_and_given_back() {
        let budget = Budget::new(1 << 20);
        let claim = Claim::new(&budget);
        let share = Share::new(&budget);
        assert!(claim.grow(300 << 10).is_ok() && share.grow(400 << 10).is_ok());
        let refused = share.grow(100 << 10).unwrap_err();
        assert!(refused.starts_with("OOM") && refused.contains("--client-memory"), "{refused}");
        assert!(claim.keep(100 << 10).is_err(), "requests have the last quarter");
        assert!(claim.grow(300 << 10).is_ok() && claim.grow(25 << 10).is_err());
        assert_eq!(budget.used(), 1000 << 10);
        share.shrink(100 << 10);
        assert!(claim.grow(25 << 10).is_ok());
        claim.set(2 << 20);
        assert!(budget.is_full() && budget.is_exceeded());
        claim.clear();
        assert_eq!(budget.used(), share.bytes());
        drop(share);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn many_threads_have_less_room_each() {
        let budget = Budget::new(32 << 20);
        let room = |threads| budget.room(4 << 20, threads);
        assert_eq!([1, 8, 16, 64].map(room), [1 << 20, 1 << 20, 512 << 10, 128 << 10]);
        assert_eq!((room(1000), budget.room(100 << 10, 1)), (SMALL_BYTES, 100 << 10));
    }

    #[test]
    fn a_value_fits_twice() {
        let budget = Budget::new(32 << 20);
        assert_eq!(budget.value_bytes_max(), 15 << 20);
        assert!(budget.refuse_value(15 << 20).is_none());
        assert!(budget.refuse_value((15 << 20) + 1).is_some());
    }
}
