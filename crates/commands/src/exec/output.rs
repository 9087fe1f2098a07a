//! The replies of one connection, as a burst writes them.

use super::OUT_BYTES_MAX;
use crate::burst::{Acknowledgement, ERROR, Input, Output, Request};
use crate::errors;
use silica_proto::Reply;

impl Output {
    /// First request that must not run now.
    pub(super) fn limit(&self) -> usize {
        if self.is_over() { self.next } else { self.end }
    }

    /// True if no more requests run in this burst.
    pub(super) fn is_over(&self) -> bool {
        self.out.len() >= OUT_BYTES_MAX || self.is_postponed || self.waits.is_some()
    }

    pub(super) fn copy_ready(&mut self, input: &Input, request: &Request) {
        if !request.silent {
            self.out.extend_from_slice(input.ready(request));
        }
        self.end_reply();
    }

    /// Writes the reply of the next request.
    pub(super) fn reply(&mut self, request: &Request, write: impl FnOnce(&mut Reply<'_>)) {
        let start = self.out.len();
        write(&mut Reply::new(&mut self.out, request.version));
        if self.out.get(start) == Some(&ERROR) {
            self.failed.push((self.next, errors::word(&self.out[start..])));
        }
        if request.silent {
            self.out.truncate(start);
        }
        self.end_reply();
    }

    /// The next request has run.
    pub(super) fn end_reply(&mut self) {
        self.next += 1;
        if let Some(ends) = &mut self.ends {
            ends.push(self.out.len());
        }
    }

    /// Writes the reply of the next request, which changes something; where it is `synced` later,
    /// what the reply says is not sure before.
    pub(super) fn acknowledge(
        &mut self,
        request: &Request,
        synced: bool,
        write: impl FnOnce(&mut Reply<'_>),
    ) {
        let (start, request_index) = (self.out.len(), self.next);
        self.reply(request, write);
        if synced && !request.silent {
            let end = self.out.len();
            self.acknowledgements.push(Acknowledgement { start, end, request: request_index });
        }
    }

    /// Replaces every acknowledgement by an error.
    pub(super) fn withdraw(&mut self, input: &Input, text: &str) {
        let mut honest = Vec::with_capacity(self.out.len());
        let mut from = 0;
        let first = self.next - self.ends.as_ref().map_or(0, Vec::len);
        let mut shift = 0;
        for Acknowledgement { start, end, request } in self.acknowledgements.drain(..) {
            honest.extend_from_slice(&self.out[from..start]);
            let refused = &input.requests[request];
            let mut reply = Reply::new(&mut honest, refused.version);
            input.args(refused).refuse(text, &mut reply);
            from = end;
            let now = honest.len().wrapping_sub(end);
            for later in self.ends.iter_mut().flat_map(|ends| &mut ends[request - first..]) {
                *later = later.wrapping_add(now).wrapping_sub(shift);
            }
            shift = now;
        }
        honest.extend_from_slice(&self.out[from..]);
        self.out = honest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Run;

    #[test]
    fn withdrawn_acknowledgements_leave_the_other_replies() {
        let request = Request::new(Run::Ready, 0, 0);
        let of_memcached = Request { head: 1, ..request };
        let requests = vec![request, of_memcached, of_memcached];
        let heads = vec![silica_proto::memcached::Request::Delete];
        let input = Input { requests, heads, ..Input::default() };
        let mut output =
            Output { out: b"+OK\r\n$1\r\na\r\nDELETED\r\n+PONG\r\n".into(), ..Output::default() };
        let acknowledgement = |start, end, request| Acknowledgement { start, end, request };
        // The last one was acknowledged by silence.
        output.acknowledgements =
            vec![acknowledgement(0, 5, 0), acknowledgement(12, 21, 1), acknowledgement(28, 28, 2)];
        (output.next, output.ends) = (3, Some(vec![12, 28, 28]));
        output.withdraw(&input, "ERR no");
        let want = "-ERR no\r\n$1\r\na\r\nSERVER_ERROR no\r\n+PONG\r\nSERVER_ERROR no\r\n";
        assert_eq!(String::from_utf8(output.out).unwrap(), want);
        assert_eq!(output.ends.unwrap(), [16, 40, 57]);
    }
}
