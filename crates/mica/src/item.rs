//! An entry's words in the log: header, meta as far as there is any, key, value.
//!
//! ```text
//! word 0    header: value bytes (21 bits), key bytes (16), words of the place (18), flags (7),
//!           uses (2); of a free block (`fits.rs`): its words, flags
//! [word]    expiry in milliseconds since the Unix epoch   (flag EXPIRES)
//! [word]    the user's bits                               (flag USER_BITS)
//! words     key, filled up with zeroes to whole words
//! words     value, the same
//! ```

use silica_engine::EntryRef;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Nobody finds the entry any more: it was overwritten, deleted or evicted from the index.
const DEAD: u64 = 1 << 55;
const EXPIRES: u64 = 1 << 56;
const USER_BITS: u64 = 1 << 57;
/// How often it was used since it was appended, as far as that is counted.
const USES: u64 = USES_MAX << USES_SHIFT;
const USES_SHIFT: u32 = 62;
/// Uses are counted so far.
pub(crate) const USES_MAX: u64 = 3;
/// No entry of a user: what was left at the log's end, or, if it is [`LARGE`], a chunk.
const PAD: u64 = 1 << 58;
/// No entry but a free block of store mode.
const FREE: u64 = 1 << 59;
/// The block before this one is free. Readers do not look at it.
const AFTER_FREE: u64 = 1 << 60;
/// Of a large value (`large.rs`): its list, or, if it is a [`PAD`], one of its chunks.
const LARGE: u64 = 1 << 61;

const KEY_SHIFT: u32 = 21;
const WORDS_SHIFT: u32 = 37;
const VALUE_MASK: u64 = (1 << KEY_SHIFT) - 1;
const KEY_MASK: u64 = (1 << (WORDS_SHIFT - KEY_SHIFT)) - 1;
const WORDS_MASK: u64 = (1 << 18) - 1;
/// Words of the largest place.
pub(crate) const PLACE_WORDS_MAX: usize = WORDS_MASK as usize;
/// Bytes of a chunk's key.
pub(crate) const CHUNK_KEY_BYTES: usize = 24;

/// What an entry has of a value. As numbers, the flags of a header from [`PAD`] on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// All of it.
    #[default]
    Whole = 0,
    /// Where its chunks are: the value is large.
    List = 0b1000,
    /// A part of a large one. No key of a user is compared with its key.
    Chunk = 0b1001,
}

impl Form {
    /// The flags of a header.
    #[inline(always)]
    fn flags(self) -> u64 {
        (self as u64) << PAD.trailing_zeros()
    }
}

/// The first word of a place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header(u64);

impl Header {
    pub(crate) fn load(word: &AtomicU64) -> Self {
        Header(word.load(Relaxed))
    }

    /// A place of `words` words that holds no entry.
    pub(crate) fn pad(words: usize) -> Self {
        Header(PAD | DEAD | (words as u64) << WORDS_SHIFT)
    }

    pub(crate) fn store(self, word: &AtomicU64) {
        word.store(self.0, Relaxed);
    }

    /// A free block of `words` words, which may be more than a place has.
    pub(crate) fn free(words: usize) -> Self {
        Header(FREE | words as u64)
    }

    /// A block in use of `words` words, which the block before is not free.
    pub(crate) fn used(words: usize) -> Self {
        Header((words as u64) << WORDS_SHIFT)
    }

    pub(crate) fn is_free(self) -> bool {
        self.0 & FREE != 0
    }

    /// Words of a free block.
    pub(crate) fn free_words(self) -> usize {
        (self.0 & (DEAD - 1)) as usize
    }

    pub(crate) fn is_after_free(self) -> bool {
        self.0 & AFTER_FREE != 0
    }

    pub(crate) fn with_after_free(self, is_after_free: bool) -> Self {
        Header(if is_after_free { self.0 | AFTER_FREE } else { self.0 & !AFTER_FREE })
    }

