//! Counters that INFO shows.

use crate::lane::Lane;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! stats {
    ($($name:ident: $doc:literal,)*) => {
        /// Counters of a server since its start, or since CONFIG RESETSTAT.
        #[derive(Debug, Default)]
        pub struct Stats {
            $(#[doc = $doc] pub $name: AtomicU64,)*
        }

        impl Stats {
            /// Every counter by name.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed)),)*]
            }

            /// Every counter by name, with what it counts.
            pub fn described(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $doc, self.$name.load(Relaxed)),)*]
            }

            /// Sets every counter to zero.
            pub fn reset(&self) {
                $(self.$name.store(0, Relaxed);)*
            }
        }
    };
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

impl Stats {
    /// Adds `n` to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    /// Counts a burst, of which so many requests have run.
    pub fn count_burst(&self, lane: Lane, requests: usize) {
        Stats::add(&self.burst_requests, requests as u64);
        let lane = match lane {
            Lane::Read => &self.read_bursts,
            Lane::Write => &self.write_bursts,
            Lane::Long => &self.long_bursts,
        };
        Stats::add(lane, 1);
    }

    /// Counts keys that were read, of which so many were found.
    pub fn count_reads(&self, keys: usize, hits: usize) {
        if keys > 0 {
            Stats::add(&self.keyspace_hits, hits as u64);
            Stats::add(&self.keyspace_misses, (keys - hits) as u64);
        }
    }
}
