//! What an observer sees who is no client: the pages of the admin port, and their history.
//!
//! Nothing here is counted as a request or as a connection.

use crate::budget::Claim;
use crate::burst::Args;
use crate::jobs::KINDS;
use crate::process;
use crate::resp::Keyspace;
use crate::resp::info;
use crate::service::Service;
use crate::slowlog::POWERS;
use silica::engine::{Result, Stage};
use silica_proto::Span;
use std::sync::atomic::Ordering::Relaxed;

/// Powers of two of microseconds by which bursts are told apart.
pub const BURST_POWERS: usize = POWERS;

/// A connection, for an observer.
#[derive(Debug, Clone)]
pub struct ClientView {
    /// Its number, which is never used twice.
    pub id: u64,
    /// The client's end.
    pub peer: String,
    /// What it calls itself; may be empty.
    pub name: String,
    /// The client's library, as it says; may be empty.
    pub library: String,
    /// The user that it is.
    pub user: String,
    /// Its last command; empty before the first.
    pub last_command: &'static str,
    /// The number of its database.
    pub db: u8,
    /// Seconds since it connected.
    pub age_s: u64,
    /// Seconds since its last request.
    pub idle_s: u64,
    /// All memory that is held for it.
    pub bytes: u64,
}

/// A burst that took long, for an observer.
#[derive(Debug, Clone)]
pub struct SlowView {
    /// Its number in the log.
    pub id: u64,
    /// When it was, in seconds of Unix time.
    pub unix_s: u64,
    /// How long it took.
    pub micros: u64,
    /// The first request of the burst, shortened.
    pub request: String,
    /// Address of the client that sent the request.
    pub peer: String,
}

/// What the process takes of the machine.
#[derive(Debug, Clone, Copy)]
pub struct ProcessView {
    /// Memory without pages of files, in bytes.
    pub used_bytes: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Seconds of the processors, for itself and in the kernel.
    pub cpu_s: f64,
}

impl Service {
    /// Begins to sample in which stages reads spend their time.
    ///
    /// Cost: a look at the clock for each burst that is handed to a worker.
    pub fn observe(&self) {
        self.stage_sums.observe();
    }

    /// Bursts of the sample, and the nanoseconds of each stage of their reads, at the place
    /// that is the stage's number.
    pub fn stages_seen(&self) -> (u64, [u64; Stage::ALL.len()]) {
        self.stage_sums.sums()
    }

    /// The text of INFO with these sections.
    ///
    /// # Errors
    /// What an engine answers that cannot estimate its entries.
    ///
    /// Cost: as INFO; an engine with few entries counts them.
    pub fn info(&self, sections: &[&str]) -> Result<String> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for word in ["INFO"].iter().chain(sections) {
            spans.push(Span { start: bytes.len() as u32, len: word.len() as u32 });
            bytes.extend_from_slice(word.as_bytes());
        }
        let claim = Claim::new(&self.budget);
        let (engine, whole) = (self.databases.engine(0)?, self.databases.whole(0));
        let keys = Keyspace::of_step((self, &claim), (engine, 0), whole);
        info::text(&keys, Args::new(&bytes, &spans))
    }

    /// The `count` connections that hold most memory, those first.
    pub fn clients_seen(&self, count: usize) -> Vec<ClientView> {
        let now_ms = self.unix_ms();
        let mut all = self.clients.all();
        silica_base::compact_sort_by_key(&mut all, |client| {
            (std::cmp::Reverse(client.all_bytes()), client.id)
        });
        all.truncate(count);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds = |since: u64| now_ms.saturating_sub(since) / 1000;
        let view = |client: &std::sync::Arc<crate::clients::Client>| {
            let names = client.names().clone();
            ClientView {
                id: client.id,
                peer: client.peer.to_string(),
                name: text(&names.name),
                library: text(&names.lib_name),
                user: client.user_name(),
                last_command: names.last_command,
                db: client.db.load(Relaxed),
                age_s: seconds(client.born_ms),
                idle_s: seconds(client.active_ms.load(Relaxed)),
                bytes: client.all_bytes() as u64,
            }
        };
        all.iter().map(view).collect()
    }

    /// The newest `count` entries of the slow log.
    pub fn slow_seen(&self, count: usize) -> Vec<SlowView> {
        let view = |slow: crate::slowlog::Slow| {
            let args = slow.args.iter().map(|arg| String::from_utf8_lossy(arg));
            SlowView {
                id: slow.id,
                unix_s: slow.unix_s,
                micros: slow.micros,
                request: args.collect::<Vec<_>>().join(" "),
                peer: slow.peer,
            }
        };
        self.slowlog.newest(count).into_iter().map(view).collect()
    }

    /// Bursts since the start that took up to 1, 2, 4, … microseconds; no reset takes them back.
    pub fn burst_counts(&self) -> [u64; BURST_POWERS] {
        self.latency.all_bursts()
    }

    /// The kind of each job that was begun, and how far it is.
    pub fn jobs_seen(&self) -> Vec<(&'static str, String)> {
        let state = |kind| Some((kind, self.databases.jobs.state(kind)?));
        KINDS.into_iter().filter_map(state).collect()
    }

    /// What the process takes of the machine; zeros where the system does not tell.
    pub fn process_seen(&self) -> ProcessView {
        let process::Memory { used, resident, .. } = process::memory();
        let (user, system) = process::cpu_seconds();
        ProcessView { used_bytes: used, resident_bytes: resident, cpu_s: user + system }
    }
}
