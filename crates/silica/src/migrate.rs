//! Migration of a keyspace to another engine while it is read and written.
//!
//! Every keyspace's engine is a [`Switch`]. A migration opens the target in a directory of its own,
//! sends writes to both engines, copies the entries, compares all of them, and then lets the
//! catalog name the target: that one step is the switch.
//!
//! Invariants:
//!
//! 1. Until the catalog names the target, the source has every acknowledged write, as durable as
//!    was asked; from then on the target has. So a crash at any point leaves one complete engine.
//! 2. A target whose migration was interrupted is not trusted: when the migration goes on, every
//!    entry is compared, and what differs is copied or removed.

mod copy;
mod dual;
mod switch;

use crate::catalog::{Catalog, Record};
use crate::{Keyspace, Silica};
use copy::Sum;
use dual::{Dual, Phase};
use log::{info, warn};
use silica_engine::{Engine, Error, ErrorKind, Result};
use std::sync::Arc;
pub(crate) use switch::{Route, Switch};

/// How far a migration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrateProgress {
    /// What is being done: `copy`, `sweep`, `verify` or `switch`.
    pub phase: &'static str,
    /// Entries that were looked at.
    pub entries: u64,
    /// Entries that there are, roughly.
    pub entries_estimate: u64,
}

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrateReport {
    /// Entries that were compared and are the same in both engines.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Sum of checksums of all entries, the same in both engines.
    pub checksum: u64,
    /// Entries that were copied; the others came with writes, or before an interruption.
    pub copied: u64,
    /// It went on where an earlier one was interrupted.
    pub resumed: bool,
}

/// The name under which a record keeps its migration, beside its options.
pub(crate) const MIGRATION: &str = "migration";

/// Number and engine of the target of `record`, where it is being migrated.
pub(crate) fn target_of(record: &Record) -> Option<(u64, &str)> {
    let (_, text) = record.options.iter().find(|(name, _)| name == MIGRATION)?;
    let (id, engine) = text.split_once(' ')?;
    Some((id.parse().ok()?, engine))
}

impl Silica {
    /// Moves the keyspace `name` to another engine, with `(name, value)` pairs of options, while
    /// it is read and written: handles to it stay what they are. `progress` is told how far it is;
    /// an error that it returns ends the migration, and it can go on later where its kind is
    /// `Closed`.
    ///
    /// Until the end the keyspace is what it was: an error, or a crash, changes nothing. A
    /// migration that a crash interrupted goes on when it is asked for again. Writes wait for
    /// pieces of a few hundred KiB that are copied, and are written twice.
    ///
    /// ```
    /// # let name = format!("silica-doc-migrate-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// # let store = silica::OpenOptions::new().engine("silt").open(&path)?;
    /// let users = store.keyspace("users")?;
    /// users.put("ann", "blue")?;
    /// let report = store.migrate("users", "wip", &[], &mut |_| Ok(()))?;
    /// assert_eq!((report.entries, users.engine().descriptor().name), (1, "wip"));
    /// assert_eq!(users.range(..)?.count(), 1);
    /// # drop((users, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Config` for an engine that is not known or that the keyspace has already, or where
    /// partitions belong to threads; `TooLarge` for an entry, which is named, over the engine's
    /// limits; `Full` where device or memory has no room.
    pub fn migrate(
        &self,
        name: &str,
        engine: &str,
        options: &[(&str, &str)],
        progress: &mut dyn FnMut(MigrateProgress) -> Result<()>,
    ) -> Result<MigrateReport> {
        let keyspace = self.existing(name)?.ok_or_else(|| {
            let message = format!("no keyspace '{name}' to migrate");
            Error::new(ErrorKind::NotFound, message)
        })?;
        let switch = Arc::clone(keyspace.switch());
        let source = self.check_migration(&keyspace, engine)?;
        let (target, engine, resumed) = self.open_target(&keyspace, engine, options)?;
        let dual = Arc::new(Dual::new(source, engine));
        switch.turn(Route::Both(Arc::clone(&dual)));
        let outcome = move_entries(&dual, resumed, progress).and_then(|(sum, copied)| {
            self.finish(&keyspace, &dual, &target)?;
            let Sum { entries, bytes, checksum } = sum;
            Ok(MigrateReport { entries, bytes, checksum, copied, resumed })
        });
        if let Err(error) = &outcome {
            dual.end();
            switch.turn(Route::Plain(Arc::clone(&dual.source)));
            drop(dual);
            if error.kind() != ErrorKind::Closed {
                self.forget_target(&keyspace);
            }
        }
        self.share_all_memory();
        outcome
    }

