//! `struct`: numbers and strings as bytes in the layout that a format describes.

use super::function;
use crate::failure::{bad_argument, bytes_argument, number_argument, raise};
use mlua::{Lua, MultiValue, Result, Table, Value};

/// Bytes of the largest integer.
const INTEGER_BYTES_MAX: usize = 32;
/// What `!` without a number aligns to.
const ALIGN: usize = 8;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    function(lua, &table, "pack", pack)?;
    function(lua, &table, "unpack", unpack)?;
    function(lua, &table, "size", size)?;
    Ok(table)
}

/// One item of a format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    /// An integer of so many bytes.
    Integer {
        bytes: usize,
        is_signed: bool,
    },
    Float,
    Double,
    /// A byte that means nothing.
    Pad,
    /// A string up to a zero byte.
    Text,
    /// So many characters; 0 takes the length from the last number, or all of a string.
    Chars(usize),
}

impl Item {
    fn bytes(self) -> usize {
        match self {
            Item::Integer { bytes, .. } => bytes,
            Item::Float => 4,
            Item::Double => 8,
            Item::Pad => 1,
            Item::Text => 0,
            Item::Chars(len) => len,
        }
    }
}

/// Reads a format.
struct Format<'f> {
    lua: &'f Lua,
    name: &'static str,
    text: &'f [u8],
    is_little: bool,
    align: usize,
}

impl<'f> Format<'f> {
    fn new(lua: &'f Lua, name: &'static str, text: &'f [u8]) -> Self {
        Format { lua, name, text, is_little: cfg!(target_endian = "little"), align: 1 }
    }

    /// The number that comes next, if one does.
    fn number(&mut self) -> Result<Option<usize>> {
        let len = self.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.text.split_at(len);
        self.text = rest;
        let fold = |all: Option<usize>, byte: &u8| {
            all?.checked_mul(10)?.checked_add(usize::from(byte - b'0'))
        };
        match digits.iter().try_fold(0_usize, |all, byte| fold(Some(all), byte)) {
            Some(n) if n <= i32::MAX as usize => Ok(Some(n).filter(|_| len > 0)),
            _ => raise(self.lua, "integral size overflow"),
        }
    }

    /// An integer's size, `usual` if the format does not say.
    fn size(&mut self, usual: usize) -> Result<usize> {
        let bytes = self.number()?.unwrap_or(usual);
        if bytes > INTEGER_BYTES_MAX {
            let max = INTEGER_BYTES_MAX;
            let text = format!("integral size {bytes} is larger than limit of {max}");
            return raise(self.lua, text);
        }
        Ok(bytes)
    }

    /// The next item and the pad bytes before it at place `at`.
    fn next(&mut self, at: usize) -> Result<Option<(Item, usize)>> {
        while let Some((letter, rest)) = self.text.split_first() {
            self.text = rest;
            let integer = |bytes, is_signed| Item::Integer { bytes, is_signed };
            let item = match letter {
                b'b' => integer(1, true),
                b'B' => integer(1, false),
                b'h' => integer(2, true),
                b'H' => integer(2, false),
                b'l' => integer(8, true),
                b'L' | b'T' => integer(8, false),
                b'i' => integer(self.size(4)?, true),
                b'I' => integer(self.size(4)?, false),
                b'f' => Item::Float,
                b'd' => Item::Double,
                b'x' => Item::Pad,
                b's' => Item::Text,
                b'c' => Item::Chars(self.number()?.unwrap_or(1)),
                b' ' => continue,
                b'<' | b'>' | b'=' => {
                    self.is_little = match letter {
                        b'<' => true,
                        b'>' => false,
                        _ => cfg!(target_endian = "little"),
                    };
                    continue;
                }
                b'!' => {
                    let align = self.size(ALIGN)?;
                    if !align.is_power_of_two() {
                        return raise(self.lua, "alignment is not a power of 2");
                    }
                    self.align = align;
                    continue;
                }
                other => {
                    let why = format!("invalid format option '{}'", *other as char);
                    return bad_argument(self.lua, 1, self.name, why);
                }
            };
            let align = item.bytes().min(self.align);
            let aligned = !matches!(item, Item::Chars(_) | Item::Pad | Item::Text) && align > 1;
            let pad = if aligned { at.wrapping_neg() & (align - 1) } else { 0 };
            return Ok(Some((item, pad)));
        }
        Ok(None)
    }
}

/// `number` cut to 64 bits, as the C library does it.
fn whole(number: f64) -> u64 {
    if number < 0.0 { number as i64 as u64 } else { number as u64 }
}

