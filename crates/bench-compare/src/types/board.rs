//! A leaderboard on the durable store: scores of random members change. What the device is given
//! for each change, beside what a store of Kvrocks's design gives it: an element is three entries
//! of RocksDB, of which a change puts one, deletes one and puts another.

use super::memory::trains;
use super::pair::Side;
use super::report::BoardRow;
use super::{Course, TypesRequest};
use crate::peers::Kept;
use silica::engine::WriteBatch;
use silica::{DEFAULT_KEYSPACE, Durability, Keyspace, OpenOptions, Result};
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
/// Requests of a step of the entries alone: as many as a burst of 16 connections at depth 16.
const STEP: u64 = 256;
/// Bytes of the key's entry, which each step writes.
const KEY_ENTRY_BYTES: usize = 64;
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
    drop(side);
    let entries_bytes = entries_alone(course, (members, changes), memory_bytes)?;
    let ours_bytes = written as f64 / changes as f64;
    let user_bytes = (MEMBER_BYTES + SCORE_BYTES) as f64;
    Ok(BoardRow {
        members,
        changes,
        memory_bytes,
        rate: changes as f64 / took,
        ours_bytes,
        peer_bytes,
        entries_bytes,
        ours: ours_bytes / user_bytes,
        peer: peer_bytes / user_bytes,
        ratio: ours_bytes / peer_bytes,
    })
}

/// What the engine writes for each change if an element is two entries of it, without a server: a
/// change puts the member's entry and the one of its new score, and deletes the one of its old
/// score. It bounds from below what a server on this engine can reach with entries of elements.
fn entries_alone(
    course: &Course<'_>,
    (members, changes): (u64, u64),
    memory_bytes: u64,
) -> Result<f64> {
    let options = OpenOptions::new().engine("wip").memory_bytes(memory_bytes);
    let store = options.open(&course.place("entries")?)?;
    let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    let mut board = Board { keyspace: &keyspace, scores: vec![None; members as usize] };
    board.change(members, |nth, _| (nth * 2_654_435_761 % members, nth))?;
    let written = || -> Result<f64> {
        let metrics = keyspace.metrics()?.0;
        let of = |name: &&str| metrics.get(name.trim_start_matches("db0_")).copied().unwrap_or(0.0);
        Ok(WRITTEN.iter().map(of).sum())
    };
    let before = written()?;
    board.change(changes, |_, random| (random.below(members), 1 + random.below(1000)))?;
    Ok((written()? - before) / changes as f64)
}

/// A leaderboard whose elements are entries of an engine.
struct Board<'k> {
    keyspace: &'k Keyspace,
    /// By member; `None` of one that has not come yet.
    scores: Vec<Option<u64>>,
}

impl Board<'_> {
    /// Adds to the scores of members, some changes in a batch.
    fn change(&mut self, count: u64, draw: impl Fn(u64, &mut Prng) -> (u64, u64)) -> Result<()> {
        let mut random = Prng::new(count);
        for first in (0..count).step_by(STEP as usize) {
            let mut batch = Vec::with_capacity(3 * STEP as usize);
            for nth in first..count.min(first + STEP) {
                let (member, more) = draw(nth, &mut random);
                let name = format!("member:{member:010}").into_bytes();
                let old = self.scores[member as usize];
                let new = old.unwrap_or(0) + more;
                self.scores[member as usize] = Some(new);
                batch.extend(old.map(|old| (entry_key(0, &ordered(old), &name), None)));
                batch.push((entry_key(0, &ordered(new), &name), Some(Vec::new())));
                batch.push((entry_key(1, &[], &name), Some(ordered(new).to_vec())));
            }
            batch.push((b"board".to_vec(), Some(vec![7; KEY_ENTRY_BYTES])));
            let mut ops = WriteBatch::new();
            for (key, value) in &batch {
                match value {
                    Some(value) => ops.put(key, value),
                    None => ops.delete(key),
                };
            }
            self.keyspace.engine().write(&ops, Durability::Buffered)?;
        }
        Ok(())
    }
}

/// A score as eight bytes that sort as scores do.
fn ordered(score: u64) -> [u8; 8] {
    ((score as f64).to_bits() | 1 << 63).to_be_bytes()
}

/// The key of an element's entry in one of its two orders.
fn entry_key(order: u8, score: &[u8], member: &[u8]) -> Vec<u8> {
    let object = 0x9E37_79B9_7F4A_7C15_u64.to_be_bytes();
    [&[0xFF, 0x51, 0xCA, 0x00][..], &object, &[0x80 | order], score, member].concat()
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
