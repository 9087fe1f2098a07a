//! Where a database is: a small marker file at the path that applications know, and a directory
//! beside it, as SQLite keeps `-wal` beside a database. `app.db` has its data in `app.db-silica`.
//!
//! The marker has a second name, a hard link, in the directory. So both are told apart that look
//! the same from outside:
//!
//! 1. The marker and the directory's link are one inode: they belong together.
//! 2. The marker's inode is the link of another directory beside it: the marker was renamed, and
//!    its directory follows, over whatever was there.
//! 3. No directory has the marker's inode: it is a copy of a marker, or was moved alone. That is
//!    an error; nothing is made or deleted.
//! 4. There is no marker, and the directory is there: the database was deleted. A new one moves
//!    the old directory aside, where one generation of it is kept.
//!
//! No directory moves while a process has its store open. A database that was renamed while it is
//! open goes on where it is. One that was deleted does, too, as an open file of SQLite's, and a new
//! one at its path gets a directory with a number, `app.db-2-silica`, which takes the usual name
//! when it is next opened and nobody has the old one open any more.

use silica::device::{DeviceOptions, FileDevice};
use silica::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a marker begins with; its format's number follows.
const HEAD: &str = "Silica database ";
const FORMAT: u32 = 1;
/// What the directory's name has behind the database's, and the one of an old generation.
const DIRECTORY: &str = "-silica";
const OLD: &str = "-silica-old";
/// The marker's second name, in the directory, and the store beside it.
const LINK: &str = "DATABASE";
const STORE: &str = "store";
/// What new databases become where nothing else says it.
const VARIABLE: &str = "SILICA_SQL_STORAGE";
/// Other processes may make or move the same database meanwhile.
const TRIES: usize = 4;

/// Which storage a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// One file of SQLite's own format.
    Sqlite,
    /// A marker and a directory.
    Silica,
}

/// What a database's path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// SQLite's own b-tree has or makes the file.
    Stock,
    /// The store is in this directory.
    Store {
        /// The store's own directory.
        directory: PathBuf,
        /// It may not be written to.
        is_read_only: bool,
    },
}

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaceOptions {
    /// Nothing is to be written.
    pub is_read_only: bool,
    /// It is made if it is not there.
    pub may_create: bool,
    /// What it becomes then; else `SILICA_SQL_STORAGE` says it, or it is ours.
    pub choice: Option<Storage>,
    /// It has to be a file of SQLite's: the caller asks for what only that has.
    pub must_be_stock: bool,
}

impl Storage {
    /// By its name, `sqlite` or `silica`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for another name.
    pub fn of_name(name: &str) -> Result<Self> {
        match name {
            "sqlite" => Ok(Storage::Sqlite),
            "silica" => Ok(Storage::Silica),
            _ => {
                let message = format!("storage '{name}' is unknown; use silica or sqlite");
                Err(Error::new(ErrorKind::Config, message))
            }
        }
    }
}

