//! Replies to values of Lua, and values of Lua to answers, as Redis's documentation of scripts
//! says.

use crate::failure::error_table;
use crate::host::Dialect;
use mlua::{Lua, Result, Table, Value};

/// Tables inside tables that an answer may have.
const DEPTH_MAX: usize = 512;

/// What a script answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Null.
    Null,
    /// True or false; RESP2 has neither.
    Boolean(bool),
    /// A number.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A simple string without line ends.
    Status(Vec<u8>),
    /// An error without line ends, its code first.
    Error(Vec<u8>),
    /// Digits of a number of any length.
    BigNumber(Vec<u8>),
    /// A text and its format, three letters.
    Verbatim(Vec<u8>, Vec<u8>),
    /// Several answers.
    Array(Vec<Answer>),
    /// Keys and values.
    Map(Vec<(Answer, Answer)>),
    /// Members.
    Set(Vec<Answer>),
}

impl Answer {
    /// The answer that `value` stands for in scripts that speak `dialect`.
    pub(crate) fn of(value: &Value, dialect: Dialect) -> Result<Answer> {
        of_value(value, dialect, 0)
    }

    /// Bytes of memory that it takes.
    pub fn held_bytes(&self) -> usize {
        let inside = match self {
            Answer::Bulk(bytes)
            | Answer::Status(bytes)
            | Answer::Error(bytes)
            | Answer::BigNumber(bytes) => bytes.capacity(),
            Answer::Verbatim(format, text) => format.capacity() + text.capacity(),
            Answer::Array(all) | Answer::Set(all) => all.iter().map(Answer::held_bytes).sum(),
            Answer::Map(all) => all.iter().map(|(k, v)| k.held_bytes() + v.held_bytes()).sum(),
            _ => 0,
        };
        size_of::<Answer>() + inside
    }
}

/// `bytes` without line ends, which a simple string cannot have.
fn one_line(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

fn of_value(value: &Value, dialect: Dialect, depth: usize) -> Result<Answer> {
    Ok(match value {
        Value::String(text) => Answer::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(is) if dialect == Dialect::Resp3 => Answer::Boolean(*is),
        Value::Boolean(true) => Answer::Integer(1),
        Value::Integer(n) => Answer::Integer(*n),
        // A float beyond the range becomes the least number, as the C cast does on x86-64.
        Value::Number(n) if n.is_nan() || *n >= 2f64.powi(63) => Answer::Integer(i64::MIN),
        Value::Number(n) => Answer::Integer(*n as i64),
        Value::Table(_) if depth >= DEPTH_MAX => {
            Answer::Error(b"ERR reached lua stack limit".to_vec())
        }
        Value::Table(table) => of_table(table, dialect, depth)?,
        _ => Answer::Null,
    })
}

fn of_table(table: &Table, dialect: Dialect, depth: usize) -> Result<Answer> {
    if table.raw_len() == 0
        && let Some(special) = of_special(table, dialect, depth)?
    {
        return Ok(special);
    }
    let mut all = Vec::new();
    loop {
        let value: Value = table.get(all.len() + 1)?;
        if value.is_nil() {
            // Fields are looked at even if there are elements, as Redis does.
            let special = if all.is_empty() { None } else { of_special(table, dialect, depth)? };
            return Ok(special.unwrap_or(Answer::Array(all)));
        }
        all.push(of_value(&value, dialect, depth + 1)?);
    }
}

/// The answer of a table one of whose fields says what it is.
fn of_special(table: &Table, dialect: Dialect, depth: usize) -> Result<Option<Answer>> {
    if let Value::String(text) = table.raw_get::<Value>("err")? {
        let text = one_line(&text.as_bytes());
        let text = text.strip_prefix(b"-").map(<[u8]>::to_vec).unwrap_or(text);
        return Ok(Some(Answer::Error(text)));
    }
    if let Value::String(text) = table.raw_get::<Value>("ok")? {
        return Ok(Some(Answer::Status(one_line(&text.as_bytes()))));
    }
    match table.raw_get::<Value>("double")? {
        Value::Number(n) => return Ok(Some(Answer::Double(n))),
        Value::Integer(n) => return Ok(Some(Answer::Double(n as f64))),
        _ => {}
    }
    if let Value::Table(map) = table.raw_get::<Value>("map")? {
        let mut all = Vec::new();
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            all.push((of_value(&key, dialect, depth + 1)?, of_value(&value, dialect, depth + 1)?));
        }
        return Ok(Some(Answer::Map(all)));
    }
    if let Value::Table(set) = table.raw_get::<Value>("set")? {
        let mut all = Vec::new();
        for pair in set.pairs::<Value, Value>() {
            all.push(of_value(&pair?.0, dialect, depth + 1)?);
        }
        return Ok(Some(Answer::Set(all)));
    }
    if let Value::String(digits) = table.raw_get::<Value>("big_number")? {
        return Ok(Some(Answer::BigNumber(one_line(&digits.as_bytes()))));
    }
    if let Value::Table(verbatim) = table.raw_get::<Value>("verbatim_string")? {
        let parts = (verbatim.raw_get::<Value>("format")?, verbatim.raw_get::<Value>("string")?);
        if let (Value::String(format), Value::String(text)) = parts {
            let format = format.as_bytes().to_vec();
            return Ok(Some(Answer::Verbatim(format, text.as_bytes().to_vec())));
        }
    }
    Ok(None)
}

