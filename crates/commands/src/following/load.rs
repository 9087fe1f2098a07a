//! All data of a primary, as an RDB file that comes piece by piece.

use super::apply::{Follower, is_over, refuse_database};
use crate::databases::Generation;
use crate::marks::Mark;
use crate::resp::scripts::{Policy, functions_of};
use silica::engine::{Durability, Engine, EntryRef, Error, ErrorKind, Result, WriteBatch};
use silica_proto::Limits;
use silica_proto::rdb::{Entry, Event, FileReader, ObjectEntry};
use silica_types::entries_of_rdb;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of entries that are written at a time.
const BATCH_BYTES: usize = 2 << 20;
/// Bytes of an entry beside its key and value.
const ENTRY_BYTES: usize = 64;

/// Appends more of the file to what it is given; false at its end.
pub type More<'m> = dyn FnMut(&mut Vec<u8>) -> Result<bool> + 'm;

/// What stands behind the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: its length was said before.
    Nothing,
    /// These bytes.
    Mark(Vec<u8>),
}

/// What was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Keys.
    pub keys: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// Values of types that are not known here, which were passed over.
    pub skipped: u64,
    /// Entries that were copied from what the replica had.
    pub copied: u64,
    /// Bytes that came behind the end: those of the stream.
    pub behind: Vec<u8>,
}

/// An entry of a database that is written with others: how long its key and its value are, and its
/// meta.
struct New {
    key_len: usize,
    value_len: usize,
    expires_unix_ms: u64,
    user_bits: u32,
}

/// Entries of a database that wait to be written. All keys and values stand behind one another, so
/// that most entries cost no allocation.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    entries: Vec<New>,
}

impl Pending {
    fn push(&mut self, key: &[u8], entry: EntryRef<'_>) {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let (key_len, value_len) = (key.len(), value.len());
        self.entries.push(New { key_len, value_len, expires_unix_ms, user_bits });
    }

    fn batch(&self) -> WriteBatch<'_> {
        let (mut batch, mut rest) = (WriteBatch::new(), &self.bytes[..]);
        for &New { key_len, value_len, expires_unix_ms, user_bits } in &self.entries {
            let (key, behind) = rest.split_at(key_len);
            let (value, behind) = behind.split_at(value_len);
            batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits });
            rest = behind;
        }
        batch
    }

    /// Forgets all, and keeps the memory of an ordinary batch.
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH_BYTES);
        self.entries.clear();
    }
}

/// A load that is under way.
pub(super) struct Load<'f> {
    pub(super) follower: &'f Follower,
    /// `None` where databases are in memory.
    generation: Option<Box<dyn Generation + 'f>>,
    /// What is loaded into, by the number of the database.
    engines: BTreeMap<usize, Arc<dyn Engine>>,
    pending: BTreeMap<usize, Pending>,
    pending_bytes: usize,
    pub(super) libraries: Vec<Vec<u8>>,
    /// The database that the stream has selected at the position.
    pub(super) selected: u8,
    skips_unknown: bool,
    pub(super) loaded: Loaded,
}

impl Follower {
    /// Takes the data of an RDB file in the place of all that the databases hold; its position is
    /// `offset` of history `id` then. Nothing of a file that is cut or damaged becomes visible,
    /// unless the databases are in memory: then they are emptied before, which the log says.
    ///
    /// # Errors
    /// `Closed` if this is no replica any more; `Corruption` if the file is damaged, `Unsupported`
    /// for a version or a type that is not known, `Config` for a database that is not served, and
    /// those of `more` and of writing.
    pub fn load(
        &mut self,
        at: (&str, u64),
        ending: &Ending,
        more: &mut More<'_>,
    ) -> Result<Loaded> {
        self.load_by(at, |load| load.read(ending, more))
    }

