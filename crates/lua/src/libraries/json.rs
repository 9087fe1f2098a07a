//! `cjson`: writes JSON, and what the library lets scripts set.

use super::{json_read, shortest};
use crate::failure::{bad_argument, raise, type_name};
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// Arrays and objects inside each other.
const DEPTH_MAX: usize = 1000;

/// What scripts set. An interpreter keeps it, as Redis does.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// Sparse arrays become objects instead of errors.
    sparse_convert: bool,
    /// A table is sparse if its largest index is so many times its number of elements.
    sparse_ratio: usize,
    /// No table is sparse whose largest index is not above this.
    sparse_safe: usize,
    encode_depth: usize,
    pub(super) decode_depth: usize,
    precision: usize,
    /// What becomes of numbers that JSON does not have: written, or `null`, or an error.
    invalid: Invalid,
    pub(super) decodes_invalid: bool,
    keeps_buffer: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refuse,
    Write,
    Null,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: DEPTH_MAX,
            decode_depth: DEPTH_MAX,
            precision: 14,
            invalid: Invalid::Refuse,
            decodes_invalid: true,
            keeps_buffer: true,
        }
    }
}

type Shelf = Rc<RefCell<Settings>>;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let settings = Shelf::default();
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    table.raw_set("null", Value::NULL)?;
    let own = Rc::clone(&settings);
    let encode = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return bad_argument(lua, args.len().clamp(1, 2), "encode", "expected 1 argument");
        }
        let mut out = Vec::new();
        let writer = Writer { lua, settings: *own.borrow() };
        writer.write(args.front().unwrap_or(&Value::Nil), 0, &mut out)?;
        lua.create_string(out)
    };
    table.raw_set("encode", lua.create_function(encode)?)?;
    let own = Rc::clone(&settings);
    let decode = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return bad_argument(lua, args.len().clamp(1, 2), "decode", "expected 1 argument");
        }
        let args: Vec<Value> = args.into_iter().collect();
        let text = crate::failure::bytes_argument(lua, &args, 0, "decode")?;
        let settings = *own.borrow();
        json_read::read(lua, &text.as_bytes(), &settings)
    };
    table.raw_set("decode", lua.create_function(decode)?)?;
    let shared = Value::Table(table.clone());
    table.raw_set("new", lua.create_function(move |_, ()| Ok(shared.clone()))?)?;
    add_settings(lua, &table, &settings)?;
    Ok(table)
}

/// Adds a function that sets what its arguments say and returns what is set.
fn setting<R: mlua::IntoLuaMulti + 'static>(
    lua: &Lua,
    table: &Table,
    settings: &Shelf,
    name: &'static str,
    set: fn(&Lua, &[Value], &mut Settings) -> Result<R>,
) -> Result<()> {
    let own = Rc::clone(settings);
    let call = move |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        set(lua, &args, &mut own.borrow_mut())
    };
    table.raw_set(name, lua.create_function(call)?)
}

/// Argument `at` as a number between two, if it is given.
fn between(
    lua: &Lua,
    args: &[Value],
    at: usize,
    name: &str,
    range: (f64, f64),
) -> Result<Option<usize>> {
    if matches!(args.get(at), None | Some(Value::Nil)) {
        return Ok(None);
    }
    let number = crate::failure::number_argument(lua, args, at, name)?;
    if number < range.0 || number > range.1 {
        let why = format!("expected integer between {} and {}", range.0, range.1);
        return bad_argument(lua, at + 1, name, why);
    }
    Ok(Some(number as usize))
}

const ANY: (f64, f64) = (0.0, i32::MAX as f64);
const SOME: (f64, f64) = (1.0, i32::MAX as f64);

