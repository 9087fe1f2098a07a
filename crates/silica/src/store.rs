//! A store: its directory, its keyspaces and their life.
//!
//! Invariants:
//!
//! 1. One process has a store open: the device holds an advisory lock on its directory.
//! 2. A keyspace is opened at its first use, once, and stays open until it is dropped or the
//!    store is closed.
//! 3. After `close` (or drop) no thread of the store runs, and what was written is synced.

mod swap;

use crate::auto::{self, AUTO, Asked, Noted};
use crate::catalog::{self, Catalog, Record};
use crate::directories::{finish_drops, refuse_missing, remove_rubbish};
use crate::keyspace::{Keyspace, Opened};
use crate::migrate::{Route, Switch, journal, read_only, target_of};
use crate::opening::{create, open_device};
use crate::options::{MEMORY_BYTES_MIN, check_fits, check_memory_bytes};
use crate::scheduler::{PAUSE_MAX, Scheduler};
use crate::{EngineSpec, HeldClock, OpenOptions, replication_file, sketch};
use log::{info, warn};
use silica_device::{Device, FileDevice};
use silica_engine::{
    Engine, EngineExt, Error, ErrorKind, MEMORY_OPTION, OptionValues, Result, unknown,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The keyspace that the command line and database 0 of the server use.
pub const DEFAULT_KEYSPACE: &str = "default";

const NAME_BYTES_MAX: usize = 255;
const EVICTION_OPTION: &str = "eviction";

/// Opens the store in the directory `path`, creating it where there is none.
///
/// Short for `OpenOptions::new().open(path)`.
pub fn open(path: impl AsRef<Path>) -> Result<Silica> {
    OpenOptions::new().open(path)
}

/// What a keyspace was created with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceInfo {
    /// Its name.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// Its options as text.
    pub options: Vec<(String, String)>,
    /// Its directory inside the store.
    pub directory: String,
}

struct State {
    catalog: Catalog,
    /// The device has no room for it. What it does not list any more has another name there.
    is_unsaved: bool,
    open: Vec<Keyspace>,
    closed: bool,
    /// Of keyspaces whose engine may be chosen, by name.
    notes: BTreeMap<String, Noted>,
}

/// An open store. Closed by [`Silica::close`], or when it is dropped.
pub struct Silica {
    path: PathBuf,
    options: OpenOptions,
    /// Bytes that all keyspaces may have together.
    memory_bytes: AtomicU64,
    state: Mutex<State>,
    scheduler: Arc<Scheduler>,
    pub(crate) clock: Arc<HeldClock>,
    /// Held while a backup is made, or a keyspace changes its engine.
    backups: Mutex<()>,
    /// Last, so that the directory is unlocked after everything else is gone.
    device: FileDevice,
}

impl Silica {
    pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Self> {
        // Before anything is created for a name that is mistyped.
        check_set(&options)?;
        for declared in &options.declared {
            check_name(&declared.name)?;
            let spec = options.registry.find(&declared.engine)?;
            OptionValues::parse(spec.options, declared.pairs())
                .map_err(|e| e.within(format_args!("keyspace '{}'", declared.name)))?;
        }
        options.check_memory()?;
        let device = open_device(path, &options)?;
        replication_file::set_aside(&device)?;
        let file = path.join(catalog::FILE).display().to_string();
        let loaded = Catalog::load(&device, &file).map_err(|error| match error.kind() {
            ErrorKind::Corruption => {
                error.within("`silica repair` brings the store's list of keyspaces back")
            }
            _ => error,
        });
        let mut catalog = match loaded? {
            Some(catalog) => catalog,
            None => create(path, &device, &options)?,
        };
        let is_unsaved = !finish_drops(path, &device, &mut catalog)?;
        let mut notes = auto::take_notes(&mut catalog, options.engine == AUTO);
        if options.is_read_only() {
            notes.clear();
        }
        if !notes.is_empty() {
            catalog.save(&device)?;
        }
        if !is_unsaved && !options.is_read_only() {
            catalog.renew_copy(&device);
            remove_rubbish(path, &device, &catalog);
        }
        let (threads, bytes) = (options.background_threads, options.background_bytes_per_second);
        let scheduler = Scheduler::start(threads, bytes, PAUSE_MAX);
        let store = Silica {
            path: path.to_path_buf(),
            clock: HeldClock::start(options.holds_expiry),
            memory_bytes: AtomicU64::new(options.memory_bytes),
            options,
            state: Mutex::new(State {
                catalog,
                is_unsaved,
                open: Vec::new(),
                closed: false,
                notes,
            }),
            scheduler: Arc::new(scheduler),
            backups: Mutex::default(),
            device,
        };
        if store.options.engine == AUTO && !store.options.is_read_only() {
            store.follow_wishes();
        }
        Ok(store)
    }

