//! Record framing shared by logs and manifests. Format: docs/formats/framing.md.
//!
//! A record is a header and a payload, padded to a multiple of 8. Its checksum covers both and
//! the place (file id and offset), so a stale or misplaced record does not pass. Sequence numbers
//! are consecutive, and each record says which sequence was known to be durable when it was
//! written: that tells a torn tail (legal: it was never acknowledged) from damage.

use silica_base::{Checksum, is_zero};

/// Bytes of a record header.
pub const HEADER_BYTES: usize = 24;
/// Records start at multiples of this.
pub const ALIGN_BYTES: usize = 8;

/// A record's place in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// What the payload is; its meaning belongs to the file format that uses the framing.
    pub kind: u8,
    /// Consecutive within a log.
    pub sequence: u64,
    /// Every record up to this sequence was durable when this one was written.
    pub synced_through: u64,
}

/// A record read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Kind, sequence, what was durable.
    pub header: RecordHeader,
    /// Offset in the file where the payload starts.
    pub payload_offset: u64,
    /// The payload.
    pub payload: &'a [u8],
}

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Only zeroes follow, or nothing.
    Clean,
    /// What follows at this offset is a record that was cut off before it was durable.
    Torn(u64),
    /// A record at this offset had been durable and is damaged.
    Damaged(u64),
}

/// Bytes that a record with `payload_len` bytes takes, padding included.
pub fn record_bytes(payload_len: usize) -> usize {
    (HEADER_BYTES + payload_len).next_multiple_of(ALIGN_BYTES)
}

/// The header of a record that is written at `offset` of file `file_id`.
#[inline]
pub fn encode_header(
    file_id: u64,
    offset: u64,
    header: &RecordHeader,
    payload: &[u8],
) -> [u8; HEADER_BYTES] {
    let mut bytes = fields(header, payload.len());
    let sum = Checksum::at(file_id, offset).update(&bytes[4..]).update(payload).finish();
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Makes `record`, [`HEADER_BYTES`] bytes of room and then the payload, the record that is
/// written at `offset` of file `file_id`, padding included.
///
/// # Panics
/// Where there is no room for the header.
#[inline]
pub fn seal(file_id: u64, offset: u64, header: &RecordHeader, record: &mut Vec<u8>) {
    let fields = fields(header, record.len() - HEADER_BYTES);
    record[..HEADER_BYTES].copy_from_slice(&fields);
    let sum = Checksum::at(file_id, offset).update(&record[4..]).finish();
    record[..4].copy_from_slice(&sum.to_le_bytes());
    record.resize(record.len().next_multiple_of(ALIGN_BYTES), 0);
}

/// A header without its checksum.
#[inline]
fn fields(header: &RecordHeader, payload_len: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let behind = header.sequence.saturating_sub(header.synced_through).min(u64::from(u32::MAX));
    bytes[4..8].copy_from_slice(&(payload_len as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&header.sequence.to_le_bytes());
    bytes[16..20].copy_from_slice(&(behind as u32).to_le_bytes());
    bytes[20] = header.kind;
    bytes
}

/// The payload of the record at `at` of `bytes`, which is known to be sound: its checksum is not
/// looked at. `None` if no record begins there.
pub fn payload_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let header = bytes.get(at..at + HEADER_BYTES)?;
    let start = at + HEADER_BYTES;
    bytes.get(start..start + u32_at(header, 4) as usize)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// What [`RecordReader::end`] may checksum, in multiples of the bytes that it searches. A stored
/// value may look like headers of long records wherever one can start; to checksum them all would
/// take time with the square of the length.
const SEARCH_FACTOR: usize = 16;

/// The valid record at the start of `bytes`, which lie at `offset` of file `file_id`, if its
/// sequence is in `sequences`. Takes the bytes that had to be checksummed from `budget`, and finds
/// nothing where that is not enough.
fn decode<'a>(
    file_id: u64,
    offset: u64,
    bytes: &'a [u8],
    sequences: std::ops::RangeInclusive<u64>,
    budget: &mut usize,
) -> Option<Record<'a>> {
    let header = bytes.get(..HEADER_BYTES)?;
    let payload_len = u32_at(header, 4) as usize;
    let sequence = u64::from_le_bytes(header[8..16].try_into().ok()?);
    if !sequences.contains(&sequence) || header[21..] != [0; 3] {
        return None;
    }
    let record = bytes.get(..HEADER_BYTES.checked_add(payload_len)?)?;
    *budget = budget.checked_sub(payload_len)?;
    let sum = Checksum::at(file_id, offset).update(&record[4..]).finish();
    if sum != u32_at(header, 0) {
        return None;
    }
    let synced_through = sequence.saturating_sub(u64::from(u32_at(header, 16)));
    let header = RecordHeader { kind: header[20], sequence, synced_through };
    let payload_offset = offset + HEADER_BYTES as u64;
    Some(Record { header, payload_offset, payload: &record[HEADER_BYTES..] })
}

/// The sequence of the valid record at `start` of `bytes`, the whole file `file_id`, whichever it
/// is below `sequence_max`.
pub fn sequence_at(file_id: u64, bytes: &[u8], start: usize, sequence_max: u64) -> Option<u64> {
    let mut unbounded = usize::MAX;
    let rest = bytes.get(start..)?;
    let found = decode(file_id, start as u64, rest, 1..=sequence_max, &mut unbounded)?;
    Some(found.header.sequence)
}

/// Reads the records of a file one after the other.
#[derive(Debug)]
pub struct RecordReader<'a> {
    file_id: u64,
    bytes: &'a [u8],
    at: usize,
    next_sequence: u64,
    /// Records that may be missing before this file.
    gap: u64,
}

