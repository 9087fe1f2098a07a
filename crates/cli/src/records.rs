//! Entries in files: the formats that `load`, `import` and `build-table` read and `export` writes.
//! docs/formats/records.md describes them.

use crate::text;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;
use serde_json::{Map, Value};
use silica_proto::rdb::{self, Event, FileReader, FileWriter, ObjectEntry};
use silica_types::entries_of_rdb;
use std::borrow::Cow;

/// A record that does not fit in this has no end.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 30;
/// More than any engine takes as a value, so that the engine says what it takes.
const STRING_BYTES_MAX: usize = 512 << 20;
const LP_HEADER_BYTES: usize = 8;
const COLUMNS: [&str; 4] = ["key", "value", "expires_unix_ms", "user_bits"];

/// How the entries of a file are written.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq, Debug)]
pub(crate) enum FileFormat {
    /// A record per line: key, TAB, value; then, if there are any, TAB, expiry in Unix
    /// milliseconds, TAB, user bits. \xNN, \n, \r, \t and \\ stand for bytes.
    Tsv,
    /// A line of columns (key, value, expires_unix_ms, user_bits) and a record per line, with the
    /// escapes of tsv.
    Csv,
    /// An object of JSON per line: key and value as text, or key_hex, key_base64 and so on.
    Ndjson,
    /// Redis's file.
    Rdb,
    /// A record per line: key, TAB, value, both as they are, backslashes included.
    Plain,
    /// Key length and value length (u32, little-endian), key, value.
    Lp,
}

impl FileFormat {
    /// The word that stands for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileFormat::Tsv => "tsv",
            FileFormat::Csv => "csv",
            FileFormat::Ndjson => "ndjson",
            FileFormat::Rdb => "rdb",
            FileFormat::Plain => "plain",
            FileFormat::Lp => "lp",
        }
    }
}

/// An entry of a keyspace, or of a numbered database.
pub(crate) type Entry<'a> = rdb::Entry<'a>;

