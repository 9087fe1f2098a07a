//! One port of the server: what is packed for it, under way, and answered.

use crate::client::Options;
use silica_device::net::{
    Incoming, Message, Outgoing, RECEIVE_BYTES, SLOT_BYTES, STRIDE, Trains, join_segments,
    set_receive_bytes,
};
use silica_proto::datagram::{
    DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, Kind, Reason, Replies, Reply, Request,
};
use std::io;
use std::net::UdpSocket;
use std::ops::Range;

/// Messages of one call.
const MESSAGES: usize = 16;

/// A datagram of requests.
#[derive(Debug, Clone)]
struct Packet {
    /// Where it stands.
    place: Range<usize>,
    /// Its requests among those of the lane.
    requests: Range<usize>,
    unanswered: usize,
    sent: usize,
}

#[derive(Debug)]
pub(crate) struct Lane {
    socket: UdpSocket,
    incoming: Incoming,
    outgoing: Outgoing,
    bytes: Vec<u8>,
    trains: Trains<()>,
    out: Vec<u8>,
    packets: Vec<Packet>,
    /// The number of each request in the caller's list, and whether it is answered.
    numbers: Vec<(u32, bool)>,
    /// The sequence number of the first packet.
    first_sequence: u64,
    /// Packets sent so far, and answered.
    sent: usize,
    answered: usize,
    token: u64,
}

impl Lane {
    pub(crate) fn new(socket: UdpSocket, _options: &Options) -> Self {
        set_receive_bytes(&socket, RECEIVE_BYTES);
        Lane {
            trains: Trains::new(join_segments(&socket).is_ok()),
            socket,
            incoming: Incoming::new(MESSAGES),
            outgoing: Outgoing::new(MESSAGES),
            bytes: vec![0; MESSAGES * STRIDE],
            out: Vec::new(),
            packets: Vec::new(),
            numbers: Vec::new(),
            first_sequence: 0,
            sent: 0,
            answered: 0,
            token: 0,
        }
    }

    /// Forgets the last requests. Their sequence numbers are not used again.
    pub(crate) fn clear(&mut self) {
        self.first_sequence += self.packets.len() as u64;
        self.out.clear();
        self.trains.clear();
        self.packets.clear();
        self.numbers.clear();
        (self.sent, self.answered) = (0, 0);
    }

    /// Appends a request of `size` bytes, to the last datagram where it fits.
    #[inline]
    pub(crate) fn pack(
        &mut self,
        number: u32,
        request: &Request<'_>,
        size: usize,
        token: u64,
        requests_max: usize,
    ) {
        self.token = token;
        let fits = self.packets.last().is_some_and(|packet| {
            self.out.len() - packet.place.start + size <= DATAGRAM_BYTES_MAX
                && self.numbers.len() - packet.requests.start < requests_max
        });
        if !fits {
            self.end();
            let (start, first) = (self.out.len(), self.numbers.len());
            self.out.extend_from_slice(&[0; HEADER_BYTES]);
            let (place, requests) = (start..start, first..first);
            self.packets.push(Packet { place, requests, unanswered: 0, sent: 0 });
        }
        request.write(&mut self.out);
        self.numbers.push((number, false));
    }

    /// Ends the last datagram. Zeroes behind it make it as long as those before it, with which it
    /// then leaves in one message.
    pub(crate) fn end(&mut self) {
        let sequence = self.first_sequence + (self.packets.len() as u64).saturating_sub(1);
        let Some(packet) = self.packets.last_mut() else { return };
        let start = packet.place.start;
        let bytes = self.trains.lengthened((), self.out.len() - start);
        self.out.resize(start + bytes, 0);
        packet.place.end = self.out.len();
        self.trains.add((), packet.place.clone());
        packet.requests.end = self.numbers.len();
        packet.unanswered = packet.requests.len();
        let (count, word) = (packet.unanswered as u16, self.token);
        let header = Header { kind: Kind::Requests, count, sequence, word };
        self.out[start..start + HEADER_BYTES].copy_from_slice(&header.bytes());
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.answered < self.packets.len()
    }

