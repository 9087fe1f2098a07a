//! Reading a packed file: footer, single lookups, sections.

use super::chunk::{self, CHUNK_BYTES, PAYLOAD_BYTES, Trailer};
use super::footer::{Footer, Section, SectionKind};
use super::layout::Extent;
use super::scan::ChunkScan;
use silica_base::{AlignedBuf, Error, Result};
use silica_device::{Device, DeviceFile, Mode};
use silica_parts::frame::{Frame, Header};
use std::ops::Range;
use std::sync::Arc;

/// What a search of an extent found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The key's entry.
    Entry(Frame<'a>),
    /// The key has no entry here.
    Absent,
    /// Not decided by these bytes: read this extent and search it.
    More(Extent),
}

/// An open packed file.
pub struct PackedReader<F> {
    file: F,
    name: String,
    footer: Footer,
}

/// As [`Found`], with the entry's place in the buffer.
pub(crate) enum Located {
    At(Range<usize>),
    Absent,
    More(Extent),
}

/// What the bytes of a frame that may be cut off tell: its key, and its length or 0.
fn cut(bytes: &[u8]) -> (Option<&[u8]>, usize) {
    let Some(header) = Header::decode(bytes) else { return (None, 0) };
    (bytes.get(header.key_start..header.key_start + header.key_len), header.frame_len())
}

impl<F: DeviceFile> PackedReader<F> {
    pub(super) fn new(file: F, name: String, footer: Footer) -> Self {
        PackedReader { file, name, footer }
    }

    /// Opens the file `name`, whose id the manifest says is `file_id`; reads the footer alone.
    pub fn open<D: Device<File = F>>(device: &D, name: &str, file_id: u64) -> Result<Self> {
        let file = device.open(name, Mode::Direct)?;
        let len = file.len()?;
        if len == 0 || len % CHUNK_BYTES as u64 != 0 {
            return Err(Error::corruption(name, len, "length is not a multiple of a chunk"));
        }
        let number = len / CHUNK_BYTES as u64 - 1;
        let mut buf = AlignedBuf::zeroed(CHUNK_BYTES);
        let filled = file.read_at(number * CHUNK_BYTES as u64, &mut buf)?;
        let footer = Footer::open(&buf[..filled], name, file_id, number)?;
        Ok(PackedReader { file, name: name.to_owned(), footer })
    }

