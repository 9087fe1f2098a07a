//! One trie over the keys of a virtual bucket: writing it, and walking it to a key's rank.
//!
//! A trie is its splits in pre-order: how many keys have a 0 at the next bit, then the trie of
//! those keys, then that of the others. Tries of at most one key have no code. The right half of
//! the whole trie is written backwards from the end of its bits, so that a lookup reaches either
//! half without passing the other. A trie of equal
//! keys goes on below the last bit of its keys, where every lookup takes the left side: it is
//! halved there, so that its first key is the one found.

use super::bits::{self, Cursor};
use super::phrases::{Phrase, Phrases, Place, SMALL_MAX};
use super::skips::{Parts, SKIP_MAX, Skips};
use super::splits::SplitCode;
use silica_base::{BitWriter, prefetch};

const KEY_BITS: u32 = 64;

/// Nesting of a trie that was not damaged: a level per key bit, and halvings of equal keys.
const NESTING_MAX: u32 = 2 * KEY_BITS;

/// The codes in use for one `hmax`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Codes {
    splits: SplitCode,
    phrases: &'static Phrases,
    skips: &'static Skips,
    /// Largest size that phrases code.
    small_max: u64,
    /// Largest size that is passed by table.
    skip_max: u64,
}

impl Codes {
    /// Phrases for small tries, Huffman words up to `hmax` keys, Golomb-Rice codes beyond.
    pub(super) fn new(hmax: u32) -> Self {
        Codes {
            splits: SplitCode::new(hmax),
            phrases: Phrases::get(),
            skips: Skips::get(),
            small_max: u64::from(hmax).clamp(2, SMALL_MAX as u64),
            skip_max: u64::from(hmax).clamp(2, SKIP_MAX),
        }
    }

    /// Appends the trie of the ascending `keys`.
    pub(super) fn write(&self, out: &mut BitWriter, keys: &[u64]) {
        if keys.len() as u64 <= self.small_max || fork(keys, 0).0 > 0 {
            return TrieWriter::new(self, out).any(keys, 0);
        }
        let (_, left, below) = fork(keys, 0);
        let (low, high) = keys.split_at(left);
        self.splits.write(out, keys.len() as u64, left as u64);
        TrieWriter::new(self, out).any(low, below);
        let mut right = BitWriter::new();
        TrieWriter::new(self, &mut right).any(high, below);
        bits::append_reversed(out, &right);
    }

    /// Rank of `key` in the trie of `size` keys between these two bits of `bytes`.
    pub(super) fn rank(&self, bytes: &[u8], ends: [u64; 2], size: u64, key: u64) -> u64 {
        let mut path = Path { key, rank: 0, size };
        let mut cursor = Cursor::forwards(bytes, ends[0]);
        if size > self.small_max {
            // Memory answers for both ends at the same time.
            prefetch(bytes, (ends[1] / 8).saturating_sub(8) as usize);
            let left = self.splits.read(&mut cursor, size);
            let bit = path.take_bit();
            if left != 0 && bit == 1 {
                cursor = Cursor::backwards(bytes, ends[1]);
                (path.rank, path.size) = (left, size - left);
            } else if left != 0 {
                path.size = left;
            }
        }
        while path.size > self.small_max {
            if cursor.is_past_end() {
                return path.rank;
            }
            let left = self.splits.read(&mut cursor, path.size);
            let bit = path.take_bit();
            if left == 0 {
                continue;
            }
            if bit == 0 {
                path.size = left;
            } else {
                self.skip(&mut cursor, left, 0);
                path.rank += left;
                path.size -= left;
            }
        }
        while path.size > 2 && !cursor.is_past_end() {
            let phrase = self.phrases.read(&mut cursor, path.size);
            let before = path.follow(phrase);
            self.skips.skip(&mut cursor, &self.splits, before);
        }
        if path.size == 2 {
            let levels = cursor.read_unary();
            path.key = path.key.checked_shl(levels).unwrap_or(0);
            path.rank += path.key >> (KEY_BITS - 1);
        }
        path.rank
    }

    /// Passes the trie of `size` keys.
    fn skip(&self, cursor: &mut Cursor<'_>, mut size: u64, nesting: u32) {
        while size > self.skip_max {
            if cursor.is_past_end() || nesting > NESTING_MAX {
                return;
            }
            let left = self.splits.read(cursor, size);
            if left != 0 {
                self.skip(cursor, left, nesting + 1);
                size -= left;
            }
        }
        self.skips.skip(cursor, &self.splits, Parts::one(size));
    }
}

/// The way from the root of a trie to a key: what is left of the key's bits, the keys passed on
/// the left, and the size of the part that holds the key.
struct Path {
    key: u64,
    rank: u64,
    size: u64,
}

/// Where a part stands to the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    On,
    Behind,
}

