//! What reaches the medium: a model of a processor's cache and of the buffers of persistent memory
//! (paper 002, sections 3.2 and 4.2: units of 256 bytes, a write-combining buffer of 16 KiB).
//!
//! - A line that is flushed goes to the write-combining buffer. It has room for 64 XPLines, the
//!   oldest of which goes to the medium. One that is not whole by then is read there first.
//! - Without a cache nothing else is counted. With one, a load or a store of a line that is neither
//!   in the cache nor in the buffers reads its XPLine; a line with stores that the cache has no
//!   room for goes the way of a flushed one. A flush leaves the line in the cache; bytes that are
//!   streamed go past it and read nothing.
//! - The last 64 XPLines that were read are in a buffer, too: four lines of one XPLine that are
//!   read one after the other are one read.

use crate::region::{LINE_BYTES, XPLINE_BYTES};
use std::collections::VecDeque;

/// XPLines that each of the medium's buffers holds: 16 KiB.
const BUFFERED_XPLINES: usize = 64;
/// Lines of an XPLine.
const XPLINE_LINES: u64 = XPLINE_BYTES / LINE_BYTES;
/// All lines of an XPLine, as bits.
const WHOLE: u8 = (1 << XPLINE_LINES) - 1;
/// Lines of the cache that share a set.
const WAYS: usize = 8;
/// A place of the cache without a line.
const NOTHING: u64 = u64::MAX;

#[derive(Clone, Default)]
pub(super) struct Media {
    cache: Option<Cache>,
    /// XPLines to be written with those of their lines that are here, the oldest first.
    combined: VecDeque<(u64, u8)>,
    /// XPLines that were read, the oldest first.
    read: VecDeque<u64>,
    written: u64,
    reads: u64,
    /// Reads of XPLines that left the buffer in part.
    reads_to_modify: u64,
}

/// XPLines that went from and to the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) written: u64,
    pub(super) read: u64,
}

impl Media {
    /// With a processor's cache of so many bytes.
    pub(super) fn with_cache(bytes: u64) -> Media {
        Media { cache: Some(Cache::new(bytes)), ..Media::default() }
    }

    /// A load or a store of a line.
    #[inline]
    pub(super) fn touch(&mut self, line: u64, is_store: bool) {
        let Some(cache) = &mut self.cache else { return };
        match cache.touch(line, is_store) {
            Touched::Hit => {}
            Touched::Miss { stored } => {
                self.read(line);
                if let Some(line) = stored {
                    self.write(line);
                }
            }
        }
    }

    /// A store of a line past the cache, which has it no longer.
    #[inline]
    pub(super) fn stream(&mut self, line: u64) {
        if let Some(cache) = &mut self.cache {
            cache.drop_line(line);
        }
    }

    /// A flush of a line with something new.
    #[inline]
    pub(super) fn flush(&mut self, line: u64) {
        if let Some(cache) = &mut self.cache {
            cache.clean(line);
        }
        self.write(line);
    }

    fn read(&mut self, line: u64) {
        let xpline = line / XPLINE_LINES;
        let is_here = self.combined.iter().any(|(other, _)| *other == xpline);
        if !is_here && !self.read.contains(&xpline) {
            self.reads += 1;
            self.read.push_back(xpline);
            if self.read.len() > BUFFERED_XPLINES {
                self.read.pop_front();
            }
        }
    }

    fn write(&mut self, line: u64) {
        let (xpline, bit) = (line / XPLINE_LINES, 1 << (line % XPLINE_LINES));
        if let Some((_, lines)) = self.combined.iter_mut().find(|(other, _)| *other == xpline) {
            *lines |= bit;
            return;
        }
        self.written += 1;
        self.combined.push_back((xpline, bit));
        if self.combined.len() > BUFFERED_XPLINES
            && let Some((_, lines)) = self.combined.pop_front()
        {
            self.reads_to_modify += u64::from(lines != WHOLE);
        }
    }

    /// What was counted, as if the buffer were written now.
    pub(super) fn traffic(&self) -> Traffic {
        let in_part = self.combined.iter().filter(|(_, lines)| *lines != WHOLE).count() as u64;
        Traffic { written: self.written, read: self.reads + self.reads_to_modify + in_part }
    }
}

