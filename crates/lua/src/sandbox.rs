//! What scripts see: Lua's libraries without a way to files, processes, byte code and each other.
//!
//! The protected tables are empty ones in front of the real ones; `sandbox.lua` makes them, and the
//! functions that must not be fooled by that.

use crate::failure::{bytes_argument, caught, syntax_text};
use crate::shared::Shared;
use crate::{libraries, redis_table};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, MultiValue, Result, Table, Value, Variadic};
use std::rc::Rc;

/// The parts of a sandbox that the interpreter uses.
pub(crate) struct Sandbox {
    /// What scripts know as their globals.
    pub(crate) outer: Table,
    /// What is behind it.
    pub(crate) globals: Table,
    pub(crate) redis: Table,
    /// Runs a function: `run(call, on_error)`.
    pub(crate) run: Function,
    /// Runs a function with two arguments: `run_with(call, on_error, keys, args)`.
    pub(crate) run_with: Function,
    /// Undoes what a script has done to protected tables.
    pub(crate) clean: Function,
    /// Whether missing fields of the table `redis` are errors.
    pub(crate) strict: Function,
}

impl Sandbox {
    pub(crate) fn new(lua: &Lua, shared: &Rc<Shared>) -> Result<Self> {
        let (ours, tables, redis) = (lua.create_table()?, lua.create_table()?, lua.create_table()?);
        let catch = |lua: &Lua, (value, as_table): (Value, bool)| caught(lua, value, as_table);
        ours.raw_set("caught", lua.create_function(catch)?)?;
        redis_table::fill(lua, &redis, shared)?;
        tables.raw_set("redis", &redis)?;
        libraries::add(lua, &tables, &ours, shared)?;
        // The environment of loaded texts is there only when the sandbox is.
        let holder = lua.create_table()?;
        let environment = holder.clone();
        let load = move |lua: &Lua, args: MultiValue| load_text(lua, &args, &environment);
        ours.raw_set("load_text", lua.create_function(load)?)?;
        let chunk = lua.load(include_str!("sandbox.lua")).set_name("=sandbox");
        let made: Variadic<Value> = chunk.call((lua.globals(), ours, tables))?;
        let [outer, globals, run, run_with, clean, strict] = &made[..] else {
            unreachable!("the sandbox returns six values");
        };
        let table = |value: &Value| lua.unpack::<Table>(value.clone());
        let function = |value: &Value| lua.unpack::<Function>(value.clone());
        holder.raw_set(1, outer)?;
        Ok(Sandbox {
            outer: table(outer)?,
            globals: table(globals)?,
            redis,
            run: function(run)?,
            run_with: function(run_with)?,
            clean: function(clean)?,
            strict: function(strict)?,
        })
    }
}

/// The function whose body is a text, and never byte code; or nothing and why not.
fn load_text(lua: &Lua, args: &MultiValue, environment: &Table) -> Result<(Value, Value)> {
    let args: Vec<Value> = args.iter().cloned().collect();
    let text = bytes_argument(lua, &args, 0, "loadstring")?;
    let name = args.get(1).map(|name| lua.coerce_string(name.clone())).transpose()?.flatten();
    let name = name.map_or_else(String::new, |name| name.to_string_lossy());
    if text.as_bytes().contains(&0) && text.as_bytes().first() == Some(&0x1B) {
        return Ok((Value::Nil, Value::String(lua.create_string("byte code is not loaded")?)));
    }
    let bytes = text.as_bytes().to_vec();
    let chunk = lua.load(bytes).set_name(name).set_mode(ChunkMode::Text);
    match chunk.set_environment(environment.raw_get(1)?).into_function() {
        Ok(function) => Ok((Value::Function(function), Value::Nil)),
        Err(error) => {
            let text = syntax_text(&error);
            Ok((Value::Nil, Value::String(lua.create_string(text)?)))
        }
    }
}