    /// Takes what `read` reads in the place of all that the databases hold; its position is
    /// `offset` of history `id` then.
    pub(super) fn load_by(
        &mut self,
        (id, offset): (&str, u64),
        read: impl FnOnce(&mut Load<'_>) -> Result<()>,
    ) -> Result<Loaded> {
        let service = Arc::clone(&self.service);
        let databases = &service.databases;
        let _paused = service.dead_pages.pause();
        let mut load = Load {
            follower: self,
            generation: databases.begin_generation()?,
            engines: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
            libraries: Vec::new(),
            selected: 0,
            skips_unknown: service.replication.settings.skips_unknown.load(Relaxed),
            loaded: Loaded::default(),
        };
        load.begin()?;
        read(&mut load)?;
        let mark = Mark {
            id: id.to_string(),
            offset,
            db: load.selected,
            written: silica_base::compact_map(load.engines.keys().map(|db| (*db as u8, offset))),
            is_unsure: false,
            has_functions: !load.libraries.is_empty(),
        };
        let loaded = load.finish(&mark)?;
        (self.db, self.written, self.is_unsure) = (mark.db, mark.written, false);
        Ok(loaded)
    }
}

impl Load<'_> {
    /// Makes ready what is loaded into: a place for each database that may hold something, and for
    /// the first.
    fn begin(&mut self) -> Result<()> {
        let databases = &self.follower.service.databases;
        let all = (0..databases.count()).filter(|db| *db == 0 || databases.may_hold(*db));
        let all: Vec<usize> = all.collect();
        let entries = databases.total("entries").unwrap_or(0);
        if self.generation.is_some() {
            log::info!(
                "a full synchronisation begins: new data is loaded beside the old, of about \
                 {entries} entries; until it is whole both take room on the device"
            );
        }
        all.into_iter().try_for_each(|db| self.engine(db).map(drop))
    }

    /// What database `db` is loaded into.
    pub(super) fn engine(&mut self, db: usize) -> Result<Arc<dyn Engine>> {
        if let Some(engine) = self.engines.get(&db) {
            return Ok(Arc::clone(engine));
        }
        let databases = &self.follower.service.databases;
        if db >= databases.count() {
            return Err(refuse_database(db as i64, databases.count()));
        }
        let beside = match &mut self.generation {
            Some(generation) => generation.engine(db as u32)?,
            None => None,
        };
        let engine = match beside {
            Some(engine) => engine,
            None => {
                databases.engine(db)?;
                let engine = databases.whole(db).map(Arc::clone).ok_or_else(is_over)?;
                log::warn!(
                    "database {db} is in memory and has no room for two: what it holds is dropped \
                     before the primary's data comes"
                );
                let clear = || {
                    self.follower.service.dead_pages.note_replaced(db);
                    engine.as_admin().map_or(Ok(()), |admin| admin.clear())
                };
                self.follower.alone(clear)??;
                engine
            }
        };
        self.engines.insert(db, Arc::clone(&engine));
        Ok(engine)
    }

    /// Reads the file to its end, and writes what it has.
    fn read(&mut self, ending: &Ending, more: &mut More<'_>) -> Result<()> {
        let mut reader = FileReader::new(Limits::OPEN.bulk_bytes_max);
        let (mut bytes, mut at) = (Vec::new(), 0);
        loop {
            let (event, taken) = reader.next(&bytes[at..]).map_err(unreadable)?;
            if event == Event::Cut {
                bytes.drain(..at);
                at = 0;
                if !more(&mut bytes)? {
                    return Err(damaged("it ends in the middle"));
                }
                continue;
            }
            let is_end = self.take(event)?;
            at += taken;
            if is_end {
                break;
            }
        }
        bytes.drain(..at);
        match ending {
            Ending::Nothing => {
                while more(&mut bytes)? {}
                if !bytes.is_empty() {
                    return Err(damaged("it goes on behind its end"));
                }
            }
            Ending::Mark(mark) => {
                while bytes.len() < mark.len() {
                    if !more(&mut bytes)? {
                        return Err(damaged("it ends in the middle"));
                    }
                }
                if !bytes.starts_with(mark) {
                    return Err(damaged("its end is not where the primary said"));
                }
                bytes.drain(..mark.len());
            }
        }
        self.loaded.behind = bytes;
        Ok(())
    }

    /// Takes what stands next in the file; true for its end.
    fn take(&mut self, event: Event<'_>) -> Result<bool> {
        match event {
            Event::End => return Ok(true),
            Event::Cut | Event::Nothing => {}
            Event::Field(name, value) => {
                if *name == *b"repl-stream-db" {
                    let number = silica_proto::parse_i64(&value);
                    // A stream that has selected nothing begins by that.
                    self.selected = number.and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
                }
            }
            Event::Function(text) => {
                self.loaded.libraries += 1;
                self.libraries.push(text.into_owned());
            }
            Event::Other(name) if self.skips_unknown => {
                self.loaded.skipped += 1;
                log::debug!("a value of the type {name} is passed over");
            }
            Event::Other(name) => {
                let text = format!(
                    "the primary has a value of the type {name}, which is not known here; CONFIG \
                     SET repl-skip-unknown yes passes over such values, and counts them"
                );
                return Err(Error::new(ErrorKind::Unsupported, text));
            }
            Event::Entry(entry) => {
                let Entry { database, key, value, expires_unix_ms, user_bits } = entry;
                self.loaded.keys += 1;
                self.add(database, &key, EntryRef { value: &value, expires_unix_ms, user_bits })?;
            }
            Event::Object(entry) => {
                self.loaded.keys += 1;
                self.object(entry)?;
            }
        }
        Ok(false)
    }

