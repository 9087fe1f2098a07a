//! The client of loads over UDP: sockets of one thread, each with a train of datagrams under way,
//! which leaves in one system call.

use super::Done;
use super::script::{Heard, Script, nonsense};
use silica::{Error, ErrorKind, Result};
use silica_net::datagrams::{
    Incoming, Message, Outgoing, RECEIVE_BYTES, SLOT_BYTES, STRIDE, Train, Trains, join_segments,
    set_receive_bytes,
};
use silica_proto::datagram::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, Kind, PASS_BYTES};
use silica_proto::memcached::{FRAME_BYTES, Frame};
use std::io;
use std::mem::take;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::{Duration, Instant};

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// On the loopback device, what has not come by then is lost.
const PATIENCE: Duration = Duration::from_millis(20);
/// Messages of one system call.
const MESSAGES: usize = 64;
/// Times that the directory is asked for.
const ASKS_MAX: usize = 100;

/// What stands before the words of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The frame of memcached's datagrams.
    Memcached,
    /// The header of our own, whose datagrams are joined to trains.
    Own,
}

impl Framing {
    /// Its bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Framing::Memcached => FRAME_BYTES,
            Framing::Own => HEADER_BYTES,
        }
    }

    /// True where zeroes behind the words mean nothing.
    fn is_lengthened(self) -> bool {
        self == Framing::Own
    }

    /// Writes it over the beginning of a datagram of so many requests.
    fn write(self, datagram: &mut [u8], count: u64, token: u64) {
        match self {
            Framing::Memcached => {
                datagram[..FRAME_BYTES]
                    .copy_from_slice(&Frame { id: 0, number: 0, count: 1 }.bytes());
            }
            Framing::Own => {
                let (kind, room, count) = (Kind::Requests, 0, count as u16);
                let header = Header { kind, room, count, sequence: 0, word: token };
                datagram[..HEADER_BYTES].copy_from_slice(&header.bytes());
            }
        }
    }

    /// Numbers a datagram.
    fn number(self, datagram: &mut [u8], number: u64) {
        match self {
            Framing::Memcached => datagram[..2].copy_from_slice(&(number as u16).to_be_bytes()),
            Framing::Own => datagram[8..16].copy_from_slice(&number.to_le_bytes()),
        }
    }

    /// How far the number of a reply is behind `first`, which of a late one is far; nothing where
    /// it is no reply.
    fn place(self, reply: &[u8], first: u64) -> Option<usize> {
        Some(match self {
            Framing::Memcached => usize::from(Frame::read(reply)?.id.wrapping_sub(first as u16)),
            Framing::Own => Header::read(reply).ok()?.0.sequence.wrapping_sub(first) as usize,
        })
    }
}

/// A datagram.
#[derive(Debug, Clone)]
struct Packet {
    /// Its place among the bytes of its lane.
    place: Range<usize>,
    /// Its words are this train of the script.
    words: usize,
}

/// Datagrams that leave together.
#[derive(Debug, Clone)]
struct Group {
    packets: Vec<Packet>,
    trains: Trains<()>,
}

/// One socket.
struct Lane {
    end: UdpSocket,
    script: Script,
    out: Vec<u8>,
    groups: Vec<Group>,
    /// The group under way, or the next.
    group: usize,
    /// The number of its first datagram.
    first: u64,
    answered: Vec<bool>,
    left: usize,
    /// When it was sent, and when something of it was last.
    sent: Instant,
    sent_last: Instant,
}

/// Sockets of one thread.
pub(crate) struct Datagrams {
    name: &'static str,
    framing: Framing,
    lanes: Vec<Lane>,
    incoming: Incoming,
    outgoing: Outgoing,
    bytes: Vec<u8>,
    done: Done,
    now: Instant,
}

impl Datagrams {
    /// A client that sends each of `scripts` to `address` over a socket of its own, `depth`
    /// datagrams at once.
    pub(crate) fn connect(
        name: &'static str,
        address: SocketAddr,
        framing: Framing,
        scripts: Vec<Script>,
        depth: usize,
    ) -> Result<Self> {
        Self::connect_by(name, address, framing, scripts, depth, true)
    }

    /// Connects to an echo, which has no directory.
    pub(crate) fn connect_echo(
        address: SocketAddr,
        framing: Framing,
        scripts: Vec<Script>,
        depth: usize,
    ) -> Result<Self> {
        Self::connect_by("the echo", address, framing, scripts, depth, false)
    }

