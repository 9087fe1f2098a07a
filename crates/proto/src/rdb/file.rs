//! Whole RDB files: bytes to entries, and entries to bytes.
//!
//! ```text
//! "REDIS" | version, 4 digits | (operation u8 | its fields)… | 0xFF | CRC-64 of all before u64
//! ```

use super::object::{self, Object};
use super::reader::{Fault, Reader};
use super::value::{push_len, push_string};
use super::{TYPE_STRING, VERSION_MAX, crc64, skip};
use std::borrow::Cow;
use std::fmt;

/// The auxiliary field that has the user bits of the entry behind it, as a decimal number. Redis
/// passes over fields that it does not know.
pub const USER_BITS: &str = "silica-user-bits";

/// The version that files are written in.
const FILE_VERSION: u16 = 10;

const MAGIC: &[u8; 5] = b"REDIS";
const HEADER_BYTES: usize = 9;
/// The first version with a checksum.
const VERSION_SUMMED: u16 = 5;

const SLOT_INFO: u8 = 0xF4;
const FUNCTION: u8 = 0xF5;
const MODULE: u8 = 0xF7;
const IDLE: u8 = 0xF8;
const FREQUENCY: u8 = 0xF9;
const FIELD: u8 = 0xFA;
const SIZES: u8 = 0xFB;
const EXPIRES_MS: u8 = 0xFC;
const EXPIRES_S: u8 = 0xFD;
const DATABASE: u8 = 0xFE;
const END: u8 = 0xFF;

/// A string with its key and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Number of its database.
    pub database: u64,
    /// Its key.
    pub key: Cow<'a, [u8]>,
    /// Its value.
    pub value: Cow<'a, [u8]>,
    /// When it expires, in Unix milliseconds; 0 for never.
    pub expires_unix_ms: u64,
    /// What a user keeps beside the value.
    pub user_bits: u32,
}

impl Entry<'_> {
    /// True unless it has expired at `now_ms`.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.expires_unix_ms == 0 || self.expires_unix_ms > now_ms
    }
}

/// A value that is no string, with its key and what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectEntry {
    /// Number of its database.
    pub database: u64,
    /// Its key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Object,
    /// When it expires, in Unix milliseconds; 0 for never.
    pub expires_unix_ms: u64,
}

/// What stands at the start of the bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// Its end is not among the bytes.
    Cut,
    /// Something that tells nothing of entries.
    Nothing,
    /// A string.
    Entry(Entry<'a>),
    /// A value that is no string.
    Object(ObjectEntry),
    /// The text of a library of functions.
    Function(Cow<'a, [u8]>),
    /// An auxiliary field: its name and its value.
    Field(Cow<'a, [u8]>, Cow<'a, [u8]>),
    /// A value of a module.
    Other(&'static str),
    /// The end, where the checksum was right.
    End,
}

/// What is wrong with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// It does not begin like one.
    Magic,
    /// Its version is not known.
    Version(u16),
    /// A value, or an operation, of a type that is not known.
    Type(u8),
    /// A field says something that cannot be.
    Data,
    /// Its checksum is not that of its bytes.
    Checksum,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Magic => f.write_str("it is no RDB file: it does not begin with REDIS"),
            FileError::Version(version) => write!(
                f,
                "it has RDB version {version}, and versions up to {VERSION_MAX} are known; write \
                 it with an older server"
            ),
            FileError::Type(kind) => write!(f, "a value of type {kind}, which is not known"),
            FileError::Data => f.write_str("damaged: a field says something that cannot be"),
            FileError::Checksum => f.write_str("damaged: its checksum is not that of its bytes"),
        }
    }
}

impl std::error::Error for FileError {}

/// Reads a file piece by piece.
#[derive(Debug, Clone)]
pub struct FileReader {
    /// 0 before the header.
    version: u16,
    sum: u64,
    len_max: usize,
    database: u64,
    /// Of the entry that comes next.
    expires_unix_ms: u64,
    user_bits: u32,
}

impl FileReader {
    /// At the start of a file, with strings of at most `len_max` bytes.
    pub fn new(len_max: usize) -> Self {
        FileReader { version: 0, sum: 0, len_max, database: 0, expires_unix_ms: 0, user_bits: 0 }
    }

