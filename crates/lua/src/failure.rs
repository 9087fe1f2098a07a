//! Errors of scripts, with the place where they happened.
//!
//! A library function raises a [`Raised`], which travels through Lua as a userdata. Whatever lets a
//! script catch errors (`pcall`, `xpcall`, coroutines) turns it into what Redis would have raised:
//! a string, or a table with the field `err`.

use crate::host::Stop;
use mlua::{Error, Lua, Result, Table, Value};
use std::fmt;

/// Why a script or library gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// An error of the script, as it is answered: its code first.
    Script(String),
    /// It needs more memory than the interpreter may take.
    Memory,
    /// It was ended.
    Stopped(Stop),
    /// Its text is no Lua: the message of the compiler.
    Syntax(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Script(text) | Failure::Syntax(text) => f.write_str(text),
            Failure::Memory => f.write_str("the script needs more memory than it may take"),
            Failure::Stopped(stop) => write!(f, "the script was ended: {stop:?}"),
        }
    }
}

impl std::error::Error for Failure {}

/// An error that a function of ours raises in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raised {
    /// A message.
    Text(String),
    /// The error of a command, its code first. The script sees it as a table's field.
    Reply(String),
    /// What no script catches.
    Stop(Stop),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) | Raised::Reply(text) => f.write_str(text),
            Raised::Stop(_) => f.write_str("the script was ended"),
        }
    }
}

impl std::error::Error for Raised {}

impl Raised {
    pub(crate) fn reply<T>(text: impl Into<String>) -> Result<T> {
        Err(Error::external(Raised::Reply(text.into())))
    }

    pub(crate) fn stop<T>(stop: Stop) -> Result<T> {
        Err(Error::external(Raised::Stop(stop)))
    }

    /// What `error` was raised as; Lua's own errors are texts.
    pub(crate) fn of(error: &Error) -> Raised {
        match error {
            Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => {
                Raised::of(cause)
            }
            Error::BadArgument { cause, .. } => Raised::of(cause),
            Error::ExternalError(inner) => inner
                .downcast_ref::<Raised>()
                .cloned()
                .unwrap_or_else(|| Raised::Text(inner.to_string())),
            Error::RuntimeError(text) | Error::MemoryError(text) => Raised::Text(text.clone()),
            other => Raised::Text(other.to_string()),
        }
    }
}

/// Where the function that called the running one is: `user_script:1: `, or nothing if that is no
/// line of Lua.
pub(crate) fn place(lua: &Lua) -> String {
    let place = lua.inspect_stack(1, |frame| {
        let (line, source) = (frame.current_line()?, frame.source());
        Some(format!("{}:{line}: ", source.short_src?))
    });
    place.flatten().unwrap_or_default()
}

/// Raises `text` with the place of the caller.
pub(crate) fn raise<T>(lua: &Lua, text: impl fmt::Display) -> Result<T> {
    Err(Error::external(Raised::Text(format!("{}{text}", place(lua)))))
}

/// Raises that argument `number` of the function `name` is wrong.
pub(crate) fn bad_argument<T>(
    lua: &Lua,
    number: usize,
    name: &str,
    why: impl fmt::Display,
) -> Result<T> {
    raise(lua, format!("bad argument #{number} to '{name}' ({why})"))
}

/// Lua's word for the type of `value`; `no value` if there is none.
pub(crate) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Nil) => "nil",
        Some(Value::Boolean(_)) => "boolean",
        Some(Value::Integer(_) | Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Table(_)) => "table",
        Some(Value::Function(_)) => "function",
        Some(Value::Thread(_)) => "thread",
        Some(_) => "userdata",
    }
}

/// The number that Lua takes `value` for, if it does.
pub(crate) fn number(value: Option<&Value>, lua: &Lua) -> Option<f64> {
    match value? {
        Value::Integer(n) => Some(*n as f64),
        Value::Number(n) => Some(*n),
        text @ Value::String(_) => lua.coerce_number(text.clone()).ok().flatten(),
        _ => None,
    }
}

/// Argument `number` of `name` as a number.
pub(crate) fn number_argument(lua: &Lua, args: &[Value], at: usize, name: &str) -> Result<f64> {
    match number(args.get(at), lua) {
        Some(n) => Ok(n),
        None => {
            let got = type_name(args.get(at));
            bad_argument(lua, at + 1, name, format!("number expected, got {got}"))
        }
    }
}

/// Argument `number` of `name` as bytes.
pub(crate) fn bytes_argument(
    lua: &Lua,
    args: &[Value],
    at: usize,
    name: &str,
) -> Result<mlua::LuaString> {
    let text = args.get(at).filter(|value| !matches!(value, Value::Nil | Value::Boolean(_)));
    match text.map(|value| lua.coerce_string(value.clone())).transpose()?.flatten() {
        Some(text) => Ok(text),
        None => {
            let got = type_name(args.get(at));
            bad_argument(lua, at + 1, name, format!("string expected, got {got}"))
        }
    }
}

/// What a script that catches `value` sees in its place; `Err` where nobody may catch it. Of a
/// command's error it is the table that has the field `err` if `as_table`, else its text.
pub(crate) fn caught(lua: &Lua, value: Value, as_table: bool) -> Result<Value> {
    let raised = match &value {
        Value::Error(error) => Raised::of(error),
        Value::Table(table) if !as_table => {
            let text: Value = table.raw_get("err")?;
            return Ok(if text.is_string() { text } else { value });
        }
        _ => return Ok(value),
    };
    match raised {
        Raised::Stop(stop) => Raised::stop(stop),
        Raised::Reply(text) if as_table => Ok(Value::Table(error_table(lua, &text)?)),
        Raised::Text(text) | Raised::Reply(text) => Ok(Value::String(lua.create_string(text)?)),
    }
}

/// A table that stands for an error reply.
pub(crate) fn error_table(lua: &Lua, text: &str) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", text)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(table)
}

/// The compiler's message.
pub(crate) fn syntax_text(error: &Error) -> String {
    match error {
        Error::SyntaxError { message, .. } => message.clone(),
        other => Raised::of(other).to_string(),
    }
}