/// What stands at the start of a buffer.
pub(crate) enum Parsed<'a> {
    /// An entry, and the bytes of the file that it takes.
    Entry(Entry<'a>, usize),
    /// The entries of a value that is no string: its pages, and last that of its key.
    Entries(Vec<Entry<'static>>, usize),
    /// Bytes to skip.
    Nothing(usize),
    /// A value of a type that is not stored, by its name, and its bytes.
    Other(&'static str, usize),
    /// The end of the records, and the bytes of its mark.
    End(usize),
    /// The rest of it is not in the buffer.
    Cut,
    Bad(Cow<'static, str>),
}

/// Finds entries in the bytes of a file.
pub(crate) struct Decoder {
    format: FileFormat,
    /// Which of [`COLUMNS`] each field of a CSV file is, once its first line is known.
    columns: Option<Vec<Option<usize>>>,
    rdb: FileReader,
}

impl Decoder {
    pub(crate) fn new(format: FileFormat) -> Self {
        Decoder { format, columns: None, rdb: FileReader::new(STRING_BYTES_MAX) }
    }

    /// True where an entry cannot be read without what stands before it.
    pub(crate) fn needs_start(&self) -> bool {
        matches!(self.format, FileFormat::Csv | FileFormat::Rdb)
    }

    /// True where the format has an end of its own, which is missing in a file that was cut.
    pub(crate) fn has_end(&self) -> bool {
        self.format == FileFormat::Rdb
    }

    /// Reads what `bytes` begin with; `at_end` says that the file has no more.
    pub(crate) fn next<'a>(&mut self, bytes: &'a [u8], at_end: bool) -> Parsed<'a> {
        match self.format {
            FileFormat::Tsv => by_line(bytes, at_end, tsv),
            FileFormat::Plain => by_line(bytes, at_end, plain),
            FileFormat::Ndjson => by_line(bytes, at_end, ndjson),
            FileFormat::Lp => lp(bytes),
            FileFormat::Csv => self.csv(bytes, at_end),
            FileFormat::Rdb => self.rdb(bytes),
        }
    }

    fn rdb<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        match self.rdb.next(bytes) {
            Ok((Event::Cut, _)) => Parsed::Cut,
            Ok((Event::Nothing | Event::Function(_) | Event::Field(..), taken)) => {
                Parsed::Nothing(taken)
            }
            Ok((Event::Entry(entry), taken)) => Parsed::Entry(entry, taken),
            Ok((Event::Object(entry), taken)) => match entries_of(entry) {
                Ok(entries) => Parsed::Entries(entries, taken),
                Err(why) => Parsed::Bad(why.into()),
            },
            Ok((Event::Other(name), taken)) => Parsed::Other(name, taken),
            Ok((Event::End, taken)) => Parsed::End(taken),
            Err(error) => Parsed::Bad(error.to_string().into()),
        }
    }

    fn csv<'a>(&mut self, bytes: &'a [u8], at_end: bool) -> Parsed<'a> {
        let (fields, taken) = match csv_record(bytes, at_end) {
            Ok(Some(record)) => record,
            Ok(None) => return Parsed::Cut,
            Err(why) => return Parsed::Bad(why.into()),
        };
        let Some(columns) = &self.columns else {
            let of = |name: &Vec<u8>| COLUMNS.iter().position(|known| known.as_bytes() == name);
            let columns: Vec<_> = fields.iter().map(of).collect();
            if !columns.contains(&Some(0)) || !columns.contains(&Some(1)) {
                let why = "the first line names the columns, among them key and value, such as \
                           key,value,expires_unix_ms,user_bits";
                return Parsed::Bad(why.into());
            }
            self.columns = Some(columns);
            return Parsed::Nothing(taken);
        };
        if fields.len() == 1 && fields[0].is_empty() {
            return Parsed::Nothing(taken);
        }
        if fields.len() != columns.len() {
            let why = format!(
                "{} fields, where the first line names {}; fields with commas stand in quotes",
                fields.len(),
                columns.len()
            );
            return Parsed::Bad(why.into());
        }
        let mut known: [Option<Vec<u8>>; 4] = Default::default();
        for (column, field) in columns.iter().zip(fields) {
            if let Some(column) = column {
                known[*column] = Some(field);
            }
        }
        csv_entry(&known)
            .map_or_else(|why| Parsed::Bad(why.into()), |entry| Parsed::Entry(entry, taken))
    }
}

/// The entry whose [`COLUMNS`] are `known`.
/// The entries of a value that is no string.
fn entries_of(entry: ObjectEntry) -> Result<Vec<Entry<'static>>, String> {
    let ObjectEntry { database, key, value, expires_unix_ms } = entry;
    // Nobody else has pages by this name.
    let id = getrandom::u64().map_err(|error| error.to_string())?;
    let entries = entries_of_rdb(value, &key, id.max(1)).map_err(|error| error.to_string())?;
    let of = |(nth, (key, value, user_bits)): (usize, (Vec<u8>, Vec<u8>, u32))| Entry {
        database,
        key: key.into(),
        value: value.into(),
        expires_unix_ms: if nth == 0 { expires_unix_ms } else { 0 },
        user_bits,
    };
    let mut all: Vec<Entry<'static>> = entries.into_iter().enumerate().map(of).collect();
    all.reverse();
    Ok(all)
}

fn csv_entry(known: &[Option<Vec<u8>>; 4]) -> Result<Entry<'static>, &'static str> {
    let [key, value, expires, bits] = known;
    let number = |field: &Option<Vec<u8>>| match field.as_deref() {
        None | Some([]) => Ok(0),
        Some(digits) => parse_number(digits),
    };
    let bytes = |field: &Option<Vec<u8>>| {
        let text = field.as_deref().unwrap_or_default();
        text::unescape(text).map(|bytes| Cow::Owned(bytes.into_owned())).ok_or(ESCAPES)
    };
    new_entry(bytes(key)?, bytes(value)?, number(expires)?, number(bits)?)
}