    fn connect_by(
        name: &'static str,
        address: SocketAddr,
        framing: Framing,
        scripts: Vec<Script>,
        depth: usize,
        asks: bool,
    ) -> Result<Self> {
        let lane = |script| {
            let opened = open(address);
            let (end, joins) =
                opened.map_err(|e| Error::io(format!("opening a socket for {name}"), e))?;
            let token = match framing {
                Framing::Own if asks => ask(name, &end)?,
                _ => 0,
            };
            end.set_nonblocking(true)
                .map_err(|e| Error::io(format!("opening a socket for {name}"), e))?;
            Lane::new(end, joins, script, framing, token, depth)
        };
        Ok(Datagrams {
            name,
            framing,
            lanes: scripts.into_iter().map(lane).collect::<Result<_>>()?,
            incoming: Incoming::new(MESSAGES),
            outgoing: Outgoing::new(MESSAGES),
            bytes: vec![0; MESSAGES * STRIDE],
            done: Done::default(),
            now: Instant::now(),
        })
    }

    /// Says every script once; what that did.
    pub(crate) fn once(&mut self) -> Result<Done> {
        self.go_on(None)
    }

    /// Goes on for `time`, or longer until something is done, and waits for what is under way then;
    /// what was done within the time.
    pub(crate) fn slice(&mut self, time: Duration) -> Result<Done> {
        self.go_on(Some(time))
    }

    /// Until the time is over; once where there is none.
    fn go_on(&mut self, time: Option<Duration>) -> Result<Done> {
        let began = Instant::now();
        (self.now, self.done) = (began, Done::default());
        for lane in &mut self.lanes {
            lane.send(self.framing, &mut self.outgoing, self.now).map_err(failed(self.name))?;
        }
        let mut over = None;
        let mut heard = began;
        while self.lanes.iter().any(|lane| lane.left > 0) {
            let before = self.now;
            let came = self.round(over.is_none(), time.is_none())?;
            self.now = Instant::now();
            if came == 0 {
                self.done.idle_seconds += (self.now - before).as_secs_f64();
                self.send_again()?;
                if self.now - heard > SILENCE_MAX {
                    let message = format!("{} does not answer", self.name);
                    return Err(Error::new(ErrorKind::Io, message));
                }
                std::hint::spin_loop();
            } else {
                heard = self.now;
            }
            let is_over = time.is_some_and(|time| self.now - began >= time);
            if over.is_none() && is_over && self.done.operations > 0 {
                self.done.seconds = (self.now - began).as_secs_f64();
                over = Some(take(&mut self.done));
            }
        }
        self.done.seconds = began.elapsed().as_secs_f64();
        Ok(over.unwrap_or(take(&mut self.done)))
    }

    /// Hears what came over each socket, and sends the next groups where `more` may begin; how many
    /// datagrams came.
    fn round(&mut self, more: bool, once: bool) -> Result<usize> {
        let mut all = 0;
        for lane in self.lanes.iter_mut().filter(|lane| lane.left > 0) {
            let received = self.incoming.receive(&lane.end, &mut self.bytes, SLOT_BYTES, STRIDE);
            let count = match received {
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(e) => return Err(failed(self.name)(e)),
            };
            for n in 0..count {
                let arrival = self.incoming.arrival(n);
                let slot = &self.bytes[n * STRIDE..];
                for place in arrival.datagrams() {
                    all += 1;
                    lane.hear(self.name, self.framing, &slot[place], &mut self.done)?;
                }
            }
            if lane.left == 0 {
                self.done.latencies.record((self.now - lane.sent).as_nanos() as u64);
                let ended = lane.next();
                if more && !(ended && once) {
                    lane.send(self.framing, &mut self.outgoing, self.now)
                        .map_err(failed(self.name))?;
                }
            }
        }
        Ok(all)
    }

    /// Sends again what was not answered in time.
    fn send_again(&mut self) -> Result<()> {
        for lane in self.lanes.iter_mut().filter(|lane| lane.left > 0) {
            if self.now - lane.sent_last > PATIENCE {
                lane.sent_last = self.now;
                self.done.sent_again += lane.left as u64;
                lane.send_unanswered(&mut self.outgoing).map_err(failed(self.name))?;
            }
        }
        Ok(())
    }
}

fn failed(name: &'static str) -> impl Fn(io::Error) -> Error {
    move |e| Error::io(format!("exchanging datagrams with {name}"), e)
}

/// A socket for a server, and whether the kernel cuts and joins its datagrams.
pub(super) fn open(address: SocketAddr) -> io::Result<(UdpSocket, bool)> {
    let end = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    end.connect(address)?;
    end.set_read_timeout(Some(PATIENCE))?;
    set_receive_bytes(&end, RECEIVE_BYTES);
    let joins = join_segments(&end).is_ok();
    Ok((end, joins))
}