    /// Reads what `bytes` begin with: what it is, and how many of them it takes. After
    /// [`Event::Cut`] the caller comes again with the same bytes and more.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<(Event<'a>, usize), FileError> {
        let mut reader = Reader(bytes);
        let event = match self.version {
            0 => self.header(&mut reader),
            _ => self.operation(&mut reader),
        };
        match event {
            Ok(event) => {
                let taken = bytes.len() - reader.0.len();
                self.sum = crc64(self.sum, &bytes[..taken]);
                Ok((event, taken))
            }
            Err(Stop::Fault(Fault::Cut)) => Ok((Event::Cut, 0)),
            Err(Stop::Fault(Fault::Data)) => Err(FileError::Data),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    fn header<'a>(&mut self, reader: &mut Reader<'a>) -> Result<Event<'a>, Stop> {
        let present = reader.0.len().min(MAGIC.len());
        if reader.0[..present] != MAGIC[..present] {
            return Err(Stop::Error(FileError::Magic));
        }
        let header = reader.take(HEADER_BYTES)?;
        let digits = std::str::from_utf8(&header[MAGIC.len()..]).ok();
        let version = digits.and_then(|digits| digits.parse().ok());
        let version = version.ok_or(Stop::Error(FileError::Magic))?;
        if version == 0 || version > VERSION_MAX {
            return Err(Stop::Error(FileError::Version(version)));
        }
        self.version = version;
        Ok(Event::Nothing)
    }

    fn operation<'a>(&mut self, reader: &mut Reader<'a>) -> Result<Event<'a>, Stop> {
        match reader.byte()? {
            END => return self.end(reader),
            FIELD => {
                let (name, value) = (reader.string(self.len_max)?, reader.string(self.len_max)?);
                if *name == *USER_BITS.as_bytes() {
                    let bits = std::str::from_utf8(&value).ok().and_then(|bits| bits.parse().ok());
                    self.user_bits = bits.ok_or(Fault::Data)?;
                }
                return Ok(Event::Field(name, value));
            }
            DATABASE => self.database = reader.len()?,
            EXPIRES_MS => self.expires_unix_ms = u64::from_le_bytes(reader.chunk()?),
            EXPIRES_S => {
                let seconds = u32::from_le_bytes(reader.chunk()?);
                self.expires_unix_ms = u64::from(seconds) * 1000;
            }
            SIZES => {
                reader.len()?;
                reader.len()?;
            }
            SLOT_INFO => {
                reader.len()?;
                reader.len()?;
                reader.len()?;
            }
            IDLE => drop(reader.len()?),
            FREQUENCY => drop(reader.byte()?),
            FUNCTION => return Ok(Event::Function(reader.string(self.len_max)?)),
            MODULE => {
                reader.len()?;
                skip::module(reader)?;
            }
            kind => return self.value(kind, reader),
        }
        Ok(Event::Nothing)
    }

    fn value<'a>(&mut self, kind: u8, reader: &mut Reader<'a>) -> Result<Event<'a>, Stop> {
        let event = if kind == TYPE_STRING {
            let (key, value) = (reader.string(self.len_max)?, reader.string(self.len_max)?);
            let Self { database, expires_unix_ms, user_bits, .. } = *self;
            Event::Entry(Entry { database, key, value, expires_unix_ms, user_bits })
        } else {
            let key = reader.string(self.len_max)?.into_owned();
            match object::read(kind, reader, self.len_max)? {
                Some(value) => {
                    let Self { database, expires_unix_ms, .. } = *self;
                    Event::Object(ObjectEntry { database, key, value, expires_unix_ms })
                }
                None => {
                    let name = skip::object(kind, reader)?;
                    Event::Other(name.ok_or(Stop::Error(FileError::Type(kind)))?)
                }
            }
        };
        (self.expires_unix_ms, self.user_bits) = (0, 0);
        Ok(event)
    }

    fn end<'a>(&self, reader: &mut Reader<'a>) -> Result<Event<'a>, Stop> {
        if self.version >= VERSION_SUMMED {
            let sum = u64::from_le_bytes(reader.chunk()?);
            // A server that was told to make no checksums writes 0.
            if sum != 0 && sum != crc64(self.sum, &[END]) {
                return Err(Stop::Error(FileError::Checksum));
            }
        }
        Ok(Event::End)
    }
}

/// Why reading stops.
enum Stop {
    Fault(Fault),
    Error(FileError),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// Writes a file piece by piece.
#[derive(Debug)]
pub struct FileWriter {
    sum: u64,
    /// The database that was named last.
    database: Option<u64>,
}

impl FileWriter {
    /// Begins a file in `out`.
    pub fn begin(out: &mut Vec<u8>) -> Self {
        let mut writer = FileWriter { sum: 0, database: None };
        writer.append(out, |out| {
            out.extend_from_slice(MAGIC);
            // The one that streams are written in: what else there is reads alike in both.
            out.extend_from_slice(format!("{FILE_VERSION:04}").as_bytes());
        });
        writer
    }

