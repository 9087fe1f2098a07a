//! Counters that INFO shows.

use crate::lane::Lane;
use silica_base::Striped;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

macro_rules! stats {
    ($($name:ident: $doc:literal,)*) => {
        /// What one thread has counted.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: AtomicU64,)*
        }

        /// Each counter's name and what it counts.
        const NAMES: &[(&str, &str)] = &[$((stringify!($name), $doc),)*];

        impl Counters {
            /// Each counter, in the order of the names.
            fn of(index: usize) -> fn(&Counters) -> &AtomicU64 {
                const ALL: &[fn(&Counters) -> &AtomicU64] = &[$(|counters| &counters.$name,)*];
                ALL[index]
            }
        }
    };
}

/// Counters of a server since its start, or since CONFIG RESETSTAT. Threads count on lines of their
/// own.
#[derive(Debug, Default)]
pub struct Stats {
    counters: Striped<Counters>,
    /// What the sums were when they were set to zero, in the order of the names.
    zero: Mutex<[u64; NAMES.len()]>,
}

impl Stats {
    /// Adds `n` to a counter.
    #[inline]
    pub fn add(&self, of: impl Fn(&Counters) -> &AtomicU64, n: u64) {
        self.counters.add(of, n);
    }

    fn zero(&self) -> MutexGuard<'_, [u64; NAMES.len()]> {
        self.zero.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted, in the order of the names.
    fn sums(&self) -> [u64; NAMES.len()] {
        std::array::from_fn(|index| self.counters.sum(Counters::of(index)))
    }

    /// Every counter by name, with what it counts.
    pub fn described(&self) -> Vec<(&'static str, &'static str, u64)> {
        let zero = *self.zero();
        let sums = self.sums().into_iter().zip(zero);
        let row = |(&(name, doc), (sum, zero)): (&(_, _), (u64, u64))| {
            (name, doc, sum.saturating_sub(zero))
        };
        NAMES.iter().zip(sums).map(row).collect()
    }

    /// Every counter by name.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        self.described().into_iter().map(|(name, _, value)| (name, value)).collect()
    }

    /// The counter `name`, as [`Counters`] calls it.
    pub fn get(&self, name: &str) -> u64 {
        let index = NAMES.iter().position(|(known, _)| *known == name);
        let index = index.expect("the counter has a name of the list");
        self.counters.sum(Counters::of(index)).saturating_sub(self.zero()[index])
    }

    /// Sets every counter to zero.
    pub fn reset(&self) {
        let mut zero = self.zero();
        *zero = self.sums();
    }

    /// Counts a burst, of which so many requests have run.
    pub fn count_burst(&self, lane: Lane, requests: usize) {
        let mine = self.counters.mine();
        mine.add(|s| &s.burst_requests, requests as u64);
        match lane {
            Lane::Read => mine.add(|s| &s.read_bursts, 1),
            Lane::Write => mine.add(|s| &s.write_bursts, 1),
            Lane::Long | Lane::Sql => mine.add(|s| &s.long_bursts, 1),
        }
    }

    /// Counts keys that were read, of which so many were found.
    pub fn count_reads(&self, keys: usize, hits: usize) {
        if keys > 0 {
            let mine = self.counters.mine();
            mine.add(|s| &s.keyspace_hits, hits as u64);
            mine.add(|s| &s.keyspace_misses, (keys - hits) as u64);
        }
    }
}

stats! {
    total_connections_received: "connections accepted",
    rejected_connections: "connections refused because there were too many",
    total_commands_processed: "requests answered",
    total_net_input_bytes: "bytes received",
    total_net_output_bytes: "bytes sent",
    total_error_replies: "errors that requests were answered with",
    keyspace_hits: "keys read and found",
    keyspace_misses: "keys read and not found",
    evicted_clients: "clients dropped because memory for clients was short",
    stalled_clients_dropped: "clients dropped because they did not read their replies",
    auth_timeouts: "clients dropped because they did not shake hands or give the password in time",
    request_timeouts: "clients dropped because they did not go on with a request that they began",
    tls_failures: "connections ended because what came was no TLS, or none to agree on",
    memcached_stores: "values that memcached's clients stored",
    datagrams_received: "datagrams received",
    datagram_batches: "batches that they came in",
    read_bursts: "bursts of reads only",
    write_bursts: "bursts with writes",
    long_bursts: "requests that ran alone because they may take long",
    burst_requests: "requests that ran in bursts",
    burst_nanoseconds: "nanoseconds that bursts took, all loops' and workers' together",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_anew_after_a_reset_whoever_counts() {
        let stats = Stats::default();
        let count = || stats.add(|s| &s.total_commands_processed, 3);
        count();
        std::thread::scope(|scope| drop(scope.spawn(count).join()));
        assert_eq!(stats.get("total_commands_processed"), 6);
        stats.reset();
        stats.count_reads(5, 2);
        let of = |name| stats.list().into_iter().find(|row| row.0 == name).map(|row| row.1);
        assert_eq!(of("total_commands_processed"), Some(0));
        assert_eq!((of("keyspace_hits"), of("keyspace_misses")), (Some(2), Some(3)));
    }
}
