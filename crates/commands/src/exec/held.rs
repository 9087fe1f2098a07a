//! Which requests have to wait, and which remove everything.

use crate::burst::{Input, Request};
use crate::service::Service;
use crate::table::{Run, Trait, find};
use silica_proto::memcached::{Command, Request as Head};

impl Service {
    /// True if some of `requests` have to wait until a pause is over; `now_ms` in milliseconds of
    /// the monotonic clock.
    pub fn holds(&self, input: &Input, requests: &[Request], now_ms: u64) -> bool {
        if self.pause.left_ms(now_ms) == 0 {
            return false;
        }
        let waits_for_all = self.pause.is_of_all(now_ms);
        let waits = |request: &Request| {
            !request.run.is_ready()
                && (waits_for_all || request.run.changes() || removes_everything(input, request))
        };
        requests.iter().any(waits)
    }
}

/// True if a request removes all keys of a database.
pub(crate) fn removes_everything(input: &Input, request: &Request) -> bool {
    let (Run::Whole(_) | Run::Across(_)) = request.run else { return false };
    let args = input.args(request);
    match args.memcached() {
        // Nobody asks without arguments but the flush of a set time.
        None if args.len() == 0 => !input.is_internal,
        Some(Head::Binary(packet)) => packet.command == Command::Flush,
        Some(head) => matches!(head, Head::FlushAll { .. }),
        None => find(args.get(0)).is_some_and(|command| command.is(Trait::Clears)),
    }
}
