//! One event loop: sockets in, bursts out, replies back.

mod bursts;
mod feeding;
mod parking;
mod ring;

use self::bursts::Bursts;
use self::ring::Ring;
use crate::conn::{CONNECTION_BYTES, Conn, Planned};
use crate::direct;
use crate::listeners::{AcceptOptions, Listener};
use crate::loops::Message;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::udp;
use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use silica_commands::{Address, Delivery, Executor, Input, Published, Service, plan};
use silica_proto::memcached::Protocol;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

/// The token of a loop's waker; listeners come right below it, connections count from 0.
pub(crate) const WAKER: Token = Token(usize::MAX);
/// Listeners at most.
const LISTENERS_MAX: usize = 64;
/// Sockets for datagrams at most; their tokens come below those of listeners.
const DATAGRAMS_MAX: usize = 64;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes read at once when memory is short.
const READ_FEW_BYTES: usize = 8 << 10;
/// Reads in one turn of a connection that is in the middle of a large request.
const READS_MAX: usize = 16;
/// Milliseconds between looks at idle and stalled connections.
const TICK_MS: u64 = 1000;
/// Milliseconds without accepting after the process ran out of descriptors.
const ACCEPT_PAUSE_MS: u64 = 100;
/// Reply bytes that a client without password may leave unread.
const STRANGER_OUT_BYTES_MAX: usize = 1 << 10;
/// A connection that holds less is not worth dropping for memory.
const EVICT_BYTES_MIN: usize = 4 << 10;
/// Bytes of replies that a client may leave unread when there is no memory left.
const SCARCE_OUT_BYTES_MAX: usize = 64 << 10;
/// Bytes of connections that the budget may not know of within a turn.
const UNCOUNTED_BYTES_MAX: usize = 64 << 10;
/// Allocations kept for reuse, and the largest of them.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 128 << 10;
/// Bytes of all of them.
const SPARE_BYTES_IN_ALL: usize = 1 << 20;

pub(crate) struct EventLoop {
    index: usize,
    shared: Arc<Shared>,
    service: Arc<Service>,
    poll: Poll,
    /// Moves the bytes of connections where it is there; else the poll tells which are ready.
    ring: Option<Ring>,
    listeners: Vec<Listener>,
    /// Sockets for datagrams, where this loop owns partitions.
    datagrams: Vec<udp::LoopSocket>,
    conns: Vec<Option<Box<Conn>>>,
    free: Vec<usize>,
    /// Connections to serve in this turn.
    ready: Vec<usize>,
    /// Connections whose next request waits for something: until when, in milliseconds of the
    /// monotonic clock, and their slots.
    parked: BTreeSet<(u64, usize)>,
    /// Connections whose requests wait for the end of a pause.
    held: BTreeSet<usize>,
    messages: Vec<Message>,
    executor: Executor,
    bursts: Bursts,
    /// Bytes of connections that the budget does not know of yet.
    uncounted_bytes: isize,
    scratch: Box<[u8]>,
    spare_bytes: Vec<Vec<u8>>,
    spare_inputs: Vec<Input>,
    now_ms: u64,
    ticked_ms: u64,
    accept_from_ms: u64,
    accept_waiting: bool,
    next_loop: usize,
    stopping_since_ms: Option<u64>,
}