const ESCAPES: &str = "after a backslash stand xNN, n, r, t or another backslash; text as it is \
                       needs --format plain";

fn new_entry<'a>(
    key: Cow<'a, [u8]>,
    value: Cow<'a, [u8]>,
    expires_unix_ms: u64,
    user_bits: u64,
) -> Result<Entry<'a>, &'static str> {
    let user_bits = u32::try_from(user_bits).map_err(|_| "user bits are 32 at most")?;
    Ok(Entry { database: 0, key, value, expires_unix_ms, user_bits })
}

fn parse_number(digits: &[u8]) -> Result<u64, &'static str> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or(
        "behind key and value stand the expiry in Unix milliseconds and the user bits, both \
         numbers; a TAB within a value is written as \\t, or needs --format plain",
    )
}

/// Finds the end of the line and reads it.
fn by_line<'a>(
    bytes: &'a [u8],
    at_end: bool,
    parse: fn(&'a [u8]) -> Result<Entry<'a>, Cow<'static, str>>,
) -> Parsed<'a> {
    let (line, taken) = match bytes.iter().position(|b| *b == b'\n') {
        Some(end) => (&bytes[..end], end + 1),
        None if at_end => (bytes, bytes.len()),
        None => return Parsed::Cut,
    };
    if line.is_empty() {
        return Parsed::Nothing(taken);
    }
    parse(line).map_or_else(Parsed::Bad, |entry| Parsed::Entry(entry, taken))
}

const NO_TAB: &str = "the line has no TAB between key and value; binary data needs --format lp";

fn tsv(line: &[u8]) -> Result<Entry<'_>, Cow<'static, str>> {
    let mut fields = line.split(|byte| *byte == b'\t');
    let (key, value) = (fields.next().unwrap_or_default(), fields.next().ok_or(NO_TAB)?);
    let mut number = || fields.next().map_or(Ok(0), parse_number);
    let (expires, bits) = (number()?, number()?);
    if fields.next().is_some() {
        return Err("more than four fields; a TAB within a value is written as \\t".into());
    }
    let bytes = |field| text::unescape(field).ok_or(ESCAPES);
    Ok(new_entry(bytes(key)?, bytes(value)?, expires, bits)?)
}

fn plain(line: &[u8]) -> Result<Entry<'_>, Cow<'static, str>> {
    let tab = line.iter().position(|b| *b == b'\t').ok_or(NO_TAB)?;
    Ok(new_entry(line[..tab].into(), line[tab + 1..].into(), 0, 0)?)
}

fn ndjson(line: &[u8]) -> Result<Entry<'_>, Cow<'static, str>> {
    let object: Map<String, Value> =
        serde_json::from_slice(line).map_err(|e| format!("the line is no object of JSON: {e}"))?;
    let bytes = |name: &str| json_bytes(&object, name);
    let number = |name: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().ok_or_else(|| format!("{name} is no whole number")),
    };
    let (key, value) = (bytes("key")?, bytes("value")?);
    Ok(new_entry(key.into(), value.into(), number("expires_unix_ms")?, number("user_bits")?)?)
}

/// The bytes of the field `name`, as text, hexadecimal or base64.
fn json_bytes(object: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    let field = |ending: &str| object.get(&format!("{name}{ending}")).and_then(Value::as_str);
    if let Some(text) = field("") {
        return Ok(text.as_bytes().to_vec());
    }
    if let Some(digits) = field("_hex") {
        let bytes = text::from_hex(digits.as_bytes());
        return bytes.ok_or_else(|| format!("{name}_hex needs pairs of hexadecimal digits"));
    }
    let Some(text) = field("_base64") else {
        return Err(format!("the object needs {name}, {name}_hex or {name}_base64, a string"));
    };
    BASE64_STANDARD.decode(text).map_err(|e| format!("{name}_base64: {e}"))
}