    /// Words of the whole place, which an entry that was shortened does not fill.
    #[inline(always)]
    pub(crate) fn words(self) -> usize {
        (self.0 >> WORDS_SHIFT & WORDS_MASK) as usize
    }

    #[inline(always)]
    pub(crate) fn key_bytes(self) -> usize {
        (self.0 >> KEY_SHIFT & KEY_MASK) as usize
    }

    #[inline(always)]
    pub(crate) fn value_bytes(self) -> usize {
        (self.0 & VALUE_MASK) as usize
    }

    pub(crate) fn is_live(self) -> bool {
        self.0 & DEAD == 0
    }

    #[inline(always)]
    pub(crate) fn uses(self) -> u64 {
        self.0 >> USES_SHIFT
    }

    pub(crate) fn with_uses(self, uses: u64) -> Self {
        debug_assert!(uses <= USES_MAX);
        Header(self.0 & !USES | uses << USES_SHIFT)
    }

    #[cfg(test)]
    pub(crate) fn is_pad(self) -> bool {
        self.0 & (PAD | LARGE) == PAD
    }

    /// True of lists and chunks.
    #[inline(always)]
    pub(crate) fn is_large(self) -> bool {
        self.0 & LARGE != 0
    }

    #[inline(always)]
    pub(crate) fn form(self) -> Form {
        // Nearly all are whole.
        if self.is_large() { self.form_of_large() } else { Form::Whole }
    }

    #[cold]
    fn form_of_large(self) -> Form {
        if self.0 & PAD == 0 { Form::List } else { Form::Chunk }
    }

    pub(crate) fn dead(self) -> Self {
        Header(self.0 | DEAD)
    }

    #[inline(always)]
    fn has_meta(self) -> bool {
        self.0 & (EXPIRES | USER_BITS) != 0
    }

    #[inline(always)]
    fn meta_words(self) -> usize {
        // 0, 1, 1 and 2 words for the two flags.
        (((self.0 >> 56 & 3) + 1) >> 1) as usize
    }

    /// Words that the entry itself takes.
    #[inline(always)]
    pub(crate) fn used_words(self) -> usize {
        1 + self.meta_words() + words_of(self.key_bytes()) + words_of(self.value_bytes())
    }
}

/// Words that hold so many bytes.
#[inline(always)]
pub(crate) fn words_of(bytes: usize) -> usize {
    // No key and no value is nearly so long that this overflows.
    (bytes + 7) >> 3
}

/// Words of an entry.
#[inline]
pub(crate) fn words_needed(key: &[u8], entry: &EntryRef<'_>) -> usize {
    let meta = usize::from(entry.expires_unix_ms != 0) + usize::from(entry.user_bits != 0);
    1 + meta + words_of(key.len()) + words_of(entry.value.len())
}

/// Stores an entry in `place`, which has words enough.
#[inline(always)]
pub(crate) fn store(place: &[AtomicU64], key: &[u8], entry: &EntryRef<'_>, form: Form) {
    let header = entry.value.len() as u64
        | (key.len() as u64) << KEY_SHIFT
        | (place.len() as u64) << WORDS_SHIFT
        | form.flags();
    let is_plain = entry.expires_unix_ms == 0 && entry.user_bits == 0;
    // The usual small entry needs no loops.
    if let (Ok(key), Ok(value)) = (<&[u8; 8]>::try_from(key), <&[u8; 8]>::try_from(entry.value))
        && let [first, second, third, ..] = place
        && is_plain
    {
        first.store(header, Relaxed);
        second.store(u64::from_le_bytes(*key), Relaxed);
        return third.store(u64::from_le_bytes(*value), Relaxed);
    }
    store_any(header, place, key, entry);
}

