//! `bit`: operations on 32 bits, with the results of BitOp: signed numbers.

use super::function;
use crate::failure::number_argument;
use mlua::{Lua, Result, Table, Value};

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    function(lua, &table, "tobit", |lua, args| bits(lua, args, 0, "tobit").map(signed))?;
    function(lua, &table, "bnot", |lua, args| bits(lua, args, 0, "bnot").map(|n| signed(!n)))?;
    function(lua, &table, "bswap", |lua, args| {
        bits(lua, args, 0, "bswap").map(|n| signed(n.swap_bytes()))
    })?;
    function(lua, &table, "band", |lua, args| fold(lua, args, "band", |a, b| a & b))?;
    function(lua, &table, "bor", |lua, args| fold(lua, args, "bor", |a, b| a | b))?;
    function(lua, &table, "bxor", |lua, args| fold(lua, args, "bxor", |a, b| a ^ b))?;
    function(lua, &table, "lshift", |lua, args| shift(lua, args, "lshift", |n, by| n << by))?;
    function(lua, &table, "rshift", |lua, args| shift(lua, args, "rshift", |n, by| n >> by))?;
    function(lua, &table, "arshift", |lua, args| {
        shift(lua, args, "arshift", |n, by| ((n as i32) >> by) as u32)
    })?;
    function(lua, &table, "rol", |lua, args| shift(lua, args, "rol", u32::rotate_left))?;
    function(lua, &table, "ror", |lua, args| shift(lua, args, "ror", u32::rotate_right))?;
    function(lua, &table, "tohex", to_hex)?;
    Ok(table)
}

fn signed(bits: u32) -> i64 {
    i64::from(bits as i32)
}

/// Argument `at` as 32 bits: rounded to the nearest number, even ones first, and cut off above.
fn bits(lua: &Lua, args: &[Value], at: usize, name: &str) -> Result<u32> {
    let number = number_argument(lua, args, at, name)?.round_ties_even();
    Ok(number.rem_euclid(4_294_967_296.0) as u32)
}

fn fold(lua: &Lua, args: &[Value], name: &str, with: fn(u32, u32) -> u32) -> Result<i64> {
    let mut all = bits(lua, args, 0, name)?;
    for at in 1..args.len() {
        all = with(all, bits(lua, args, at, name)?);
    }
    Ok(signed(all))
}

fn shift(lua: &Lua, args: &[Value], name: &str, with: fn(u32, u32) -> u32) -> Result<i64> {
    let (number, by) = (bits(lua, args, 0, name)?, bits(lua, args, 1, name)?);
    Ok(signed(with(number, by & 31)))
}

/// The last digits, 8 by default; capital ones if their number is negative.
fn to_hex(lua: &Lua, args: &[Value]) -> Result<String> {
    let number = bits(lua, args, 0, "tohex")?;
    let digits = if args.len() > 1 { bits(lua, args, 1, "tohex")? as i32 } else { 8 };
    let all = format!("{number:08x}");
    let shown = &all[8 - (digits.unsigned_abs().min(8) as usize)..];
    Ok(if digits < 0 { shown.to_ascii_uppercase() } else { shown.into() })
}