    /// What is known of keyspaces whose engine may be chosen.
    pub(crate) fn noted(&self) -> Vec<(String, Noted)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.notes.iter().map(|(name, noted)| (name.clone(), noted.clone())).collect()
    }

    pub(crate) fn change_note(&self, name: &str, change: impl FnOnce(&mut Noted)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(noted) = state.notes.get_mut(name) {
            change(noted);
        }
    }

    /// What the models are asked with.
    fn asked(&self, memory: u64) -> Result<Asked> {
        let machine = crate::kept_probe(&self.path)?.unwrap_or_default();
        Asked::new(&self.options, machine, memory)
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(Error::new(ErrorKind::Closed, "the store is closed; open it again"));
        }
        Ok(state)
    }

    /// For whatever changes the store.
    pub(crate) fn refuse_if_read_only(&self) -> Result<()> {
        if self.options.is_read_only() { Err(read_only()) } else { Ok(()) }
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// The catalog's record of a keyspace.
    pub(crate) fn record(&self, name: &str) -> Result<Record> {
        let state = self.lock()?;
        state.catalog.find(name).cloned().ok_or_else(|| no_keyspace(name, &state.catalog))
    }

    pub(crate) fn device(&self) -> &FileDevice {
        &self.device
    }

    /// Opens the keyspace `name`; where there is none it is created with the default engine.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let mut state = self.lock()?;
        if let Some(open) = state.open.iter().find(|k| k.name() == name) {
            return Ok(open.clone());
        }
        if state.catalog.find(name).is_some() {
            return self.open_listed(&mut state, name);
        }
        if self.options.is_read_only() {
            return Err(no_keyspace(name, &state.catalog));
        }
        match self.options.declared(name) {
            None => self.create_locked(&mut state, name, &self.options.engine, &[]),
            Some(declared) => {
                let pairs: Vec<_> = declared.pairs().collect();
                self.create_locked(&mut state, name, &declared.engine, &pairs)
            }
        }
    }

    /// Opens the keyspace `name`, or `None` where there is none.
    pub fn existing(&self, name: &str) -> Result<Option<Keyspace>> {
        let listed = self.lock()?.catalog.find(name).is_some();
        if listed { self.keyspace(name).map(Some) } else { Ok(None) }
    }

    /// Creates the keyspace `name` with an engine and `(name, value)` pairs of its options.
    pub fn create_keyspace(
        &self,
        name: &str,
        engine: &str,
        options: &[(&str, &str)],
    ) -> Result<Keyspace> {
        self.refuse_if_read_only()?;
        let mut state = self.lock()?;
        if let Some(record) = state.catalog.find(name) {
            let message = format!(
                "keyspace '{name}' exists already, with engine {}; open it with keyspace(), or \
                 drop it first",
                record.engine
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.create_locked(&mut state, name, engine, options)
    }

    /// All keyspaces, by name.
    pub fn keyspaces(&self) -> Result<Vec<KeyspaceInfo>> {
        let state = self.lock()?;
        let info = |r: &Record| KeyspaceInfo {
            name: r.name.clone(),
            engine: r.engine.clone(),
            options: r.engine_options().cloned().collect(),
            directory: r.directory(),
        };
        Ok(state.catalog.keyspaces.iter().map(info).collect())
    }

    /// Bytes of the memory that keyspaces have of their own; the others share the rest.
    pub fn memory_reserved(&self) -> Result<u64> {
        let state = self.lock()?;
        let own = state.catalog.keyspaces.iter().filter_map(|record| self.own_memory(record));
        Ok(own.fold(0, u64::saturating_add))
    }

    /// Removes the keyspace `name` and everything in it. Handles to it fail from then on; the
    /// files that they have open take their room on the device until they are gone.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.refuse_if_read_only()?;
        let mut state = self.lock()?;
        let Some(record) = state.catalog.find(name).cloned() else {
            return Err(no_keyspace(name, &state.catalog));
        };
        let mut catalog = state.catalog.clone();
        catalog.remove(name);
        let aside = match catalog.save(&self.device) {
            Ok(()) => None,
            Err(e) if e.kind() == ErrorKind::Full => {
                Some(self.drop_by_name(&record).map_err(|_| e)?)
            }
            Err(e) => return Err(e),
        };
        state.catalog = catalog;
        self.scheduler.remove(name);
        if let Some(at) = state.open.iter().position(|k| k.name() == name) {
            let keyspace = state.open.swap_remove(at);
            keyspace.switch().live().forget();
            keyspace.shut();
        }
        let _ = std::fs::remove_file(sketch::file_of(&self.path, &record.directory()));
        self.share_memory(&state);
        if let Some((id, _)) = target_of(&record) {
            self.remove_directory(&catalog::directory_of(id));
            self.remove_directory(&journal::directory_of(id));
        }
        match aside {
            None => self.remove_directory(&record.directory()),
            Some(aside) => state.is_unsaved = !self.save_in_place_of(&aside, &state.catalog),
        }
        Ok(())
    }

    /// Checks the catalog on the device and every keyspace; the error names what is wrong.
    pub fn verify(&self) -> Result<()> {
        let names = {
            let mut state = self.lock()?;
            let file = self.path.join(catalog::FILE).display().to_string();
            state.is_unsaved = state.is_unsaved && state.catalog.save(&self.device).is_err();
            let saved = Catalog::load(&self.device, &file)?;
            if !state.is_unsaved && saved.as_ref() != Some(&state.catalog) {
                return Err(Error::corruption(file, 0, "it is not the catalog in memory"));
            }
            state.catalog.keyspaces.iter().map(|r| r.name.clone()).collect::<Vec<_>>()
        };
        for name in names {
            let within = |e: Error| e.within(format_args!("keyspace '{name}'"));
            self.keyspace(&name).and_then(|k| k.verify()).map_err(within)?;
        }
        Ok(())
    }

    /// Makes every write that returned before the call survive a power cut.
    pub fn sync(&self) -> Result<()> {
        let open = self.lock()?.open.clone();
        open.iter().try_for_each(Keyspace::sync)
    }

    /// Stops background work, syncs and closes every keyspace. The directory is unlocked with the
    /// last handle to a keyspace or its engine.
    pub fn close(self) -> Result<()> {
        self.shut()
    }

    /// Closes a store that others have, too: it is closed to them from now on. Once it is closed it
    /// does nothing.
    pub fn shut(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Ok(());
        }
        state.closed = true;
        if state.is_unsaved {
            // Else the next opening does it.
            let _ = state.catalog.save(&self.device);
        }
        self.scheduler.stop();
        let mut first = Ok(());
        let State { open, notes, .. } = &mut *state;
        for keyspace in open.drain(..) {
            if let Some(noted) = notes.get_mut(keyspace.name()) {
                self.note(&keyspace, noted);
            }
            let synced = keyspace.engine().sync_as_far_as_it_goes();
            keyspace.switch().live().save(true);
            keyspace.shut();
            let rested = keyspace.switch().journal().map_or(Ok(()), |journal| journal.rest());
            let synced = synced.and(rested);
            let admin = keyspace.engine().as_admin();
            let closed = admin.map_or(Ok(()), |admin| admin.close(&mut |_, _| {}));
            first = first.and(synced).and(closed);
        }
        first.and_then(|()| self.keep_notes(&mut state))
    }

    /// Notes what is wished for a keyspace that is closed.
    fn note(&self, keyspace: &Keyspace, noted: &mut Noted) {
        noted.ordered |= keyspace.switch().uses_order();
        if self.options.engine == AUTO {
            let memory = keyspace.metrics().map_or(0.0, |m| m.get("memory_budget_bytes"));
            auto::wish(keyspace, noted, self.asked(memory as u64));
        }
    }

    /// Writes the notes into the catalog, where there are any.
    fn keep_notes(&self, state: &mut State) -> Result<()> {
        let State { catalog, notes, .. } = state;
        notes.retain(|name, _| catalog.find(name).is_some());
        if notes.is_empty() {
            return Ok(());
        }
        for (name, noted) in notes.iter() {
            catalog.set_option(name, catalog::CHOICE, noted.text());
        }
        catalog.save(&self.device)
    }

    fn create_locked(
        &self,
        state: &mut State,
        name: &str,
        engine: &str,
        options: &[(&str, &str)],
    ) -> Result<Keyspace> {
        check_name(name)?;
        if engine == AUTO {
            return self.create_chosen(state, name, options);
        }
        let spec = self.options.registry.find(engine)?;
        let given = self.new_options(spec, options);
        let values = OptionValues::parse(spec.options, given)?;
        let id = state.catalog.next_id;
        let record = Record {
            id,
            name: name.to_string(),
            engine: engine.to_string(),
            options: options_to_keep(spec, &values),
        };
        let mut catalog = state.catalog.clone();
        catalog.add(record.clone());
        let share = self.memory_share(&catalog);
        if share == 0 && self.own_memory(&record).is_none() {
            let message = format!(
                "the parts of the memory that other keyspaces have of their own leave nothing for \
                 '{name}'; give more memory, or '{name}' a part of it"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let keyspace = self.build(spec, &record, values, share)?;
        keyspace.engine().sync_as_far_as_it_goes()?;
        let is_special = engine != self.options.engine && self.own_memory(&record).is_none();
        if is_special && is_in_memory(&keyspace) {
            // What it takes it keeps, so the others must know.
            let bytes = spec.memory_within(share).unwrap_or(share);
            catalog.set_option(name, MEMORY_OPTION, bytes.to_string());
        }
        self.device.sync_dir()?;
        catalog.save(&self.device)?;
        state.catalog = catalog;
        info!("created keyspace '{name}' with engine {engine}");
        Ok(self.enter(state, keyspace))
    }

    /// Creates a keyspace with the engine and the options that are predicted to be best.
    fn create_chosen(
        &self,
        state: &mut State,
        name: &str,
        options: &[(&str, &str)],
    ) -> Result<Keyspace> {
        let memory = self.options.memory_of(name).unwrap_or(self.memory_bytes());
        let choice = self.asked(memory)?.choose(self.options.workload.is_some())?.choice;
        let chosen = choice.options.iter().filter(|(option, _)| *option != MEMORY_OPTION);
        let spec = self.options.registry.find(choice.engine)?;
        let texts: Vec<(&str, String)> = chosen
            .filter_map(|(option, value)| {
                let spec = spec.options.iter().find(|spec| spec.name == *option)?;
                Some((*option, spec.show(*value)))
            })
            .collect();
        let given = set_pairs(&self.options, spec).chain(options.iter().copied());
        let chosen = texts.iter().map(|(option, text)| (*option, text.as_str()));
        let all: Vec<(&str, &str)> = chosen.chain(given).collect();
        let without = auto::without(&choice.lacks);
        info!("chose engine {}{without} for keyspace '{name}', with {all:?}", choice.engine);
        let keyspace = self.create_locked(state, name, choice.engine, &all)?;
        state.notes.insert(name.to_string(), Noted::default());
        state.catalog.set_option(name, catalog::CHOICE, auto::OPEN.to_string());
        state.catalog.save(&self.device)?;
        Ok(keyspace)
    }

    /// Options of a new keyspace: those of the store, then those given for it.
    pub(crate) fn new_options<'a>(
        &'a self,
        spec: &'a EngineSpec,
        options: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        set_pairs(&self.options, spec).chain(options.iter().copied())
    }

    fn open_listed(&self, state: &mut State, name: &str) -> Result<Keyspace> {
        let record = state.catalog.find(name).expect("the caller found it").clone();
        let spec = self.options.registry.find(&record.engine)?;
        let values = self.options_of_existing(spec, &record)?;
        let share = self.memory_share(&state.catalog);
        let keyspace = refuse_missing(&self.path, spec, &record)
            .and_then(|()| self.build(spec, &record, values, share))
            .map_err(|e| e.within(format_args!("opening keyspace '{name}'")))?;
        Ok(self.enter(state, keyspace))
    }

    /// What the keyspace was created with, overlaid by the options given for this opening.
    pub(crate) fn options_of_existing(
        &self,
        spec: &EngineSpec,
        record: &Record,
    ) -> Result<OptionValues> {
        let kept = record.engine_options().map(|(n, v)| (n.as_str(), v.as_str()));
        let mut values = OptionValues::parse(spec.options, kept)?;
        let declared = self.options.declared(&record.name);
        if let Some(other) = declared.filter(|declared| declared.engine != record.engine) {
            let message = format!(
                "keyspace '{}' has engine {}, not {}; drop it first, or choose another keyspace",
                record.name, record.engine, other.engine
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let given = set_pairs(&self.options, spec);
        let given = given.chain(declared.into_iter().flat_map(|declared| declared.pairs()));
        let given = OptionValues::parse(spec.options, given)?;
        for (name, value) in given.iter() {
            let option = spec.options.iter().find(|option| option.name == name);
            let option = option.expect("parsed options are in their table");
            if option.fixed && values.value(spec.options, name) != value {
                let message = format!(
                    "option {name} of keyspace '{}' was fixed to {} when it was created; leave it \
                     out, or create another keyspace",
                    record.name,
                    option.show(values.value(spec.options, name)),
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
            values.set(name, value);
        }
        Ok(values)
    }

    fn build(
        &self,
        spec: &EngineSpec,
        record: &Record,
        mut values: OptionValues,
        share: u64,
    ) -> Result<Keyspace> {
        let own_memory = self.own_memory(record).is_some() || values.memory_bytes().is_some();
        let part = self.options.keyspace_memory.iter().find(|(name, _)| *name == record.name);
        let bytes = part.map(|(_, bytes)| *bytes).or((!own_memory).then_some(share));
        if let Some(bytes) = bytes.and_then(|bytes| spec.memory_within(bytes)) {
            values.set_memory_bytes(bytes);
        }
        check_fits(spec.name, &values)?;
        let directory = self.directory_of(&record.directory())?;
        let engine = (spec.open)(directory, &values, &self.clock.environment(&self.options)?)?;
        let is_read_only = self.options.is_read_only();
        let journal = if is_read_only { None } else { self.journal_of(record)? };
        let switch = Arc::new(Switch::new(Arc::clone(&engine)).read_only(is_read_only));
        if let Some(journal) = journal {
            switch.turn(Route::Noted(engine, journal));
        }
        let keys = || switch.as_admin().and_then(|a| a.count(false).ok()).unwrap_or_default();
        let file = sketch::file_of(&self.path, &record.directory());
        if !is_read_only {
            switch.live().open(file, || keys().estimate);
            self.scheduler.add(&record.name, Arc::clone(&switch) as Arc<dyn Engine>);
        }
        Ok(Keyspace::new(Opened {
            root: self.path.clone(),
            name: record.name.clone(),
            directory: record.directory(),
            switch,
            own_memory,
            memory_bytes: self.memory_bytes(),
            durability: self.options.durability,
            scheduler: Arc::clone(&self.scheduler),
        }))
    }

    /// The directory `name` of a keyspace; a new one with its logs where they are wanted.
    fn directory_of(&self, name: &str) -> Result<FileDevice> {
        let directory = self.device.subdirectory(name)?;
        let Some(wanted) = self.options.log_path.as_ref().map(|path| path.join(name)) else {
            return Ok(directory);
        };
        if directory.is_read_only() {
            return Ok(directory);
        }
        if directory.logs_path().is_none() && directory.list()?.is_empty() {
            crate::refuse_within_store(&wanted, "the log")?;
            return directory.put_logs(&wanted);
        }
        let there = directory.logs_path().unwrap_or(directory.path());
        if wanted.canonicalize().ok().as_deref() != Some(there) {
            warn!("the log of {name} stays in {}, where it was created", there.display());
        }
        Ok(directory)
    }

    fn enter(&self, state: &mut State, keyspace: Keyspace) -> Keyspace {
        state.open.push(keyspace.clone());
        self.share_memory(state);
        keyspace
    }

    /// The memory number of a keyspace that has its own: given for this opening, or for ever.
    fn own_memory(&self, record: &Record) -> Option<u64> {
        self.options.memory_of(&record.name).or_else(|| {
            let kept = record.options.iter().find(|(name, _)| name == MEMORY_OPTION);
            kept.and_then(|(_, value)| silica_engine::parse_size(value))
        })
    }

    /// Bytes for each keyspace that has no memory number of its own.
    fn memory_share(&self, catalog: &Catalog) -> u64 {
        let own = || catalog.keyspaces.iter().filter_map(|record| self.own_memory(record));
        let reserved = own().fold(0, u64::saturating_add);
        let sharing = catalog.keyspaces.len() - own().count();
        self.memory_bytes().saturating_sub(reserved) / sharing.max(1) as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Lets all keyspaces together have `bytes` of memory from now on, as
    /// [`OpenOptions::memory_bytes`] does at the start. Keyspaces with a part of their own keep it;
    /// the others share the rest. They come down to less while they go on.
    ///
    /// # Errors
    /// `Config` where the number is out of range, or leaves nothing beside the parts that keyspaces
    /// have of their own.
    pub fn set_memory_bytes(&self, bytes: u64) -> Result<()> {
        check_memory_bytes("memory", bytes)?;
        let state = self.lock()?;
        let own = state.catalog.keyspaces.iter().filter_map(|record| self.own_memory(record));
        let reserved = own.fold(0, u64::saturating_add);
        if bytes.saturating_sub(reserved) < MEMORY_BYTES_MIN {
            let message = format!(
                "keyspaces have {reserved} bytes of the memory of their own, which leaves too \
                 little of {bytes} for the others; give more"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.memory_bytes.store(bytes, Ordering::Relaxed);
        self.share_memory(&state);
        Ok(())
    }

    /// Gives every open keyspace its share of the memory, after their number changed.
    fn share_memory(&self, state: &State) {
        let share = self.memory_share(&state.catalog);
        for keyspace in state.open.iter().filter(|k| !k.own_memory()) {
            let name = keyspace.engine().descriptor().name;
            if let (Ok(spec), Some(admin)) =
                (self.options.registry.find(name), keyspace.engine().as_admin())
                && let Some(bytes) = spec.memory_within(share)
            {
                admin.set_memory_bytes(bytes);
            }
        }
    }
}

/// What migrations need of a store.
impl Silica {
    pub(crate) fn hold_backups(&self) -> MutexGuard<'_, ()> {
        self.backups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spec(&self, engine: &str) -> Result<&EngineSpec> {
        self.options.registry.find(engine)
    }

    /// Changes the catalog, in memory and on the device.
    pub(crate) fn edit_catalog(&self, edit: impl FnOnce(&mut Catalog)) -> Result<()> {
        self.refuse_if_read_only()?;
        let mut state = self.lock()?;
        let mut catalog = state.catalog.clone();
        edit(&mut catalog);
        self.device.sync_dir()?;
        catalog.save(&self.device)?;
        state.catalog = catalog;
        Ok(())
    }

    pub(crate) fn has_own_memory(&self, record: &Record) -> bool {
        self.own_memory(record).is_some()
    }

    pub(crate) fn share_all_memory(&self) {
        if let Ok(state) = self.lock() {
            self.share_memory(&state);
        }
    }

    /// The record of the keyspace `name` with another engine, and that engine, opened in the
    /// directory of number `id`, or of a new one. The old engine and the new one have half of the
    /// memory each; one that keeps nothing on the device keeps what it gets.
    pub(crate) fn open_beside(
        &self,
        name: &str,
        engine: &str,
        options: &[(&str, &str)],
        id: Option<u64>,
    ) -> Result<(Record, Arc<dyn Engine>)> {
        self.refuse_if_read_only()?;
        let mut state = self.lock()?;
        let spec = self.options.registry.find(engine)?;
        let old = state.catalog.find(name).ok_or_else(|| no_keyspace(name, &state.catalog))?;
        let given = self.new_options(spec, options);
        let mut values = OptionValues::parse(spec.options, given)?;
        let eviction = spec.options.iter().any(|spec| spec.name == EVICTION_OPTION);
        if eviction && values.given(EVICTION_OPTION).is_none() {
            // A migration forgets nothing.
            let none = [(EVICTION_OPTION, "none")];
            let given = self.new_options(spec, options).chain(none);
            values = OptionValues::parse(spec.options, given)?;
        }
        let whole = self.own_memory(old).unwrap_or_else(|| self.memory_share(&state.catalog));
        let half = spec.memory_within(whole / 2);
        let mut record = Record {
            id: id.unwrap_or(state.catalog.next_id),
            name: name.to_string(),
            engine: engine.to_string(),
            options: options_to_keep(spec, &values),
        };
        let is_given = values.memory_bytes().is_some();
        if let Some(bytes) = half.filter(|_| !is_given) {
            values.set_memory_bytes(bytes);
        }
        check_fits(engine, &values)?;
        let environment = self.clock.environment(&self.options)?;
        let directory = self.directory_of(&record.directory());
        let built = directory.and_then(|made| (spec.open)(made, &values, &environment));
        let opened = built.and_then(|engine| engine.sync_as_far_as_it_goes().map(|()| engine));
        let opened = opened.inspect_err(|_| {
            if id.is_none() {
                self.remove_directory(&record.directory());
            }
        })?;
        if let Some(bytes) = half.filter(|_| !opened.descriptor().capabilities.durable && !is_given)
        {
            record.options.push((MEMORY_OPTION.into(), bytes.to_string()));
        }
        let source = state.open.iter().find(|keyspace| keyspace.name() == name);
        if let (Some(source), Some(bytes)) = (source, clamp_of(&self.options, old, whole / 2)) {
            let engine = source.engine();
            engine.as_admin().iter().for_each(|admin| admin.set_memory_bytes(bytes));
        }
        // What is created before the caller edits the catalog is not to get the same directory.
        state.catalog.next_id = state.catalog.next_id.max(record.id + 1);
        Ok((record, opened))
    }
}

fn clamp_of(options: &OpenOptions, record: &Record, bytes: u64) -> Option<u64> {
    options.registry.find(&record.engine).ok()?.memory_within(bytes)
}

impl Drop for Silica {
    fn drop(&mut self) {
        if let Err(e) = self.shut() {
            log::error!("closing {}: {e}", self.path.display());
        }
    }
}

/// What was set for all keyspaces of an engine: where it is chosen, what it knows of that.
fn set_pairs<'a>(
    options: &'a OpenOptions,
    spec: &'a EngineSpec,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let is_theirs = move |name: &str| match options.engine.as_str() {
        AUTO => spec.options.iter().any(|spec| spec.name == name),
        engine => engine == spec.name,
    };
    let these = options.set.iter().filter(move |(name, _)| is_theirs(name));
    these.map(|(n, v)| (n.as_str(), v.as_str()))
}

/// Refuses options that no keyspace could have.
fn check_set(options: &OpenOptions) -> Result<()> {
    silica_tune::recommend::describe(options.workload.as_deref().unwrap_or_default())?;
    if options.engine != AUTO {
        let spec = options.registry.find(&options.engine)?;
        OptionValues::parse(spec.options, set_pairs(options, spec))?;
        return Ok(());
    }
    for spec in options.registry.iter() {
        OptionValues::parse(spec.options, set_pairs(options, spec))?;
    }
    let known = |name: &str| {
        options.registry.iter().any(|r| r.options.iter().any(|spec| spec.name == name))
    };
    let all = options.registry.iter().flat_map(|r| r.options).map(|spec| spec.name);
    let strange = options.set.iter().find(|(name, _)| !known(name));
    strange.map_or(Ok(()), |(name, _)| Err(unknown("option", name, all)))
}

/// True where nothing of a keyspace is on the device.
fn is_in_memory(keyspace: &Keyspace) -> bool {
    !keyspace.engine().descriptor().capabilities.durable
}

fn options_to_keep(spec: &EngineSpec, values: &OptionValues) -> Vec<(String, String)> {
    let keep = |s: &&silica_engine::OptionSpec| s.fixed || values.given(s.name).is_some();
    let text = |s: &silica_engine::OptionSpec| {
        (s.name.to_string(), s.show(values.value(spec.options, s.name)))
    };
    spec.options.iter().filter(keep).map(text).collect()
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let message = format!(
            "a keyspace name has 1 to {NAME_BYTES_MAX} bytes and no control characters; \
             {name:?} does not"
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

fn no_keyspace(name: &str, catalog: &Catalog) -> Error {
    let names: Vec<_> = catalog.keyspaces.iter().map(|r| r.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
    Error::new(ErrorKind::NotFound, format!("no keyspace '{name}'; there are {known}"))
}
