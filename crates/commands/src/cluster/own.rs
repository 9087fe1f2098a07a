//! Requests of the node's own, which run in bursts like those of clients.

use crate::burst::{Burst, Input, Output, Request};
use crate::exec::Executor;
use crate::lane::Lane;
use crate::push::Owner;
use crate::table::Run;
use silica::engine::{Error, ErrorKind};
use silica_proto::Span;

/// What bursts of our own do to keys of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// They read.
    Read,
    /// They remove keys of slots that are handed over, under [`Cluster::handover`](super::Cluster).
    HandOver,
    /// They remove keys of slots that are another node's: see [`super::lost`].
    RemoveLost,
}

/// Runs `requests` on database `db`; their replies.
///
/// # Errors
/// The text of an error, if they could not be run to their end.
pub(super) fn ask(
    executor: &mut Executor,
    db: u8,
    requests: &[(Run, &[&[u8]])],
    does: Does,
) -> Result<Vec<Vec<u8>>, String> {
    let (hands_over, removes_lost) = (does == Does::HandOver, does == Does::RemoveLost);
    let mut input = Input { is_internal: true, hands_over, removes_lost, ..Input::default() };
    for (run, args) in requests {
        let first = input.spans.len();
        for arg in *args {
            let start = input.bytes.len() as u32;
            input.spans.push(Span { start, len: arg.len() as u32 });
            input.bytes.extend_from_slice(arg);
        }
        let request = Request::new(*run, first, args.len());
        input.requests.push(Request { db, ..request });
    }
    let mut burst = Burst::new(0, Lane::Long);
    let output = Output::new(Vec::new(), 0, requests.len()).with_ends(Vec::new());
    burst.push(Owner { slot: usize::MAX, client: 0 }, input, output);
    let mut replies = Vec::new();
    while replies.len() < requests.len() {
        executor.run(&mut burst);
        let output = &mut burst.outputs[0];
        let out = std::mem::take(&mut output.out);
        let ends = output.ends.replace(Vec::new()).unwrap_or_default();
        if ends.is_empty() {
            let error = Error::new(ErrorKind::Closed, "the keys could not be read");
            return Err(crate::engine_calls::error_text(&error));
        }
        let mut start = 0;
        for end in ends {
            replies.push(out[start..end].to_vec());
            start = end;
        }
    }
    Ok(replies)
}
