//! Datagrams on their way out: written one after the other, sent in as few messages as carry them.

use super::socket::BATCH;
use silica_net::datagrams::{Incoming, Message, Outgoing, Trains};
use std::io::ErrorKind;
use std::net::UdpSocket;

/// Memory that is kept from one batch to the next.
const KEPT_BYTES: usize = 1 << 20;

/// Datagrams to senders of a batch.
pub(super) struct Post {
    /// Those that have ended, and what is written of the next one.
    pub(super) bytes: Vec<u8>,
    /// Where the next one begins.
    start: usize,
    /// To whom: the first of an arrival's sender in the batch.
    trains: Trains<usize>,
    outgoing: Outgoing,
}

impl Post {
    /// Nothing yet; `joins` where the kernel cuts messages.
    pub(super) fn new(joins: bool) -> Self {
        let (trains, outgoing) = (Trains::new(joins), Outgoing::new(BATCH));
        Post { bytes: Vec::new(), start: 0, trains, outgoing }
    }

    /// What is written of the datagram that has not ended.
    pub(super) fn datagram(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Bytes of the datagram that has not ended.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Takes the datagram back that has not ended.
    pub(super) fn forget(&mut self) {
        self.bytes.truncate(self.start);
    }

    /// Ends a datagram, which goes to the sender of `arrival`.
    pub(super) fn end(&mut self, arrival: usize) {
        self.trains.add(arrival, self.start..self.bytes.len());
        self.start = self.bytes.len();
    }

    /// Ends a datagram behind whose end there may be zeroes: as many as it takes to go on with the
    /// train before it.
    pub(super) fn end_lengthened(&mut self, arrival: usize) {
        let bytes = self.trains.lengthened(arrival, self.len());
        self.bytes.resize(self.start + bytes, 0);
        self.end(arrival);
    }

    /// Sends all; how many bytes they were. One that cannot be sent is left out, as if the network
    /// had lost it.
    pub(super) fn send(&mut self, socket: &UdpSocket, incoming: &Incoming) -> u64 {
        self.forget();
        let mut rest = self.trains.all();
        while !rest.is_empty() {
            let messages = rest.iter().map(|train| Message {
                to: Some(incoming.arrival(train.to).peer),
                bytes: &self.bytes[train.place.clone()],
                segment_bytes: train.segment_bytes(),
            });
            match self.outgoing.send(socket, messages) {
                Ok(count) => rest = &rest[count..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    log::debug!("a datagram could not be sent: {e}");
                    rest = &rest[1..];
                }
            }
        }
        let sent = self.bytes.len();
        self.start = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.trains.clear();
        sent as u64
    }
}