/// Stores an entry of any kind, of which this is the header without what meta it has.
#[inline(never)]
fn store_any(mut header: u64, place: &[AtomicU64], key: &[u8], entry: &EntryRef<'_>) {
    let mut at = 1;
    if entry.expires_unix_ms != 0 {
        header |= EXPIRES;
        place[at].store(entry.expires_unix_ms, Relaxed);
        at += 1;
    }
    if entry.user_bits != 0 {
        header |= USER_BITS;
        place[at].store(u64::from(entry.user_bits), Relaxed);
        at += 1;
    }
    place[0].store(header, Relaxed);
    store_bytes(&place[at..], key);
    store_bytes(&place[at + words_of(key.len())..], entry.value);
}

#[inline(always)]
fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let (whole, last) = words.split_at(chunks.len());
    // Four at a time: nothing else makes the compiler do so with atomic words.
    let (fours, single) = whole.as_chunks::<4>();
    let (chunks_of_four, others) = chunks.as_chunks::<4>();
    for (words, chunks) in fours.iter().zip(chunks_of_four) {
        for (word, chunk) in words.iter().zip(chunks) {
            word.store(u64::from_le_bytes(*chunk), Relaxed);
        }
    }
    for (word, chunk) in single.iter().zip(others) {
        word.store(u64::from_le_bytes(*chunk), Relaxed);
    }
    if !rest.is_empty() {
        last[0].store(last_word(rest), Relaxed);
    }
}

#[inline(always)]
fn last_word(rest: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// The value of an entry at `log[at]` that has `key` of 8 bytes, a value of at most 8 and no meta,
/// and how many bytes it has; `None` for all others.
#[inline(always)]
pub(crate) fn word_value(log: &[AtomicU64], at: usize, key: &[u8]) -> Option<(u64, usize)> {
    let key = <&[u8; 8]>::try_from(key).ok()?;
    let [header, entry_key, value, ..] = log.get(at..)? else { return None };
    // What is left of the right header is the value's length.
    let usual = 8 << KEY_SHIFT;
    let value_bytes =
        (header.load(Relaxed) & !(USES | DEAD | AFTER_FREE | WORDS_MASK << WORDS_SHIFT)) ^ usual;
    let is_it = value_bytes <= 8 && entry_key.load(Relaxed) == u64::from_le_bytes(*key);
    is_it.then(|| (value.load(Relaxed), value_bytes as usize))
}

/// An entry in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'l> {
    pub(crate) header: Header,
    /// Words of its meta, its key and its value.
    meta: &'l [AtomicU64],
    key: &'l [AtomicU64],
    value: &'l [AtomicU64],
}

/// A value and meta that were copied out of the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    pub(crate) value_bytes: usize,
    pub(crate) expires_unix_ms: u64,
    pub(crate) user_bits: u32,
    pub(crate) form: Form,
}

