//! The table `redis` of scripts.

use crate::convert::Reader;
use crate::failure::{Raised, error_table};
use crate::host::{Dialect, Host, LogLevel};
use crate::libraries::shortest;
use crate::sha1hex::sha1_hex;
use crate::shared::Shared;
use mlua::{Lua, MultiValue, Result, Scope, Table, Value};
use std::cell::RefCell;
use std::rc::Rc;

const NO_ARGUMENT: &str = "ERR Please specify at least one argument for this redis lib call";
const BAD_ARGUMENT: &str = "ERR Lua redis lib command arguments must be strings or integers";
/// The version of Redis that scripts are told.
const VERSION: (&str, i64) = ("7.4.0", 0x0007_0400);
const LEVELS: [(&str, LogLevel); 4] = [
    ("LOG_DEBUG", LogLevel::Debug),
    ("LOG_VERBOSE", LogLevel::Verbose),
    ("LOG_NOTICE", LogLevel::Notice),
    ("LOG_WARNING", LogLevel::Warning),
];

/// Adds what needs no host.
pub(crate) fn fill(lua: &Lua, redis: &Table, shared: &Rc<Shared>) -> Result<()> {
    for (number, (name, _)) in LEVELS.iter().enumerate() {
        redis.raw_set(*name, number)?;
    }
    let repl = ["REPL_NONE", "REPL_AOF", "REPL_SLAVE", "REPL_ALL"];
    for (number, name) in repl.iter().enumerate() {
        redis.raw_set(*name, number)?;
    }
    redis.raw_set("REPL_REPLICA", 2)?;
    redis.raw_set("REDIS_VERSION", VERSION.0)?;
    redis.raw_set("REDIS_VERSION_NUM", VERSION.1)?;
    redis.raw_set("sha1hex", lua.create_function(sha1)?)?;
    redis.raw_set("error_reply", lua.create_function(|lua, args| single(lua, &args, "err"))?)?;
    redis.raw_set("status_reply", lua.create_function(|lua, args| single(lua, &args, "ok"))?)?;
    // There are no replicas that a script could be kept from, and no debugger.
    redis.raw_set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    redis.raw_set("set_repl", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    let shared = Rc::clone(shared);
    let setresp = move |_: &Lua, args: MultiValue| {
        let dialect = match args.front() {
            _ if args.len() != 1 => {
                return Raised::reply("ERR redis.setresp() requires one argument.");
            }
            Some(Value::Number(2.0) | Value::Integer(2)) => Dialect::Resp2,
            Some(Value::Number(3.0) | Value::Integer(3)) => Dialect::Resp3,
            _ => return Raised::reply("ERR RESP version must be 2 or 3."),
        };
        shared.dialect.set(dialect);
        Ok(())
    };
    redis.raw_set("setresp", lua.create_function(setresp)?)
}

fn sha1(lua: &Lua, args: MultiValue) -> Result<String> {
    if args.len() != 1 {
        return Raised::reply("ERR wrong number of arguments");
    }
    let value = args.front().cloned().unwrap_or(Value::Nil);
    let text = lua.coerce_string(value)?;
    Ok(sha1_hex(text.as_ref().map(|text| text.as_bytes()).as_deref().unwrap_or_default()))
}

/// A table whose only field `name` is the only argument, a text.
fn single(lua: &Lua, args: &MultiValue, name: &str) -> Result<Table> {
    let Some(Value::String(text)) = args.front().filter(|_| args.len() == 1) else {
        return error_table(lua, "ERR wrong number or type of arguments");
    };
    let table = lua.create_table_with_capacity(0, 1)?;
    let bytes = text.as_bytes();
    match bytes.strip_prefix(b"-").filter(|_| name == "err") {
        Some(rest) => table.raw_set(name, lua.create_string(rest)?)?,
        None => table.raw_set(name, text)?,
    }
    Ok(table)
}

/// The arguments of a command, one behind the other.
struct Arguments {
    text: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Arguments {
    /// Strings as they are, and numbers as Redis writes them; or why they are no arguments.
    fn of(args: &MultiValue) -> std::result::Result<Self, &'static str> {
        let mut all = Arguments { text: Vec::new(), ends: Vec::with_capacity(args.len()) };
        if args.is_empty() {
            return Err(NO_ARGUMENT);
        }
        for value in args {
            match value {
                Value::String(text) => all.text.extend_from_slice(&text.as_bytes()),
                Value::Integer(n) => all.text.extend_from_slice(n.to_string().as_bytes()),
                Value::Number(n) => all.text.extend_from_slice(shortest(*n, 17).as_bytes()),
                _ => return Err(BAD_ARGUMENT),
            }
            all.ends.push(all.text.len());
        }
        Ok(all)
    }

    fn parts(&self) -> Vec<&[u8]> {
        let mut from = 0;
        self.ends.iter().map(|end| &self.text[std::mem::replace(&mut from, *end)..*end]).collect()
    }
}

/// `redis.log`: a level and parts of a text.
fn log(lua: &Lua, args: &MultiValue, host: &mut dyn Host) -> Result<()> {
    if args.len() < 2 {
        return Raised::reply("ERR redis.log() requires two arguments or more.");
    }
    let level = match args.front() {
        Some(Value::Integer(n)) => usize::try_from(*n).unwrap_or(usize::MAX),
        Some(Value::Number(n)) if *n >= 0.0 => *n as usize,
        _ => return Raised::reply("ERR First argument must be a number (log level)."),
    };
    let Some((_, level)) = LEVELS.get(level) else {
        return Raised::reply("ERR Invalid debug level.");
    };
    let mut text = Vec::new();
    for (index, value) in args.iter().skip(1).enumerate() {
        if index > 0 {
            text.push(b' ');
        }
        if let Some(part) = lua.coerce_string(value.clone())? {
            text.extend_from_slice(&part.as_bytes());
        }
    }
    host.log(*level, &text);
    Ok(())
}

/// Adds what asks `host`, for as long as `scope`.
pub(crate) fn connect<'scope, 'env: 'scope, 'h: 'env>(
    scope: &'scope Scope<'scope, 'env>,
    redis: &Table,
    host: &'env RefCell<&'h mut (dyn Host + 'h)>,
    shared: &'env Rc<Shared>,
) -> Result<()> {
    let call = move |lua: &Lua, args: MultiValue, raises: bool| -> Result<Value> {
        let arguments = match Arguments::of(&args) {
            Ok(arguments) => arguments,
            Err(why) if raises => return Raised::reply(why),
            Err(why) => return error_table(lua, why).map(Value::Table),
        };
        let mut reply = shared.reply.take();
        reply.clear();
        let parts = arguments.parts();
        host.borrow_mut().call(&parts, shared.dialect.get(), &mut reply);
        if let Some(stop) = shared.poll(lua) {
            return Raised::stop(stop);
        }
        let result = match reply.first() {
            Some(b'-') if raises => {
                let line = reply[1..].strip_suffix(b"\r\n").unwrap_or(&reply[1..]);
                Raised::reply(String::from_utf8_lossy(line).into_owned())
            }
            _ => Reader::new(&reply, shared.dialect.get()).value(lua),
        };
        reply.shrink_to(64 << 10);
        shared.reply.replace(reply);
        result
    };
    redis.raw_set("call", scope.create_function(move |lua, args| call(lua, args, true))?)?;
    redis.raw_set("pcall", scope.create_function(move |lua, args| call(lua, args, false))?)?;
    let log = move |lua: &Lua, args: MultiValue| log(lua, &args, &mut **host.borrow_mut());
    redis.raw_set("log", scope.create_function(log)?)?;
    let permits = move |_: &Lua, args: MultiValue| {
        let arguments = match Arguments::of(&args) {
            Ok(arguments) => arguments,
            Err(why) => return Raised::reply(why),
        };
        match host.borrow_mut().permits(&arguments.parts()) {
            Some(may) => Ok(may),
            None => Raised::reply("ERR Invalid command passed to redis.acl_check_cmd()"),
        }
    };
    redis.raw_set("acl_check_cmd", scope.create_function(permits)?)
}
