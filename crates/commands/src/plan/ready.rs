//! Requests that are answered while they are planned.

use crate::burst::{Input, Request};
use crate::table::Run;

impl Input {
    /// Makes the ready bytes from `start` on a request that was answered, if there are any.
    pub(crate) fn push_ready(&mut self, start: usize, silent: bool) {
        if silent {
            self.ready.truncate(start);
        }
        let end = self.ready.len();
        // Neighbours become one, so that a pipeline of PINGs is one copy.
        if let Some(last) = self.requests.last_mut()
            && last.run.is_ready()
            && !self.apart
        {
            last.len = (end - last.first as usize) as u32;
            return;
        }
        self.requests.push(Request::new(Run::Ready, start, end - start));
    }
}