    fn object(&mut self, entry: ObjectEntry) -> Result<()> {
        let ObjectEntry { database, key, value, expires_unix_ms } = entry;
        // Nobody else has pages by this name.
        let id = self.follower.service.random().max(1);
        for (nth, (key, value, user_bits)) in
            entries_of_rdb(value, &key, id)?.into_iter().enumerate()
        {
            let expires_unix_ms = if nth == 0 { expires_unix_ms } else { 0 };
            self.add(database, &key, EntryRef { value: &value, expires_unix_ms, user_bits })?;
        }
        Ok(())
    }

    fn add(&mut self, database: u64, key: &[u8], entry: EntryRef<'_>) -> Result<()> {
        let count = self.follower.service.databases.count();
        let db = usize::try_from(database).ok().filter(|db| *db < count);
        let db =
            db.ok_or_else(|| refuse_database(i64::try_from(database).unwrap_or(i64::MAX), count))?;
        self.pending_bytes += key.len() + entry.value.len() + ENTRY_BYTES;
        self.pending.entry(db).or_default().push(key, entry);
        if self.pending_bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes what was collected.
    fn write(&mut self) -> Result<()> {
        self.pending_bytes = 0;
        let mut all = std::mem::take(&mut self.pending);
        for (db, pending) in all.iter_mut().filter(|(_, pending)| !pending.entries.is_empty()) {
            let engine = self.engine(*db)?;
            let within = |error: Error| error.within(format_args!("database {db}"));
            let written = engine.write_each(&pending.batch(), Durability::Buffered);
            written.map_err(within)?;
            pending.clear();
        }
        self.pending = all;
        Ok(())
    }

    /// Puts everything in place; `mark` says which position that is.
    fn finish(mut self, mark: &Mark) -> Result<Loaded> {
        self.write()?;
        self.engines.values().try_for_each(|engine| mark.put(&**engine))?;
        if let Some(generation) = &self.generation {
            generation.sync()?;
        }
        let service = Arc::clone(&self.follower.service);
        let texts: Vec<&[u8]> = self.libraries.iter().map(Vec::as_slice).collect();
        let functions = &mut |code: &[u8]| functions_of(&service, code);
        let refused = |text: String| {
            let text = format!("a library of functions of the primary was refused: {text}");
            Error::new(ErrorKind::Unsupported, text)
        };
        service.libraries.add(&texts, Policy::Flush, functions).map_err(refused)?;
        let Load { follower, mut generation, loaded, .. } = self;
        follower.alone(|| {
            if let Some(generation) = &mut generation {
                generation.install()?;
            }
            service.databases.watchers.iter().for_each(|watchers| watchers.mark_if(|_| true));
            (0..service.databases.count()).for_each(|db| service.dead_pages.note_replaced(db));
            service.drop_replicas();
            service.replication.set_position(&mark.id, mark.offset, Some(mark.db));
            Ok::<(), Error>(())
        })??;
        service.events.forget_databases(None);
        service.tracking.tell_everything(&*service);
        service.wake_all(service.waiters.all());
        Ok(loaded)
    }
}

impl Follower {
    /// Calls `work` while nobody uses the databases, if this is still the replica that it was.
    fn alone<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let service = &self.service;
        service.databases.alone(|| match service.replication.role().1 == self.version {
            true => Ok(work()),
            false => Err(is_over()),
        })
    }
}

fn unreadable(error: silica_proto::rdb::FileError) -> Error {
    use silica_proto::rdb::FileError;
    let kind = match error {
        FileError::Version(_) | FileError::Type(_) => ErrorKind::Unsupported,
        FileError::Magic | FileError::Data | FileError::Checksum => ErrorKind::Corruption,
    };
    Error::new(kind, format!("the primary's data cannot be loaded: {error}"))
}

pub(super) fn damaged(why: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("the primary's data is damaged: {why}"))
}
