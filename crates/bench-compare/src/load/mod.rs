//! Load on a server that costs less than the server: many connections of one thread, whose requests
//! are written before the time begins and whose replies are known, so that they are compared and
//! not parsed.
//!
//! Each connection sends a *train*: so many requests at once. When the last reply of a train came
//! the next train leaves, or at a fixed time where the load has a pace. Over datagrams a connection
//! is a socket, and what does not come in time is asked again. The thread does not sleep while it
//! waits: waking it would be work of the server's core.

mod blocking;
mod client;
mod datagrams;
mod offered;
mod script;

pub(crate) use blocking::Blocking;
pub(crate) use client::Client;
pub(crate) use datagrams::{Datagrams, Framing};
pub(crate) use offered::{Get, Offer, Offered};
pub(crate) use script::{Script, value_of};
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
    /// `get` and `set` of memcached's text protocol, each in a datagram of its own.
    TextDatagrams,
    /// Gets and puts of our own datagram protocol, so many in a datagram.
    Datagrams(usize),
}

/// When trains leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// As soon as the train before was answered.
    Peak,
    /// At fixed times, with half of the operations that the server did before at its peak.
    HalfOfPeak,
}

/// What share of the requests of one key each are sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Sets {
    /// One in twenty.
    #[default]
    Few,
    /// One in four.
    Quarter,
    /// None.
    None,
    /// All.
    All,
}

/// A load on uniform keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// What is asked.
    pub speech: Speech,
    /// Connections, all of one thread.
    pub connections: usize,
    /// Requests that a connection sends at once.
    pub depth: usize,
    /// When they leave.
    pub pace: Pace,
    /// The sets among them; requests of several keys are gets.
    #[serde(default)]
    pub sets: Sets,
}

impl Load {
    /// Datagrams under way that a memcached with the system's usual buffers does not lose.
    pub(crate) const TEXT_DATAGRAMS: Load = Load {
        speech: Speech::TextDatagrams,
        connections: 4,
        depth: 32,
        pace: Pace::Peak,
        sets: Sets::Few,
    };

    /// Datagrams of so many requests in trains that the kernel cuts and joins.
    pub(crate) const fn datagrams(requests: usize) -> Load {
        Load {
            speech: Speech::Datagrams(requests),
            connections: 4,
            depth: 64,
            pace: Pace::Peak,
            sets: Sets::Few,
        }
    }

    /// Requests that are written together: those of a datagram, or of a connection.
    fn together(&self) -> usize {
        match self.speech {
            Speech::TextDatagrams => 1,
            Speech::Datagrams(requests) => requests,
            _ => self.depth,
        }
    }

    /// What the report says beside the workload.
    pub(crate) fn text(&self) -> String {
        let Load { connections, depth, .. } = self;
        let pace = match self.pace {
            Pace::Peak => "",
            Pace::HalfOfPeak => ", at half of its own peak; times count from when one was due",
        };
        let what = match self.speech {
            Speech::Resp => "GET and SET 95/5 over RESP".to_string(),
            Speech::Text => "get and set 95/5 in memcached's text protocol".to_string(),
            Speech::TextMultiget(keys) => {
                format!("get of {keys} keys in memcached's text protocol")
            }
            Speech::TextDatagrams => {
                return format!(
                    "get and set 95/5 in memcached's text protocol, each in a datagram, \
                     {connections} sockets, {depth} datagrams of each under way"
                );
            }
            Speech::Datagrams(requests) => {
                return format!(
                    "get and put 95/5 in our datagram protocol, {requests} in a datagram, \
                     {connections} sockets, {depth} datagrams of each under way"
                );
            }
        };
        format!("{what}, {connections} connections, {depth} requests of each under way{pace}")
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
    /// Nanoseconds of trains, from when the first request left, or should have left, to the last
    /// reply's arrival.
    pub(crate) latencies: Histogram,
    /// Datagrams that were sent again, since nothing came back.
    pub(crate) sent_again: u64,
}

impl Done {
    /// Adds what `other` did after it.
    pub(crate) fn add(&mut self, other: &Done) {
        self.operations += other.operations;
        self.misses += other.misses;
        self.seconds += other.seconds;
        self.idle_seconds += other.idle_seconds;
        self.latencies.merge(&other.latencies);
        self.sent_again += other.sent_again;
    }
}
