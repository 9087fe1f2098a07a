//! The bytes of a memory image: `docs/formats/mica-image.md`.

use crate::family::{KeptFamily, SPACES_MAX};
use crate::index::OFFSET_BITS;
use crate::layout::Layout;
use crate::log::Log;
use silica_base::{AlignedBuf, Checksum, Error, Format, HashSeed, Result};
use silica_device::DeviceFile;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const FORMAT: Format = Format {
    name: "memory image",
    magic: b"SiMI",
    version_bytes: 4,
    version: 3,
    steps: &[of_one_database, of_small_values],
};

/// Version 2 names the databases in bytes that were zeroes before, which say that there is one.
fn of_one_database(_: &mut Vec<u8>) {}

/// Version 3 numbers large values in bytes that were zeroes before, which say that there are none.
fn of_small_values(_: &mut Vec<u8>) {}

/// Bytes that everything in the file is a multiple of.
pub(super) const CHUNK_BYTES: usize = 4096;
/// Bytes of the header.
const HEADER_BYTES: usize = CHUNK_BYTES;
/// Where the generations of databases begin in the header.
const GENERATIONS_AT: usize = 104;
/// Where the number of the next large value is.
const LISTS_AT: usize = GENERATIONS_AT + 4 * SPACES_MAX;
/// Bytes in front of a record's words.
const HEAD_BYTES: usize = 32;
/// Bytes of the largest record.
const RECORD_BYTES: usize = 1 << 20;
/// Words of the largest record.
const RECORD_WORDS: usize = (RECORD_BYTES - HEAD_BYTES) / 8;

/// What a record's words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    State,
    Index,
    Log,
    End,
}

impl Kind {
    fn from_number(number: u32) -> Option<Self> {
        [Kind::State, Kind::Index, Kind::Log, Kind::End].into_iter().find(|k| k.number() == number)
    }

    fn number(self) -> u32 {
        self as u32 + 1
    }
}

/// What an image depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// When it was written; bound into every checksum.
    pub(super) file: u64,
    pub(super) seed: HashSeed,
    pub(super) layout: Layout,
    pub(super) offset_bits: u32,
    /// Of a cache that may have several databases.
    pub(super) family: Option<KeptFamily>,
    /// The number of the next large value; 0 if there was none yet.
    pub(super) lists: u64,
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn damaged(at: u64, detail: &str) -> Error {
    Error::corruption("the memory image", at, detail)
}

impl Header {
    fn encode(&self, chunk: &mut [u8]) {
        let Layout { partitions, main_buckets, spare_buckets, log_words, small_words, is_store } =
            self.layout;
        chunk.fill(0);
        FORMAT.begin_in(chunk);
        chunk[8..16].copy_from_slice(&self.file.to_le_bytes());
        chunk[16..32].copy_from_slice(&self.seed.0);
        let numbers = [
            partitions as u64,
            main_buckets as u64,
            spare_buckets as u64,
            log_words as u64,
            u64::from(self.offset_bits),
            u64::from(is_store),
            small_words as u64,
            if self.family.is_some() { SPACES_MAX as u64 } else { 0 },
            self.family.map_or(0, |kept| kept.order),
        ];
        for (place, number) in chunk[32..].as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        let generations = self.family.map(|kept| kept.generations).unwrap_or_default();
        let places = chunk[GENERATIONS_AT..].as_chunks_mut::<4>().0.iter_mut();
        places.zip(generations).for_each(|(place, of)| *place = of.to_le_bytes());
        chunk[LISTS_AT..LISTS_AT + 8].copy_from_slice(&self.lists.to_le_bytes());
        let crc = Checksum::at(self.file, 0).update(&chunk[..HEADER_BYTES - 4]).finish();
        chunk[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }

    fn decode(chunk: &[u8]) -> Result<Self> {
        if chunk.len() < HEADER_BYTES {
            return Err(damaged(0, "its header is cut short"));
        }
        FORMAT.version_of("the memory image", 0, chunk)?;
        let file = word_at(chunk, 8);
        let crc = Checksum::at(file, 0).update(&chunk[..HEADER_BYTES - 4]).finish();
        if crc != half_at(chunk, HEADER_BYTES - 4) {
            return Err(damaged(0, "the header's checksum does not hold"));
        }
        let number = |n: usize| word_at(chunk, 32 + 8 * n) as usize;
        let layout = Layout {
            partitions: number(0),
            main_buckets: number(1),
            spare_buckets: number(2),
            log_words: number(3),
            small_words: number(6),
            is_store: number(5) != 0,
        };
        let seed = HashSeed(chunk[16..32].try_into().expect("sixteen bytes"));
        let generations = std::array::from_fn(|n| half_at(chunk, GENERATIONS_AT + 4 * n));
        let family = match number(7) {
            0 => None,
            SPACES_MAX => Some(KeptFamily { order: word_at(chunk, 96), generations }),
            _ => return Err(damaged(88, "no cache has so many databases")),
        };
        let lists = word_at(chunk, LISTS_AT);
        Ok(Header { file, seed, layout, offset_bits: number(4) as u32, family, lists })
    }
}

impl Header {
    pub(super) fn has_lists(&self) -> bool {
        self.lists > 0
    }

