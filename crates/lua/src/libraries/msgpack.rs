//! `cmsgpack`: values of Lua as MessagePack, each in its shortest form.

use super::function;
use crate::failure::{bad_argument, bytes_argument, number_argument, raise};
use mlua::{Lua, MultiValue, Result, Table, Value};
use rmp::Marker;
use rmp::encode;
use std::io::Cursor;

/// Tables inside tables that are packed; what lies deeper becomes nil.
const PACKED_DEPTH_MAX: usize = 16;
/// Arrays and maps inside each other that are unpacked.
const DEPTH_MAX: usize = 1000;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    function(lua, &table, "pack", pack)?;
    function(lua, &table, "unpack", |lua, args| unpack(lua, args, "unpack", usize::MAX, false))?;
    function(lua, &table, "unpack_one", |lua, args| unpack(lua, args, "unpack_one", 1, true))?;
    function(lua, &table, "unpack_limit", |lua, args| {
        let many = number_argument(lua, args, 1, "unpack_limit")?;
        if many < 0.0 {
            return raise(lua, format!("Invalid request to unpack with limit of {many}."));
        }
        let mut args = args.to_vec();
        args.remove(1);
        unpack(lua, &args, "unpack_limit", many as usize, true)
    })?;
    Ok(table)
}

fn pack(lua: &Lua, args: &[Value]) -> Result<mlua::LuaString> {
    if args.is_empty() {
        return bad_argument(lua, 0, "pack", "MessagePack pack needs input.");
    }
    let mut out = Vec::new();
    for value in args {
        // Writing to a vector does not fail.
        write(value, 0, &mut out)?;
    }
    lua.create_string(out)
}

fn write(value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let written = match value {
        Value::String(text) => {
            let bytes = text.as_bytes();
            encode::write_str_len(out, bytes.len() as u32).map(|_| out.extend_from_slice(&bytes))
        }
        Value::Boolean(is) => {
            out.push(if *is { Marker::True.to_u8() } else { Marker::False.to_u8() });
            Ok(())
        }
        Value::Integer(n) => encode::write_sint(out, *n).map(|_| ()),
        Value::Number(n) if n.fract() == 0.0 && n.abs() < 2f64.powi(63) => {
            encode::write_sint(out, *n as i64).map(|_| ())
        }
        Value::Number(n) if f64::from(*n as f32) == *n => encode::write_f32(out, *n as f32),
        Value::Number(n) => encode::write_f64(out, *n),
        Value::Table(table) if depth < PACKED_DEPTH_MAX => return write_table(table, depth, out),
        _ => {
            out.push(Marker::Null.to_u8());
            Ok(())
        }
    };
    written.map_err(mlua::Error::external)
}

/// The length of a table whose keys are the numbers from 1 on.
fn array_len(table: &Table) -> Result<Option<usize>> {
    let (mut count, mut largest) = (0, 0);
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(n) if n > 0 => {
                count += 1;
                largest = largest.max(n as usize);
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(count).filter(|_| largest == count))
}

fn write_table(table: &Table, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if let Some(len) = array_len(table)? {
        encode::write_array_len(out, len as u32).map_err(mlua::Error::external)?;
        for index in 1..=len {
            write(&table.raw_get(index)?, depth + 1, out)?;
        }
        return Ok(());
    }
    let pairs: Vec<(Value, Value)> = table.pairs().collect::<Result<_>>()?;
    encode::write_map_len(out, pairs.len() as u32).map_err(mlua::Error::external)?;
    for (key, value) in &pairs {
        write(key, depth + 1, out)?;
        write(value, depth + 1, out)?;
    }
    Ok(())
}

/// Why bytes are no MessagePack.
enum Wrong {
    Missing,
    Format,
    Lua(mlua::Error),
}

/// `many` values from an offset on; before them, if `tells`, where to go on, or -1 at the end.
fn unpack(lua: &Lua, args: &[Value], name: &str, many: usize, tells: bool) -> Result<MultiValue> {
    let text = bytes_argument(lua, args, 0, name)?;
    let offset = match args.get(1) {
        Some(value) if tells && !value.is_nil() => number_argument(lua, args, 1, name)?,
        _ => 0.0,
    };
    let bytes = text.as_bytes();
    if offset < 0.0 || offset > bytes.len() as f64 {
        let (offset, len) = (offset as i64, bytes.len());
        return raise(lua, format!("Start offset {offset} greater than input length {len}."));
    }
    let mut input = Cursor::new(&bytes[..]);
    input.set_position(offset as u64);
    let mut all = MultiValue::new();
    while all.len() < many && (input.position() as usize) < bytes.len() {
        match read(lua, &mut input, 0) {
            Ok(value) => all.push_back(value),
            Err(Wrong::Missing) => return raise(lua, "Missing bytes in input."),
            Err(Wrong::Format) => return raise(lua, "Bad data format in input."),
            Err(Wrong::Lua(error)) => return Err(error),
        }
    }
    if tells {
        let at = input.position() as usize;
        all.push_front(Value::Integer(if at == bytes.len() { -1 } else { at as i64 }));
    }
    Ok(all)
}

