//! The functions that SQLite's own shell has beside those of its library. They reach the files of
//! whoever types, so no client over the network has them.

use super::failed;
use super::regexp::Pattern;
use silica::Result;
use silica_sql::sql::{Sql, Value, ValueRef};
use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Bytes of a value of SQL at most.
const VALUE_BYTES_MAX: u64 = 1_000_000_000;
/// The bits of a file's mode that say what it is: a regular file.
const KIND_BITS: i64 = 0o170_000;
const REGULAR: i64 = 0o100_000;

/// Adds them to a connection.
pub(super) fn add(sql: &mut Sql) -> Result<()> {
    sql.add_series().map_err(failed)?;
    sql.define("readfile", Some(1), read_file).map_err(failed)?;
    for count in 2..=4 {
        sql.define("writefile", Some(count), write_file).map_err(failed)?;
    }
    for (name, ignores_case) in [("regexp", false), ("regexpi", true)] {
        // A statement has one pattern for all of its rows.
        let last: RefCell<Option<(String, Pattern)>> = RefCell::default();
        let find = move |given: &[ValueRef<'_>]| {
            let [pattern, text] = given else { unreachable!("it takes two") };
            let (Some(pattern), Some(text)) = (text_of(*pattern), text_of(*text)) else {
                return Ok(Value::Null);
            };
            let mut last = last.borrow_mut();
            let known = last.take().filter(|(known, _)| *known == pattern);
            let (pattern, compiled) = match known {
                Some(known) => known,
                None => {
                    let compiled = Pattern::new(&pattern, ignores_case)
                        .map_err(|why| format!("the pattern {pattern}: {why}"))?;
                    (pattern, compiled)
                }
            };
            let found = compiled.matches(&text);
            *last = Some((pattern, compiled));
            Ok(Value::Integer(i64::from(found)))
        };
        sql.define(name, Some(2), find).map_err(failed)?;
    }
    Ok(())
}

/// What `CAST(x AS TEXT)` is; `None` for NULL.
fn text_of(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        other => Some(other.to_owned().to_string()),
    }
}

/// `readfile(FILE)`: its bytes as a blob, or NULL if it cannot be read.
fn read_file(given: &[ValueRef<'_>]) -> Result<Value, String> {
    let Some(path) = given.first().and_then(|path| text_of(*path)) else { return Ok(Value::Null) };
    match fs::metadata(&path) {
        Ok(found) if found.len() > VALUE_BYTES_MAX => {
            Err(format!("{path} has {} bytes, more than a value may have", found.len()))
        }
        _ => Ok(fs::read(&path).map_or(Value::Null, Value::Blob)),
    }
}

/// `writefile(FILE, DATA [, MODE [, MTIME]])`: writes a file, and its directories if they are
/// missing, and answers how many bytes that were.
fn write_file(given: &[ValueRef<'_>]) -> Result<Value, String> {
    let [path, data, rest @ ..] = given else { unreachable!("it takes two at least") };
    let path = text_of(*path).ok_or("writefile needs the name of a file")?;
    let number = |at: usize| match rest.get(at) {
        None | Some(ValueRef::Null) => Ok(None),
        Some(ValueRef::Integer(number)) => Ok(Some(*number)),
        Some(_) => Err("writefile takes numbers as mode and time".to_string()),
    };
    let (mode, time) = (number(0)?, number(1)?);
    if mode.is_some_and(|mode| mode & KIND_BITS != 0 && mode & KIND_BITS != REGULAR) {
        return Err("writefile writes regular files, no directories and links".into());
    }
    let converted;
    let bytes = match data {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => *bytes,
        ValueRef::Null => &[],
        number => {
            converted = text_of(*number).unwrap_or_default();
            converted.as_bytes()
        }
    };
    let written = write(Path::new(&path), bytes, mode, time);
    written.map_err(|error| format!("writing {path}: {error}"))?;
    Ok(Value::Integer(bytes.len() as i64))
}

fn write(path: &Path, bytes: &[u8], mode: Option<i64>, time: Option<i64>) -> io::Result<()> {
    let mut file = match File::create(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            File::create(path)?
        }
        created => created?,
    };
    file.write_all(bytes)?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode((mode & 0o7777) as u32))?;
    }
    if let Some(seconds) = time.and_then(|time| u64::try_from(time).ok()) {
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn answer(sql: &mut Sql, text: &str) -> String {
        match sql.query(text, &[]) {
            Ok(rows) => {
                let shown = |row: &Vec<Value>| {
                    row.iter().map(Value::to_string).collect::<Vec<_>>().join("|")
                };
                rows.iter().map(shown).collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("error: {}", error.message),
        }
    }

    #[test]
    fn files_are_read_and_written() {
        let mut sql = Sql::open(":memory:").expect("opened");
        add(&mut sql).expect("added");
        let directory = std::env::temp_dir().join(format!("sql-functions-{}", std::process::id()));
        let path = directory.join("new/bytes");
        let name = path.display();
        let mut ask =
            |text: &str, wanted: &str| assert_eq!(answer(&mut sql, text), wanted, "{text}");
        ask(&format!("SELECT writefile('{name}', x'00ff61')"), "3");
        ask(&format!("SELECT hex(readfile('{name}')), readfile('{name}.no')"), "00FF61|");
        ask(&format!("SELECT writefile('{name}', 12.5, 33152, 86400)"), "4");
        ask(&format!("SELECT CAST(readfile('{name}') AS TEXT)"), "12.5");
        let metadata = fs::metadata(&path).expect("written");
        let day = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        assert_eq!((metadata.mode(), metadata.modified().ok()), (0o100_600, Some(day)));
        ask(&format!("SELECT writefile('{name}', NULL)"), "0");
        ask("SELECT readfile(NULL)", "");
        ask("SELECT writefile(NULL, 1)", "error: writefile needs the name of a file");
        let words = "error: writefile writes regular files, no directories and links";
        ask(&format!("SELECT writefile('{name}', 1, 16384)"), words);
        let refused = answer(&mut sql, "SELECT writefile('/', 1)");
        assert!(refused.starts_with("error: writing /: "), "{refused}");
        fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn rows_are_found_by_patterns() {
        let mut sql = Sql::open(":memory:").expect("opened");
        add(&mut sql).expect("added");
        for (text, wanted) in [
            ("SELECT value FROM generate_series(1, 9) WHERE value REGEXP '^[2-4]$'", "2\n3\n4"),
            ("SELECT 'aXb' REGEXP 'x', regexpi('x', 'aXb'), 12 REGEXP '2$'", "0|1|1"),
            ("SELECT NULL REGEXP 'x', 'x' REGEXP NULL", "|"),
            ("SELECT 'a' REGEXP '('", "error: the pattern (: unmatched '('"),
            ("SELECT 'a' REGEXP column1 FROM (VALUES ('a'), ('b')) AS v", "1\n0"),
        ] {
            assert_eq!(answer(&mut sql, text), wanted, "{text}");
        }
    }
}
