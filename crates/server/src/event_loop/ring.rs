//! The loop over io_uring: the kernel puts what comes into buffers of the ring, and all replies of
//! a turn leave with the call that waits for the next.
//!
//! Listeners and the waker stay with the poll, which the ring watches as one more descriptor:
//! nothing of what they tell happens often.

use super::EventLoop;
use crate::EventLoopKind;
use crate::conn::Conn;
use crate::socket::Socket;
use mio::Events;
use rustix::io::Errno;
use silica_commands::{Budget, Owner};
use silica_net::{SocketEvent, SocketRing};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

/// Bytes received and not parsed after which a connection is not received from, unless its
/// request has announced more.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Bytes that may wait on a connection when memory is short.
const SCARCE_INPUT_BYTES_MAX: usize = 8 << 10;
/// Bits of a token that name the connection's place; the others are of its number.
const SLOT_BITS: u32 = 24;
const NUMBER_MASK: u64 = (1 << 36) - 1;

/// A loop's ring.
pub(super) struct Ring {
    sockets: SocketRing,
    /// The poll is watched.
    watching: bool,
    /// Times that it was waited.
    turn: u64,
}

/// An error where `kind` wants a ring and there is none.
pub(super) fn check(kind: EventLoopKind) -> io::Result<()> {
    if kind != EventLoopKind::IoUring {
        return Ok(());
    }
    // On a thread of its own: whose ring ends is interrupted.
    let probed = std::thread::spawn(|| SocketRing::new().map(drop)).join();
    probed.unwrap_or_else(|_| Err(ErrorKind::Other.into()))
}

