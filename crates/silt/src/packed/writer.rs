//! Writing a packed file front to back with bounded memory.

use super::chunk::{self, CHUNK_BYTES, PAYLOAD_BYTES, Trailer};
use super::footer::{FileKind, Footer, Section, SectionKind};
use super::layout::Layout;
use super::reader::PackedReader;
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use silica_device::{Device, DeviceFile, Mode};
use silica_parts::WriteBehind;
use silica_parts::expiry::{Expiries, ExpiriesBuilder, Expiring, mixed};
use silica_parts::frame::{self, Frame};

/// Bytes collected before a write; as many may be on their way.
const BUFFER_BYTES: usize = 512 << 10;
/// Chunks beyond the first are counted exactly up to here when the usual number is chosen.
const STRADDLES_COUNTED: usize = 64;

/// Where an appended entry starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The chunk.
    pub chunk: u64,
    /// The offset in its payload.
    pub offset: u32,
}

/// Writes one packed file. After an error the writer is of no more use: drop it and remove the
/// file.
pub struct PackedWriter<F: DeviceFile> {
    file: WriteBehind<F>,
    name: String,
    footer: Footer,
    buf: AlignedBuf,
    /// Number of the chunk at the start of `buf`.
    buf_chunk: u64,
    /// Start in `buf` of the chunk being filled.
    at: usize,
    used: usize,
    first: Option<usize>,
    entry_bytes_min: u64,
    entry_bytes_max: u64,
    straddles: [u64; STRADDLES_COUNTED],
    expiries: ExpiriesBuilder,
    bytes_written: u64,
}

impl<F: DeviceFile> PackedWriter<F> {
    /// Creates the file `name`, which must not exist.
    pub fn create<D: Device<File = F>>(
        device: &D,
        name: &str,
        file_id: u64,
        kind: FileKind,
        layout: Layout,
    ) -> Result<Self> {
        let footer = Footer {
            kind,
            file_id,
            layout,
            entries: 0,
            tombstones: 0,
            pointers: 0,
            entry_bytes: 0,
            entry_bytes_equal: 0,
            data_chunks: 0,
            straddle_max: 0,
            straddle_usual: 0,
            sections: Vec::new(),
            meta: Vec::new(),
            expiries: Expiries::default(),
        };
        let file = device.create(name, Mode::Direct)?.with_lifetime(kind.lifetime());
        Ok(PackedWriter {
            file: WriteBehind::new(file),
            name: name.to_owned(),
            footer,
            buf: AlignedBuf::zeroed(CHUNK_BYTES),
            buf_chunk: 0,
            at: 0,
            used: 0,
            first: None,
            entry_bytes_min: u64::MAX,
            entry_bytes_max: 0,
            straddles: [0; STRADDLES_COUNTED],
            expiries: ExpiriesBuilder::default(),
            bytes_written: 0,
        })
    }

    /// Entries appended so far.
    pub fn entries(&self) -> u64 {
        self.footer.entries
    }

    /// Bytes of the entries appended so far.
    pub fn entry_bytes(&self) -> u64 {
        self.footer.entry_bytes
    }

    /// Bytes handed to the device so far.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Bytes that the file takes of the device for certain: what was handed over last may be on its
    /// way.
    pub fn bytes_taken(&self) -> u64 {
        self.bytes_written.saturating_sub(BUFFER_BYTES as u64)
    }

    /// Size of every entry so far where all are equal, otherwise 0.
    pub fn entry_bytes_equal(&self) -> u64 {
        if self.entry_bytes_min == self.entry_bytes_max { self.entry_bytes_max } else { 0 }
    }

    fn chunk_number(&self) -> u64 {
        self.buf_chunk + (self.at / CHUNK_BYTES) as u64
    }

    /// Appends one encoded frame.
    #[inline]
    pub fn append(&mut self, frame: &[u8]) -> Result<Place> {
        let room = PAYLOAD_BYTES - self.used;
        let skips_rest = self.footer.layout == Layout::Aligned && frame.len() <= PAYLOAD_BYTES;
        if room == 0 || (skips_rest && frame.len() > room) {
            self.close_chunk()?;
        }
        let place = Place { chunk: self.chunk_number(), offset: self.used as u32 };
        self.first.get_or_insert(self.used);
        let mut rest = frame;
        loop {
            let (now, later) = rest.split_at(rest.len().min(PAYLOAD_BYTES - self.used));
            let start = self.at + self.used;
            self.buf[start..start + now.len()].copy_from_slice(now);
            self.used += now.len();
            rest = later;
            if rest.is_empty() {
                break;
            }
            self.close_chunk()?;
        }
        self.count(frame, (self.chunk_number() - place.chunk) as usize);
        Ok(place)
    }