/// What a load or a store found.
enum Touched {
    Hit,
    /// `stored`: the line that had to go, if it had stores.
    Miss {
        stored: Option<u64>,
    },
}

/// Sets of 8 lines; the line that was not used for the longest time goes first.
#[derive(Clone)]
struct Cache {
    /// In each set the line used last is the first. A line is 2 times its number, plus 1 if it has
    /// stores.
    sets: Vec<[u64; WAYS]>,
}

impl Cache {
    fn new(bytes: u64) -> Cache {
        let sets = (bytes / LINE_BYTES / WAYS as u64).max(1);
        Cache { sets: vec![[NOTHING; WAYS]; sets as usize] }
    }

    fn set(&mut self, line: u64) -> &mut [u64; WAYS] {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn touch(&mut self, line: u64, is_store: bool) -> Touched {
        let set = self.set(line);
        let found = set.iter().position(|entry| entry >> 1 == line);
        let at = found.unwrap_or(WAYS - 1);
        let old = set[at];
        set.copy_within(..at, 1);
        let stored = u64::from(is_store) | if found.is_some() { old & 1 } else { 0 };
        set[0] = line << 1 | stored;
        match found {
            Some(_) => Touched::Hit,
            None => {
                let has_stores = old != NOTHING && old & 1 == 1;
                Touched::Miss { stored: has_stores.then_some(old >> 1) }
            }
        }
    }

    /// The set of the line has one more place.
    fn drop_line(&mut self, line: u64) {
        if let Some(entry) = self.set(line).iter_mut().find(|entry| **entry >> 1 == line) {
            *entry = NOTHING;
        }
    }

    /// The line's stores were written.
    fn clean(&mut self, line: u64) {
        if let Some(entry) = self.set(line).iter_mut().find(|entry| **entry >> 1 == line) {
            *entry &= !1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(media: &Media) -> (u64, u64) {
        (media.traffic().written, media.traffic().read)
    }

    #[test]
    fn whole_xplines_are_written_without_a_read() {
        let mut media = Media::default();
        (0..4).for_each(|line| media.flush(line));
        assert_eq!(traffic(&media), (1, 0));
        media.flush(4);
        assert_eq!(traffic(&media), (2, 1), "a part of an XPLine is read first");
        (5..8).for_each(|line| media.flush(line));
        assert_eq!(traffic(&media), (2, 0));
        // 64 others push them out, and each of those is a part.
        (2..66).for_each(|xpline| media.flush(4 * xpline));
        assert_eq!(traffic(&media), (66, 64));
        media.flush(0);
        assert_eq!(traffic(&media), (67, 65), "it is in the buffer no longer");
    }

    #[test]
    fn loads_reach_the_medium_if_cache_and_buffers_lack_the_line() {
        let mut media = Media::default();
        media.touch(0, false);
        assert_eq!(traffic(&media), (0, 0), "nothing is known without a cache");
        let mut media = Media::with_cache(1024);
        (0..4).for_each(|line| media.touch(line, false));
        media.touch(0, false);
        assert_eq!(traffic(&media), (0, 1));
        // 16 lines in 2 sets: the buffers have what the cache lost, until they lose it.
        (4..40).for_each(|line| media.touch(line, false));
        media.touch(0, false);
        assert_eq!(traffic(&media), (0, 10));
        (10..80).for_each(|xpline| media.touch(4 * xpline, false));
        media.touch(1, false);
        assert_eq!(traffic(&media), (0, 81));
    }

    #[test]
    fn stores_that_were_not_flushed_leave_the_cache() {
        let mut media = Media::with_cache(512);
        media.touch(0, true);
        media.touch(1, true);
        media.flush(1);
        assert_eq!(traffic(&media), (1, 2), "one read for the store, one for a part");
        (2..9).for_each(|line| media.touch(line, false));
        assert_eq!(media.traffic().written, 1, "line 0 went to the buffer beside line 1");
        assert_eq!(media.combined, [(0, 0b11)]);
        (9..18).for_each(|line| media.touch(line, false));
        assert_eq!(media.combined, [(0, 0b11)], "line 1 was clean");
    }
}
