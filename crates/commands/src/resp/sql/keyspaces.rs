//! The keyspaces of the store as a client's statements find them: numbered databases with what
//! stands before their engines, and only for users who may have all keys.

use crate::database_set::DatabaseSet;
use crate::databases::database_index;
use silica::engine::{Engine, Error, ErrorKind, Result};
use silica_sql::Keyspaces;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See the module's documentation.
pub(super) struct ClientKeyspaces {
    databases: Arc<DatabaseSet>,
    /// The user of the statement that runs may read and write every key.
    pub(super) has_all_keys: AtomicBool,
    /// A numbered database was asked for to be written.
    pub(super) has_written: AtomicBool,
}

impl ClientKeyspaces {
    pub(super) fn of(databases: &Arc<DatabaseSet>) -> Self {
        ClientKeyspaces {
            databases: Arc::clone(databases),
            has_all_keys: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
        }
    }

    fn check(&self) -> Result<()> {
        if self.has_all_keys.load(Relaxed) {
            return Ok(());
        }
        let message = "keyspaces as tables are for users who may read and write all keys (ACL \
                       SETUSER NAME allkeys)";
        Err(Error::new(ErrorKind::Config, message))
    }

    fn by_name(&self, name: &str, writes: bool, creates: bool) -> Result<Option<Arc<dyn Engine>>> {
        self.check()?;
        if writes && database_index(name).is_some() {
            self.has_written.store(true, Relaxed);
        }
        self.databases.by_name(name, creates)
    }
}

impl Keyspaces for ClientKeyspaces {
    fn find(&self, name: &str, is_to_write: bool) -> Result<Option<Arc<dyn Engine>>> {
        self.by_name(name, is_to_write, false)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Engine>> {
        let missing = || {
            let message = format!("there is no keyspace '{name}', and none can be made here");
            Error::new(ErrorKind::NotFound, message)
        };
        self.by_name(name, true, true)?.ok_or_else(missing)
    }

    fn names(&self) -> Result<Vec<String>> {
        self.check()?;
        self.databases.names()
    }
}