/// Finds the database at `path`, or makes its marker and directory.
///
/// # Errors
/// [`ErrorKind::NotFound`] if it is not there and may not be made; [`ErrorKind::Config`] for a
/// copy of a marker, and for a marker of a newer format; [`ErrorKind::Io`].
pub fn place(path: &Path, options: PlaceOptions) -> Result<Place> {
    let mut tries = 0;
    loop {
        match try_place(path, options) {
            Err(error) if is_raced(&error) && tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

/// True if somebody else made or removed what was to be made or removed.
fn is_raced(error: &Error) -> bool {
    error.kind() == ErrorKind::Busy
}

fn try_place(path: &Path, options: PlaceOptions) -> Result<Place> {
    let there = match fs::metadata(path) {
        Ok(there) => Some(there),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(failed("look at", path, e)),
    };
    match there {
        Some(there) if !there.is_file() => Ok(Place::Stock),
        Some(there) if there.len() > 0 => match read_head(path)? {
            Some(format) => existing(path, &there, format, options),
            None => Ok(Place::Stock),
        },
        _ if there.is_none() && !options.may_create => {
            let message = format!("{} is not there", path.display());
            Err(Error::new(ErrorKind::NotFound, message))
        }
        _ if options.must_be_stock || options.is_read_only => Ok(Place::Stock),
        there => match chosen(options.choice)? {
            Storage::Sqlite => Ok(Place::Stock),
            Storage::Silica => new(path, there.is_some()),
        },
    }
}

#[allow(clippy::disallowed_methods)] // Unmodified programs have no other way to say it.
fn chosen(choice: Option<Storage>) -> Result<Storage> {
    match (choice, std::env::var(VARIABLE)) {
        (Some(choice), _) => Ok(choice),
        (None, Ok(name)) if !name.is_empty() => Storage::of_name(&name),
        (None, _) => Ok(Storage::Silica),
    }
}

/// The format's number, if the file is a marker.
fn read_head(path: &Path) -> Result<Option<u32>> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.map_err(|e| failed("read", path, e))?;
    let text = String::from_utf8_lossy(&head);
    let Some(rest) = text.strip_prefix(HEAD) else { return Ok(None) };
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(Some(digits.parse().unwrap_or(u32::MAX)))
}

fn marker_text(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "{HEAD}{FORMAT}\n\
         The data is in the directory {name}{DIRECTORY} beside this file; keep both together.\n\
         A copy of this file is no copy of the database: use VACUUM INTO, .backup or .dump.\n"
    )
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::io(format!("cannot {what} {}", path.display()), error)
}

/// The link of `directory`, if it has one.
fn link_of(directory: &Path) -> Option<Metadata> {
    fs::metadata(directory.join(LINK)).ok()
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The store of the marker at `path`.
fn existing(path: &Path, there: &Metadata, format: u32, options: PlaceOptions) -> Result<Place> {
    if format > FORMAT {
        let message = format!(
            "{} is of format {format}, and this release knows {FORMAT}; use a newer release",
            path.display()
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let directory = beside(path, DIRECTORY);
    // As of a file of SQLite's, whose permissions say it.
    let is_read_only = options.is_read_only || OpenOptions::new().write(true).open(path).is_err();
    let store = Place::Store { directory: directory.join(STORE), is_read_only };
    match link_of(&directory) {
        Some(link) if is_same(&link, there) => return Ok(store),
        // It was cut off between the marker and its second name.
        None if directory.is_dir() && !directory.join(STORE).exists() => {
            link(path, &directory)?;
            return Ok(store);
        }
        _ => {}
    }
    let Some(renamed) = directory_of(path, there)? else {
        let message = format!(
            "{} is a copy of a database's marker, or was moved without its directory: no \
             directory beside it is its own. Move the directory whose name ends in {DIRECTORY} \
             along with it; if you copied both, join them by `ln -f DIRECTORY/{LINK} MARKER`; or \
             copy a database by VACUUM INTO, .backup or .dump",
            path.display()
        );
        return Err(Error::new(ErrorKind::Config, message));
    };
    // What somebody has open stays where it is, and is served from there.
    if is_open(&renamed) || is_open(&directory) {
        return Ok(Place::Store { directory: renamed.join(STORE), is_read_only });
    }
    if directory.exists() {
        move_aside(path, &directory)?;
    }
    rename(&renamed, &directory)?;
    Ok(store)
}

/// The directory beside `path` whose link is that marker.
fn directory_of(path: &Path, marker: &Metadata) -> Result<Option<PathBuf>> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(parent).map_err(|e| failed("list", parent, e))?;
    let directories = entries.filter_map(io::Result::ok).map(|entry| entry.path());
    let mut directories =
        directories.filter(|path| path.to_string_lossy().ends_with(DIRECTORY) && path.is_dir());
    Ok(directories.find(|directory| link_of(directory).is_some_and(|link| is_same(&link, marker))))
}

/// The directory of a new database at `path`. Where somebody has that of a deleted one still open,
/// which SQLite allows, it is another one, until it can be renamed.
fn directory_of_new(path: &Path) -> Result<PathBuf> {
    let directory = beside(path, DIRECTORY);
    if !directory.exists() {
        return Ok(directory);
    }
    if !is_open(&directory) {
        move_aside(path, &directory)?;
        return Ok(directory);
    }
    for other in (2..).map(|number| beside(path, &format!("-{number}{DIRECTORY}"))) {
        if !other.exists() {
            return Ok(other);
        }
        // Of one that was deleted, too, and that nobody has open.
        if link_of(&other).is_some_and(|link| link.nlink() == 1) && !is_open(&other) {
            fs::remove_dir_all(&other).map_err(|e| failed("remove", &other, e))?;
            return Ok(other);
        }
    }
    unreachable!("numbers do not end")
}

/// Makes a database at `path`, where an empty file may be.
fn new(path: &Path, is_there: bool) -> Result<Place> {
    let directory = directory_of_new(path)?;
    match fs::create_dir(&directory) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(raced()),
        made => made.map_err(|e| failed("create the directory", &directory, e))?,
    }
    let store = Place::Store { directory: directory.join(STORE), is_read_only: false };
    if is_there {
        // Programs may hold the empty file open, or have given it its permissions.
        let opened = OpenOptions::new().write(true).open(path);
        opened.and_then(|file| write_marker(file, path)).map_err(|e| failed("write", path, e))?;
        link(path, &directory)?;
    } else {
        let own = directory.join(LINK);
        let opened = OpenOptions::new().write(true).create_new(true).open(&own);
        opened.and_then(|file| write_marker(file, path)).map_err(|e| failed("write", &own, e))?;
        match fs::hard_link(&own, path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(raced()),
            linked => linked.map_err(|e| failed("create", path, e))?,
        }
    }
    sync_directory(&directory)?;
    sync_directory(path.parent().unwrap_or(Path::new("/")))?;
    Ok(store)
}

fn raced() -> Error {
    Error::new(ErrorKind::Busy, "another process makes this database now; try again")
}

fn write_marker(mut file: File, path: &Path) -> io::Result<()> {
    file.write_all(marker_text(path).as_bytes())?;
    file.sync_all()
}

fn link(path: &Path, directory: &Path) -> Result<()> {
    let own = directory.join(LINK);
    fs::hard_link(path, &own).map_err(|e| failed("link", &own, e))?;
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|e| failed("sync", directory, e))
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|e| failed("rename", from, e))?;
    sync_directory(to.parent().unwrap_or(Path::new("/")))
}