fn lp(bytes: &[u8]) -> Parsed<'_> {
    let Some(header) = bytes.get(..LP_HEADER_BYTES) else { return Parsed::Cut };
    let len =
        |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes")) as usize;
    let key_end = LP_HEADER_BYTES + len(0);
    let end = key_end + len(4);
    if end > RECORD_BYTES_MAX {
        let why = "the record claims more than 1 GiB; is this really --format lp?";
        return Parsed::Bad(why.into());
    }
    let Some(all) = bytes.get(..end) else { return Parsed::Cut };
    let (key, value) = (all[LP_HEADER_BYTES..key_end].into(), all[key_end..].into());
    let entry = Entry { database: 0, key, value, expires_unix_ms: 0, user_bits: 0 };
    Parsed::Entry(entry, end)
}

/// Fields, and the bytes that they take.
pub(crate) type CsvRecord = (Vec<Vec<u8>>, usize);

/// The fields of the first record (RFC 4180) and its bytes; `None` where it is cut.
pub(crate) fn csv_record(bytes: &[u8], at_end: bool) -> Result<Option<CsvRecord>, &'static str> {
    let (mut fields, mut at) = (Vec::new(), 0);
    let mut field = Vec::new();
    loop {
        let is_quoted = bytes.get(at) == Some(&b'"');
        if is_quoted {
            at += 1;
            loop {
                let Some(len) = bytes[at..].iter().position(|byte| *byte == b'"') else {
                    let why = "a quote is opened and not closed";
                    return if at_end { Err(why) } else { Ok(None) };
                };
                field.extend_from_slice(&bytes[at..at + len]);
                at += len + 1;
                if bytes.get(at) != Some(&b'"') {
                    break;
                }
                field.push(b'"');
                at += 1;
            }
        }
        let rest = &bytes[at..];
        let end = rest.iter().position(|byte| matches!(byte, b',' | b'\n'));
        let len = match end {
            Some(len) => len,
            None if at_end => rest.len(),
            None => return Ok(None),
        };
        let plain = match (end.map(|len| rest[len]), &rest[..len]) {
            (Some(b'\n') | None, [plain @ .., b'\r']) => plain,
            (_, plain) => plain,
        };
        if is_quoted && !plain.is_empty() {
            return Err("text behind the end of a quoted field; a quote within is doubled");
        }
        field.extend_from_slice(plain);
        fields.push(std::mem::take(&mut field));
        at += len + usize::from(end.is_some());
        if end.map(|len| rest[len]) != Some(b',') {
            return Ok(Some((fields, at)));
        }
    }
}

/// Writes entries as the bytes of a file.
pub(crate) struct Encoder {
    format: FileFormat,
    /// What is no text in JSON is base64, not hexadecimal.
    base64: bool,
    rdb: Option<FileWriter>,
}

impl Encoder {
    /// Begins a file in `out`.
    pub(crate) fn begin(format: FileFormat, base64: bool, out: &mut Vec<u8>) -> Self {
        let rdb = (format == FileFormat::Rdb).then(|| FileWriter::begin(out));
        if format == FileFormat::Csv {
            out.extend_from_slice(COLUMNS.join(",").as_bytes());
            out.push(b'\n');
        }
        Encoder { format, base64, rdb }
    }

    /// Appends a value that is no string, to an RDB file.
    pub(crate) fn object(&mut self, entry: &ObjectEntry, out: &mut Vec<u8>) {
        self.rdb.iter_mut().for_each(|rdb| rdb.object(entry, out));
    }

