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
//! 2. Of a target whose migration was interrupted only that is trusted of which a note says that
//!    it is the same and durable, but for the keys that were written since, which a journal has
//!    (`journal.rs`). Where there is no such note, as after a power cut amid writes, every entry
//!    is compared, and what differs is copied or removed.

mod copy;
mod dual;
pub(crate) mod journal;
mod sorted;
mod staged;
mod switch;
mod updates;

use crate::catalog::{Catalog, MIGRATION, Record};
use crate::{Keyspace, Silica};
use copy::{Mover, Sum};
use dual::{Dual, Phase};
use journal::{Journal, Note};
use log::{info, warn};
use silica_device::Device;
use silica_engine::{Capabilities, Engine, EngineExt, Error, ErrorKind, Result};
use std::sync::Arc;
pub(crate) use switch::{Route, Switch, read_only};

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
    /// Entries of either engine that this call looked at: about three times as many as there are,
    /// and fewer where it went on.
    pub looked: u64,
}

/// An option of [`Silica::migrate`] beside those of the engine: `on` where the keyspace may forget
/// everything when the process ends.
pub const FORGET_AT_EXIT: &str = "forget_at_exit";

/// Takes [`FORGET_AT_EXIT`] out of `options`; whether it is on, and the engine's options.
fn may_forget<'a>(options: &[(&'a str, &'a str)]) -> Result<(bool, Vec<(&'a str, &'a str)>)> {
    let (asked, rest): (Vec<_>, Vec<_>) =
        options.iter().copied().partition(|(name, _)| *name == FORGET_AT_EXIT);
    match asked.last() {
        None | Some((_, "off")) => Ok((false, rest)),
        Some((_, "on")) => Ok((true, rest)),
        Some((_, other)) => {
            let message = format!("{FORGET_AT_EXIT} is on or off, not {other}");
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}

/// What it ends with where writes to the keyspace are noted.
const NOTED: &str = " noted";

/// Number and engine of the target of `record`, where it is being migrated.
pub(crate) fn target_of(record: &Record) -> Option<(u64, &str)> {
    let (_, text) = record.options.iter().find(|(name, _)| name == MIGRATION)?;
    let (id, engine) = text.split_once(' ')?;
    Some((id.parse().ok()?, engine.strip_suffix(NOTED).unwrap_or(engine)))
}

/// The number of the target of `record`, where writes are noted until the migration goes on.
pub(crate) fn noted_target_of(record: &Record) -> Option<u64> {
    let (_, text) = record.options.iter().find(|(name, _)| name == MIGRATION)?;
    let (id, _) = target_of(record)?;
    text.ends_with(NOTED).then_some(id)
}

impl Silica {
    /// Moves the keyspace `name` to another engine, with `(name, value)` pairs of options, while
    /// it is read and written: handles to it stay what they are. `progress` is told how far it is;
    /// an error that it returns ends the migration, and it can go on later where its kind is
    /// `Closed`.
    ///
    /// Until the end the keyspace is what it was: an error, or a crash, changes nothing. A
    /// migration that a crash interrupted goes on where it was when it is asked for again, unless
    /// one of the engines keeps nothing on the device, or so much was written that everything is
    /// compared again. Writes wait for pieces of a few hundred KiB that are copied, and are written
    /// twice.
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
    /// An engine in memory forgets its entries when the process ends, unless it leaves an image
    /// (`mica` with `warm_restart=on`). From a keyspace that keeps its entries such a migration is
    /// refused, unless `options` have [`FORGET_AT_EXIT`] `on`. Where there is to be an image, one
    /// is durable before the old engine's files go.
    ///
    /// # Errors
    /// `Config` for an engine that is not known, that the keyspace has already or that would
    /// forget, or where partitions belong to threads; `TooLarge` for an entry, which is named,
    /// over the engine's limits; `Full` where device or memory has no room.
    pub fn migrate(
        &self,
        name: &str,
        engine: &str,
        options: &[(&str, &str)],
        progress: &mut dyn FnMut(MigrateProgress) -> Result<()>,
    ) -> Result<MigrateReport> {
        self.refuse_if_read_only()?;
        let keyspace = self.existing(name)?.ok_or_else(|| {
            let message = format!("no keyspace '{name}' to migrate");
            Error::new(ErrorKind::NotFound, message)
        })?;
        let switch = Arc::clone(keyspace.switch());
        let source = self.check_migration(&keyspace, engine)?;
        self.check_kept(name, engine, options)?;
        let (_, options) = may_forget(options)?;
        let (target, engine, resumed) = self.open_target(&keyspace, engine, &options)?;
        let known = switch.journal().filter(|_| resumed);
        let is_known = known.is_some();
        let journal = match known {
            Some(known) => Some(known),
            None => match self.new_journal(&source, &engine, &target, resumed) {
                Ok(journal) => journal,
                Err(error) => {
                    drop(engine);
                    self.forget_target(&keyspace);
                    self.share_all_memory();
                    return Err(error);
                }
            },
        };
        let dual = Arc::new(Dual::new(source, engine, journal));
        switch.turn(Route::Both(Arc::clone(&dual)));
        let moved = self.move_entries(&dual, resumed, is_known, progress);
        let outcome = moved.and_then(|report| {
            self.finish(&keyspace, &dual, &target)?;
            Ok(report)
        });
        if let Err(error) = &outcome {
            dual.end();
            let goes_on = error.kind() == ErrorKind::Closed;
            let journal = dual.journal().filter(|journal| goes_on && journal.note().is_some());
            switch.turn(match journal {
                Some(journal) => Route::Noted(Arc::clone(&dual.source), Arc::clone(journal)),
                None => Route::Plain(Arc::clone(&dual.source)),
            });
            drop(dual);
            if !goes_on {
                self.forget_target(&keyspace);
            }
        }
        self.share_all_memory();
        outcome
    }

    /// Refuses a migration, with what [`Silica::migrate`] would be told, after which a keyspace
    /// that keeps its entries would forget them when the process ends.
    ///
    /// # Errors
    /// `Config` where it would, and nobody said that it may, or for an unknown engine or option;
    /// `NotFound` where there is no such keyspace.
    pub fn check_kept(&self, name: &str, engine: &str, options: &[(&str, &str)]) -> Result<()> {
        let (may_forget, options) = may_forget(options)?;
        if may_forget || !self.would_forget(engine, &options)? {
            return Ok(());
        }
        match self.existing(name)? {
            Some(keyspace) if keyspace.is_kept_at_close() => Err(forgets(name, engine)),
            _ => Ok(()),
        }
    }

    /// True where a new keyspace of `engine` would forget its entries when the process ends.
    fn would_forget(&self, engine: &str, options: &[(&str, &str)]) -> Result<bool> {
        let spec = self.spec(engine)?;
        self.options().registry.forgets(engine, self.new_options(spec, options))
    }

    /// Where it is noted what is written to a keyspace whose migration was interrupted.
    pub(crate) fn journal_of(&self, record: &Record) -> Result<Option<Arc<Journal>>> {
        let Some(id) = noted_target_of(record) else { return Ok(None) };
        let device = self.device().subdirectory(&journal::directory_of(id))?;
        Ok(Journal::open(device)?.map(Arc::new))
    }

    /// The journal of a migration that begins, or whose target is not trusted.
    fn new_journal(
        &self,
        source: &Arc<dyn Engine>,
        engine: &Arc<dyn Engine>,
        target: &Record,
        resumed: bool,
    ) -> Result<Option<Arc<Journal>>> {
        let keeps = |engine: &Arc<dyn Engine>| engine.descriptor().capabilities.durable;
        if !keeps(source) || !keeps(engine) {
            return Ok(None);
        }
        let device = self.device().subdirectory(&journal::directory_of(target.id))?;
        Journal::create(device, &Note::new(resumed)).map(|journal| Some(Arc::new(journal)))
    }

    /// Copies and compares: where the journal of an interrupted migration `is_known`, what is left.
    fn move_entries(
        &self,
        dual: &Dual,
        resumed: bool,
        is_known: bool,
        progress: &mut dyn FnMut(MigrateProgress) -> Result<()>,
    ) -> Result<MigrateReport> {
        let count = dual.source.as_admin().and_then(|admin| admin.count(false).ok());
        let journal = dual.journal().map(|journal| &**journal);
        // First the keys: where they are damaged, the note is worth nothing.
        let keys = match journal.filter(|_| is_known) {
            Some(journal) => journal.keys()?,
            None => None,
        };
        let note = journal.filter(|_| keys.is_some()).and_then(Journal::note);
        let mut mover = Mover {
            dual,
            journal,
            note: note.unwrap_or_else(|| Note::new(resumed)),
            copied: 0,
            looked: 0,
            entries_estimate: count.map_or(0, |count| count.estimate),
        };
        let keys = keys.unwrap_or_default();
        let moved = mover.recheck(keys.iter().map(Vec::as_slice));
        let moved = moved.and_then(|()| mover.run(progress));
        let sum = moved.inspect_err(|error| {
            if error.kind() == ErrorKind::Closed {
                // Less is left then; without it there is the note before.
                let _ = mover.keep();
            }
        })?;
        let Sum { entries, bytes, checksum } = sum;
        let Mover { copied, looked, .. } = mover;
        Ok(MigrateReport { entries, bytes, checksum, copied, resumed, looked })
    }

    /// The engine that has the entries, where the keyspace may be migrated.
    fn check_migration(&self, keyspace: &Keyspace, engine: &str) -> Result<Arc<dyn Engine>> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        let switch = keyspace.switch();
        let has = switch.descriptor().name;
        if has == engine {
            return refuse(format!("keyspace '{}' has engine {engine} already", keyspace.name()));
        }
        self.spec(engine)?;
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
            catalog.set_option(name, MIGRATION, format!("{} {engine}{NOTED}", record.id));
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
        dual.target.sync_as_far_as_it_goes()?;
        let _backup = self.hold_backups();
        let mut turn = dual.turn()?;
        dual.target.sync_as_far_as_it_goes()?;
        let Capabilities { durable, kept_at_close, .. } = dual.target.descriptor().capabilities;
        if kept_at_close && !durable {
            // The old files go, so the image must be there.
            switch::admin(&dual.target)?.save(&mut |_, _| {})?;
        }
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
        self.remove_directory(&journal::directory_of(record.id));
        Ok(())
    }

    /// Throws away a target.
    fn forget_target(&self, keyspace: &Keyspace) {
        let name = keyspace.name();
        let Ok(record) = self.record(name) else { return };
        let Some((id, _)) = target_of(&record) else { return };
        let directory = crate::catalog::directory_of(id);
        let switch = keyspace.switch();
        if let (Some(source), Some(_)) = (switch.plain(), switch.journal()) {
            switch.turn(Route::Plain(source));
        }
        // Nobody is to trust a target that is being removed.
        self.remove_directory(&journal::directory_of(id));
        let is_distrusted = self.device().sync_dir().is_ok()
            && !self.path().join(journal::directory_of(id)).exists();
        let forget = || self.edit_catalog(|catalog| catalog.remove_option(name, MIGRATION));
        if forget().is_ok() {
            return self.remove_directory(&directory);
        }
        // A full disk has no room for the catalog either. What is removed before the catalog
        // forgets it must not be half a target, in case that is the last thing that happens.
        if !is_distrusted {
            return warn!("keeping {directory}: its note cannot be removed");
        }
        match self.set_aside(&directory) {
            Ok(aside) => self.remove_directory(&aside),
            Err(e) => warn!("making room by removing {directory}: {e}"),
        }
        if let Err(e) = forget() {
            warn!("forgetting the migration of keyspace '{name}': {e}");
        }
    }
}

fn forgets(name: &str, engine: &str) -> Error {
    let message = format!(
        "engine {engine} is in memory, and would forget keyspace '{name}' when the process ends; \
         set warm_restart=on, so that a clean stop leaves an image, or {FORGET_AT_EXIT}=on (on \
         the command line --forget-at-exit, of a server FORGET-AT-EXIT) if it may be forgotten"
    );
    Error::new(ErrorKind::Config, message)
}
