//! One connection: its socket, buffers and state.

use crate::socket::Socket;
use crate::tls;
use silica_commands::{Client, ClientState, Input, Owner, Request};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

/// Replies are put together in chunks of about this size.
const CHUNK_BYTES: usize = 64 << 10;

/// Memory of a connection that does nothing.
pub(crate) const CONNECTION_BYTES: usize = size_of::<Conn>() + size_of::<Client>() + 128;

/// Replies that the socket has not taken yet.
#[derive(Default)]
pub(crate) struct OutQueue {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the first chunk that are sent.
    sent: usize,
    /// The first chunk is lent to whoever sends it.
    lent: bool,
    bytes: usize,
}

impl OutQueue {
    /// Bytes waiting.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Memory held.
    fn held_bytes(&self) -> usize {
        self.bytes + self.sent
    }

    /// Queues `bytes`; returns the allocation where it is not kept.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        self.bytes += bytes.len();
        match self.chunks.back_mut() {
            Some(last) if last.len() + bytes.len() <= CHUNK_BYTES => {
                last.extend_from_slice(&bytes);
                Some(bytes)
            }
            _ if bytes.is_empty() => Some(bytes),
            _ => {
                self.chunks.push_back(bytes);
                None
            }
        }
    }

    /// The first chunk and how much of it was sent, until [`OutQueue::take_back`]; nothing where
    /// there is none or it is lent already.
    pub(crate) fn lend(&mut self) -> Option<(Vec<u8>, usize)> {
        if self.lent {
            return None;
        }
        let chunk = self.chunks.pop_front()?;
        self.lent = true;
        Some((chunk, self.sent))
    }

    /// True while a chunk is lent.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent
    }

    /// Takes the chunk that was lent, of which `more` bytes were sent; its allocation where all
    /// of it was.
    pub(crate) fn take_back(&mut self, mut chunk: Vec<u8>, more: usize) -> Option<Vec<u8>> {
        self.lent = false;
        self.sent += more;
        self.bytes -= more;
        if self.sent < chunk.len() {
            self.chunks.push_front(chunk);
            self.trim();
            return None;
        }
        self.sent = 0;
        chunk.clear();
        Some(chunk)
    }

    /// Gives back what a large chunk holds although most of it is sent.
    fn trim(&mut self) {
        if let Some(first) = self.chunks.front_mut()
            && self.sent > first.len().max(4 * CHUNK_BYTES) / 2
        {
            first.drain(..self.sent);
            first.shrink_to_fit();
            self.sent = 0;
        }
    }

    /// Sends until everything is out (true) or the socket is full (false); sent chunks go to
    /// `spare`, emptied.
    fn flush(&mut self, socket: &mut impl Write, spare: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        while let Some(first) = self.chunks.front() {
            match socket.write(&first[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.sent += n;
                    self.bytes -= n;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.trim();
                    return Ok(false);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            if self.sent == first.len() {
                self.sent = 0;
                if let Some(mut chunk) = self.chunks.pop_front() {
                    chunk.clear();
                    spare.push(chunk);
                }
            }
        }
        Ok(true)
    }
}

/// Planned requests that wait to run (again).
pub(crate) struct Planned {
    pub(crate) input: Input,
    /// First request that has not run.
    pub(crate) next: usize,
}

impl Planned {
    /// Requests that have not run.
    pub(crate) fn left(&self) -> &[Request] {
        &self.input.requests[self.next..]
    }
}

/// A connection.
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    /// What comes and what leaves passes it, where it is there.
    pub(crate) tls: Option<Box<tls::Session>>,
    pub(crate) owner: Owner,
    /// What its requests are planned from.
    pub(crate) state: ClientState,
    pub(crate) out: OutQueue,
    /// Messages of channels that wait until the requests under way are answered.
    pub(crate) messages: Vec<u8>,
    pub(crate) planned: Option<Planned>,
    /// Its requests are queued or running, in a burst of this many bytes.
    pub(crate) in_flight: Option<usize>,
    /// Its next request waits for something, until this time of the monotonic clock.
    pub(crate) waits_until_ms: Option<u64>,
    /// Nobody has woken it.
    pub(crate) parked: bool,
    /// It was woken since its requests began to run.
    pub(crate) woken: bool,
    /// Over io_uring: whatever comes is told, and it was asked to be told no more.
    pub(crate) receiving: bool,
    pub(crate) pausing: bool,
    /// The loop's turn in which a chunk was lent last.
    pub(crate) lent_in: u64,
    /// The socket may have something to read; take something to write.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other side has sent its last byte.
    pub(crate) hung_up: bool,
    /// It stands in the loop's list of connections to be served.
    pub(crate) queued: bool,
    /// When the socket last took a byte, or had nothing to take.
    pub(crate) progress_ms: u64,
    /// When a byte last came, or requests before it were done.
    pub(crate) received_ms: u64,
    pub(crate) born_ms: u64,
    /// What the loop has counted for it.
    pub(crate) counted_bytes: usize,
}