    /// The engine that has the entries, where the keyspace may be migrated.
    fn check_migration(&self, keyspace: &Keyspace, engine: &str) -> Result<Arc<dyn Engine>> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        let switch = keyspace.switch();
        let has = switch.descriptor().name;
        if has == engine {
            return refuse(format!("keyspace '{}' has engine {engine} already", keyspace.name()));
        }
        self.registration(engine)?;
        if switch.has_owners() {
            return refuse(format!(
                "partitions of keyspace '{}' belong to threads (--mode erew or crew); migrate it \
                 in a process where they do not",
                keyspace.name()
            ));
        }
        match switch.plain() {
            Some(source) => Ok(source),
            None => refuse(format!("keyspace '{}' is being migrated already", keyspace.name())),
        }
    }

    /// Opens the target, a new one or that of an interrupted migration, and notes it in the
    /// catalog.
    fn open_target(
        &self,
        keyspace: &Keyspace,
        engine: &str,
        options: &[(&str, &str)],
    ) -> Result<(Record, Arc<dyn Engine>, bool)> {
        let name = keyspace.name();
        let old = self.record(name)?;
        let found = target_of(&old).filter(|(_, known)| *known == engine).map(|(id, _)| id);
        if target_of(&old).is_some() && found.is_none() {
            self.forget_target(keyspace);
        }
        let (record, opened) = self.open_beside(name, engine, options, found)?;
        let is_resumed = found.is_some();
        let noted = self.edit_catalog(|catalog| {
            catalog.next_id = catalog.next_id.max(record.id + 1);
            catalog.set_option(name, MIGRATION, format!("{} {engine}", record.id));
        });
        if let Err(error) = noted {
            drop(opened);
            if !is_resumed {
                self.remove_directory(&record.directory());
            }
            return Err(error);
        }
        info!("migrating keyspace '{name}' to engine {engine}, resumed: {is_resumed}");
        Ok((record, opened, is_resumed))
    }

    /// Lets the catalog name the target.
    fn finish(&self, keyspace: &Keyspace, dual: &Dual, target: &Record) -> Result<()> {
        let name = keyspace.name();
        // Most of it while writers go on.
        dual.target.sync()?;
        let _backup = self.hold_backups();
        let mut turn = dual.turn()?;
        dual.target.sync()?;
        let record = target;
        let old = self.record(name)?.directory();
        self.edit_catalog(|catalog: &mut Catalog| {
            catalog.remove(name);
            catalog.add(record.clone());
        })?;
        // Whoever waits for a turn goes to the target.
        *turn = Phase::Over;
        drop(turn);
        keyspace.move_to(record.directory(), self.has_own_memory(record));
        keyspace.switch().turn(Route::Plain(Arc::clone(&dual.target)));
        info!("keyspace '{name}' has engine {} now", record.engine);
        self.remove_directory(&old);
        Ok(())
    }

    /// Throws away a target.
    fn forget_target(&self, keyspace: &Keyspace) {
        let name = keyspace.name();
        let Ok(record) = self.record(name) else { return };
        let Some((id, _)) = target_of(&record) else { return };
        let directory = crate::catalog::directory_of(id);
        let forget = || self.edit_catalog(|catalog| catalog.remove_option(name, MIGRATION));
        if forget().is_ok() {
            return self.remove_directory(&directory);
        }
        // A full disk has no room for the catalog either. What is removed before the catalog
        // forgets it must not be half a target, in case that is the last thing that happens.
        match self.set_aside(&directory) {
            Ok(aside) => self.remove_directory(&aside),
            Err(e) => warn!("making room by removing {directory}: {e}"),
        }
        if let Err(e) = forget() {
            warn!("forgetting the migration of keyspace '{name}': {e}");
        }
    }
}

/// Copies and compares; what there is, and how many entries were copied.
fn move_entries(
    dual: &Dual,
    resumed: bool,
    progress: &mut dyn FnMut(MigrateProgress) -> Result<()>,
) -> Result<(Sum, u64)> {
    let count = dual.source.as_admin().and_then(|admin| admin.count(false).ok());
    let all = count.map_or(0, |count| count.estimate);
    let mut tell = |phase, entries, entries_estimate| {
        progress(MigrateProgress { phase, entries, entries_estimate })
    };
    let copied = copy::copy(dual, &mut |entries| tell("copy", entries, all))?;
    if resumed {
        copy::sweep(dual, &mut |entries| tell("sweep", entries, all))?;
    }
    let sum = copy::compare(dual, &mut |entries| tell("verify", entries, 2 * all))?;
    tell("switch", sum.entries, sum.entries)?;
    Ok((sum, copied))
}
