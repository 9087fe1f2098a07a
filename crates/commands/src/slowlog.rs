//! What took long: the log that SLOWLOG shows, and the peaks that LATENCY shows.
//!
//! Requests run in bursts, so it is bursts that are timed: a burst's time is what each of its
//! requests took to be answered. The log shows the first request of a slow burst, and how many ran
//! with it.

use crate::budget::{Budget, Share};
use crate::burst::{Args, Burst};
use crate::memcached;
use crate::service::Service;
use crate::stats::Stats;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Arguments of a request that are kept, and bytes of each.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;
/// Seconds of which LATENCY keeps the peaks.
const PEAKS_MAX: usize = 160;
/// Powers of two of microseconds that are told apart; the last is over a day.
const POWERS: usize = 32;
/// Entries of the log, whatever is set.
const LEN_MAX: usize = 100_000;

/// A request that took long.
#[derive(Debug, Clone)]
pub(crate) struct Slow {
    pub(crate) id: u64,
    pub(crate) unix_s: u64,
    pub(crate) micros: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

impl Slow {
    fn held_bytes(&self) -> usize {
        let args: usize = self.args.iter().map(|arg| arg.len() + 48).sum();
        size_of::<(Slow, Share)>() + args + self.peer.len() + self.name.len() + 64
    }
}

/// The last requests that took long.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Microseconds from which on a burst is slow; negative for never.
    pub(crate) micros_min: AtomicI64,
    pub(crate) len_max: AtomicUsize,
    next_id: AtomicU64,
    /// Memory of all entries.
    bytes: AtomicUsize,
    /// Newest first.
    list: Mutex<VecDeque<(Slow, Share)>>,
}

impl Default for SlowLog {
    fn default() -> Self {
        SlowLog {
            micros_min: AtomicI64::new(10_000),
            len_max: AtomicUsize::new(128),
            next_id: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            list: Mutex::default(),
        }
    }
}

impl SlowLog {
    fn list(&self) -> MutexGuard<'_, VecDeque<(Slow, Share)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest `count` entries.
    pub(crate) fn newest(&self, count: usize) -> Vec<Slow> {
        self.list().iter().take(count).map(|(slow, _)| slow.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.list().len()
    }

    pub(crate) fn clear(&self) {
        let mut list = self.list();
        list.clear();
        self.bytes.store(0, Relaxed);
    }

    /// Memory of all entries.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn is_slow(&self, micros: u64) -> bool {
        u64::try_from(self.micros_min.load(Relaxed)).is_ok_and(|min| micros >= min)
    }

    /// Adds an entry. Without memory for it, or if all take more than an eighth of the clients'
    /// memory, the oldest go.
    fn add(&self, mut slow: Slow, budget: &Arc<Budget>) {
        let len_max = self.len_max.load(Relaxed).min(LEN_MAX);
        let mut list = self.list();
        slow.id = self.next_id.fetch_add(1, Relaxed);
        let bytes = slow.held_bytes();
        let share = Share::new(budget);
        let mut all = self.bytes.load(Relaxed) + bytes;
        while all > budget.max() / 8 || list.len() >= len_max || share.grow(bytes).is_err() {
            match list.pop_back() {
                Some((_, share)) => all -= share.bytes(),
                None => break,
            }
        }
        if share.bytes() == bytes && len_max > 0 {
            list.push_front((slow, share));
        } else {
            all -= bytes;
        }
        self.bytes.store(all, Relaxed);
    }
}

/// A second in which something took long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peak {
    pub(crate) unix_s: u64,
    pub(crate) millis: u64,
}

/// The worst bursts of the last seconds that had slow ones.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// Milliseconds from which on a burst counts; 0 for never.
    pub(crate) millis_min: AtomicU64,
    /// Peaks, oldest first, and the highest ever.
    peaks: Mutex<(VecDeque<Peak>, u64)>,
    /// Bursts that took up to 1, 2, 4, … microseconds.
    histogram: [AtomicU64; POWERS],
}

impl Latency {
    fn peaks(&self) -> MutexGuard<'_, (VecDeque<Peak>, u64)> {
        self.peaks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peaks, oldest first.
    pub(crate) fn history(&self) -> Vec<Peak> {
        self.peaks().0.iter().copied().collect()
    }

    /// The last peak and the highest of all milliseconds.
    pub(crate) fn latest(&self) -> Option<(Peak, u64)> {
        let peaks = self.peaks();
        peaks.0.back().map(|last| (*last, peaks.1))
    }

    /// Forgets everything; true where there was something.
    pub(crate) fn clear(&self) -> bool {
        !std::mem::take(&mut *self.peaks()).0.is_empty()
    }

