//! The libraries of scripts beside Lua's own.

mod bits;
mod json;
mod json_read;
mod msgpack;
mod numbers;
mod random;
mod structs;

pub(crate) use numbers::shortest;
pub(crate) use random::seeded;

use crate::shared::Shared;
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::rc::Rc;

/// Adds the libraries to `tables` by their names, and functions that replace Lua's to `ours`.
pub(crate) fn add(lua: &Lua, tables: &Table, ours: &Table, shared: &Rc<Shared>) -> Result<()> {
    tables.raw_set("bit", bits::library(lua)?)?;
    tables.raw_set("cjson", json::library(lua)?)?;
    tables.raw_set("cmsgpack", msgpack::library(lua)?)?;
    tables.raw_set("struct", structs::library(lua)?)?;
    random::add(lua, ours, shared)
}

/// Adds the function `name`, which gets its arguments as a list.
fn function<R: mlua::IntoLuaMulti + 'static>(
    lua: &Lua,
    table: &Table,
    name: &'static str,
    call: fn(&Lua, &[Value]) -> Result<R>,
) -> Result<()> {
    let call = move |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        call(lua, &args)
    };
    table.raw_set(name, lua.create_function(call)?)
}
