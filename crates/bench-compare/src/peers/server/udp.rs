//! memcached's text protocol in datagrams.
//!
//! Each datagram starts with a frame: the request's number, the place of this datagram among those
//! of the reply, and their count. What gets no whole reply in time is sent again. Requests that
//! write are sent again together with all behind them, so that the last of several writes to a key
//! wins whatever was lost.
//!
//! Each key is a request of its own: to a request with several keys memcached sends the datagrams
//! of each value as if they were a whole reply, so that a lost value would look like a missing one.

mod datagrams;

use super::client;
use super::pin::Pinned;
use super::text::{
    Text, TextDialect, check_deleted, check_stored, parse, push_delete, push_key, push_set,
};
use super::wire::nonsense;
use super::{Counters, no_scan};
use ::silica::{Error, ErrorKind, Result};
use datagrams::Datagrams;
use silica_bench::{Session, Sink};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

const NAME: &str = "memcached";
const FRAME_BYTES: usize = 8;
/// Bytes of a request with its frame: what fits into one packet of an Ethernet.
const REQUEST_BYTES_MAX: usize = 1400;
/// Requests under way.
const WINDOW: usize = 32;
/// Bytes of the replies to requests under way, about: more would overflow the socket's buffer.
const REPLIES_BYTES: usize = 96 << 10;
/// Bytes of a reply beside the value, about.
const REPLY_BESIDE: usize = 64;
/// Times that requests are sent before it is an error.
const ATTEMPTS_MAX: usize = 250;

/// A request and what came of its reply.
struct Slot {
    id: u16,
    /// Where it stands, with its frame.
    request: Range<usize>,
    reply: Vec<u8>,
    /// Datagrams of the reply that came.
    parts: u16,
    done: bool,
    /// The index of its key.
    index: usize,
}

impl Slot {
    fn new() -> Self {
        let (request, reply) = (0..0, Vec::with_capacity(REQUEST_BYTES_MAX));
        Slot { id: 0, request, reply, parts: 0, done: false, index: 0 }
    }

    /// Takes a datagram of the reply. One that comes before its turn counts as lost.
    fn take(&mut self, part: u16, parts: u16, payload: &[u8]) {
        if !self.done && part == self.parts {
            self.reply.extend_from_slice(payload);
            self.parts += 1;
            self.done = self.parts == parts;
        }
    }
}

/// The requests of a burst that are under way together.
struct Window {
    out: Vec<u8>,
    slots: Vec<Slot>,
    used: usize,
    next_id: u16,
}

impl Window {
    fn new() -> Self {
        let slots = (0..WINDOW).map(|_| Slot::new()).collect();
        let out = Vec::with_capacity(WINDOW * REQUEST_BYTES_MAX);
        Window { out, slots, used: 0, next_id: 0 }
    }

    fn clear(&mut self) {
        self.out.clear();
        self.used = 0;
    }

    fn is_full(&self) -> bool {
        self.used == WINDOW
    }

    fn in_use(&mut self) -> &mut [Slot] {
        &mut self.slots[..self.used]
    }

    /// Appends a request that `write` makes; false, and nothing appended, where it is too long.
    fn push(
        &mut self,
        index: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0]);
        write(&mut self.out)?;
        if self.out.len() - start > REQUEST_BYTES_MAX {
            self.out.truncate(start);
            return Ok(false);
        }
        let slot = &mut self.slots[self.used];
        slot.index = index;
        slot.request = start..self.out.len();
        slot.done = false;
        self.used += 1;
        Ok(true)
    }

    /// Numbers the requests that are to be sent (again): those without a reply, or where `in_order`
    /// all from the first of those on.
    fn number(&mut self, in_order: bool, sent: &mut Vec<Range<usize>>) {
        sent.clear();
        let first = self.in_use().iter().position(|slot| !slot.done).unwrap_or(self.used);
        for slot in &mut self.slots[first..self.used] {
            if slot.done && !in_order {
                continue;
            }
            slot.id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            (slot.done, slot.parts) = (false, 0);
            slot.reply.clear();
            self.out[slot.request.start..slot.request.start + 2]
                .copy_from_slice(&slot.id.to_be_bytes());
            sent.push(slot.request.clone());
        }
    }

    /// Gives a datagram to the request that it answers; late ones answer none.
    fn take(&mut self, datagram: &[u8]) {
        let Some((frame, payload)) = datagram.split_at_checked(FRAME_BYTES) else { return };
        let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let id = field(0);
        if let Some(slot) = self.in_use().iter_mut().find(|slot| slot.id == id) {
            slot.take(field(2), field(4), payload);
        }
    }
}

