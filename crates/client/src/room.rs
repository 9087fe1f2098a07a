//! How many replies a socket can hold, and what the next requests may ask for.

use silica_net::datagrams::WAITING_BYTES;
use silica_proto::datagram::{
    DATAGRAM_BYTES_MAX, HEADER_BYTES, REPLY_BYTES, SHORT_REPLIES_MAX, VALUE_BYTES_MAX,
};

/// Bytes of a reply at most.
const REPLY_BYTES_MAX: usize = REPLY_BYTES + VALUE_BYTES_MAX;
/// Bytes of replies in a datagram at most.
const PAYLOAD_BYTES: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES;

/// The datagrams that a socket can hold until they are read, and the size that replies to gets
/// have had. Sizes are a guess for the next ones: what the guess leaves no room for is answered as
/// such and asked for again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    datagrams: usize,
    /// Bytes of a get's reply: the mean of the last datagrams, or more.
    reply_bytes: usize,
    /// Replies to gets of which a datagram holds as many.
    per_datagram: usize,
}

impl Room {
    /// Room of a socket that was granted `granted` bytes. Values may be as long as they can be.
    pub(crate) fn new(granted: usize) -> Self {
        // Two hold some reply with a value beside short ones.
        let datagrams = (granted / WAITING_BYTES).max(2);
        let mut room = Room { datagrams, reply_bytes: REPLY_BYTES_MAX, per_datagram: 1 };
        room.expect(REPLY_BYTES_MAX);
        room
    }

    /// The datagrams that fit at the same time.
    pub(crate) fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// The datagrams that one datagram of requests may ask for.
    fn datagrams_of_one(&self) -> usize {
        self.datagrams.min(usize::from(u8::MAX))
    }

    /// Gets that one datagram may have, so that their replies find room.
    #[inline]
    pub(crate) fn gets_max(&self) -> usize {
        self.per_datagram * (self.datagrams_of_one() - 1)
    }

    /// The datagrams that replies to so many gets and writes need; no more than fit.
    pub(crate) fn needed(&self, gets: usize, writes: usize) -> usize {
        let short = writes.div_ceil(SHORT_REPLIES_MAX);
        let needed = match (gets, writes) {
            (0, _) => short.max(1),
            (1, 0) => 1,
            _ => gets.div_ceil(self.per_datagram) + short.max(1),
        };
        needed.min(self.datagrams_of_one())
    }

    /// Replies to `gets` gets came with `bytes` bytes, and to `refused` more that had no room.
    pub(crate) fn learn(&mut self, gets: usize, bytes: usize, refused: usize) {
        if refused > 0 {
            self.expect(2 * self.reply_bytes);
        }
        if gets > 0 {
            let (mean, known) = (bytes.div_ceil(gets), self.reply_bytes);
            self.expect(mean.max(known - known.saturating_sub(mean).div_ceil(8)));
        }
    }

    fn expect(&mut self, reply_bytes: usize) {
        self.reply_bytes = reply_bytes.clamp(REPLY_BYTES, REPLY_BYTES_MAX);
        // Some are longer than the mean.
        let longer = (self.reply_bytes + self.reply_bytes / 4).min(REPLY_BYTES_MAX);
        self.per_datagram = PAYLOAD_BYTES / longer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_asks_for_no_more_than_the_socket_holds() {
        for granted in [0, 1 << 16, 1 << 17, 212_992, 8 << 20] {
            let mut room = Room::new(granted);
            assert!(room.datagrams() == 2 || room.datagrams() * WAITING_BYTES <= granted);
            for bytes in [REPLY_BYTES_MAX, 500, 12, 4, 4, 4, 300] {
                let gets = room.gets_max();
                assert!(gets >= 1 && room.needed(gets, 0) <= room.datagrams().min(255));
                assert!(room.needed(gets + 1, 0) <= room.datagrams());
                assert!(room.needed(2, 0) >= 2, "one value has room beside a short reply");
                (0..100).for_each(|_| room.learn(10, 10 * bytes, 0));
                assert!(room.reply_bytes.abs_diff(bytes) <= 1, "{} {bytes}", room.reply_bytes);
            }
        }
    }

    #[test]
    fn longer_replies_are_believed_at_once() {
        let mut room = Room::new(1 << 17);
        (0..100).for_each(|_| room.learn(100, 1200, 0));
        assert_eq!(room.needed(100, 10), 1 + 100usize.div_ceil(PAYLOAD_BYTES / 15));
        room.learn(1, 504, 0);
        assert_eq!(room.needed(10, 0), 6);
        (0..100).for_each(|_| room.learn(100, 1200, 0));
        room.learn(0, 0, 50);
        assert_eq!(room.needed(100, 0), 1 + 100usize.div_ceil(PAYLOAD_BYTES / 30));
    }
}
