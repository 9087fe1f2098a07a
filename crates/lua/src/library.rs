//! Libraries of functions, and how they register these.

use crate::failure::Raised;
use mlua::{Function, MultiValue, Table, Value};
use std::cell::RefCell;

/// A library as it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// A number that no library with other code has.
    pub id: u64,
    /// Its text without the first line's metadata, which is left empty.
    pub code: Vec<u8>,
}

/// A function of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryFunction {
    /// Letters, digits, underscores.
    pub name: String,
    /// What it does, in words.
    pub description: Option<String>,
    /// What is special about it.
    pub flags: Vec<String>,
}

/// Functions that a library has registered; `None` while none is loaded.
pub(crate) type Registered = RefCell<Option<Vec<(LibraryFunction, Function)>>>;

const NAMES: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and \
                     must be at least one character long";

/// Notes a function: `register_function(name, function)` or `register_function{…}`.
pub(crate) fn register(registered: &Registered, args: &MultiValue) -> mlua::Result<()> {
    let (about, function) = match (args.len(), args.front()) {
        (1, Some(Value::Table(named))) => of_named(named)?,
        (1, _) => {
            return Raised::reply(
                "ERR calling redis.register_function with a single argument is only applicable \
                 to Lua table (representing named arguments).",
            );
        }
        (2, Some(Value::String(name))) => {
            let Some(Value::Function(function)) = args.get(1) else {
                return Raised::reply(
                    "ERR second argument to redis.register_function must be a function",
                );
            };
            let name = name.to_string_lossy();
            let about = LibraryFunction { name, description: None, flags: Vec::new() };
            (about, function.clone())
        }
        (2, _) => {
            return Raised::reply("ERR first argument to redis.register_function must be a string");
        }
        _ => {
            return Raised::reply("ERR wrong number of arguments to redis.register_function");
        }
    };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if about.name.is_empty() || !about.name.bytes().all(is_word) {
        return Raised::reply(NAMES);
    }
    let mut registered = registered.borrow_mut();
    let Some(all) = &mut *registered else {
        let text = "ERR redis.register_function can only be called on FUNCTION LOAD command";
        return Raised::reply(text);
    };
    if all.iter().any(|(other, _)| other.name == about.name) {
        return Raised::reply("ERR Function already exists in the library");
    }
    all.push((about, function));
    Ok(())
}

/// The function that named arguments describe.
fn of_named(named: &Table) -> mlua::Result<(LibraryFunction, Function)> {
    let (mut name, mut description, mut flags, mut callback) = (None, None, Vec::new(), None);
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Value::String(key) = key else {
            return Raised::reply(
                "ERR named argument key given to redis.register_function is not a string",
            );
        };
        match (&*key.to_string_lossy(), value) {
            ("function_name", Value::String(text)) => name = Some(text.to_string_lossy()),
            ("function_name", _) => {
                return Raised::reply(
                    "ERR function_name argument given to redis.register_function must be a string",
                );
            }
            ("description", Value::String(text)) => description = Some(text.to_string_lossy()),
            ("description", _) => {
                return Raised::reply(
                    "ERR description argument given to redis.register_function must be a string",
                );
            }
            ("callback", Value::Function(function)) => callback = Some(function),
            ("callback", _) => {
                return Raised::reply(
                    "ERR callback argument given to redis.register_function must be a function",
                );
            }
            ("flags", Value::Table(list)) => {
                for flag in list.sequence_values::<String>() {
                    let flag = flag?;
                    if !FLAGS.contains(&&*flag) {
                        return Raised::reply("ERR unknown flag given");
                    }
                    flags.push(flag);
                }
            }
            ("flags", _) => {
                return Raised::reply(
                    "ERR flags argument to redis.register_function must be a table representing \
                     function flags",
                );
            }
            _ => {
                return Raised::reply("ERR unknown argument given to redis.register_function");
            }
        }
    }
    match (name, callback) {
        (Some(name), Some(callback)) => {
            Ok((LibraryFunction { name, description, flags }, callback))
        }
        (None, _) => Raised::reply("ERR redis.register_function must get a function name argument"),
        (_, None) => Raised::reply("ERR redis.register_function must get a callback argument"),
    }
}

/// What may be special about a script or function.
pub const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];