    /// Refuses what no partition can have.
    pub(super) fn check(&self) -> Result<()> {
        let is_one = self.layout.is_plausible() && (1..=OFFSET_BITS).contains(&self.offset_bits);
        let Layout { log_words, small_words, .. } = self.layout;
        let is_family = self.family.is_none_or(|kept| kept.is_plausible());
        if is_one && is_family && Log::is_wide(log_words, small_words, self.offset_bits) {
            return Ok(());
        }
        Err(damaged(0, "no keyspace is divided like this"))
    }
}

/// The checksum of a record at `at`.
fn checksum(file: u64, at: u64, record: &[u8]) -> u32 {
    Checksum::at(file, at).update(&record[..24]).update(&record[28..]).finish()
}

/// Writes an image from its beginning to its end.
pub(super) struct Writer<'f, F> {
    file: &'f F,
    id: u64,
    at: u64,
    buf: AlignedBuf,
}

impl<'f, F: DeviceFile> Writer<'f, F> {
    pub(super) fn new(file: &'f F, header: &Header) -> Result<Self> {
        let mut buf = AlignedBuf::zeroed(RECORD_BYTES);
        header.encode(&mut buf[..HEADER_BYTES]);
        file.write_at(0, &buf[..HEADER_BYTES])?;
        Ok(Writer { file, id: header.file, at: HEADER_BYTES as u64, buf })
    }

    /// Writes the words of a partition's index or log, except where they are zero; `progress` is
    /// told of all of them.
    pub(super) fn words(
        &mut self,
        kind: Kind,
        partition: usize,
        words: &[AtomicU64],
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        for (number, part) in words.chunks(RECORD_WORDS).enumerate() {
            let place = self.buf[HEAD_BYTES..].as_chunks_mut::<8>().0;
            let mut any = 0;
            for (place, word) in place.iter_mut().zip(part) {
                let word = word.load(Relaxed);
                any |= word;
                *place = word.to_le_bytes();
            }
            if any != 0 {
                self.record(kind, partition, number * RECORD_WORDS, part.len())?;
            }
            progress(8 * part.len() as u64);
        }
        Ok(())
    }

    /// Writes a record of `words`, which are few.
    pub(super) fn few(&mut self, kind: Kind, partition: usize, words: &[u64]) -> Result<()> {
        let place = self.buf[HEAD_BYTES..].as_chunks_mut::<8>().0;
        place.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
        self.record(kind, partition, 0, words.len())
    }

