//! How far a run is: records in the first two segments of the results
//! (docs/formats/graph-store.md).
//!
//! Records are pages that are written one behind the other, in the two segments in turn. The one
//! with the highest sequence counts; a page that was torn fails its checksum. A segment is given up
//! before it is written again, and an opened log begins with the segment that does not have the
//! newest record, so a block-mapped range copies no page.

use crate::storage::{Area, Storage};
use silica_base::{Error, ErrorKind, Format, Result, checksum};

/// The format of a record.
pub(crate) const FORMAT: Format =
    Format { name: "graph's state", magic: b"SiGState", version_bytes: 4, version: 1, steps: &[] };
/// Segments of records.
pub(crate) const SEGMENTS: u64 = 2;
/// Pages of a segment that take records, at most: all of them are read when a run begins.
const PAGES_MAX: u64 = 64;
/// Bytes of a program's name at most.
pub(crate) const NAME_MAX: usize = 200;
/// Bytes before the name.
const FIXED_BYTES: usize = 64;

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// Checksum of the catalog of the graph that it is about.
    pub(crate) graph: u32,
    /// Name of the program.
    pub(crate) program: String,
    /// Iterations that are finished.
    pub(crate) iteration: u64,
    /// Values that the last one changed.
    pub(crate) changed: u64,
    /// What the values add up to.
    pub(crate) sum_of_all: f64,
    /// The copy that has the values: 0 or 1.
    pub(crate) copy: u32,
}

/// The records of a storage.
pub(crate) struct StateLog {
    /// Page that is written next.
    next: u64,
    sequence: u64,
    segment_pages: u64,
    /// Pages of each segment that take records.
    used_pages: u64,
}

impl Record {
    /// A record of no run: values may be written over.
    pub(crate) fn of_nothing() -> Self {
        let program = String::new();
        Record { graph: 0, program, iteration: 0, changed: 0, sum_of_all: 0.0, copy: 0 }
    }
}

impl StateLog {
    /// Looks for the newest record.
    pub(crate) fn open<S: Storage>(storage: &S) -> Result<(StateLog, Option<Record>)> {
        let segment_pages = storage.segment_pages();
        let used_pages = segment_pages.min(PAGES_MAX);
        let mut log = StateLog { next: 0, sequence: 1, segment_pages, used_pages };
        let mut newest = None;
        let mut bytes = vec![0; storage.page_bytes()];
        let pages = |segment: u64| segment * segment_pages..segment * segment_pages + used_pages;
        for page in (0..SEGMENTS).flat_map(pages) {
            match storage.read(Area::Results, page, &mut bytes) {
                Ok(()) => {}
                // It was being written when the power failed.
                Err(error) if error.kind() == ErrorKind::Corruption => continue,
                Err(error) => return Err(error),
            }
            if let Some((sequence, record)) = decode(&bytes)?
                && sequence >= log.sequence
            {
                log.sequence = sequence + 1;
                log.next = log.segment_after(page);
                newest = Some(record);
            }
        }
        Ok((log, newest))
    }

    /// The first page of the segment that does not have `page`.
    fn segment_after(&self, page: u64) -> u64 {
        (page / self.segment_pages + 1) % SEGMENTS * self.segment_pages
    }

    /// Writes a record that counts from the return on, and syncs before and behind it.
    pub(crate) fn append<S: Storage>(&mut self, storage: &S, record: &Record) -> Result<()> {
        storage.sync()?;
        let mut bytes = encode(record, self.sequence)?;
        bytes.resize(storage.page_bytes(), 0);
        let within = self.next % self.segment_pages;
        if within == 0 {
            storage.trim(Area::Results, self.next / self.segment_pages, 1)?;
        }
        storage.write(Area::Results, self.next, &bytes)?;
        storage.sync()?;
        let is_last = within + 1 == self.used_pages;
        self.next = if is_last { self.segment_after(self.next) } else { self.next + 1 };
        self.sequence += 1;
        Ok(())
    }
}

fn encode(record: &Record, sequence: u64) -> Result<Vec<u8>> {
    if record.program.len() > NAME_MAX {
        let message = format!(
            "the name of a program has {} bytes; {NAME_MAX} are the most: {}",
            record.program.len(),
            record.program
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let mut out = Vec::with_capacity(FIXED_BYTES + NAME_MAX);
    FORMAT.begin(&mut out);
    out.extend_from_slice(&[0; 4]);
    for number in [sequence, record.iteration, record.changed, record.sum_of_all.to_bits()] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in [record.graph, record.copy, record.program.len() as u32, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(record.program.as_bytes());
    let sum = checksum(&out[16..]);
    out[12..16].copy_from_slice(&sum.to_le_bytes());
    Ok(out)
}

/// A record and its sequence; `None` for a page that has none.
fn decode(bytes: &[u8]) -> Result<Option<(u64, Record)>> {
    if !FORMAT.begins(bytes) || bytes.len() < FIXED_BYTES {
        return Ok(None);
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let end = FIXED_BYTES + (word(56) as usize).min(NAME_MAX);
    if end > bytes.len() || checksum(&bytes[16..end]) != word(12) {
        return Ok(None);
    }
    FORMAT.version_of("the state of a graph", 0, bytes)?;
    let record = Record {
        graph: word(48),
        program: String::from_utf8_lossy(&bytes[FIXED_BYTES..end]).into_owned(),
        iteration: long(24),
        changed: long(32),
        sum_of_all: f64::from_bits(long(40)),
        copy: word(52) & 1,
    };
    Ok(Some((long(16), record)))
}