    fn append(&mut self, out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
        let before = out.len();
        append(out);
        self.sum = crc64(self.sum, &out[before..]);
    }

    /// Appends an auxiliary field to `out`.
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.append(out, |out| {
            out.push(FIELD);
            push_string(out, name);
            push_string(out, value);
        });
    }

    /// Appends the text of a library of functions to `out`.
    pub fn function(&mut self, text: &[u8], out: &mut Vec<u8>) {
        self.append(out, |out| {
            out.push(FUNCTION);
            push_string(out, text);
        });
    }

    /// Appends an entry to `out`.
    pub fn entry(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let is_new = self.database.replace(entry.database) != Some(entry.database);
        self.append(out, |out| {
            if is_new {
                out.push(DATABASE);
                push_len(out, entry.database);
            }
            if entry.user_bits != 0 {
                out.push(FIELD);
                push_string(out, USER_BITS.as_bytes());
                push_string(out, entry.user_bits.to_string().as_bytes());
            }
            if entry.expires_unix_ms != 0 {
                out.push(EXPIRES_MS);
                out.extend_from_slice(&entry.expires_unix_ms.to_le_bytes());
            }
            out.push(TYPE_STRING);
            push_string(out, &entry.key);
            push_string(out, &entry.value);
        });
    }

    /// Appends a value that is no string to `out`.
    pub fn object(&mut self, entry: &ObjectEntry, out: &mut Vec<u8>) {
        let is_new = self.database.replace(entry.database) != Some(entry.database);
        self.append(out, |out| {
            if is_new {
                out.push(DATABASE);
                push_len(out, entry.database);
            }
            if entry.expires_unix_ms != 0 {
                out.push(EXPIRES_MS);
                out.extend_from_slice(&entry.expires_unix_ms.to_le_bytes());
            }
            out.push(object::type_of(&entry.value));
            push_string(out, &entry.key);
            object::write_value(&entry.value, out);
        });
    }

    /// Appends the end to `out`.
    pub fn end(mut self, out: &mut Vec<u8>) {
        self.append(out, |out| out.push(END));
        out.extend_from_slice(&self.sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};

    const LEN_MAX: usize = 1 << 20;

    fn sample(random: &mut Prng, count: usize) -> Vec<Entry<'static>> {
        let mut bytes = |most: u64| -> Vec<u8> {
            let len = random.below(most);
            match random.below(4) {
                0 => random.below(1 << 40).to_string().into_bytes(),
                _ => (0..len).map(|_| random.next_u64() as u8).collect(),
            }
        };
        (0..count)
            .map(|n| Entry {
                database: n as u64 / 7 % 3,
                key: bytes(100).into(),
                value: bytes(if n % 20 == 0 { 40_000 } else { 300 }).into(),
                expires_unix_ms: if n % 3 == 0 { 1 << (n % 60) } else { 0 },
                user_bits: if n % 4 == 0 { (n as u32).wrapping_mul(0x0101_0101) } else { 0 },
            })
            .collect()
    }

    fn file(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = FileWriter::begin(&mut out);
        entries.iter().for_each(|entry| writer.entry(entry, &mut out));
        writer.end(&mut out);
        out
    }

    /// Reads `bytes` in pieces; the entries, and what ended it.
    fn read(bytes: &[u8], piece: usize) -> (Vec<Entry<'static>>, Result<bool, FileError>) {
        let (mut reader, mut entries) = (FileReader::new(LEN_MAX), Vec::new());
        let (mut at, mut end) = (0, 0);
        loop {
            match reader.next(&bytes[at..end]) {
                Ok((Event::Cut, _)) if end == bytes.len() => return (entries, Ok(false)),
                Ok((Event::Cut, _)) => end = (end + piece).min(bytes.len()),
                Ok((Event::End, _)) => return (entries, Ok(true)),
                Ok((event, taken)) => {
                    at += taken;
                    if let Event::Entry(entry) = event {
                        let (key, value) = (entry.key.into_owned(), entry.value.into_owned());
                        entries.push(Entry { key: key.into(), value: value.into(), ..entry });
                    }
                }
                Err(error) => return (entries, Err(error)),
            }
        }
    }

