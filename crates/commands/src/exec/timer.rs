//! How long a burst took: the logs of what took long.

use crate::burst::{Args, Burst, Input, Request};
use crate::calls::times::Called;
use crate::memcached;
use crate::resp::read::GET;
use crate::resp::update::SET;
use crate::service::Service;
use crate::slowlog::Slow;
use crate::table::{Run, find_called};
use std::sync::atomic::Ordering::Relaxed;

/// Arguments of a request that the log keeps, and bytes of each.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

/// The commands that requests of RESP which this burst has run have called.
fn called(burst: &Burst) -> impl Iterator<Item = Called> {
    burst.inputs.iter().zip(&burst.outputs).flat_map(|(input, output)| {
        let ran = input.requests.get(output.begun..output.next).unwrap_or_default();
        let ran = ran.iter().filter(|request| request.head == 0 && !request.run.is_ready());
        ran.filter_map(|request| called_by(input, request))
    })
}

fn called_by(input: &Input, request: &Request) -> Option<Called> {
    match request.run {
        Run::Read(read) if std::ptr::eq(read, &GET) => Some(Called::Get),
        Run::Write(write) if std::ptr::eq(write, &SET) => Some(Called::Set),
        _ => {
            let args = input.args(request);
            let command = if args.len() > 0 { find_called(args) } else { None };
            command.map(|command| Called::Other(command.name))
        }
    }
}

/// Times a burst.
pub(crate) struct BurstTimer {
    began_ns: u64,
    /// The first request that has not run: its connection among the burst's, and its place there.
    first: Option<(usize, usize)>,
}

impl BurstTimer {
    pub(crate) fn start(service: &Service, burst: &Burst) -> Self {
        let next = |index: usize| {
            let output = &burst.outputs[index];
            let requests = burst.inputs[index].requests.get(output.next..output.end)?;
            let place = requests.iter().position(|request| !request.run.is_ready())?;
            Some((index, output.next + place))
        };
        let first = (0..burst.outputs.len()).find_map(next);
        BurstTimer { began_ns: service.monotonic_ns(), first }
    }

    /// Notes how long it took; `requests` of the burst have run, and
    /// `stages` says what their reads took, if that is known.
    pub(crate) fn stop(
        self,
        service: &Service,
        burst: &Burst,
        requests: usize,
        stages: impl FnOnce() -> Option<String>,
    ) {
        let nanos = service.monotonic_ns() - self.began_ns;
        service.stats.add(|s| &s.burst_nanoseconds, nanos);
        let micros = nanos / 1000;
        service.latency.count(micros);
        if service.times.is_on.load(Relaxed) {
            service.times.count(called(burst), nanos / requests.max(1) as u64);
        }
        // Mostly nothing is to be noted, and what the time is need not be asked.
        let is_slow = service.slowlog.is_slow(micros);
        let Some((index, place)) = self.first.filter(|_| is_slow || service.latency.is_on()) else {
            return;
        };
        let unix_s = service.unix_ms() / 1000;
        service.latency.note(micros / 1000, unix_s);
        if !is_slow {
            return;
        }
        let input = &burst.inputs[index];
        let client = service.clients.get(burst.owners[index].client);
        // In a cluster it may have been another node's.
        let request = match &input.requests[place] {
            request if request.run.is_ready() => return,
            request => input.args(request),
        };
        let mut args = kept(request, requests.saturating_sub(1));
        args.extend(stages().map(String::into_bytes));
        let slow = Slow {
            id: 0,
            unix_s,
            micros,
            args,
            peer: client.as_ref().map(|client| client.peer.to_string()).unwrap_or_default(),
            name: client.map(|client| client.names().name.clone()).unwrap_or_default(),
        };
        service.slowlog.add(slow, &service.budget);
    }
}

/// What the log keeps of a request that ran together with `others`.
fn kept(args: Args<'_>, others: usize) -> Vec<Vec<u8>> {
    let shorten = |arg: &[u8]| match arg.len() {
        0..=ARG_BYTES_MAX => arg.to_vec(),
        len => {
            let mut start = arg[..ARG_BYTES_MAX].to_vec();
            start.extend_from_slice(format!("... ({} more bytes)", len - ARG_BYTES_MAX).as_bytes());
            start
        }
    };
    let shown = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut list: Vec<Vec<u8>> = args.from(0).take(shown).map(shorten).collect();
    if let Some(head) = args.memcached() {
        list[0] = memcached::name(*head).as_bytes().to_vec();
    }
    if shown < args.len() {
        list.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    if others > 0 {
        list.push(format!("... ({others} more requests in the burst)").into_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_proto::Span;

    #[test]
    fn only_so_much_is_kept_of_a_request() {
        let bytes = vec![b'x'; 1000];
        let spans: Vec<Span> =
            [10, 200].iter().map(|len| Span { start: 0, len: *len }).cycle().take(40).collect();
        let list = kept(Args::new(&bytes, &spans), 7);
        assert_eq!(list.len(), 33);
        assert_eq!(list[0], b"xxxxxxxxxx");
        assert_eq!(&list[1][120..], b"xxxxxxxx... (72 more bytes)");
        assert_eq!(list[31], b"... (9 more arguments)");
        assert_eq!(list[32], b"... (7 more requests in the burst)");
    }
}
