//! Data in and out: comma-separated values, and dumps.

use super::failed;
use crate::records::csv_record;
use silica::{Error, ErrorKind, Result};
use silica_console::Output;
use silica_sql::sql::{Sql, SqlError, Value};
use std::path::Path;

/// A name as SQL reads it, whatever it has.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Reads the records of a file into a table, all or none. A table that is missing is made, with
/// the first record as its columns' names; one that is there gets the first record as a row.
pub(super) fn import(sql: &mut Sql, path: &Path, table: &str, output: &mut Output) -> Result<()> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|e| Error::io(format!("reading {}", path.display()), e))?;
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let refused = |why: &str| {
            let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
            let message = format!("{}, line {line}: {why}", path.display());
            Error::new(ErrorKind::Config, message)
        };
        let parsed = csv_record(&bytes[at..], true).map_err(refused)?;
        let Some((fields, taken)) = parsed else { break };
        at += taken;
        // An empty line is no record.
        if fields.len() > 1 || !fields[0].is_empty() {
            let texts = fields.into_iter().map(|f| String::from_utf8_lossy(&f).into_owned());
            records.push(texts.collect::<Vec<_>>());
        }
    }
    let rows = sql.transaction(|sql| insert(sql, table, records)).map_err(failed)?;
    output.line(format!("{rows} rows"))
}

fn insert(sql: &mut Sql, table: &str, records: Vec<Vec<String>>) -> Result<u64, SqlError> {
    let known = "SELECT count(*) FROM pragma_table_info(?)";
    let found = sql.query(known, &[table.into()])?;
    let mut width = match found[0][0] {
        Value::Integer(columns) => columns as usize,
        _ => 0,
    };
    let mut records = records.into_iter();
    if width == 0 {
        let Some(names) = records.next() else { return Ok(0) };
        let columns: Vec<String> =
            names.iter().map(|name| format!("{} ANY", quoted(name))).collect();
        sql.execute(&format!("CREATE TABLE {} ({})", quoted(table), columns.join(", ")), &[])?;
        width = names.len();
    }
    let places = vec!["?"; width].join(", ");
    let mut statement = sql.prepare(&format!("INSERT INTO {} VALUES ({places})", quoted(table)))?;
    let mut rows = 0;
    for record in records {
        if record.len() != width {
            let message = format!(
                "record {} has {} fields, and the table {width} columns",
                rows + 1,
                record.len()
            );
            return Err(SqlError { code: 1, message });
        }
        let values: Vec<Value> = record.into_iter().map(Value::Text).collect();
        statement.bind(&values)?;
        statement.step()?;
        rows += 1;
    }
    Ok(rows)
}

const TABLES: &str = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL \
                      AND name NOT LIKE 'sqlite_%' AND name LIKE ? ORDER BY rowid";
const OTHERS: &str = "SELECT sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL AND \
                      tbl_name LIKE ? ORDER BY rowid";
/// What AUTOINCREMENT has given.
const SEQUENCES: &str = "SELECT name, seq FROM sqlite_sequence";

/// Writes statements that make the database again.
pub(super) fn dump(sql: &mut Sql, pattern: &str, output: &mut Output) -> Result<()> {
    output.line("PRAGMA foreign_keys=OFF;")?;
    output.line("BEGIN TRANSACTION;")?;
    for table in sql.query(TABLES, &[pattern.into()]).map_err(failed)? {
        let (name, made_by) = (table[0].to_string(), table[1].to_string());
        output.line(format!("{made_by};"))?;
        // A virtual table's rows are in tables of its own, which come, too.
        if !made_by.to_ascii_uppercase().starts_with("CREATE VIRTUAL") {
            rows(sql, &name, output)?;
        }
    }
    let has_sequences = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'";
    if !sql.query(has_sequences, &[]).map_err(failed)?.is_empty() {
        output.line("DELETE FROM sqlite_sequence;")?;
        for row in sql.query(SEQUENCES, &[]).map_err(failed)? {
            let name = row[0].to_string().replace('\'', "''");
            output.line(format!("INSERT INTO sqlite_sequence VALUES('{name}',{});", row[1]))?;
        }
    }
    for other in sql.query(OTHERS, &[pattern.into()]).map_err(failed)? {
        output.line(format!("{};", other[0]))?;
    }
    output.line("COMMIT;")
}

/// Writes the rows of a table, without what it makes of other columns.
fn rows(sql: &mut Sql, table: &str, output: &mut Output) -> Result<()> {
    let columns = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0";
    let columns = sql.query(columns, &[table.into()]).map_err(failed)?;
    let names: Vec<String> = columns.iter().map(|row| quoted(&row[0].to_string())).collect();
    let values: Vec<String> = names.iter().map(|name| format!("quote({name})")).collect();
    let select = format!("SELECT {} FROM {}", values.join("||','||"), quoted(table));
    let mut statement = sql.prepare(&select).map_err(failed)?;
    let into = format!("INSERT INTO {}({})", quoted(table), names.join(","));
    while statement.step().map_err(failed)? {
        output.line(format!("{into} VALUES({});", statement.row()[0]))?;
    }
    Ok(())
}
