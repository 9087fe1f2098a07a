//! One port of the server: what is packed for it, under way, and answered.

use crate::options::Options;
use crate::room::Room;
use silica_net::datagrams::{
    Incoming, Message, Outgoing, SLOT_BYTES, STRIDE, Trains, join_segments, set_receive_bytes,
};
use silica_proto::datagram::{
    DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, Kind, Reason, Replies, Reply, Request,
};
use std::io;
use std::net::UdpSocket;
use std::ops::Range;
use std::time::Duration;

/// Messages of one call.
const MESSAGES: usize = 16;
/// Times that patience doubles while nothing comes.
pub(crate) const PATIENCE_DOUBLINGS: usize = 3;
/// The packet of requests that are under way in none.
const NONE: u32 = u32::MAX;

/// A request.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Its number in the caller's list.
    number: u32,
    /// The packet that it was last sent in.
    packet: u32,
    /// Where it stands.
    start: usize,
    bytes: u16,
    is_get: bool,
    is_answered: bool,
}

/// A datagram of requests.
#[derive(Debug, Clone)]
struct Packet {
    /// Where it stands.
    place: Range<usize>,
    /// Its requests: part of the lane's `members`.
    members: Range<usize>,
    /// Those of them that are under way in it.
    waiting: usize,
    /// Gets among them, when it was packed.
    gets: usize,
    /// Datagrams that may answer it.
    room: usize,
}

/// Requests of one port, each in the datagram that it was sent in last. A retry is a datagram of
/// its own with what is still missing; replies to any datagram of the call are taken.
#[derive(Debug)]
pub(crate) struct Lane {
    socket: UdpSocket,
    incoming: Incoming,
    outgoing: Outgoing,
    bytes: Vec<u8>,
    trains: Trains<()>,
    out: Vec<u8>,
    room: Room,
    requests: Vec<Asked>,
    /// Requests by packets.
    members: Vec<u32>,
    packets: Vec<Packet>,
    /// Packets that are under way, and the datagrams that may answer them.
    under_way: Vec<u32>,
    claimed: usize,
    /// Requests that are to be sent again.
    again: Vec<u32>,
    /// The sequence number of the first packet.
    first_sequence: u64,
    /// The last packet is not full yet.
    is_open: bool,
    /// Packets sent so far, and requests answered.
    sent: usize,
    answered: usize,
    token: u64,
    patience_first: Duration,
    patience: Duration,
    /// Times in a row that nothing new was answered.
    in_vain: usize,
}

impl Lane {
    pub(crate) fn new(socket: UdpSocket, token: u64, options: &Options) -> io::Result<Self> {
        let room = Room::new(set_receive_bytes(&socket, options.receive_bytes));
        socket.set_read_timeout(Some(options.patience))?;
        Ok(Lane {
            trains: Trains::new(join_segments(&socket).is_ok()),
            socket,
            incoming: Incoming::new(MESSAGES),
            outgoing: Outgoing::new(MESSAGES),
            bytes: vec![0; MESSAGES * STRIDE],
            out: Vec::new(),
            room,
            requests: Vec::new(),
            members: Vec::new(),
            packets: Vec::new(),
            under_way: Vec::new(),
            claimed: 0,
            again: Vec::new(),
            is_open: false,
            first_sequence: 0,
            sent: 0,
            answered: 0,
            token,
            patience_first: options.patience,
            patience: options.patience,
            in_vain: 0,
        })
    }

    /// Forgets the last requests. Their sequence numbers are not used again.
    pub(crate) fn clear(&mut self) {
        self.first_sequence += self.packets.len() as u64;
        self.out.clear();
        self.trains.clear();
        self.requests.clear();
        self.members.clear();
        self.packets.clear();
        self.under_way.clear();
        self.again.clear();
        self.is_open = false;
        (self.sent, self.answered, self.claimed, self.in_vain) = (0, 0, 0, 0);
    }

    /// Appends a request of `size` bytes, to the last datagram where it fits.
    #[inline]
    pub(crate) fn pack(
        &mut self,
        number: u32,
        request: &Request<'_>,
        size: usize,
        requests_max: usize,
    ) {
        let is_get = matches!(request, Request::Get(_));
        self.make_room(size, is_get, requests_max);
        let (start, packet) = (self.out.len(), NONE);
        let bytes = size as u16;
        self.members.push(self.requests.len() as u32);
        self.requests.push(Asked { number, packet, start, bytes, is_get, is_answered: false });
        request.write(&mut self.out);
    }