fn add_settings(lua: &Lua, table: &Table, settings: &Shelf) -> Result<()> {
    setting(lua, table, settings, "encode_sparse_array", |lua, args, set| {
        let name = "encode_sparse_array";
        match args.first() {
            Some(Value::Boolean(is)) => set.sparse_convert = *is,
            None | Some(Value::Nil) => {}
            Some(_) => return bad_argument(lua, 1, name, "boolean expected"),
        }
        set.sparse_ratio = between(lua, args, 1, name, ANY)?.unwrap_or(set.sparse_ratio);
        set.sparse_safe = between(lua, args, 2, name, ANY)?.unwrap_or(set.sparse_safe);
        Ok((set.sparse_convert, set.sparse_ratio, set.sparse_safe))
    })?;
    setting(lua, table, settings, "encode_max_depth", |lua, args, set| {
        let depth = between(lua, args, 0, "encode_max_depth", SOME)?;
        // Deeper than the default would need more stack than a thread has.
        set.encode_depth = depth.unwrap_or(set.encode_depth).min(DEPTH_MAX);
        Ok(set.encode_depth)
    })?;
    setting(lua, table, settings, "decode_max_depth", |lua, args, set| {
        let depth = between(lua, args, 0, "decode_max_depth", SOME)?;
        set.decode_depth = depth.unwrap_or(set.decode_depth).min(DEPTH_MAX);
        Ok(set.decode_depth)
    })?;
    setting(lua, table, settings, "encode_number_precision", |lua, args, set| {
        let digits = between(lua, args, 0, "encode_number_precision", (1.0, 14.0))?;
        set.precision = digits.unwrap_or(set.precision);
        Ok(set.precision)
    })?;
    setting(lua, table, settings, "encode_keep_buffer", |_, args, set| {
        if let Some(Value::Boolean(keeps)) = args.first() {
            set.keeps_buffer = *keeps;
        }
        Ok(set.keeps_buffer)
    })?;
    setting(lua, table, settings, "encode_invalid_numbers", |lua, args, set| {
        match args.first() {
            None | Some(Value::Nil) => {}
            Some(Value::Boolean(true)) => set.invalid = Invalid::Write,
            Some(Value::Boolean(false)) => set.invalid = Invalid::Refuse,
            Some(Value::String(text)) if *text == "null" => set.invalid = Invalid::Null,
            Some(_) => {
                return bad_argument(lua, 1, "encode_invalid_numbers", "invalid option");
            }
        }
        let null = || lua.create_string("null").map(Value::String);
        Ok(match set.invalid {
            Invalid::Refuse => Value::Boolean(false),
            Invalid::Write => Value::Boolean(true),
            Invalid::Null => null()?,
        })
    })?;
    setting(lua, table, settings, "decode_invalid_numbers", |_, args, set| {
        if let Some(Value::Boolean(is)) = args.first() {
            set.decodes_invalid = *is;
        }
        Ok(set.decodes_invalid)
    })
}

/// Writes values of Lua as JSON.
struct Writer<'l> {
    lua: &'l Lua,
    settings: Settings,
}

impl Writer<'_> {
    fn write(&self, value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        match value {
            Value::Nil => out.extend_from_slice(b"null"),
            Value::LightUserData(data) if data.0.is_null() => out.extend_from_slice(b"null"),
            Value::Boolean(is) => out.extend_from_slice(is.to_string().as_bytes()),
            Value::Integer(n) => self.number(*n as f64, out)?,
            Value::Number(n) => self.number(*n, out)?,
            Value::String(text) => quote(&text.as_bytes(), out),
            Value::Table(table) => self.table(table, depth + 1, out)?,
            other => {
                let kind = type_name(Some(other));
                return raise(self.lua, format!("Cannot serialise {kind}: type not supported"));
            }
        }
        Ok(())
    }

    fn number(&self, number: f64, out: &mut Vec<u8>) -> Result<()> {
        if !number.is_finite() {
            match self.settings.invalid {
                Invalid::Refuse => {
                    let text = "Cannot serialise number: must not be NaN or Inf";
                    return raise(self.lua, text);
                }
                Invalid::Null => {
                    out.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Write => {}
            }
        }
        out.extend_from_slice(shortest(number, self.settings.precision).as_bytes());
        Ok(())
    }

    /// The largest index of a table that is an array; `None` of an object.
    fn array_len(&self, table: &Table) -> Result<Option<usize>> {
        let (mut largest, mut items) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(n) if n > 0 => {
                    largest = largest.max(n as usize);
                    items += 1;
                }
                _ => return Ok(None),
            }
        }
        let Settings { sparse_convert, sparse_ratio, sparse_safe, .. } = self.settings;
        if sparse_ratio > 0 && largest > items * sparse_ratio && largest > sparse_safe {
            if !sparse_convert {
                let text = "Cannot serialise table: excessively sparse array";
                return raise(self.lua, text);
            }
            return Ok(None);
        }
        Ok(Some(largest).filter(|largest| *largest > 0))
    }

    fn table(&self, table: &Table, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        if depth > self.settings.encode_depth {
            return raise(self.lua, format!("Cannot serialise, excessive nesting ({depth})"));
        }
        if let Some(len) = self.array_len(table)? {
            out.push(b'[');
            for index in 1..=len {
                if index > 1 {
                    out.push(b',');
                }
                self.write(&table.raw_get(index)?, depth, out)?;
            }
            out.push(b']');
            return Ok(());
        }
        out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            match &key {
                Value::Integer(n) => {
                    let text = shortest(*n as f64, self.settings.precision);
                    out.extend_from_slice(format!("\"{text}\":").as_bytes());
                }
                Value::Number(n) => {
                    let text = shortest(*n, self.settings.precision);
                    out.extend_from_slice(format!("\"{text}\":").as_bytes());
                }
                Value::String(text) => {
                    quote(&text.as_bytes(), out);
                    out.push(b':');
                }
                other => {
                    let kind = type_name(Some(other));
                    let text = "table key must be a number or string";
                    return raise(self.lua, format!("Cannot serialise {kind}: {text}"));
                }
            }
            self.write(&value, depth, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// `text` in quotes.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', *byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7F => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}
