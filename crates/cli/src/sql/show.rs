//! Rows as people and programs read them.

use super::sink::Sink;
use super::{Mode, failed};
use silica::Result;
use silica_sql::sql::{Statement, Value, ValueRef};
use std::fmt::Write;

/// Rows of a box that are measured together: a longer result is several boxes.
const BOX_ROWS: usize = 1000;

/// How rows are shown.
#[derive(Debug, Clone)]
pub(super) struct Style {
    pub(super) mode: Mode,
    /// Unless the mode decides.
    pub(super) headers: Option<bool>,
    /// Between columns and behind rows, unless the mode decides.
    pub(super) separator: Option<String>,
    pub(super) row_end: Option<String>,
    /// What NULL is shown as.
    pub(super) null: String,
    /// The table of `.mode insert`.
    pub(super) table: String,
}

impl Style {
    pub(super) fn new(mode: Mode, headers: Option<bool>) -> Self {
        let (null, table) = (String::new(), "table".to_string());
        Style { mode, headers, separator: None, row_end: None, null, table }
    }

    pub(super) fn has_headers(&self) -> bool {
        self.headers
            .unwrap_or(matches!(self.mode, Mode::Box | Mode::Table | Mode::Markdown | Mode::Column))
    }

    /// What stands between columns.
    pub(super) fn separator(&self) -> &str {
        let of_mode = match self.mode {
            Mode::Csv | Mode::Quote => ",",
            Mode::Tabs => "\t",
            _ => "|",
        };
        self.separator.as_deref().unwrap_or(of_mode)
    }

    pub(super) fn row_end(&self) -> &str {
        self.row_end.as_deref().unwrap_or("\n")
    }

    fn text(&self, value: ValueRef<'_>) -> String {
        match value {
            ValueRef::Null => self.null.clone(),
            value => value.to_owned().to_string(),
        }
    }
}

/// Runs a statement and writes its rows.
pub(super) fn show(
    statement: &mut Statement<'_>,
    style: &Style,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let columns = statement.columns();
    if columns.is_empty() {
        while statement.step().map_err(failed)? {}
        return Ok(());
    }
    let shown = match style.mode {
        Mode::Box | Mode::Table | Mode::Markdown | Mode::Column => {
            tables(statement, &columns, style, sink)
        }
        Mode::Json => json(statement, &columns, sink),
        Mode::Line => lines(statement, &columns, style, sink),
        Mode::Insert => inserts(statement, &columns, style, sink),
        Mode::List | Mode::Tabs | Mode::Csv | Mode::Quote => {
            separated(statement, &columns, style, sink)
        }
    };
    // What came before an error is shown, too.
    let finished = sink.finish();
    shown.and(finished)
}

fn separated(
    statement: &mut Statement<'_>,
    columns: &[String],
    style: &Style,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let cell = |value: ValueRef<'_>| match style.mode {
        Mode::Quote => literal(value),
        Mode::Csv => csv(style.text(value), style.separator()),
        _ => style.text(value),
    };
    if style.has_headers() {
        let named = columns.iter().map(|name| cell(ValueRef::Text(name.as_bytes())));
        sink.raw(named.collect::<Vec<_>>().join(style.separator()).as_bytes())?;
        sink.raw(style.row_end().as_bytes())?;
    }
    while statement.step().map_err(failed)? {
        for at in 0..columns.len() {
            if at > 0 {
                sink.raw(style.separator().as_bytes())?;
            }
            sink.raw(cell(statement.value(at)).as_bytes())?;
        }
        sink.raw(style.row_end().as_bytes())?;
    }
    Ok(())
}