    /// Appends an entry.
    pub(crate) fn entry(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let (expires, bits) = (entry.expires_unix_ms, entry.user_bits);
        match self.format {
            FileFormat::Rdb => self.rdb.iter_mut().for_each(|rdb| rdb.entry(entry, out)),
            FileFormat::Csv => {
                push_csv(out, &entry.key);
                out.push(b',');
                push_csv(out, &entry.value);
                let number =
                    |number: u64| if number == 0 { String::new() } else { number.to_string() };
                let numbers = format!(",{},{}\n", number(expires), number(bits.into()));
                out.extend_from_slice(numbers.as_bytes());
            }
            FileFormat::Ndjson => self.ndjson(entry, out),
            FileFormat::Lp => {
                out.extend_from_slice(&(entry.key.len() as u32).to_le_bytes());
                out.extend_from_slice(&(entry.value.len() as u32).to_le_bytes());
                out.extend_from_slice(&entry.key);
                out.extend_from_slice(&entry.value);
            }
            FileFormat::Tsv | FileFormat::Plain => {
                out.extend_from_slice(text::show(&entry.key, false).as_bytes());
                out.push(b'\t');
                out.extend_from_slice(text::show(&entry.value, false).as_bytes());
                let numbers = match (expires, bits) {
                    (0, 0) => String::new(),
                    (expires, 0) => format!("\t{expires}"),
                    (expires, bits) => format!("\t{expires}\t{bits}"),
                };
                out.extend_from_slice(numbers.as_bytes());
                out.push(b'\n');
            }
        }
    }

    fn ndjson(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let mut object = Map::new();
        for (name, bytes) in [("key", &entry.key), ("value", &entry.value)] {
            match std::str::from_utf8(bytes) {
                Err(_) if self.base64 => {
                    let text = BASE64_STANDARD.encode(bytes);
                    object.insert(format!("{name}_base64"), text.into());
                }
                _ => text::insert_bytes(&mut object, name, bytes, false),
            }
        }
        if entry.expires_unix_ms != 0 {
            object.insert("expires_unix_ms".into(), entry.expires_unix_ms.into());
        }
        if entry.user_bits != 0 {
            object.insert("user_bits".into(), entry.user_bits.into());
        }
        out.extend_from_slice(Value::Object(object).to_string().as_bytes());
        out.push(b'\n');
    }

    /// Appends the end.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        if let Some(rdb) = self.rdb {
            rdb.end(out);
        }
    }
}