impl<'l> Item<'l> {
    /// The entry at `log[at]`, or `None` where no entry can be there: what a reader sees of a
    /// place that is being overwritten.
    #[inline(always)]
    pub(crate) fn at(log: &'l [AtomicU64], at: usize) -> Option<Self> {
        let (header, rest) = log.get(at..)?.split_first()?;
        let header = Header::load(header);
        let (meta, rest) = rest.split_at_checked(header.meta_words())?;
        let (key, rest) = rest.split_at_checked(words_of(header.key_bytes()))?;
        let value = rest.get(..words_of(header.value_bytes()))?;
        Some(Item { header, meta, key, value })
    }

    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        // A chunk has no key of a user.
        self.matches(key, PAD)
    }

    /// True of the entry of `key`, unless its value is large.
    #[inline(always)]
    pub(crate) fn is_whole_of(&self, key: &[u8]) -> bool {
        self.matches(key, PAD | LARGE)
    }

    /// True if the key is `key`, and none of these flags is set.
    #[inline(always)]
    fn matches(&self, key: &[u8], flags: u64) -> bool {
        if self.header.0 & (flags | KEY_MASK << KEY_SHIFT) != (key.len() as u64) << KEY_SHIFT {
            return false;
        }
        // Keys of one word are many.
        if let (Ok(key), [word]) = (<&[u8; 8]>::try_from(key), self.key) {
            return word.load(Relaxed) == u64::from_le_bytes(*key);
        }
        has_bytes(self.key, key)
    }

    /// True if value and meta are those of `entry`, and this is no part of a large value. Only for
    /// the holder of the lock.
    pub(crate) fn is_entry(&self, entry: &EntryRef<'_>) -> bool {
        let mut meta = Copied::default();
        if self.header.has_meta() {
            self.read_meta(&mut meta);
        }
        !self.header.is_large()
            && self.header.value_bytes() == entry.value.len()
            && (meta.expires_unix_ms, meta.user_bits) == (entry.expires_unix_ms, entry.user_bits)
            && has_bytes(self.value, entry.value)
    }

    /// True of the chunk with this key.
    pub(crate) fn is_chunk(&self, key: &[u8; CHUNK_KEY_BYTES]) -> bool {
        let (words, _) = key.as_chunks::<8>();
        let mut same = self.key.iter().zip(words);
        self.header.form() == Form::Chunk
            && self.header.key_bytes() == CHUNK_KEY_BYTES
            && same.all(|(word, key)| word.load(Relaxed) == u64::from_le_bytes(*key))
    }

    /// The key of a chunk; `None` of every other entry.
    pub(crate) fn chunk_key(&self) -> Option<[u8; CHUNK_KEY_BYTES]> {
        let mut key = [0; CHUNK_KEY_BYTES];
        if self.header.form() != Form::Chunk || self.header.key_bytes() != CHUNK_KEY_BYTES {
            return None;
        }
        copy_words(self.key, &mut key);
        Some(key)
    }

    /// Copies the value into `out`; false if it has another length.
    pub(crate) fn copy_to(&self, out: &mut [u8]) -> bool {
        let is_it = self.header.value_bytes() == out.len();
        if is_it {
            copy_words(self.value, out);
        }
        is_it
    }

    /// Copies the value into `scratch`, which becomes long enough, and returns the meta.
    pub(crate) fn copy(&self, scratch: &mut Scratch) -> Copied {
        Copied { form: self.header.form(), ..self.copy_whole(scratch) }
    }

    /// As [`Item::copy`], of an entry that is no part of a large value.
    #[inline(always)]
    pub(crate) fn copy_whole(&self, scratch: &mut Scratch) -> Copied {
        scratch.fill(self.value);
        let mut copied = Copied { value_bytes: self.header.value_bytes(), ..Copied::default() };
        if self.header.has_meta() {
            self.read_meta(&mut copied);
        }
        copied
    }

    #[cold]
    fn read_meta(&self, copied: &mut Copied) {
        let mut words = self.meta.iter().map(|word| word.load(Relaxed));
        if self.header.0 & EXPIRES != 0 {
            copied.expires_unix_ms = words.next().unwrap_or_default();
        }
        if self.header.0 & USER_BITS != 0 {
            copied.user_bits = words.next().unwrap_or_default() as u32;
        }
    }

    /// When the entry expires; 0 means never.
    pub(crate) fn expires_unix_ms(&self) -> u64 {
        if self.header.0 & EXPIRES != 0 { self.meta[0].load(Relaxed) } else { 0 }
    }

    /// The first eight bytes of the key, filled up with zeroes.
    #[inline]
    pub(crate) fn first_key_word(&self) -> u64 {
        self.key.first().map_or(0, |word| word.load(Relaxed))
    }

    /// Appends the key's bytes.
    pub(crate) fn push_key(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for word in self.key {
            out.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        out.truncate(start + self.header.key_bytes());
    }
}

