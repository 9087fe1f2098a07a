//! Functions that a program adds to SQL, and tables that SQLite's own shell has beside its library.

use super::{Result, Sql, SqlError, Value, ValueRef, c_string, sys};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// A function of the program: its arguments, to a value or to the words of an error.
type Function = Box<dyn Fn(&[ValueRef<'_>]) -> Result<Value, String> + Send>;

/// Bytes at `start`, which is null if there are none.
///
/// # Safety
/// So many bytes are there for as long as the caller says.
unsafe fn bytes<'v>(start: *const u8, len: c_int) -> &'v [u8] {
    let len = usize::try_from(len).unwrap_or(0);
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: by this function's own contract.
    unsafe { slice::from_raw_parts(start, len) }
}

/// The argument, borrowed until the function returns.
///
/// # Safety
/// An argument of the call that runs.
unsafe fn argument<'v>(value: *mut sys::Argument) -> ValueRef<'v> {
    // SAFETY: by this function's own contract; a text or a blob is asked for before its length, as
    // SQLite wants it, and stays as it is until the call returns.
    unsafe {
        match sys::value_type(value) {
            sys::INTEGER => ValueRef::Integer(sys::value_int64(value)),
            sys::FLOAT => ValueRef::Real(sys::value_double(value)),
            sys::TEXT => {
                let text = sys::value_text(value);
                ValueRef::Text(bytes(text, sys::value_bytes(value)))
            }
            sys::BLOB => {
                let blob = sys::value_blob(value);
                ValueRef::Blob(bytes(blob.cast(), sys::value_bytes(value)))
            }
            _ => ValueRef::Null,
        }
    }
}

extern "C" fn call(context: *mut sys::Context, count: c_int, arguments: *mut *mut sys::Argument) {
    // SAFETY: `define` gave the function, which lives until SQLite destroys it.
    let function = unsafe { &*sys::user_data(context).cast::<Function>() };
    let count = usize::try_from(count).unwrap_or(0);
    let given: &[*mut sys::Argument] = match count {
        0 => &[],
        // SAFETY: SQLite hands over so many arguments.
        _ => unsafe { slice::from_raw_parts(arguments, count) },
    };
    // SAFETY: arguments of this call.
    let given: Vec<ValueRef<'_>> = given.iter().map(|one| unsafe { argument(*one) }).collect();
    // A panic must not enter SQLite: the statement fails.
    let answer = catch_unwind(AssertUnwindSafe(|| function(&given)))
        .unwrap_or_else(|_| Err("the function has panicked".into()));
    // SAFETY: the context of this call; SQLite copies texts and blobs.
    unsafe {
        match answer {
            Ok(Value::Null) => sys::result_null(context),
            Ok(Value::Integer(value)) => sys::result_int64(context, value),
            Ok(Value::Real(value)) => sys::result_double(context, value),
            Ok(Value::Text(text)) => {
                let (start, len) = (text.as_ptr().cast(), text.len() as u64);
                sys::result_text64(context, start, len, sys::TRANSIENT, sys::UTF8);
            }
            Ok(Value::Blob(blob)) => {
                let (start, len) = (blob.as_ptr().cast(), blob.len() as u64);
                sys::result_blob64(context, start, len, sys::TRANSIENT);
            }
            Err(words) => {
                let len = c_int::try_from(words.len()).unwrap_or(c_int::MAX);
                sys::result_error(context, words.as_ptr().cast(), len);
            }
        }
    }
}

extern "C" fn destroy(function: *mut c_void) {
    // SAFETY: made by `define`, and destroyed once.
    drop(unsafe { Box::from_raw(function.cast::<Function>()) });
}

impl Sql {
    /// Adds a function to this connection's SQL, or replaces the one of that name and number of
    /// arguments; `None` takes any number. An error of it fails the statement with its words.
    /// Statements that call it are run each time: no result of them is kept.
    ///
    /// # Errors
    /// `SQLITE_BUSY` if a statement runs that may use the one that is replaced; `SQLITE_MISUSE` for
    /// a name of more than 255 bytes, or more than 127 arguments.
    pub fn define(
        &mut self,
        name: &str,
        arguments: Option<u8>,
        function: impl Fn(&[ValueRef<'_>]) -> Result<Value, String> + Send + 'static,
    ) -> Result<()> {
        self.define_as(sys::UTF8.into(), name, arguments, Box::new(Box::new(function)))
    }

    /// As [`Sql::define`], a function whose answer depends on its arguments alone: indexes,
    /// generated columns and the conditions of partial indexes may call it, too. Every connection
    /// that writes to such a table has to define it, with the same answers.
    ///
    /// # Errors
    /// As of [`Sql::define`].
    pub fn define_deterministic(
        &mut self,
        name: &str,
        arguments: Option<u8>,
        function: impl Fn(&[ValueRef<'_>]) -> Result<Value, String> + Send + 'static,
    ) -> Result<()> {
        let flags = c_int::from(sys::UTF8) | sys::DETERMINISTIC;
        self.define_as(flags, name, arguments, Box::new(Box::new(function)))
    }

    fn define_as(
        &mut self,
        flags: c_int,
        name: &str,
        arguments: Option<u8>,
        function: Box<Function>,
    ) -> Result<()> {
        let name = c_string(name)?;
        let count = arguments.map_or(-1, c_int::from);
        // SAFETY: an open connection; SQLite destroys the function, also if it refuses it.
        let code = unsafe {
            sys::create_function_v2(
                self.db.as_ptr(),
                name.as_ptr(),
                count,
                flags,
                Box::into_raw(function).cast(),
                Some(call),
                None,
                None,
                Some(destroy),
            )
        };
        self.check(code)
    }

    /// Adds the table-valued function `generate_series(start, stop, step)`, as in SQLite's shell.
    ///
    /// # Errors
    /// `SQLITE_NOMEM`.
    pub fn add_series(&mut self) -> Result<()> {
        // SAFETY: an open connection.
        let code = unsafe { sys::silica_sql_add_series(self.db.as_ptr()) };
        if code == sys::OK { Ok(()) } else { Err(SqlError { code, message: "no memory".into() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_see_their_arguments_and_answer() {
        let mut sql = Sql::open(":memory:").expect("opened");
        let shown = |given: &[ValueRef<'_>]| match given {
            [] => Ok(Value::Null),
            [ValueRef::Text(b"no")] => Err("not that".to_string()),
            [ValueRef::Text(b"panic")] => panic!("of a test"),
            given => Ok(Value::Text(format!("{given:?}"))),
        };
        sql.define("shown", None, shown).expect("defined");
        let of = |sql: &mut Sql, text: &str| {
            sql.query(text, &[]).map(|rows| rows[0][0].to_string()).map_err(|error| error.message)
        };
        let all = of(&mut sql, "SELECT shown(1, 2.5, 'a', x'00ff', NULL, '')").expect("run");
        assert_eq!(all, "[Integer(1), Real(2.5), Text([97]), Blob([0, 255]), Null, Text([])]");
        assert_eq!(sql.query("SELECT shown()", &[]).expect("run"), [[Value::Null]]);
        assert_eq!(of(&mut sql, "SELECT shown('no')"), Err("not that".into()));
        let panicked = of(&mut sql, "SELECT shown('panic')");
        assert_eq!(panicked, Err("the function has panicked".into()));
        sql.define("shown", None, |_| Ok(Value::Blob(vec![7]))).expect("replaced");
        assert_eq!(sql.query("SELECT shown()", &[]).expect("run"), [[Value::Blob(vec![7])]]);
        assert!(sql.define(&"n".repeat(300), Some(1), |_| Ok(Value::Null)).is_err());
    }

    extern "C" fn all_equal(
        _: *mut c_void,
        _: c_int,
        _: *const c_void,
        _: c_int,
        _: *const c_void,
    ) -> c_int {
        0
    }

    #[test]
    fn a_table_ordered_by_a_collation_of_the_programs_is_refused_when_it_is_made() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut sql = Sql::open(scratch.path().join("app.db")).expect("opened");
        let none = std::ptr::null_mut();
        let encoding = c_int::from(sys::UTF8);
        // SAFETY: an open connection, a name with a zero byte, and a function without data.
        let code = unsafe {
            let db = sql.db.as_ptr();
            sys::create_collation(db, c"mine".as_ptr(), encoding, none, Some(all_equal))
        };
        assert_eq!(code, sys::OK);
        for made in [
            "CREATE TABLE t (a TEXT COLLATE mine PRIMARY KEY)",
            "CREATE TABLE t (a TEXT COLLATE mine PRIMARY KEY) WITHOUT ROWID",
            "CREATE TABLE t (a TEXT COLLATE mine UNIQUE, b)",
            "CREATE TABLE t (a, b, UNIQUE (b, a COLLATE mine))",
        ] {
            let error = sql.run(made).expect_err(made);
            assert!(error.message.contains("own collation mine"), "{made}: {error}");
        }
        sql.run("CREATE TEMP TABLE t (a TEXT COLLATE mine PRIMARY KEY)").expect("SQLite's own");
        sql.run("CREATE TABLE u (a TEXT COLLATE mine, b UNIQUE); INSERT INTO u VALUES ('x', 1)")
            .expect("no index is by it");
        let whole = sql.query("PRAGMA integrity_check", &[]).expect("checked");
        assert_eq!(whole, [[Value::from("ok")]]);
    }

    #[test]
    fn series_go_up_and_down_and_end() {
        let mut sql = Sql::open(":memory:").expect("opened");
        assert!(sql.query("SELECT * FROM generate_series(1, 2)", &[]).is_err());
        sql.add_series().expect("added");
        let mut numbers = |of: &str| -> Result<Vec<i64>, String> {
            let text = format!("SELECT value FROM generate_series({of}");
            let rows = sql.query(&text, &[]).map_err(|error| error.message)?;
            let of_row = |row: &Vec<Value>| match row[0] {
                Value::Integer(number) => number,
                ref other => panic!("{other:?}"),
            };
            Ok(rows.iter().map(of_row).collect())
        };
        for (of, all) in [
            ("1, 3)", &[1, 2, 3][..]),
            ("1, 10, 4)", &[1, 5, 9]),
            ("3, 1)", &[]),
            ("3, 1, -1)", &[3, 2, 1]),
            ("1, 2, 0)", &[1, 2]),
            ("NULL, 3)", &[]),
            ("1, 3) ORDER BY value DESC", &[3, 2, 1]),
            ("1, 10, 4) ORDER BY value DESC", &[9, 5, 1]),
            ("10, 1, -4) ORDER BY value", &[2, 6, 10]),
            ("7) LIMIT 2", &[7, 8]),
            ("1, 1000000) WHERE value > 999998", &[999_999, 1_000_000]),
            ("9223372036854775806, 9223372036854775807)", &[i64::MAX - 1, i64::MAX]),
            ("-9223372036854775807, -9223372036854775808, -1)", &[-i64::MAX, i64::MIN]),
            (
                "-9223372036854775808, 9223372036854775807, 9223372036854775807)",
                &[i64::MIN, -1, i64::MAX - 1],
            ),
        ] {
            assert_eq!(numbers(of).as_deref(), Ok(all), "{of}");
        }
        assert!(numbers(")").is_err_and(|words| words.contains("needs the number to start")));
        let joined = "1, 2) AS a JOIN generate_series(a.value, 2) AS b";
        assert!(numbers(joined).is_err(), "two columns have that name");
        let sum = "SELECT count(*), sum(b.value) FROM generate_series(1, 3) AS a, \
                   generate_series(a.value, 3) AS b";
        let sum = sql.query(sum, &[]).expect("joined");
        assert_eq!(sum, [[Value::Integer(6), Value::Integer(14)]]);
    }
}
