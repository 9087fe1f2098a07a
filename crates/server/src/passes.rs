//! What lets a sender of datagrams in.
//!
//! A **token** shows that its sender receives what is sent to its address: it is made of that
//! address and the run's secret. A **pass** shows that its sender has shown a password, where one
//! is set: it is given over a connection to a user without limits, and who asks with it gets
//! another token than who asks without. Passes, and tokens that were given for them, end with
//! every change of users. Nothing is kept for a client.

use silica::engine::{Error, Result};
use silica_base::HashSeed;
use silica_net::datagrams::Peer;
use silica_proto::datagram::PASS_BYTES;

/// Makes passes and tokens.
pub(crate) struct Passes(HashSeed);

impl Passes {
    pub(crate) fn new() -> Result<Self> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|e| Error::io("taking random bytes for tokens", e.into()))?;
        Ok(Passes(HashSeed(secret)))
    }

    /// The pass after change `version` of users.
    pub(crate) fn pass(&self, version: u64) -> [u8; PASS_BYTES] {
        // As long as nothing else that is hashed here.
        self.0.hash(&version.to_le_bytes()).0.to_le_bytes()
    }

    /// The token of `peer`; with a pass that was made after change `version` of users, or without.
    pub(crate) fn token(&self, peer: &Peer, version: Option<u64>) -> u64 {
        let Some(version) = version else { return self.0.low(&peer.bytes()) };
        let mut bytes = [0; 32];
        bytes[..24].copy_from_slice(&peer.bytes());
        bytes[24..].copy_from_slice(&version.to_le_bytes());
        self.0.low(&bytes)
    }
}
