//! The keyspaces of an open store, as `silica_keyspace` finds them.

use crate::layout::{HEADER_KEY, is_header};
use silica::Silica;
use silica::engine::{Engine, EngineExt};
use std::sync::Arc;

/// Where `silica_keyspace` finds the keyspaces of a store.
pub trait Keyspaces: Send + Sync {
    /// The engine of the keyspace `name`; `None` if there is none. If `is_to_write`, it is asked
    /// for to be written.
    ///
    /// # Errors
    /// Whatever keeps the keyspace from being opened, or the asker from using it.
    fn find(&self, name: &str, is_to_write: bool) -> silica::Result<Option<Arc<dyn Engine>>>;

    /// The engine of a keyspace that is made if it is not there.
    ///
    /// # Errors
    /// As of [`Keyspaces::find`].
    fn create(&self, name: &str) -> silica::Result<Arc<dyn Engine>>;

    /// The names of all keyspaces.
    ///
    /// # Errors
    /// As of [`Keyspaces::find`].
    fn names(&self) -> silica::Result<Vec<String>>;
}

impl Keyspaces for Silica {
    fn find(&self, name: &str, _: bool) -> silica::Result<Option<Arc<dyn Engine>>> {
        Ok(self.existing(name)?.map(|keyspace| Arc::clone(keyspace.engine())))
    }

    fn create(&self, name: &str) -> silica::Result<Arc<dyn Engine>> {
        Ok(Arc::clone(self.keyspace(name)?.engine()))
    }

    fn names(&self) -> silica::Result<Vec<String>> {
        Ok(self.keyspaces()?.into_iter().map(|info| info.name).collect())
    }
}

/// True if the keyspace of `engine` is a database of SQL.
///
/// # Errors
/// Those of a get.
pub fn is_database(engine: &dyn Engine) -> silica::Result<bool> {
    engine.get_with(HEADER_KEY, |entry| entry.is_some_and(|entry| is_header(entry.value)))
}