    fn count(&self, micros: u64) {
        let power = micros.max(1).next_power_of_two().trailing_zeros() as usize;
        self.histogram[power.min(POWERS - 1)].fetch_add(1, Relaxed);
    }

    /// The powers of two of microseconds that bursts took at most, from the first to the last that
    /// there were, and how many it were.
    pub(crate) fn histogram(&self) -> Vec<(u64, u64)> {
        let counts: Vec<u64> = self.histogram.iter().map(|count| count.load(Relaxed)).collect();
        let is_some = |count: &u64| *count > 0;
        let Some(first) = counts.iter().position(is_some) else { return Vec::new() };
        let last = counts.iter().rposition(is_some).unwrap_or(first);
        (first..=last).map(|power| (1 << power, counts[power])).collect()
    }

    /// Forgets how long bursts took.
    pub(crate) fn reset_histogram(&self) {
        self.histogram.iter().for_each(|count| count.store(0, Relaxed));
    }

    fn is_on(&self) -> bool {
        self.millis_min.load(Relaxed) > 0
    }

    fn note(&self, millis: u64, unix_s: u64) {
        let min = self.millis_min.load(Relaxed);
        if min == 0 || millis < min {
            return;
        }
        let mut peaks = self.peaks();
        peaks.1 = peaks.1.max(millis);
        match peaks.0.back_mut() {
            Some(last) if last.unix_s == unix_s => last.millis = last.millis.max(millis),
            _ => peaks.0.push_back(Peak { unix_s, millis }),
        }
        if peaks.0.len() > PEAKS_MAX {
            peaks.0.pop_front();
        }
    }
}

/// Watches a burst that is about to run.
pub(crate) struct Watch {
    began_ns: u64,
    /// The first request that has not run: its connection among the burst's, and its place there.
    first: Option<(usize, usize)>,
    /// Of each connection the first request that has not run, where somebody is told of writes.
    from: Option<Vec<usize>>,
}

impl Watch {
    pub(crate) fn begin(service: &Service, burst: &Burst) -> Self {
        let next = |index: usize| {
            let output = &burst.outputs[index];
            let requests = burst.inputs[index].requests.get(output.next..output.end)?;
            let place = requests.iter().position(|request| !request.run.is_ready())?;
            Some((index, output.next + place))
        };
        let first = (0..burst.outputs.len()).find_map(next);
        let all = || burst.outputs.iter().map(|output| output.next).collect();
        let from = service.tracking.is_active().then(all);
        Watch { began_ns: service.monotonic_ns(), first, from }
    }

    /// Notes how long it took, and tells what it wrote; `requests` of the burst have run.
    pub(crate) fn end(self, service: &Service, burst: &Burst, requests: usize) {
        if let Some(from) = &self.from {
            service.tracking.tell(service, burst, from);
        }
        let nanos = service.monotonic_ns() - self.began_ns;
        Stats::add(&service.stats.burst_nanoseconds, nanos);
        let micros = nanos / 1000;
        service.latency.count(micros);
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
        let request = input.args(&input.requests[place]);
        let slow = Slow {
            id: 0,
            unix_s,
            micros,
            args: kept(request, requests.saturating_sub(1)),
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

    #[test]
    fn times_are_counted_by_powers_of_two() {
        let latency = Latency::default();
        assert_eq!(latency.histogram(), []);
        [3, 4, 5, 16, 4].into_iter().for_each(|micros| latency.count(micros));
        assert_eq!(latency.histogram(), [(4, 3), (8, 1), (16, 1)]);
        latency.reset_histogram();
        [0, u64::MAX >> 1].into_iter().for_each(|micros| latency.count(micros));
        let all = latency.histogram();
        assert_eq!((all.len(), all[0], all[31]), (32, (1, 1), (1 << 31, 1)));
    }

    #[test]
    fn peaks_are_those_of_seconds() {
        let latency = Latency::default();
        latency.note(1000, 1);
        assert_eq!(latency.latest(), None, "it is off");
        latency.millis_min.store(10, Relaxed);
        for (millis, unix_s) in [(9, 5), (50, 5), (20, 5), (60, 5), (15, 6)] {
            latency.note(millis, unix_s);
        }
        let peak = |unix_s, millis| Peak { unix_s, millis };
        assert_eq!(latency.history(), [peak(5, 60), peak(6, 15)]);
        assert_eq!(latency.latest(), Some((peak(6, 15), 60)));
        (10..500).for_each(|unix_s| latency.note(11, unix_s));
        assert_eq!(latency.history().len(), PEAKS_MAX);
        assert!(latency.clear() && !latency.clear());
    }
}
