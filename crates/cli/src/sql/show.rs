//! Rows as people and programs read them.

use super::sink::Sink;
use super::{Mode, failed, plan};
use silica::Result;
use silica_sql::sql::{Answers, Statement, Value, ValueRef};
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
    /// Widths of columns in modes that draw tables; 0 as wide as their cells, negative for cells
    /// at the right.
    pub(super) widths: Vec<i64>,
}

impl Style {
    pub(super) fn new(mode: Mode, headers: Option<bool>) -> Self {
        let (null, table) = (String::new(), "table".to_string());
        Style { mode, headers, separator: None, row_end: None, null, table, widths: Vec::new() }
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

    /// True in modes that people read: programs want the rows of a plan.
    fn draws_plans(&self) -> bool {
        matches!(self.mode, Mode::Box | Mode::Table | Mode::Markdown | Mode::Column | Mode::List)
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
    if statement.answers() == Answers::Plan && style.draws_plans() {
        let drawn = plan::show(statement, sink);
        return drawn.and(sink.finish());
    }
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
            sink.raw(ruled(columns, &rows, style).as_bytes())?;
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

/// A cell in lines of at most `width` characters.
fn wrapped(cell: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = cell.chars().collect();
    match characters.is_empty() {
        true => vec![String::new()],
        false => characters.chunks(width.max(1)).map(|part| part.iter().collect()).collect(),
    }
}

/// Puts rows into the lines of a table.
struct Ruler<'a> {
    mode: Mode,
    asked: &'a [i64],
    widths: Vec<usize>,
    text: String,
}

impl<'a> Ruler<'a> {
    fn new(columns: &[String], rows: &[Vec<(String, bool)>], style: &'a Style) -> Self {
        // A bar of Markdown cannot go on in the next line.
        let asked: &[i64] = if style.mode == Mode::Markdown { &[] } else { &style.widths };
        let width_of = |at: usize| {
            let of_rows = rows.iter().map(|row| width(&row[at].0));
            match asked.get(at) {
                Some(&asked) if asked != 0 => asked.unsigned_abs() as usize,
                _ => of_rows.chain([width(&columns[at])]).max().unwrap_or(0),
            }
        };
        let widths = (0..columns.len()).map(width_of).collect();
        Ruler { mode: style.mode, asked, widths, text: String::new() }
    }

    fn rule(&mut self, [left, fill, cross, right]: [&str; 4]) {
        let parts: Vec<String> = self.widths.iter().map(|width| fill.repeat(*width)).collect();
        writeln!(self.text, "{left}{}{right}", parts.join(cross)).expect("a string takes all");
    }

    /// One line of a row.
    fn line(&mut self, cells: &[(&str, bool)], [left, between, right]: [&str; 3]) {
        let padded = cells.iter().enumerate().map(|(at, (cell, is_number))| {
            let fill = " ".repeat(self.widths[at].saturating_sub(width(cell)));
            let is_right = *is_number || self.asked.get(at).is_some_and(|asked| *asked < 0);
            // In Markdown a bar within a cell would end it.
            let cell = match self.mode {
                Mode::Markdown => cell.replace('|', "\\|"),
                _ => (*cell).to_string(),
            };
            if is_right { format!("{fill}{cell}") } else { format!("{cell}{fill}") }
        });
        let line = format!("{left}{}{right}", padded.collect::<Vec<_>>().join(between));
        writeln!(self.text, "{}", line.trim_end()).expect("a string takes all");
    }

    /// A row, in as many lines as its longest cell needs.
    fn row<'c>(&mut self, cells: impl Iterator<Item = (&'c str, bool)>, around: [&str; 3]) {
        let cells: Vec<(Vec<String>, bool)> = cells
            .enumerate()
            .map(|(at, (cell, is_number))| (wrapped(cell, self.widths[at]), is_number))
            .collect();
        let lines = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or(1);
        for number in 0..lines {
            let of_line: Vec<(&str, bool)> = cells
                .iter()
                .map(|(lines, is_number)| {
                    (lines.get(number).map_or("", String::as_str), *is_number)
                })
                .collect();
            self.line(&of_line, around);
        }
    }
}

fn ruled(columns: &[String], rows: &[Vec<(String, bool)>], style: &Style) -> String {
    let Rules { above, middle, below, around } = rules(style.mode);
    let mut ruler = Ruler::new(columns, rows, style);
    above.into_iter().for_each(|above| ruler.rule(above));
    if style.has_headers() {
        ruler.row(columns.iter().map(|name| (name.as_str(), false)), around);
        ruler.rule(middle);
    }
    let is_long = |row: &Vec<(String, bool)>| {
        row.iter().zip(&ruler.widths).any(|((cell, _), most)| width(cell) > *most)
    };
    // Where rows have several lines, rules tell them apart.
    let is_ruled = below.is_some() && rows.iter().any(is_long);
    for (number, row) in rows.iter().enumerate() {
        if is_ruled && number > 0 {
            ruler.rule(middle);
        }
        ruler.row(row.iter().map(|(cell, is_number)| (cell.as_str(), *is_number)), around);
    }
    below.into_iter().for_each(|below| ruler.rule(below));
    ruler.text
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
        assert_eq!(ruled(&columns, &rows, &Style::new(Mode::Box, Some(true))), expected);
        let expected = "\
| n  | name  |
|----|-------|
|  1 | é     |
| 20 | abcde |
";
        assert_eq!(ruled(&columns, &rows, &Style::new(Mode::Markdown, Some(true))), expected);
        let expected = " 1  é\n20  abcde\n";
        assert_eq!(ruled(&columns, &rows, &Style::new(Mode::Column, Some(false))), expected);
    }

    #[test]
    fn a_cell_goes_on_below_where_a_width_was_set() {
        let columns = ["a".to_string(), "b".to_string()];
        let rows = [
            vec![("hello world".into(), false), ("x".into(), false)],
            vec![("ab".into(), false), ("12345".into(), true)],
        ];
        let widths = vec![5, -4];
        let style = Style { widths, ..Style::new(Mode::Box, Some(true)) };
        let expected = "\
┌───────┬──────┐
│ a     │    b │
├───────┼──────┤
│ hello │    x │
│  worl │      │
│ d     │      │
├───────┼──────┤
│ ab    │ 1234 │
│       │    5 │
└───────┴──────┘
";
        assert_eq!(ruled(&columns, &rows, &style), expected);
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