fn csv(text: String, separator: &str) -> String {
    let is_odd = text.contains(['"', '\n', '\r']) || text.contains(separator);
    if is_odd { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// A name as SQL reads it, whatever it has.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value as SQL reads it, to the byte.
pub(super) fn literal(value: ValueRef<'_>) -> String {
    let hex = |bytes: &[u8]| {
        let mut digits = String::with_capacity(2 * bytes.len());
        bytes.iter().for_each(|byte| write!(digits, "{byte:02X}").expect("a string takes all"));
        digits
    };
    match value {
        ValueRef::Null => "NULL".to_string(),
        ValueRef::Integer(number) => number.to_string(),
        // Too large for a real, so that it is read as infinity.
        ValueRef::Real(number) if number.is_infinite() => {
            if number > 0.0 { "9.0e+999" } else { "-9.0e+999" }.to_string()
        }
        ValueRef::Real(number) => format!("{number:?}"),
        // SQL's text ends at a zero byte, and a script is UTF-8.
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => format!("'{}'", text.replace('\'', "''")),
            _ => format!("CAST(X'{}' AS TEXT)", hex(bytes)),
        },
        ValueRef::Blob(bytes) => format!("X'{}'", hex(bytes)),
    }
}

fn inserts(
    statement: &mut Statement<'_>,
    columns: &[String],
    style: &Style,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let table = match style.table.as_str() {
        "table" => quoted("table"),
        plain if plain.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => plain.to_string(),
        other => quoted(other),
    };
    let names = match style.has_headers() {
        true => {
            let names: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
            format!("({})", names.join(","))
        }
        false => String::new(),
    };
    while statement.step().map_err(failed)? {
        let values: Vec<String> =
            (0..columns.len()).map(|at| literal(statement.value(at))).collect();
        sink.line(format!("INSERT INTO {table}{names} VALUES({});", values.join(",")))?;
    }
    Ok(())
}

fn lines(
    statement: &mut Statement<'_>,
    columns: &[String],
    style: &Style,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let width = columns.iter().map(|name| width(name)).max().unwrap_or(0);
    let mut is_first = true;
    while statement.step().map_err(failed)? {
        if !std::mem::take(&mut is_first) {
            sink.line("")?;
        }
        for (at, name) in columns.iter().enumerate() {
            sink.line(format!("{name:>width$} = {}", style.text(statement.value(at))))?;
        }
    }
    Ok(())
}

/// A value in JSON; bytes are in hexadecimal digits.
pub(super) fn json_of(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(value) => (*value).into(),
        Value::Real(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Blob(bytes) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
    }
}

/// Rows as objects whose members are in the order of the columns, and as many: a map would sort
/// them, and drop one of two that have one name.
fn json(statement: &mut Statement<'_>, columns: &[String], sink: &mut Sink<'_>) -> Result<()> {
    let names: Vec<String> =
        columns.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
    let mut before = "[";
    while statement.step().map_err(failed)? {
        let member = |(at, name): (usize, &String)| {
            format!("{name}:{}", json_of(&statement.value(at).to_owned()))
        };
        let members: Vec<String> = names.iter().enumerate().map(member).collect();
        sink.raw(format!("{before}{{{}}}", members.join(",")).as_bytes())?;
        before = ",\n ";
    }
    if before == "[" { sink.line("[]") } else { sink.line("]") }
}

/// Columns that a text takes at a terminal, as far as its characters' number tells.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// A line feed would break the box.
fn in_a_line(text: &str) -> String {
    text.replace('\n', "⏎").replace(['\r', '\t'], " ")
}

fn tables(
    statement: &mut Statement<'_>,
    columns: &[String],
    style: &Style,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let mut more = true;
    while more {
        let mut rows: Vec<Vec<(String, bool)>> = Vec::new();
        while rows.len() < BOX_ROWS {
            more = statement.step().map_err(failed)?;
            if !more {
                break;
            }
            let cell = |at| {
                let value = statement.value(at);
                let is_number = matches!(value, ValueRef::Integer(_) | ValueRef::Real(_));
                (in_a_line(&style.text(value)), is_number)
            };
            rows.push((0..columns.len()).map(cell).collect());
        }
        if !rows.is_empty() {
            sink.raw(ruled(columns, &rows, style.mode, style.has_headers()).as_bytes())?;
        }
    }
    Ok(())
}

/// The lines of a table: above it, below its headers, below it, and what stands around cells.
struct Rules {
    above: Option<[&'static str; 4]>,
    middle: [&'static str; 4],
    below: Option<[&'static str; 4]>,
    around: [&'static str; 3],
}

/// Of each rule: its left end, what fills it, what crosses it, its right end.
fn rules(mode: Mode) -> Rules {
    match mode {
        Mode::Table => {
            let line = ["+-", "-", "-+-", "-+"];
            let around = ["| ", " | ", " |"];
            Rules { above: Some(line), middle: line, below: Some(line), around }
        }
        Mode::Markdown => {
            let around = ["| ", " | ", " |"];
            Rules { above: None, middle: ["|-", "-", "-|-", "-|"], below: None, around }
        }
        Mode::Column => {
            let around = ["", "  ", ""];
            Rules { above: None, middle: ["", "-", "  ", ""], below: None, around }
        }
        _ => Rules {
            above: Some(["┌─", "─", "─┬─", "─┐"]),
            middle: ["├─", "─", "─┼─", "─┤"],
            below: Some(["└─", "─", "─┴─", "─┘"]),
            around: ["│ ", " │ ", " │"],
        },
    }
}

fn ruled(
    columns: &[String],
    rows: &[Vec<(String, bool)>],
    mode: Mode,
    has_headers: bool,
) -> String {
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            let of_rows = rows.iter().map(|row| width(&row[at].0));
            of_rows.chain([width(&columns[at])]).max().unwrap_or(0)
        })
        .collect();
    let Rules { above, middle, below, around: [left, between, right] } = rules(mode);
    let mut text = String::new();
    let rule = |text: &mut String, [left, fill, cross, right]: [&str; 4]| {
        let parts: Vec<String> = widths.iter().map(|width| fill.repeat(*width)).collect();
        writeln!(text, "{left}{}{right}", parts.join(cross)).expect("a string takes all");
    };
    let line = |text: &mut String, cells: Vec<String>| {
        let line = format!("{left}{}{right}", cells.join(between));
        writeln!(text, "{}", line.trim_end()).expect("a string takes all");
    };
    let padded = |cell: &str, at: usize, is_number: bool| {
        let fill = " ".repeat(widths[at] - width(cell));
        // In Markdown a bar within a cell would end it.
        let cell = if mode == Mode::Markdown { cell.replace('|', "\\|") } else { cell.to_string() };
        if is_number { format!("{fill}{cell}") } else { format!("{cell}{fill}") }
    };
    above.into_iter().for_each(|above| rule(&mut text, above));
    if has_headers {
        let names = columns.iter().enumerate().map(|(at, name)| padded(name, at, false));
        line(&mut text, names.collect());
        rule(&mut text, middle);
    }
    for row in rows {
        let cells = row.iter().enumerate().map(|(at, (cell, number))| padded(cell, at, *number));
        line(&mut text, cells.collect());
    }
    below.into_iter().for_each(|below| rule(&mut text, below));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_as_wide_as_its_widest_cells() {
        let columns = ["n".to_string(), "name".to_string()];
        let rows = [
            vec![("1".into(), true), ("é".into(), false)],
            vec![("20".into(), true), ("abcde".into(), false)],
        ];
        let expected = "\
┌────┬───────┐
│ n  │ name  │
├────┼───────┤
│  1 │ é     │
│ 20 │ abcde │
└────┴───────┘
";
        assert_eq!(ruled(&columns, &rows, Mode::Box, true), expected);
        let expected = "\
| n  | name  |
|----|-------|
|  1 | é     |
| 20 | abcde |
";
        assert_eq!(ruled(&columns, &rows, Mode::Markdown, true), expected);
        let expected = " 1  é\n20  abcde\n";
        assert_eq!(ruled(&columns, &rows, Mode::Column, false), expected);
    }

    #[test]
    fn what_separates_is_quoted() {
        assert_eq!(csv("a".into(), ","), "a");
        assert_eq!(csv("a,\"b\"\n".into(), ","), "\"a,\"\"b\"\"\n\"");
        assert_eq!(csv("a;b".into(), ";"), "\"a;b\"");
    }

    #[test]
    fn a_literal_is_the_value_to_the_byte() {
        assert_eq!(literal(ValueRef::Text(b"o'k")), "'o''k'");
        assert_eq!(literal(ValueRef::Text(b"x\0y")), "CAST(X'780079' AS TEXT)");
        assert_eq!(literal(ValueRef::Text(b"\xff")), "CAST(X'FF' AS TEXT)");
        assert_eq!(literal(ValueRef::Real(0.1)), "0.1");
        assert_eq!(literal(ValueRef::Real(f64::NEG_INFINITY)), "-9.0e+999");
    }
}