impl Path {
    #[inline]
    fn take_bit(&mut self) -> u64 {
        let bit = self.key >> (KEY_BITS - 1);
        self.key <<= 1;
        bit
    }

    /// Goes down the splits of `phrase`; the open parts before the path, whose codes stand
    /// before those of the path's own part.
    fn follow(&mut self, phrase: &Phrase) -> Parts {
        let mut lefts = phrase.lefts();
        let mut before = Parts::default();
        let mut stack = [(0, Side::Behind); SMALL_MAX + 1];
        stack[0] = (self.size, Side::On);
        let mut depth = 1;
        loop {
            let (size, side) = stack[depth - 1];
            let left = if size > 2 { lefts.next() } else { None };
            match (left, side) {
                (Some(0), Side::On) => {
                    self.take_bit();
                }
                (Some(0), _) => {}
                (Some(left), _) => {
                    let goes_right = side == Side::On && self.take_bit() == 1;
                    let (low, high) = match (side, goes_right) {
                        (Side::On, false) => (Side::On, Side::Behind),
                        (Side::On, true) => (Side::Before, Side::On),
                        (other, _) => (other, other),
                    };
                    stack[depth - 1] = (size - left, high);
                    stack[depth] = (left, low);
                    depth += 1;
                    self.rank += if goes_right { left } else { 0 };
                }
                (None, Side::Before) => {
                    before.push(Parts::one(size));
                    depth -= 1;
                }
                (None, _) => {
                    self.size = size;
                    return before;
                }
            }
        }
    }
}

/// Writes one trie.
struct TrieWriter<'a> {
    codes: &'a Codes,
    out: &'a mut BitWriter,
    /// Where the phrase that is being made stands.
    place: Option<u16>,
    /// One-sided levels of the parts of two keys that the phrase leaves open.
    runs: [u32; SMALL_MAX],
    runs_len: usize,
}

/// Where `keys` (two or more), equal above bit `depth`, part: one-sided levels, keys on the left
/// then, depth below.
#[inline]
fn fork(keys: &[u64], depth: u32) -> (u32, usize, u32) {
    let differ = keys[0] ^ keys[keys.len() - 1];
    let shared = differ.leading_zeros();
    let left = match keys.len() {
        len if differ == 0 => len / 2,
        2 => 1,
        len if len <= 2 * SMALL_MAX => {
            let bit = KEY_BITS - 1 - shared;
            keys.iter().map(|key| (!key >> bit & 1) as usize).sum()
        }
        _ => keys.partition_point(|key| key >> (KEY_BITS - 1 - shared) & 1 == 0),
    };
    (shared.saturating_sub(depth), left, shared + 1)
}

impl<'a> TrieWriter<'a> {
    fn new(codes: &'a Codes, out: &'a mut BitWriter) -> Self {
        TrieWriter { codes, out, place: None, runs: [0; SMALL_MAX], runs_len: 0 }
    }

    fn any(&mut self, keys: &[u64], depth: u32) {
        let size = keys.len() as u64;
        if size <= self.codes.small_max {
            return self.small(keys, depth);
        }
        let (one_sided, left, below) = fork(keys, depth);
        for _ in 0..one_sided {
            self.codes.splits.write(self.out, size, 0);
        }
        self.codes.splits.write(self.out, size, left as u64);
        let (low, high) = keys.split_at(left);
        self.any(low, below);
        self.any(high, below);
    }

    fn small(&mut self, keys: &[u64], depth: u32) {
        if keys.len() < 2 {
            return;
        }
        let (one_sided, left, below) = fork(keys, depth);
        if keys.len() == 2 {
            return self.pair(one_sided);
        }
        for _ in 0..one_sided {
            self.split(keys.len(), 0);
        }
        self.split(keys.len(), left);
        let (low, high) = keys.split_at(left);
        self.small(low, below);
        self.small(high, below);
    }

    /// Adds a split to the phrase, and writes the phrase where it is complete.
    fn split(&mut self, size: usize, left: usize) {
        let phrases = self.codes.phrases;
        let from = self.place.unwrap_or_else(|| phrases.start(size));
        match phrases.follow(from, left) {
            Place::Open(place) => self.place = Some(place),
            Place::Complete(id) => {
                let word = phrases.phrase(id).word();
                self.out.write(u64::from(word.bits), word.len);
                self.place = None;
                for run in 0..std::mem::take(&mut self.runs_len) {
                    self.unary(self.runs[run]);
                }
            }
        }
    }

    fn pair(&mut self, one_sided: u32) {
        if self.place.is_some() {
            self.runs[self.runs_len] = one_sided;
            self.runs_len += 1;
        } else {
            self.unary(one_sided);
        }
    }

    fn unary(&mut self, ones: u32) {
        let first = ones.min(32);
        self.out.write((1 << first) - 1, first);
        self.out.write((1 << (ones - first)) - 1, ones - first + 1);
    }
}
