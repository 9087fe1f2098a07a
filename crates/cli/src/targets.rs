//! The keyspaces that the entries of a file go to.

use crate::forgetful;
use crate::session::Session;
use silica::{DEFAULT_KEYSPACE, Error, ErrorKind, Keyspace, Result};
use silica_console::Global;
use std::collections::BTreeMap;

/// Where entries of numbered databases go: those of database N to the keyspace that a server has
/// as its database N, or, where a keyspace was chosen, those of one database to that.
pub(crate) struct Targets<'a> {
    session: &'a Session,
    global: &'a Global,
    /// The only database whose entries are wanted.
    database: Option<u64>,
    known: BTreeMap<u64, Keyspace>,
}

impl<'a> Targets<'a> {
    pub(crate) fn new(session: &'a Session, global: &'a Global, database: Option<u64>) -> Self {
        Targets { session, global, database, known: BTreeMap::new() }
    }

    /// The keyspace for entries of `database`; `None` where they are not wanted.
    pub(crate) fn of(&mut self, database: u64) -> Result<Option<&Keyspace>> {
        if self.database.is_some_and(|wanted| wanted != database) {
            return Ok(None);
        }
        if !self.known.contains_key(&database) {
            let keyspace = self.open(database)?;
            self.known.insert(database, keyspace);
        }
        Ok(self.known.get(&database))
    }

    fn open(&self, database: u64) -> Result<Keyspace> {
        let chosen = &self.global.keyspace;
        if self.database.is_some() || (chosen == DEFAULT_KEYSPACE && database == 0) {
            return self.session.keyspace().cloned();
        }
        if chosen != DEFAULT_KEYSPACE {
            if let Some(other) = self.known.keys().next() {
                let message = format!(
                    "the file has entries of databases {other} and {database}, which would mix in \
                     keyspace '{chosen}'; choose one with --database N, or leave --keyspace out"
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
            return self.session.keyspace().cloned();
        }
        let name = format!("db{database}");
        let keyspace = self.session.store.keyspace(&name)?;
        if !keyspace.is_kept_at_close() && !self.global.forget_at_exit {
            return Err(forgetful::refusal(&name, keyspace.engine().descriptor().name));
        }
        Ok(keyspace)
    }

    /// Makes what was put durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.known.values().try_for_each(Keyspace::sync)
    }
}
