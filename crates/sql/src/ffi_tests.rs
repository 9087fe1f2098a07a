//! The calls as C makes them.

use super::*;
use crate::ffi_cursor::*;
use crate::pages::SilicaEntry;
use std::ptr::null;

struct Db {
    db: *mut SilicaDb,
    _directory: tempfile::TempDir,
}

impl Db {
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = c_text(directory.path().join("db").to_str().unwrap());
        let (mut db, mut message) = (null_mut(), null_mut());
        // SAFETY: all of it is there.
        let code = unsafe {
            let options = c"memory_bytes=1MiB".as_ptr();
            silica_sql_open(path.as_ptr(), CREATE, options, &mut db, &mut message)
        };
        assert_eq!((code, message.is_null()), (code::OK, true));
        Db { db, _directory: directory }
    }

    fn message(&self) -> String {
        // SAFETY: it is open.
        unsafe { CStr::from_ptr(silica_sql_message(self.db)) }.to_str().unwrap().to_string()
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { silica_sql_close(self.db) };
    }
}

#[test]
fn rows_and_keys_come_back() {
    let db = Db::open();
    let columns = [SilicaColumn { collation: NOCASE, flags: DESCENDING | NULLS_LAST }];
    let text = SilicaField { kind: TEXT, size: 2, value: SilicaValue { bytes: b"aB".as_ptr() } };
    let number = SilicaField { kind: REAL, size: 0, value: SilicaValue { real: 2.0 } };
    let same = SilicaField { kind: INTEGER, size: 0, value: SilicaValue { integer: 2 } };
    let (mut rows, mut keys) = (null_mut(), null_mut());
    let (mut root, mut place, mut size, mut entries) = (0, 9, 0, 9);
    // SAFETY: all of it is there.
    unsafe {
        assert_eq!(silica_sql_begin(db.db, 1), code::OK);
        assert_eq!(silica_sql_create_tree(db.db, 0, &mut root), code::OK);
        assert_eq!((root, silica_sql_last_root(db.db)), (2, 2));
        assert_eq!(silica_sql_cursor_open(db.db, 1, null(), 0, &mut rows), code::OK);
        assert_eq!(silica_sql_cursor_open(db.db, 2, columns.as_ptr(), 1, &mut keys), code::OK);
        assert_eq!(silica_sql_cursor_put_row(rows, -3, b"abc".as_ptr(), 3, 1), code::OK);
        assert_eq!(silica_sql_cursor_put_key(keys, &text, 1, b"k".as_ptr(), 1), code::OK);
        assert_eq!(silica_sql_cursor_put_key(keys, &number, 1, null(), 0), code::OK);
        assert_eq!(silica_sql_open_savepoints(db.db, 1), code::OK);
        assert_eq!(silica_sql_set_meta(db.db, 1, 5), code::OK);
        assert_eq!(silica_sql_roll_back_to(db.db, 0), code::OK);
        assert_eq!(silica_sql_release_savepoint(db.db, 0), code::OK);
        let mut meta = 9;
        let mut entry = SilicaEntry { rowid: 0, record: null(), size: 0 };
        assert_eq!((silica_sql_get_meta(db.db, 1, &mut meta), meta), (code::OK, 0));
        assert_eq!(silica_sql_commit(db.db, 1, 1), code::OK);
        assert_eq!((silica_sql_cursor_first(rows, &mut place, &mut entry), place), (code::OK, 0));
        assert_eq!((silica_sql_cursor_rowid(rows), entry.rowid, entry.size), (-3, -3, 4));
        let record = silica_sql_cursor_record(rows, &mut size);
        assert_eq!(record, entry.record);
        assert_eq!(std::slice::from_raw_parts(record, size as usize), b"abc\0");
        assert_eq!(silica_sql_cursor_next(rows, &mut entry), code::DONE);
        assert_eq!(silica_sql_cursor_is_there(rows), 0);
        assert_eq!(silica_sql_cursor_seek_key(keys, &same, 1, 0, &mut place, &mut entry), code::OK);
        assert_eq!((place, silica_sql_cursor_is_there(keys)), (0, 1));
        assert_eq!(silica_sql_cursor_previous(keys, &mut entry), code::OK);
        let record = silica_sql_cursor_record(keys, &mut size);
        assert_eq!(std::slice::from_raw_parts(record, size as usize), b"k");
        assert_eq!((silica_sql_cursor_count(keys, &mut entries), entries), (code::OK, 2));
        assert_eq!(silica_sql_cursor_delete(keys), code::MISUSE);
        assert!(db.message().contains("begin one first"), "{}", db.message());
        silica_sql_cursor_close(rows);
        silica_sql_cursor_close(keys);
        assert_eq!(silica_sql_rollback(db.db, 0), code::OK);
    }
}

#[test]
fn misuse_is_an_error() {
    let db = Db::open();
    // SAFETY: null pointers are allowed for.
    unsafe {
        assert_eq!(silica_sql_begin(null_mut(), 0), code::MISUSE);
        assert_eq!(silica_sql_cursor_next(null_mut(), null_mut()), code::MISUSE);
        assert_eq!(silica_sql_create_tree(db.db, 1, null_mut()), code::MISUSE);
        assert_eq!(silica_sql_get_meta(db.db, -1, null_mut()), code::MISUSE);
        silica_sql_close(null_mut());
        silica_sql_cursor_close(null_mut());
        silica_sql_free_text(null_mut());
        assert_eq!(CStr::from_ptr(silica_sql_message(null_mut())), c"no database");
        let (mut other, mut message) = (null_mut(), null_mut());
        let path = c"/dev/null".as_ptr();
        assert_eq!(silica_sql_open(path, 0, null(), &mut other, &mut message), code::CANTOPEN);
        assert!(other.is_null() && CStr::from_ptr(message).to_str().unwrap().contains("is a file"));
        silica_sql_free_text(message);
    }
}

#[test]
fn a_panic_ends_at_the_seam() {
    let db = Db::open();
    assert_eq!(with_db(db.db, |_| panic!("on purpose")), code::INTERNAL);
    assert!(db.message().contains("panic"));
    assert_eq!(with_db(db.db, |connection| connection.begin(false)), code::OK);
}