/// A reply that is read from its first byte on. Replies come from the host and are well-formed;
/// one that is not ends early.
pub(crate) struct Reader<'r> {
    bytes: &'r [u8],
    dialect: Dialect,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(bytes: &'r [u8], dialect: Dialect) -> Self {
        Reader { bytes, dialect }
    }

    fn line(&mut self) -> &'r [u8] {
        let end = self.bytes.windows(2).position(|pair| pair == b"\r\n");
        let end = end.unwrap_or(self.bytes.len());
        let (line, rest) = self.bytes.split_at(end);
        self.bytes = rest.get(2..).unwrap_or_default();
        line
    }

    fn bulk(&mut self, len: usize) -> &'r [u8] {
        let (bulk, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest.get(2..).unwrap_or_default();
        bulk
    }

    fn number(line: &[u8]) -> i64 {
        std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn null(&self) -> Value {
        match self.dialect {
            Dialect::Resp2 => Value::Boolean(false),
            Dialect::Resp3 => Value::Nil,
        }
    }

    /// The next value.
    pub(crate) fn value(&mut self, lua: &Lua) -> Result<Value> {
        let Some((kind, rest)) = self.bytes.split_first() else { return Ok(Value::Nil) };
        self.bytes = rest;
        let line = self.line();
        let wrapped = |name: &str, value: Value| {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set(name, value)?;
            Ok(Value::Table(table))
        };
        let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
        match kind {
            b':' => Ok(Value::Number(Self::number(line) as f64)),
            b'$' if line == b"-1" => Ok(self.null()),
            b'$' => text(self.bulk(Self::number(line) as usize)),
            b'+' => wrapped("ok", text(line)?),
            b'-' => error_table(lua, &String::from_utf8_lossy(line)).map(Value::Table),
            b'*' if line == b"-1" => Ok(self.null()),
            b'*' => {
                let len = Self::number(line) as usize;
                let table = lua.create_table_with_capacity(len, 0)?;
                for index in 1..=len {
                    table.raw_set(index, self.value(lua)?)?;
                }
                Ok(Value::Table(table))
            }
            b'_' => Ok(self.null()),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => {
                let number = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
                wrapped("double", Value::Number(number.unwrap_or(f64::NAN)))
            }
            b'(' => wrapped("big_number", text(line)?),
            b'=' => {
                let bulk = self.bulk(Self::number(line) as usize);
                let (format, string) = bulk.split_at(3.min(bulk.len()));
                let table = lua.create_table_with_capacity(0, 2)?;
                table.raw_set("format", text(format)?)?;
                table.raw_set("string", text(string.get(1..).unwrap_or_default())?)?;
                wrapped("verbatim_string", Value::Table(table))
            }
            b'%' => {
                let table = lua.create_table()?;
                for _ in 0..Self::number(line) {
                    let key = self.value(lua)?;
                    let value = self.value(lua)?;
                    table.raw_set(key, value)?;
                }
                wrapped("map", Value::Table(table))
            }
            b'~' => {
                let table = lua.create_table()?;
                for _ in 0..Self::number(line) {
                    table.raw_set(self.value(lua)?, true)?;
                }
                wrapped("set", Value::Table(table))
            }
            _ => Ok(Value::Nil),
        }
    }
}
