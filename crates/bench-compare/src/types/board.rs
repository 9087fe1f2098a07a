//! A leaderboard on the durable store: scores of random members change. What the device is given
//! for each change, beside what a store of Kvrocks's design gives it: an element is three entries
//! of RocksDB, of which a change puts one, deletes one and puts another.

use super::memory::trains;
use super::pair::Side;
use super::report::BoardRow;
use super::{Course, TypesRequest};
use crate::peers::Kept;
use silica::Result;
use silica_base::Prng;

/// Bytes that a store of ours has handed to the device.
const WRITTEN: [&str; 4] = [
    "db0_log_bytes_written",
    "db0_value_log_bytes_written",
    "db0_flush_bytes_written",
    "db0_compaction_bytes_written",
];
/// Bytes of a member, and of its score.
const MEMBER_BYTES: u64 = 17;
const SCORE_BYTES: u64 = 8;
/// Entries that a change of Kvrocks's writes: the member's, the old score's deletion, the new
/// score's.
const PEER_PUTS: u64 = 3;
/// Bytes of such an entry: the name space and its length, the user's key and its length, a version
/// of 8 bytes, the member, its score, and what RocksDB adds.
const PEER_ENTRY_BYTES: u64 = 12 + 4 + 5 + 8 + MEMBER_BYTES + SCORE_BYTES + 8;
/// Write buffers of the peer, which have a quarter of the memory.
const PEER_BUFFERS: u64 = 4;
/// Requests that are made before they are sent.
const AT_ONCE: u64 = 1 << 20;

/// A store of the peer's design, in entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoardDesign {
    /// Entries that are there.
    pub entries: u64,
    /// Puts that are counted.
    pub puts: u64,
    /// Entries of a write buffer, and of a table.
    pub buffer: u64,
    /// Entries of the first level.
    pub base: u64,
}

/// Fills the board, changes scores, and tells what was written for each change.
pub(super) fn measure(
    course: &Course<'_>,
    request: &TypesRequest,
    (members, changes): (u64, u64),
    peer: &dyn Fn(&BoardDesign) -> Result<f64>,
) -> Result<BoardRow> {
    // So small that most of the board is not in memory.
    let memory_bytes = request.memory_bytes.unwrap_or((members * 24).max(64 << 20));
    let mut side = Side::ours(course, Kept::Buffered, memory_bytes)?;
    send(&mut side, members, |nth, _| (b"ZADD", nth * 2_654_435_761 % members, nth))?;
    let before = side.told(&WRITTEN)?;
    let took = send(&mut side, changes, |_, random| {
        (b"ZINCRBY", random.below(members), 1 + random.below(1000))
    })?;
    let written = side.told(&WRITTEN)?.saturating_sub(before);
    let buffer = (memory_bytes / 4 / PEER_BUFFERS / PEER_ENTRY_BYTES).max(1);
    let design = BoardDesign {
        entries: 2 * members,
        puts: changes * PEER_PUTS,
        buffer,
        base: PEER_BUFFERS * buffer,
    };
    let peer_bytes = peer(&design)? * (PEER_PUTS * PEER_ENTRY_BYTES) as f64;
    let ours_bytes = written as f64 / changes as f64;
    let user_bytes = (MEMBER_BYTES + SCORE_BYTES) as f64;
    Ok(BoardRow {
        members,
        changes,
        memory_bytes,
        rate: changes as f64 / took,
        ours_bytes,
        peer_bytes,
        ours: ours_bytes / user_bytes,
        peer: peer_bytes / user_bytes,
        ratio: ours_bytes / peer_bytes,
    })
}

/// Sends `count` requests of a command, a member and a score; the seconds.
fn send(
    side: &mut Side,
    count: u64,
    request: impl Fn(u64, &mut Prng) -> (&'static [u8], u64, u64),
) -> Result<f64> {
    let (mut random, mut seconds, mut first) = (Prng::new(count), 0.0, 0);
    while first < count {
        let now = (count - first).min(AT_ONCE);
        let drawn: Vec<_> = (first..first + now).map(|nth| request(nth, &mut random)).collect();
        let trains = trains(now, |train, nth| {
            let (command, member, score) = drawn[nth as usize];
            let member = format!("member:{member:010}").into_bytes();
            train.push(&[command, b"board", score.to_string().as_bytes(), &member]);
        });
        seconds += side.run(&trains)?.seconds;
        first += now;
    }
    Ok(seconds)
}