fn pack(lua: &Lua, args: &[Value]) -> Result<mlua::LuaString> {
    let text = bytes_argument(lua, args, 0, "pack")?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, "pack", &text);
    let (mut out, mut next) = (Vec::new(), 1);
    while let Some((item, pad)) = format.next(out.len())? {
        out.extend(std::iter::repeat_n(0, pad));
        match item {
            Item::Pad => {
                out.push(0);
                continue;
            }
            Item::Integer { bytes, is_signed } => {
                let number = whole(number_argument(lua, args, next, "pack")?);
                let sign = if is_signed && (number as i64) < 0 { 0xFF } else { 0 };
                let all = number.to_le_bytes();
                let le = (0..bytes).map(|at| all.get(at).copied().unwrap_or(sign));
                push(&mut out, le.collect(), format.is_little);
            }
            Item::Float => {
                let number = number_argument(lua, args, next, "pack")? as f32;
                push(&mut out, number.to_le_bytes().to_vec(), format.is_little);
            }
            Item::Double => {
                let number = number_argument(lua, args, next, "pack")?;
                push(&mut out, number.to_le_bytes().to_vec(), format.is_little);
            }
            Item::Text | Item::Chars(_) => {
                let string = bytes_argument(lua, args, next, "pack")?;
                let string = string.as_bytes();
                let len = match item {
                    Item::Chars(len) if len > 0 => len,
                    _ => string.len(),
                };
                if string.len() < len {
                    return bad_argument(lua, next + 1, "pack", "string too short");
                }
                out.extend_from_slice(&string[..len]);
                if item == Item::Text {
                    out.push(0);
                }
            }
        }
        next += 1;
    }
    lua.create_string(out)
}

/// Adds a number's bytes, the lowest first or last.
fn push(out: &mut Vec<u8>, mut bytes: Vec<u8>, is_little: bool) {
    if !is_little {
        bytes.reverse();
    }
    out.extend(bytes);
}

/// The number whose bytes these are.
fn integer(bytes: &[u8], is_little: bool, is_signed: bool) -> f64 {
    let fold = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
    let number = match is_little {
        true => bytes.iter().rev().fold(0, fold),
        false => bytes.iter().fold(0, fold),
    };
    if !is_signed {
        return number as f64;
    }
    let unused = 64 - 8 * bytes.len().clamp(1, 8);
    (((number << unused) as i64) >> unused) as f64
}

fn unpack(lua: &Lua, args: &[Value]) -> Result<MultiValue> {
    let (text, data) =
        (bytes_argument(lua, args, 0, "unpack")?, bytes_argument(lua, args, 1, "unpack")?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let from = match args.get(2) {
        None | Some(Value::Nil) => 1.0,
        Some(_) => number_argument(lua, args, 2, "unpack")?,
    };
    if from < 1.0 {
        return bad_argument(lua, 3, "unpack", "offset must be 1 or greater");
    }
    let mut at = from as usize - 1;
    let short = || bad_argument(lua, 2, "unpack", "data string too short");
    let mut format = Format::new(lua, "unpack", &text);
    let mut all = MultiValue::new();
    while let Some((item, pad)) = format.next(at)? {
        at += pad;
        let Some(rest) = data.get(at..).filter(|rest| rest.len() >= item.bytes()) else {
            return short();
        };
        let bytes = &rest[..item.bytes()];
        at += bytes.len();
        let value = match item {
            Item::Pad => continue,
            Item::Integer { is_signed, .. } => {
                Value::Number(integer(bytes, format.is_little, is_signed))
            }
            Item::Float => {
                let bytes = bytes.try_into().expect("four bytes");
                let from = if format.is_little { f32::from_le_bytes } else { f32::from_be_bytes };
                Value::Number(from(bytes).into())
            }
            Item::Double => {
                let bytes = bytes.try_into().expect("eight bytes");
                let from = if format.is_little { f64::from_le_bytes } else { f64::from_be_bytes };
                Value::Number(from(bytes))
            }
            Item::Chars(0) => {
                let len = match all.pop_back() {
                    Some(Value::Number(n)) if n >= 0.0 => n as usize,
                    _ => return raise(lua, "format 'c0' needs a previous size"),
                };
                let Some(chars) = rest.get(..len) else { return short() };
                at += len;
                Value::String(lua.create_string(chars)?)
            }
            Item::Chars(_) => Value::String(lua.create_string(bytes)?),
            Item::Text => {
                let Some(len) = rest.iter().position(|byte| *byte == 0) else {
                    return raise(lua, "unfinished string in data");
                };
                at += len + 1;
                Value::String(lua.create_string(&rest[..len])?)
            }
        };
        all.push_back(value);
    }
    all.push_back(Value::Integer(at as i64 + 1));
    Ok(all)
}

fn size(lua: &Lua, args: &[Value]) -> Result<usize> {
    let text = bytes_argument(lua, args, 0, "size")?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, "size", &text);
    let mut all: usize = 0;
    while let Some((item, pad)) = format.next(all)? {
        match item {
            Item::Text => {
                return bad_argument(lua, 1, "size", "option 's' has no fixed size");
            }
            Item::Chars(0) => {
                return bad_argument(lua, 1, "size", "option 'c0' has no fixed size");
            }
            _ => {}
        }
        all += pad + item.bytes();
    }
    Ok(all)
}