impl Conn {
    pub(crate) fn new(socket: Socket, slot: usize, state: ClientState, now_ms: u64) -> Self {
        Conn {
            socket,
            tls: None,
            owner: Owner { slot, client: state.client.id },
            state,
            out: OutQueue::default(),
            messages: Vec::new(),
            planned: None,
            in_flight: None,
            waits_until_ms: None,
            parked: false,
            woken: false,
            receiving: false,
            pausing: false,
            lent_in: 0,
            readable: false,
            writable: true,
            hung_up: false,
            queued: false,
            progress_ms: now_ms,
            received_ms: now_ms,
            born_ms: now_ms,
            counted_bytes: 0,
        }
    }

    /// Memory that this connection makes the server hold, but for what it counts itself: what it
    /// listens to, watches and has queued.
    pub(crate) fn held_bytes(&self) -> usize {
        CONNECTION_BYTES
            + self.request_bytes()
            + self.out.held_bytes()
            + self.messages.capacity()
            + self.tls.as_ref().map_or(0, |tls| tls.held_bytes())
    }

    /// Of that, what requests take that are not yet answered.
    pub(crate) fn request_bytes(&self) -> usize {
        self.state.held_bytes()
            + self.planned.as_ref().map_or(0, |work| work.input.held_bytes())
            + self.in_flight.unwrap_or(0)
    }