impl<'a> RecordReader<'a> {
    /// A reader of `bytes`, the whole file `file_id`, whose first record lies at `start` (a
    /// multiple of 8) and has `first_sequence`.
    pub fn new(file_id: u64, bytes: &'a [u8], start: usize, first_sequence: u64) -> Self {
        RecordReader { file_id, bytes, at: start, next_sequence: first_sequence, gap: 0 }
    }

    /// This reader, where the first record may be one of up to `gap` that are missing in front of
    /// the file: [`RecordReader::end`] looks for later records beyond them, too.
    pub fn behind(mut self, gap: u64) -> Self {
        self.gap = gap;
        self
    }

    /// The sequence that the next record must have.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Offset behind the last record read, padding included.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    /// The next record, or `None` where there is no valid one: then [`RecordReader::end`] says
    /// why.
    pub fn next_record(&mut self) -> Option<Record<'a>> {
        let wanted = self.next_sequence;
        let bytes = self.bytes.get(self.at..)?;
        let mut unbounded = usize::MAX;
        let place = self.at as u64;
        let record = decode(self.file_id, place, bytes, wanted..=wanted, &mut unbounded)?;
        self.at = (self.at + record_bytes(record.payload.len())).min(self.bytes.len());
        self.next_sequence = wanted.saturating_add(1);
        Some(record)
    }

    /// Why there is no next record. Looks for later records that say that the missing one had
    /// been durable.
    pub fn end(&self) -> End {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        if is_zero(rest) {
            return End::Clean;
        }
        let missing = self.next_sequence;
        let fit = (rest.len() / HEADER_BYTES) as u64;
        let latest = missing.saturating_add(self.gap).saturating_add(fit);
        let sequences = missing.saturating_add(1)..=latest;
        let mut budget = SEARCH_FACTOR * rest.len();
        // What lies right here may be a later one, too, where the missing one lay in another file.
        let later = (0..rest.len()).step_by(ALIGN_BYTES).any(|skip| {
            let offset = (self.at + skip) as u64;
            decode(self.file_id, offset, &rest[skip..], sequences.clone(), &mut budget)
                .is_some_and(|record| record.header.synced_through >= missing)
        });
        let at = self.at as u64;
        if later { End::Damaged(at) } else { End::Torn(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: usize = 16;

    /// Five records, the first three of which were durable when the fourth was written.
    fn log() -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut bytes = vec![0; START];
        let payloads: Vec<Vec<u8>> = (0..5u8).map(|i| vec![i + 1; 5 * usize::from(i)]).collect();
        for (i, payload) in payloads.iter().enumerate() {
            let synced_through = if i >= 3 { 3 } else { 0 };
            let header = RecordHeader { kind: 1, sequence: i as u64 + 1, synced_through };
            let head = encode_header(9, bytes.len() as u64, &header, payload);
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(payload);
            bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
        }
        bytes.resize(bytes.len() + 64, 0);
        (bytes, payloads)
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, End) {
        let mut reader = RecordReader::new(9, bytes, START, 1);
        let mut found = Vec::new();
        while let Some(record) = reader.next_record() {
            found.push(record.payload.to_vec());
        }
        (found, reader.end())
    }

    #[test]
    fn a_sealed_record_is_one_with_an_encoded_header() {
        let header = RecordHeader { kind: 4, sequence: 9, synced_through: 2 };
        for payload in [&b""[..], b"x", b"12345678", &[7; 100]] {
            let mut sealed = [&[0xEE; HEADER_BYTES], payload].concat();
            seal(3, 40, &header, &mut sealed);
            let mut bytes = [&encode_header(3, 40, &header, payload)[..], payload].concat();
            bytes.resize(record_bytes(payload.len()), 0);
            assert_eq!(sealed, bytes);
        }
    }

    #[test]
    fn records_come_back() {
        let (bytes, payloads) = log();
        assert_eq!(read(&bytes), (payloads, End::Clean));
    }

    #[test]
    fn every_flip_is_found_and_durable_records_are_missed() {
        let (bytes, payloads) = log();
        let tail = bytes.len() - 64;
        for at in START..tail {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            let (found, end) = read(&flipped);
            assert!(payloads.starts_with(&found), "byte {at}: no wrong payload");
            if found.len() < 3 {
                assert!(matches!(end, End::Damaged(_)), "byte {at}: {end:?}");
            } else if found.len() < 5 {
                assert!(matches!(end, End::Torn(_)), "byte {at}: {end:?}");
            }
        }
    }

    #[test]
    fn every_cut_gives_a_prefix() {
        let (bytes, payloads) = log();
        for len in START..bytes.len() {
            let (found, _) = read(&bytes[..len]);
            assert!(payloads.starts_with(&found));
        }
    }

    /// Without a bound on what is checksummed this would take hours.
    #[test]
    fn a_tail_full_of_promising_headers_is_searched_in_linear_time() {
        let (mut bytes, payloads) = log();
        let tail = 8 << 20;
        while bytes.len() < tail {
            // Read at one multiple of 8 the sequence, at the next the length, and so on.
            let len = (tail - bytes.len()) as u64 / 2;
            bytes.extend_from_slice(&(len << 32).to_le_bytes());
            bytes.extend_from_slice(&7u64.to_le_bytes());
            bytes.extend_from_slice(&[0; 8]);
        }
        assert_eq!(read(&bytes).0, payloads);
    }

    #[test]
    fn a_record_of_another_place_or_file_does_not_pass() {
        let (bytes, _) = log();
        assert!(RecordReader::new(8, &bytes, START, 1).next_record().is_none());
        let mut moved = vec![0; 8];
        moved.extend_from_slice(&bytes);
        assert!(RecordReader::new(9, &moved, START + 8, 1).next_record().is_none());
    }
}