    /// Writes the record whose words are in the buffer.
    fn record(&mut self, kind: Kind, partition: usize, start: usize, words: usize) -> Result<()> {
        let used = HEAD_BYTES + 8 * words;
        let whole = used.next_multiple_of(CHUNK_BYTES);
        self.buf[used..whole].fill(0);
        let head = &mut self.buf[..HEAD_BYTES];
        head.fill(0);
        head[..4].copy_from_slice(&kind.number().to_le_bytes());
        head[4..8].copy_from_slice(&(partition as u32).to_le_bytes());
        head[8..16].copy_from_slice(&(words as u64).to_le_bytes());
        head[16..24].copy_from_slice(&(start as u64).to_le_bytes());
        let crc = checksum(self.id, self.at, &self.buf[..used]);
        self.buf[24..28].copy_from_slice(&crc.to_le_bytes());
        self.file.write_at(self.at, &self.buf[..whole])?;
        self.at += whole as u64;
        Ok(())
    }

    /// Ends the image and makes it durable; returns its bytes.
    pub(super) fn end(mut self) -> Result<u64> {
        self.few(Kind::End, 0, &[])?;
        self.file.sync()?;
        Ok(self.at)
    }
}

/// Reads an image from its beginning to its end.
pub(super) struct Reader<'f, F> {
    file: &'f F,
    id: u64,
    at: u64,
    buf: AlignedBuf,
}

/// A record whose checksum held.
pub(super) struct Record<'r> {
    pub(super) kind: Kind,
    pub(super) partition: usize,
    /// Where it is in the file.
    pub(super) at: u64,
    start: usize,
    bytes: &'r [u8],
}

impl<'f, F: DeviceFile> Reader<'f, F> {
    pub(super) fn new(file: &'f F) -> Result<(Self, Header)> {
        let mut buf = AlignedBuf::zeroed(RECORD_BYTES);
        let read = file.read_at(0, &mut buf[..HEADER_BYTES])?;
        let header = Header::decode(&buf[..read])?;
        Ok((Reader { file, id: header.file, at: HEADER_BYTES as u64, buf }, header))
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Result<Record<'_>> {
        let at = self.at;
        let read = self.file.read_at(at, &mut self.buf)?;
        let buf = &self.buf[..read];
        if buf.len() < HEAD_BYTES {
            return Err(damaged(at, "it ends too early"));
        }
        let words = word_at(buf, 8).min(RECORD_BYTES as u64) as usize;
        let Some(record) = buf.get(..HEAD_BYTES + 8 * words) else {
            return Err(damaged(at, "a record is longer than what is there"));
        };
        if checksum(self.id, at, record) != half_at(record, 24) {
            return Err(damaged(at, "a record's checksum does not hold"));
        }
        let Some(kind) = Kind::from_number(half_at(record, 0)) else {
            return Err(damaged(at, "a record is of no kind that this program knows"));
        };
        self.at += record.len().next_multiple_of(CHUNK_BYTES) as u64;
        let (partition, start) = (half_at(record, 4) as usize, word_at(record, 16) as usize);
        Ok(Record { kind, partition, at, start, bytes: &record[HEAD_BYTES..] })
    }
}

impl Record<'_> {
    /// Says what is wrong with the record.
    pub(super) fn wrong(&self, detail: &str) -> Error {
        damaged(self.at, detail)
    }

    pub(super) fn words(&self) -> impl ExactSizeIterator<Item = u64> {
        self.bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
    }

    /// Stores the words where they belong among `all`.
    pub(super) fn store(&self, all: &[AtomicU64]) -> Result<()> {
        let words = self.words();
        let end = self.start.checked_add(words.len());
        let Some(place) = end.and_then(|end| all.get(self.start..end)) else {
            return Err(self.wrong("a record belongs where nothing is"));
        };
        place.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_how_many_bytes_the_fields_have() {
        let page = include_str!("../../../../docs/formats/mica-image.md");
        let mut sums = [0, 0];
        let mut table = 0;
        for line in page.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match (cells[1], cells[2].parse::<usize>()) {
                ("field", _) => table = 0,
                ("field of a record's head", _) => table = 1,
                (name, Ok(total)) if name.starts_with("total") => assert_eq!(sums[table], total),
                (_, Ok(bytes)) => sums[table] += bytes,
                _ => {}
            }
        }
        assert_eq!(sums, [HEADER_BYTES, HEAD_BYTES]);
    }
}
