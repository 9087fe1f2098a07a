//! Keys of index entries: bytes whose order is the order of the columns. `docs/formats/sql.md` has
//! the format.
//!
//! 1. Two keys compare as SQLite compares the records (`sqlite3VdbeRecordCompare`): keys are equal
//!    if and only if SQLite calls the columns equal.
//! 2. No encoded column is a prefix of another one of that column: fewer columns are a prefix of
//!    the key.
//! 3. No column begins with [`BEHIND`], inverted or not: a prefix followed by it is behind all keys
//!    that begin with the prefix.

/// A byte that no column begins with, and that is behind all that do.
pub const BEHIND: u8 = 0xff;

const NULL: u8 = 0x10;
const NUMBER: u8 = 0x20;
const TEXT: u8 = 0x30;
const BLOB: u8 = 0x40;
const NULL_BEHIND: u8 = 0x50;

/// From here on not every integer is a double.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;

/// A value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'f> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating point number; not-a-number stands for NULL, as in SQLite.
    Real(f64),
    /// UTF-8, which nobody checks.
    Text(&'f [u8]),
    /// Bytes.
    Blob(&'f [u8]),
}

/// How texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Collation {
    /// By their bytes.
    #[default]
    Binary,
    /// A to Z are a to z.
    NoCase,
    /// Spaces at the end do not count.
    Rtrim,
}

/// How a column is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Column {
    /// Of its texts.
    pub collation: Collation,
    /// The greatest value comes first.
    pub is_descending: bool,
    /// NULLs are at the other end than where they are: behind everything, or before it if the
    /// column is descending.
    pub moves_nulls: bool,
}

/// Appends `fields`, which are the first ones of `columns`, to `key`. Fields without a column are
/// left out.
pub fn encode(key: &mut Vec<u8>, columns: &[Column], fields: &[Field<'_>]) {
    for (column, field) in columns.iter().zip(fields) {
        let start = key.len();
        encode_field(key, *column, *field);
        if column.is_descending {
            key[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

fn encode_field(key: &mut Vec<u8>, column: Column, field: Field<'_>) {
    match field {
        Field::Integer(number) => encode_integer(key, number),
        Field::Real(number) if !number.is_nan() => encode_double(key, number, 0),
        Field::Null | Field::Real(_) => {
            key.push(if column.moves_nulls { NULL_BEHIND } else { NULL })
        }
        Field::Blob(bytes) => {
            key.push(BLOB);
            encode_bytes(key, bytes);
        }
        Field::Text(text) => {
            key.push(TEXT);
            match column.collation {
                Collation::Binary => encode_bytes(key, text),
                Collation::Rtrim => encode_bytes(key, without_spaces(text)),
                Collation::NoCase => encode_folded(key, text),
            }
        }
    }
}

/// The greatest double that is not above `number`, and what the number has more.
fn encode_integer(key: &mut Vec<u8>, number: i64) {
    let nearest = number as f64;
    // Wider than both: the double may be 2^63.
    let exact = i128::from(number);
    let below = if nearest as i128 > exact { nearest.next_down() } else { nearest };
    encode_double(key, below, (exact - below as i128) as u16);
}

fn encode_double(key: &mut Vec<u8>, number: f64, more: u16) {
    const SIGN: u64 = 1 << 63;
    // Minus zero and zero are equal.
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    key.push(NUMBER);
    key.extend_from_slice(&ordered.to_be_bytes());
    if number.abs() >= EXACT_MAX {
        key.extend_from_slice(&more.to_be_bytes());
    }
}

fn escape(key: &mut Vec<u8>, bytes: &[u8]) {
    let mut pieces = bytes.split(|byte| *byte == 0);
    key.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        key.extend_from_slice(&[0, 0xff]);
        key.extend_from_slice(piece);
    }
}

fn encode_bytes(key: &mut Vec<u8>, bytes: &[u8]) {
    escape(key, bytes);
    key.extend_from_slice(&[0, 0]);
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// SQLite compares up to a zero byte that both have at one place, and then the lengths.
fn encode_folded(key: &mut Vec<u8>, text: &[u8]) {
    let zero = text.iter().position(|byte| *byte == 0);
    let compared = zero.map_or(text, |zero| &text[..zero]);
    key.extend(compared.iter().map(u8::to_ascii_lowercase));
    if zero.is_some() {
        key.extend_from_slice(&[0, 0xff]);
        key.extend_from_slice(&(text.len() as u32).to_be_bytes());
    }
    key.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
#[path = "encoding_tests.rs"]
mod tests;