fn push_csv(out: &mut Vec<u8>, bytes: &[u8]) {
    let text = text::show(bytes, false);
    if !text.contains([',', '"', ' ']) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};

    const ALL: [FileFormat; 4] =
        [FileFormat::Tsv, FileFormat::Csv, FileFormat::Ndjson, FileFormat::Rdb];

    fn random_bytes(random: &mut Prng) -> Vec<u8> {
        let letters: &[u8] = b"a\\\t\n\r,\"x \0\x7f\xc3\xa9\xff'n0";
        (0..random.below(12))
            .map(|_| match random.below(3) {
                0 => random.next_u64() as u8,
                _ => letters[random.below(letters.len() as u64) as usize],
            })
            .collect()
    }

    /// All entries of `bytes`, given in pieces.
    fn decode(
        format: FileFormat,
        bytes: &[u8],
        piece: usize,
    ) -> Result<Vec<Entry<'static>>, String> {
        let (mut decoder, mut entries) = (Decoder::new(format), Vec::new());
        let (mut at, mut end) = (0, 0);
        loop {
            let at_end = end == bytes.len();
            if at_end && at == end {
                return if decoder.has_end() { Err("no end".into()) } else { Ok(entries) };
            }
            match decoder.next(&bytes[at..end], at_end) {
                Parsed::Entry(entry, taken) => {
                    at += taken;
                    let (key, value) = (entry.key.into_owned(), entry.value.into_owned());
                    entries.push(Entry { key: key.into(), value: value.into(), ..entry });
                }
                Parsed::Nothing(taken) | Parsed::Other(_, taken) | Parsed::Entries(_, taken) => {
                    at += taken
                }
                Parsed::End(_) => return Ok(entries),
                Parsed::Cut if at_end => return Err("cut".into()),
                Parsed::Cut => end = (end + piece).min(bytes.len()),
                Parsed::Bad(why) => return Err(why.into()),
            }
        }
    }

    #[test]
    fn every_entry_comes_back_in_every_format() {
        let mut random = Prng::new(5);
        let entries: Vec<Entry<'_>> = (0..test_size(2_000, 4_000, 1_000_000))
            .map(|n| Entry {
                database: 0,
                key: random_bytes(&mut random).into(),
                value: random_bytes(&mut random).into(),
                expires_unix_ms: if n % 3 == 0 { random.next_u64() >> (n % 64) } else { 0 },
                user_bits: if n % 4 == 0 { random.next_u64() as u32 } else { 0 },
            })
            .collect();
        for (format, base64) in
            ALL.map(|f| (f, false)).into_iter().chain([(FileFormat::Ndjson, true)])
        {
            let mut out = Vec::new();
            let mut encoder = Encoder::begin(format, base64, &mut out);
            entries.iter().for_each(|entry| encoder.entry(entry, &mut out));
            encoder.end(&mut out);
            for piece in [1000, out.len()] {
                assert_eq!(decode(format, &out, piece).unwrap(), entries);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (format, text, word) in [
            (FileFormat::Tsv, "no tab\n", "TAB"),
            (FileFormat::Tsv, "k\tv\tw\n", "written as \\t"),
            (FileFormat::Tsv, "k\tv\\q\n", "--format plain"),
            (FileFormat::Tsv, "k\tv\t1\t4294967296\n", "32"),
            (FileFormat::Tsv, "k\tv\t1\t2\t3\n", "four"),
            (FileFormat::Csv, "a,b\n", "first line names"),
            (FileFormat::Csv, "key,value\na,b,c\n", "3 fields"),
            (FileFormat::Csv, "key,value\na,\"b\n", "not closed"),
            (FileFormat::Csv, "key,value\na,\"b\"c\n", "behind the end"),
            (FileFormat::Ndjson, "{\"key\":\"a\"}\n", "value_base64"),
            (FileFormat::Ndjson, "[]\n", "no object"),
            (FileFormat::Ndjson, "{\"key\":\"a\",\"value_hex\":\"0\"}\n", "pairs"),
            (FileFormat::Ndjson, "{\"key\":\"a\",\"value_base64\":\"%\"}\n", "value_base64"),
            (FileFormat::Rdb, "RADIS0009", "no RDB file"),
            (FileFormat::Rdb, "REDIS0009\u{1}", "cut"),
        ] {
            let why = decode(format, text.as_bytes(), 7).unwrap_err();
            assert!(why.contains(word), "{text:?}: {why}");
        }
    }

    #[test]
    fn files_of_others_are_read() {
        let entries = |format, text: &str| decode(format, text.as_bytes(), 5).unwrap();
        let csv = entries(FileFormat::Csv, "id,value,key\r\n1,\"a\nb\",k\r\n\r\n2,c,\"x\"\"\"\r\n");
        let pairs: Vec<_> = csv.iter().map(|e| (&*e.key, &*e.value)).collect();
        assert_eq!(pairs, [(&b"k"[..], &b"a\nb"[..]), (b"x\"", b"c")]);
        let plain = entries(FileFormat::Plain, "k\tv\tw\\n\n\nlast\t");
        let pairs: Vec<_> = plain.iter().map(|e| (&*e.key, &*e.value)).collect();
        assert_eq!(pairs, [(&b"k"[..], &b"v\tw\\n"[..]), (b"last", b"")]);
        let json = entries(FileFormat::Ndjson, "{\"value_base64\":\"/w==\",\"key_hex\":\"00\"}\n");
        assert_eq!((&*json[0].key, &*json[0].value), (&[0][..], &[255][..]));
    }

    #[test]
    fn lp_is_cut_at_every_length_but_the_last() {
        let mut bytes = vec![1, 0, 0, 0, 3, 0, 0, 0];
        bytes.extend_from_slice(b"kval");
        let Parsed::Entry(entry, 12) = lp(&bytes) else { panic!("no entry of 12 bytes") };
        assert_eq!((&*entry.key, &*entry.value), (&b"k"[..], &b"val"[..]));
        assert!((0..bytes.len()).all(|n| matches!(lp(&bytes[..n]), Parsed::Cut)));
        assert!(matches!(lp(&[0xff; 8]), Parsed::Bad(_)));
    }
}