    /// Reads once into `scratch` and keeps what came. `Ok(0)` where nothing came.
    pub(crate) fn read(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(scratch) {
                Ok(0) => {
                    self.readable = false;
                    self.state.closing = true;
                    return Ok(0);
                }
                Ok(n) => {
                    // A short read has emptied the socket, and the next byte raises a new event;
                    // but no event follows the end when it came together with these bytes.
                    self.readable = n == scratch.len() || self.hung_up;
                    self.keep(&scratch[..n]);
                    return Ok(n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(0);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes what came from the socket.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        let Some(mut tls) = self.tls.take() else { return self.state.keep(bytes) };
        let more = tls.open(bytes, |plain| self.state.keep(plain));
        self.state.closing |= !more;
        self.tls = Some(tls);
        if self.tls.as_ref().is_some_and(|tls| tls.has_to_send()) {
            self.push(Vec::new());
        }
    }

    /// Queues what is to be sent; returns the allocation where it is not kept.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let Some(tls) = &mut self.tls else { return self.out.push(bytes) };
        if let Some(unused) = self.out.push(tls.seal(&bytes)) {
            tls.reuse(unused);
        }
        Some(bytes)
    }

    /// Queues what ends a connection that has nothing else to send; false where nothing does.
    pub(crate) fn say_farewell(&mut self) -> bool {
        let says = self.tls.as_mut().is_some_and(|tls| tls.say_farewell());
        if says {
            self.push(Vec::new());
        }
        says
    }

    /// Moves the messages of channels behind the replies, where none is under way.
    pub(crate) fn take_messages(&mut self) {
        if !self.messages.is_empty() && self.in_flight.is_none() && self.planned.is_none() {
            let messages = std::mem::take(&mut self.messages);
            self.push(messages);
        }
    }

    /// True where the parser has seen the beginning of a request, nothing else is going on, and
    /// nothing has come for more than `ms_max` milliseconds.
    pub(crate) fn has_stuck_request(&self, now_ms: u64, ms_max: u64) -> bool {
        self.state.waits_for_more()
            && self.in_flight.is_none()
            && self.planned.is_none()
            && now_ms - self.received_ms.max(self.progress_ms) > ms_max
    }

    /// True where nothing is asked and nothing was for more than `ms_max` milliseconds. Whoever
    /// listens to channels waits for what others say.
    pub(crate) fn has_left(&self, now_ms: u64, ms_max: u64) -> bool {
        self.in_flight.is_none()
            && self.planned.is_none()
            && self.out.len() == 0
            && now_ms - self.received_ms > ms_max
            && !self.state.client.is_listening()
            && !self.state.client.is_monitor()
            && !self.state.client.is_replica()
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self, spare: &mut Vec<Vec<u8>>, now_ms: u64) -> io::Result<usize> {
        let before = self.out.len();
        if before > 0 && self.writable {
            self.writable = self.out.flush(&mut self.socket, spare)?;
        }
        if self.out.len() < before || before == 0 {
            self.progress_ms = now_ms;
        }
        Ok(before - self.out.len())
    }

    /// Tells a statement of SQL that is under way if the client has closed its side.
    pub(crate) fn tell_if_left(&self) {
        if self.hung_up || self.state.closing {
            self.state.session.leave();
        }
    }

    /// True where nothing is left to be done before the connection ends.
    pub(crate) fn is_finished(&self) -> bool {
        self.state.closing
            && self.in_flight.is_none()
            && self.planned.is_none()
            && self.out.len() == 0
            && !self.state.unplanned
    }

    /// True where it could go on now.
    pub(crate) fn has_more(&self) -> bool {
        self.in_flight.is_none()
            && !self.parked
            && (self.planned.is_some()
                || self.state.unplanned
                || (self.readable && !self.state.closing)
                || self.is_finished())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `left` bytes, at most three at once, and then blocks.
    struct Slow {
        taken: Vec<u8>,
        left: usize,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(3).min(self.left);
            if n == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.left -= n;
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn replies_that_are_lent_leave_in_order_however_slowly() {
        let mut queue = OutQueue::default();
        let (mut want, mut got) = (Vec::new(), Vec::new());
        let mut at_once = [1, 70_000, 3, 1 << 20].into_iter().cycle();
        for byte in 0..100u8 {
            let chunk = vec![byte; usize::from(byte) * 3000];
            want.extend_from_slice(&chunk);
            queue.push(chunk);
            let Some((chunk, from)) = queue.lend() else { continue };
            assert!(queue.is_lent() && queue.lend().is_none());
            let to = chunk.len().min(from + at_once.next().unwrap());
            got.extend_from_slice(&chunk[from..to]);
            queue.take_back(chunk, to - from);
            assert_eq!(queue.len(), want.len() - got.len());
        }
        while let Some((chunk, from)) = queue.lend() {
            got.extend_from_slice(&chunk[from..]);
            let sent = chunk.len() - from;
            assert!(queue.take_back(chunk, sent).unwrap().is_empty());
        }
        assert!(got == want && queue.len() == 0 && queue.held_bytes() == 0);
    }

    #[test]
    fn replies_leave_in_order_however_slowly() {
        let mut queue = OutQueue::default();
        let mut want = Vec::new();
        for byte in 0..200u8 {
            let chunk = vec![byte; usize::from(byte) * 20];
            want.extend_from_slice(&chunk);
            queue.push(chunk);
        }
        let mut slow = Slow { taken: Vec::new(), left: 0 };
        let mut spare = Vec::new();
        while !queue.flush(&mut slow, &mut spare).unwrap() {
            assert_eq!(queue.len(), want.len() - slow.taken.len());
            slow.left = 1001;
        }
        assert!(slow.taken == want && queue.len() == 0);
        assert!(!spare.is_empty() && spare.iter().all(Vec::is_empty));
    }
}