    /// Begins a datagram, unless a request of `size` bytes goes into the last one.
    #[inline]
    fn make_room(&mut self, size: usize, is_get: bool, requests_max: usize) {
        let goes = self.packets.last().is_some_and(|packet| {
            self.is_open
                && self.out.len() - packet.place.start + size <= DATAGRAM_BYTES_MAX
                && self.members.len() - packet.members.start < requests_max
                && packet.gets + usize::from(is_get) <= self.room.gets_max()
        });
        if !goes {
            self.end();
            let (start, first) = (self.out.len(), self.members.len());
            self.out.extend_from_slice(&[0; HEADER_BYTES]);
            let (place, members) = (start..start, first..first);
            self.packets.push(Packet { place, members, waiting: 0, gets: 0, room: 0 });
            self.is_open = true;
        }
        if let Some(packet) = self.packets.last_mut() {
            packet.gets += usize::from(is_get);
        }
    }

    /// Ends the last datagram. Zeroes behind it make it as long as those before it, with which it
    /// then leaves in one message.
    pub(crate) fn end(&mut self) {
        let is_open = std::mem::take(&mut self.is_open);
        let Some(packet) = self.packets.last_mut().filter(|_| is_open) else { return };
        let start = packet.place.start;
        let bytes = self.trains.lengthened((), self.out.len() - start);
        self.out.resize(start + bytes, 0);
        packet.place.end = self.out.len();
        self.trains.add((), packet.place.clone());
        packet.members.end = self.members.len();
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.answered < self.requests.len()
    }

    /// Sends datagrams that were not sent yet, while no more than `window` are under way, and the
    /// socket has room for what answers them.
    pub(crate) fn send(&mut self, window: usize, requests_max: usize) -> io::Result<()> {
        self.pack_again(requests_max);
        let first = self.sent;
        while let Some(packet) = self.packets.get_mut(self.sent) {
            let room = self.room.needed(packet.gets, packet.members.len() - packet.gets);
            let is_full =
                self.under_way.len() >= window || self.claimed + room > self.room.datagrams();
            if is_full && !self.under_way.is_empty() {
                break;
            }
            packet.room = room;
            let number = self.sent as u32;
            for member in &self.members[packet.members.clone()] {
                let asked = &mut self.requests[*member as usize];
                // Of what was packed again a late reply may have come meanwhile.
                if !asked.is_answered {
                    asked.packet = number;
                    packet.waiting += 1;
                }
            }
            if packet.waiting > 0 {
                self.under_way.push(number);
                self.claimed += room;
            }
            self.sent += 1;
        }
        if first < self.sent { self.transmit(first..self.sent) } else { Ok(()) }
    }

    /// Packs what is to be sent again.
    fn pack_again(&mut self, requests_max: usize) {
        if self.again.is_empty() {
            return;
        }
        self.trains.clear();
        let mut again = std::mem::take(&mut self.again);
        for n in again.drain(..) {
            let Asked { start, bytes, is_get, is_answered, .. } = self.requests[n as usize];
            // Its reply may have come late.
            if is_answered {
                continue;
            }
            let bytes = usize::from(bytes);
            self.make_room(bytes, is_get, requests_max);
            self.requests[n as usize].start = self.out.len();
            self.members.push(n);
            self.out.extend_from_within(start..start + bytes);
        }
        self.end();
        self.again = again;
    }

    /// Gives up on what is under way, so that what of it is not answered is sent again; how many
    /// datagrams that are. An error if nothing new has come so often as `attempts_max`.
    pub(crate) fn give_up(&mut self, attempts_max: usize) -> io::Result<u64> {
        self.try_in_vain(attempts_max)?;
        for number in &self.under_way {
            let packet = &mut self.packets[*number as usize];
            packet.waiting = 0;
            for member in &self.members[packet.members.clone()] {
                let asked = &mut self.requests[*member as usize];
                if asked.packet == *number {
                    asked.packet = NONE;
                    self.again.push(*member);
                }
            }
        }
        let count = self.under_way.len() as u64;
        self.under_way.clear();
        self.claimed = 0;
        let longest = self.patience_first * (1 << PATIENCE_DOUBLINGS);
        self.wait_up_to((self.patience * 2).min(longest))?;
        Ok(count)
    }