    /// The file, for reads in a burst.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the file is.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        let sections: u64 = self.footer.sections.iter().map(section_chunks).sum();
        (self.footer.data_chunks + sections + 1) * CHUNK_BYTES as u64
    }

    /// The read that serves a lookup of an entry that starts somewhere in `chunk`.
    #[inline]
    pub fn extent(&self, chunk: u64) -> Extent {
        self.extent_of(chunk, u64::from(self.footer.straddle_usual) + 1)
    }

    fn extent_of(&self, chunk: u64, chunks: u64) -> Extent {
        let left = self.footer.data_chunks.saturating_sub(chunk);
        Extent { chunk, chunks: chunks.min(left) as u32, at: Extent::ANYWHERE }
    }

    /// The read of entry number `rank`, where all entries have the same size.
    #[inline]
    pub fn extent_of_rank(&self, rank: u64) -> Option<Extent> {
        let equal = self.footer.entry_bytes_equal;
        let known = equal > 0 && rank < self.footer.entries;
        known.then(|| self.footer.layout.exact(rank, equal))
    }

    /// Reads `extent` into `buf`.
    pub fn read(&self, extent: Extent, buf: &mut AlignedBuf) -> Result<()> {
        buf.resize(extent.bytes());
        let filled = self.file.read_at(extent.offset(), buf)?;
        if filled < buf.len() {
            let at = extent.offset() + filled as u64;
            return Err(Error::corruption(&self.name, at, "the file ends early"));
        }
        Ok(())
    }

    /// Checks the first chunk of `bytes`, which is chunk `number` of the file.
    pub(crate) fn check_chunk(&self, bytes: &[u8], number: u64) -> Result<()> {
        self.check(bytes, number).map(drop)
    }

    fn check(&self, bytes: &[u8], number: u64) -> Result<Trailer> {
        chunk::check(bytes, &self.name, self.footer.file_id, number)
    }

    pub(super) fn damaged(&self, chunk: u64, offset: usize, detail: &str) -> Error {
        Error::corruption(&self.name, chunk * CHUNK_BYTES as u64 + offset as u64, detail)
    }

    /// Searches `buf`, the bytes of `extent`, for `key` among the entries that start in the
    /// extent's first chunk. Checks every chunk it looks into. The bytes of an entry that crosses
    /// a border are moved together, so a buffer is searched once.
    #[inline]
    pub fn find<'a>(&self, buf: &'a mut [u8], extent: Extent, key: &[u8]) -> Result<Found<'a>> {
        let located = self.locate(buf, extent, key, |_| false)?;
        self.found(buf, extent, located)
    }

    pub(crate) fn found<'a>(
        &self,
        buf: &'a [u8],
        extent: Extent,
        located: Located,
    ) -> Result<Found<'a>> {
        Ok(match located {
            Located::Absent => Found::Absent,
            Located::More(extent) => Found::More(extent),
            Located::At(range) => {
                let start = range.start;
                let frame = Frame::decode(&buf[range]);
                let (frame, _) =
                    frame.ok_or_else(|| self.damaged(extent.chunk, start, "no entry"))?;
                Found::Entry(frame)
            }
        })
    }

    /// Where [`PackedReader::find`] finds. If the key is not among the entries and `continues`
    /// says of the last one's key that the search goes on behind it, the answer is the extent
    /// behind.
    pub(crate) fn locate(
        &self,
        buf: &mut [u8],
        extent: Extent,
        key: &[u8],
        continues: impl Fn(&[u8]) -> bool,
    ) -> Result<Located> {
        let Trailer { first, used } = self.check(buf, extent.chunk)?;
        let exact = extent.at != Extent::ANYWHERE;
        let mut at = if exact { extent.at as usize } else { first };
        if at >= used {
            return Ok(self.behind_empty(extent, used, exact));
        }
        while let Some((frame, len)) = Frame::decode(&buf[at..used]) {
            if frame.key == key {
                return Ok(Located::At(at..at + len));
            }
            if exact {
                return Ok(Located::Absent);
            }
            at += len;
            if at >= used {
                let follows = continues(frame.key);
                return Ok(if follows { self.behind(extent.chunk + 1) } else { Located::Absent });
            }
        }
        if used < PAYLOAD_BYTES {
            return Err(self.damaged(extent.chunk, at, "no entry where one should start"));
        }
        self.locate_crossing(buf, extent, at, key, continues)
    }

    fn behind(&self, chunk: u64) -> Located {
        if chunk < self.footer.data_chunks {
            Located::More(self.extent(chunk))
        } else {
            Located::Absent
        }
    }

    /// No entry starts in the chunk. One that is not full was closed behind a large entry, and
    /// what was to follow that starts in the next.
    fn behind_empty(&self, extent: Extent, used: usize, exact: bool) -> Located {
        if used < PAYLOAD_BYTES && !exact { self.behind(extent.chunk + 1) } else { Located::Absent }
    }

    /// Goes on with the entry at `at` that crosses into the next chunk, the last that starts in
    /// its own.
    fn locate_crossing(
        &self,
        buf: &mut [u8],
        extent: Extent,
        at: usize,
        key: &[u8],
        continues: impl Fn(&[u8]) -> bool,
    ) -> Result<Located> {
        let end = self.join(buf, extent)?;
        let (visible, len) = cut(&buf[at..end]);
        if let Some(visible) = visible.filter(|visible| *visible != key) {
            let next = extent.chunk + ((at + len) / PAYLOAD_BYTES) as u64;
            let follows = extent.at == Extent::ANYWHERE && continues(visible);
            return Ok(if follows { self.behind(next) } else { Located::Absent });
        }
        if visible.is_some() && at + len <= end {
            return Ok(Located::At(at..at + len));
        }
        let longest = u64::from(self.footer.straddle_max) + 1;
        let chunks = if len == 0 { longest } else { (at + len).div_ceil(PAYLOAD_BYTES) as u64 };
        let wider = Extent { at: extent.at, ..self.extent_of(extent.chunk, chunks.min(longest)) };
        if wider.chunks <= extent.chunks {
            return Err(self.damaged(extent.chunk, at, "an entry does not end"));
        }
        Ok(Located::More(wider))
    }

    /// Checks the chunks behind the first and moves their payloads together, so that an entry
    /// that crosses borders lies in one piece; the bytes joined.
    fn join(&self, buf: &mut [u8], extent: Extent) -> Result<usize> {
        let mut end = PAYLOAD_BYTES;
        for n in 1..extent.chunks as usize {
            let start = n * CHUNK_BYTES;
            let number = extent.chunk + n as u64;
            let trailer = self.check(buf.get(start..).unwrap_or(&[]), number)?;
            buf.copy_within(start..start + trailer.used, end);
            end += trailer.used;
            if trailer.first < PAYLOAD_BYTES {
                break;
            }
        }
        Ok(end)
    }

    /// All bytes of the section of `kind`, checked.
    pub fn section(&self, kind: SectionKind) -> Result<Option<Vec<u8>>> {
        let Some(section) = self.footer.section(kind) else { return Ok(None) };
        self.section_range(kind, 0..section.bytes)
    }

    /// The bytes `range` of the section of `kind`, checked; one device read where the range lies
    /// in few chunks.
    pub fn section_range(&self, kind: SectionKind, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        let Some(section) = self.footer.section(kind) else { return Ok(None) };
        if range.start > range.end || range.end > section.bytes {
            let detail = format!("bytes {range:?} of a section of {}", section.bytes);
            return Err(self.damaged(section.chunk, 0, &detail));
        }
        let payload = PAYLOAD_BYTES as u64;
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        let mut buf = AlignedBuf::zeroed(0);
        let (mut number, last) = (range.start / payload, range.end.div_ceil(payload));
        while number < last {
            let chunks = (last - number).min(256) as u32;
            let extent = Extent { chunk: section.chunk + number, chunks, at: 0 };
            self.read(extent, &mut buf)?;
            for (i, bytes) in buf.chunks(CHUNK_BYTES).enumerate() {
                let used = self.check(bytes, extent.chunk + i as u64)?.used;
                let base = (number + i as u64) * payload;
                if used as u64 != payload.min(section.bytes - base) {
                    return Err(self.damaged(extent.chunk + i as u64, 0, "section cut short"));
                }
                let from = range.start.saturating_sub(base) as usize;
                let to = (range.end - base).min(used as u64) as usize;
                out.extend_from_slice(&bytes[from..to]);
            }
            number += u64::from(chunks);
        }
        Ok(Some(out))
    }

    /// Checks every section chunk.
    pub fn verify_sections(&self) -> Result<()> {
        for section in &self.footer.sections {
            self.section(section.kind)?;
        }
        Ok(())
    }

    /// Scans from the first entry that starts in `chunk` or behind it.
    pub fn scan(self: &Arc<Self>, chunk: u64, read_ahead_bytes: usize) -> ChunkScan<F> {
        ChunkScan::new(Arc::clone(self), chunk, read_ahead_bytes)
    }
}

fn section_chunks(section: &Section) -> u64 {
    section.bytes.div_ceil(PAYLOAD_BYTES as u64)
}