/// Asks for the token of a socket.
pub(super) fn ask(name: &str, end: &UdpSocket) -> Result<u64> {
    let header = Header { kind: Kind::Ask, room: 0, count: 0, sequence: 0, word: 0 };
    // The server answers with no more than it was sent.
    let mut question = [&header.bytes()[..], &[0; PASS_BYTES]].concat();
    question.resize(DATAGRAM_BYTES_MAX, 0);
    let mut answer = [0; DATAGRAM_BYTES_MAX];
    for _ in 0..ASKS_MAX {
        let came = end.send(&question).and_then(|_| end.recv(&mut answer));
        let Ok(len) = came else { continue };
        if let Ok((header, _)) = Header::read(&answer[..len])
            && header.kind == Kind::Directory
        {
            return Ok(header.word);
        }
    }
    Err(Error::new(ErrorKind::Io, format!("{name} tells no directory")))
}

impl Lane {
    fn new(
        end: UdpSocket,
        joins: bool,
        script: Script,
        framing: Framing,
        token: u64,
        depth: usize,
    ) -> Result<Self> {
        let (mut out, mut groups) = (Vec::new(), Vec::new());
        let trains: Vec<usize> = (0..script.trains()).collect();
        for trains in trains.chunks(depth.max(1)) {
            let mut trains = trains.to_vec();
            // Those of one length can be joined, and one that is shorter.
            trains.sort_by_key(|train| std::cmp::Reverse(script.requests(*train).len()));
            let mut group = Group { packets: Vec::new(), trains: Trains::new(joins) };
            for words in trains {
                let (start, requests) = (out.len(), script.requests(words));
                out.resize(start + framing.bytes(), 0);
                out.extend_from_slice(requests);
                framing.write(&mut out[start..], script.operations(words), token);
                let (sent, came) = (out.len() - start, script.replies(words).len());
                if sent.max(framing.bytes() + came) > DATAGRAM_BYTES_MAX {
                    let message = "a load's requests or their replies fill several datagrams";
                    return Err(Error::new(ErrorKind::Config, message));
                }
                if framing.is_lengthened() {
                    out.resize(start + group.trains.lengthened((), sent), 0);
                }
                group.trains.add((), start..out.len());
                group.packets.push(Packet { place: start..out.len(), words });
            }
            groups.push(group);
        }
        let now = Instant::now();
        let (group, first, left, answered) = (0, 0, 0, Vec::new());
        let (sent, sent_last) = (now, now);
        Ok(Lane { end, script, out, groups, group, first, answered, left, sent, sent_last })
    }

    /// Sends the group.
    fn send(&mut self, framing: Framing, outgoing: &mut Outgoing, now: Instant) -> io::Result<()> {
        let Some(group) = self.groups.get(self.group) else { return Ok(()) };
        for (n, packet) in group.packets.iter().enumerate() {
            framing.number(&mut self.out[packet.place.start..], self.first + n as u64);
        }
        self.left = group.packets.len();
        self.answered.clear();
        self.answered.resize(self.left, false);
        (self.sent, self.sent_last) = (now, now);
        transmit(outgoing, &self.end, &self.out, group.trains.all())
    }

    fn send_unanswered(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let packets = self.groups[self.group].packets.iter().zip(&self.answered);
        let again = packets.filter(|(_, answered)| !**answered);
        let mut alone = Trains::new(false);
        again.for_each(|(packet, _)| alone.add((), packet.place.clone()));
        transmit(outgoing, &self.end, &self.out, alone.all())
    }

    /// Takes a reply; one that answers nothing that is under way is left out.
    fn hear(
        &mut self,
        name: &str,
        framing: Framing,
        datagram: &[u8],
        done: &mut Done,
    ) -> Result<()> {
        let Some(place) = framing.place(datagram, self.first) else {
            return Err(nonsense(name, datagram));
        };
        if self.answered.get(place) != Some(&false) {
            return Ok(());
        }
        let words = self.groups[self.group].packets[place].words;
        let came = &datagram[framing.bytes()..];
        let ends = |behind: &[u8]| {
            behind.is_empty() || framing.is_lengthened() && behind.iter().all(|byte| *byte == 0)
        };
        let misses = match came.strip_prefix(self.script.replies(words)) {
            Some(behind) if ends(behind) => 0,
            _ => match self.script.hear(words, came) {
                Heard::All(misses) => misses,
                Heard::More(misses, at) if ends(&came[at..]) => misses,
                _ => return Err(nonsense(name, datagram)),
            },
        };
        self.answered[place] = true;
        self.left -= 1;
        done.operations += self.script.operations(words);
        done.misses += misses;
        Ok(())
    }