/// A connection for what no datagram holds.
type Beside<'a> = client::Client<'a, TextDialect>;

/// What one thread uses: a socket, and a connection for entries that no datagram holds.
pub(super) struct Client<'a> {
    datagrams: Datagrams,
    window: Window,
    sent: Vec<Range<usize>>,
    beside: Beside<'a>,
    counters: &'a Counters,
    /// Gets under way, by the size of their replies.
    gets_max: usize,
    _pinned: Pinned,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        address: SocketAddr,
        beside: Beside<'a>,
        counters: &'a Counters,
        value_bytes: usize,
        pinned: Pinned,
    ) -> Result<Self> {
        let datagrams = Datagrams::connect(address, WINDOW);
        let datagrams = datagrams.map_err(|e| Error::io("making a socket for memcached", e))?;
        let gets_max = (REPLIES_BYTES / (value_bytes + REPLY_BESIDE)).clamp(1, WINDOW);
        Ok(Client {
            datagrams,
            window: Window::new(),
            sent: Vec::with_capacity(WINDOW),
            beside,
            counters,
            gets_max,
            _pinned: pinned,
        })
    }

    /// Sends the window's requests until all have replies.
    fn exchange(&mut self, in_order: bool) -> Result<()> {
        let failed = |e| Error::io("exchanging datagrams with memcached", e);
        let mut attempts = 0;
        while self.window.in_use().iter().any(|slot| !slot.done) {
            if attempts > 0 {
                self.counters.retries.fetch_add(1, Relaxed);
            }
            if attempts == ATTEMPTS_MAX {
                let message = format!("memcached does not answer {attempts} datagrams");
                return Err(Error::new(ErrorKind::Io, message));
            }
            attempts += 1;
            self.window.number(in_order, &mut self.sent);
            self.datagrams.send(&self.window.out, &self.sent).map_err(failed)?;
            while self.window.in_use().iter().any(|slot| !slot.done) {
                let window = &mut self.window;
                match self.datagrams.receive(|datagram| window.take(datagram)) {
                    Ok(()) => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(failed(e)),
                }
            }
        }
        Ok(())
    }

    /// Performs the window's gets.
    fn get(&mut self, sink: &mut dyn Sink) -> Result<()> {
        self.exchange(false)?;
        for slot in self.window.in_use() {
            match parse(&slot.reply)? {
                Some((Text::Value { value, .. }, _)) => sink.found(slot.index, &slot.reply[value]),
                Some((Text::End, _)) => {}
                _ => return Err(nonsense(NAME, &slot.reply)),
            }
        }
        self.window.clear();
        Ok(())
    }

    /// Performs the window's writes, and checks each reply's line.
    fn write(&mut self, check: fn(&[u8]) -> Result<()>) -> Result<()> {
        self.exchange(true)?;
        for slot in self.window.in_use() {
            match parse(&slot.reply)? {
                Some((Text::Line(line), _)) => check(&slot.reply[line])?,
                _ => return Err(nonsense(NAME, &slot.reply)),
            }
        }
        self.window.clear();
        Ok(())
    }
}

impl Session for Client<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        self.window.clear();
        for (index, key) in keys.iter().enumerate() {
            self.window.push(index, |out| {
                out.extend_from_slice(b"get ");
                push_key(out, key)?;
                out.extend_from_slice(b"\r\n");
                Ok(())
            })?;
            if self.window.used == self.gets_max {
                self.get(sink)?;
            }
        }
        self.get(sink)
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.window.clear();
        let mut in_datagrams = 0;
        for entry in entries {
            let (key, value) = *entry;
            // What is longer than a datagram need not be copied to see it.
            let short = key.len() + value.len() < REQUEST_BYTES_MAX;
            if short && self.window.push(0, |out| push_set(out, key, value))? {
                in_datagrams += 1;
                if self.window.is_full() {
                    self.write(check_stored)?;
                }
            } else {
                self.write(check_stored)?;
                self.beside.put_many(&[*entry])?;
            }
        }
        self.write(check_stored)?;
        self.counters.writes.count_puts(in_datagrams);
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.window.clear();
        for key in keys {
            self.window.push(0, |out| push_delete(out, key))?;
            if self.window.is_full() {
                self.write(check_deleted)?;
            }
        }
        self.write(check_deleted)?;
        self.counters.writes.count_deletes(keys.len());
        Ok(())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Err(no_scan(NAME))
    }
}

#[cfg(test)]
mod tests;