/// Keeps the directory of a database that was deleted or renamed over, in place of an older one.
fn move_aside(path: &Path, directory: &Path) -> Result<()> {
    let old = beside(path, OLD);
    if old.exists() {
        fs::remove_dir_all(&old).map_err(|e| failed("remove", &old, e))?;
    }
    rename(directory, &old)
}

/// True if a process has the store of a directory open.
fn is_open(directory: &Path) -> bool {
    let options = DeviceOptions { create: false, ..DeviceOptions::default() };
    let opened = FileDevice::open(&directory.join(STORE), options);
    opened.is_err_and(|error| error.kind() == ErrorKind::Locked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: PlaceOptions = PlaceOptions {
        is_read_only: false,
        may_create: true,
        choice: Some(Storage::Silica),
        must_be_stock: false,
    };
    const OLD_ONLY: PlaceOptions = PlaceOptions { may_create: false, ..NEW };

    fn store_of(place: Result<Place>) -> PathBuf {
        match place.expect("a place") {
            Place::Store { directory, .. } => directory,
            Place::Stock => panic!("it is SQLite's"),
        }
    }

    /// A database whose store has a file that tells it from others.
    fn made(path: &Path, text: &str) -> PathBuf {
        let store = store_of(place(path, NEW));
        fs::create_dir(&store).expect("made");
        fs::write(store.join("text"), text).expect("written");
        store
    }

    fn text_of(path: &Path) -> String {
        let store = store_of(place(path, OLD_ONLY));
        fs::read_to_string(store.join("text")).expect("the file of the database")
    }

    #[test]
    fn a_database_is_found_again_renamed_and_renamed_over() {
        let scratch = tempfile::tempdir().expect("a directory");
        let [one, two] = ["one.db", "two.db"].map(|name| scratch.path().join(name));
        made(&one, "first");
        assert_eq!(text_of(&one), "first");
        fs::rename(&one, &two).expect("renamed");
        assert_eq!(text_of(&two), "first");
        assert!(!scratch.path().join("one.db-silica").exists());
        made(&one, "second");
        fs::rename(&one, &two).expect("renamed over");
        assert_eq!(text_of(&two), "second");
        let kept = scratch.path().join("two.db-silica-old/store/text");
        assert_eq!(fs::read_to_string(kept).expect("kept"), "first");
    }

    #[test]
    fn a_copy_of_the_marker_is_refused_and_nothing_is_lost() {
        let scratch = tempfile::tempdir().expect("a directory");
        let [one, copy] = ["one.db", "copy.db"].map(|name| scratch.path().join(name));
        made(&one, "first");
        fs::copy(&one, &copy).expect("copied");
        let error = place(&copy, NEW).expect_err("refused");
        assert!(error.to_string().contains("copy of a database's marker"), "{error}");
        assert_eq!(text_of(&one), "first");
        // A copy in place of the marker itself is one, too.
        fs::remove_file(&one).expect("removed");
        fs::rename(&copy, &one).expect("renamed");
        place(&one, NEW).expect_err("refused");
        assert!(scratch.path().join("one.db-silica/store/text").exists());
    }

    #[test]
    fn a_deleted_database_leaves_one_generation() {
        let scratch = tempfile::tempdir().expect("a directory");
        let one = scratch.path().join("one.db");
        for text in ["first", "second", "third"] {
            made(&one, text);
            fs::remove_file(&one).expect("removed");
            let error = place(&one, OLD_ONLY).expect_err("it is gone");
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
        place(&one, NEW).expect("a new one");
        let kept = scratch.path().join("one.db-silica-old/store/text");
        assert_eq!(fs::read_to_string(kept).expect("kept"), "third");
    }

    #[test]
    fn a_directory_in_use_stays_where_it_is() {
        let scratch = tempfile::tempdir().expect("a directory");
        let one = scratch.path().join("one.db");
        let store = made(&one, "first");
        let open = FileDevice::open(&store, DeviceOptions::default()).expect("opened");
        fs::remove_file(&one).expect("removed");
        // As an open file of SQLite's that was deleted.
        let second = made(&one, "second");
        assert!(second.ends_with("one.db-2-silica/store"), "{}", second.display());
        assert_eq!(fs::read_to_string(store.join("text")).expect("there"), "first");
        assert_eq!(text_of(&one), "second");
        assert_eq!(store_of(place(&one, NEW)), second);
        drop(open);
        assert_eq!(text_of(&one), "second");
        assert_eq!(store_of(place(&one, NEW)), store);
        let kept = scratch.path().join("one.db-silica-old/store/text");
        assert_eq!(fs::read_to_string(kept).expect("kept"), "first");
    }

    #[test]
    fn a_database_that_is_renamed_while_it_is_open_goes_on() {
        let scratch = tempfile::tempdir().expect("a directory");
        let [one, two] = ["one.db", "two.db"].map(|name| scratch.path().join(name));
        let store = made(&one, "first");
        let open = FileDevice::open(&store, DeviceOptions::default()).expect("opened");
        fs::rename(&one, &two).expect("renamed");
        assert_eq!(store_of(place(&two, OLD_ONLY)), store);
        drop(open);
        let moved = store_of(place(&two, OLD_ONLY));
        assert!(moved.ends_with("two.db-silica/store"), "{}", moved.display());
        assert_eq!(text_of(&two), "first");
    }

    #[test]
    fn other_files_are_left_to_sqlite() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = |name: &str| scratch.path().join(name);
        fs::write(path("old.db"), b"SQLite format 3\0 and more").expect("written");
        fs::write(path("text"), b"hello").expect("written");
        fs::write(path("empty"), b"").expect("written");
        for name in ["old.db", "text"] {
            assert_eq!(place(&path(name), NEW).expect("a place"), Place::Stock);
        }
        let stock = PlaceOptions { choice: Some(Storage::Sqlite), ..NEW };
        assert_eq!(place(&path("empty"), stock).expect("a place"), Place::Stock);
        // An empty file is a database without a table.
        let inode = fs::metadata(path("empty")).expect("there").ino();
        let store = store_of(place(&path("empty"), NEW));
        assert!(store.ends_with("empty-silica/store"));
        assert_eq!(fs::metadata(path("empty")).expect("there").ino(), inode);
        assert_eq!(store_of(place(&path("empty"), OLD_ONLY)), store);
    }

    #[test]
    fn a_marker_of_a_newer_format_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("new.db");
        fs::write(&path, "Silica database 2\n").expect("written");
        let error = place(&path, NEW).expect_err("refused");
        assert!(error.to_string().contains("use a newer release"), "{error}");
    }

    #[test]
    fn a_marker_that_was_cut_off_before_its_second_name_gets_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("cut.db");
        fs::write(&path, marker_text(&path)).expect("written");
        fs::create_dir(scratch.path().join("cut.db-silica")).expect("made");
        store_of(place(&path, OLD_ONLY));
        assert!(scratch.path().join("cut.db-silica/DATABASE").exists());
    }
}
