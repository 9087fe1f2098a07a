//! A connection as its requests are planned: what it has sent, its parsers and its session.

use crate::address::Address;
use crate::budget::resident_bytes;
use crate::clients::Client;
use crate::service::Service;
use crate::session::Session;
use silica_proto::memcached::{self, Protocol};
use silica_proto::{Parser, Rest};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What planning knows of one connection. Whoever has the connection's socket fills it
/// ([`ClientState::keep`]), and [`plan`](crate::plan::plan) makes requests of it.
pub struct ClientState {
    /// What everybody may know of the connection.
    pub client: Arc<Client>,
    /// What its requests have chosen.
    pub session: Session,
    /// The parser of RESP.
    pub(crate) parser: Parser,
    /// What is left of a request that there is no memory for, and the error that it ends with.
    pub(crate) given_up: Option<Box<(Rest, String)>>,
    /// The parser of memcached's text protocol.
    pub(crate) memcached: memcached::Parser,
    /// The parser of memcached's binary protocol.
    pub(crate) binary: memcached::BinaryParser,
    /// Its first bytes were judged.
    pub(crate) begun: bool,
    /// What it speaks, once that is known.
    pub(crate) protocol: Option<Protocol>,
    /// Received and not planned.
    pub input: Vec<u8>,
    /// Bytes of `input` that a parser has seen: it waits for what comes behind them.
    pub parsed_bytes: usize,
    /// `input` may hold a whole request.
    pub unplanned: bool,
    /// Nothing more is read; the connection ends when its replies are out.
    pub closing: bool,
}

impl Service {
    /// Registers a new connection: its event loop and its place there, its two ends, and what it
    /// speaks if that is known.
    pub fn add_client(
        &self,
        place: (usize, usize),
        ends: (Address, Address),
        protocol: Option<Protocol>,
    ) -> ClientState {
        let client = self.clients.add(place, ends, self.unix_ms(), &self.budget);
        ClientState::new(client, protocol, self.acl.lets_in())
    }
}

impl ClientState {
    /// The state of a connection that has sent nothing. It speaks `protocol` if that is known
    /// before; `let_in` if it needs no password.
    fn new(client: Arc<Client>, protocol: Option<Protocol>, let_in: bool) -> Self {
        ClientState {
            client,
            session: Session::new(let_in),
            parser: Parser::new(),
            given_up: None,
            memcached: memcached::Parser::new(),
            binary: memcached::BinaryParser::default(),
            begun: false,
            protocol,
            input: Vec::new(),
            parsed_bytes: 0,
            unplanned: false,
            closing: false,
        }
    }

    /// Memory held, but for the session's.
    pub fn held_bytes(&self) -> usize {
        resident_bytes(&self.input) + self.parser.held_bytes() + self.memcached.held_bytes()
    }

    /// Bytes that the current request has at least, as far as it has said.
    pub fn needed_bytes(&self) -> usize {
        let memcached = self.memcached.needed_bytes().max(self.binary.needed_bytes());
        self.parser.needed_bytes().max(memcached)
    }

    /// Keeps what was received until it is planned.
    pub fn keep(&mut self, bytes: &[u8]) {
        let len = self.input.len() + bytes.len();
        let needed = self.needed_bytes();
        if len > self.input.capacity() && needed > len {
            // Never twice what has come, never more than the request has announced.
            let target = needed.min(2 * len);
            self.input.reserve_exact(target - self.input.len());
        }
        self.input.extend_from_slice(bytes);
        self.unplanned = true;
    }

    /// Tells the register what the connection holds: `output_bytes` of replies that wait, and
    /// `held_bytes` in all, of which requests that are not yet answered take `request_bytes`.
    pub fn note_bytes(&self, output_bytes: usize, held_bytes: usize, request_bytes: usize) {
        self.client.input_bytes.store(self.input.len(), Relaxed);
        self.client.output_bytes.store(output_bytes, Relaxed);
        self.client.held_bytes.store(held_bytes, Relaxed);
        self.client.request_bytes.store(request_bytes, Relaxed);
    }

    /// True if a parser has seen the beginning of a request and waits for more of it.
    pub fn waits_for_more(&self) -> bool {
        (self.parsed_bytes > 0 || self.given_up.is_some()) && !self.unplanned
    }
}
