//! Rows as people and programs read them.

use super::{Mode, failed};
use silica::Result;
use silica_console::Output;
use silica_sql::sql::{Statement, Value};
use std::fmt::Write;

/// Rows of a box that are measured together: a longer result is several boxes.
const BOX_ROWS: usize = 1000;

/// Runs a statement and writes its rows.
pub(super) fn show(
    statement: &mut Statement<'_>,
    mode: Mode,
    has_headers: bool,
    output: &mut Output,
) -> Result<()> {
    let columns = statement.columns();
    if columns.is_empty() {
        while statement.step().map_err(failed)? {}
        return Ok(());
    }
    match mode {
        Mode::Box => boxes(statement, &columns, output),
        Mode::Json => json(statement, &columns, output),
        Mode::Line => lines(statement, &columns, output),
        Mode::List => separated(statement, &columns, has_headers, '|', output),
        Mode::Tabs => separated(statement, &columns, has_headers, '\t', output),
        Mode::Csv => separated(statement, &columns, has_headers, ',', output),
    }
}

fn separated(
    statement: &mut Statement<'_>,
    columns: &[String],
    has_headers: bool,
    by: char,
    output: &mut Output,
) -> Result<()> {
    let join = |texts: Vec<String>| {
        let texts = texts.into_iter().map(|text| if by == ',' { csv(&text) } else { text });
        texts.collect::<Vec<_>>().join(&by.to_string())
    };
    if has_headers {
        output.line(join(columns.to_vec()))?;
    }
    while statement.step().map_err(failed)? {
        output.line(join(statement.row().iter().map(Value::to_string).collect()))?;
    }
    Ok(())
}

fn csv(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

fn lines(statement: &mut Statement<'_>, columns: &[String], output: &mut Output) -> Result<()> {
    let width = columns.iter().map(|name| width(name)).max().unwrap_or(0);
    let mut is_first = true;
    while statement.step().map_err(failed)? {
        if !std::mem::take(&mut is_first) {
            output.line("")?;
        }
        for (name, value) in columns.iter().zip(statement.row()) {
            output.line(format!("{name:>width$} = {value}"))?;
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
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn json(statement: &mut Statement<'_>, columns: &[String], output: &mut Output) -> Result<()> {
    let mut before = "[";
    while statement.step().map_err(failed)? {
        let row: serde_json::Map<_, _> =
            columns.iter().cloned().zip(statement.row().iter().map(json_of)).collect();
        output.raw(format!("{before}{}", serde_json::Value::Object(row)).as_bytes())?;
        before = ",\n ";
    }
    if before == "[" { output.line("[]") } else { output.line("]") }
}

/// Columns that a text takes at a terminal, as far as its characters' number tells.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// A line feed would break the box.
fn in_a_line(value: &Value) -> String {
    value.to_string().replace('\n', "⏎").replace(['\r', '\t'], " ")
}

fn boxes(statement: &mut Statement<'_>, columns: &[String], output: &mut Output) -> Result<()> {
    let mut more = true;
    while more {
        let mut rows: Vec<Vec<(String, bool)>> = Vec::new();
        while rows.len() < BOX_ROWS {
            more = statement.step().map_err(failed)?;
            if !more {
                break;
            }
            let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Real(_));
            let row = statement.row();
            rows.push(row.iter().map(|value| (in_a_line(value), is_number(value))).collect());
        }
        if !rows.is_empty() {
            output.raw(boxed(columns, &rows).as_bytes())?;
        }
    }
    Ok(())
}

fn boxed(columns: &[String], rows: &[Vec<(String, bool)>]) -> String {
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            let of_rows = rows.iter().map(|row| width(&row[at].0));
            of_rows.chain([width(&columns[at])]).max().unwrap_or(0)
        })
        .collect();
    let rule = |[left, between, right]: [char; 3]| {
        let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", parts.join(&between.to_string()))
    };
    let mut text = rule(['┌', '┬', '┐']);
    let mut line = |cells: Vec<String>| {
        writeln!(text, "│ {} │", cells.join(" │ ")).expect("a string takes all");
    };
    let padded = |cell: &str, at: usize, is_number: bool| {
        let fill = " ".repeat(widths[at] - width(cell));
        if is_number { format!("{fill}{cell}") } else { format!("{cell}{fill}") }
    };
    line(columns.iter().enumerate().map(|(at, name)| padded(name, at, false)).collect());
    let middle = rule(['├', '┼', '┤']);
    let mut body = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().enumerate().map(|(at, (cell, number))| padded(cell, at, *number)).collect();
        writeln!(body, "│ {} │", cells.join(" │ ")).expect("a string takes all");
    }
    text + &middle + &body + &rule(['└', '┴', '┘'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_its_widest_cells() {
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
        assert_eq!(boxed(&columns, &rows), expected);
    }

    #[test]
    fn what_separates_is_quoted() {
        assert_eq!(csv("a"), "a");
        assert_eq!(csv("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
