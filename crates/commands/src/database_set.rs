//! The numbered databases, opened when they are first used.

use crate::databases::{Databases, Generation, database_index};
use crate::gate::{self, Gate, Serve, Turn};
use crate::jobs::{Job, Jobs};
use crate::migrations::Migrations;
use crate::nothing::Nothing;
use crate::owners::Owners;
use crate::places::{DatabasePlace, Places};
use crate::recordings::Recordings;
use crate::watch::{PlaceWatchers, Watched, Watchers};
use silica::engine::{Engine, EngineExt, Error, ErrorKind, MetricVisitor, Result};
use silica::tune::recommend::Why;
use silica::{HeldClock, RecordOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// All databases of a server.
pub struct DatabaseSet {
    source: Arc<dyn Databases>,
    pub(crate) migrations: Migrations,
    pub(crate) jobs: Jobs,
    pub(crate) recordings: Recordings,
    /// What is open, by its place.
    slots: Vec<OnceLock<Arc<dyn Engine>>>,
    clock: Option<Arc<HeldClock>>,
    places: Arc<Places>,
    /// Lets one thread be alone with all databases.
    gate: Gate,
    /// Who watches which keys, by database.
    pub(crate) watchers: Arc<[Arc<Watchers>]>,
    /// The threads that own partitions, if any do.
    pub(crate) owners: Option<Arc<dyn Owners>>,
    /// Held while one is opened, so that none is opened twice.
    opening: Mutex<()>,
    /// Databases of SQL that somebody has asked for.
    sql: Mutex<BTreeMap<String, Arc<silica_sql::Database>>>,
}

impl DatabaseSet {
    /// The first `count` databases of `source`, whose partitions `owners` own if there are any.
    pub fn new(source: Arc<dyn Databases>, count: u32, owners: Option<Arc<dyn Owners>>) -> Self {
        let slots = (0..count).map(|_| OnceLock::new()).collect();
        let watchers = (0..count).map(|_| Arc::new(Watchers::new())).collect();
        DatabaseSet {
            clock: source.clock(),
            source,
            migrations: Migrations::default(),
            jobs: Jobs::default(),
            recordings: Recordings::default(),
            slots,
            places: Arc::default(),
            gate: Gate::default(),
            watchers,
            owners,
            opening: Mutex::new(()),
            sql: Mutex::default(),
        }
    }

    /// Opens the databases that are there already, so that their figures are shown from the start.
    /// One that cannot be opened is told about, and again by its first use.
    pub fn open_listed(&self) {
        for index in self.source.listed() {
            let index = index as usize;
            if index < self.count()
                && let Err(error) = self.engine(index)
            {
                log::error!("database {index} is not there: {error}");
            }
        }
    }

    /// The clock by which entries expire, if it can be held back.
    pub(crate) fn clock(&self) -> Option<&HeldClock> {
        self.clock.as_deref()
    }

    /// True while what has expired is still there: see [`HeldClock`]. Who reads compares.
    #[inline]
    pub(crate) fn holds_expired(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.is_held())
    }

    /// Begins to move database `index` to another engine.
    pub(crate) fn migrate(
        &self,
        index: u32,
        engine: String,
        options: Vec<(String, String)>,
    ) -> Result<()> {
        let pairs: Vec<_> = options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        self.source.check_migration(index, &engine, &pairs)?;
        self.migrations.start(Arc::clone(&self.source), index, engine, options)
    }

    /// Begins a backup, a check or a compaction.
    pub(crate) fn start_job(&self, job: Job) -> Result<()> {
        let source = Arc::clone(&self.source);
        let work = job.clone();
        self.jobs.start(&job, move |tell| match work {
            Job::Backup(backup) => source.backup(&backup, tell),
            Job::Verify => source.verify(tell),
            Job::Compact => source.compact(tell),
            // Of the databases that are open, which the command knows.
            Job::Save => Ok(String::new()),
        })
    }

    /// The databases that may hold something, by number, if they outlive this process: none if
    /// threads own their partitions, which may not run yet.
    pub(crate) fn held(&self) -> Result<Vec<(usize, &dyn Engine)>> {
        let held = (0..self.count()).filter(|db| self.owners.is_none() && self.may_hold(*db));
        held.map(|db| Ok((db, self.engine(db)?))).collect()
    }

    /// Begins a generation of the databases; `None` if all of them are in memory.
    pub(crate) fn begin_generation(&self) -> Result<Option<Box<dyn Generation + '_>>> {
        self.source.begin_generation()
    }

    /// As [`Databases::take_replication_state`].
    pub(crate) fn take_replication_state(&self) -> Option<Vec<u8>> {
        self.source.take_replication_state()
    }

    /// As [`Databases::leave_replication_state`].
    pub(crate) fn leave_replication_state(&self, bytes: &[u8]) -> Result<bool> {
        self.source.leave_replication_state(bytes)
    }

    /// Lets all databases together have `bytes` of memory from now on.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) -> Result<()> {
        self.source.set_memory_bytes(bytes)
    }

    /// Begins to record database `index`.
    pub(crate) fn record(&self, index: u32, options: &RecordOptions) -> Result<()> {
        self.recordings.start(&*self.source, index, options)
    }

    /// What database `index` is asked, as text.
    pub(crate) fn workload(&self, index: u32) -> Result<String> {
        self.source.workload(index)
    }

    /// The place of database `index`, which has it until the next swap.
    #[inline]
    pub(crate) fn place_of(&self, index: usize) -> usize {
        self.places.of_number(index)
    }

    /// The database in a place, which has it until the next swap.
    pub(crate) fn number_of(&self, place: usize) -> usize {
        self.places.number_of(place)
    }

    /// What is open in a place.
    pub(crate) fn at_place(&self, place: usize) -> Option<&dyn Engine> {
        self.slots.get(place)?.get().map(Arc::as_ref)
    }

    /// For a thread that uses databases without an executor: see [`DatabaseSet::enter`].
    pub fn new_turn(&self) -> Arc<Turn> {
        self.gate.new_turn()
    }

    /// Waits until nobody is alone with all databases; until what is returned is dropped, nobody
    /// will be, and numbers of databases keep their meaning.
    pub fn enter<'t>(&self, turn: &'t Turn) -> MutexGuard<'t, ()> {
        turn.try_enter().unwrap_or_else(|| self.with_serve(|serve| turn.enter(serve)))
    }

    /// Calls `work` while no burst runs. The caller is in none itself.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        self.with_serve(|serve| self.gate.alone(serve, work))
    }

    /// Locks `mutex`; a thread that owns partitions serves others meanwhile.
    pub(crate) fn lock<'m, T>(&self, mutex: &'m Mutex<T>) -> MutexGuard<'m, T> {
        self.with_serve(|serve| gate::lock(mutex, serve))
    }

    /// Calls `work` with what a thread that waits does for others.
    pub(crate) fn with_serve<T>(&self, work: impl FnOnce(Serve<'_>) -> T) -> T {
        match &self.owners {
            None => work(None),
            Some(owners) => work(Some(&|| owners.serve())),
        }
    }

    /// The places in which something is open, a bit each.
    pub(crate) fn opened_places(&self) -> u32 {
        let places = (0..self.slots.len()).filter(|place| self.slots[*place].get().is_some());
        places.fold(0, |all, place| all | 1 << place)
    }

    /// Lets two databases have each other's numbers. Marks who watches a key that was in one of
    /// them, as Redis does. The caller is alone with the databases.
    pub(crate) fn swap(&self, one: usize, other: usize) -> Result<()> {
        if one == other {
            return Ok(());
        }
        let is_watched = [one, other].iter().any(|index| self.watchers[*index].is_active());
        let marked = if is_watched { Some([self.engine(one)?, self.engine(other)?]) } else { None };
        self.source.swap(one as u32, other as u32)?;
        let Some(engines) = marked else {
            self.places.swap(one, other);
            return Ok(());
        };
        let is_there = |key: &[u8]| {
            // Who cannot be asked may have held it.
            engines
                .iter()
                .any(|engine| !matches!(engine.get_with(key, |entry| entry.is_some()), Ok(false)))
        };
        self.places.swap(one, other);
        [one, other].iter().for_each(|index| self.watchers[*index].mark_if(is_there));
        Ok(())
    }

    /// Number of databases, opened or not.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Database `index` where it was opened before.
    pub fn opened(&self, index: usize) -> Option<&dyn Engine> {
        self.whole(index).map(Arc::as_ref)
    }

    /// Database `index` if it was opened before, to be kept.
    pub(crate) fn whole(&self, index: usize) -> Option<&Arc<dyn Engine>> {
        self.slots[self.place_of(index)].get()
    }

    /// Database `index`; opens it where needed, which may wait for a device.
    pub fn engine(&self, index: usize) -> Result<&dyn Engine> {
        if let Some(engine) = self.opened(index) {
            return Ok(engine);
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.opened(index).is_none() {
            let engine = self.source.open(index as u32)?;
            let place = self.place_of(index);
            let watchers =
                PlaceWatchers::new(&self.watchers, DatabasePlace::new(&self.places, place));
            let engine = Watched::wrap(&watchers, engine);
            let engine = match &self.owners {
                Some(owners) => Arc::clone(owners).wrap(place, engine, &watchers),
                None => engine,
            };
            // Nobody else fills the slot while the lock is held.
            let _ = self.slots[place].set(engine);
        }
        Ok(self.opened(index).expect("the slot was just filled"))
    }

    /// Database `index`, which is made if it is not there and it `is_needed`: else one without
    /// entries stands for it.
    pub(crate) fn engine_if(
        &self,
        index: usize,
        is_needed: impl FnOnce() -> bool,
    ) -> Result<&dyn Engine> {
        match self.may_hold(index) || is_needed() {
            true => self.engine(index),
            false => Ok(&Nothing),
        }
    }

    /// The database of SQL called `name`, if it is there; else it is made if it `may_create`.
    pub(crate) fn sql(
        &self,
        name: &str,
        may_create: bool,
    ) -> Result<Option<Arc<silica_sql::Database>>> {
        let mut known = self.sql.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = known.get(name) {
            return Ok(Some(Arc::clone(database)));
        }
        if database_index(name).is_some() {
            let message =
                format!("'{name}' is a database of keys; give the database of SQL another name");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let database = self.source.sql(name, may_create)?;
        if let Some(database) = &database {
            known.insert(name.to_string(), Arc::clone(database));
        }
        Ok(database)
    }

    /// The engine of a keyspace by its name, as commands use it; one that is missing is made if it
    /// `may_create`.
    pub(crate) fn by_name(&self, name: &str, may_create: bool) -> Result<Option<Arc<dyn Engine>>> {
        let Some(index) = database_index(name) else { return self.source.named(name, may_create) };
        let index = index as usize;
        if index >= self.count() || (!may_create && !self.may_hold(index)) {
            return Ok(None);
        }
        self.engine(index)?;
        Ok(self.whole(index).map(Arc::clone))
    }

    /// The names of all keyspaces.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.source.names()
    }

    /// What the models say of database `index`, where it is open and somebody can tell.
    pub fn why(&self, index: usize) -> Option<Result<Why>> {
        self.opened(index)?;
        self.source.why(index as u32).transpose()
    }

    /// The sum of a metric of the engines that have it; `None` where none has.
    pub(crate) fn total(&self, metric: &'static str) -> Option<u64> {
        let opened = (0..self.count()).filter_map(|index| self.opened(index));
        opened.filter_map(|engine| metric_of(engine, metric)).reduce(|a, b| a + b)
    }

    /// True where database `index` may hold entries.
    pub(crate) fn may_hold(&self, index: usize) -> bool {
        self.opened(index).is_some() || self.source.exists(index as u32)
    }
}

/// A metric of `engine`, where it has that.
pub(crate) fn metric_of(engine: &dyn Engine, metric: &'static str) -> Option<u64> {
    struct Find(&'static str, Option<u64>);
    impl MetricVisitor for Find {
        fn metric(&mut self, name: &'static str, value: f64) {
            if name == self.0 {
                self.1 = Some(value as u64);
            }
        }
    }
    let mut find = Find(metric, None);
    engine.metrics(&mut find);
    find.1
}
