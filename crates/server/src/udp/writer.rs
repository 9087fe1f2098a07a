//! Replies, written where they are sent from as soon as they are known.

use super::post::Post;
use silica::engine::{EntryRef, GetSink, Limits};
use silica_proto::datagram::{
    DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, Kind, REPLY_BYTES, Reply, Request, SHORT_REPLIES_MAX,
    VALUE_BYTES_MAX,
};
use std::ops::Range;

/// A datagram of requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// Whom its replies go to, as [`Post::end`] has it.
    pub(super) arrival: usize,
    pub(super) sequence: u64,
    pub(super) count: usize,
    /// Datagrams that may answer it; 0 where the client says nothing.
    pub(super) room: usize,
}

/// Writes the replies to the requests of groups in their order, while values come in the order of
/// the gets. What is not reported before a later one is missing.
pub(super) struct Writer<'a, 'b> {
    post: &'a mut Post,
    /// Where replies to writes stand, which say that these are done.
    writes: &'a mut Vec<usize>,
    limits: &'a Limits,
    /// Those that are not answered yet.
    requests: &'a [Request<'b>],
    /// Gets before them.
    gets: usize,
    groups: std::slice::Iter<'a, Group>,
    group: Group,
    /// The group's requests that are answered, and those in datagrams that have ended.
    answered: usize,
    ended: usize,
    /// The group's datagrams that have begun.
    begun: usize,
    /// Gets that found something.
    pub(super) hits: u64,
}

impl<'a, 'b> Writer<'a, 'b> {
    pub(super) fn new(
        post: &'a mut Post,
        writes: &'a mut Vec<usize>,
        groups: &'a [Group],
        requests: &'a [Request<'b>],
        limits: &'a Limits,
    ) -> Self {
        Writer {
            post,
            writes,
            limits,
            requests,
            gets: 0,
            groups: groups.iter(),
            group: Group { arrival: 0, sequence: 0, count: 0, room: 0 },
            answered: 0,
            ended: 0,
            begun: 0,
            hits: 0,
        }
    }

    /// The get of number `index` has found `value`.
    #[inline]
    pub(super) fn value(&mut self, index: usize, value: &[u8]) {
        self.hits += 1;
        while self.gets < index && !self.requests.is_empty() {
            self.next(Reply::Missing);
        }
        let is_small = value.len() <= VALUE_BYTES_MAX;
        let reply = if is_small { Reply::Done(value) } else { Reply::TooLarge };
        while self.gets <= index && !self.requests.is_empty() {
            self.next(reply);
        }
    }

    /// Answers what is left, gets with `of_gets`.
    pub(super) fn finish(&mut self, of_gets: Reply<'_>) {
        while !self.requests.is_empty() {
            self.next(of_gets);
        }
        while self.begin() {
            self.end();
        }
    }

    /// Answers the next request, a get with `of_get`.
    #[inline]
    fn next(&mut self, of_get: Reply<'_>) {
        let Some((request, rest)) = self.requests.split_first() else { return };
        self.requests = rest;
        let reply = match request {
            Request::Get(_) => {
                self.gets += 1;
                of_get
            }
            _ if !is_within(request, self.limits) => Reply::TooLarge,
            _ => Reply::Done(b""),
        };
        while self.answered == self.group.count && self.begin() {
            if self.group.count == 0 {
                self.end();
            }
        }
        let reply = if self.has_room(reply.size()) { reply } else { Reply::NoRoom };
        if self.post.len() + reply.size() > DATAGRAM_BYTES_MAX {
            self.end();
            self.begun += 1;
            self.post.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        }
        if !matches!(request, Request::Get(_)) && matches!(reply, Reply::Done(_)) {
            self.writes.push(self.post.bytes.len());
        }
        reply.write(&mut self.post.bytes);
        self.answered += 1;
        if self.answered == self.group.count {
            self.end();
        }
    }

    /// True if the client can hold a reply of `size` bytes and one without a value to each request
    /// behind it.
    #[inline]
    fn has_room(&self, size: usize) -> bool {
        let room = self.group.room;
        if room == 0 || size == REPLY_BYTES {
            return true;
        }
        let begins = self.post.len() + size > DATAGRAM_BYTES_MAX;
        let (begun, len) = match begins {
            true => (self.begun + 1, HEADER_BYTES + size),
            false => (self.begun, self.post.len() + size),
        };
        let behind = self.group.count - self.answered - 1;
        let short = (DATAGRAM_BYTES_MAX - len) / REPLY_BYTES;
        begun <= room && behind <= short + (room - begun) * SHORT_REPLIES_MAX
    }

    /// Begins with the next group; false where there is none.
    fn begin(&mut self) -> bool {
        let Some(group) = self.groups.next() else { return false };
        (self.group, self.answered, self.ended, self.begun) = (*group, 0, 0, 1);
        self.post.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        true
    }

    /// Ends a datagram.
    #[inline]
    fn end(&mut self) {
        let Group { arrival, sequence, count, .. } = self.group;
        let part = self.ended..self.answered;
        self.ended = self.answered;
        let word = Header::word_of(part.start, count);
        let (kind, count) = (Kind::Replies, part.len() as u16);
        let header = Header { kind, room: 0, count, sequence, word };
        self.post.datagram()[..HEADER_BYTES].copy_from_slice(&header.bytes());
        self.post.end_lengthened(arrival);
    }
}

impl GetSink for Writer<'_, '_> {
    #[inline]
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.value(index, entry.value);
    }
}

/// True where the engine takes a write.
pub(super) fn is_within(request: &Request<'_>, limits: &Limits) -> bool {
    let value = if let Request::Put { value, .. } = request { value.len() } else { 0 };
    request.key().len() <= limits.key_bytes_max && value <= limits.value_bytes_max
}

/// Keeps values of an engine that reports them in any order.
#[derive(Default)]
pub(super) struct Late {
    found: Vec<Option<Range<usize>>>,
    values: Vec<u8>,
}

impl Late {
    /// Forgets all, and makes room for so many gets.
    pub(super) fn clear(&mut self, gets: usize) {
        self.values.clear();
        self.found.clear();
        self.found.resize(gets, None);
    }

    /// Tells `writer` what was found.
    pub(super) fn tell(&self, writer: &mut Writer<'_, '_>) {
        for (index, place) in self.found.iter().enumerate() {
            if let Some(place) = place {
                writer.value(index, &self.values[place.clone()]);
            }
        }
    }
}

impl GetSink for Late {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let start = self.values.len();
        // Of one that is too long, as much as shows it.
        let bytes = entry.value.len().min(VALUE_BYTES_MAX + 1);
        self.values.extend_from_slice(&entry.value[..bytes]);
        self.found[index] = Some(start..start + bytes);
    }
}