/// True if `words` are `bytes`, filled up with zeroes, of which there are as many words.
#[inline(always)]
fn has_bytes(words: &[AtomicU64], bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let (whole, last) = words.split_at(chunks.len());
    let (fours, single) = whole.as_chunks::<4>();
    let (chunks_of_four, others) = chunks.as_chunks::<4>();
    // What differs, so that there is one branch for four words.
    let differs =
        |word: &AtomicU64, chunk: &[u8; 8]| word.load(Relaxed) ^ u64::from_le_bytes(*chunk);
    for (words, chunks) in fours.iter().zip(chunks_of_four) {
        let pairs = words.iter().zip(chunks);
        if pairs.fold(0, |all, (word, chunk)| all | differs(word, chunk)) != 0 {
            return false;
        }
    }
    let pairs = single.iter().zip(others);
    pairs.fold(0, |all, (word, chunk)| all | differs(word, chunk)) == 0
        && (rest.is_empty() || last[0].load(Relaxed) == last_word(rest))
}

/// Copies words into as many chunks, four at a time: nothing else makes the compiler do so with
/// atomic words.
#[inline(always)]
fn load_words(words: &[AtomicU64], out: &mut [[u8; 8]]) {
    let (fours, single) = words.as_chunks::<4>();
    let (chunks_of_four, others) = out.as_chunks_mut::<4>();
    for (words, chunks) in fours.iter().zip(chunks_of_four) {
        for (word, chunk) in words.iter().zip(chunks) {
            *chunk = word.load(Relaxed).to_le_bytes();
        }
    }
    for (word, chunk) in single.iter().zip(others) {
        *chunk = word.load(Relaxed).to_le_bytes();
    }
}

/// Copies the bytes of `words`, as far as `out` has room.
fn copy_words(words: &[AtomicU64], out: &mut [u8]) {
    let (chunks, rest) = out.as_chunks_mut::<8>();
    let whole = chunks.len().min(words.len());
    load_words(&words[..whole], &mut chunks[..whole]);
    if let Some(word) = words.get(chunks.len()) {
        let len = rest.len();
        rest.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..len]);
    }
}

/// Values up to so many bytes are copied to the stack: pages of objects are.
const SMALL_BYTES: usize = 1152;
/// A buffer of more bytes is given back after the value that needed it.
const KEPT_BYTES: usize = 2 << 20;