    #[inline]
    fn count(&mut self, frame: &[u8], straddle: usize) {
        let (len, flags) = (frame.len() as u64, frame.first().copied().unwrap_or(0));
        self.footer.entries += 1;
        self.footer.entry_bytes += len;
        self.footer.tombstones += u64::from(flags & frame::TOMBSTONE != 0);
        self.footer.pointers += u64::from(flags & frame::POINTER != 0);
        self.entry_bytes_min = self.entry_bytes_min.min(len);
        self.entry_bytes_max = self.entry_bytes_max.max(len);
        self.straddles[straddle.min(STRADDLES_COUNTED - 1)] += 1;
        self.footer.straddle_max = self.footer.straddle_max.max(straddle as u32);
        if flags & frame::EXPIRES != 0 {
            self.count_expiring(frame);
        }
    }

    #[cold]
    fn count_expiring(&mut self, frame: &[u8]) {
        let Some((entry, len)) = Frame::decode(frame) else { return };
        let Frame { expires_unix_ms, flags, value, .. } = entry;
        // No writer encodes the flag without a time; such an entry never expires.
        if expires_unix_ms == 0 {
            return;
        }
        let expiring = Expiring::new(expires_unix_ms, len as u64, flags, value);
        self.expiries.add(expiring, Some(mixed(self.footer.entries)));
    }

    /// Seals the chunk being filled and starts the next.
    fn close_chunk(&mut self) -> Result<()> {
        let number = self.chunk_number();
        let first = self.first.take().unwrap_or(self.used);
        let trailer = Trailer { first, used: self.used };
        let bytes = &mut self.buf[self.at..self.at + CHUNK_BYTES];
        chunk::seal(bytes, self.footer.file_id, number, trailer);
        self.used = 0;
        self.at += CHUNK_BYTES;
        if self.at == BUFFER_BYTES {
            return self.write_buffer();
        }
        if self.at == self.buf.len() {
            // Small files need no large buffer.
            self.buf.resize((2 * self.at).min(BUFFER_BYTES));
        }
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        let offset = self.buf_chunk * CHUNK_BYTES as u64;
        let full = std::mem::replace(&mut self.buf, AlignedBuf::zeroed(0));
        self.buf = self.file.write(offset, full)?;
        if self.buf.is_empty() {
            self.buf.resize(CHUNK_BYTES);
        }
        self.bytes_written += self.at as u64;
        self.buf_chunk += (self.at / CHUNK_BYTES) as u64;
        self.at = 0;
        Ok(())
    }

    /// Chunks beyond the first that suffice for 999 of 1000 entries.
    fn straddle_usual(&self) -> u32 {
        let mut beyond = self.footer.entries;
        for (straddle, count) in self.straddles[..STRADDLES_COUNTED - 1].iter().enumerate() {
            beyond -= count;
            if beyond * 1000 <= self.footer.entries {
                return (straddle as u32).min(self.footer.straddle_max);
            }
        }
        self.footer.straddle_max
    }

    /// Ends the data: what is appended from here on is sections. Size statistics are final.
    fn end_data(&mut self) -> Result<()> {
        if self.used > 0 {
            self.close_chunk()?;
        }
        self.footer.data_chunks = self.chunk_number();
        self.footer.straddle_usual = self.straddle_usual();
        self.footer.entry_bytes_equal = self.entry_bytes_equal();
        Ok(())
    }

    fn write_section(&mut self, kind: SectionKind, bytes: &[u8]) -> Result<()> {
        let section = Section { kind, chunk: self.chunk_number(), bytes: bytes.len() as u64 };
        self.footer.sections.push(section);
        for part in bytes.chunks(PAYLOAD_BYTES) {
            self.buf[self.at..self.at + part.len()].copy_from_slice(part);
            self.used = part.len();
            self.first = Some(0);
            self.close_chunk()?;
        }
        Ok(())
    }

    /// Writes sections and footer, and syncs the file. The caller syncs the directory and then
    /// names the file in the manifest.
    pub fn finish(
        mut self,
        sections: &[(SectionKind, &[u8])],
        meta: &[u8],
    ) -> Result<PackedReader<F>> {
        self.end_data()?;
        for (kind, bytes) in sections {
            self.write_section(*kind, bytes)?;
        }
        meta.clone_into(&mut self.footer.meta);
        self.footer.expiries = std::mem::take(&mut self.expiries).finish();
        let number = self.chunk_number();
        self.footer.seal_into(&mut self.buf[self.at..self.at + CHUNK_BYTES], number)?;
        self.at += CHUNK_BYTES;
        let offset = self.buf_chunk * CHUNK_BYTES as u64;
        self.buf.resize(self.at);
        self.file.write_last(offset, self.buf)?;
        let (file, _) = self.file.into_file()?;
        let bytes = (number + 1) * CHUNK_BYTES as u64;
        if file.len()? != bytes {
            let context = format!("{}: not {bytes} bytes long after writing them", self.name);
            return Err(Error::new(ErrorKind::Io, context));
        }
        Ok(PackedReader::new(file, self.name, self.footer))
    }
}
