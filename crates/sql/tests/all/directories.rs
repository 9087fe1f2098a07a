//! Databases in directories: opened by several, closed, opened again, refused.

use silica_sql::{Connection, Cursor, Equal, FIRST_ROOT, Found, KEYSPACE, Options, Session, code};
use std::path::{Path, PathBuf};

fn open(path: &Path) -> silica_sql::Result<Connection> {
    Connection::open(path, Options::default())
}

fn refused(path: &Path, options: Options) -> silica_sql::Failure {
    Connection::open(path, options).err().expect("it is refused")
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop");
    (directory, path)
}

fn put(connection: &Connection, rowid: i64) {
    connection.begin(true).unwrap();
    connection.cursor(FIRST_ROOT, None).unwrap().put_row(rowid, b"row", 2).unwrap();
    connection.commit(false, false).unwrap();
}

fn has(connection: &Connection, rowid: i64) -> bool {
    connection.begin(false).unwrap();
    let found = connection.cursor(FIRST_ROOT, None).unwrap().seek_row(rowid).unwrap();
    connection.commit(false, false).unwrap();
    found == Found::Here
}

#[test]
fn what_was_committed_is_there_when_the_store_is_opened_again() {
    let (_directory, path) = directory();
    for rowid in 0..4 {
        let connection = open(&path).unwrap();
        assert!((0..rowid).all(|rowid| has(&connection, rowid)));
        assert!(!has(&connection, rowid));
        put(&connection, rowid);
        connection.begin(true).unwrap();
        assert_eq!(connection.create_tree(true), Ok(2 + rowid as u32));
        connection.set_meta(1, 7).unwrap();
        connection.commit(true, true).unwrap();
        assert_eq!(connection.meta(1), Ok(7));
        connection.sync().unwrap();
        connection.compact().unwrap();
        assert!(connection.bytes() > 0);
    }
    // It is a store as any other.
    let store = silica::open(&path).unwrap();
    store.verify().unwrap();
    let keyspace = store.existing(KEYSPACE).unwrap().expect("it is there");
    assert_eq!(
        keyspace.get([0x10, 0, 0, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 3]).unwrap().unwrap(),
        b"row\0\0"
    );
}

#[test]
fn connections_of_a_process_share_a_store() {
    let (_directory, path) = directory();
    let first = open(&path).unwrap();
    let second = open(&path.join("..").join("shop")).unwrap();
    put(&first, 1);
    assert!(has(&second, 1));
    drop(first);
    put(&second, 2);
    let reader = Connection::open(&path, Options { is_read_only: true, ..Options::default() });
    let reader = reader.unwrap();
    assert!(has(&reader, 2));
    assert_eq!(reader.begin(true).unwrap_err().code, code::READONLY);
    drop((second, reader));
    // The lock is gone with the last one.
    drop(silica::open(&path).unwrap());
    assert!(has(&open(&path).unwrap(), 2));
}

#[test]
fn a_store_that_another_process_has_is_busy() {
    let (_directory, path) = directory();
    put(&open(&path).unwrap(), 1);
    let store = silica::open(&path).unwrap();
    for is_read_only in [false, true] {
        let failure = refused(&path, Options { is_read_only, ..Options::default() });
        assert_eq!(failure.code, code::BUSY);
        let owner = format!("process {}", std::process::id());
        assert!(failure.words.contains(&owner), "{failure}");
    }
    drop(store);
    open(&path).unwrap();
}

#[test]
fn what_is_read_only_is_not_written() {
    let (_directory, path) = directory();
    let read_only = Options { is_read_only: true, ..Options::default() };
    assert_eq!(refused(&path, read_only).code, code::CANTOPEN);
    put(&open(&path).unwrap(), 1);
    let reader = Connection::open(&path, read_only).unwrap();
    assert!(has(&reader, 1));
    assert_eq!(reader.begin(true).unwrap_err().code, code::READONLY);
    reader.sync().unwrap();
    let failure = refused(&path, Options::default());
    assert_eq!(failure.code, code::BUSY);
    assert!(failure.words.contains("in this process"), "{failure}");
}

#[test]
fn what_is_no_database_is_refused_in_words() {
    let (directory, path) = directory();
    let existing = Options { creates: false, ..Options::default() };
    let failure = refused(&path, existing);
    assert_eq!(failure.code, code::CANTOPEN);
    assert!(failure.words.contains("no store"), "{failure}");
    let file = directory.path().join("file");
    std::fs::write(&file, b"SQLite format 3\0").unwrap();
    assert_eq!(refused(&file, Options::default()).code, code::CANTOPEN);
    // A store of something else.
    let store = silica::open(&path).unwrap();
    store.keyspace("other").unwrap();
    drop(store);
    let failure = refused(&path, existing);
    assert_eq!(failure.code, code::CANTOPEN);
    assert!(failure.words.contains("without the keyspace 'sql'"), "{failure}");
    open(&path).unwrap();
}

#[test]
fn a_newer_version_is_refused_in_words() {
    let (_directory, path) = directory();
    let store = silica::open(&path).unwrap();
    store.keyspace(KEYSPACE).unwrap().put([1], b"SILSQL\x02\0").unwrap();
    drop(store);
    let failure = refused(&path, Options::default());
    assert_eq!(failure.code, code::CANTOPEN);
    assert!(failure.words.contains("newer release"), "{failure}");
}

#[test]
fn options_are_read_from_text() {
    let mut options = Options::default();
    options.read("memory_bytes=64MiB&").unwrap();
    assert_eq!((options.memory_bytes, options.io), (64 << 20, silica::IoChoice::Buffered));
    options.read("io=direct&memory_bytes=1MiB").unwrap();
    assert_eq!((options.memory_bytes, options.io), (1 << 20, silica::IoChoice::Auto));
    assert_eq!(options.read("memory=1").unwrap_err().code, code::CANTOPEN);
    assert_eq!(options.read("memory_bytes=&io=buffered").unwrap_err().code, code::CANTOPEN);
    let (_directory, path) = directory();
    assert_eq!(refused(&path, Options { memory_bytes: 1, ..options }).code, code::CANTOPEN);
}

#[test]
fn what_is_too_long_is_refused() {
    let (_directory, path) = directory();
    let connection = open(&path).unwrap();
    connection.begin(true).unwrap();
    let failure = connection.cursor(1, None).unwrap().put_row(1, b"", 1 << 40).unwrap_err();
    assert_eq!(failure.code, code::TOOBIG);
    // Keys are stored in part in the value: the engine's limit of 64 KiB is none of theirs.
    let mut cursor = connection.cursor(2, Some(&[Default::default()])).unwrap();
    let long = vec![b'a'; 1 << 20];
    for bytes in [60 << 10, 64 << 10, 1 << 20] {
        let field = silica_sql::encoding::Field::Text(&long[..bytes]);
        cursor.put_key(&[field], b"record").unwrap();
        assert_eq!(cursor.seek_key(&[field], Equal::Equal).unwrap(), Found::Here);
    }
    assert_eq!(cursor.count().unwrap(), 3);
    connection.commit(false, false).unwrap();
}