/// Where values are copied to; on the heap only where they are large.
pub(crate) struct Scratch {
    small: [u8; SMALL_BYTES],
    large: Vec<u8>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Scratch { small: [0; SMALL_BYTES], large: Vec::new() }
    }

    #[inline(always)]
    fn fill(&mut self, words: &[AtomicU64]) {
        if let [word] = words {
            let (first, _) = self.small.split_first_chunk_mut().expect("it is not empty");
            *first = word.load(Relaxed).to_le_bytes();
            return;
        }
        let bytes = 8 * words.len();
        let target = if bytes <= SMALL_BYTES {
            &mut self.small[..bytes]
        } else {
            if self.large.len() < bytes {
                self.large.resize(bytes, 0);
            }
            &mut self.large[..bytes]
        };
        load_words(words, target.as_chunks_mut::<8>().0);
    }

    /// Room for a value of `bytes` bytes, which is there as if it had been copied.
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        // As long as an entry of so many bytes has it.
        let whole = 8 * words_of(bytes);
        if whole <= SMALL_BYTES {
            return &mut self.small[..bytes];
        }
        if self.large.len() < whole {
            // Zeroed by the system, if it is large.
            self.large = vec![0; whole];
        }
        &mut self.large[..bytes]
    }

    /// Gives back what a large value has needed.
    pub(crate) fn trim(&mut self) {
        if self.large.len() > KEPT_BYTES {
            self.large = Vec::new();
        }
    }

    /// What was copied last.
    #[inline(always)]
    pub(crate) fn entry(&self, copied: Copied) -> EntryRef<'_> {
        let Copied { value_bytes, expires_unix_ms, user_bits, .. } = copied;
        let bytes = 8 * words_of(value_bytes);
        let from = if bytes <= SMALL_BYTES { &self.small[..] } else { &self.large[..] };
        EntryRef { value: &from[..value_bytes], expires_unix_ms, user_bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Words;
    use silica_base::Prng;

    #[test]
    fn entries_come_back_whatever_their_sizes_and_meta() {
        let mut prng = Prng::new(1);
        let mut scratch = Scratch::new();
        let (log, mut usual) = (Words::zeroed(4096), 0);
        for round in 0..2000 {
            let mut bytes = |max: u64| -> Vec<u8> {
                let len = if prng.one_in(9) { prng.below(max) } else { prng.below(20) };
                (0..len).map(|_| prng.next_u64() as u8).collect()
            };
            let (mut key, value) = (bytes(500), bytes(9000));
            if round % 2 == 0 {
                key.resize(8, 7);
            }
            let expires_unix_ms = [0, 1, u64::MAX, 7][round % 4];
            let user_bits = [0, 0, u32::MAX, 1, 0][round % 5];
            let entry = EntryRef { value: &value, expires_unix_ms, user_bits };
            let (at, words) = (round, words_needed(&key, &entry));
            let spare = round % 3;
            store(&log[at..at + words + spare], &key, &entry, Form::Whole);
            let item = Item::at(&log, at).expect("an entry lies there");
            assert_eq!((item.header.words(), item.header.used_words()), (words + spare, words));
            assert!(item.has_key(&key) && item.header.is_live() && !item.header.is_pad());
            assert!(item.is_entry(&entry));
            let (meta, later) = (expires_unix_ms ^ 2, EntryRef { user_bits: !user_bits, ..entry });
            assert!(!item.is_entry(&later));
            assert!(!item.is_entry(&EntryRef { expires_unix_ms: meta, ..entry }));
            for (cut, changed) in [(value.len(), 0), (value.len() / 2, 0), (0, 1)] {
                let mut other = value.clone();
                other.get_mut(cut).into_iter().for_each(|byte| *byte ^= 1);
                other.extend(vec![0; changed]);
                let is_same = item.is_entry(&EntryRef { value: &other, ..entry });
                assert_eq!(is_same, other == value, "{cut} of {}", value.len());
            }
            let mut other = key.clone();
            other.push(0);
            assert!(!item.has_key(&other), "a longer key of the same words");
            if let Some(last) = other.iter_mut().rev().nth(1) {
                *last ^= 1;
                assert!(!item.has_key(&other[..key.len()]), "a key that ends differently");
            }
            let copied = item.copy(&mut scratch);
            assert_eq!(scratch.entry(copied), entry);
            let is_usual = key.len() == 8 && value.len() <= 8 && expires_unix_ms == 0;
            let found = word_value(&log, at, &key);
            assert_eq!(found.is_some(), is_usual && user_bits == 0, "{entry:?}");
            if let Some((word, len)) = found {
                assert_eq!(word.to_le_bytes()[..len], value);
                usual += 1;
            }
            assert!(word_value(&log, at, &other).is_none());
            assert_eq!(item.expires_unix_ms(), expires_unix_ms);
            let mut found = b"before".to_vec();
            item.push_key(&mut found);
            assert_eq!(found, [b"before", &key[..]].concat());
        }
        assert!(usual > 50, "{usual} entries were of the usual form");
    }

    #[test]
    fn what_lies_beyond_the_log_is_no_entry() {
        let log = Words::zeroed(4);
        store(&log[1..4], b"key", &EntryRef::new(b"value"), Form::Whole);
        assert!(Item::at(&log, 1).is_some());
        store(&log[1..4], b"key", &EntryRef::new(b"value"), Form::Whole);
        Header(u64::MAX).store(&log[1]);
        assert!(Item::at(&log, 1).is_none() && Item::at(&log, 4).is_none());
        assert!(!Header::pad(7).is_live() && Header::pad(7).is_pad());
        assert_eq!((Header::pad(7).words(), Header::pad(7).dead()), (7, Header::pad(7)));
    }
}