impl EventLoop {
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        poll: Poll,
        mut listeners: Vec<Listener>,
        mut datagrams: Vec<udp::LoopSocket>,
    ) -> io::Result<Self> {
        listeners.truncate(LISTENERS_MAX);
        for (n, listener) in listeners.iter_mut().enumerate() {
            let token = Token(WAKER.0 - 1 - n);
            poll.registry().register(&mut listener.socket, token, Interest::READABLE)?;
        }
        datagrams.truncate(DATAGRAMS_MAX);
        for (n, socket) in datagrams.iter().enumerate() {
            let token = Token(WAKER.0 - 1 - LISTENERS_MAX - n);
            socket.register(poll.registry(), token)?;
        }
        let service = Arc::clone(&shared.service);
        let now_ms = service.monotonic_ms();
        ring::check(shared.config.event_loop)?;
        Ok(EventLoop {
            ring: None,
            index,
            executor: Executor::new(Arc::clone(&service)),
            shared,
            service,
            poll,
            listeners,
            datagrams,
            conns: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            parked: BTreeSet::new(),
            held: BTreeSet::new(),
            messages: Vec::new(),
            bursts: Bursts::new(index),
            uncounted_bytes: 0,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            spare_bytes: Vec::new(),
            spare_inputs: Vec::new(),
            now_ms,
            ticked_ms: now_ms,
            accept_from_ms: 0,
            accept_waiting: false,
            next_loop: 0,
            stopping_since_ms: None,
        })
    }

    /// The life of a loop's thread.
    pub(crate) fn run(&mut self) {
        let mut events = Events::with_capacity(1024);
        match ring::choose(self.shared.config.event_loop) {
            Ok(ring) => self.ring = ring,
            Err(e) => {
                log::error!("event loop {}: {e}", self.index);
                return self.service.request_stop();
            }
        }
        loop {
            self.settle_bytes();
            let idle = self.ready.is_empty() && !self.datagrams.iter().any(|socket| socket.ready);
            let wait_ms = match (idle, self.stopping_since_ms) {
                (false, _) => 0,
                (true, Some(_)) => 20,
                (true, None) if self.accept_waiting => ACCEPT_PAUSE_MS,
                (true, None) if !self.held.is_empty() => {
                    self.service.pause.left_ms(self.service.monotonic_ms()).clamp(1, TICK_MS)
                }
                (true, None) => self.parked_ms().min(TICK_MS),
            };
            if let Err(e) = self.wait(&mut events, Duration::from_millis(wait_ms)) {
                log::error!("event loop {}: {e}", self.index);
                return self.service.request_stop();
            }
            self.accept_when_due();
            self.read_inbox();
            if let Err(e) = self.serve_datagrams() {
                log::error!("event loop {}: receiving datagrams: {e}", self.index);
                return self.service.request_stop();
            }
            if !self.held.is_empty() && self.service.pause.left_ms(self.now_ms) == 0 {
                std::mem::take(&mut self.held).into_iter().for_each(|slot| self.queue(slot));
            }
            self.end_waits();
            for slot in std::mem::take(&mut self.ready) {
                self.serve(slot);
            }
            self.dispatch();
            if self.now_ms - self.ticked_ms >= TICK_MS {
                self.tick();
            }
            if self.is_over() {
                return self.tell_bytes();
            }
        }
    }

    /// Waits until there is something to do, or for `time`, and does what other loops ask.
    fn wait(&mut self, events: &mut Events, time: Duration) -> io::Result<()> {
        let waited = self.wait_for_sockets(events, direct::park(time));
        direct::resume();
        waited
    }

    fn wait_for_sockets(&mut self, events: &mut Events, time: Duration) -> io::Result<()> {
        if self.ring.is_some() {
            return self.wait_for_ring(events, time);
        }
        self.look(events, time)?;
        self.now_ms = self.service.monotonic_ms();
        Ok(())
    }

    /// Asks the poll what is ready, waiting for `time` at most.
    fn look(&mut self, events: &mut Events, time: Duration) -> io::Result<()> {
        match self.poll.poll(events, Some(time)) {
            Err(e) if e.kind() != ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        events.iter().for_each(|event| self.note(event));
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        let token = event.token();
        if token == WAKER {
            return;
        }
        if token.0 >= WAKER.0 - LISTENERS_MAX {
            self.accept_waiting = true;
            return;
        }
        if token.0 >= WAKER.0 - LISTENERS_MAX - DATAGRAMS_MAX {
            let number = WAKER.0 - 1 - LISTENERS_MAX - token.0;
            self.datagrams[number].ready = true;
            return;
        }
        if let Some(Some(conn)) = self.conns.get_mut(token.0) {
            conn.hung_up |= event.is_read_closed();
            conn.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            conn.writable |= event.is_writable() || event.is_error();
            self.queue(token.0);
        }
    }

    /// Answers a batch of the datagrams that came on each socket.
    fn serve_datagrams(&mut self) -> io::Result<()> {
        self.datagrams.iter_mut().filter(|socket| socket.ready).try_for_each(udp::LoopSocket::serve)
    }

    /// Serves connection `slot` in the next turn.
    fn queue(&mut self, slot: usize) {
        if let Some(conn) = &mut self.conns[slot]
            && !conn.queued
        {
            conn.queued = true;
            self.ready.push(slot);
        }
    }

    fn read_inbox(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        self.shared.loops.inboxes[self.index].take(&mut messages);
        for message in messages.drain(..) {
            match message {
                Message::Connection(socket, ends, options) => self.add(socket, ends, options),
                Message::Done(burst) => {
                    self.bursts.note_done(burst.lane);
                    self.complete(&mut { burst });
                }
                Message::Publish(published, deliveries) => {
                    deliveries.iter().for_each(|delivery| self.deliver(&published, delivery));
                }
                Message::Close(owner) => {
                    if matches!(self.conns.get(owner.slot), Some(Some(c)) if c.owner == owner) {
                        self.close(owner.slot);
                    }
                }
                Message::Wake(owner, waited) => {
                    if matches!(self.conns.get(owner.slot), Some(Some(c)) if c.owner == owner) {
                        self.unpark(owner.slot, waited);
                    }
                }
                Message::Feed(owner) => {
                    if matches!(self.conns.get(owner.slot), Some(Some(c)) if c.owner == owner) {
                        self.queue(owner.slot);
                    }
                }
                Message::Resume => {}
                Message::Stop => {
                    self.stopping_since_ms = Some(self.now_ms);
                    self.listeners.clear();
                    self.accept_waiting = false;
                    self.conns.iter_mut().flatten().for_each(|conn| conn.state.closing = true);
                    (0..self.conns.len()).for_each(|slot| self.queue(slot));
                }
            }
        }
        self.messages = messages;
    }

    /// Appends a message to what a connection gets.
    fn deliver(&mut self, published: &Published, delivery: &Delivery) {
        let slot = delivery.to.slot;
        let Some(Some(conn)) = self.conns.get_mut(slot) else { return };
        if conn.owner != delivery.to {
            return;
        }
        let (pattern, version) = (delivery.pattern.as_deref(), conn.state.session.version);
        published.write(pattern, version, &mut conn.messages);
        published.note_delivery();
        let waiting = conn.out.len() + conn.messages.len();
        if waiting > self.shared.config.client_output_bytes_max {
            log::warn!("{} does not read its messages: connection closed", conn.state.client.peer);
            self.service.stats.add(|s| &s.stalled_clients_dropped, 1);
            return self.close(slot);
        }
        self.count_bytes(slot);
        self.queue(slot);
    }

    fn accept_when_due(&mut self) {
        if !self.accept_waiting || self.now_ms < self.accept_from_ms {
            return;
        }
        self.accept_waiting = false;
        for n in 0..self.listeners.len() {
            let options = self.listeners[n].options;
            loop {
                match self.listeners[n].socket.accept() {
                    Ok((socket, peer, local)) => self.admit(socket, (peer, local), options),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                    Err(e) => {
                        log::warn!("accept: {e}; trying again (raise 'ulimit -n' if it goes on)");
                        self.accept_waiting = true;
                        self.accept_from_ms = self.now_ms + ACCEPT_PAUSE_MS;
                        break;
                    }
                }
            }
        }
    }

    /// Hands a new connection to the loop whose turn it is.
    fn admit(&mut self, mut socket: Socket, ends: (Address, Address), options: AcceptOptions) {
        let count = self.service.client_count();
        // Connections that do nothing leave an eighth for requests.
        let max = self.service.budget.max();
        let has_room = count * CONNECTION_BYTES < max - max / 8;
        if count >= self.service.clients_max() || !has_room {
            self.service.stats.add(|s| &s.rejected_connections, 1);
            // Its socket's buffer is empty, so this fits or the client is gone.
            let _ = socket.write(match options.protocol {
                _ if options.tls => b"",
                Some(Protocol::MemcachedText) => b"ERROR Too many open connections\r\n",
                _ => b"-ERR max number of clients reached\r\n",
            });
            return;
        }
        self.service.stats.add(|s| &s.total_connections_received, 1);
        let target = self.next_loop;
        self.next_loop = (target + 1) % self.shared.loops.inboxes.len();
        if target == self.index {
            self.add(socket, ends, options);
        } else {
            let message = Message::Connection(socket, ends, options);
            self.shared.loops.inboxes[target].send(message);
        }
    }

    fn add(&mut self, mut socket: Socket, ends: (Address, Address), options: AcceptOptions) {
        if self.stopping_since_ms.is_some() {
            return;
        }
        let Ok(tls) = self.shared.tls_session(options) else { return };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() - 1
        });
        socket.send_at_once();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered = match self.ring {
            Some(_) => socket.let_wait(),
            None => self.poll.registry().register(&mut socket, Token(slot), both),
        };
        if registered.is_err() {
            self.free.push(slot);
            return;
        }
        let state = self.service.add_client((self.index, slot), ends, options.protocol);
        let mut conn = Conn::new(socket, slot, state, self.now_ms);
        conn.tls = tls;
        self.conns[slot] = Some(Box::new(conn));
        self.receive(slot);
        self.count_bytes(slot);
    }

    /// Bytes of unread replies after which a connection's requests wait: few when memory is short.
    fn output_bytes_max(&self) -> usize {
        let most = self.shared.config.client_output_bytes_max;
        if self.service.budget.is_full() { most.min(SCARCE_OUT_BYTES_MAX) } else { most }
    }

    /// Goes on with a connection: sends, reads, plans, and queues what it wants done.
    fn serve(&mut self, slot: usize) {
        let Some(conn) = &mut self.conns[slot] else { return };
        conn.queued = false;
        if self.send(slot).is_err() || self.take_in(slot).is_err() || self.feed(slot).is_err() {
            return self.close(slot);
        }
        let Some(conn) = &mut self.conns[slot] else { return };
        if conn.parked && (conn.hung_up || conn.state.closing) {
            return self.close(slot);
        }
        if conn.is_finished() {
            if conn.say_farewell() {
                return self.queue(slot);
            }
            return self.close(slot);
        }
        let (waiting, has_work) = (conn.out.len(), conn.planned.is_some());
        let (is_idle, has_more) = (conn.in_flight.is_none(), conn.has_more());
        if !is_idle {
            conn.tell_if_left();
        }
        if waiting < self.output_bytes_max() && is_idle {
            if has_work {
                self.place(slot);
            } else if has_more {
                self.queue(slot);
            }
        }
        self.receive(slot);
        self.count_bytes(slot);
    }

    fn send(&mut self, slot: usize) -> io::Result<()> {
        if self.ring.is_some() {
            return self.lend(slot);
        }
        let Some(conn) = &mut self.conns[slot] else { return Ok(()) };
        conn.take_messages();
        let sent = conn.flush(&mut self.spare_bytes, self.now_ms)?;
        if sent > 0 {
            self.service.stats.add(|s| &s.total_net_output_bytes, sent as u64);
            trim(&mut self.spare_bytes);
        }
        if !conn.state.session.let_in && conn.out.len() > STRANGER_OUT_BYTES_MAX {
            return Err(ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    /// Reads and plans, where the connection has nothing else going on.
    fn take_in(&mut self, slot: usize) -> io::Result<()> {
        let output_bytes_max = self.output_bytes_max();
        let Some(conn) = &mut self.conns[slot] else { return Ok(()) };
        if conn.in_flight.is_some() || conn.planned.is_some() || conn.out.len() >= output_bytes_max
        {
            return Ok(());
        }
        if self.ring.is_none() && !conn.state.unplanned && !conn.state.closing {
            let mut reads = 0;
            let is_tight = self.service.budget.is_tight();
            let (reads_max, bytes) =
                if is_tight { (1, READ_FEW_BYTES) } else { (READS_MAX, READ_BYTES) };
            while conn.readable && reads < reads_max {
                if conn.state.input.capacity() == 0 {
                    conn.state.input = self.spare_bytes.pop().unwrap_or_default();
                    conn.state.input.clear();
                }
                let n = conn.read(&mut self.scratch[..bytes])?;
                self.service.stats.add(|s| &s.total_net_input_bytes, n as u64);
                conn.received_ms = if n > 0 { self.now_ms } else { conn.received_ms };
                reads += 1;
                if conn.state.needed_bytes() <= conn.state.input.len() + READ_BYTES {
                    break;
                }
            }
        }
        if conn.tls.is_some() && conn.out.len() > 0 {
            self.send(slot)?;
        }
        let Some(conn) = &mut self.conns[slot] else { return Ok(()) };
        if conn.state.unplanned {
            let mut input = self.spare_inputs.pop().unwrap_or_default();
            plan(&self.service, &mut conn.state, &mut input);
            self.start(slot, input)?;
        }
        if let Some(conn) = &mut self.conns[slot]
            && conn.state.input.is_empty()
            && conn.state.input.capacity() > 0
        {
            self.keep_bytes_of(slot);
        }
        Ok(())
    }

    /// Gives an idle connection's buffer back.
    fn keep_bytes_of(&mut self, slot: usize) {
        if let Some(conn) = &mut self.conns[slot] {
            let bytes = std::mem::take(&mut conn.state.input);
            self.keep_bytes(bytes);
        }
    }

    /// Begins with planned requests: what is answered already goes out at once.
    fn start(&mut self, slot: usize, mut input: Input) -> io::Result<()> {
        let Some(conn) = &mut self.conns[slot] else { return Ok(()) };
        if input.requests.iter().any(|request| !request.is_ready()) {
            conn.planned = Some(Planned { input, next: 0 });
            return Ok(());
        }
        if !input.ready.is_empty() {
            let ready = std::mem::take(&mut input.ready);
            if let Some(unused) = conn.push(ready) {
                input.ready = unused;
                input.ready.clear();
            }
        }
        self.recycle(input);
        self.send(slot)
    }

    fn recycle(&mut self, mut input: Input) {
        let bytes = std::mem::take(&mut input.bytes);
        self.keep_bytes(bytes);
        input.recycle();
        if self.spare_inputs.len() < SPARES_MAX {
            self.spare_inputs.push(input);
        }
    }

    fn keep_bytes(&mut self, mut bytes: Vec<u8>) {
        if (1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) && self.spare_bytes.len() < SPARES_MAX
        {
            bytes.clear();
            self.spare_bytes.push(bytes);
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut conn) = self.conns[slot].take() {
            if conn.tls.as_ref().is_some_and(|tls| tls.has_failed()) {
                self.service.stats.add(|s| &s.tls_failures, 1);
            }
            self.service.remove_client(&conn.state.client);
            if conn.parked {
                self.parked.remove(&(conn.waits_until_ms.unwrap_or(u64::MAX), slot));
            }
            self.uncounted_bytes -= conn.counted_bytes as isize;
            self.free.push(slot);
            match &mut self.ring {
                Some(ring) => ring.close(conn.socket),
                // A socket that cannot be deregistered is closed by the drop all the same.
                None => drop(self.poll.registry().deregister(&mut conn.socket)),
            }
        }
    }

    /// Brings the count of bytes held up to date, and enforces the cap.
    fn count_bytes(&mut self, slot: usize) {
        let Some(conn) = &mut self.conns[slot] else { return };
        let held = conn.held_bytes();
        let before = std::mem::replace(&mut conn.counted_bytes, held);
        let queued = conn.state.session.queued_bytes();
        if held == before && queued == 0 {
            return;
        }
        conn.state.note_bytes(conn.out.len(), held + queued, conn.request_bytes());
        self.uncounted_bytes += held as isize - before as isize;
        if self.uncounted_bytes.unsigned_abs() > UNCOUNTED_BYTES_MAX {
            self.settle_bytes();
        }
    }

    /// Counts what this loop's connections hold more, or less, than at the last time, and enforces
    /// the cap. All loops write that one number: once a turn is enough.
    fn settle_bytes(&mut self) {
        let has_grown = self.uncounted_bytes > 0;
        self.tell_bytes();
        if has_grown && self.service.budget.is_exceeded() {
            self.evict();
        }
    }

    fn tell_bytes(&mut self) {
        match std::mem::take(&mut self.uncounted_bytes) {
            0 => {}
            less @ ..0 => self.service.budget.give_back(less.unsigned_abs()),
            more => self.service.budget.add(more.unsigned_abs()),
        }
    }

    /// Drops the connections that hold most until memory is not exceeded any more; those of other
    /// loops are told to go.
    fn evict(&mut self) {
        while self.service.budget.is_exceeded() {
            let Some(client) = self.service.largest_client(EVICT_BYTES_MIN) else { return };
            let bytes = client.all_bytes();
            log::warn!(
                "memory for clients is over its cap: dropping {} which holds {bytes} bytes",
                client.peer
            );
            self.service.stats.add(|s| &s.evicted_clients, 1);
            if client.loop_index == self.index {
                self.close(client.slot);
                self.tell_bytes();
                continue;
            }
            self.service.send_away(&client, bytes);
        }
    }

    /// Looks at every connection once in a while.
    fn tick(&mut self) {
        self.ticked_ms = self.now_ms;
        if self.index == 0 {
            let due = self.service.tick(self.index, self.now_ms);
            due.into_iter().for_each(|burst| self.shared.pools.push(burst));
        }
        let config = &self.shared.config;
        let request_ms_max = self.service.request_ms_max();
        let idle_ms_max = self.service.idle_ms_max();
        let output_bytes_max = self.output_bytes_max();
        let (mut drop_slots, mut waiting_slots) = (Vec::new(), Vec::new());
        for conn in self.conns.iter().flatten() {
            // Less may have stopped it while memory was scarce, and nothing else wakes it.
            if (1..output_bytes_max).contains(&conn.out.len()) {
                waiting_slots.push(conn.owner.slot);
            }
            let stalled = conn.out.len() >= output_bytes_max
                && self.now_ms - conn.progress_ms > config.stalled_ms_max;
            let unknown = conn.tls.as_ref().is_some_and(|tls| tls.is_shaking_hands());
            let stranger = (!conn.state.session.let_in || unknown)
                && self.now_ms - conn.born_ms > config.auth_ms_max;
            let stuck = request_ms_max > 0 && conn.has_stuck_request(self.now_ms, request_ms_max);
            let left = idle_ms_max > 0 && conn.has_left(self.now_ms, idle_ms_max);
            if stalled {
                self.service.stats.add(|s| &s.stalled_clients_dropped, 1);
            } else if stranger {
                self.service.stats.add(|s| &s.auth_timeouts, 1);
            } else if stuck {
                log::info!("{} does not go on with its request: closed", conn.state.client.peer);
                self.service.stats.add(|s| &s.request_timeouts, 1);
            }
            if stalled || stranger || stuck || left {
                drop_slots.push(conn.owner.slot);
            }
        }
        waiting_slots.into_iter().for_each(|slot| self.queue(slot));
        drop_slots.into_iter().for_each(|slot| self.close(slot));
    }

    /// True where the loop was asked to stop and nothing is left to do, or no time for it.
    fn is_over(&mut self) -> bool {
        let Some(since) = self.stopping_since_ms else { return false };
        if self.now_ms - since > self.shared.config.stop_ms_max {
            return true;
        }
        self.conns.iter().all(Option::is_none)
    }
}

/// Forgets allocations that are too large or too many to be kept.
fn trim(spare_bytes: &mut Vec<Vec<u8>>) {
    spare_bytes.truncate(SPARES_MAX);
    let mut all = 0;
    spare_bytes.retain(|bytes| {
        all += bytes.capacity();
        bytes.capacity() <= SPARE_BYTES_MAX && all <= SPARE_BYTES_IN_ALL
    });
}