    /// Counts an attempt that nothing new came of.
    fn try_in_vain(&mut self, attempts_max: usize) -> io::Result<()> {
        self.in_vain += 1;
        if self.in_vain < attempts_max {
            return Ok(());
        }
        let message = format!("nobody answers {attempts_max} times");
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    }

    fn wait_up_to(&mut self, patience: Duration) -> io::Result<()> {
        if self.patience != patience {
            self.patience = patience;
            self.socket.set_read_timeout(Some(patience))?;
        }
        Ok(())
    }

    /// Sends those of these packets that wait for replies; such as are of one length and follow
    /// each other as one message.
    fn transmit(&mut self, packets: Range<usize>) -> io::Result<()> {
        self.trains.clear();
        for n in packets {
            let packet = &self.packets[n];
            if packet.waiting == 0 {
                continue;
            }
            let header = Header {
                kind: Kind::Requests,
                room: packet.room as u8,
                count: packet.members.len() as u16,
                sequence: self.first_sequence + n as u64,
                word: self.token,
            };
            self.out[packet.place.start..][..HEADER_BYTES].copy_from_slice(&header.bytes());
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
    pub(crate) fn receive(
        &mut self,
        attempts_max: usize,
        take: &mut impl FnMut(usize, Reply<'_>),
    ) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let received = self.incoming.receive(&self.socket, &mut bytes, SLOT_BYTES, STRIDE);
        let outcome = received.and_then(|count| {
            for n in 0..count {
                let slot = &bytes[n * STRIDE..];
                for place in self.incoming.arrival(n).datagrams() {
                    self.note(&slot[place], attempts_max, take)?;
                }
            }
            Ok(())
        });
        self.bytes = bytes;
        outcome
    }

    /// Takes a datagram; one that answers nothing of this call is left out.
    fn note(
        &mut self,
        datagram: &[u8],
        attempts_max: usize,
        take: &mut impl FnMut(usize, Reply<'_>),
    ) -> io::Result<()> {
        let Ok((header, rest)) = Header::read(datagram) else { return Ok(()) };
        let number = header.sequence.checked_sub(self.first_sequence);
        let number = number.filter(|number| *number < self.sent as u64).unwrap_or(u64::MAX);
        let Ok(number) = u32::try_from(number) else { return Ok(()) };
        match header.kind {
            Kind::Replies => {}
            Kind::Refusal => return Err(refused(header.word)),
            _ => return Ok(()),
        }
        let Range { start, end } = self.packets[number as usize].members;
        let first = (start + header.place().0).min(end);
        let replies = Replies::new(rest, header.count).flatten();
        let (mut here, mut answered, mut no_room) = (0, 0, 0);
        let (mut gets, mut get_bytes) = (0, 0);
        for (reply, member) in replies.zip(first..end) {
            let member = self.members[member];
            let asked = &mut self.requests[member as usize];
            if asked.is_answered {
                continue;
            }
            let packet = asked.packet;
            if reply == Reply::NoRoom {
                no_room += 1;
                // Otherwise it has been sent again.
                if packet == number {
                    here += 1;
                    asked.packet = NONE;
                    self.again.push(member);
                }
                continue;
            }
            (asked.is_answered, asked.packet) = (true, NONE);
            answered += 1;
            gets += usize::from(asked.is_get);
            get_bytes += if asked.is_get { reply.size() } else { 0 };
            take(asked.number as usize, reply);
            match packet {
                NONE => {}
                _ if packet == number => here += 1,
                _ => self.leave(packet, 1),
            }
        }
        self.leave(number, here);
        self.room.learn(gets, get_bytes, no_room);
        self.answered += answered;
        if answered > 0 {
            self.in_vain = 0;
            return self.wait_up_to(self.patience_first);
        }
        if no_room > 0 { self.try_in_vain(attempts_max) } else { Ok(()) }
    }

    /// So many requests are no more under way in packet `number`.
    fn leave(&mut self, number: u32, count: usize) {
        let packet = &mut self.packets[number as usize];
        packet.waiting -= count;
        if count > 0 && packet.waiting == 0 {
            self.claimed -= packet.room;
            self.under_way.retain(|other| *other != number);
        }
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