    /// Sends datagrams that were not sent yet, while no more than `window` are under way.
    pub(crate) fn send(&mut self, window: usize) -> io::Result<()> {
        let end = self.packets.len().min(self.answered + window.max(1));
        if self.sent < end {
            let new: Vec<usize> = (self.sent..end).collect();
            self.sent = end;
            self.transmit(&new)?;
        }
        Ok(())
    }

    /// Sends what is under way and not answered; how many datagrams that are.
    pub(crate) fn send_again(&mut self, attempts_max: usize) -> io::Result<u64> {
        let waits = |n: &usize| self.packets[*n].unanswered > 0;
        let again: Vec<usize> = (0..self.sent).filter(waits).collect();
        if again.iter().any(|n| self.packets[*n].sent >= attempts_max) {
            let message = format!("nobody answers {attempts_max} times");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        self.transmit(&again)?;
        Ok(again.len() as u64)
    }

    /// Sends these packets, those of one length that follow each other as one message.
    fn transmit(&mut self, packets: &[usize]) -> io::Result<()> {
        self.trains.clear();
        for n in packets {
            let packet = &mut self.packets[*n];
            packet.sent += 1;
            self.trains.add((), packet.place.clone());
        }
        let mut rest = self.trains.all();
        while !rest.is_empty() {
            let messages = rest.iter().map(|train| Message {
                to: None,
                bytes: &self.out[train.place.clone()],
                segment_bytes: train.segment_bytes(),
            });
            match self.outgoing.send(&self.socket, messages) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for replies and gives them to `take`.
    pub(crate) fn receive(&mut self, take: &mut impl FnMut(usize, Reply<'_>)) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let received = self.incoming.receive(&self.socket, &mut bytes, SLOT_BYTES, STRIDE);
        let outcome = received.and_then(|count| {
            for n in 0..count {
                let slot = &bytes[n * STRIDE..];
                for place in self.incoming.arrival(n).datagrams() {
                    self.note(&slot[place], take)?;
                }
            }
            Ok(())
        });
        self.bytes = bytes;
        outcome
    }

    /// Takes a datagram; one that answers nothing that is under way is left out.
    fn note(&mut self, datagram: &[u8], take: &mut impl FnMut(usize, Reply<'_>)) -> io::Result<()> {
        let Ok((header, rest)) = Header::read(datagram) else { return Ok(()) };
        let place = header.sequence.checked_sub(self.first_sequence);
        let place = place.and_then(|place| usize::try_from(place).ok());
        let Some(packet) = place.and_then(|place| self.packets.get_mut(place)) else {
            return Ok(());
        };
        match header.kind {
            Kind::Replies => {}
            Kind::Refusal => return Err(refused(header.word)),
            _ => return Ok(()),
        }
        let first = packet.requests.start + header.place().0;
        let own = first.min(packet.requests.end)..packet.requests.end;
        let replies = Replies::new(rest, header.count).flatten();
        for (reply, (number, answered)) in replies.zip(&mut self.numbers[own]) {
            if !std::mem::replace(answered, true) {
                packet.unanswered -= 1;
                take(*number as usize, reply);
            }
        }
        // The window begins behind what is answered without a gap.
        while self.packets.get(self.answered).is_some_and(|packet| packet.unanswered == 0) {
            self.answered += 1;
        }
        Ok(())
    }
}

fn refused(reason: u64) -> io::Error {
    let text = match reason {
        r if r == Reason::Token as u64 => "the server was started anew: connect again",
        r if r == Reason::Version as u64 => "the server speaks another version",
        _ => "the server does not understand the requests",
    };
    io::Error::new(io::ErrorKind::ConnectionRefused, text)
}
