//! Data in: comma-separated values, or columns with tabs between them.

use super::failed;
use super::show::quoted;
use crate::records::csv_record;
use silica::{Error, ErrorKind, Result};
use silica_sql::sql::{Sql, SqlError, Value};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of the file that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Spreadsheets write it before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What `.import` was asked for.
pub(super) struct Import<'i> {
    pub(super) path: &'i Path,
    pub(super) table: &'i str,
    /// Columns have tabs between them, and no quotes around them.
    pub(super) has_tabs: bool,
    /// Records at the beginning that are left out.
    pub(super) skip: u64,
}

/// The records of a file, one after the other.
struct Records {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    at: usize,
    is_at_end: bool,
    has_tabs: bool,
    /// Line of the next record.
    line: usize,
}

/// A record and the line that it begins at.
type Record = (Vec<String>, usize);

impl Records {
    fn open(path: &Path, has_tabs: bool) -> Result<Self> {
        let reading = |e| Error::io(format!("reading {}", path.display()), e);
        let file = File::open(path).map_err(reading)?;
        let mut records = Records {
            path: path.to_path_buf(),
            file,
            bytes: Vec::new(),
            at: 0,
            is_at_end: false,
            has_tabs,
            line: 1,
        };
        records.read_on()?;
        if records.bytes.starts_with(BYTE_ORDER_MARK) {
            records.at = BYTE_ORDER_MARK.len();
        }
        Ok(records)
    }

    fn read_on(&mut self) -> Result<()> {
        self.bytes.drain(..std::mem::take(&mut self.at));
        let mut part = (&self.file).take(READ_BYTES as u64);
        let read = part.read_to_end(&mut self.bytes);
        let read = read.map_err(|e| Error::io(format!("reading {}", self.path.display()), e))?;
        self.is_at_end = read < READ_BYTES;
        Ok(())
    }

    fn refused(&self, why: &str) -> Error {
        let message = format!("{}, line {}: {why}", self.path.display(), self.line);
        Error::new(ErrorKind::Config, message)
    }

    /// The next record that is no empty line.
    fn next(&mut self) -> Result<Option<Record>> {
        loop {
            let rest = &self.bytes[self.at..];
            if rest.is_empty() && self.is_at_end {
                return Ok(None);
            }
            let parsed = match self.has_tabs {
                true => tabs_record(rest, self.is_at_end),
                false => csv_record(rest, self.is_at_end).map_err(|why| self.refused(why))?,
            };
            let Some((fields, taken)) = parsed else {
                self.read_on()?;
                continue;
            };
            let texts: Result<Vec<String>, _> = fields.into_iter().map(String::from_utf8).collect();
            let Ok(texts) = texts else {
                return Err(self.refused(
                    "this is no UTF-8; convert the file, for instance with `iconv -f latin1 -t \
                     utf-8`",
                ));
            };
            let line = self.line;
            self.line += rest[..taken].iter().filter(|byte| **byte == b'\n').count();
            self.at += taken;
            if texts.len() > 1 || !texts[0].is_empty() {
                return Ok(Some((texts, line)));
            }
        }
    }
}

/// The fields of the first line and its bytes; `None` if it is cut.
fn tabs_record(bytes: &[u8], is_at_end: bool) -> Option<(Vec<Vec<u8>>, usize)> {
    let (line, taken) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], end + 1),
        None if is_at_end => (bytes, bytes.len()),
        None => return None,
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Some((line.split(|byte| *byte == b'\t').map(<[u8]>::to_vec).collect(), taken))
}

/// Reads the records of a file into a table, all or none, and returns how many. A table that is
/// missing is made, with the first record as its columns' names; one that is there gets the first
/// record as a row.
pub(super) fn import(sql: &mut Sql, asked: &Import<'_>) -> Result<u64> {
    let mut records = Records::open(asked.path, asked.has_tabs)?;
    for _ in 0..asked.skip {
        records.next()?;
    }
    let is_within = sql.is_in_transaction();
    // A transaction of the user's stays open.
    let [begin, end, back] = match is_within {
        true => ["SAVEPOINT import", "RELEASE import", "ROLLBACK TO import; RELEASE import"],
        false => ["BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"],
    };
    sql.run(begin).map_err(failed)?;
    let done = insert(sql, asked.table, &mut records)
        .and_then(|rows| sql.run(end).map(|()| rows).map_err(failed));
    if done.is_err() && sql.is_in_transaction() {
        sql.run(back).map_err(failed)?;
    }
    done
}

fn insert(sql: &mut Sql, table: &str, records: &mut Records) -> Result<u64> {
    let known = "SELECT count(*) FROM pragma_table_info(?)";
    let found = sql.query(known, &[table.into()]).map_err(failed)?;
    let mut width = match found[0][0] {
        Value::Integer(columns) => columns as usize,
        _ => 0,
    };
    if width == 0 {
        let Some((names, _)) = records.next()? else { return Ok(0) };
        let columns: Vec<String> =
            names.iter().map(|name| format!("{} ANY", quoted(name))).collect();
        let made = format!("CREATE TABLE {} ({})", quoted(table), columns.join(", "));
        sql.execute(&made, &[]).map_err(failed)?;
        width = names.len();
    }
    let places = vec!["?"; width].join(", ");
    let insert = format!("INSERT INTO {} VALUES ({places})", quoted(table));
    let mut statement = sql.prepare(&insert).map_err(failed)?;
    let mut rows = 0;
    while let Some((record, line)) = records.next()? {
        let file = records.path.display();
        if record.len() != width {
            let (given, record) = (record.len(), rows + 1);
            let message = format!(
                "{file}, line {line}: record {record} has {given} fields, and the table {width} \
                 columns"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let at_line = |e: SqlError| failed(e).within(format!("{file}, line {line}"));
        let values: Vec<Value> = record.into_iter().map(Value::Text).collect();
        statement.bind(&values).map_err(at_line)?;
        statement.step().map_err(at_line)?;
        rows += 1;
    }
    Ok(rows)
}
