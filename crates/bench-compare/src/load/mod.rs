//! Load on a server that costs less than the server: many connections of one thread, whose requests
//! are written before the time begins and whose replies are known, so that they are compared and
//! not parsed.
//!
//! Each connection sends a *train*: so many requests at once. When the last reply of a train came
//! the next train leaves. The thread does not sleep while it waits: waking it would be work of the
//! server's core.

mod client;
mod script;

pub(crate) use client::Client;
pub(crate) use script::Script;
use serde::{Deserialize, Serialize};
use silica_base::Histogram;

/// What is asked, and in which words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Speech {
    /// GET and SET of RESP.
    Resp,
    /// `get` and `set` of memcached's text protocol, each of one key.
    Text,
    /// `get` of memcached's text protocol, of so many keys.
    TextMultiget(usize),
}

/// A load: uniform keys, 95 % gets and 5 % sets (gets alone where each is of several keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// What is asked.
    pub speech: Speech,
    /// Connections, all of one thread.
    pub connections: usize,
    /// Requests that a connection sends at once.
    pub depth: usize,
}

impl Load {
    /// What the report says beside the workload.
    pub(crate) fn text(&self) -> String {
        let Load { connections, depth, .. } = self;
        let what = match self.speech {
            Speech::Resp => "GET and SET 95/5 over RESP".to_string(),
            Speech::Text => "get and set 95/5 in memcached's text protocol".to_string(),
            Speech::TextMultiget(keys) => {
                format!("get of {keys} keys in memcached's text protocol")
            }
        };
        format!("{what}, {connections} connections, {depth} requests of each under way")
    }
}

/// What a load did in some time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    /// Keys asked for or put.
    pub(crate) operations: u64,
    /// Of these, gets that found nothing.
    pub(crate) misses: u64,
    /// The time.
    pub(crate) seconds: f64,
    /// Of it, the time in which the client waited for the server.
    pub(crate) idle_seconds: f64,
    /// Nanoseconds of trains, from the first request's sending to the last reply's arrival.
    pub(crate) latencies: Histogram,
}

impl Done {
    /// Adds what `other` did after it.
    pub(crate) fn add(&mut self, other: &Done) {
        self.operations += other.operations;
        self.misses += other.misses;
        self.seconds += other.seconds;
        self.idle_seconds += other.idle_seconds;
        self.latencies.merge(&other.latencies);
    }
}
