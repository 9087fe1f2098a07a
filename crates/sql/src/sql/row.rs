//! Rows as keys: `users/1` is the row of the table `users` with rowid 1, as a JSON object.

use super::{Result, Sql, SqlError, ValueRef};
use std::fmt::Write;

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn append_text(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            control if control < ' ' => {
                write!(json, "\\u{:04x}", control as u32).expect("a string takes all");
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

fn append_value(value: ValueRef<'_>, json: &mut String) {
    match value {
        ValueRef::Null => json.push_str("null"),
        ValueRef::Integer(number) => write!(json, "{number}").expect("a string takes all"),
        // JSON has no infinity; SQLite writes this for it.
        ValueRef::Real(number) if number.is_infinite() => {
            json.push_str(if number > 0.0 { "9e999" } else { "-9e999" });
        }
        ValueRef::Real(number) => write!(json, "{number:?}").expect("a string takes all"),
        ValueRef::Text(bytes) => append_text(&String::from_utf8_lossy(bytes), json),
        ValueRef::Blob(bytes) => {
            json.push('"');
            bytes.iter().for_each(|b| write!(json, "{b:02x}").expect("a string takes all"));
            json.push('"');
        }
    }
}

impl Sql {
    /// The row that `key` names, `TABLE/ROWID`, as a JSON object of its columns in their order;
    /// `None` if there is none. A blob is text of its hexadecimal digits.
    ///
    /// # Errors
    /// `SQLITE_ERROR` if `key` names no table with rowids.
    pub fn row_as_json(&mut self, key: &str) -> Result<Option<String>> {
        let named = key.rsplit_once('/');
        let named = named.and_then(|(table, id)| Some((table, id.parse::<i64>().ok()?)));
        let (table, rowid) = named.ok_or_else(|| SqlError {
            code: 1,
            message: format!("a row is TABLE/ROWID, as users/1, which '{key}' is not"),
        })?;
        let text = format!("SELECT * FROM {} WHERE rowid = ?1", quoted(table));
        let mut statement = self.prepare(&text)?;
        statement.bind_one(1, ValueRef::Integer(rowid))?;
        if !statement.step()? {
            return Ok(None);
        }
        let mut json = String::from("{");
        for (at, column) in statement.columns().iter().enumerate() {
            if at > 0 {
                json.push(',');
            }
            append_text(column, &mut json);
            json.push(':');
            append_value(statement.value(at), &mut json);
        }
        json.push('}');
        Ok(Some(json))
    }
}