    #[test]
    fn entries_come_back_however_the_file_is_cut() {
        let entries = sample(&mut Prng::new(1), test_size(200, 300, 10_000) as usize);
        let bytes = file(&entries);
        for piece in [997, 4096, bytes.len()] {
            assert_eq!(read(&bytes, piece), (entries.clone(), Ok(true)));
        }
        let small = file(&sample(&mut Prng::new(2), 5));
        assert_eq!(read(&small, 1).1, Ok(true));
        for end in 0..small.len() {
            assert_eq!(read(&small[..end], small.len()).1, Ok(false), "cut at {end}");
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = file(&sample(&mut Prng::new(3), 3));
        // The version's last digit may become that of one without checksums.
        for at in (0..bytes.len()).filter(|at| *at != HEADER_BYTES - 1) {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let (_, outcome) = read(&bad, bad.len());
                assert_ne!(outcome, Ok(true), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn objects_are_read_and_modules_passed_over() {
        // What a redis-server 7.0 keeps of RPUSH, SADD, ZADD, HSET and XADD with a group.
        let mut body = b"REDIS0010".to_vec();
        body.extend_from_slice(b"\xfa\x09redis-ver\x057.0.1\xfe\x00\xfb\x02\x01");
        body.extend_from_slice(b"\x01\x01l\x02\x01a\x01b");
        body.extend_from_slice(b"\xfd\x01\x00\x00\x00\x04\x01h\x01\x01f\x01v");
        body.extend_from_slice(b"\x05\x01z\x01\x01m\0\0\0\0\0\0\xf0\x3f");
        body.extend_from_slice(b"\x03\x01y\x02\x01m\x011\x01n\xfe");
        body.extend_from_slice(b"\x12\x01q\x01\x01\x03abc");
        // A module's value: its number, and its end.
        body.extend_from_slice(b"\x07\x01o\x05\x00");
        body.extend_from_slice(b"\x0b\x01i\x0a\x02\0\0\0\x01\0\0\0\x05\0");
        body.extend_from_slice(b"\x00\x01k\xc0\x0c");
        body.push(END);
        let sum = crc64(0, &body);
        body.extend_from_slice(&sum.to_le_bytes());
        let (mut reader, mut at) = (FileReader::new(LEN_MAX), 0);
        let (mut others, mut objects) = (Vec::new(), Vec::new());
        let entry = loop {
            let (event, taken) = reader.next(&body[at..]).unwrap();
            at += taken;
            match event {
                Event::Other(name) => others.push(name),
                Event::Object(object) => objects.push(object),
                Event::Entry(entry) => break entry,
                Event::Nothing | Event::Function(_) | Event::Field(..) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(others, ["module"]);
        let text = |text: &str| text.as_bytes().to_vec();
        let scores = |pairs: &[(&str, f64)]| {
            Object::Zset(pairs.iter().map(|(member, score)| (text(member), *score)).collect())
        };
        let want = [
            ("l", Object::List(vec![text("a"), text("b")]), 0),
            ("h", Object::Hash(vec![(text("f"), text("v"), 0)]), 1000),
            ("z", scores(&[("m", 1.0)]), 0),
            ("y", scores(&[("m", 1.0), ("n", f64::INFINITY)]), 0),
            ("q", Object::List(vec![text("abc")]), 0),
            ("i", Object::Set(vec![text("5")]), 0),
        ];
        for (object, (key, value, expires)) in objects.iter().zip(want) {
            assert_eq!((&object.key, &object.value), (&text(key), &value));
            assert_eq!(object.expires_unix_ms, expires);
        }
        assert_eq!(objects.len(), 6);
        assert_eq!((&*entry.key, &*entry.value), (&b"k"[..], &b"12"[..]));
        assert_eq!(entry.expires_unix_ms, 0, "the expiry was the hash's");
        assert_eq!(reader.next(&body[at..]).unwrap().0, Event::End);
    }

    #[test]
    fn hostile_files_are_refused() {
        let mut random = Prng::new(9);
        for _ in 0..test_size(20_000, 50_000, 10_000_000) {
            let mut bytes = b"REDIS0011".to_vec();
            let kinds = [0, 1, 3, 4, 5, 7, 14, 18, 19, 21, 24, 25, 0xF7, 0xFA, 0xFC, 0xFE];
            bytes.push(kinds[random.below(kinds.len() as u64) as usize]);
            (0..random.below(60)).for_each(|_| bytes.push(random.next_u64() as u8 & 0xC7));
            let _ = read(&bytes, bytes.len());
        }
        assert_eq!(read(b"RADIS0009", 9).1, Err(FileError::Magic));
        assert_eq!(read(b"REDIS0099", 9).1, Err(FileError::Version(99)));
    }
}
