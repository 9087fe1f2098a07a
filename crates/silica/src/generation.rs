//! Keyspaces that are filled beside those that are served, and take their places together.
//!
//! Invariants:
//!
//! 1. Until [`Generation::install`] the store is what it was: the catalog lists no directory of the
//!    generation, so after a crash it is rubbish that the next opening removes.
//! 2. One write of the catalog puts all keyspaces of the generation in place. A crash leaves all of
//!    the old ones or all of the new ones.
//! 3. What is installed was synced before the catalog names it.

use crate::catalog::Record;
use crate::migrate::Route;
use crate::{Keyspace, Silica};
use log::info;
use silica_engine::{Engine, EngineExt, Error, ErrorKind, Result};
use std::sync::Arc;

/// A keyspace of a generation.
struct Part {
    /// The one whose place it takes.
    keyspace: Keyspace,
    record: Record,
    engine: Arc<dyn Engine>,
}

/// Empty keyspaces beside those of a store. Dropped, it removes what was not installed.
///
/// Both generations take room on the device until the new one is in place.
///
/// ```
/// use silica::{Durability, EngineExt};
///
/// # let name = format!("silica-doc-generation-{}", std::process::id());
/// # let path = std::env::temp_dir().join(name);
/// # let store = silica::open(&path)?;
/// let users = store.keyspace("users")?;
/// users.put("ann", "blue")?;
/// let mut generation = store.begin_generation();
/// let new = generation.engine("users")?.expect("its engine is durable");
/// new.put(b"bob", b"red", Durability::Buffered)?;
/// assert_eq!(users.get("bob")?, None);
/// generation.install()?;
/// assert_eq!((users.get("ann")?, users.get("bob")?), (None, Some(b"red".to_vec())));
/// # drop((users, new, generation));
/// # drop(store);
/// # std::fs::remove_dir_all(&path).ok();
/// # Ok::<(), silica::Error>(())
/// ```
pub struct Generation<'s> {
    store: &'s Silica,
    parts: Vec<Part>,
}

impl Silica {
    /// Begins a generation, which has no keyspace yet.
    pub fn begin_generation(&self) -> Generation<'_> {
        Generation { store: self, parts: Vec::new() }
    }
}

impl Generation<'_> {
    /// The engine that takes the place of the keyspace `name`: empty at first, of the kind and with
    /// the options of the one that is there. `None` if that one is not durable: nothing can be put
    /// in its place that a crash would leave.
    ///
    /// # Errors
    /// `Config` while the keyspace is migrated, or if threads own its partitions; `Full` without
    /// room.
    pub fn engine(&mut self, name: &str) -> Result<Option<Arc<dyn Engine>>> {
        if let Some(part) = self.parts.iter().find(|part| part.record.name == name) {
            return Ok(Some(Arc::clone(&part.engine)));
        }
        let keyspace = self.store.keyspace(name)?;
        if !keyspace.engine().descriptor().capabilities.durable {
            return Ok(None);
        }
        refuse_busy(&keyspace)?;
        let old = self.store.record(name)?;
        let options: Vec<(&str, &str)> =
            old.engine_options().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (record, engine) = self.store.open_beside(name, &old.engine, &options, None)?;
        let id = record.id;
        self.parts.push(Part { keyspace, record, engine: Arc::clone(&engine) });
        // Nobody else gets the number of its directory after a restart either.
        self.store.edit_catalog(|catalog| catalog.next_id = catalog.next_id.max(id + 1))?;
        Ok(Some(engine))
    }

    /// Makes what was written to the generation so far durable.
    ///
    /// # Errors
    /// Those of the engines.
    pub fn sync(&self) -> Result<()> {
        self.parts.iter().try_for_each(|part| part.engine.sync_as_far_as_it_goes())
    }

    /// Puts all keyspaces of the generation in place, in one step. Handles to the keyspaces are
    /// handles to the new ones then; snapshots stay what they are.
    ///
    /// # Errors
    /// Those of a sync and of writing the catalog: then the old ones are in place.
    pub fn install(&mut self) -> Result<()> {
        self.sync()?;
        let store = self.store;
        let _backups = store.hold_backups();
        let mut replaced = Vec::new();
        for part in &self.parts {
            refuse_busy(&part.keyspace)?;
            replaced.push(store.record(&part.record.name)?.directory());
        }
        store.edit_catalog(|catalog| {
            for part in &self.parts {
                catalog.remove(&part.record.name);
                catalog.add(part.record.clone());
            }
        })?;
        for Part { keyspace, record, engine } in self.parts.drain(..) {
            keyspace.move_to(record.directory(), store.has_own_memory(&record));
            keyspace.switch().turn(Route::Plain(engine));
            info!("keyspace '{}' was replaced as a whole", record.name);
        }
        replaced.iter().for_each(|directory| store.remove_directory(directory));
        store.share_all_memory();
        Ok(())
    }
}

impl Drop for Generation<'_> {
    fn drop(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        for Part { record, engine, .. } in self.parts.drain(..) {
            drop(engine);
            self.store.remove_directory(&record.directory());
        }
        self.store.share_all_memory();
    }
}

impl std::fmt::Debug for Generation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.parts.iter().map(|part| part.record.name.as_str());
        f.debug_list().entries(names).finish()
    }
}

/// Refuses a keyspace whose entries are not in one engine that can be replaced.
fn refuse_busy(keyspace: &Keyspace) -> Result<()> {
    let (name, switch) = (keyspace.name(), keyspace.switch());
    let why = match switch.plain() {
        _ if switch.has_owners() => "has partitions that threads own (--mode erew or crew)",
        None => "changes its engine; wait for the end of that",
        Some(_) => return Ok(()),
    };
    Err(Error::new(ErrorKind::Config, format!("keyspace '{name}' {why}")))
}

#[cfg(test)]
mod tests {
    use crate::{Silica, open};

    fn directory_of(store: &Silica, name: &str) -> String {
        store.record(name).expect("it is there").directory()
    }

    #[test]
    fn a_keyspace_that_is_created_meanwhile_has_a_directory_of_its_own() {
        let name = format!("silica-generation-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let store = open(&path).expect("it opens");
        store.keyspace("users").expect("it is created");
        let engine = store.record("users").expect("it is there").engine.clone();
        let (record, beside) = store.open_beside("users", &engine, &[], None).expect("it opens");
        // As a client's first SELECT does while all data of a primary begins to come.
        let other = store.keyspace("other").expect("it is created");
        assert_ne!(directory_of(&store, "other"), record.directory());
        drop(beside);
        store.remove_directory(&record.directory());
        other.put("k", "v").expect("it has its files");
        assert_eq!(other.get("k").expect("a value"), Some(b"v".to_vec()));
        drop(other);
        drop(store);
        std::fs::remove_dir_all(&path).expect("it is removed");
    }
}