    /// Goes to the next group; true where that is the first again.
    fn next(&mut self) -> bool {
        self.first += self.groups[self.group].packets.len() as u64;
        self.group = (self.group + 1) % self.groups.len();
        self.group == 0
    }
}

/// Sends these trains.
pub(super) fn transmit(
    outgoing: &mut Outgoing,
    end: &UdpSocket,
    out: &[u8],
    trains: &[Train<()>],
) -> io::Result<()> {
    let mut rest = trains;
    while !rest.is_empty() {
        let messages = rest.iter().map(|train| Message {
            to: None,
            bytes: &out[train.place.clone()],
            segment_bytes: train.segment_bytes(),
        });
        match outgoing.send(end, messages) {
            Ok(count) => rest = &rest[count..],
            // A full buffer is emptied by the server.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Load;
    use super::*;

    /// Answers what `answers` lets through, each datagram as it came, until nothing more comes.
    fn echo(answers: impl Fn(usize) -> bool + Send + 'static) -> SocketAddr {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        server.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let address = server.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut buf, mut came) = ([0; 2048], 0);
            while let Ok((len, from)) = server.recv_from(&mut buf) {
                if answers(came) {
                    server.send_to(&buf[..len], from).unwrap();
                }
                came += 1;
            }
        });
        address
    }

    #[test]
    fn what_is_lost_is_asked_again_and_each_counts_once() {
        for framing in [Framing::Memcached, Framing::Own] {
            let load = Load { connections: 2, depth: 8, ..Load::TEXT_DATAGRAMS };
            let scripts = Script::of_answers(&load, (20, 20), 3);
            let address = echo(|came| came % 4 != 0);
            let mut client = Datagrams::connect_echo(address, framing, scripts, 8).unwrap();
            for _ in 0..2 {
                let done = client.once().unwrap();
                assert_eq!((done.operations, done.misses), (2 * 8 * 3, 0), "{framing:?}");
                assert!(done.sent_again > 0 && done.latencies.count() == 2, "{done:?}");
            }
        }
    }

    #[test]
    fn replies_to_what_was_answered_before_are_left_out() {
        let load = Load { connections: 1, depth: 4, ..Load::TEXT_DATAGRAMS };
        for framing in [Framing::Memcached, Framing::Own] {
            let scripts = Script::of_answers(&load, (20, 20), 1);
            let address = echo(|_| true);
            let mut client = Datagrams::connect_echo(address, framing, scripts, 4).unwrap();
            client.once().unwrap();
            let lane = &mut client.lanes[0];
            let late = lane.out[lane.groups[0].packets[0].place.clone()].to_vec();
            let mut done = Done::default();
            lane.hear("nobody", framing, &late, &mut done).unwrap();
            assert_eq!(done.operations, 0);
        }
    }

    #[test]
    fn another_reply_than_the_expected_is_an_error() {
        let load = Load { connections: 1, depth: 4, ..Load::TEXT_DATAGRAMS };
        let scripts = Script::of_answers(&load, (20, 21), 1);
        let address = echo(|_| true);
        let mut client = Datagrams::connect_echo(address, Framing::Memcached, scripts, 4).unwrap();
        assert!(client.once().is_err());
    }

    #[test]
    fn our_own_replies_may_have_zeroes_behind_them() {
        let load = Load { connections: 1, depth: 1, ..Load::datagrams(2) };
        for framing in [Framing::Memcached, Framing::Own] {
            let scripts = Script::of_load(&load, 2, (8, 8));
            let mut client = Datagrams::connect_echo(echo(|_| true), framing, scripts, 1).unwrap();
            let (lane, words) = (&mut client.lanes[0], 0);
            let mut reply = vec![0; framing.bytes()];
            reply.extend_from_slice(lane.script.replies(words));
            framing.write(&mut reply, 2, 0);
            let mut hear = |reply: &[u8]| {
                (lane.left, lane.answered) = (1, vec![false]);
                let mut done = Done::default();
                lane.hear("nobody", framing, reply, &mut done).is_ok_and(|()| done.operations == 2)
            };
            assert!(hear(&reply));
            reply.resize(reply.len() + 8, 0);
            assert_eq!(hear(&reply), framing == Framing::Own);
            reply.push(1);
            assert!(!hear(&reply));
            // Misses are shorter.
            reply.truncate(framing.bytes());
            reply.extend_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(hear(&reply), framing == Framing::Own);
        }
    }
}
