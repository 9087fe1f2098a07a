//! How a client sends and waits.

use silica_net::datagrams::RECEIVE_BYTES;
use std::time::Duration;

/// How a client sends and waits.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long replies are waited for before what they answer is sent again. It doubles while
    /// nothing comes, up to eight times.
    pub patience: Duration,
    /// Times in a row that nothing comes before it is an error.
    pub attempts_max: usize,
    /// Datagrams under way to one port at most. More than the server's socket has room for get
    /// lost.
    pub window: usize,
    /// Requests of a datagram at most.
    pub requests_max: usize,
    /// Bytes of replies that a port's socket asks the system to hold. No more is asked for at a
    /// time than what it has granted holds.
    pub receive_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        let patience = Duration::from_millis(20);
        let receive_bytes = RECEIVE_BYTES;
        Options { patience, attempts_max: 64, window: 64, requests_max: 256, receive_bytes }
    }
}