/// The next `N` bytes.
fn take<const N: usize>(input: &mut Cursor<&[u8]>) -> std::result::Result<[u8; N], Wrong> {
    let bytes = take_slice(input, N)?;
    Ok(bytes.try_into().expect("a slice of N bytes"))
}

fn take_slice<'b>(
    input: &mut Cursor<&'b [u8]>,
    len: usize,
) -> std::result::Result<&'b [u8], Wrong> {
    let at = input.position() as usize;
    let all: &'b [u8] = input.get_ref();
    let bytes = all.get(at..).and_then(|rest| rest.get(..len)).ok_or(Wrong::Missing)?;
    input.set_position((at + len) as u64);
    Ok(bytes)
}

fn read(lua: &Lua, input: &mut Cursor<&[u8]>, depth: usize) -> std::result::Result<Value, Wrong> {
    let [byte] = take::<1>(input)?;
    let len = |input: &mut Cursor<&[u8]>, width: usize| {
        let bytes = take_slice(input, width)?;
        Ok(bytes.iter().fold(0_usize, |all, byte| all << 8 | usize::from(*byte)))
    };
    let text = |input: &mut Cursor<&[u8]>, len: usize| {
        let bytes = take_slice(input, len)?;
        lua.create_string(bytes).map(Value::String).map_err(Wrong::Lua)
    };
    let number = |n: f64| Ok(Value::Number(n));
    match Marker::from_u8(byte) {
        Marker::FixPos(n) => Ok(Value::Integer(n.into())),
        Marker::FixNeg(n) => Ok(Value::Integer(n.into())),
        Marker::Null => Ok(Value::Nil),
        Marker::True => Ok(Value::Boolean(true)),
        Marker::False => Ok(Value::Boolean(false)),
        Marker::U8 => number(u8::from_be_bytes(take(input)?).into()),
        Marker::U16 => number(u16::from_be_bytes(take(input)?).into()),
        Marker::U32 => number(u32::from_be_bytes(take(input)?).into()),
        Marker::U64 => number(u64::from_be_bytes(take(input)?) as f64),
        Marker::I8 => number(i8::from_be_bytes(take(input)?).into()),
        Marker::I16 => number(i16::from_be_bytes(take(input)?).into()),
        Marker::I32 => number(i32::from_be_bytes(take(input)?).into()),
        Marker::I64 => number(i64::from_be_bytes(take(input)?) as f64),
        Marker::F32 => number(f32::from_be_bytes(take(input)?).into()),
        Marker::F64 => number(f64::from_be_bytes(take(input)?)),
        Marker::FixStr(len) => text(input, len.into()),
        Marker::Str8 | Marker::Bin8 => len(input, 1).and_then(|len| text(input, len)),
        Marker::Str16 | Marker::Bin16 => len(input, 2).and_then(|len| text(input, len)),
        Marker::Str32 | Marker::Bin32 => len(input, 4).and_then(|len| text(input, len)),
        Marker::FixArray(len) => read_array(lua, input, len.into(), depth),
        Marker::Array16 => len(input, 2).and_then(|len| read_array(lua, input, len, depth)),
        Marker::Array32 => len(input, 4).and_then(|len| read_array(lua, input, len, depth)),
        Marker::FixMap(len) => read_map(lua, input, len.into(), depth),
        Marker::Map16 => len(input, 2).and_then(|len| read_map(lua, input, len, depth)),
        Marker::Map32 => len(input, 4).and_then(|len| read_map(lua, input, len, depth)),
        _ => Err(Wrong::Format),
    }
}

fn read_array(
    lua: &Lua,
    input: &mut Cursor<&[u8]>,
    len: usize,
    depth: usize,
) -> std::result::Result<Value, Wrong> {
    if depth >= DEPTH_MAX {
        return Err(Wrong::Format);
    }
    let table = lua.create_table().map_err(Wrong::Lua)?;
    for index in 1..=len {
        table.raw_set(index, read(lua, input, depth + 1)?).map_err(Wrong::Lua)?;
    }
    Ok(Value::Table(table))
}

fn read_map(
    lua: &Lua,
    input: &mut Cursor<&[u8]>,
    len: usize,
    depth: usize,
) -> std::result::Result<Value, Wrong> {
    if depth >= DEPTH_MAX {
        return Err(Wrong::Format);
    }
    let table = lua.create_table().map_err(Wrong::Lua)?;
    for _ in 0..len {
        let key = read(lua, input, depth + 1)?;
        let value = read(lua, input, depth + 1)?;
        table.raw_set(key, value).map_err(Wrong::Lua)?;
    }
    Ok(Value::Table(table))
}
