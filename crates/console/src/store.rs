//! The store that a command's options name.

use crate::Global;
use silica::{Error, ErrorKind, Keyspace, OpenOptions, Result, Silica};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store of a command line that names none.
const DIRECTORY_DEFAULT: &str = "silica-data";

impl Global {
    /// The store's directory.
    pub fn directory(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| Path::new(DIRECTORY_DEFAULT).to_path_buf())
    }

    /// Options as the flags say.
    pub fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::new().read_only(self.read_only);
        if let Some(threads) = self.background_threads {
            options = options.background_threads(threads);
        }
        if let Some(bytes) = self.memory {
            options = options.memory_bytes(bytes);
        }
        for (name, bytes) in &self.keyspace_memory {
            options = options.keyspace_memory(name, *bytes);
        }
        if let Some(engine) = &self.engine {
            options = options.engine(engine);
        }
        if let Some(words) = &self.describe {
            options = options.workload(words);
        }
        if let Some(bytes) = self.background_rate {
            options = options.background_bytes_per_second(bytes);
        }
        if let Some(path) = &self.log_path {
            options = options.log_path(path);
        }
        self.set.iter().fold(options, |options, (name, value)| options.set(name, value))
    }
}

/// A store that a command works on: opened for it, or a prompt's.
pub struct Opened {
    store: Arc<Silica>,
    is_at_hand: bool,
}

impl Deref for Opened {
    type Target = Silica;

    fn deref(&self) -> &Silica {
        &self.store
    }
}

impl Opened {
    /// The store itself, for a prompt that goes on with it.
    pub fn share(&self) -> Arc<Silica> {
        Arc::clone(&self.store)
    }

    /// True if it is the store of a prompt, which goes on with it.
    pub fn is_at_hand(&self) -> bool {
        self.is_at_hand
    }

    /// Closes the store, unless the prompt goes on with it.
    pub fn close(self) -> Result<()> {
        if self.is_at_hand { Ok(()) } else { self.store.shut() }
    }
}

impl Global {
    /// The store; with `create` it is made where there is none.
    pub fn open(&self, create: bool) -> Result<Opened> {
        self.open_at(&self.directory(), create)
    }

    /// The store in the directory `path`.
    pub fn open_at(&self, path: &Path, create: bool) -> Result<Opened> {
        let at_hand = self.at_hand.as_ref().filter(|store| is_same(store.path(), path));
        if let Some(store) = at_hand {
            return Ok(Opened { store: Arc::clone(store), is_at_hand: true });
        }
        let store = Arc::new(self.open_options().create(create).open(path)?);
        Ok(Opened { store, is_at_hand: false })
    }

    /// True where the command's store is the one that a prompt has open.
    pub fn is_at_hand(&self) -> bool {
        self.at_hand.as_ref().is_some_and(|store| is_same(store.path(), &self.directory()))
    }

    /// What `--set` says, as pairs.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.set.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// True where both paths lead to one directory.
fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

impl Global {
    /// Refuses a keyspace that exists with another engine than the one asked for.
    pub fn check_engine(&self, keyspace: &Keyspace) -> Result<()> {
        let has = keyspace.engine().descriptor().name;
        match &self.engine {
            Some(engine) if engine != has && engine != silica::AUTO => {
                let message = format!(
                    "keyspace '{}' has engine {has}, not {engine}; leave --engine out, or choose \
                     another keyspace or --path",
                    keyspace.name()
                );
                Err(Error::new(ErrorKind::Config, message))
            }
            _ => Ok(()),
        }
    }
}