/// A ring of the calling thread, where `kind` wants one and the kernel has one.
pub(super) fn choose(kind: EventLoopKind) -> io::Result<Option<Ring>> {
    if kind == EventLoopKind::Epoll {
        return Ok(None);
    }
    match SocketRing::new() {
        Ok(sockets) => Ok(Some(Ring { sockets, watching: false, turn: 0 })),
        Err(e) if kind == EventLoopKind::Auto => {
            log::info!("no io_uring for sockets ({e}); event loops use epoll");
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn token(owner: Owner) -> u64 {
    owner.slot as u64 | (owner.client & NUMBER_MASK) << SLOT_BITS
}

/// The connection that `token` was made for, where it is still there.
fn find(conns: &mut [Option<Box<Conn>>], of: u64) -> Option<&mut Conn> {
    let slot = (of & ((1 << SLOT_BITS) - 1)) as usize;
    let conn = conns.get_mut(slot)?.as_deref_mut()?;
    (token(conn.owner) == of).then_some(conn)
}

impl Ring {
    /// Ends what is under way on `socket`, and closes it when no entry names it any more.
    pub(super) fn close(&mut self, socket: Socket) {
        socket.end();
        self.sockets.release(socket);
    }
}

impl Conn {
    /// True where what came has to be parsed before more may come. What a parser has seen and
    /// cannot finish does not count: most requests announce one part after the other, so nobody
    /// knows how much is still to come. The parser's limits bound it.
    fn is_full(&self, input_bytes_max: usize) -> bool {
        let is_busy = self.in_flight.is_some() || self.planned.is_some();
        // What it has begun goes on when what came before it is answered.
        if is_busy && input_bytes_max < INPUT_BYTES_MAX {
            return self.state.input.len() >= input_bytes_max;
        }
        self.state.input.len()
            >= (self.state.parsed_bytes + input_bytes_max).max(self.state.needed_bytes())
    }

    /// True where it must be served although nothing came.
    fn needs_service(&self) -> bool {
        self.out.len() > 0
            || !self.messages.is_empty()
            || !self.receiving
            || self.state.closing
            || self.has_more()
    }
}

impl EventLoop {
    /// Submits what the last turn has asked for, waits, and takes in what happened.
    pub(super) fn wait_for_ring(&mut self, events: &mut Events, time: Duration) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if !ring.watching {
            ring.watching = true;
            ring.sockets.watch(self.poll.registry().as_fd(), 0);
        }
        ring.turn += 1;
        ring.sockets.wait(time)?;
        self.now_ms = self.service.monotonic_ms();
        let broken = self.take_events();
        broken.into_iter().for_each(|slot| self.close(slot));
        if self.ring.as_ref().is_some_and(|ring| !ring.watching) {
            self.look(events, Duration::ZERO)?;
        }
        Ok(())
    }

    /// Takes in what happened; connections that are to be closed.
    fn take_events(&mut self) -> Vec<usize> {
        let mut broken = Vec::new();
        let Some(ring) = &mut self.ring else { return broken };
        let stats = &self.service.stats;
        let input_bytes_max = input_bytes_max(&self.service.budget);
        while let Some(event) = ring.sockets.next() {
            let conn = match event {
                SocketEvent::Ready { .. } => {
                    ring.watching = false;
                    continue;
                }
                SocketEvent::Received { token, bytes, more } => {
                    let Some(conn) = find(&mut self.conns, token) else { continue };
                    stats.add(|s| &s.total_net_input_bytes, bytes.len() as u64);
                    conn.receiving = more;
                    conn.received_ms = self.now_ms;
                    if !conn.state.closing {
                        if conn.state.input.capacity() == 0 {
                            conn.state.input = self.spare_bytes.pop().unwrap_or_default();
                        }
                        conn.keep(bytes);
                    }
                    if more && !conn.pausing && conn.is_full(input_bytes_max) {
                        conn.pausing = true;
                        ring.sockets.pause(token);
                    }
                    conn
                }
                SocketEvent::Stopped { token, result } => {
                    let Some(conn) = find(&mut self.conns, token) else { continue };
                    (conn.receiving, conn.pausing) = (false, false);
                    match result {
                        Ok(()) => conn.state.closing = true,
                        Err(e) if is_passing(&e) => {}
                        Err(_) => broken.push(conn.owner.slot),
                    }
                    conn
                }
                SocketEvent::Sent { token, bytes, result } => {
                    let Some(conn) = find(&mut self.conns, token) else { continue };
                    let sent = match result {
                        Err(e) if is_passing(&e) => 0,
                        Ok(sent) if sent > 0 => sent,
                        _ => {
                            broken.push(conn.owner.slot);
                            continue;
                        }
                    };
                    stats.add(|s| &s.total_net_output_bytes, sent as u64);
                    if sent > 0 {
                        conn.progress_ms = self.now_ms;
                    }
                    self.spare_bytes.extend(conn.out.take_back(bytes, sent));
                    if !conn.needs_service() {
                        continue;
                    }
                    conn
                }
            };
            if !conn.queued {
                conn.queued = true;
                self.ready.push(conn.owner.slot);
            }
        }
        super::trim(&mut self.spare_bytes);
        broken
    }

    /// Hands the next replies of a connection to the ring.
    pub(super) fn lend(&mut self, slot: usize) -> io::Result<()> {
        let (Some(conn), Some(ring)) = (&mut self.conns[slot], &mut self.ring) else {
            return Ok(());
        };
        conn.take_messages();
        if conn.out.len() == 0 {
            conn.progress_ms = self.now_ms;
            return Ok(());
        }
        // What was lent in an earlier turn and is not back found the socket full.
        let is_stuck = conn.out.is_lent() && conn.lent_in < ring.turn;
        if is_stuck && !conn.state.session.let_in && conn.out.len() > super::STRANGER_OUT_BYTES_MAX
        {
            return Err(ErrorKind::PermissionDenied.into());
        }
        if let Some((bytes, from)) = conn.out.lend() {
            conn.lent_in = ring.turn;
            ring.sockets.send(conn.socket.as_fd(), bytes, from, token(conn.owner));
        }
        Ok(())
    }

    /// Asks for what comes on a connection, where that is not so already and there is room.
    pub(super) fn receive(&mut self, slot: usize) {
        let input_bytes_max = input_bytes_max(&self.service.budget);
        let (Some(conn), Some(ring)) = (&mut self.conns[slot], &mut self.ring) else { return };
        if !conn.receiving && !conn.state.closing && !conn.is_full(input_bytes_max) {
            conn.receiving = true;
            ring.sockets.receive(conn.socket.as_fd(), token(conn.owner));
        }
    }
}

fn input_bytes_max(budget: &Budget) -> usize {
    if budget.is_tight() { SCARCE_INPUT_BYTES_MAX } else { INPUT_BYTES_MAX }
}

/// True for errors after which the same is tried again.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::NOBUFS, Errno::CANCELED, Errno::INTR, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}
